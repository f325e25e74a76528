"""When sites differ: what becomes of a promise, and who stands out.

``what_if`` gives the exact law of coverage for shifts that one can name; ``compare_sites`` looks for odd
sites in the one number that each site sent.
"""

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
    "Comparison",
    "Finding",
    "WhatIf",
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
