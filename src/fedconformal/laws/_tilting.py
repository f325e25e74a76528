"""Tail probabilities of votes far below rounding error, by exponential tilting.

Every site's law is multiplied by exp(rate * votes) and normalised, with the rate that brings the expected
votes to k. Around k the tilted law has ordinary probabilities, of which the tail of the true one is made:
P(votes >= k) = M(rate) exp(-rate k) E_tilted[exp(-rate (votes - k)); votes >= k].
"""

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints
from fedconformal.laws._spectrum import spectrum
from fedconformal.laws._votes import Votes, masses

_STEEPEST = 800.0  # beyond it an outcome as rare as the smallest number would be certain
_FLATTEST = 1e-9
_MOST_STEPS = 60
_ROWS = 32


def tilted_tails(ks: Ints, p: Floats, votes: Votes) -> Floats:
    """P(votes >= k) with a small relative error, a k for each row; for k above the expected votes.

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
    tails = bound * spectrum(at_least, votes).discounted(ks, rate)
    most = np.where(np.isfinite(logs), cast, -np.inf).max(axis=2) @ votes.counts
    return np.where(needed > most + 0.5, 0.0, tails)


def _rate(needed: Floats, logs: Floats, cast: Floats, counts: Ints) -> Floats:
    """The rate at which the expected votes are about those needed: Newton's method, kept in a bracket."""
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
