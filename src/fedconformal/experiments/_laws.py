"""What the figures of the laws show, computed: no data, no models."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedconformal import baselines
from fedconformal.documents import Plan
from fedconformal.experiments._methods import (
    CENTRALISED,
    EPSILONS,
    N_BINS,
    QQ,
    SINGLE,
    STABLE,
    THREE,
    plan_text,
    private_plan,
)
from fedconformal.experiments._store import Rows
from fedconformal.laws import CoverageLaw, coverage_table
from fedconformal.privacy import expected_cost
from fedconformal.protocol import plan


def upper_bounds(sites: Sequence[int], points: Sequence[int], level: float) -> Rows:
    """Figure 1: exact coverage under two criteria, and the bounds of pooled and of single-site calibration.

    Parameters
    ----------
    sites, points : sequence of int
        Numbers of sites, and of points at each.
    level : float
        The confidence level.

    Returns
    -------
    list of dict
        A row for each federation and curve.
    """
    rows: Rows = []
    for m in sites:
        for n in points:
            values = {
                QQ: plan(m, n, confidence_level=level, criterion="marginal").law.mean(),
                STABLE: plan(m, n, confidence_level=level, criterion="stable").law.mean(),
                THREE: plan(m, n, confidence_level=level, criterion="stable", numbers=3).law.mean(),
                f"{CENTRALISED}, upper bound": baselines.upper_bound(m * n, level),
                f"{SINGLE}, upper bound": baselines.upper_bound(n, level),
            }
            rows += [
                {"n_sites": m, "n_points": n, "confidence_level": level, "curve": curve, "coverage": value}
                for curve, value in values.items()
            ]
    return rows


def compensation(points: Sequence[int], levels: Sequence[float], n_sites: int = 10) -> Rows:
    """Figure 2: what privacy costs, as the analysis itself counts it.

    Parameters
    ----------
    points : sequence of int
        Numbers of points at each site.
    levels : sequence of float
        Confidence levels.
    n_sites : int
        Number of sites.

    Returns
    -------
    list of dict
        A row for each level, epsilon, analysis and number of points; the coverage is None where an analysis
        has no plan.
    """
    return [
        {
            "n_sites": n_sites,
            "n_points": n,
            "confidence_level": level,
            "epsilon": epsilon,
            "n_bins": N_BINS,
            "analysis": analysis,
            "plan": plan_text(private_plan(n_sites, n, level, epsilon, analysis)),
            "coverage": _compensated(private_plan(n_sites, n, level, epsilon, analysis), coverage),
        }
        for level in levels
        for epsilon in EPSILONS
        for analysis, coverage in _COVERAGES.items()
        for n in points
    ]


def _compensated(chosen: Plan, coverage: Callable[[Plan], float]) -> float | None:
    return coverage(chosen) if chosen.feasible else None


def _of_the_ranks(chosen: Plan) -> float:
    """M at the corrected rank, at which the sites aim."""
    return CoverageLaw(
        n_points=chosen.n_points, local_rank=chosen.local_ranks, server_rank=chosen.server_rank
    ).mean()


def _to_expect(chosen: Plan) -> float:
    """Mean coverage if scores lie evenly over the bins."""
    return expected_cost(chosen)[0].expected


_COVERAGES: Mapping[str, Callable[[Plan], float]] = {"paper": _of_the_ranks, "tight": _to_expect}
"""The coverage that figure 2 shows for each analysis: the paper shows M, ours what to expect."""


def table(n_sites: int, n_points: int, level: float) -> Rows:
    """The array M, with the criteria that choose each pair of ranks.

    Parameters
    ----------
    n_sites, n_points : int
        The federation.
    level : float
        The confidence level.

    Returns
    -------
    list of dict
        A row for each pair of ranks.
    """
    values = coverage_table(n_sites, n_points)
    chosen: dict[tuple[int, int], list[str]] = {}
    for criterion in ("marginal", "stable"):
        best = plan(n_sites, n_points, confidence_level=level, criterion=criterion)
        chosen.setdefault((best.local_ranks[0], best.server_rank), []).append(criterion)
    return [
        {
            "n_sites": n_sites,
            "n_points": n_points,
            "confidence_level": level,
            "local_rank": l + 1,
            "server_rank": k + 1,
            "coverage": float(values[l, k]),
            "chosen_by": " ".join(chosen.get((l + 1, k + 1), [])),
        }
        for l, k in np.ndindex(values.shape)
    ]
