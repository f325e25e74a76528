"""Coverage site by site."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedconformal.metrics import SiteCoverage, coverage_by_site
from fedconformal.plots import _style as style


@dataclass
class SiteCoverageDisplay:
    """Observed coverage of each site with exact binomial confidence intervals.

    Parameters
    ----------
    sites : what ``metrics.coverage_by_site`` returns.
    confidence_level : coverage that was asked for, or None.
    """

    sites: Sequence[SiteCoverage]
    confidence_level: float | None = None
    ax_: Axes | None = field(default=None, init=False)

    @classmethod
    def from_covered(
        cls,
        covered: ArrayLike,
        sites: ArrayLike,
        *,
        confidence_level: float | None = None,
        confidence: float = 0.95,
        ax: Axes | None = None,
    ) -> Self:
        """Plot from which rows were covered and which site each row belongs to."""
        found = coverage_by_site(covered, sites, confidence=confidence)
        return cls(found, confidence_level).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **bars: Any) -> Self:
        """Draw; ``bars`` changes how the intervals look."""
        ax = style.axes(ax)
        place = np.arange(len(self.sites))
        centre = np.array([site.coverage for site in self.sites])
        ends = np.array([[site.low, site.high] for site in self.sites])
        errors = np.abs(ends.T - centre)
        look = {
            "fmt": "o",
            "color": style.BLUE,
            "capsize": 4,
            "label": "coverage, with its confidence interval",
        }
        ax.errorbar(centre, place, xerr=errors, **{**look, **bars})
        if self.confidence_level is not None:
            ax.axvline(self.confidence_level, label=f"target {self.confidence_level:g}", **style.TARGET)
        ax.set_yticks(place, [f"{site.site} (n = {site.n})" for site in self.sites])
        ax.set_ylim(len(self.sites) - 0.5, -0.5)
        style.tidy(ax, x="share of cases covered", y="site")
        style.in_percent(ax.xaxis)
        style.legend_above(ax)
        self.ax_ = ax
        return self
