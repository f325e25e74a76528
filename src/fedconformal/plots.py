"""Pictures in scikit-learn's habit: ``Display.from_...(ax=...)``; they need the extra
``plots``.

Colours are those of Okabe and Ito, which the colour-blind can tell apart. A line style,
a marker or a hatch repeats what a colour says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import baselines, messages
from fedconformal._extras import need
from fedconformal._util import Floats, plain_array
from fedconformal.documents import (
    Calibration,
    CalibrationView,
    Check,
    Plan,
    PlanView,
    read_period,
)
from fedconformal.laws import CoverageLaw, Summary, coverage_table, density
from fedconformal.metrics import SiteCoverage, coverage_by_site, covered_by_intervals
from fedconformal.monitoring import Watch, watch
from fedconformal.planning import PROMISES

need("matplotlib", extra="plots")

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.patheffects import withStroke  # noqa: E402
from matplotlib.ticker import PercentFormatter  # noqa: E402

__all__ = [
    "CoverageLawDisplay",
    "CoverageTableDisplay",
    "IntervalDisplay",
    "SiteCoverageDisplay",
    "WatchDisplay",
]

BLUE, VERMILION, GREY, BLACK = "#0072B2", "#D55E00", "#595959", "#000000"

_SITES = (BLUE, "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
_STEPS = 240  # of a density
_LARGEST_TABLE = 4_000_000


def _new_axes() -> Axes:
    return pyplot.subplots(constrained_layout=True)[1]


def _finish(ax: Axes, x: str, y: str, *, percent: Any = None) -> None:
    """Label the axes, show one of them in percent, and put the legend above, where it
    covers nothing.
    """
    ax.set(xlabel=x, ylabel=y)
    ax.spines[["top", "right"]].set_visible(False)
    if percent is not None:
        percent.set_major_formatter(PercentFormatter(xmax=1.0))
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)


def _draw_level(ax: Axes, level: float) -> None:
    """Mark the coverage that was asked for."""
    ax.axvline(
        level, label=f"level {level:g}", color=BLACK, linestyle=":", linewidth=1.5
    )


# -- what plans and calibrations promise -----------------------------------------------


@dataclass
class CoverageLawDisplay:
    """Density of the coverage with the level, the mean and the 5 % quantile, and
    another beside it.

    Parameters
    ----------
    law : CoverageLaw
        Distribution of the coverage.
    confidence_level : float
        Coverage that was asked for.
    beside : CoverageLaw, optional
        Another distribution, drawn dashed; ``from_plan`` and ``from_calibration`` take
        that of pooling all scores, where this would satisfy the same promise.

    Attributes
    ----------
    ax_ : Axes
        The axes that were drawn on last.

    Examples
    --------
    >>> import fedconformal as fc
    >>> display = CoverageLawDisplay.from_plan(fc.plan(n_sites=10, n_points=79))
    >>> display.ax_.get_xlabel()
    'coverage given the calibration data'
    """

    law: CoverageLaw
    confidence_level: float
    beside: CoverageLaw | None = None
    ax_: Axes | None = field(default=None, init=False)

    @classmethod
    def from_law(
        cls,
        law: CoverageLaw,
        confidence_level: float,
        *,
        beside: CoverageLaw | None = None,
        **options: Any,
    ) -> Self:
        """Plot a distribution.

        Parameters
        ----------
        law : CoverageLaw
            Distribution of the coverage.
        confidence_level : float
            Coverage that was asked for.
        beside : CoverageLaw, optional
            Another distribution, drawn dashed.
        **options : dict
            As for `plot`, such as ``ax`` and ``label``.

        Returns
        -------
        CoverageLawDisplay
            Drawn.
        """
        return cls(law, confidence_level, beside).plot(**options)

    @classmethod
    def from_plan(
        cls, plan: Plan | PlanView, *, level: int = 0, **options: Any
    ) -> Self:
        """Plot the distribution of a plan if all sites answer, beside that of pooling
        all scores.

        Parameters
        ----------
        plan : Plan or PlanView
            With known sizes; of a plan with groups or levels, one of them:
            ``plan["child"]``, ``plan[0.9]``.
        level : int
            Place of the level, 0 the first.
        **options : dict
            As for `plot`, such as ``ax``.

        Returns
        -------
        CoverageLawDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the plan is open or has groups, or there is a guarantee and no
            distribution.
        """
        return cls._from_document(plan, level, **options)

    @classmethod
    def from_calibration(
        cls,
        calibration: Calibration | CalibrationView,
        *,
        level: int = 0,
        **options: Any,
    ) -> Self:
        """Plot the distribution of a calibration, beside that of pooling the scores of
        its sites.

        Parameters
        ----------
        calibration : Calibration or CalibrationView
            Of one with groups or levels, one of them: ``calibration["child"]``,
            ``calibration[0.9]``.
        level : int
            Place of the level, 0 the first.
        **options : dict
            As for `plot`, such as ``ax``.

        Returns
        -------
        CoverageLawDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the calibration has groups, too few sites answered, or there is no
            distribution.
        """
        return cls._from_document(calibration, level, **options)

    @classmethod
    def _from_document(cls, document: Any, level: int, **options: Any) -> Self:
        design, place = document._only_design("law"), document.selected_levels[level]
        if design.levels[place].votes is None:
            raise ValueError(
                "an open plan has no distribution yet: sizes come with the reports"
                if isinstance(document, Plan | PlanView)
                else "too few sites answered for any threshold"
            )
        law, wanted = (
            messages.law(design, place),
            float(design.levels[place].confidence_level),
        )
        if law is None:
            raise ValueError(
                f"promise {design.promise!r} has a guarantee here, and no distribution"
                " to plot"
            )
        n_points = sum(kind.count * kind.n for kind in design.kinds)
        pooled = (
            baselines.coverage_law(n_points, wanted)
            if PROMISES[design.promise].pools
            else None
        )
        bound = " (lower bound)" if messages.of(design.message).is_bound(design) else ""
        return cls.from_law(
            law, wanted, beside=pooled, **{"label": f"this plan{bound}", **options}
        )

    def plot(
        self, *, ax: Axes | None = None, label: str = "this plan", **line: Any
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        label : str
            Name of the distribution in the legend.
        **line : dict
            Options of the curve, as ``Axes.plot`` takes them.

        Returns
        -------
        CoverageLawDisplay
            Itself.
        """
        self.ax_ = ax = ax or _new_axes()
        ours = Summary(self.law, self.confidence_level)
        beside = (
            None if self.beside is None else Summary(self.beside, self.confidence_level)
        )
        windows = [
            law.window
            for law in (ours, beside)
            if law is not None and not law.is_certain
        ]
        low = min([self.confidence_level, *(window[0] for window in windows)])
        high = max([self.confidence_level, *(window[1] for window in windows)])
        edges = np.linspace(low, high, _STEPS + 1)
        middles = (edges[1:] + edges[:-1]) / 2
        _draw_level(ax, self.confidence_level)
        if beside is not None and not beside.is_certain:
            pooled = density(beside.law, edges)
            ax.plot(
                middles,
                pooled,
                "--",
                color=GREY,
                linewidth=1.5,
                label="all scores in one place",
            )
        look = {"color": BLUE, "linestyle": "-", "linewidth": 2.0, **line}
        if ours.is_certain:
            ax.axvline(
                ours.mean, label=f"{label}: coverage {ours.mean:g} for sure", **look
            )
        else:
            curve = density(ours.law, edges)
            ax.plot(middles, curve, label=label, **look)
            ax.axvline(
                ours.mean,
                label=f"mean {ours.mean:.4f}",
                color=BLUE,
                linestyle="-",
                linewidth=1.0,
            )
            label = f"5 % quantile {ours.low:.4f}"
            ax.axvline(
                ours.low, label=label, color=VERMILION, linestyle="-.", linewidth=1.5
            )
            hatch: dict[str, Any] = {
                "facecolor": "none",
                "edgecolor": VERMILION,
                "hatch": "////",
            }
            ax.fill_between(
                middles,
                curve,
                where=(middles <= ours.low).tolist(),
                linewidth=0.0,
                **hatch,
            )
        if windows:
            ax.set_xlim(low, high)
        ax.set_ylim(bottom=0)
        _finish(ax, "coverage given the calibration data", "density", percent=ax.xaxis)
        return self


@dataclass
class CoverageTableDisplay:
    """The paper's array M, local rank down and server rank across, with the border of
    the valid pairs.

    Parameters
    ----------
    table : array of shape (n_points, n_sites)
        ``coverage_table(n_sites, n_points)``.
    confidence_level : float
        Where the border between valid and invalid pairs is drawn.
    chosen : tuple of two ints, optional
        (local rank, server rank) to mark.

    Attributes
    ----------
    ax_ : Axes
        The axes that were drawn on last.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=5, n_points=10, criterion="marginal")
    >>> display = fc.plots.CoverageTableDisplay.from_plan(plan)
    >>> display.table.shape
    (10, 5)
    """

    table: Floats
    confidence_level: float
    chosen: tuple[int, int] | None = None
    ax_: Axes | None = field(default=None, init=False)

    @classmethod
    def from_plan(
        cls, plan: Plan | PlanView, *, level: int = 0, **options: Any
    ) -> Self:
        """Plot the table of a plan whose sites are alike, and the pair it chose.

        Parameters
        ----------
        plan : Plan or PlanView
            With sites of one size that send one score of the same rank; of a plan with
            groups or levels, one of them: ``plan["child"]``, ``plan[0.9]``.
        level : int
            Place of the level, 0 the first.
        **options : dict
            As for `plot`, such as ``ax``.

        Returns
        -------
        CoverageTableDisplay
            Drawn.

        Raises
        ------
        ValueError
            If there is no such table, or it is too large to look at.
        """
        design, place = plan._only_design("table"), plan.selected_levels[level]
        message, chosen = messages.of(design.message), design.levels[place]
        sizes, ranks = (
            [kind.n for kind in design.kinds],
            message.local_ranks(design, place) or (),
        )
        rows = set(zip(sizes, ranks, strict=False))
        if len(rows) != 1 or len(next(iter(rows))[1]) != 1 or message.is_bound(design):
            raise ValueError(
                "the table is for sites of one size that send one exact number each"
            )
        (n, (rank,)), m = rows.pop(), design.n_sites or 0
        if m * n > _LARGEST_TABLE:
            raise ValueError(
                f"n_sites * n_points must be at most {_LARGEST_TABLE:,}, got {m * n:,}"
            )
        pair = (rank, chosen.votes or 1) if chosen.advice is None else None
        return cls(coverage_table(m, n), float(chosen.confidence_level), pair).plot(
            **options
        )

    def plot(self, *, ax: Axes | None = None, **image: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        **image : dict
            Options of the table, as ``Axes.imshow`` takes them.

        Returns
        -------
        CoverageTableDisplay
            Itself.
        """
        self.ax_ = ax = ax or _new_axes()
        n, m = self.table.shape
        extent = (0.5, m + 0.5, n + 0.5, 0.5)
        options = {
            "cmap": "cividis",
            "vmin": 0.0,
            "vmax": 1.0,
            "aspect": "auto",
            "interpolation": "nearest",
        }
        shown = ax.imshow(self.table, extent=extent, **{**options, **image})
        ax.figure.colorbar(
            shown, ax=ax, label="marginal coverage", format=PercentFormatter(xmax=1.0)
        )
        rim = [withStroke(linewidth=4, foreground="white")]  # which shows on any colour
        too_low = (self.table < self.confidence_level).sum(
            axis=0
        )  # local ranks, for each server rank
        border = ax.stairs(
            too_low + 0.5,
            np.arange(m + 1) + 0.5,
            baseline=None,
            color="black",
            linewidth=1.5,
        )
        border.set(path_effects=rim, label=f"below: at least {self.confidence_level:g}")
        ax.set_ylim(n + 0.5, 0.5)
        if self.chosen is not None:
            l, k = self.chosen
            [ring] = ax.plot(
                [k], [l], "o", markersize=11, markerfacecolor="none", markeredgewidth=2
            )
            label = f"chosen: l = {l}, k = {k}, M = {self.table[l - 1, k - 1]:.4f}"
            ring.set(markeredgecolor=VERMILION, path_effects=rim, label=label)
        _finish(ax, "server rank k", "local rank l")
        return self


# -- what was observed on cases --------------------------------------------------------


@dataclass
class IntervalDisplay:
    """Prediction intervals in increasing order of the prediction, with the truths that
    they hold or miss.

    Parameters
    ----------
    prediction : array of shape (n,)
        Point predictions.
    intervals : array of shape (n, 2)
        Lower and upper ends; infinite ends are drawn to the edge, and empty intervals
        not at all.
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
    >>> display = fc.plots.IntervalDisplay.from_predictions(
    ...     [1.0, 2.0], [[0.0, 2.0], [1.0, 3.0]]
    ... )
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
        **options: Any,
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
        **options : dict
            As for `plot`, such as ``ax``.

        Returns
        -------
        IntervalDisplay
            Drawn.
        """
        own = {} if groups is None else {"groups": groups}
        prediction, intervals = estimator.predict_interval(X, **own)
        levels = np.atleast_1d(getattr(estimator, "confidence_level", []))
        drawn = float(levels[level]) if len(levels) == intervals.shape[2] else None
        options["confidence_level"] = drawn
        return cls.from_predictions(
            prediction, intervals[:, :, level], y_true, **options
        )

    @classmethod
    def from_predictions(
        cls,
        prediction: ArrayLike,
        intervals: ArrayLike,
        y_true: ArrayLike | None = None,
        *,
        confidence_level: float | None = None,
        **options: Any,
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
        **options : dict
            As for `plot`, such as ``ax``.

        Returns
        -------
        IntervalDisplay
            Drawn.

        Raises
        ------
        ValueError
            If a shape does not fit.
        """
        centre, ends = (
            plain_array(prediction, dtype=float),
            plain_array(intervals, dtype=float),
        )
        if ends.ndim == 3 and ends.shape[2] == 1:
            ends = ends[:, :, 0]
        if centre.ndim != 1 or ends.shape != (centre.size, 2):
            raise ValueError(
                f"intervals must have shape ({centre.size}, 2), got {ends.shape}"
            )
        truth = None if y_true is None else plain_array(y_true, dtype=float)
        if truth is not None and truth.shape != centre.shape:
            raise ValueError(
                f"y_true must have shape {centre.shape}, got {truth.shape}"
            )
        return cls(centre, ends, truth, confidence_level).plot(**options)

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
        self.ax_ = ax = ax or _new_axes()
        order = np.argsort(self.prediction, kind="stable")
        place = np.arange(order.size)
        prediction, intervals = self.prediction[order], self.intervals[order]
        truth = np.empty(0) if self.y_true is None else self.y_true[order]
        drawn = np.concatenate([prediction, truth, intervals[np.isfinite(intervals)]])
        margin = 0.05 * (float(np.ptp(drawn)) or 1.0)
        limits = float(drawn.min()) - margin, float(drawn.max()) + margin
        is_empty = intervals[:, :1] > intervals[:, 1:]
        ends = np.where(is_empty, np.nan, np.clip(intervals, *limits))
        label = (
            "interval"
            if self.confidence_level is None
            else f"interval, level {self.confidence_level:g}"
        )
        look = {"color": BLUE, "linewidth": 2.0, "alpha": 0.55, "label": label}
        ax.vlines(place, ends[:, 0], ends[:, 1], **{**look, **bars})
        ax.plot(place, prediction, color=BLACK, linewidth=1.0, label="prediction")
        if truth.size:
            inside = covered_by_intervals(truth, intervals)
            label = f"truth inside ({inside.sum()} of {inside.size})"
            ax.plot(
                place[inside], truth[inside], "o", markersize=4, color=GREY, label=label
            )
            [cross] = ax.plot(
                place[~inside], truth[~inside], "X", markersize=7, color=VERMILION
            )
            label = f"truth outside ({(~inside).sum()})"
            cross.set(markeredgecolor="white", markeredgewidth=0.5, label=label)
        ax.set_ylim(limits)
        _finish(ax, "cases, in order of the prediction", "outcome")
        return self


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
    >>> display = fc.plots.SiteCoverageDisplay.from_covered(
    ...     [True, True, False], ["A", "A", "B"]
    ... )
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
        **options: Any,
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
        **options : dict
            As for `plot`, such as ``ax``.

        Returns
        -------
        SiteCoverageDisplay
            Drawn.
        """
        coverages = coverage_by_site(covered, sites, confidence=confidence)
        return cls(coverages, confidence_level).plot(**options)

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
        self.ax_ = ax = ax or _new_axes()
        place = np.arange(len(self.sites))
        centre = np.array([site.coverage for site in self.sites])
        errors = np.abs(
            np.array([[site.low, site.high] for site in self.sites]).T - centre
        )
        label = "coverage, with its confidence interval"
        look = {"fmt": "o", "color": BLUE, "capsize": 4, "label": label}
        ax.errorbar(centre, place, xerr=errors, **{**look, **bars})
        if self.confidence_level is not None:
            _draw_level(ax, self.confidence_level)
        ax.set_yticks(place, [f"{site.site} (n = {site.n})" for site in self.sites])
        ax.set_ylim(len(self.sites) - 0.5, -0.5)
        _finish(ax, "share of cases covered", "site", percent=ax.xaxis)
        return self


@dataclass
class WatchDisplay:
    """Coverage by site over time with its bands, and the evidence below; alarms are
    marked.

    Parameters
    ----------
    watch : Watch
        Result of ``monitoring.watch``.

    Attributes
    ----------
    ax_ : array of two Axes
        The axes that were drawn on last: coverage, and evidence.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> check = fc.monitoring.answer(
    ...     calibration, range(0, 60, 2), site="A", period="2027-03"
    ... )
    >>> display = fc.plots.WatchDisplay.from_checks(calibration, [check])
    >>> display.watch.due
    '2027-04'
    """

    watch: Watch
    ax_: Any = field(default=None, init=False)

    @classmethod
    def from_checks(
        cls,
        calibration: Calibration | CalibrationView,
        checks: Sequence[Check],
        **options: Any,
    ) -> Self:
        """Plot the checks of a calibration.

        Parameters
        ----------
        calibration : Calibration or CalibrationView
            As for ``monitoring.watch``.
        checks : sequence of Check
            With a period each.
        **options : dict
            As for `plot`, such as ``ax``.

        Returns
        -------
        WatchDisplay
            Drawn.
        """
        return cls(watch(calibration, checks)).plot(**options)

    def plot(self, *, ax: Any = None, level: int = 0, **line: Any) -> Self:
        """Draw all sites together and each of them, without groups.

        Parameters
        ----------
        ax : sequence of two Axes, optional
            Where to draw; new axes if left out.
        level : int
            Place of the level, 0 the first.
        **line : dict
            Options of the curves, as ``Axes.plot`` takes them.

        Returns
        -------
        WatchDisplay
            Itself.
        """
        if ax is None:
            ax = pyplot.subplots(2, sharex=True, constrained_layout=True)[1]
        self.ax_, (above, below) = ax, ax
        levels = list(dict.fromkeys(row.confidence_level for row in self.watch.rows))
        rows = [
            row
            for row in self.watch.rows
            if row.confidence_level == levels[level] and row.group is None
        ]
        days: list[list[Any]] = [
            [read_period(point.period)[1] for point in row.points] for row in rows
        ]
        for i, (row, x) in enumerate(zip(rows, days, strict=True)):
            marks = {
                "marker": "osD^v"[i % 5],
                "color": _SITES[i % len(_SITES)],
                "markersize": 4,
            }
            look: dict[str, Any] = {**marks, **line}
            look |= {"color": BLACK, "linewidth": 2.0} if row.site is None else {}
            [curve] = above.plot(
                x,
                [point.covered / point.n for point in row.points],
                label=row.name,
                **look,
            )
            colour = curve.get_color()
            bands = [
                (day, *point.interval)
                for day, point in zip(x, row.points, strict=True)
                if point.interval
            ]
            if bands:
                above.fill_between(
                    *zip(*bands, strict=True), color=colour, alpha=0.12, linewidth=0
                )
            evidence = [point.evidence for point in row.points]
            below.plot(
                x,
                evidence,
                color=colour,
                **{k: v for k, v in look.items() if k != "color"},
            )
            alarms = [
                place
                for place, value in enumerate(evidence)
                if value * row.false_alarm >= 1
            ]
            if alarms:
                below.plot(
                    x[alarms[0]],
                    evidence[alarms[0]],
                    "X",
                    color=VERMILION,
                    markersize=11,
                )
        above.axhline(
            levels[level], label=f"level {levels[level]:g}", color=BLACK, linestyle=":"
        )
        limit = 1 / self.watch.false_alarm
        below.axhline(
            limit, label=f"alarm at {limit:g}", color=VERMILION, linestyle="-."
        )
        below.set_yscale("log")
        _finish(above, "", "share covered", percent=above.yaxis)
        _finish(below, "end of the period", "evidence (E)")
        return self
