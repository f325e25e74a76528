"""Sites that differ: check the coverage at a site, find sites that stand out, compute what a shift does.

``check`` looks at a site's own coverage and ``check_by`` at that of groups of its cases, ``answer`` reports
it, and ``assess`` reads the answers of all; ``compare`` looks for odd sites in the few numbers that
each site sent; ``shifted_law`` gives the exact distribution of the coverage for sites that differ as named.
"""

from fedconformal.monitoring._answer import PreparedAnswer, answer, prepare_answer
from fedconformal.monitoring._check import Assessment, LocalCheck, SiteCheck, assess, check, check_by
from fedconformal.monitoring._compare import Comparison, SiteComparison, compare, shifted_law
from fedconformal.monitoring._coverage import CoverageCheck, cases_needed

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
    "compare",
    "prepare_answer",
    "shifted_law",
]
