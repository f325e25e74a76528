"""The distribution of the coverage."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes

from fedconformal import baselines, messages
from fedconformal.documents import Calibration, CalibrationView, Plan, PlanView
from fedconformal.laws import CoverageLaw, Summary, density
from fedconformal.planning import PROMISES
from fedconformal.plots import style

_STEPS = 240


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
        return cls._of(plan, level, ax, "an open plan has no distribution yet: sizes come with the reports")

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
        return cls._of(calibration, level, ax, "too few sites answered for any threshold")

    @classmethod
    def _of(
        cls,
        document: Plan | PlanView | Calibration | CalibrationView,
        level: int,
        ax: Axes | None,
        if_unsolved: str,
    ) -> Self:
        design, place = document._only_design("law"), document._places[level]
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
            How the curve looks, as ``Axes.plot`` takes it.

        Returns
        -------
        CoverageLawDisplay
            Itself.
        """
        ax = style.axes(ax)
        ours = Summary(self.law, self.confidence_level)
        beside = None if self.beside is None else Summary(self.beside, self.confidence_level)
        random = [each for each in (ours, beside) if each is not None and not each.is_certain]
        style.level_line(ax, self.confidence_level)
        if random:
            self._curves(ax, ours, beside, random, label, line)
        if ours.is_certain:
            ax.axvline(ours.mean, label=f"{label}: coverage {ours.mean:g} for sure", **{**style.OURS, **line})
        style.tidy(ax, x="coverage given the calibration data", y="density")
        style.in_percent(ax.xaxis)
        ax.set_ylim(bottom=0)
        style.legend_above(ax)
        self.ax_ = ax
        return self

    def _curves(
        self,
        ax: Axes,
        ours: Summary,
        beside: Summary | None,
        random: list[Summary],
        label: str,
        line: dict[str, Any],
    ) -> None:
        low = min(self.confidence_level, *(each.window[0] for each in random))
        high = max(self.confidence_level, *(each.window[1] for each in random))
        edges = np.linspace(low, high, _STEPS + 1)
        middles = (edges[1:] + edges[:-1]) / 2
        if beside is not None and not beside.is_certain:
            ax.plot(middles, density(beside.law, edges), label="all scores in one place", **style.POOLED)
        if not ours.is_certain:
            curve = density(ours.law, edges)
            ax.plot(middles, curve, label=label, **{**style.OURS, **line})
            ax.axvline(ours.mean, label=f"mean {ours.mean:.4f}", **style.MEAN)
            ax.axvline(ours.low, label=f"5 % quantile {ours.low:.4f}", **style.LOW)
            ax.fill_between(middles, curve, where=(middles <= ours.low).tolist(), **style.LOW_AREA)
        ax.set_xlim(low, high)
