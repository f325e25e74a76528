"""Sites whose numbers can never change the threshold: they need not be asked."""

from functools import reduce
from operator import or_

import numpy as np

from fedconformal._typing import Bools, Ints

_LARGEST_SUM = 200_000  # votes up to which sums are listed exactly


def pivotal_sites(weights: Ints, counts: Ints, votes: int) -> Bools:
    """Return, for each block, whether one of its sites can decide if the votes are reached.

    Parameters
    ----------
    weights : array of shape (blocks, numbers)
        Votes of each number of a site; 0 for one that is infinite, or not sent.
    counts : array of shape (blocks,)
        Number of sites.
    votes : int
        Votes that are needed.

    Returns
    -------
    array of bool
        False only where it is certain that no site of the block can.
    """
    # Blocks may differ in size alone: what counts is how many sites have the same votes.
    kinds, which = np.unique(weights, axis=0, return_inverse=True)
    sites = np.bincount(which.ravel(), weights=counts).astype(np.int64)
    # The numbers of a site are ordered, so it casts the sum of its first few.
    cast = [np.unique(row[row > 0]).tolist() for row in np.cumsum(kinds, axis=1)]
    total = sum(each[-1] * count for each, count in zip(cast, sites.tolist(), strict=True) if each)
    found = [bool(each) and _is_pivotal(cast, sites, votes, b, total) for b, each in enumerate(cast)]
    return np.array(found)[which.ravel()]


def _is_pivotal(cast: list[list[int]], counts: Ints, votes: int, block: int, total: int) -> bool:
    """Fill up to just below the votes, the largest casts first; where that fails, list all sums as bits."""
    others: list[int] = (counts - (np.arange(counts.size) == block)).tolist()
    room = votes - 1
    for b in sorted(range(len(cast)), key=lambda b: cast[b][:1], reverse=True):
        left = others[b]
        for cast_by_site in reversed(cast[b]):
            taken = min(left, room // cast_by_site)
            room, left = room - taken * cast_by_site, left - taken
    if room < cast[block][-1] or total > _LARGEST_SUM:
        return True
    sums = 1
    for each, count in zip(cast, others, strict=True):
        for _ in range(count):
            sums = reduce(or_, (sums << cast_by_site for cast_by_site in each), sums)
    low = max(0, votes - cast[block][-1])
    return bool((sums >> low) & ((1 << (votes - low)) - 1))
