"""The paper's inequalities: Theorem 3.3, Proposition 3.4, and Ehm's theorem behind it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _validation
from fedconformal._typing import Floats
from fedconformal.laws._coverage import CoverageLaw
from fedconformal.laws._federation import Federation
from fedconformal.laws._integration import integrate
from fedconformal.laws._sites import Distortion, Shifted, inverse
from fedconformal.laws._tails import count_tails
from fedconformal.laws._votes import masses

_TAIL = 1e-14


def conditional_coverage_bound(
    n_sites: int, n_points: int, local_rank: int, server_rank: int, *, delta: float
) -> float:
    """Theorem 3.3: with probability at least 1 - delta the coverage given the data is at least this.

    The bound is ``l k / (m n) - sqrt(log(1/delta) / (2 m n))``; the paper states it for pairs with
    ``l k >= (1 - alpha) m n``, when the first term is at least 1 - alpha. It may be negative.
    ``CoverageLaw.ppf(delta)`` is the exact value that it bounds from below.

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
    m, n = _validation.integer("n_sites", n_sites, low=1), _validation.integer("n_points", n_points, low=1)
    l = _validation.integer("local_rank", local_rank, low=1, high=n)
    k = _validation.integer("server_rank", server_rank, low=1, high=m)
    share = float(_validation.fraction("delta", delta, high=0.5, closed=True))
    return l * k / (m * n) - math.sqrt(math.log(1 / share) / (2 * m * n))


def heterogeneous_coverage_bound(
    n_sites: int | None = None,
    n_points: Any = None,
    local_rank: Any = None,
    server_rank: Any = None,
    *,
    distortion: Distortion | Sequence[Distortion | None],
    weights: Any = None,
) -> float:
    """Proposition 3.4: marginal coverage is at least this when sites differ from the test point.

    The bound is M minus the expected total-variation distance between the votes of the sites as they are
    and of sites like the test point (the choice of the paper's remark C.3). With one vote per site the
    first is a Poisson-binomial count, the second binomial if sizes are equal. ``CoverageLaw(...,
    distortion=...).mean()`` is the exact value.

    Parameters
    ----------
    n_sites, n_points, local_rank, server_rank, distortion, weights : int, sequences and callables
        As for ``CoverageLaw``.

    Returns
    -------
    float

    Examples
    --------
    >>> from fedconformal.laws import heterogeneous_coverage_bound
    >>> round(heterogeneous_coverage_bound(10, 100, 92, 4, distortion=lambda c: c**1.1), 3)
    0.874
    """
    alike = CoverageLaw(n_sites, n_points, local_rank, server_rank, weights=weights)
    actual = CoverageLaw(n_sites, n_points, local_rank, server_rank, weights=weights, distortion=distortion)
    return alike.mean() - heterogeneity_losses(actual.federation)[0]


def heterogeneity_losses(federation: Federation) -> tuple[float, float]:
    """Two bounds of what differences between honest sites cost in mean coverage.

    With S the votes below a test score given that score, S' the votes if all sites were like the test
    point, the coverage differs by at most E d(S, S'), d the total-variation distance (Proposition 3.4). The
    second is larger but needs no law of votes. Where every site has one vote, Ehm's inequality bounds d
    between each count and the binomial count with its mean, and two binomials of one size and means p, p'
    are at most as far apart as ``m |p - p'|``. Otherwise d is at most the sum of the sites' own distances.

    Parameters
    ----------
    federation : Federation
        The sites; ``max_faulty`` is ignored.

    Returns
    -------
    exact, simple : float
        Zero for sites that are not ``Shifted``.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import Federation, OrderStatistics, Shifted
    >>> from fedconformal.laws import heterogeneity_losses
    >>> exact = OrderStatistics(np.array([100]), np.array([92]))
    >>> loss, _ = heterogeneity_losses(Federation(Shifted(exact, [lambda c: c**1.1]), np.array([10])))
    >>> bool(loss > 0)
    True
    """
    if not isinstance(federation.sites, Shifted):
        return 0.0, 0.0
    actual, alike = (
        Federation(sites, federation.counts, weights=federation.weights)
        for sites in (federation.sites, federation.sites.base)
    )
    ks = federation.unit * np.arange(0, federation.n_votes // federation.unit + 2)

    def losses(c: Floats) -> Floats:
        laws = [-np.diff(side.cdf(c, ks, digits=False)) for side in (actual, alike)]
        exact = np.abs(laws[0] - laws[1]).sum(axis=1) / 2
        bound = np.minimum(1.0, _simple(federation, *(side.sites.below(c) for side in (actual, alike))))
        return np.stack([exact, bound], axis=1)

    exact, bound = integrate(losses, _edges(federation.sites), tolerance=1e-9)
    return float(exact), float(bound)


def _simple(federation: Federation, p: Floats, ideal: Floats) -> Floats:
    """A bound of the distance of votes, from the probabilities of the blocks."""
    m, counts = federation.n_sites, federation.counts
    if p.ndim == 2 and federation.n_votes == m * federation.unit:
        p, ideal = (np.repeat(side, counts, axis=1) for side in (p, ideal))
        means = m * np.abs(p.mean(axis=1) - ideal.mean(axis=1))
        return np.asarray(ehm_bound(p) + ehm_bound(ideal) + means)
    p, ideal = (masses(side.reshape(len(side), counts.size, -1)) for side in (p, ideal))
    return np.asarray(np.abs(p - ideal).sum(axis=2) @ counts / 2)


def _edges(sites: Shifted) -> Floats:
    """Where to look first: around every place at which a site's probability rises, shifted or not.

    For large sites these are narrow, and an integral that starts elsewhere would not see them.
    """
    a, b, proper = sites.base.shape
    marks = [np.linspace(0.0, 1.0, 17)]
    lows, highs = special.betaincinv(a, b, _TAIL)[proper], 1 - special.betaincinv(b, a, _TAIL)[proper]
    for low, high, block in zip(lows, highs, np.nonzero(proper)[0].tolist(), strict=True):
        ends = inverse(sites.distortions[block], np.array([low, high]))
        marks += [np.linspace(low, high, 9), np.linspace(float(ends[0]), float(ends[1]), 9)]
    return np.unique(np.clip(np.concatenate(marks), 0.0, 1.0))


def ehm_bound(p: ArrayLike) -> Any:
    """Ehm's inequality: total-variation distance between PoissonBinomial(p) and Binomial(m, mean of p).

    Parameters
    ----------
    p : array_like
        Probabilities, the last axis running over the m sites.

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
    >>> round(float(ehm_bound([0.4, 0.5, 0.6])), 4)
    0.0175
    """
    p = np.asarray(p, dtype=float)
    if p.ndim == 0 or p.shape[-1] == 0 or not np.all((p >= 0) & (p <= 1)):
        raise ValueError("p must hold probabilities in [0, 1], at least one of them")
    m, mean = p.shape[-1], p.mean(axis=-1)
    spread = m * mean * (1 - mean)
    shape = 1.0 - mean ** (m + 1) - (1 - mean) ** (m + 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.where(spread > 0, 1.0 - (p * (1 - p)).sum(axis=-1) / spread, 0.0)
    return (m / (m + 1) * shape * np.maximum(excess, 0.0))[()]


def total_variation_to_binomial(p: ArrayLike) -> float:
    """Total-variation distance between PoissonBinomial(p) and Binomial(m, mean of p), which Ehm bounds.

    Parameters
    ----------
    p : array_like of shape (sites,)
        Probabilities.

    Returns
    -------
    float

    Examples
    --------
    >>> from fedconformal.laws import total_variation_to_binomial
    >>> round(total_variation_to_binomial([0.4, 0.5, 0.6]), 4)
    0.01
    """
    p = np.asarray(p, dtype=float)
    m, mean = p.size, float(p.mean())
    tails = count_tails(np.arange(0, m + 2), p[None, :], np.ones(m, dtype=np.int64))[0]
    j = np.arange(0, m + 1)
    log_choose = special.gammaln(m + 1) - special.gammaln(j + 1) - special.gammaln(m - j + 1)
    binomial = np.exp(log_choose + special.xlogy(j, mean) + special.xlog1py(m - j, -mean))
    return float(np.abs(-np.diff(tails) - binomial).sum() / 2)
