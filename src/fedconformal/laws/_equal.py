"""Equal sites that send one number each: everything in closed form, by incomplete beta functions."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._typing import Bools, Floats
from fedconformal.laws._integration import from_window, legendre

MEAN_ERROR = 1e-12
"""Means are exact to this much, absolutely (``make bench``, section accuracy)."""
OUTSIDE = 1e-18
"""Mass left outside the window of integration."""

_NODES = 64
_SMALL = 0.1  # probabilities below it lose digits in 1 - x
_PAIRS = 2**14  # pairs of ranks integrated at once


def equal_cdf(m: int, n: int, l: ArrayLike, k: ArrayLike, c: ArrayLike) -> Floats:
    """P(C <= c) of m sites of n points: ``I_p(k, m - k + 1)`` with ``p = I_c(l, n - l + 1)``.

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
    """
    return _cdf(m, n, l, k, c, digits=True)


def equal_sf(m: int, n: int, l: ArrayLike, k: ArrayLike, c: ArrayLike) -> Floats:
    """P(C > c) of m sites of n points: the rest of ``equal_cdf``, as precise where it is small."""
    k, lower, p = _below(n, l, k, c, digits=True)
    a, sf = k[~lower], np.empty(p.shape)
    sf[lower] = _rest(k[lower], m - k[lower] + 1, p[lower], digits=True)
    sf[~lower] = special.betainc(m - a + 1, a, p[~lower])
    return sf


def _cdf(m: int, n: int, l: ArrayLike, k: ArrayLike, c: ArrayLike, *, digits: bool) -> Floats:
    k, lower, p = _below(n, l, k, c, digits=digits)
    a, cdf = k[lower], np.empty(p.shape)
    cdf[lower] = special.betainc(a, m - a + 1, p[lower])
    cdf[~lower] = _rest(m - k[~lower] + 1, k[~lower], p[~lower], digits=digits)
    return cdf


def _below(n: int, l: ArrayLike, k: ArrayLike, c: ArrayLike, *, digits: bool) -> tuple[Floats, Bools, Floats]:
    """The server rank; where a site lies below with p < 1/2 or so; and the smaller of p and 1 - p.

    The smaller one has the digits. ``1 - c`` has them all for c >= 1/2.
    """
    l, k, c = np.broadcast_arrays(np.asarray(l, float), np.asarray(k, float), np.asarray(c, float))
    lower = c * (n + 1 / 3) <= l - 1 / 3  # about the median
    p, half = np.empty(c.shape), ~lower & (c < 0.5) & digits
    a = l[lower]
    p[lower] = special.betainc(a, n - a + 1, c[lower])
    a = l[~lower]
    p[~lower] = special.betainc(n - a + 1, a, 1.0 - c[~lower])
    p[half] = special.betaincc(l[half], n - l[half] + 1, c[half])
    return k, lower, p


def _rest(a: Floats, b: Floats, x: Floats, *, digits: bool) -> Floats:
    """``1 - I_x(a, b)``; if small ones need their digits, by the slower function that keeps them."""
    rest = 1.0 - special.betainc(a, b, x)
    small = (rest < _SMALL) & digits
    rest[small] = special.betaincc(a[small], b[small], x[small])
    return np.asarray(rest)


def equal_quantile(
    m: int,
    n: int,
    l: ArrayLike,
    k: ArrayLike,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> Floats:
    """The coverage with this mass below it (``lower``) or above it (``upper``), whichever is given."""
    l, k = np.asarray(l, float), np.asarray(k, float)
    if upper is None:
        return np.asarray(special.betaincinv(l, n - l + 1, special.betaincinv(k, m - k + 1, lower)))
    return np.asarray(1.0 - special.betaincinv(n - l + 1, l, special.betaincinv(m - k + 1, k, upper)))


def equal_moments(m: int, n: int, l: ArrayLike, k: ArrayLike) -> tuple[Floats, Floats]:
    """Mean and variance of the coverage of m sites of n points, for many pairs of ranks at once.

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
    cdf = _cdf(m, n, l[:, None], k[:, None], low[:, None] + (high - low)[:, None] * u, digits=False)
    return from_window(low, high, cdf @ w, cdf @ (w * u))
