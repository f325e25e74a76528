"""Sites all of different sizes: common fraction and server rank searched together."""

from collections.abc import Iterator
from functools import partial

import numpy as np

import fedconformal as fc
from benchmarks._timing import Row, compare, duration, seconds, sorting, sorting_row

SMALLEST = 50
LIMIT = 60.0


def run() -> Iterator[Row]:
    """The federations of the repetitions differ by one point per site: no cache answers for us."""
    fc.plan(n_points=_sizes(100), confidence_level=0.9)
    ours = [partial(fc.plan, n_points=_sizes(1000, shift), confidence_level=0.9) for shift in range(3)]
    count = 10**8
    yield sorting_row("1,000 sites of different sizes", compare(ours, sorting(count)), count)
    took = seconds(partial(fc.plan, n_points=_sizes(10_000), confidence_level=0.9))
    yield Row(
        what="10,000 sites of different sizes",
        ours=duration(took),
        anchor="one minute",
        ratio=f"{took / LIMIT:.3g}",
        goal="< 1",
        met=took < LIMIT,
    )


def _sizes(n_sites: int, shift: int = 0) -> list[int]:
    sizes = np.random.default_rng(n_sites).permutation(n_sites) + SMALLEST + shift
    return [int(size) for size in sizes]
