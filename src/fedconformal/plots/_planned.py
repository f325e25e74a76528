"""Displays of what plans and calibrations promise: distributions, the table of coverages, privacy."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes

from fedconformal import baselines, messages
from fedconformal._util import Floats
from fedconformal.documents import Calibration, CalibrationView, Plan, PlanView
from fedconformal.laws import CoverageLaw, Summary, coverage_table, density
from fedconformal.planning import PROMISES
from fedconformal.plots import style
from fedconformal.privacy import Bins, Privacy
from fedconformal.protocol import InfeasibleWarning, plan

_STEPS = 240  # of a density
_LARGEST_TABLE = 4_000_000
_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

# -- the distribution of the coverage ----------------------------------------------------------------------


@dataclass
class CoverageLawDisplay:
    """Density of the coverage with the level, the mean and the 5 % quantile, and another beside it.

    Parameters
    ----------
    law : CoverageLaw
        Distribution of the coverage.
    confidence_level : float
        Coverage that was asked for.
    beside : CoverageLaw, optional
        Another distribution, drawn dashed; ``from_plan`` and ``from_calibration`` take that of pooling all
        scores, where this would satisfy the same promise.

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
        ax: Axes | None = None,
        label: str = "this plan",
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
        ax : Axes, optional
            Where to draw.
        label : str
            Name of the distribution in the legend.

        Returns
        -------
        CoverageLawDisplay
            Drawn.
        """
        return cls(law, confidence_level, beside).plot(ax=ax, label=label)

    @classmethod
    def from_plan(cls, plan: Plan | PlanView, *, level: int = 0, ax: Axes | None = None) -> Self:
        """Plot the distribution of a plan if all sites answer, beside that of pooling all scores.

        Parameters
        ----------
        plan : Plan or PlanView
            With known sizes; of a plan with groups or levels, one of them: ``plan["child"]``, ``plan[0.9]``.
        level : int
            Place of the level, 0 the first.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        CoverageLawDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the plan is open or has groups, or there is a guarantee and no distribution.
        """
        return cls._from_document(
            plan, level, ax, "an open plan has no distribution yet: sizes come with the reports"
        )

    @classmethod
    def from_calibration(
        cls, calibration: Calibration | CalibrationView, *, level: int = 0, ax: Axes | None = None
    ) -> Self:
        """Plot the distribution of a calibration, beside that of pooling the scores of its sites.

        Parameters
        ----------
        calibration : Calibration or CalibrationView
            Of one with groups or levels, one of them: ``calibration["child"]``, ``calibration[0.9]``.
        level : int
            Place of the level, 0 the first.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        CoverageLawDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the calibration has groups, too few sites answered, or there is no distribution.
        """
        return cls._from_document(calibration, level, ax, "too few sites answered for any threshold")

    @classmethod
    def _from_document(
        cls,
        document: Plan | PlanView | Calibration | CalibrationView,
        level: int,
        ax: Axes | None,
        if_unsolved: str,
    ) -> Self:
        design, place = document._only_design("law"), document.selected_levels[level]
        if design.levels[place].votes is None:
            raise ValueError(if_unsolved)
        law, wanted = messages.law(design, place), float(design.levels[place].confidence_level)
        if law is None:
            raise ValueError(f"promise {design.promise!r} has a guarantee here, and no distribution to plot")
        n_points = sum(kind.count * kind.n for kind in design.kinds)
        pooled = baselines.coverage_law(n_points, wanted) if PROMISES[design.promise].pools else None
        bound = " (lower bound)" if messages.of(design.message).is_bound(design) else ""
        return cls.from_law(law, wanted, beside=pooled, ax=ax, label=f"this plan{bound}")

    def plot(self, *, ax: Axes | None = None, label: str = "this plan", **line: Any) -> Self:
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
        ax = style.axes(ax)
        ours = Summary(self.law, self.confidence_level)
        beside = None if self.beside is None else Summary(self.beside, self.confidence_level)
        windows = [law.window for law in (ours, beside) if law is not None and not law.is_certain]
        low = min([self.confidence_level, *(window[0] for window in windows)])
        high = max([self.confidence_level, *(window[1] for window in windows)])
        edges = np.linspace(low, high, _STEPS + 1)
        middles = (edges[1:] + edges[:-1]) / 2
        style.level_line(ax, self.confidence_level)
        if beside is not None and not beside.is_certain:
            ax.plot(middles, density(beside.law, edges), label="all scores in one place", **style.POOLED)
        look = {**style.OURS, **line}
        if ours.is_certain:
            ax.axvline(ours.mean, label=f"{label}: coverage {ours.mean:g} for sure", **look)
        else:
            curve = density(ours.law, edges)
            ax.plot(middles, curve, label=label, **look)
            ax.axvline(ours.mean, label=f"mean {ours.mean:.4f}", **style.MEAN)
            ax.axvline(ours.low, label=f"5 % quantile {ours.low:.4f}", **style.LOW)
            ax.fill_between(middles, curve, where=(middles <= ours.low).tolist(), **style.LOW_AREA)
        if windows:
            ax.set_xlim(low, high)
        style.tidy(ax, x="coverage given the calibration data", y="density")
        style.in_percent(ax.xaxis)
        ax.set_ylim(bottom=0)
        style.legend_above(ax)
        self.ax_ = ax
        return self


# -- the table of marginal coverages, with the pair that was chosen ----------------------------------------


@dataclass
class CoverageTableDisplay:
    """The paper's array M, local rank down and server rank across, with the border of the valid pairs.

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
    def from_plan(cls, plan: Plan | PlanView, *, level: int = 0, ax: Axes | None = None) -> Self:
        """Plot the table of a plan whose sites are alike, and the pair it chose.

        Parameters
        ----------
        plan : Plan or PlanView
            With sites of one size that send one score of the same rank; of a plan with groups or levels, one
            of them: ``plan["child"]``, ``plan[0.9]``.
        level : int
            Place of the level, 0 the first.
        ax : Axes, optional
            Where to draw.

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
        sizes, ranks = [kind.n for kind in design.kinds], message.local_ranks(design, place) or ()
        rows = set(zip(sizes, ranks, strict=False))
        if len(rows) != 1 or len(next(iter(rows))[1]) != 1 or message.is_bound(design):
            raise ValueError("the table is for sites of one size that send one exact number each")
        (n, (rank,)), m = rows.pop(), design.n_sites or 0
        if m * n > _LARGEST_TABLE:
            raise ValueError(f"n_sites * n_points must be at most {_LARGEST_TABLE:,}, got {m * n:,}")
        pair = (rank, chosen.votes or 1) if chosen.advice is None else None
        return cls(coverage_table(m, n), float(chosen.confidence_level), pair).plot(ax=ax)

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
        ax = style.axes(ax)
        n, m = self.table.shape
        extent = (0.5, m + 0.5, n + 0.5, 0.5)
        options = {"cmap": "cividis", "vmin": 0.0, "vmax": 1.0, "aspect": "auto", "interpolation": "nearest"}
        shown = ax.imshow(self.table, extent=extent, **{**options, **image})
        colours = ax.figure.colorbar(shown, ax=ax, label="marginal coverage")
        style.in_percent(colours.ax.yaxis)
        self._draw_border(ax)
        if self.chosen is not None:
            self._draw_ring(ax, *self.chosen)
        style.tidy(ax, x="server rank k", y="local rank l")
        style.legend_above(ax)
        self.ax_ = ax
        return self

    def _draw_ring(self, ax: Axes, l: int, k: int) -> None:
        """Draw a ring around the chosen pair, with a white rim that shows on any colour."""
        ring: dict[str, Any] = {
            "marker": "o",
            "markersize": 11,
            "markerfacecolor": "none",
            "linestyle": "none",
        }
        name = f"chosen: l = {l}, k = {k}, M = {self.table[l - 1, k - 1]:.4f}"
        ax.plot([k], [l], **ring, markeredgecolor="white", markeredgewidth=4)
        ax.plot([k], [l], **ring, markeredgecolor=style.VERMILION, markeredgewidth=2, label=name)

    def _draw_border(self, ax: Axes) -> None:
        """Draw a step line between pairs below the level and pairs that reach it."""
        n, m = self.table.shape
        too_low = (self.table < self.confidence_level).sum(axis=0)  # local ranks, for each server rank
        line: dict[str, Any] = {"edges": np.arange(m + 1) + 0.5, "baseline": None}
        ax.stairs(too_low + 0.5, **line, color="white", linewidth=3.5)
        label = f"below: at least {self.confidence_level:g}"
        ax.stairs(too_low + 0.5, **line, color="black", linewidth=1.5, label=label)
        ax.set_ylim(n + 0.5, 0.5)


# -- coverage of private plans against epsilon -------------------------------------------------------------


@dataclass
class PrivacyDisplay:
    """Coverage to expect of private plans, against their privacy loss epsilon.

    All these plans promise the level; what privacy costs is coverage above it, hence larger sets. An epsilon
    for which there is no finite threshold is marked at the top.

    Parameters
    ----------
    epsilon : sequence of float
        Privacy losses.
    expected : sequence of float
        Mean coverage of noisy curves if scores lie evenly over the bins, NaN where no threshold is finite.
    paper : sequence of float
        Mean coverage of the ranks that the paper's analysis aims at, NaN where it has none.
    confidence_level : float
        Coverage that was asked for.
    without : float, optional
        Mean coverage without privacy.

    Attributes
    ----------
    ax_ : Axes
        The axes that were drawn on last.

    Examples
    --------
    >>> import fedconformal as fc
    >>> bins = fc.Bins.uniform(0, 1, 20)
    >>> display = fc.plots.PrivacyDisplay.from_federation(5, 100, epsilons=[4.0, 8.0], bins=bins)
    >>> len(display.expected)
    2
    """

    epsilon: Sequence[float]
    expected: Sequence[float]
    paper: Sequence[float]
    confidence_level: float
    without: float | None = None
    ax_: Axes | None = field(default=None, init=False)

    @classmethod
    def from_federation(
        cls,
        n_sites: int,
        n_points: int,
        *,
        bins: Bins,
        confidence_level: float = 0.9,
        epsilons: Iterable[float] = _EPSILONS,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Make plans for each epsilon and plot them.

        Parameters
        ----------
        n_sites, n_points : int
            Number of sites, and of scores at each.
        bins : Bins
            Grid on which scores are counted.
        confidence_level : float
            Coverage to reach.
        epsilons : iterable of float
            Privacy losses of a report.
        ax : Axes, optional
            Where to draw.
        **options : dict
            For `fedconformal.plan`. The paper's analysis is left out where it does not go with them.

        Returns
        -------
        PrivacyDisplay
            Drawn.
        """
        losses = sorted(float(epsilon) for epsilon in epsilons)

        def make(privacy: Privacy | None) -> Plan:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InfeasibleWarning)
                return plan(n_sites, n_points, confidence_level=confidence_level, privacy=privacy, **options)

        def aim(epsilon: float) -> float:
            try:
                made = make(Privacy(epsilon, bins, analysis="paper"))
            except ValueError:
                return np.nan
            ranks = made.local_ranks
            if not made.feasible or ranks is None or made.server_rank is None:
                return np.nan
            return CoverageLaw(n_sites, n_points, ranks[0], made.server_rank).mean()

        plans = [make(Privacy(epsilon, bins)) for epsilon in losses]
        expected = [
            messages.CurveMessage().expected(made.designs[0], 0)[0] if made.feasible else np.nan
            for made in plans
        ]
        exact = make(None)
        without = exact.law.mean() if exact.feasible and exact.law is not None else None
        paper = [aim(epsilon) for epsilon in losses]
        return cls(losses, expected, paper, confidence_level, without).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **line: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        **line : dict
            Options of the curve, as ``Axes.plot`` takes them.

        Returns
        -------
        PrivacyDisplay
            Itself.
        """
        ax = style.axes(ax)
        epsilon, expected, paper = (
            np.array(each, dtype=float) for each in (self.epsilon, self.expected, self.paper)
        )
        look = {**style.OURS, "marker": "o", "label": "private, to be expected"}
        ax.plot(epsilon, expected, **{**look, **line})
        if not np.isnan(paper).all():
            ax.plot(epsilon, paper, **style.PAPER, label="the paper's analysis")
        if self.without is not None:
            ax.axhline(self.without, label="without privacy", **style.POOLED)
        style.level_line(ax, self.confidence_level, vertical=False)
        none = np.isnan(expected)
        if none.any():
            cross: dict[str, Any] = {"marker": "X", "markersize": 8, "linestyle": "none"}
            label = "no finite threshold"
            ax.plot(epsilon[none], np.ones(none.sum()), **cross, color=style.VERMILION, label=label)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        style.tidy(ax, x="privacy loss ε of each report", y="coverage to be expected")
        style.in_percent(ax.yaxis)
        style.legend_above(ax)
        self.ax_ = ax
        return self
