"""Pictures in scikit-learn's habit: ``Display.from_...(ax=...)``; they need the extra ``plots``."""

from fedconformal._extras import need

need("matplotlib", extra="plots")

from fedconformal.plots import style  # noqa: E402
from fedconformal.plots._interval import IntervalDisplay  # noqa: E402
from fedconformal.plots._law import CoverageLawDisplay  # noqa: E402
from fedconformal.plots._privacy import PrivacyDisplay  # noqa: E402
from fedconformal.plots._sites import SiteCoverageDisplay  # noqa: E402
from fedconformal.plots._table import CoverageTableDisplay  # noqa: E402

__all__ = [
    "CoverageLawDisplay",
    "CoverageTableDisplay",
    "IntervalDisplay",
    "PrivacyDisplay",
    "SiteCoverageDisplay",
    "style",
]
