"""What the figures of the laws show, computed: no data, no models."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedconformal import baselines
from fedconformal.experiments._methods import CENTRALISED, EPSILONS, N_BINS, QQ, SINGLE, STABLE, private_plan
from fedconformal.experiments._store import Rows
from fedconformal.laws import CoverageLaw, coverage_table
from fedconformal.planning import plan
from fedconformal.privacy import expected_cost

ANALYSES: tuple[Literal["paper", "tight"], ...] = ("paper", "tight")


def upper_bounds(sites: Sequence[int], points: Sequence[int], level: float) -> Rows:
    """Figure 1: exact coverage under two criteria, and the bounds that pooled and lonely calibration obey."""
    rows: Rows = []
    for m in sites:
        for n in points:
            values = {
                QQ: plan(m, n, confidence_level=level).law.mean(),
                STABLE: plan(m, n, confidence_level=level, criterion="stable").law.mean(),
                f"{CENTRALISED}, upper bound": baselines.upper_bound(m * n, level),
                f"{SINGLE}, upper bound": baselines.upper_bound(n, level),
            }
            rows += [
                {"n_sites": m, "n_points": n, "confidence_level": level, "curve": curve, "coverage": value}
                for curve, value in values.items()
            ]
    return rows


def compensation(points: Sequence[int], levels: Sequence[float], n_sites: int = 10) -> Rows:
    """Figure 2: for the paper's analysis M at the corrected rank, for ours the coverage to expect.

    None where an analysis has no plan.
    """
    return [
        {
            "n_sites": n_sites,
            "n_points": n,
            "confidence_level": level,
            "epsilon": epsilon,
            "n_bins": N_BINS,
            "analysis": analysis,
            "coverage": _compensated(n_sites, n, level, epsilon, analysis),
        }
        for level in levels
        for epsilon in EPSILONS
        for analysis in ANALYSES
        for n in points
    ]


def _compensated(
    m: int, n: int, level: float, epsilon: float, analysis: Literal["paper", "tight"]
) -> float | None:
    chosen = private_plan(m, n, level, epsilon, analysis)
    quantile, rank = chosen.levels[0].exact_quantile, chosen.levels[0].server_rank
    if not chosen.feasible or quantile is None or rank is None:
        return None
    if analysis == "tight":
        return expected_cost(chosen)[0].expected
    # The sites aim at (l + l_cor) / n, except that Algorithm 3 never aims below one half.
    return float(CoverageLaw(m, n, int(quantile * n), rank).mean())


def table(n_sites: int, n_points: int, level: float) -> Rows:
    """The array M, a row for each pair of ranks, with the criteria that choose it."""
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
