"""When sites differ: what becomes of a promise, who stands out, and what a site sees of its own coverage.

``what_if`` gives the exact law of coverage for shifts that one can name; ``compare_sites`` looks for odd
sites in the few numbers that each site sent; ``check`` looks at a site's own coverage, ``answer`` says it,
and ``assess`` reads the answers of all. Of documents with groups they take one group, ``plan["child"]``.
"""

from fedconformal.heterogeneity._answer import PreparedAnswer, answer, fill_missing, prepare_answer
from fedconformal.heterogeneity._assess import Assessment, SiteCheck, assess
from fedconformal.heterogeneity._cases_needed import cases_needed
from fedconformal.heterogeneity._check import LocalCheck, check
from fedconformal.heterogeneity._compare import Comparison, SiteComparison, compare_sites
from fedconformal.heterogeneity._coverage import CoverageCheck
from fedconformal.heterogeneity._distributions import Distribution, reference
from fedconformal.heterogeneity._shifts import (
    Shift,
    contaminated,
    distortion,
    examples,
    location,
    power,
    scale,
)
from fedconformal.heterogeneity._what_if import MIXTURE, WhatIf, what_if

__all__ = [
    "MIXTURE",
    "Assessment",
    "Comparison",
    "CoverageCheck",
    "Distribution",
    "LocalCheck",
    "PreparedAnswer",
    "Shift",
    "SiteCheck",
    "SiteComparison",
    "WhatIf",
    "answer",
    "assess",
    "cases_needed",
    "check",
    "compare_sites",
    "contaminated",
    "distortion",
    "examples",
    "fill_missing",
    "location",
    "power",
    "prepare_answer",
    "reference",
    "scale",
    "what_if",
]
