"""The law of coverage."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes

from fedconformal import baselines
from fedconformal.documents import Calibration, Plan
from fedconformal.laws import CoverageLaw, Summary, density
from fedconformal.planning import Design, Promise
from fedconformal.plots import style

_STEPS = 240


@dataclass
class CoverageLawDisplay:
    """Density of the coverage with the level, the mean and the 5 % quantile, and a law beside it.

    Parameters
    ----------
    law : CoverageLaw
        Law of the coverage.
    confidence_level : float
        Coverage that was asked for.
    beside : CoverageLaw, optional
        Another law, drawn dashed; ``from_plan`` and ``from_calibration`` take that of pooling all scores,
        where this would keep the same promise.

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
        """Plot a law.

        Parameters
        ----------
        law : CoverageLaw
            Law of the coverage.
        confidence_level : float
            Coverage that was asked for.
        beside : CoverageLaw, optional
            Another law, drawn dashed.
        ax : Axes, optional
            Where to draw.
        label : str
            What the law is called in the legend.

        Returns
        -------
        CoverageLawDisplay
            Drawn.
        """
        return cls(law, confidence_level, beside).plot(ax=ax, label=label)

    @classmethod
    def from_plan(cls, plan: Plan, *, level: int = 0, ax: Axes | None = None) -> Self:
        """Plot what a plan gives if all sites answer, beside the law of pooling all scores.

        Parameters
        ----------
        plan : Plan
            With known sizes; of a plan with groups, one group: ``plan["child"]``.
        level : int
            Which of its levels, 0 the first.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        CoverageLawDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the plan is open or has groups.
        """
        if plan.is_open:
            raise ValueError("an open plan has no law yet: the sizes come with the reports")
        return cls._of(plan.designs[level], plan.promise_object(), ax)

    @classmethod
    def from_calibration(cls, calibration: Calibration, *, level: int = 0, ax: Axes | None = None) -> Self:
        """Plot what a calibration gives, beside the law of pooling the scores of all sites that answered.

        Parameters
        ----------
        calibration : Calibration
            Of one with groups, one group: ``calibration["child"]``.
        level : int
            Which of its levels, 0 the first.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        CoverageLawDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the calibration has groups, or too few sites answered for any threshold.
        """
        if not calibration.is_calibrated:
            raise ValueError("too few sites answered for any threshold: there is no law")
        return cls._of(calibration.designs[level], calibration.plan.promise_object(), ax)

    @classmethod
    def _of(cls, design: Design, promise: Promise, ax: Axes | None) -> Self:
        wanted = float(design.goal.level)
        pooled = baselines.coverage_law(design.n_points, wanted) if promise.pools else None
        return cls.from_law(design.law(), wanted, beside=pooled, ax=ax)

    def plot(self, *, ax: Axes | None = None, label: str = "this plan", **line: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        label : str
            What the law is called in the legend.
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
