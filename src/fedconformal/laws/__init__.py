"""The law of coverage for any federation (paper: Theorem 3.2, appendix A.1, section 3.5, and beyond)."""

from fedconformal.laws._bounds import (
    conditional_coverage_bound,
    ehm_bound,
    heterogeneous_coverage_bound,
    total_variation_to_binomial,
)
from fedconformal.laws._coverage import CoverageLaw
from fedconformal.laws._exact import exact_cdf, exact_mean
from fedconformal.laws._federation import Federation
from fedconformal.laws._moments import MEAN_ERROR
from fedconformal.laws._sites import OrderStatistics, Shifted, SiteLaw
from fedconformal.laws._summary import Summary, density
from fedconformal.laws._table import coverage_table

__all__ = [
    "MEAN_ERROR",
    "CoverageLaw",
    "Federation",
    "OrderStatistics",
    "Shifted",
    "SiteLaw",
    "Summary",
    "conditional_coverage_bound",
    "coverage_table",
    "density",
    "ehm_bound",
    "exact_cdf",
    "exact_mean",
    "heterogeneous_coverage_bound",
    "total_variation_to_binomial",
]
