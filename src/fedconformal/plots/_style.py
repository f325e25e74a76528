"""One look for all plots: colours that the colour-blind tell apart, lines and markers that differ in grey.

The colours are those of Okabe and Ito. Whatever a colour says, a line style, a marker or a hatch says too.
"""

from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

BLUE = "#0072B2"
ORANGE = "#E69F00"
VERMILION = "#D55E00"
GREY = "#595959"
BLACK = "#000000"

OURS: dict[str, Any] = {"color": BLUE, "linestyle": "-", "linewidth": 2.0}
POOLED: dict[str, Any] = {"color": GREY, "linestyle": "--", "linewidth": 1.5}
TARGET: dict[str, Any] = {"color": BLACK, "linestyle": ":", "linewidth": 1.5}
MEAN: dict[str, Any] = {"color": BLUE, "linestyle": "-", "linewidth": 1.0}
UNLUCKY: dict[str, Any] = {"color": VERMILION, "linestyle": "-.", "linewidth": 1.5}
UNLUCKY_AREA: dict[str, Any] = {
    "facecolor": "none",
    "edgecolor": VERMILION,
    "hatch": "////",
    "linewidth": 0.0,
}


def axes(ax: Axes | None) -> Axes:
    """The axes to draw on: the given ones, or new ones."""
    return pyplot.subplots(constrained_layout=True)[1] if ax is None else ax


def tidy(ax: Axes, *, x: str, y: str) -> Axes:
    """Labels, and no more ink than needed."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def legend_above(ax: Axes) -> None:
    """A legend that covers nothing."""
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)


def in_percent(axis: Any) -> None:
    """Coverage as percent."""
    axis.set_major_formatter(PercentFormatter(xmax=1.0))
