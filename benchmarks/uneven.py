"""Sites all of different sizes: common fraction and server rank searched together."""

from collections.abc import Iterator
from functools import partial

import numpy as np

import fedconformal as fc
from benchmarks._timing import Row, compare, duration, seconds, sorting, sorting_row

SMALLEST = 50
LIMIT = 60.0
CRITERIA = {"marginal": "", "stable": ", stable"}


def run(*, some: int = 1000, many: int = 10_000, count: int = 10**8, repetitions: int = 3) -> Iterator[Row]:
    """So many sites; the anchor is a sort of ``count`` floats."""
    fc.plan(n_points=_sizes(2))  # loads what it needs
    anchor = sorting(count)
    for criterion, words in CRITERIA.items():
        # The federations of the repetitions differ by one point per site: no cache answers for us.
        plan = partial(fc.plan, confidence_level=0.9, criterion=criterion)
        ours = [partial(plan, n_points=_sizes(some, shift)) for shift in range(repetitions)]
        yield sorting_row(f"{some:,} sites of different sizes{words}", compare(ours, anchor), count)
    for criterion, words in CRITERIA.items():
        took = seconds(partial(fc.plan, n_points=_sizes(many), confidence_level=0.9, criterion=criterion))
        yield Row(
            what=f"{many:,} sites of different sizes{words}",
            ours=duration(took),
            anchor="one minute",
            ratio=f"{took / LIMIT:.3g}",
            goal="< 1",
            met=took < LIMIT,
        )


def _sizes(n_sites: int, shift: int = 0) -> list[int]:
    sizes = np.random.default_rng(n_sites).permutation(n_sites) + SMALLEST + shift
    return [int(size) for size in sizes]
