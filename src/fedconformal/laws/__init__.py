"""Distribution of the coverage for any federation (paper: Theorem 3.2, appendix A.1,
section 3.5).
"""

from fedconformal.laws._coverage import CoverageLaw, EachSiteLaw
from fedconformal.laws._curves import MOST_WORK, suggest_cells
from fedconformal.laws._reference import (
    Summary,
    conditional_coverage_bound,
    density,
    ehm_bound,
    exact_cdf,
    exact_mean,
    heterogeneous_coverage_bound,
    maximum_coverage,
)
from fedconformal.laws._sites import (
    MEAN_ERROR,
    Distortion,
    OrderStatistics,
    Shifted,
    coverage_table,
)

__all__ = [
    "CoverageLaw",
    "conditional_coverage_bound",
    "coverage_table",
    "ehm_bound",
    "heterogeneous_coverage_bound",
    "maximum_coverage",
]
