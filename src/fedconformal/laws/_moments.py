"""Integrals of P(C <= c) over the coverage c: closed form for equal sites, adaptive for all others."""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._typing import Floats

NODES = 64
MEAN_ERROR = 1e-12
"""Means are exact to this much, absolutely (``make bench``, section accuracy)."""
OUTSIDE = 1e-18
"""Mass left outside the window of integration."""

_PAIRS = 2**14  # pairs of ranks integrated at once


@cache
def legendre(nodes: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, w / 2


def equal_cdf(m: int, n: int, l: ArrayLike, k: ArrayLike, c: ArrayLike) -> Floats:
    """P(C <= c) = I_{p(c)}(k, m - k + 1) with p(c) = I_c(l, n - l + 1): the law of m sites of n points.

    The smaller of p and 1 - p carries the digits: p decides for small k, 1 - p for large k.
    """
    l, k, c = np.broadcast_arrays(np.asarray(l, float), np.asarray(k, float), np.asarray(c, float))
    small = 2 * k <= m + 1
    cdf = np.empty(c.shape)
    a, b, x = l[small], k[small], c[small]
    cdf[small] = special.betainc(b, m - b + 1, special.betainc(a, n - a + 1, x))
    a, b, x = l[~small], k[~small], c[~small]
    cdf[~small] = 1.0 - special.betainc(m - b + 1, b, special.betainc(n - a + 1, a, 1.0 - x))
    return cdf


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
    """Mean and variance of the coverage for m sites of n points, vectorised over pairs (l, k).

    The mean is M_{l,k} of Theorem 3.2, as one integral in place of its m + 1 sums.
    """
    l, k = np.broadcast_arrays(np.asarray(l, float), np.asarray(k, float))
    shape, l, k = l.shape, l.ravel(), k.ravel()
    parts = [_equal_moments(m, n, l[i : i + _PAIRS], k[i : i + _PAIRS]) for i in range(0, l.size, _PAIRS)]
    mean, variance = np.concatenate(parts, axis=1) if parts else np.empty((2, 0))
    return mean.reshape(shape), variance.reshape(shape)


def _equal_moments(m: int, n: int, l: Floats, k: Floats) -> Floats:
    u, w = legendre(NODES)
    low = equal_quantile(m, n, l, k, lower=OUTSIDE)
    high = equal_quantile(m, n, l, k, upper=OUTSIDE)
    cdf = equal_cdf(m, n, l[:, None], k[:, None], low[:, None] + (high - low)[:, None] * u)
    return from_window(low, high, cdf @ w, cdf @ (w * u))


def from_window(low: Floats, high: Floats, area: Floats, lever: Floats) -> Floats:
    """Mean and variance from the integrals of cdf and u * cdf over a window, u in [0, 1]."""
    width = high - low
    return np.stack([high - width * area, width**2 * np.maximum(1 - 2 * lever - (1 - area) ** 2, 0.0)])


def integrate(f: Callable[[Floats], Floats], edges: Floats, *, tolerance: float) -> Floats:
    """Integrate a vector of functions, halving each interval between edges until its halves agree with it.

    ``f`` maps nodes (n,) to values (n, outputs).
    """
    u, w = legendre(NODES // 2)

    def panels(lows: Floats, highs: Floats) -> Floats:
        width = highs - lows
        nodes = lows[:, None] + width[:, None] * u
        values = f(nodes.ravel()).reshape(*nodes.shape, -1)
        areas: Floats = width[:, None] * np.einsum("pno,n->po", values, w)
        return areas

    total: Floats | float = 0.0
    lows, highs = edges[:-1], edges[1:]
    whole = panels(lows, highs)
    for _ in range(48):
        middles = (lows + highs) / 2
        left, right = np.split(panels(np.r_[lows, middles], np.r_[middles, highs]), 2)
        rest = np.abs(left + right - whole).max(axis=1) > tolerance
        total = total + (left + right)[~rest].sum(axis=0)
        lows, highs = np.r_[lows[rest], middles[rest]], np.r_[middles[rest], highs[rest]]
        whole = np.concatenate([left[rest], right[rest]])
        if not rest.any():
            break
    return np.asarray(total + whole.sum(axis=0))
