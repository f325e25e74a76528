"""The paper's whole array M, against the paper's own algorithm.

`coverage_table` beside Algorithm 1 as it is published, which a reader of the paper
would write down, and beside a kinder reading that shares one product between all
entries. Goal: a thousandth of the time of the published one.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

import fedconformal as fc
from benchmarks import paper_algorithm
from benchmarks._rows import Row, timed
from benchmarks._timing import Comparison, seconds, summarise

CALLS = 20
GOAL = 1 / 1000

Table = Callable[[], NDArray[np.float64]]


def run(
    n_sites: int = 10, n_points: int = 20, *, repetitions: tuple[int, int] = (3, 9)
) -> Iterator[Row]:
    """The goal is set against the algorithm as published; the kinder reading is there
    for the reader.
    """
    ours = partial(fc.coverage_table, n_sites=n_sites, n_points=n_points)
    distance = np.abs(ours() - paper_algorithm.table_shared(n_sites, n_points)).max()
    if not distance < 1e-10:
        raise ArithmeticError(
            f"our table and the paper's algorithm differ by {distance:.1e}"
        )
    setting = f"m = {n_sites}, n = {n_points}"
    published, kinder = (
        _timed(ours, partial(yardstick, n_sites, n_points), times)
        for yardstick, times in zip(
            (paper_algorithm.table, paper_algorithm.table_shared),
            repetitions,
            strict=True,
        )
    )
    yield timed("whole table", setting, published, "the paper's algorithm", goal=GOAL)
    yield timed(
        "whole table, kinder reading",
        setting,
        kinder,
        "the same, one product for all r",
    )


def _timed(ours: Table, yardstick: Table, repetitions: int) -> Comparison:
    return summarise(
        [(_seconds_each(ours), seconds(yardstick)) for _ in range(repetitions)]
    )


def _seconds_each(ours: Table) -> float:
    """Mean of a few calls: one alone is too short to time well."""
    return seconds(lambda: [ours() for _ in range(CALLS)]) / CALLS
