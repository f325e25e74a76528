"""The table of marginal coverages, with the pair that was chosen."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes

from fedconformal._typing import Floats
from fedconformal.documents import Plan, PlanView
from fedconformal.laws import coverage_table
from fedconformal.messages import of
from fedconformal.plots import style

_LARGEST = 4_000_000


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
        design, place = plan._only_design("table"), plan._places[level]
        message, chosen = of(design.message), design.levels[place]
        rows = set(
            zip((kind.n for kind in design.kinds), message.local_ranks(design, place) or (), strict=False)
        )
        if len(rows) != 1 or len(next(iter(rows))[1]) != 1 or message.is_bound(design):
            raise ValueError("the table is for sites of one size that send one exact number each")
        (n, (rank,)), m = rows.pop(), design.n_sites or 0
        if m * n > _LARGEST:
            raise ValueError(f"n_sites * n_points must be at most {_LARGEST:,}, got {m * n:,}")
        pair = (rank, chosen.votes or 1) if chosen.advice is None else None
        return cls(coverage_table(m, n), float(chosen.confidence_level), pair).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, **image: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes if left out.
        **image : dict
            How the table looks, as ``Axes.imshow`` takes it.

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
        self._border(ax)
        if self.chosen is not None:
            self._mark(ax, *self.chosen)
        style.tidy(ax, x="server rank k", y="local rank l")
        style.legend_above(ax)
        self.ax_ = ax
        return self

    def _mark(self, ax: Axes, l: int, k: int) -> None:
        """A ring around the chosen pair, with a white rim that shows on any colour."""
        ring: dict[str, Any] = {
            "marker": "o",
            "markersize": 11,
            "markerfacecolor": "none",
            "linestyle": "none",
        }
        name = f"chosen: l = {l}, k = {k}, M = {self.table[l - 1, k - 1]:.4f}"
        ax.plot([k], [l], **ring, markeredgecolor="white", markeredgewidth=4)
        ax.plot([k], [l], **ring, markeredgecolor=style.VERMILION, markeredgewidth=2, label=name)

    def _border(self, ax: Axes) -> None:
        """A step line between pairs below the level and pairs that reach it."""
        n, m = self.table.shape
        too_low = (self.table < self.confidence_level).sum(axis=0)  # local ranks, for each server rank
        line: dict[str, Any] = {"edges": np.arange(m + 1) + 0.5, "baseline": None}
        ax.stairs(too_low + 0.5, **line, color="white", linewidth=3.5)
        label = f"below: at least {self.confidence_level:g}"
        ax.stairs(too_low + 0.5, **line, color="black", linewidth=1.5, label=label)
        ax.set_ylim(n + 0.5, 0.5)
