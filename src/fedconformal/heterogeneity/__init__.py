"""When sites differ: what a site can see of its own coverage, and a coordinator of all."""

from fedconformal.heterogeneity._answer import answer
from fedconformal.heterogeneity._assess import Assessment, SiteCheck, assess
from fedconformal.heterogeneity._check import CoverageCheck, LocalCheck, cases_needed, check

__all__ = [
    "Assessment",
    "CoverageCheck",
    "LocalCheck",
    "SiteCheck",
    "answer",
    "assess",
    "cases_needed",
    "check",
]
