"""P(votes >= k): in closed form, added up or by the characteristic function, whichever suits the sites.

Added up site by site, all terms are positive, so even the smallest tail probabilities keep their digits. The
characteristic function has an absolute error; tails far below it are found by exponential tilting: every
site's distribution is multiplied by exp(rate * votes) and normalised, with the rate that brings the expected
votes to k. Around k the tilted one has ordinary probabilities, of which the tail of the true one is made:
P(votes >= k) = M(rate) exp(-rate k) E_tilted[exp(-rate (votes - k)); votes >= k].
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from fedconformal._util import Floats, Ints
from fedconformal.laws._votes import Votes, masses, spectral_tails, spectrum

# -- how many of equal sites lie below: binomial counts, and which sites are left out as faulty ------------


_TAIL = 45.0  # counts whose Bernstein bound is below exp(-45) are left out


def binomial_masses(p: Floats, m: int) -> tuple[int, Floats]:
    """Return Binomial(m, p) probabilities of the counts that matter for any of several p.

    Ratios of neighbours are added in logarithms and the sum is normalised: for large m this keeps three
    more digits than factorials do.

    Parameters
    ----------
    p : array of shape (rows,)
        Probabilities of success.
    m : int
        Number of trials.

    Returns
    -------
    first : int
        The smallest count that matters.
    masses : array of shape (rows, counts)
        Probabilities of the counts from ``first`` on.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import binomial_masses
    >>> first, masses = binomial_masses(np.array([0.5]), 2)
    >>> first, masses.round(3)
    (0, array([[0.25, 0.5 , 0.25]]))
    """
    mean, variance = m * p, m * p * (1 - p)
    reach = _TAIL / 3 + np.sqrt((_TAIL / 3) ** 2 + 2 * _TAIL * variance)
    first = max(0, math.floor(float(np.min(mean - reach))))
    last = min(m, math.ceil(float(np.max(mean + reach))))
    inside = np.clip(p, 1e-300, 1 - 2**-53)[:, None]
    count = np.arange(first, last)
    steps = np.log((m - count) / (count + 1)) + (np.log(inside) - np.log1p(-inside))
    logs = np.concatenate([np.zeros((len(p), 1)), np.cumsum(steps, axis=1)], axis=1)
    masses = np.exp(logs - logs.max(axis=1, keepdims=True))
    return first, masses / masses.sum(axis=1, keepdims=True)


def honest_counts(p: Floats, counts: Ints, max_faulty: int) -> Ints:
    """Return the sites of each block that stay without the ``max_faulty`` least likely to lie below.

    Parameters
    ----------
    p : array of shape (rows, blocks, ...)
        Probability that a site of each block lies below, or anything of the same order.
    counts : array of shape (blocks,)
        Number of sites of each block.
    max_faulty : int
        Number of sites that are left out.

    Returns
    -------
    array of the shape of ``p``

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import honest_counts
    >>> honest_counts(np.array([[0.9, 0.1]]), np.array([3, 2]), 1)
    array([[3, 1]])
    """
    order = np.argsort(p, axis=1, kind="stable")
    sorted_counts = counts[order]
    before = np.cumsum(sorted_counts, axis=1) - sorted_counts
    kept = np.empty_like(sorted_counts)
    np.put_along_axis(kept, order, sorted_counts - np.clip(max_faulty - before, 0, sorted_counts), axis=1)
    return kept


_FREQUENCIES = 150  # of a characteristic function that usually matter
_PATIENCE = 20  # how much longer the digits of small tails may take
_SMALL = 1e-5  # tails below it are computed again where their digits matter
_STEEPEST = 800.0  # beyond it an outcome as rare as the smallest number would be certain
_FLATTEST = 1e-9
_MOST_STEPS = 60
_ROWS = 32


def vote_tails(ks: Ints, p: Floats, votes: Votes, *, digits: bool = True) -> Floats:
    """Return P(votes >= k) for every k.

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
        return np.asarray(special.betainc(needed, votes.counts[alone] - needed + 1, p[:, alone, 0]))
    if votes.sums is not None and worth_adding(votes, len(p), digits=digits):
        return added_tails(ks, p, votes, votes.sums)
    tails = spectral_tails(ks, p, votes)
    if digits:
        rows, columns = np.nonzero(tails < _SMALL)
        tails[rows, columns] = tilted_tails(ks[columns], p[rows], votes)
    return tails


def worth_adding(votes: Votes, rows: int, *, digits: bool) -> bool:
    """Return whether adding up the votes of this many rows is faster than the characteristic function.

    The costs are rough, in microseconds: of the calls, and of the numbers that they work on.
    """
    if votes.sums is None:
        return False
    outcomes = votes.cast.shape[1] + 1
    added = outcomes * (8 * votes.n_sites + 0.002 * rows * votes.n_sums)
    frequencies = min(votes.total / 2, _FREQUENCIES)
    otherwise = 200 + 60 * votes.n_kinds + 0.01 * votes.counts.size * rows * frequencies
    return bool(added < (_PATIENCE if digits else 1) * otherwise)


def added_tails(ks: Ints, p: Floats, votes: Votes, sums: Sequence[Ints]) -> Floats:
    """Return P(votes >= k) for every row and k, each with a small relative error.

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
    exactly = np.ascontiguousarray(masses(p).T)  # numbers + 1, blocks, rows
    distribution = np.ones((1, len(p)))
    steps = zip(votes.one_by_one.tolist(), sums[1:], votes.moves or (), strict=True)
    for b, after, (first, *others) in steps:
        longer = np.zeros((after.size, len(p)))
        longer[first] = distribution * exactly[0, b]
        for i, places in enumerate(others, start=1):
            if isinstance(places, slice):
                there = longer[places]  # adding to a view saves copying it back
                there += distribution * exactly[i, b]
            else:
                longer[places] += distribution * exactly[i, b]
        distribution = longer
    tails = np.concatenate([np.cumsum(distribution[::-1], axis=0)[::-1], np.zeros((1, len(p)))])
    return np.asarray(np.minimum(tails[np.searchsorted(sums[-1], ks)].T, 1.0))


def tilted_tails(ks: Ints, p: Floats, votes: Votes) -> Floats:
    """Return P(votes >= k) with a small relative error, a k for each row; for k above the expected votes.

    Parameters
    ----------
    ks : array of shape (rows,)
        The votes needed.
    p : array of shape (rows, blocks, numbers)
        Probability that at least 1, 2, ... numbers of a site lie below.
    votes : Votes
        The sites and their votes.

    Returns
    -------
    array of shape (rows,)
    """
    parts = range(0, ks.size, _ROWS)
    tails = [_tilted_tails(ks[i : i + _ROWS], p[i : i + _ROWS], votes) for i in parts]
    return np.concatenate(tails) if tails else np.empty(0)


def _tilted_tails(ks: Ints, p: Floats, votes: Votes) -> Floats:
    mean = np.einsum("rbi,bi->rb", p, votes.weights)
    cast = np.insert(votes.cast, 0, 0, axis=1) - mean[..., None]
    with np.errstate(divide="ignore"):
        logs = np.log(masses(p))
    needed = ks - mean @ votes.counts
    rate = _rate(needed, logs, cast, votes.counts)
    tilted = logs + rate[:, None, None] * cast
    normaliser = special.logsumexp(tilted, axis=2, keepdims=True)
    at_least = np.minimum(np.cumsum(np.exp(tilted - normaliser)[..., ::-1], axis=2)[..., -2::-1], 1.0)
    bound = np.exp(normaliser[..., 0] @ votes.counts - rate * needed)
    tails = bound * spectrum(at_least, votes).discount(ks, rate)
    most = np.where(np.isfinite(logs), cast, -np.inf).max(axis=2) @ votes.counts
    return np.where(needed > most + 0.5, 0.0, tails)


def _rate(needed: Floats, logs: Floats, cast: Floats, counts: Ints) -> Floats:
    """Return the rate at which the expected votes are about those needed: Newton's method in a bracket."""
    low, high = np.full(needed.shape, _FLATTEST), np.full(needed.shape, _STEEPEST)
    rate = low
    for _ in range(_MOST_STEPS):
        law = special.softmax(logs + rate[:, None, None] * cast, axis=2)
        mean = (law * cast).sum(axis=2)
        variance = np.maximum((law * (cast - mean[..., None]) ** 2).sum(axis=2) @ counts, 1e-300)
        missing = needed - 0.25 - mean @ counts  # a little less than needed, for there may not be more
        if (np.abs(missing) <= np.maximum(0.2, np.sqrt(variance) / 10)).all():
            break
        low, high = np.where(missing > 0, rate, low), np.where(missing > 0, high, rate)
        step = rate + missing / variance
        rate = np.where((step > low) & (step < high), step, (low + high) / 2)
    return rate
