"""What one would do instead: pool the scores, stay alone, or average the sites' quantiles (paper, 3.3)."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import _checks
from fedconformal.laws import CoverageLaw


def centralized(scores: ArrayLike, confidence_level: float) -> float:
    """Split conformal threshold of pooled scores: the ceil((N + 1) level)-th smallest, +inf if there is none.

    Marginal coverage is at least the level, and at most ``upper_bound(N, level)`` without ties. It needs all
    scores in one place.
    """
    values = np.asarray(scores, dtype=float).ravel()
    if values.size == 0 or np.isnan(values).any():
        raise ValueError("scores must hold at least one number and no NaN")
    rank = _checks.rank_of(_checks.fraction("confidence_level", confidence_level), values.size)
    return math.inf if rank > values.size else float(np.partition(values, rank - 1)[rank - 1])


def single_site(scores: ArrayLike, confidence_level: float) -> float:
    """The threshold of one site that stays alone: split conformal prediction on its own scores."""
    return centralized(scores, confidence_level)


def average(scores: Iterable[ArrayLike], confidence_level: float) -> float:
    """FedCP-Avg (Lu and Kalpathy-Cramer, 2021): the mean of the sites' own thresholds. No guarantee."""
    thresholds = [single_site(site, confidence_level) for site in scores]
    if not thresholds:
        raise ValueError("scores must hold the scores of at least one site")
    return float(np.mean(thresholds))


def upper_bound(n_points: int, confidence_level: float) -> float:
    """Largest marginal coverage of split conformal prediction on n scores without ties: level + 1/(n + 1).

    For the centralised baseline n is the number of pooled scores, for a single site its own.
    """
    n = _checks.integer("n_points", n_points, low=1)
    return float(_checks.fraction("confidence_level", confidence_level)) + 1 / (n + 1)


def coverage_law(n_points: int, confidence_level: float) -> CoverageLaw:
    """The law of the coverage of split conformal prediction on n scores: pooled ones, or one site's own.

    The coverage follows a Beta law; it is 1 for sure where n is too small for a finite threshold.
    """
    n = _checks.integer("n_points", n_points, low=1)
    rank = _checks.rank_of(_checks.fraction("confidence_level", confidence_level), n)
    return CoverageLaw(1, n, rank, 1)
