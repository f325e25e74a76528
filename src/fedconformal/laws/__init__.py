"""The law of coverage for any federation (paper: Theorem 3.2, appendix A.1, section 3.5, and beyond)."""

from fedconformal.laws._bounds import (
    conditional_coverage_bound,
    ehm_bound,
    heterogeneity_losses,
    heterogeneous_coverage_bound,
    total_variation_to_binomial,
)
from fedconformal.laws._counts import binomial_masses, honest_counts
from fedconformal.laws._coverage import CoverageLaw
from fedconformal.laws._curves import (
    CurveNoise,
    NoisyCurve,
    choose_curve,
    compute_references,
    last_passage,
    simulate_coverage,
    solve_votes,
    suggest_cells,
    votes_conditional,
    votes_on_average,
)
from fedconformal.laws._each_site import EachSiteLaw
from fedconformal.laws._equal import MEAN_ERROR, equal_cdf, equal_moments
from fedconformal.laws._exact import exact_cdf, exact_mean
from fedconformal.laws._federation import Federation
from fedconformal.laws._integration import integrate, legendre
from fedconformal.laws._sites import Distortion, OrderStatistics, Shifted, SiteLaw
from fedconformal.laws._summary import Summary, density
from fedconformal.laws._table import coverage_table
from fedconformal.laws._tails import count_tails

__all__ = [
    "CoverageLaw",
    "conditional_coverage_bound",
    "coverage_table",
    "ehm_bound",
    "heterogeneous_coverage_bound",
]
