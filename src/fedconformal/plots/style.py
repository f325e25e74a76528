"""One look for all plots: colours that the colour-blind tell apart, lines and markers that differ in grey.

The colours are those of Okabe and Ito. Whatever a colour says, a line style, a marker or a hatch says too.
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
    """The axes to draw on.

    Parameters
    ----------
    ax : Axes or None
        Axes of one's own, or None for new ones.

    Returns
    -------
    Axes
        The given ones, or new ones.
    """
    return pyplot.subplots(constrained_layout=True)[1] if ax is None else ax


def tidy(ax: Axes, *, x: str, y: str) -> Axes:
    """Labels, and no more ink than needed.

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
        Whether coverage runs along x.
    """
    draw = ax.axvline if vertical else ax.axhline
    draw(level, label=f"level {level:g}", **LEVEL)


def legend_above(ax: Axes) -> None:
    """A legend that covers nothing.

    Parameters
    ----------
    ax : Axes
        The axes.
    """
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)


def in_percent(axis: Any) -> None:
    """Coverage as percent.

    Parameters
    ----------
    axis : Axis
        ``ax.xaxis`` or ``ax.yaxis``.
    """
    axis.set_major_formatter(PercentFormatter(xmax=1.0))
