"""Coverage site by site."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedconformal.metrics import SiteCoverage, coverage_by_site
from fedconformal.plots import style


@dataclass
class SiteCoverageDisplay:
    """Observed coverage of each site with exact binomial confidence intervals.

    Parameters
    ----------
    sites : sequence of SiteCoverage
        What ``metrics.coverage_by_site`` returns.
    confidence_level : float, optional
        Coverage that was asked for.

    Attributes
    ----------
    ax_ : Axes
        The axes that were drawn on last.

    Examples
    --------
    >>> import fedconformal as fc
    >>> display = fc.plots.SiteCoverageDisplay.from_covered([True, True, False], ["A", "A", "B"])
    >>> [site.site for site in display.sites]
    ['A', 'B']
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
        """Plot from which rows were covered and which site each row belongs to.

        Parameters
        ----------
        covered : bool array of shape (n,)
            Whether each row's set held the outcome.
        sites : array of shape (n,)
            The site of each row.
        confidence_level : float, optional
            Coverage that was asked for.
        confidence : float
            Of each interval.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        SiteCoverageDisplay
            Drawn.
        """
        found = coverage_by_site(covered, sites, confidence=confidence)
        return cls(found, confidence_level).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **bars: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        **bars : dict
            How the intervals look, as ``Axes.errorbar`` takes it.

        Returns
        -------
        SiteCoverageDisplay
            Itself.
        """
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
            style.level_line(ax, self.confidence_level)
        ax.set_yticks(place, [f"{site.site} (n = {site.n})" for site in self.sites])
        ax.set_ylim(len(self.sites) - 0.5, -0.5)
        style.tidy(ax, x="share of cases covered", y="site")
        style.in_percent(ax.xaxis)
        style.legend_above(ax)
        self.ax_ = ax
        return self
