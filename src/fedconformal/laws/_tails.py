"""P(votes >= k): in closed form, added up or by the characteristic function, whichever suits the sites."""

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal.laws._adding import added_tails
from fedconformal.laws._counts import binomial_tail
from fedconformal.laws._spectrum import spectral_tails
from fedconformal.laws._tilting import tilted_tails
from fedconformal.laws._votes import Votes

_FREQUENCIES = 150  # of a characteristic function that usually matter
_PATIENCE = 20  # how much longer the digits of small tails may take
_SMALL = 1e-5  # tails below it are computed again where their digits matter


def vote_tails(ks: Ints, p: Floats, votes: Votes, *, digits: bool = True) -> Floats:
    """P(votes >= k) for every k.

    Parameters
    ----------
    ks : array
        The votes needed, any whole numbers (below 1 gives 1, more than there are gives 0).
    p : array of shape (rows, blocks, numbers)
        Probability that at least 1, 2, ... numbers of a site of each block lie below.
    votes : Votes
        The sites and their votes.
    digits : bool
        Whether small tails must have a small relative error too; else the absolute error is about 1e-15.

    Returns
    -------
    array of shape (rows, len(ks))
    """
    inside = (ks >= 1) & (ks <= votes.total)
    tails = np.repeat((ks < 1)[None, :].astype(float), len(p), axis=0)
    if inside.any() and len(p):
        tails[:, inside] = _tails(ks[inside], p, votes, digits=digits)
    return tails


def _tails(ks: Ints, p: Floats, votes: Votes, *, digits: bool) -> Floats:
    alone = np.flatnonzero(votes.counts * votes.by_site > 0)
    if alone.size == 1 and p.shape[2] == 1:
        needed = -(-ks // votes.by_site[alone])
        return binomial_tail(needed, int(votes.counts[alone[0]]), p[:, alone, 0])
    if votes.sums is not None and worth_adding(votes, len(p), digits=digits):
        return added_tails(ks, p, votes, votes.sums)
    tails = spectral_tails(ks, p, votes)
    if digits:
        rows, columns = np.nonzero(tails < _SMALL)
        tails[rows, columns] = tilted_tails(ks[columns], p[rows], votes)
    return tails


def worth_adding(votes: Votes, rows: int, *, digits: bool) -> bool:
    """Whether the votes of so many laws are added up quickly, compared with the other way.

    The costs are rough, in microseconds: of the calls, and of the numbers that they work on.
    """
    if votes.sums is None:
        return False
    outcomes = votes.cast.shape[1] + 1
    added = outcomes * (8 * votes.n_sites + 0.002 * rows * votes.n_sums)
    frequencies = min(votes.total / 2, _FREQUENCIES)
    otherwise = 200 + 60 * votes.n_kinds + 0.01 * votes.counts.size * rows * frequencies
    return bool(added < (_PATIENCE if digits else 1) * otherwise)


def count_tails(ks: Ints, p: Floats, counts: Ints) -> Floats:
    """P(count >= k) for every k, where every site counts once (the Poisson-binomial law).

    Parameters
    ----------
    ks : array
        The thresholds, any whole numbers (below 1 gives 1, above the number of sites gives 0).
    p : array of shape (rows, blocks)
        Probability that a site of each block lies below.
    counts : array of shape (blocks,)
        How many sites each block has.

    Returns
    -------
    array of shape (rows, len(ks))

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import count_tails
    >>> count_tails(np.array([1, 2]), np.array([[0.5]]), np.array([2]))
    array([[0.75, 0.25]])
    """
    return vote_tails(ks, p[..., None], Votes(counts, np.ones((counts.size, 1), dtype=np.int64)))
