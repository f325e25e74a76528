"""Alternatives: pool the scores, or average the sites' quantiles (paper, section
3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import _util
from fedconformal._text import count, percent, plain_spaces, warn
from fedconformal.laws import CoverageLaw
from fedconformal.protocol import InfeasibleWarning

__all__ = ["average", "centralized"]


def centralized(
    scores: ArrayLike | Iterable[ArrayLike], confidence_level: float
) -> float:
    """Return the split conformal threshold of pooled scores: the ceil((N + 1) level)-th
    smallest.

    Marginal coverage is at least the level, and without ties at most level + 1 / (N +
    1). It needs all scores in one place, or those of one site that stays alone.

    Parameters
    ----------
    scores : iterable of arrays of numbers, mapping from site to array, or array
        The scores of each site, as for `average`, or those of all sites in one array of
        any shape.
    confidence_level : float
        Coverage wanted, strictly between 0 and 1.

    Returns
    -------
    float
        inf, with an InfeasibleWarning, where there are too few scores for the level.

    Raises
    ------
    ValueError
        If there is no score or one is NaN.

    Examples
    --------
    >>> centralized(range(1, 100), 0.9)
    90.0
    >>> centralized([range(1, 50), range(50, 100)], 0.9)
    90.0
    """
    if not hasattr(scores, "dtype"):
        scores = _list_sites(scores)
        if scores and np.ndim(_util.plain_array(scores[0])):
            scores = np.concatenate(
                [_util.plain_array(site, dtype=float).ravel() for site in scores]
            )
    values = _util.plain_array(scores, dtype=float).ravel()
    if values.size == 0 or np.isnan(values).any():
        raise ValueError("scores must hold at least one number and no NaN")
    level = _util.fraction("confidence_level", confidence_level)
    rank = _util.rank_of(level, values.size)
    if rank > values.size:
        warn(
            f"{plain_spaces(percent(float(level)))} coverage cannot be guaranteed with"
            f" {count(values.size, 'score')}, so the threshold is infinite. You need at"
            f" least {math.ceil(level / (1 - level))}.",
            InfeasibleWarning,
        )
        return math.inf
    return float(np.partition(values, rank - 1)[rank - 1])


def average(
    scores: Iterable[ArrayLike], confidence_level: float, *, weighted: bool = False
) -> float:
    """Return the mean of the sites' own thresholds, FedCP-Avg (Lu and Kalpathy-Cramer,
    2021).

    It has no guarantee, and neither has the mean weighted by size, FedWQ-CP (Nguyen,
    Wang and Ku, 2026).

    Parameters
    ----------
    scores : iterable of arrays of numbers, or mapping from site to array
        The scores of each site.
    confidence_level : float
        Coverage wanted, strictly between 0 and 1.
    weighted : bool
        Whether sites count by how many scores they have.

    Returns
    -------
    float
        inf, with an InfeasibleWarning, if one site has too few scores for the level.

    Raises
    ------
    ValueError
        If there is no site, or a site without scores.

    Examples
    --------
    >>> average([range(1, 10), range(11, 20)], 0.9)
    14.0
    >>> average([range(1, 10), range(11, 40)], 0.9, weighted=True)
    30.36842105263158
    """
    sites = [_util.plain_array(site) for site in _list_sites(scores)]
    if any(site.ndim == 0 for site in sites):
        raise ValueError(
            "scores must be one array for each site, got numbers that belong to no site"
        )
    if not sites:
        raise ValueError("scores must hold the scores of at least one site")
    thresholds = [centralized(site, confidence_level) for site in sites]
    return float(
        np.average(
            thresholds, weights=[site.size for site in sites] if weighted else None
        )
    )


def coverage_law(n_points: int, confidence_level: float) -> CoverageLaw:
    """Return the distribution of the coverage of split conformal prediction.

    The coverage follows a Beta distribution; it is always 1 where n is too small for a
    finite threshold.

    Parameters
    ----------
    n_points : int
        The number n of scores: for the centralised baseline of pooled ones, for a
        single site of its own.
    confidence_level : float
        Coverage wanted, strictly between 0 and 1.

    Returns
    -------
    CoverageLaw

    Examples
    --------
    >>> round(coverage_law(99, 0.9).std(), 4)
    0.0299
    """
    rank = _util.rank_of(_util.fraction("confidence_level", confidence_level), n_points)
    return CoverageLaw(n_sites=1, n_points=n_points, local_rank=rank, server_rank=1)


def _list_sites(scores: Any) -> list[Any]:
    """List the scores of each site, also of sites by name."""
    return list(scores.values() if isinstance(scores, Mapping) else scores)
