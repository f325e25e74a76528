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

_LEADERS = 32  # kinds that add most on average at a coverage, with which the others are compared


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
    casts: Sequence[tuple[int, ...]], cells: Sequence[Floats], counts: Ints, max_faulty: int
) -> set[int]:
    """Kinds of which no site need be taken for faulty, since there are enough that do more harm.

    If a choice of faulty sites has y in it, and as many sites as may be faulty are worse than y, then one of
    them is not in the choice, and with it in the place of y the choice is no better.

    Parameters
    ----------
    casts : sequence of tuple of int
        For each kind the votes that a site may cast, none first.
    cells : sequence of array
        How likely it casts them: a row for each coverage.
    counts : array of int
        How many sites there are of each kind.
    max_faulty : int
        How many sites are faulty.

    Returns
    -------
    set of int
        Places of these kinds.
    """
    every, leaders = np.arange(len(casts)), _leaders(casts, cells)
    sums = [_sums(cell) for cell in cells]
    worse = _is_as_bad(casts, sums, leaders, every)
    as_good = _is_as_bad(casts, sums, every, leaders).T
    worse &= ~as_good | (leaders[:, None] < every)  # of those that are alike the first is worse
    return set(np.flatnonzero(counts[leaders] @ worse >= max_faulty).tolist())


def _leaders(casts: Sequence[tuple[int, ...]], cells: Sequence[Floats]) -> Ints:
    """Kinds that may be worse than others: they add most at the first, a middle or the last coverage."""
    added = np.stack([cast[-1] - cell @ np.array(cast) for cast, cell in zip(casts, cells, strict=True)])
    some = added[:, [0, added.shape[1] // 2, -1]]
    return np.unique(np.argsort(-some, axis=0, kind="stable")[:_LEADERS])


def _is_as_bad(casts: Sequence[tuple[int, ...]], sums: Sequence[Floats], xs: Ints, ys: Ints) -> Bools:
    """Whether a site of kind x adds stochastically no less than one of kind y, at every coverage."""
    found = np.zeros((xs.size, ys.size), dtype=bool)
    alike_x, alike_y = (places_by([casts[i] for i in places]) for places in (xs, ys))
    for x, rows in alike_x.items():
        for y, columns in alike_y.items():
            # y adds at least y[-1] - votes if it would have cast at most these votes; x adds as much if it
            # would have cast at most its own total less that.
            same = [bisect_right(x, x[-1] - y[-1] + votes) for votes in y[:-1]]
            more = np.stack([sums[xs[i]][:, same] for i in rows])
            less = np.stack([sums[ys[i]][:, 1 : len(y)] for i in columns])
            found[np.ix_(rows, columns)] = (more[:, None] >= less).all(axis=(2, 3))
    return found


def _sums(cell: Floats) -> Floats:
    """P(less than none, one, two, ... numbers lie below)."""
    found: Floats = np.concatenate([np.zeros((len(cell), 1)), np.cumsum(cell, axis=1)], axis=1)
    return found
