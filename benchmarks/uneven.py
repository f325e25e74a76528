"""Sites all of different sizes, against sorting.

The paper has equal sites only. For a thousand sites the yardstick is a `numpy.sort` of
a hundred million floats, for ten thousand sites one minute of patience. Goal: no longer
than that, in time of the processor.
"""

from collections.abc import Iterator
from functools import partial
from time import process_time

import numpy as np

import fedconformal as fc
from benchmarks._rows import ONCE, Figure, Row, beside, sorted_beside
from benchmarks._timing import compare, seconds, sorting

SMALLEST = 50
LIMIT = 60.0
CRITERIA = ("marginal", "stable")


def run(
    *, some: int = 1000, many: int = 10_000, count: int = 10**8, repetitions: int = 3
) -> Iterator[Row]:
    """So many sites; the yardstick is a sort of ``count`` floats."""
    fc.plan(n_points=_sizes(2))  # loads what it needs
    yardstick = sorting(count)
    for criterion in CRITERIA:
        # The federations of the repetitions differ by one point per site: no cache
        # answers for us.
        plan = partial(fc.plan, confidence_level=0.9, criterion=criterion)
        ours = [
            partial(plan, n_points=_sizes(some, shift)) for shift in range(repetitions)
        ]
        yield sorted_beside(
            "plan",
            _words(some, criterion),
            compare(ours, yardstick, process_time),
            count,
        )
    for criterion in CRITERIA:
        plan = partial(
            fc.plan, n_points=_sizes(many), confidence_level=0.9, criterion=criterion
        )
        took = seconds(plan, process_time)
        setting = _words(many, criterion)
        yield beside(
            "plan",
            setting,
            Figure(took, "s"),
            Figure(LIMIT, "s", "one minute"),
            factor=ONCE,
        )


def _words(sites: int, criterion: str) -> str:
    return f"{sites:,} sites of different sizes, {criterion}"


def _sizes(n_sites: int, shift: int = 0) -> list[int]:
    sizes = np.random.default_rng(n_sites).permutation(n_sites) + SMALLEST + shift
    return [int(size) for size in sizes]
