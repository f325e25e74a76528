"""Reference values of the coverage: exact integers, the paper's inequalities, and main
numbers for a reader.

Exact integers decide where means are too close to a level for floating point. The
inequalities are Theorem 3.3, Proposition 3.4, and Ehm's theorem behind it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import comb, lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import _util
from fedconformal._util import Floats
from fedconformal.laws._beta import beta_quantile
from fedconformal.laws._coverage import CoverageLaw
from fedconformal.laws._federation import Federation
from fedconformal.laws._sites import Distortion, Shifted, integrate

_TAIL = 1e-14
_HALVINGS = 60
_CELLS = 1000  # of a coupling
_OUTSIDE = 1e-3  # of the window of a summary, on either side

Ranks = Sequence[int | Sequence[int]]
Weights = Sequence[int | Sequence[int]]


def exact_mean(
    n_points: Sequence[int],
    local_ranks: Ranks,
    server_rank: int,
    *,
    weights: Weights | None = None,
) -> Fraction:
    """Return the marginal coverage (Theorem 3.2, appendix A.1, weighted votes) of exact
    sites as a fraction.

    The cost grows like the square of the number of points, times the sums of votes that
    can occur: meant for a few hundred points.

    Parameters
    ----------
    n_points : sequence of int
        Scores at each site.
    local_ranks : sequence of int or of sequences of int
        Rank that each site sends, or its increasing ranks; those above the site's size
        are +inf.
    server_rank : int
        Votes needed.
    weights : sequence of int or of sequences of int, optional
        Votes of all numbers of a site, or of each of them; 1 by default.

    Returns
    -------
    Fraction

    Examples
    --------
    >>> from fedconformal.laws import exact_mean
    >>> exact_mean([3, 3], [3, 2], 1)
    Fraction(13, 28)
    """
    total, ways = _count_ways(n_points, local_ranks, server_rank, weights)
    scale = lcm(*(comb(total, r) for r in range(total + 1)))
    missed = sum(way * (scale // comb(total, r)) for r, way in enumerate(ways))
    return 1 - Fraction(missed, scale * (total + 1))


def exact_cdf(
    n_points: Sequence[int],
    local_ranks: Ranks,
    server_rank: int,
    c: Fraction,
    *,
    weights: Weights | None = None,
) -> Fraction:
    """Return P(C <= c) for exact sites and a rational c.

    Parameters
    ----------
    n_points, local_ranks, server_rank : sequences and int
        As for ``exact_mean``.
    c : Fraction
        A coverage in [0, 1].
    weights : sequence, optional
        As for ``exact_mean``.

    Returns
    -------
    Fraction

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.laws import exact_cdf
    >>> exact_cdf([3, 3], [3, 2], 1, Fraction(1, 2))
    Fraction(9, 16)
    """
    total, ways = _count_ways(n_points, local_ranks, server_rank, weights)
    hit, miss = c.numerator, c.denominator - c.numerator
    return Fraction(
        sum(way * hit**r * miss ** (total - r) for r, way in enumerate(ways)),
        c.denominator**total,
    )


def _count_ways(
    n_points: Sequence[int],
    local_ranks: Ranks,
    server_rank: int,
    weights: Weights | None,
) -> tuple[int, list[int]]:
    """Return the number of points, and in how many ways 0, 1, ... of them lie below and
    the votes suffice.

    A site of n points contributes the sum of C(n, i) z^i y^v(i), v(i) its votes when i
    of its points lie below; the power of z counts all points below, the power of y all
    votes. Polynomials in z are integers in base 2^w (Kronecker), so the work is done by
    big-integer multiplication.
    """
    total = sum(n_points)
    width = total + 1  # all coefficients together are 2^total
    product = {0: 1}
    for n, ranks, weight in zip(
        n_points, local_ranks, weights or [1] * len(n_points), strict=True
    ):
        before, product = product, defaultdict(int)
        site: dict[int, int] = defaultdict(int)
        for i, cast in enumerate(_cast(n, ranks, weight)):
            site[cast] += comb(n, i) << (width * i)
        for votes, polynomial in before.items():
            for cast, factor in site.items():
                product[votes + cast] += polynomial * factor
    enough = sum(
        polynomial for votes, polynomial in product.items() if votes >= server_rank
    )
    return total, [
        (enough >> (width * r)) & ((1 << width) - 1) for r in range(total + 1)
    ]


def _cast(n: int, ranks: int | Sequence[int], weight: int | Sequence[int]) -> list[int]:
    several = _tuple(ranks)
    gains, votes = [0] * (n + 1), _tuple(weight)
    for rank, gain in zip(
        several, votes * len(several) if len(votes) == 1 else votes, strict=True
    ):
        if rank <= n:
            gains[rank] += gain
    return list(accumulate(gains))


def _tuple(value: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, value)) if isinstance(value, Sequence) else (int(value),)


# -- the paper's inequalities ----------------------------------------------------------


def conditional_coverage_bound(
    n_sites: int, n_points: int, local_rank: int, server_rank: int, *, delta: float
) -> float:
    """Return Theorem 3.3's bound, which the coverage given the data reaches with
    probability 1 - delta.

    The bound is ``l k / (m n) - sqrt(log(1/delta) / (2 m n))``; the paper states it for
    pairs with ``l k >= (1 - alpha) m n``, when the first term is at least 1 - alpha. It
    may be negative. ``CoverageLaw.ppf(delta)`` is the exact value that it bounds from
    below.

    Parameters
    ----------
    n_sites, n_points : int
        Number of sites, and of scores at each.
    local_rank, server_rank : int
        Rank that each site sends, and that the server keeps.
    delta : float
        Probability with which the bound may fail, in (0, 0.5].

    Returns
    -------
    float

    Examples
    --------
    >>> from fedconformal.laws import conditional_coverage_bound
    >>> round(conditional_coverage_bound(10, 100, 92, 10, delta=0.1), 3)
    0.886
    """
    m, n = (
        _util.integer("n_sites", n_sites, low=1),
        _util.integer("n_points", n_points, low=1),
    )
    l = _util.integer("local_rank", local_rank, low=1, high=n)
    k = _util.integer("server_rank", server_rank, low=1, high=m)
    share = float(_util.fraction("delta", delta, high=0.5, closed=True))
    return l * k / (m * n) - math.sqrt(math.log(1 / share) / (2 * m * n))


def maximum_coverage(
    n_sites: int, n_points: int, server_rank: int | None = None, *, level: float = 0.9
) -> float:
    """Return M_{n,k} of Proposition A.1 in closed form: each site sends its largest
    score.

    M_{n,k} = G(k + 1/n) G(m + 1) / (G(k) G(m + 1 + 1/n)), G the Gamma function. The
    default server rank is the paper's k_m = ceil(m level^n), for which M tends to the
    level as m grows; at a finite m it can be below it.

    Parameters
    ----------
    n_sites, n_points : int
        Number of sites, and of scores at each.
    server_rank : int, optional
        Rank that the server keeps; k_m by default.
    level : float
        The level of k_m.

    Returns
    -------
    float

    Examples
    --------
    >>> from fedconformal.laws import maximum_coverage
    >>> round(maximum_coverage(100, 10), 4), round(maximum_coverage(5, 10, 3), 6)
    (0.8987, 0.925626)
    """
    m, n = (
        _util.integer("n_sites", n_sites, low=1),
        _util.integer("n_points", n_points, low=1),
    )
    share = _util.fraction("level", level)
    k = (
        math.ceil(m * share**n)
        if server_rank is None
        else _util.integer("server_rank", server_rank, low=1, high=m)
    )
    return math.exp(_log_gamma_step(k, 1 / n) - _log_gamma_step(m + 1, 1 / n))


def _log_gamma_step(x: int, h: float) -> float:
    """Return log G(x + h) - log G(x), from Stirling's series where these would
    cancel.
    """
    if x < 100:
        return math.lgamma(x + h) - math.lgamma(x)
    rest = (1 / (x + h) - 1 / x) / 12 - (1 / (x + h) ** 3 - 1 / x**3) / 360
    return (x - 0.5) * math.log1p(h / x) + h * (math.log(x + h) - 1) + rest


def heterogeneous_coverage_bound(
    n_sites: int | None = None,
    n_points: Any = None,
    local_rank: Any = None,
    server_rank: Any = None,
    *,
    distortion: Distortion | Sequence[Distortion | None],
    weights: Any = None,
    coupling: str = "same",
) -> float:
    """Return Proposition 3.4's bound of the marginal coverage when sites differ from
    the test point.

    The bound is M minus the expected total-variation distance between the votes of the
    sites as they are and of sites like the test point (the choice of the paper's remark
    C.2). With one vote per site the first is a Poisson-binomial count, the second
    binomial if sizes are equal. ``CoverageLaw(..., distortion=...).mean()`` is the
    exact value.

    Parameters
    ----------
    n_sites, n_points, local_rank, server_rank : int
        As for `CoverageLaw`.
    distortion, weights : callables and sequences
        As for ``CoverageLaw``.
    coupling : {"same", "best"}
        Joint distribution of the test score and of the auxiliary score of remark C.2:
        equal, or the optimal transport between 1,000 cells of each, whichever gives the
        larger bound.

    Returns
    -------
    float

    Examples
    --------
    >>> from fedconformal.laws import heterogeneous_coverage_bound
    >>> round(
    ...     heterogeneous_coverage_bound(10, 100, 92, 4, distortion=lambda c: c**1.1), 3
    ... )
    0.874
    """
    alike = CoverageLaw(n_sites, n_points, local_rank, server_rank, weights=weights)
    actual = CoverageLaw(
        n_sites,
        n_points,
        local_rank,
        server_rank,
        weights=weights,
        distortion=distortion,
    )
    loss = heterogeneity_loss(actual.federation)
    if _util.choice("coupling", coupling, ("same", "best")) == "best":
        loss = min(loss, heterogeneity_loss(actual.federation, is_matched=True))
    return alike.mean() - loss


def heterogeneity_loss(federation: Federation, *, is_matched: bool = False) -> float:
    """Return a bound of what differences between honest sites cost in mean coverage
    (Proposition 3.4).

    With S the votes below a test score given that score, S' the votes if all sites were
    like the test point, the coverage differs by at most E d(S, S'), d the
    total-variation distance, for any joint distribution of the two scores.

    Parameters
    ----------
    federation : Federation
        The sites; ``max_faulty`` is ignored.
    is_matched : bool
        True to match cells of the two scores so that the distance at midpoints is
        smallest; else they are equal.

    Returns
    -------
    float
        Zero for sites that are not ``Shifted``.
    """
    if not isinstance(federation.sites, Shifted):
        return 0.0
    actual, alike = (
        Federation(sites, federation.counts, weights=federation.weights)
        for sites in (federation.sites, federation.sites.base)
    )
    ks = federation.unit * np.arange(0, federation.n_votes // federation.unit + 2)

    def masses(side: Federation, c: Floats) -> Floats:
        return np.asarray(np.diff(side.cdf(c, ks, digits=False)))

    edges, shifts = _edges(federation.sites), np.zeros(_CELLS)
    if is_matched:
        from scipy import optimize, spatial  # which nothing else here needs

        cells = np.arange(_CELLS + 1) / _CELLS
        middles = cells[:-1] + 0.5 / _CELLS
        cost = spatial.distance.cdist(
            masses(actual, middles), masses(alike, middles), "cityblock"
        )
        shifts = (optimize.linear_sum_assignment(cost)[1] - np.arange(_CELLS)) / _CELLS
        moved = (
            edges[:, None] - shifts
        ).ravel()  # where the matched score has its rises
        edges = np.unique(
            np.concatenate([edges, cells, moved[(moved > 0) & (moved < 1)]])
        )

    def distance(c: Floats) -> Floats:
        cell = np.minimum((c * _CELLS).astype(int), _CELLS - 1)
        matched = np.clip(c + shifts[cell], 0.0, 1.0)
        return np.asarray(
            np.abs(masses(actual, c) - masses(alike, matched)).sum(
                axis=1, keepdims=True
            )
            / 2
        )

    return float(integrate(distance, edges, tolerance=1e-9)[0])


def _edges(sites: Shifted) -> Floats:
    """Return panels around every place at which a site's probability rises, shifted or
    not.

    For large sites these are narrow, and an integral over other panels would miss them.
    """
    a, b, proper = sites.base.shape
    marks = [np.linspace(0.0, 1.0, 17)]
    lows = beta_quantile(a, b, _TAIL)[proper]
    highs = 1 - beta_quantile(b, a, _TAIL)[proper]
    for low, high, block in zip(
        lows, highs, np.nonzero(proper)[0].tolist(), strict=True
    ):
        ends = _invert(sites.distortions[block], np.array([low, high]))
        marks += [
            np.linspace(low, high, 9),
            np.linspace(float(ends[0]), float(ends[1]), 9),
        ]
    return np.unique(np.clip(np.concatenate(marks), 0.0, 1.0))


def _invert(h: Distortion, shares: Floats) -> Floats:
    """Return where a distortion reaches these shares, by bisection, as it may jump."""
    low, high = np.zeros(shares.shape), np.ones(shares.shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        under = np.asarray(h(middle), dtype=float) < shares
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return (low + high) / 2


def ehm_bound(p: ArrayLike, *, lower: bool = False) -> Any:
    """Return a bound of the total variation between PoissonBinomial(p) and Binomial(m,
    mean of p).

    Parameters
    ----------
    p : array_like
        Probabilities, the last axis running over the m sites.
    lower : bool
        Return the lower bound that docs/theory.md proves; by default Ehm's upper bound.

    Returns
    -------
    float, or array if ``p`` has more axes

    Raises
    ------
    ValueError
        If ``p`` holds anything but probabilities.

    Examples
    --------
    >>> from fedconformal.laws import ehm_bound
    >>> round(float(ehm_bound([0.4, 0.5, 0.6], lower=True)), 4), round(
    ...     float(ehm_bound([0.4, 0.5, 0.6])), 4
    ... )
    (0.0013, 0.0175)
    """
    p = np.asarray(p, dtype=float)
    if p.ndim == 0 or p.shape[-1] == 0 or not np.all((p >= 0) & (p <= 1)):
        raise ValueError("p must hold probabilities in [0, 1], at least one of them")
    m, mean = p.shape[-1], p.mean(axis=-1)
    variance = m * mean * (1 - mean)
    lost = ((p - mean[..., None]) ** 2).sum(
        axis=-1
    )  # variance of the binomial less that of the count
    if lower:
        return (11 / 96 * lost / (variance + 1))[()]
    rarer = np.minimum(mean, 1 - mean)
    shape = -np.expm1((m + 1) * np.log1p(-rarer)) - rarer ** (m + 1)
    share = np.divide(lost, variance, out=np.zeros_like(lost), where=variance > 0)
    return (m / (m + 1) * shape * share)[()]


# -- main numbers ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Summary:
    """Main numbers of a distribution of the coverage, beside the level that was asked
    for.

    Parameters
    ----------
    law : CoverageLaw
        Distribution of the coverage.
    confidence_level : float
        The coverage that was asked for.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.laws import Summary
    >>> summary = Summary(fc.CoverageLaw(10, 100, 92, 4), 0.9)
    >>> round(summary.mean, 4), round(summary.low, 4)
    (0.9023, 0.8817)
    """

    law: CoverageLaw
    confidence_level: float

    @cached_property
    def mean(self) -> float:
        """Mean coverage."""
        return self.law.mean()

    @cached_property
    def std(self) -> float:
        """Standard deviation of the coverage."""
        return self.law.std()

    @property
    def is_certain(self) -> bool:
        """True if the coverage is not random: the threshold is infinite."""
        return self.std == 0

    @cached_property
    def reached(self) -> float:
        """Probability that the coverage is at least the level."""
        return (
            self.mean if self.is_certain else float(self.law.sf(self.confidence_level))
        )

    @cached_property
    def _quantiles(self) -> Floats:
        return np.asarray(self.law.ppf([_OUTSIDE, 0.05, 1 - _OUTSIDE]))

    @property
    def low(self) -> float:
        """Coverage that is missed in one of 20 calibrations: the 5 % quantile."""
        return float(self._quantiles[1])

    @property
    def window(self) -> tuple[float, float]:
        """Two coverages between which all but one in 500 calibrations lie."""
        return float(self._quantiles[0]), float(self._quantiles[2])


def density(law: CoverageLaw, edges: Floats) -> Floats:
    """Return the mean density of the coverage between neighbouring edges: exact
    probability over width.

    Parameters
    ----------
    law : CoverageLaw
        Distribution of the coverage.
    edges : array
        Increasing coverages.

    Returns
    -------
    array of shape (len(edges) - 1,)

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> from fedconformal.laws import density
    >>> density(fc.CoverageLaw(10, 100, 92, 4), np.array([0.85, 0.9, 0.95])).round(1)
    array([ 8.1, 11.9])
    """
    steps: Floats = np.diff(np.asarray(law.cdf(edges), dtype=float)) / np.diff(edges)
    return np.maximum(steps, 0.0)
