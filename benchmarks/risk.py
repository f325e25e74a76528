"""Scores from losses, against one pass over them.

`scores.from_losses` checks every loss and finds the first one of each case that is
small enough. Beside it is one pass of numpy over the same array, its sum. Goal: at most
3 times that.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

import fedconformal as fc
from benchmarks._rows import Row, timed
from benchmarks._timing import compare

GOAL = 3


def run(
    *, cases: int = 1_000_000, settings: int = 100, repetitions: int = 9
) -> Iterator[Row]:
    """So many cases at so many settings."""
    rng = np.random.default_rng(29)
    grid, x, u = np.linspace(0, 1, settings), rng.random((cases, 1)), rng.random(cases)
    losses = np.maximum(0, 1 - grid / x)
    losses[:, -1] = 0
    once = partial(fc.scores.from_losses, losses, grid, u)
    expected = grid[np.searchsorted(grid, x[:, 0] * (1 - u) - 1e-12)]
    if not np.array_equal(once(), expected):
        raise RuntimeError(
            "a score is not the smallest setting whose loss is small enough"
        )
    comparison = compare([once] * repetitions, losses.sum)
    setting = f"{cases:,} cases x {settings} settings"
    yield timed(
        "scores from losses",
        setting,
        comparison,
        "one numpy sum over the losses",
        goal=GOAL,
    )
