"""The paper's inequalities: Theorem 3.3, Proposition 3.4, and Ehm's theorem behind it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _checks
from fedconformal.laws._counts import count_tails
from fedconformal.laws._coverage import CoverageLaw
from fedconformal.laws._moments import integrate
from fedconformal.laws._sites import Distortion, Floats, Shifted


def conditional_coverage_bound(
    n_sites: int, n_points: int, local_rank: int, server_rank: int, *, delta: float
) -> float:
    """Theorem 3.3: with probability at least 1 - delta the coverage given the data is at least this.

    The bound is ``l k / (m n) - sqrt(log(1/delta) / (2 m n))``; the paper states it for pairs with
    ``l k >= (1 - alpha) m n``, when the first term is at least 1 - alpha. It may be negative.
    ``CoverageLaw.ppf(delta)`` is the exact value that it bounds from below.
    """
    m, n = _checks.integer("n_sites", n_sites, low=1), _checks.integer("n_points", n_points, low=1)
    l = _checks.integer("local_rank", local_rank, low=1, high=n)
    k = _checks.integer("server_rank", server_rank, low=1, high=m)
    share = float(_checks.fraction("delta", delta, high=0.5, closed=True))
    return l * k / (m * n) - math.sqrt(math.log(1 / share) / (2 * m * n))


def heterogeneous_coverage_bound(
    n_sites: int,
    n_points: int,
    local_rank: int,
    server_rank: int,
    *,
    distortion: Distortion | Sequence[Distortion | None],
) -> float:
    """Proposition 3.4: marginal coverage is at least this when sites differ from the test point.

    The bound is M minus the expected total-variation distance between the Poisson-binomial count of the
    sites as they are and the binomial count of sites like the test point (the choice of the paper's remark
    C.3). ``CoverageLaw(..., distortion=...).mean()`` is the exact value.
    """
    alike = CoverageLaw(n_sites, n_points, local_rank, server_rank)
    federation = CoverageLaw(n_sites, n_points, local_rank, server_rank, distortion=distortion).federation
    loss = 0.0
    if isinstance(federation.sites, Shifted):
        base = type(federation)(federation.sites.base, federation.counts)
        ks = np.arange(0, n_sites + 1)

        def total_variation(c: Floats) -> Floats:
            actual, ideal = -np.diff(federation.cdf(c, ks)), -np.diff(base.cdf(c, ks))
            last = federation.cdf(c, ks[-1:]) - base.cdf(c, ks[-1:])
            distance: Floats = (np.abs(actual - ideal).sum(axis=1, keepdims=True) + np.abs(last)) / 2
            return distance

        loss = float(integrate(total_variation, np.array([0.0, 1.0]), tolerance=1e-10)[0])
    return alike.mean() - loss


def ehm_bound(p: ArrayLike) -> Any:
    """Ehm's inequality: total-variation distance between PoissonBinomial(p) and Binomial(m, mean of p).

    Parameters
    ----------
    p : probabilities, the last axis running over the m sites.
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
    """Total-variation distance between PoissonBinomial(p) and Binomial(m, mean of p), which Ehm bounds."""
    p = np.asarray(p, dtype=float)
    m, mean = p.size, float(p.mean())
    tails = count_tails(np.arange(0, m + 2), p[None, :], np.ones(m, dtype=np.int64))[0]
    j = np.arange(0, m + 1)
    log_choose = special.gammaln(m + 1) - special.gammaln(j + 1) - special.gammaln(m - j + 1)
    binomial = np.exp(log_choose + special.xlogy(j, mean) + special.xlog1py(m - j, -mean))
    return float(np.abs(-np.diff(tails) - binomial).sum() / 2)
