"""Sites whose numbers can never change the threshold: they need not be asked."""

import numpy as np

from fedconformal._typing import Bools, Ints

_LARGEST_SUM = 200_000  # votes up to which sums are listed exactly


def matters(weights: Ints, numbers: Ints, counts: Ints, votes: int) -> Bools:
    """For each block, whether one of its sites can decide if the votes are reached.

    Parameters
    ----------
    weights, numbers, counts : array of shape (blocks,)
        Votes of each number, finite numbers of each site, and how many sites there are.
    votes : int
        Votes that are needed.

    Returns
    -------
    array of bool
        False only where it is certain that no site of the block can.
    """
    found = np.array([_greedy(weights, numbers, counts, votes, b) for b in range(weights.size)])
    total = int((weights * numbers * counts).sum())
    for b in np.flatnonzero(~found & (numbers > 0)):
        found[b] = total > _LARGEST_SUM or _listed(weights, numbers, counts, votes, int(b))
    return found & (numbers > 0)


def _others(counts: Ints, block: int) -> Ints:
    others = counts.copy()
    others[block] -= 1
    return others


def _greedy(weights: Ints, numbers: Ints, counts: Ints, votes: int, block: int) -> bool:
    """Fill up to just below the votes with the others' numbers, the heaviest first."""
    room, others = votes - 1, _others(counts, block)
    for b in np.argsort(-weights):
        available = int(numbers[b] * others[b])
        room -= int(weights[b]) * min(available, room // int(weights[b]))
    return room < int(weights[block] * numbers[block])


def _listed(weights: Ints, numbers: Ints, counts: Ints, votes: int, block: int) -> bool:
    """All sums of the others' votes, as the bits of a whole number."""
    sums, others = 1, _others(counts, block)
    for w, r, m in zip(weights.tolist(), numbers.tolist(), others.tolist(), strict=True):
        for _ in range(m * r):
            sums |= sums << w
    window = int(weights[block] * numbers[block])
    low = max(0, votes - window)
    return bool((sums >> low) & ((1 << (votes - low)) - 1))
