"""Displays of what was observed on cases: prediction intervals, and coverage site by site."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from fedconformal._util import Floats, plain_array
from fedconformal.metrics import SiteCoverage, coverage_by_site, covered_by_intervals
from fedconformal.plots import style

# -- prediction intervals ----------------------------------------------------------------------------------


@dataclass
class IntervalDisplay:
    """Prediction intervals in increasing order of the prediction, with the truths that they hold or miss.

    Parameters
    ----------
    prediction : array of shape (n,)
        Point predictions.
    intervals : array of shape (n, 2)
        Lower and upper ends; infinite ends are drawn to the edge, and empty intervals not at all.
    y_true : array of shape (n,), optional
        The outcomes.
    confidence_level : float, optional
        Level of the intervals, for the legend.

    Attributes
    ----------
    ax_ : Axes
        The axes that were drawn on last.

    Examples
    --------
    >>> import fedconformal as fc
    >>> display = fc.plots.IntervalDisplay.from_predictions([1.0, 2.0], [[0.0, 2.0], [1.0, 3.0]])
    >>> display.intervals.shape
    (2, 2)
    """

    prediction: Floats
    intervals: Floats
    y_true: Floats | None = None
    confidence_level: float | None = None
    ax_: Axes | None = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y_true: ArrayLike | None = None,
        *,
        groups: Any = None,
        level: int = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Plot what a conformalised regressor predicts for X.

        Parameters
        ----------
        estimator : regressor
            With ``predict_interval``; ours or MAPIE's.
        X : array-like of shape (n, n_features)
            New rows.
        y_true : array of shape (n,), optional
            Their outcomes.
        groups : array-like of shape (n,), optional
            For a calibration with groups, the group of each row.
        level : int
            Place of the level, 0 the first.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        IntervalDisplay
            Drawn.
        """
        options = {} if groups is None else {"groups": groups}
        prediction, intervals = estimator.predict_interval(X, **options)
        levels = np.atleast_1d(getattr(estimator, "confidence_level", []))
        drawn = float(levels[level]) if len(levels) == intervals.shape[2] else None
        return cls.from_predictions(prediction, intervals[:, :, level], y_true, confidence_level=drawn, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        prediction: ArrayLike,
        intervals: ArrayLike,
        y_true: ArrayLike | None = None,
        *,
        confidence_level: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Plot given predictions and intervals.

        Parameters
        ----------
        prediction : array of shape (n,)
            Point predictions.
        intervals : array of shape (n, 2) or (n, 2, 1)
            Lower and upper ends.
        y_true : array of shape (n,), optional
            The outcomes.
        confidence_level : float, optional
            Level of the intervals, for the legend.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        IntervalDisplay
            Drawn.

        Raises
        ------
        ValueError
            If a shape does not fit.
        """
        centre, ends = plain_array(prediction, dtype=float), plain_array(intervals, dtype=float)
        if ends.ndim == 3 and ends.shape[2] == 1:
            ends = ends[:, :, 0]
        if centre.ndim != 1 or ends.shape != (centre.size, 2):
            raise ValueError(f"intervals must have shape ({centre.size}, 2), got {ends.shape}")
        truth = None if y_true is None else plain_array(y_true, dtype=float)
        if truth is not None and truth.shape != centre.shape:
            raise ValueError(f"y_true must have shape {centre.shape}, got {truth.shape}")
        return cls(centre, ends, truth, confidence_level).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **bars: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        **bars : dict
            Options of the intervals, as ``Axes.vlines`` takes them.

        Returns
        -------
        IntervalDisplay
            Itself.
        """
        ax = style.axes(ax)
        order = np.argsort(self.prediction, kind="stable")
        place = np.arange(order.size)
        low, high = self._limits()
        intervals = self.intervals[order]
        is_empty = intervals[:, :1] > intervals[:, 1:]
        ends = np.where(is_empty, np.nan, np.clip(intervals, low, high))
        label = "interval" if self.confidence_level is None else f"interval, level {self.confidence_level:g}"
        look = {"color": style.BLUE, "linewidth": 2.0, "alpha": 0.55, "label": label}
        ax.vlines(place, ends[:, 0], ends[:, 1], **{**look, **bars})
        ax.plot(place, self.prediction[order], color=style.BLACK, linewidth=1.0, label="prediction")
        if self.y_true is not None:
            self._draw_truths(ax, self.y_true[order], intervals)
        ax.set_ylim(low, high)
        style.tidy(ax, x="cases, in order of the prediction", y="outcome")
        style.legend_above(ax)
        self.ax_ = ax
        return self

    def _draw_truths(self, ax: Axes, truth: Floats, intervals: Floats) -> None:
        inside, place = covered_by_intervals(truth, intervals), np.arange(truth.size)
        dot: dict[str, Any] = {"marker": "o", "markersize": 4, "color": style.GREY}
        cross: dict[str, Any] = {
            "marker": "X",
            "markersize": 7,
            "color": style.VERMILION,
            "markeredgecolor": "white",
            "markeredgewidth": 0.5,
        }
        words = f"truth inside ({inside.sum()} of {inside.size})", f"truth outside ({(~inside).sum()})"
        ax.plot(place[inside], truth[inside], **dot, linestyle="none", label=words[0])
        ax.plot(place[~inside], truth[~inside], **cross, linestyle="none", label=words[1])

    def _limits(self) -> tuple[float, float]:
        values = [self.prediction, self.intervals[np.isfinite(self.intervals)]]
        if self.y_true is not None:
            values.append(self.y_true)
        every = np.concatenate(values)
        margin = 0.05 * (float(np.ptp(every)) or 1.0)
        return float(every.min()) - margin, float(every.max()) + margin


# -- coverage site by site ---------------------------------------------------------------------------------


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
            True where the set of the row held the outcome.
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
        coverages = coverage_by_site(covered, sites, confidence=confidence)
        return cls(coverages, confidence_level).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **bars: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        **bars : dict
            Options of the intervals, as ``Axes.errorbar`` takes them.

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
        label = "coverage, with its confidence interval"
        look = {"fmt": "o", "color": style.BLUE, "capsize": 4, "label": label}
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
