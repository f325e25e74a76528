"""Sites whose numbers can never change the threshold: they need not be asked."""

from functools import reduce
from operator import or_

import numpy as np

from fedconformal._typing import Bools, Ints

_LARGEST_SUM = 200_000  # votes up to which sums are listed exactly


def matters(weights: Ints, counts: Ints, votes: int) -> Bools:
    """For each block, whether one of its sites can decide if the votes are reached.

    Parameters
    ----------
    weights : array of shape (blocks, numbers)
        Votes of each number of a site; 0 for one that is infinite, or not sent.
    counts : array of shape (blocks,)
        How many sites there are.
    votes : int
        Votes that are needed.

    Returns
    -------
    array of bool
        False only where it is certain that no site of the block can.
    """
    # Blocks may differ in size alone: what matters is how many sites have the same votes.
    kinds, which = np.unique(weights, axis=0, return_inverse=True)
    sites = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(sites, which.ravel(), counts)
    found: Bools = _kinds_that_matter(kinds, sites, votes)[which.ravel()]
    return found


def _kinds_that_matter(weights: Ints, counts: Ints, votes: int) -> Bools:
    """The same for blocks that all have different votes."""
    # The numbers of a site are ordered, so it casts the sum of its first few.
    cast = [np.unique(row[row > 0]).tolist() for row in np.cumsum(weights, axis=1)]
    sent = np.array([bool(each) for each in cast])
    found = np.array([sent[b] and _greedy(cast, counts, votes, b) for b in range(len(cast))])
    for b in np.flatnonzero(sent & ~found):
        total = sum(each[-1] * count for each, count in zip(cast, counts.tolist(), strict=True) if each)
        found[b] = total > _LARGEST_SUM or _listed(cast, counts, votes, int(b))
    return found


def _others(counts: Ints, block: int) -> list[int]:
    others: list[int] = counts.tolist()
    others[block] -= 1
    return others


def _greedy(cast: list[list[int]], counts: Ints, votes: int, block: int) -> bool:
    """Fill up to just below the votes with those of the others, the most that a site can cast first."""
    room, others = votes - 1, _others(counts, block)
    for b in sorted(range(len(cast)), key=lambda b: cast[b][:1], reverse=True):
        left = others[b]
        for cast_by_site in reversed(cast[b]):
            taken = min(left, room // cast_by_site)
            room, left = room - taken * cast_by_site, left - taken
    return room < cast[block][-1]


def _listed(cast: list[list[int]], counts: Ints, votes: int, block: int) -> bool:
    """All sums of the others' votes, as the bits of a whole number."""
    sums = 1
    for each, count in zip(cast, _others(counts, block), strict=True):
        for _ in range(count):
            sums = reduce(or_, (sums << cast_by_site for cast_by_site in each), sums)
    low = max(0, votes - cast[block][-1])
    return bool((sums >> low) & ((1 << (votes - low)) - 1))
