"""The law of a few sites' votes, added site by site.

All terms are positive, so even the smallest tail probabilities keep their digits.
"""

from collections.abc import Sequence

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal.laws._votes import Votes, masses


def added_tails(ks: Ints, p: Floats, votes: Votes, sums: Sequence[Ints]) -> Floats:
    """P(votes >= k) for every row and k, each with a small relative error.

    Parameters
    ----------
    ks : array
        The votes needed.
    p : array of shape (rows, blocks, numbers)
        Probability that at least 1, 2, ... numbers of a site lie below.
    votes : Votes
        The sites and their votes.
    sums : list of arrays
        The sums that can occur after each site: ``votes.sums``.

    Returns
    -------
    array of shape (rows, len(ks))
    """
    each = np.ascontiguousarray(masses(p).T)  # numbers + 1, blocks, rows
    law = np.ones((1, len(p)))
    steps = zip(votes.one_by_one.tolist(), sums[1:], votes.moves or (), strict=True)
    for b, after, (first, *others) in steps:
        longer = np.zeros((after.size, len(p)))
        longer[first] = law * each[0, b]
        for i, places in enumerate(others, start=1):
            if isinstance(places, slice):
                there = longer[places]  # adding to a view saves copying it back
                there += law * each[i, b]
            else:
                longer[places] += law * each[i, b]
        law = longer
    tails = np.concatenate([np.cumsum(law[::-1], axis=0)[::-1], np.zeros((1, len(p)))])
    return np.asarray(np.minimum(tails[np.searchsorted(sums[-1], ks)].T, 1.0))
