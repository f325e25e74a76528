"""Distributions of what sites send: how likely each number lies below the c-quantile of
the scores.

Sites with one distribution form a block; a site law describes all blocks of a
federation at once, so that a thousand sites of different sizes cost one vectorised
call. Equal sites that send one number have everything in closed form, by incomplete
beta functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _util
from fedconformal._util import Bools, Floats, Ints
from fedconformal.laws._beta import beta_quantile

MEAN_ERROR = 1e-12
"""Means are exact to this much, absolutely (``make bench``, section accuracy)."""
OUTSIDE = 1e-18
"""Mass left outside the window of integration."""

Distortion = Callable[[Floats], ArrayLike]
"""``h(c) = F_site(F^{-1}(c))``: the share of a site's scores below the c-quantile of
the test point's.
"""


class SiteLaw(Protocol):
    """Distribution of what the sites of each block send, on the scale of coverage.

    A block's shape is ``(n_blocks,)`` where sites send one number, and ``(n_blocks,
    numbers)`` where they send several, in increasing order.
    """

    @property
    def sends_infinity(self) -> Bools:
        """Numbers that are +inf whatever the scores are: the blocks' shape."""
        ...

    def below(self, c: Floats) -> Floats:
        """Return P(number <= c-quantile): ``c.shape`` followed by the blocks' shape."""
        ...


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """Exact sites: a site of block b sends its l_b-th smallest of n_b scores (paper,
    lemma C.1).

    On the scale of coverage that is the l-th of n uniforms, hence ``p(c) = I_c(l, n - l
    + 1)``.

    Parameters
    ----------
    n_points : array of shape (blocks,)
        Scores at a site of each block.
    local_ranks : array of shape (blocks,) or (blocks, numbers)
        The rank that a site sends, or several in increasing order. A rank above n is
        +inf (p = 0), a rank of 0 is -inf (p = 1).

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import OrderStatistics
    >>> sites = OrderStatistics(np.array([100]), np.array([92]))
    >>> sites.below(np.array([0.9])).round(3)
    array([[0.321]])
    """

    n_points: Ints
    local_ranks: Ints

    @cached_property
    def _sizes(self) -> Ints:
        """The sizes, in the shape of the ranks."""
        return self.n_points if self.local_ranks.ndim == 1 else self.n_points[:, None]

    @property
    def sends_infinity(self) -> Bools:
        """Ranks above the size of the site."""
        return self.local_ranks > self._sizes

    @cached_property
    def shape(self) -> tuple[Floats, Floats, Bools]:
        """Parameters of each number's Beta distribution, and which numbers have one."""
        l, n = self.local_ranks, self._sizes
        proper = (l >= 1) & (l <= n)
        return (
            np.where(proper, l, 1).astype(float),
            np.where(proper, n - l + 1, 1).astype(float),
            proper,
        )

    def below(self, c: Floats) -> Floats:
        """Return ``I_c(l, n - l + 1)``."""
        x = np.asarray(c, float)
        return self.below_shares(x.reshape(*x.shape, *[1] * self.local_ranks.ndim))

    def below_shares(self, share: Floats) -> Floats:
        """Return the same where ``share`` of the scores lie below, which may differ
        between blocks.
        """
        a, b, proper = self.shape
        p = special.betainc(a, b, share)
        return (
            p
            if proper.all()
            else np.where(proper, p, (self.local_ranks < 1).astype(float))
        )


@dataclass(frozen=True, eq=False)
class Shifted:
    """Sites whose scores are distributed otherwise than the test point's (paper,
    section 3.5).

    Parameters
    ----------
    base : OrderStatistics
        What the sites send.
    distortions : sequence of callables
        ``distortions[b]`` is ``h(c) = F_b(F^{-1}(c))``: the share of a site's scores
        that lie below the c-quantile of the test point's scores. It must be
        non-decreasing from [0, 1] to [0, 1] and accept arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import OrderStatistics
    >>> from fedconformal.laws import Shifted
    >>> sites = Shifted(
    ...     OrderStatistics(np.array([100]), np.array([92])), [lambda c: c**2]
    ... )
    >>> sites.below(np.array([0.9])).round(4)
    array([[0.0018]])
    """

    base: OrderStatistics
    distortions: Sequence[Distortion]

    @property
    def sends_infinity(self) -> Bools:
        """Ranks above the size of the site."""
        return self.base.sends_infinity

    def below(self, c: Floats) -> Floats:
        """Return ``I_{h(c)}(l, n - l + 1)``."""
        x = np.asarray(c, float)
        shares = [
            np.broadcast_to(np.asarray(h(x), float), x.shape) for h in self.distortions
        ]
        share = np.stack(shares, axis=-1)
        if not np.all((share >= 0) & (share <= 1)):
            raise ValueError("a distortion must map [0, 1] to [0, 1]")
        return self.base.below_shares(
            share.reshape(*share.shape, *[1] * (self.base.local_ranks.ndim - 1))
        )


# -- integrals over the coverage, by Clenshaw-Curtis quadrature on panels that are halve

# The nodes of a panel include its two ends. P(C <= c) rises monotonically, so a step of
# it cannot hide between them, however narrow it is.


_DEGREE = 48
_ROUNDS = 48
_LAST = 8  # the error is judged by the last eighth of the coefficients


@cache
def legendre(nodes: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on [0, 1].

    Parameters
    ----------
    nodes : int
        Number of nodes.

    Returns
    -------
    nodes, weights : arrays

    Examples
    --------
    >>> x, w = legendre(3)
    >>> round(float(w @ x**4), 12)
    0.2
    """
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, w / 2


@cache
def _rule() -> tuple[Floats, Floats, Floats]:
    """Return nodes on [0, 1], weights, and the matrix from values to the last Chebyshev
    coefficients.
    """
    j = np.arange(_DEGREE + 1)
    ends = np.where((j == 0) | (j == _DEGREE), 0.5, 1.0)
    coefficients = (
        2 / _DEGREE * ends[:, None] * ends * np.cos(np.pi / _DEGREE * np.outer(j, j))
    )
    even = j[::2]
    weights = (coefficients[::2] / (1.0 - even**2)[:, None]).sum(axis=0)
    return (
        (1 - np.cos(np.pi * j / _DEGREE)) / 2,
        weights,
        coefficients[-_DEGREE // _LAST :],
    )


def integrate(
    f: Callable[[Floats], Floats], edges: Floats, *, tolerance: float
) -> Floats:
    """Integrate a vector of functions, halving the panels between edges until the error
    of each is small.

    Parameters
    ----------
    f : callable
        Maps nodes of shape (n,) to values of shape (n, outputs).
    edges : array
        Ends of the first panels, increasing.
    tolerance : float
        Absolute error that is allowed in each panel.

    Returns
    -------
    array of shape (outputs,)

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws._sites import integrate
    >>> integrate(
    ...     lambda c: np.stack([c, c**2], axis=-1),
    ...     np.array([0.0, 1.0]),
    ...     tolerance=1e-12,
    ... ).round(6)
    array([0.5     , 0.333333])
    """
    nodes, weights, last = _rule()
    total, lows, highs = np.zeros(1), edges[:-1], edges[1:]
    for left in range(_ROUNDS, -1, -1):
        width = (highs - lows)[:, None]
        x = lows[:, None] + width * nodes
        values = np.asarray(f(x.ravel())).reshape(*x.shape, -1)
        error = width[:, 0] * np.abs(last @ values).max(axis=(1, 2), initial=0.0)
        done = (error <= tolerance) | (left == 0)
        total = total + (width * (weights @ values))[done].sum(axis=0)
        if done.all():
            break
        middles = (lows + highs)[~done] / 2
        lows, highs = np.r_[lows[~done], middles], np.r_[middles, highs[~done]]
    return total


def window_moments(low: Floats, high: Floats, area: Floats, lever: Floats) -> Floats:
    """Return mean and variance from the integrals of cdf and u * cdf over a window, u
    in [0, 1].
    """
    width = high - low
    return np.stack(
        [
            high - width * area,
            width**2 * np.maximum(1 - 2 * lever - (1 - area) ** 2, 0.0),
        ]
    )


# -- equal sites that send one number each ---------------------------------------------


_NODES = 64
_SMALL = 0.1  # probabilities below it lose digits in 1 - x
_PAIRS = 2**14  # pairs of ranks integrated at once
# up to this many points Gauss-Legendre integrates P(C <= c), a polynomial, exactly
_EXACT_DEGREE = 1000


def equal_cdf(
    m: int,
    n: int,
    l: ArrayLike,
    k: ArrayLike,
    c: ArrayLike,
    *,
    upper: bool = False,
    digits: bool = True,
) -> Floats:
    """Return P(C <= c) of m sites of n points: ``I_p(k, m - k + 1)`` with ``p = I_c(l,
    n - l + 1)``.

    It follows from the smaller of p and 1 - p, which has the digits: P(C <= c) from p,
    P(C > c) from 1 - p. What is left of 1 loses digits where it is small; if they are
    needed, a slower function keeps them.

    Parameters
    ----------
    m, n : int
        Number of sites, and of points at each.
    l, k : array_like
        Local and server rank; broadcast together with ``c``.
    c : array_like
        Coverages in [0, 1].
    upper : bool
        Whether to return P(C > c) instead.
    digits : bool
        Whether small probabilities need a small relative error.

    Returns
    -------
    array

    Examples
    --------
    >>> from fedconformal.laws._sites import equal_cdf
    >>> equal_cdf(10, 100, [92, 95], [4, 1], 0.9).round(3)
    array([0.407, 0.447])
    """
    l, k, c = np.broadcast_arrays(
        np.asarray(l, float), np.asarray(k, float), np.asarray(c, float)
    )
    lower = (
        c * (n + 1 / 3) <= l - 1 / 3
    )  # c is below about the median of what a site sends
    a, b = np.where(lower, l, n - l + 1), np.where(lower, n - l + 1, l)
    p = np.asarray(special.betainc(a, b, np.where(lower, c, 1.0 - c)))
    half = ~lower & (c < 0.5) & digits  # 1 - c is exact for c >= 1/2 only
    p[half] = special.betaincc(b[half], a[half], c[half])
    a, b = np.where(lower, k, m - k + 1), np.where(lower, m - k + 1, k)
    tail, direct = special.betainc(a, b, p), lower != upper
    tail = np.asarray(np.where(direct, tail, 1.0 - tail))
    small = ~direct & (tail < _SMALL) & digits
    tail[small] = special.betaincc(a[small], b[small], p[small])
    return tail


def equal_quantile(
    m: int, n: int, l: ArrayLike, k: ArrayLike, mass: ArrayLike, *, upper: bool
) -> Floats:
    """Return the coverage with this mass above it (``upper``), or below it."""
    l, k = np.asarray(l, float), np.asarray(k, float)
    if upper:
        above = beta_quantile(m - k + 1, k, mass)
        return np.asarray(1.0 - beta_quantile(n - l + 1, l, above))
    below = beta_quantile(k, m - k + 1, mass)
    return beta_quantile(l, n - l + 1, below)


def equal_moments(m: int, n: int, l: ArrayLike, k: ArrayLike) -> tuple[Floats, Floats]:
    """Return mean and variance of the coverage of m sites of n points, for many pairs
    of ranks at once.

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
    >>> from fedconformal.laws._sites import equal_moments
    >>> mean, variance = equal_moments(10, 100, 92, 4)
    >>> round(float(mean), 4), round(float(variance) ** 0.5, 4)
    (0.9023, 0.012)
    """
    l, k = np.broadcast_arrays(np.asarray(l, float), np.asarray(k, float))
    shape, l, k = l.shape, l.ravel(), k.ravel()
    parts = [
        _equal_moments(m, n, l[i : i + _PAIRS], k[i : i + _PAIRS])
        for i in range(0, l.size, _PAIRS)
    ]
    mean, variance = np.concatenate(parts, axis=1) if parts else np.empty((2, 0))
    return mean.reshape(shape), variance.reshape(shape)


def _equal_moments(m: int, n: int, l: Floats, k: Floats) -> Floats:
    u, w = legendre(_NODES)
    low, high = (
        equal_quantile(m, n, l, k, OUTSIDE, upper=upper) for upper in (False, True)
    )
    c = low[:, None] + (high - low)[:, None] * u
    cdf = equal_cdf(m, n, l[:, None], k[:, None], c, digits=False)
    return window_moments(low, high, cdf @ w, cdf @ (w * u))


def coverage_table(n_sites: int, n_points: int) -> Floats:
    """Return the marginal coverage of every pair: ``table[l - 1, k - 1]`` is M_{l,k} of
    Theorem 3.2.

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
        table = equal_moments(
            m, n, np.arange(1, n + 1)[:, None], np.arange(1, m + 1)[None, :]
        )[0]
    # Neighbours may differ by less than rounding; the truth is monotone, so this only
    # removes error.
    return np.maximum.accumulate(np.maximum.accumulate(table, axis=0), axis=1)


def _polynomial_table(m: int, n: int) -> Floats:
    """Integrate P(C <= c), of degree m n in c, over m n / 2 nodes: all entries at once
    without error.
    """
    nodes, weights = legendre(m * n // 2 + 1)
    l, j = np.arange(1, n + 1)[:, None], np.arange(1, m + 1)
    p = special.betainc(l, n - l + 1, nodes)[..., None]
    q = special.betainc(n - l + 1, l, 1 - nodes)[..., None]
    exactly = special.binom(m, j) * p**j * q ** (m - j)  # P(count = j), j = 1..m
    share = np.einsum("lcj,c->lj", exactly, weights)
    return 1.0 - np.cumsum(share[:, ::-1], axis=1)[:, ::-1]
