"""Quantiles of Beta distributions and tails of binomial counts, at any size.

SciPy's ``betaincinv`` is wrong for a or b of exactly 1,000 beside a large number, and
``bdtr`` wraps at 2^31 and loses digits from 10^7 on. The incomplete beta function
itself keeps its digits, so quantiles are polished by it, and tails are its values.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._util import Floats

_STEPS = 4  # of Newton's method
_CLOSE = 0.5  # relative distance from the mass within which a step comes closer
_REACHED = 1e-6  # relative distance from which a step reaches the last digits
_HALVINGS = 64
_LOWEST, _HIGHEST = -745.0, 37.0  # log-odds of all floats between 0 and 1


def beta_quantile(
    a: ArrayLike, b: ArrayLike, mass: ArrayLike, *, upper: bool = False
) -> Floats:
    """Return x with ``I_x(a, b) = mass``, I the regularised incomplete beta function.

    Parameters
    ----------
    a, b : array_like
        Parameters, positive; broadcast together with ``mass``.
    mass : array_like
        Probabilities below the quantile, in [0, 1]; small ones keep their digits.
    upper : bool
        Whether ``mass`` lies above the quantile instead.

    Returns
    -------
    array

    Examples
    --------
    >>> from fedconformal.laws._beta import beta_quantile
    >>> quantile = beta_quantile(1000, 999999002, 0.5)
    >>> round(float(quantile) * 1e9, 3)
    999.667
    """
    a, b, mass = np.broadcast_arrays(
        np.asarray(a, float), np.asarray(b, float), np.asarray(mass, float)
    )
    inverse, beta = special.betaincinv, special.betainc
    if upper:
        inverse, beta = special.betainccinv, special.betaincc
    x = np.asarray(inverse(a, b, mass))
    size = np.minimum(mass, 1.0 - mass)
    proper = size > 0
    for _ in range(_STEPS):
        excess = beta(a, b, x) - mass
        far = proper & ~(np.abs(excess) <= _CLOSE * size)
        if far.any():
            below = 1.0 - mass if upper else mass
            x = np.where(far, _bisect(a, b, below), x)
            excess = beta(a, b, x) - mass
        x = _step(a, b, x, -excess if upper else excess)
        if (np.abs(excess) <= _REACHED * size)[proper].all():
            break
    return x


def _step(a: Floats, b: Floats, x: Floats, excess: Floats) -> Floats:
    """Return x after one step of Newton's method; x itself where there is no slope."""
    with np.errstate(all="ignore"):
        log_slope = (
            special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)
        )
        moved = x - excess * np.exp(-log_slope)
    return np.where((moved > 0) & (moved < 1), moved, x)


def _bisect(a: Floats, b: Floats, mass: Floats) -> Floats:
    """Return the quantile to about ten digits, by halves of its log-odds."""
    low = np.full(mass.shape, _LOWEST)
    high = np.full(mass.shape, _HIGHEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        under = special.betainc(a, b, special.expit(middle)) < mass
        low = np.where(under, middle, low)
        high = np.where(under, high, middle)
    return np.asarray(special.expit((low + high) / 2))


def binomial_cdf(k: ArrayLike, n: ArrayLike, chance: float) -> Floats:
    """Return the probability of at most k successes in n independent trials.

    Parameters
    ----------
    k, n : array_like
        Successes and trials, whole numbers that are not negative.
    chance : float
        Chance of a success, strictly between 0 and 1.

    Returns
    -------
    array
        1 where k is n or more.

    Examples
    --------
    >>> from fedconformal.laws._beta import binomial_cdf
    >>> float(binomial_cdf(1, 2, 0.5))
    0.75
    """
    successes, trials = np.broadcast_arrays(
        np.asarray(k, dtype=np.int64), np.asarray(n, dtype=np.int64)
    )
    failures = np.maximum(trials - successes, 1)
    tail = special.betaincc(successes + 1, failures, chance)
    return np.where(successes >= trials, 1.0, tail)
