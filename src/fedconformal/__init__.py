"""Prediction sets with a coverage guarantee, calibrated on data that never leaves its
site.

One small message per site, one round: ``plan`` at the coordinator, ``report`` at each
site, ``calibrate`` at the server. ``CoverageLaw`` is the mathematics behind it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedconformal._version import __version__

if TYPE_CHECKING:
    from fedconformal import (
        audit,
        baselines,
        flower,
        laws,
        metrics,
        monitoring,
        nvflare,
        pages,
        plots,
        privacy,
        scores,
    )
    from fedconformal._extras import show_versions
    from fedconformal.documents import (
        Calibration,
        DocumentError,
        Plan,
        Report,
        SigningKey,
        UnknownGroupWarning,
    )
    from fedconformal.estimators import (
        FederatedConformalClassifier,
        FederatedConformalRegressor,
        FederatedRiskController,
    )
    from fedconformal.laws import CoverageLaw, coverage_table
    from fedconformal.privacy import Bins, Ledger, Privacy
    from fedconformal.protocol import (
        InfeasibleWarning,
        PolicyError,
        RefusedReportsError,
        SitePolicy,
        calibrate,
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
    "FederatedRiskController",
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
    "conformalize",
    "coverage_table",
    "flower",
    "laws",
    "metrics",
    "monitoring",
    "nvflare",
    "pages",
    "plan",
    "plots",
    "privacy",
    "report",
    "scores",
    "show_versions",
]


# Everything is loaded when it is first asked for: a command that only prints its help
# loads no mathematics.
_NAMES_OF = {
    "documents": (
        "Calibration",
        "DocumentError",
        "Plan",
        "Report",
        "SigningKey",
        "UnknownGroupWarning",
    ),
    "estimators": (
        "FederatedConformalClassifier",
        "FederatedConformalRegressor",
        "FederatedRiskController",
    ),
    "laws": ("CoverageLaw", "coverage_table"),
    "privacy": ("Bins", "Ledger", "Privacy"),
    "protocol": (
        "InfeasibleWarning",
        "PolicyError",
        "RefusedReportsError",
        "SitePolicy",
        "calibrate",
        "conformalize",
        "plan",
        "report",
    ),
    "_extras": ("show_versions",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
_EXTENDED = (
    "documents",
    "messages",
    "planning",
    "protocol",
    "rounds",
)  # for extensions: not listed


def __getattr__(name: str) -> Any:
    """Load a name, or a module, when it is first asked for."""
    if name not in __all__ and name not in _EXTENDED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULE_OF:
        globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return globals()[name]
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
