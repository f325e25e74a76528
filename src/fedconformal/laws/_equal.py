"""Equal sites that send one number each: everything in closed form, by incomplete beta functions."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _util
from fedconformal._util import Bools, Floats
from fedconformal.laws._integration import legendre, window_moments

MEAN_ERROR = 1e-12
"""Means are exact to this much, absolutely (``make bench``, section accuracy)."""
OUTSIDE = 1e-18
"""Mass left outside the window of integration."""

_NODES = 64
_SMALL = 0.1  # probabilities below it lose digits in 1 - x
_PAIRS = 2**14  # pairs of ranks integrated at once


def equal_cdf(m: int, n: int, l: ArrayLike, k: ArrayLike, c: ArrayLike) -> Floats:
    """Return P(C <= c) of m sites of n points: ``I_p(k, m - k + 1)`` with ``p = I_c(l, n - l + 1)``.

    Parameters
    ----------
    m, n : int
        Number of sites, and of points at each.
    l, k : array_like
        Local and server rank; broadcast together with ``c``.
    c : array_like
        Coverages in [0, 1].

    Returns
    -------
    array
        Probabilities; small ones have a small relative error.

    Examples
    --------
    >>> from fedconformal.laws import equal_cdf
    >>> equal_cdf(10, 100, [92, 95], [4, 1], 0.9).round(3)
    array([0.407, 0.447])
    """
    return _tail(m, n, l, k, c, upper=False, digits=True)


def equal_sf(m: int, n: int, l: ArrayLike, k: ArrayLike, c: ArrayLike) -> Floats:
    """Return P(C > c) of m sites of n points: the rest of ``equal_cdf``, as precise where it is small."""
    return _tail(m, n, l, k, c, upper=True, digits=True)


def _tail(m: int, n: int, l: ArrayLike, k: ArrayLike, c: ArrayLike, *, upper: bool, digits: bool) -> Floats:
    """Return P(C <= c) or P(C > c), from the smaller of p and 1 - p: it has the digits.

    From p follows the first, from 1 - p the second. What is left of 1 loses digits where it is small; if they
    are needed, a slower function keeps them.
    """
    l, k, c = np.broadcast_arrays(np.asarray(l, float), np.asarray(k, float), np.asarray(c, float))
    lower = c * (n + 1 / 3) <= l - 1 / 3  # c is below about the median of what a site sends
    p = _smaller(n, l, c, lower, digits=digits)
    a, b = np.where(lower, k, m - k + 1), np.where(lower, m - k + 1, k)
    tail = special.betainc(a, b, p)
    direct = lower != upper
    tail = np.asarray(np.where(direct, tail, 1.0 - tail))
    if digits:
        small = ~direct & (tail < _SMALL)
        tail[small] = special.betaincc(a[small], b[small], p[small])
    return tail


def _smaller(n: int, l: Floats, c: Floats, lower: Bools, *, digits: bool) -> Floats:
    """Return ``p = I_c(l, n - l + 1)`` where ``lower``, else 1 - p; 1 - c is exact for c >= 1/2 only."""
    a, b = np.where(lower, l, n - l + 1), np.where(lower, n - l + 1, l)
    p = np.asarray(special.betainc(a, b, np.where(lower, c, 1.0 - c)))
    if digits:
        half = ~lower & (c < 0.5)
        p[half] = special.betaincc(b[half], a[half], c[half])
    return p


def equal_quantile(
    m: int,
    n: int,
    l: ArrayLike,
    k: ArrayLike,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> Floats:
    """Return the coverage with this mass below it (``lower``) or above it (``upper``)."""
    l, k = np.asarray(l, float), np.asarray(k, float)
    if upper is None:
        return np.asarray(special.betaincinv(l, n - l + 1, special.betaincinv(k, m - k + 1, lower)))
    return np.asarray(1.0 - special.betaincinv(n - l + 1, l, special.betaincinv(m - k + 1, k, upper)))


def equal_moments(m: int, n: int, l: ArrayLike, k: ArrayLike) -> tuple[Floats, Floats]:
    """Return mean and variance of the coverage of m sites of n points, for many pairs of ranks at once.

    The mean is M_{l,k} of Theorem 3.2, as one integral in place of its m + 1 sums.

    Parameters
    ----------
    m, n : int
        Number of sites, and of points at each.
    l, k : array_like
        Local and server ranks, broadcast together.

    Returns
    -------
    mean, variance : arrays

    Examples
    --------
    >>> from fedconformal.laws import equal_moments
    >>> mean, variance = equal_moments(10, 100, 92, 4)
    >>> round(float(mean), 4), round(float(variance) ** 0.5, 4)
    (0.9023, 0.012)
    """
    l, k = np.broadcast_arrays(np.asarray(l, float), np.asarray(k, float))
    shape, l, k = l.shape, l.ravel(), k.ravel()
    parts = [_equal_moments(m, n, l[i : i + _PAIRS], k[i : i + _PAIRS]) for i in range(0, l.size, _PAIRS)]
    mean, variance = np.concatenate(parts, axis=1) if parts else np.empty((2, 0))
    return mean.reshape(shape), variance.reshape(shape)


def _equal_moments(m: int, n: int, l: Floats, k: Floats) -> Floats:
    u, w = legendre(_NODES)
    low = equal_quantile(m, n, l, k, lower=OUTSIDE)
    high = equal_quantile(m, n, l, k, upper=OUTSIDE)
    c = low[:, None] + (high - low)[:, None] * u
    cdf = _tail(m, n, l[:, None], k[:, None], c, upper=False, digits=False)
    return window_moments(low, high, cdf @ w, cdf @ (w * u))


# -- the whole array M of the paper: the marginal coverage of every pair of ranks --------------------------


_EXACT_DEGREE = 1000  # up to this many points Gauss-Legendre integrates P(C <= c), a polynomial, exactly


def coverage_table(n_sites: int, n_points: int) -> Floats:
    """Return the marginal coverage of every pair: ``table[l - 1, k - 1]`` is M_{l,k} of Theorem 3.2.

    Exact to 1e-12, and non-decreasing along both axes as the theorem's M is.

    Parameters
    ----------
    n_sites : int
        Number of sites m.
    n_points : int
        Scores at each site, n.

    Returns
    -------
    array of shape (n, m)

    Examples
    --------
    >>> table = coverage_table(n_sites=5, n_points=10)
    >>> table.shape, round(float(table[9, 2]), 6)
    ((10, 5), 0.925626)
    """
    m = _util.integer("n_sites", n_sites, low=1)
    n = _util.integer("n_points", n_points, low=1)
    if m * n <= _EXACT_DEGREE:
        table = _polynomial_table(m, n)
    else:
        table = equal_moments(m, n, np.arange(1, n + 1)[:, None], np.arange(1, m + 1)[None, :])[0]
    # Neighbours may differ by less than rounding; the truth is monotone, so this only removes error.
    return np.maximum.accumulate(np.maximum.accumulate(table, axis=0), axis=1)


def _polynomial_table(m: int, n: int) -> Floats:
    """Integrate P(C <= c), of degree m n in c, over m n / 2 nodes: all entries at once without error."""
    nodes, weights = legendre(m * n // 2 + 1)
    l, j = np.arange(1, n + 1)[:, None], np.arange(1, m + 1)
    p = special.betainc(l, n - l + 1, nodes)[..., None]
    q = special.betainc(n - l + 1, l, 1 - nodes)[..., None]
    exactly = special.binom(m, j) * p**j * q ** (m - j)  # P(count = j), j = 1..m
    share = np.einsum("lcj,c->lj", exactly, weights)
    return 1.0 - np.cumsum(share[:, ::-1], axis=1)[:, ::-1]
