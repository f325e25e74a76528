"""The table of marginal coverages, with the pair that was chosen."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes

from fedconformal.documents import Plan
from fedconformal.laws import coverage_table
from fedconformal.laws._sites import Floats
from fedconformal.plots import _style as style

_LARGEST = 4_000_000


@dataclass
class CoverageTableDisplay:
    """The paper's array M, local rank down and server rank across, with the border of the valid pairs.

    Parameters
    ----------
    table : ``coverage_table(n_sites, n_points)``.
    confidence_level : where the border between valid and invalid pairs is drawn.
    chosen : (local rank, server rank) to mark; None for none.
    """

    table: Floats
    confidence_level: float
    chosen: tuple[int, int] | None = None
    ax_: Axes | None = field(default=None, init=False)

    @classmethod
    def from_plan(cls, plan: Plan, *, level: int = 0, ax: Axes | None = None) -> Self:
        """Plot the table of a plan whose sites are alike, and the pair it chose."""
        groups = plan.groups or ()
        if len({group.n for group in groups}) != 1 or plan.privacy is not None:
            raise ValueError("the table is for sites of one size and exact reports")
        m, n = plan.n_sites or 0, groups[0].n
        if m * n > _LARGEST:
            raise ValueError(f"n_sites * n_points must be at most {_LARGEST:,}, got {m * n:,}")
        found = plan.levels[level]
        chosen = None if found.advice else (groups[0].ranks[level], found.server_rank or 1)
        return cls(coverage_table(m, n), found.confidence_level, chosen).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **image: Any) -> Self:
        """Draw; ``image`` changes how the table looks."""
        ax = style.axes(ax)
        n, m = self.table.shape
        extent = (0.5, m + 0.5, n + 0.5, 0.5)
        options = {"cmap": "cividis", "vmin": 0.0, "vmax": 1.0, "aspect": "auto", "interpolation": "nearest"}
        shown = ax.imshow(self.table, extent=extent, **{**options, **image})
        colours = ax.figure.colorbar(shown, ax=ax, label="marginal coverage")
        style.in_percent(colours.ax.yaxis)
        self._border(ax)
        if self.chosen is not None:
            l, k = self.chosen
            name = f"chosen: l = {l}, k = {k}, M = {self.table[l - 1, k - 1]:.4f}"
            ax.plot(
                [k],
                [l],
                marker="o",
                markersize=11,
                markerfacecolor="none",
                markeredgecolor="white",
                markeredgewidth=4,
                linestyle="none",
            )
            ax.plot(
                [k],
                [l],
                marker="o",
                markersize=11,
                markerfacecolor="none",
                markeredgecolor=style.VERMILION,
                markeredgewidth=2,
                linestyle="none",
                label=name,
            )
        style.tidy(ax, x="server rank k", y="local rank l")
        style.legend_above(ax)
        self.ax_ = ax
        return self

    def _border(self, ax: Axes) -> None:
        """A step line between pairs below the level and pairs that reach it."""
        n, m = self.table.shape
        first = (self.table < self.confidence_level).sum(
            axis=0
        )  # ranks below the level, for each server rank
        edges = np.arange(m + 1) + 0.5
        ax.stairs(first + 0.5, edges, baseline=None, color="white", linewidth=3.5)
        ax.stairs(
            first + 0.5,
            edges,
            baseline=None,
            color="black",
            linewidth=1.5,
            label=f"below: at least {self.confidence_level:g}",
        )
        ax.set_ylim(n + 0.5, 0.5)
