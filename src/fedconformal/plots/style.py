"""Colours, lines and markers of all plots.

The colours are those of Okabe and Ito, which the colour-blind can tell apart. A line style, a marker or a
hatch repeats what a colour says.
"""

from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

__all__ = [
    "BLACK",
    "BLUE",
    "GREEN",
    "GREY",
    "LEVEL",
    "LOW",
    "LOW_AREA",
    "MEAN",
    "ORANGE",
    "OURS",
    "PAPER",
    "POOLED",
    "PURPLE",
    "SKY",
    "VERMILION",
    "axes",
    "in_percent",
    "legend_above",
    "level_line",
    "tidy",
]

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
GREY = "#595959"
BLACK = "#000000"

OURS: dict[str, Any] = {"color": BLUE, "linestyle": "-", "linewidth": 2.0}
POOLED: dict[str, Any] = {"color": GREY, "linestyle": "--", "linewidth": 1.5}
LEVEL: dict[str, Any] = {"color": BLACK, "linestyle": ":", "linewidth": 1.5}
PAPER: dict[str, Any] = {"color": ORANGE, "linestyle": "-.", "linewidth": 1.5, "marker": "s"}
MEAN: dict[str, Any] = {"color": BLUE, "linestyle": "-", "linewidth": 1.0}
LOW: dict[str, Any] = {"color": VERMILION, "linestyle": "-.", "linewidth": 1.5}
LOW_AREA: dict[str, Any] = {
    "facecolor": "none",
    "edgecolor": VERMILION,
    "hatch": "////",
    "linewidth": 0.0,
}


def axes(ax: Axes | None) -> Axes:
    """Return the axes to draw on.

    Parameters
    ----------
    ax : Axes or None
        Existing axes, or None for new ones.

    Returns
    -------
    Axes
        The given ones, or new ones.
    """
    return pyplot.subplots(constrained_layout=True)[1] if ax is None else ax


def tidy(ax: Axes, *, x: str, y: str) -> Axes:
    """Label the axes and hide the spines that are not needed.

    Parameters
    ----------
    ax : Axes
        The axes.
    x, y : str
        What they show.

    Returns
    -------
    Axes
        The same.
    """
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def level_line(ax: Axes, level: float, *, vertical: bool = True) -> None:
    """Mark the coverage that was asked for.

    Parameters
    ----------
    ax : Axes
        The axes.
    level : float
        The confidence level.
    vertical : bool
        True if coverage runs along x.
    """
    draw = ax.axvline if vertical else ax.axhline
    draw(level, label=f"level {level:g}", **LEVEL)


def legend_above(ax: Axes) -> None:
    """Put the legend above the plot, where it covers nothing.

    Parameters
    ----------
    ax : Axes
        The axes.
    """
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)


def in_percent(axis: Any) -> None:
    """Show coverage as percent.

    Parameters
    ----------
    axis : Axis
        ``ax.xaxis`` or ``ax.yaxis``.
    """
    axis.set_major_formatter(PercentFormatter(xmax=1.0))
