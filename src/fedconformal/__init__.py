"""Prediction sets with a coverage guarantee, calibrated on data that never leaves its site.

One number per site, one round: ``plan`` at the coordinator, ``report`` at each site, ``calibrate`` at the
server. ``CoverageLaw`` is the mathematics behind it.
"""

from importlib import import_module
from typing import Any

from fedconformal import documents, laws, privacy
from fedconformal._version import __version__
from fedconformal.documents import Calibration, DocumentError, Plan, Report
from fedconformal.laws import CoverageLaw, coverage_table
from fedconformal.planning import InfeasibleWarning, plan
from fedconformal.privacy import Bins, Ledger, Privacy
from fedconformal.server import RefusedReportsError, calibrate, calibrate_histogram
from fedconformal.signing import SigningKey
from fedconformal.site import report

__all__ = [
    "Bins",
    "Calibration",
    "CoverageLaw",
    "DocumentError",
    "FederatedConformalClassifier",
    "FederatedConformalRegressor",
    "InfeasibleWarning",
    "Ledger",
    "Plan",
    "Privacy",
    "RefusedReportsError",
    "Report",
    "SigningKey",
    "__version__",
    "audit",
    "baselines",
    "calibrate",
    "calibrate_histogram",
    "coverage_table",
    "documents",
    "flower",
    "groups",
    "heterogeneity",
    "laws",
    "metrics",
    "plan",
    "plots",
    "privacy",
    "report",
    "scores",
]

_LAZY = {
    "FederatedConformalClassifier": "fedconformal.estimators",
    "FederatedConformalRegressor": "fedconformal.estimators",
}
_LAZY_MODULES = ("audit", "baselines", "flower", "groups", "heterogeneity", "metrics", "plots", "scores")


def __getattr__(name: str) -> Any:
    """Load what needs an extra, or is not always needed, only when it is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name in _LAZY_MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Everything that can be asked for."""
    return sorted(__all__)
