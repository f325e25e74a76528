"""Which faulty sites do most harm.

A faulty site casts all its votes, also those that it would not have cast. If what it adds is stochastically
more at site x than at site y, then whoever else is faulty, x is worse than y.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from fedconformal._typing import Bools, Floats, Ints

T = TypeVar("T")


def places_by(values: Sequence[T]) -> dict[T, list[int]]:
    """At which places each value stands.

    Parameters
    ----------
    values : sequence
        Perhaps with repetitions.

    Returns
    -------
    dict
        In the order of their first occurrence.
    """
    found: dict[T, list[int]] = defaultdict(list)
    for place, value in enumerate(values):
        found[value].append(place)
    return found


def needless(
    casts: Sequence[tuple[int, ...]], cells: Sequence[Floats], counts: Ints, faulty: int
) -> set[int]:
    """Kinds of which no site need be taken for faulty, as there are enough that do more harm.

    Parameters
    ----------
    casts : sequence of tuple of int
        For each kind the votes that a site may cast, none first.
    cells : sequence of array
        How likely it casts them: a row for each coverage.
    counts : array of int
        How many sites there are of each kind.
    faulty : int
        How many sites are faulty.

    Returns
    -------
    set of int
        Places of these kinds.
    """
    worse = _at_least_as_bad(casts, cells)
    order = np.arange(len(casts))
    worse &= ~(worse.T & (order[:, None] >= order))  # of two that are alike the first is worse
    return set(np.flatnonzero(counts @ worse >= faulty).tolist())


def _at_least_as_bad(casts: Sequence[tuple[int, ...]], cells: Sequence[Floats]) -> Bools:
    """Whether a faulty site of kind x adds stochastically no less than one of kind y: the entry (x, y)."""
    found = np.zeros((len(casts), len(casts)), dtype=bool)
    alike = places_by(casts)
    sums = {cast: np.stack([_sums(cells[place]) for place in places]) for cast, places in alike.items()}
    for x, places_x in alike.items():
        for y, places_y in alike.items():
            # y adds y[-1] - votes or more if it would have cast at most so many; x does if it would have
            # cast at most x[-1] less that.
            same = [bisect_right(x, x[-1] - y[-1] + votes) for votes in y[:-1]]
            pairs = sums[x][:, None, :, same] >= sums[y][None, :, :, 1 : len(y)]
            found[np.ix_(places_x, places_y)] = pairs.all(axis=(2, 3))
    return found


def _sums(cell: Floats) -> Floats:
    """P(less than one, two, ... numbers below), a column of zeros first."""
    found: Floats = np.concatenate([np.zeros((len(cell), 1)), np.cumsum(cell, axis=1)], axis=1)
    return found
