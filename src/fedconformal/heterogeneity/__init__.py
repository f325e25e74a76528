"""When sites differ: what becomes of a promise, who stands out, and what a site sees of its own coverage.

``what_if`` gives the exact law of coverage for shifts that one can name; ``compare_sites`` looks for odd
sites in the few numbers that each site sent; ``check`` looks at a site's own coverage and ``check_by`` at
that of groups of its cases, ``answer`` says it, and ``assess`` reads the answers of all. Of documents with
groups ``what_if`` and ``check`` take one group, ``plan["child"]``.
"""

from fedconformal.heterogeneity._answer import PreparedAnswer, answer, fill_missing, prepare_answer
from fedconformal.heterogeneity._assess import Assessment, SiteCheck, assess, check_by
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
from fedconformal.heterogeneity._side_by_side import PromiseRow, doubled_sites, side_by_side
from fedconformal.heterogeneity._what_holds import Alternative, alternatives, what_holds
from fedconformal.heterogeneity._what_if import MIXTURE, WhatIf, what_if

__all__ = [
    "MIXTURE",
    "Alternative",
    "Assessment",
    "Comparison",
    "CoverageCheck",
    "Distribution",
    "LocalCheck",
    "PreparedAnswer",
    "PromiseRow",
    "Shift",
    "SiteCheck",
    "SiteComparison",
    "WhatIf",
    "alternatives",
    "answer",
    "assess",
    "cases_needed",
    "check",
    "check_by",
    "compare_sites",
    "contaminated",
    "distortion",
    "doubled_sites",
    "examples",
    "fill_missing",
    "location",
    "power",
    "prepare_answer",
    "reference",
    "scale",
    "side_by_side",
    "what_holds",
    "what_if",
]
