"""Sites that differ: check the coverage at a site, find sites that stand out, compute what a shift does.

``check`` looks at a site's own coverage and ``check_by`` at that of groups of its cases, ``answer`` reports
it, and ``assess`` reads the answers of all; ``compare_sites`` looks for odd sites in the few numbers that
each site sent; ``shifted_law`` gives the exact distribution of the coverage for sites that differ as named.
"""

from fedconformal.heterogeneity._answer import PreparedAnswer, answer, fill_missing, prepare_answer
from fedconformal.heterogeneity._assess import Assessment, SiteCheck, assess, check_by
from fedconformal.heterogeneity._check import LocalCheck, check
from fedconformal.heterogeneity._compare import Comparison, SiteComparison, compare_sites
from fedconformal.heterogeneity._coverage import CoverageCheck, cases_needed
from fedconformal.heterogeneity._shifted import shifted_law

__all__ = [
    "Assessment",
    "Comparison",
    "CoverageCheck",
    "LocalCheck",
    "PreparedAnswer",
    "SiteCheck",
    "SiteComparison",
    "answer",
    "assess",
    "cases_needed",
    "check",
    "check_by",
    "compare_sites",
    "fill_missing",
    "prepare_answer",
    "shifted_law",
]
