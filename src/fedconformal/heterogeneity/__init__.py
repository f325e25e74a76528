"""When sites differ: what becomes of a promise, who stands out, and what a site sees of its own coverage.

``what_if`` gives the exact law of coverage for shifts that one can name; ``compare_sites`` looks for odd
sites in the one number that each site sent; ``check`` looks at a site's own coverage, ``answer`` says it, and
``assess`` reads the answers of all.
"""

from fedconformal.heterogeneity._answer import answer
from fedconformal.heterogeneity._assess import Assessment, SiteCheck, assess
from fedconformal.heterogeneity._check import CoverageCheck, LocalCheck, cases_needed, check
from fedconformal.heterogeneity._compare import Comparison, Finding, compare_sites
from fedconformal.heterogeneity._shifts import (
    contaminated,
    distortion,
    examples,
    location,
    power,
    reference,
    scale,
)
from fedconformal.heterogeneity._whatif import MIXTURE, WhatIf, what_if

__all__ = [
    "MIXTURE",
    "Assessment",
    "Comparison",
    "CoverageCheck",
    "Finding",
    "LocalCheck",
    "SiteCheck",
    "WhatIf",
    "answer",
    "assess",
    "cases_needed",
    "check",
    "compare_sites",
    "contaminated",
    "distortion",
    "examples",
    "location",
    "power",
    "reference",
    "scale",
    "what_if",
]
