"""The law of coverage."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes

from fedconformal import baselines
from fedconformal.documents import Calibration, Plan
from fedconformal.laws import CoverageLaw, Summary, density
from fedconformal.plots import _style as style

_STEPS = 240


@dataclass
class CoverageLawDisplay:
    """Density of the coverage with the target, the mean and the 5 % quantile, and a law beside it.

    Parameters
    ----------
    law : law of the coverage.
    confidence_level : coverage that was asked for.
    beside : another law, drawn dashed; ``from_plan`` and ``from_calibration`` take the centralised one.
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
        """Plot a law."""
        return cls(law, confidence_level, beside).plot(ax=ax, label=label)

    @classmethod
    def from_plan(cls, plan: Plan, *, level: int = 0, ax: Axes | None = None) -> Self:
        """Plot what a plan gives if all sites answer, beside the law of pooling all scores."""
        if plan.laws is None:
            raise ValueError("an open plan has no law yet: the sizes come with the reports")
        total = sum(plan.n_points or ())
        return cls._of(plan.laws[level], plan.levels[level].confidence_level, total, ax)

    @classmethod
    def from_calibration(cls, calibration: Calibration, *, level: int = 0, ax: Axes | None = None) -> Self:
        """Plot what a calibration gives, beside the law of pooling the scores of all sites that answered."""
        total = sum(count * n for (n, _), count in calibration.groups.items())
        found = calibration.levels[level]
        return cls._of(calibration.laws[level], found.confidence_level, total, ax)

    @classmethod
    def _of(cls, law: CoverageLaw, confidence_level: float, n_points: int, ax: Axes | None) -> Self:
        pooled = baselines.coverage_law(n_points, confidence_level)
        return cls.from_law(law, confidence_level, beside=pooled, ax=ax)

    def plot(self, *, ax: Axes | None = None, label: str = "this plan", **line: Any) -> Self:
        """Draw; ``line`` changes how the curve looks."""
        ax = style.axes(ax)
        ours = Summary(self.law, self.confidence_level)
        beside = None if self.beside is None else Summary(self.beside, self.confidence_level)
        random = [each for each in (ours, beside) if each is not None and not each.is_certain]
        ax.axvline(self.confidence_level, label=f"target {self.confidence_level:g}", **style.TARGET)
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
            ax.axvline(ours.unlucky, label=f"5 % quantile {ours.unlucky:.4f}", **style.UNLUCKY)
            ax.fill_between(middles, curve, where=(middles <= ours.unlucky).tolist(), **style.UNLUCKY_AREA)
        ax.set_xlim(low, high)
