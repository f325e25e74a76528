"""Prediction sets with a coverage guarantee, calibrated on data that never leaves its site.

One small message per site, one round: ``plan`` at the coordinator, ``report`` at each site, ``calibrate`` at
the server. ``CoverageLaw`` is the mathematics behind it.
"""

from importlib import import_module
from typing import Any

from fedconformal import documents, laws, planning, privacy, protocol, scores
from fedconformal._version import __version__
from fedconformal._versions import show_versions
from fedconformal.documents import Calibration, DocumentError, Plan, Report, SigningKey, UnknownGroupWarning
from fedconformal.laws import CoverageLaw, coverage_table
from fedconformal.privacy import Bins, Ledger, Privacy
from fedconformal.protocol import (
    InfeasibleWarning,
    PolicyError,
    RefusedReportsError,
    SitePolicy,
    calibrate,
    calibrate_histogram,
    conformalize,
    plan,
    report,
)

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
    "PolicyError",
    "Privacy",
    "RefusedReportsError",
    "Report",
    "SigningKey",
    "SitePolicy",
    "UnknownGroupWarning",
    "__version__",
    "audit",
    "baselines",
    "calibrate",
    "calibrate_histogram",
    "conformalize",
    "coverage_table",
    "documents",
    "flower",
    "heterogeneity",
    "laws",
    "metrics",
    "plan",
    "planning",
    "plots",
    "privacy",
    "protocol",
    "report",
    "rounds",
    "scores",
    "show_versions",
    "web",
]


def _view(document: documents.Document) -> str | None:
    """How notebooks show documents: pages are above them, and loaded only when one is looked at."""
    found: str | None = import_module(f"{__name__}.web").notebook_view(document)
    return found


documents.show_with(_view)

_LAZY = {
    "FederatedConformalClassifier": "fedconformal.estimators",
    "FederatedConformalRegressor": "fedconformal.estimators",
}
_LAZY_MODULES = ("audit", "baselines", "flower", "heterogeneity", "metrics", "plots", "rounds", "web")


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
