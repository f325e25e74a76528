"""Pictures in scikit-learn's habit: ``Display.from_...(ax=...)``; they need the extra ``plots``."""

from fedconformal._extras import need

need("matplotlib", extra="plots")

from fedconformal.plots import style  # noqa: E402
from fedconformal.plots._observed import IntervalDisplay, SiteCoverageDisplay  # noqa: E402
from fedconformal.plots._planned import (  # noqa: E402
    CoverageLawDisplay,
    CoverageTableDisplay,
    PrivacyDisplay,
)

__all__ = [
    "CoverageLawDisplay",
    "CoverageTableDisplay",
    "IntervalDisplay",
    "PrivacyDisplay",
    "SiteCoverageDisplay",
    "style",
]
