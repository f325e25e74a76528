"""The paper's inequalities: Theorem 3.3, Proposition 3.4, and Ehm's theorem behind it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _util
from fedconformal._util import Floats
from fedconformal.laws._coverage import CoverageLaw
from fedconformal.laws._federation import Federation
from fedconformal.laws._integration import integrate
from fedconformal.laws._sites import Distortion, Shifted

_TAIL = 1e-14
_HALVINGS = 60


def conditional_coverage_bound(
    n_sites: int, n_points: int, local_rank: int, server_rank: int, *, delta: float
) -> float:
    """Return Theorem 3.3's bound, which the coverage given the data reaches with probability 1 - delta.

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
    m, n = _util.integer("n_sites", n_sites, low=1), _util.integer("n_points", n_points, low=1)
    l = _util.integer("local_rank", local_rank, low=1, high=n)
    k = _util.integer("server_rank", server_rank, low=1, high=m)
    share = float(_util.fraction("delta", delta, high=0.5, closed=True))
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
    """Return Proposition 3.4's bound of the marginal coverage when sites differ from the test point.

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
    return alike.mean() - heterogeneity_loss(actual.federation)


def heterogeneity_loss(federation: Federation) -> float:
    """Return a bound of what differences between honest sites cost in mean coverage (Proposition 3.4).

    With S the votes below a test score given that score, S' the votes if all sites were like the test point,
    the coverage differs by at most E d(S, S'), d the total-variation distance.

    Parameters
    ----------
    federation : Federation
        The sites; ``max_faulty`` is ignored.

    Returns
    -------
    float
        Zero for sites that are not ``Shifted``.
    """
    if not isinstance(federation.sites, Shifted):
        return 0.0
    sides = [
        Federation(sites, federation.counts, weights=federation.weights)
        for sites in (federation.sites, federation.sites.base)
    ]
    ks = federation.unit * np.arange(0, federation.n_votes // federation.unit + 2)

    def distance(c: Floats) -> Floats:
        actual, alike = (np.diff(side.cdf(c, ks, digits=False)) for side in sides)
        return np.asarray(np.abs(actual - alike).sum(axis=1, keepdims=True) / 2)

    return float(integrate(distance, _edges(federation.sites), tolerance=1e-9)[0])


def _edges(sites: Shifted) -> Floats:
    """Return panels around every place at which a site's probability rises, shifted or not.

    For large sites these are narrow, and an integral over other panels would miss them.
    """
    a, b, proper = sites.base.shape
    marks = [np.linspace(0.0, 1.0, 17)]
    lows, highs = special.betaincinv(a, b, _TAIL)[proper], 1 - special.betaincinv(b, a, _TAIL)[proper]
    for low, high, block in zip(lows, highs, np.nonzero(proper)[0].tolist(), strict=True):
        ends = _invert(sites.distortions[block], np.array([low, high]))
        marks += [np.linspace(low, high, 9), np.linspace(float(ends[0]), float(ends[1]), 9)]
    return np.unique(np.clip(np.concatenate(marks), 0.0, 1.0))


def _invert(h: Distortion, shares: Floats) -> Floats:
    """Return where a distortion reaches these shares, by bisection, as it may jump."""
    low, high = np.zeros(shares.shape), np.ones(shares.shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        under = np.asarray(h(middle), dtype=float) < shares
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return (low + high) / 2


def ehm_bound(p: ArrayLike) -> Any:
    """Return Ehm's bound of the total variation between PoissonBinomial(p) and Binomial(m, mean of p).

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
