"""Distribution of the coverage for any federation (paper: Theorem 3.2, appendix A.1, section 3.5)."""

from fedconformal.laws._bounds import (
    conditional_coverage_bound,
    ehm_bound,
    heterogeneity_loss,
    heterogeneous_coverage_bound,
)
from fedconformal.laws._coverage import CoverageLaw, EachSiteLaw, Summary, density
from fedconformal.laws._curves import (
    MOST_WORK,
    CurveNoise,
    NoisyCurve,
    choose_curve,
    compute_references,
    last_passage,
    simulate_coverage,
    solve_votes,
    suggest_cells,
    total_reach,
)
from fedconformal.laws._equal import MEAN_ERROR, coverage_table, equal_cdf, equal_moments
from fedconformal.laws._exact import exact_cdf, exact_mean
from fedconformal.laws._federation import Federation
from fedconformal.laws._integration import integrate, legendre
from fedconformal.laws._sites import Distortion, OrderStatistics, Shifted, SiteLaw
from fedconformal.laws._tails import binomial_masses, honest_counts

__all__ = [
    "CoverageLaw",
    "conditional_coverage_bound",
    "coverage_table",
    "ehm_bound",
    "heterogeneous_coverage_bound",
]
