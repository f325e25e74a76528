"""Distribution of the coverage for any federation (paper: Theorem 3.2, appendix A.1, section 3.5)."""

from fedconformal.laws._coverage import CoverageLaw, EachSiteLaw
from fedconformal.laws._curves import (
    MOST_WORK,
    CurveNoise,
    NoisyCurve,
    binomial_masses,
    choose_curve,
    compute_references,
    last_passage,
    simulate_coverage,
    solve_votes,
    suggest_cells,
    total_reach,
)
from fedconformal.laws._federation import Federation
from fedconformal.laws._reference import (
    Summary,
    conditional_coverage_bound,
    density,
    ehm_bound,
    exact_cdf,
    exact_mean,
    heterogeneity_loss,
    heterogeneous_coverage_bound,
)
from fedconformal.laws._sites import (
    MEAN_ERROR,
    Distortion,
    OrderStatistics,
    Shifted,
    SiteLaw,
    coverage_table,
    equal_cdf,
    equal_moments,
    integrate,
    legendre,
)
from fedconformal.laws._votes import honest_counts

__all__ = [
    "CoverageLaw",
    "conditional_coverage_bound",
    "coverage_table",
    "ehm_bound",
    "heterogeneous_coverage_bound",
]
