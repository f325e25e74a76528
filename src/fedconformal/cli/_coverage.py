"""What some cases say of the coverage at one level, for a table and for machines."""

from math import inf
from typing import Any

from fedconformal.heterogeneity import CoverageCheck


def cells(check: CoverageCheck) -> list[str]:
    """How many cases are covered, the share, and the interval around it."""
    low, high = check.interval
    return [f"{check.covered} of {check.n}", f"{check.coverage:.4f}", f"{low:.4f} to {high:.4f}"]


def fields(check: CoverageCheck) -> dict[str, Any]:
    """Everything by name, as JSON can hold it."""
    return {
        "confidence_level": check.confidence_level,
        "threshold": "Infinity" if check.threshold == inf else check.threshold,
        "n": check.n,
        "covered": check.covered,
        "coverage": check.coverage,
        "interval": list(check.interval),
        "confidence": check.confidence,
        "p_value": check.p_value,
    }
