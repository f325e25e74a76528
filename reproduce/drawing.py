"""The look of all figures: one colour per method, distinguishable by colour-blind
readers.
"""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reproduce import methods

# The colours of Okabe and Ito, which the colour-blind can tell apart.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY, BLACK = "#CC79A7", "#56B4E9", "#595959", "#000000"

COLOURS = {
    methods.QQ: BLUE,
    methods.STABLE: GREEN,
    methods.THREE: SKY,
    methods.CENTRALISED: ORANGE,
    methods.AVERAGE: VERMILION,
    methods.AVERAGE_NEXT: "#7f2a00",
    methods.WEIGHTED: "#b5651d",
    methods.SINGLE: GREY,
    methods.PAPER: "#a8922f",
    methods.CURVE: PURPLE,
    methods.EACH: BLACK,
}
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "font.size": 9,
    "legend.frameon": False,
    "savefig.dpi": 150,
}


def style():
    """Return a context in which figures are drawn and saved in this style."""
    return matplotlib.rc_context(STYLE)


def panels(rows: int, columns: int, size: tuple[float, float], **options):
    """Return a figure and a two-dimensional array of its axes."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def colour(method: str) -> str:
    """Return the colour of a method; grey for a reader's own."""
    return COLOURS.get(method, GREY)


def target(axes, level: float) -> None:
    """Draw the target coverage."""
    axes.axhline(
        level, color="black", linestyle="--", linewidth=1, label="target", zorder=1
    )


def note(axes, place: float, height: float, text: str, **options) -> None:
    """Write text in the place of a box, at a share of the panel's height."""
    options = {
        "ha": "center",
        "va": "center",
        "fontsize": "small",
        "color": "0.35",
        **options,
    }
    axes.text(place, height, text, transform=axes.get_xaxis_transform(), **options)


def box(axes, values, fill: str, place: float) -> None:
    """Draw a box with a dot per value and the mean as a white circle; infinite values
    are left out.
    """
    finite = np.asarray(values)[np.isfinite(values)]
    if not finite.size:
        note(axes, place, 0.5, "infinite", rotation=90)
        return
    axes.boxplot(
        finite,
        positions=[place],
        widths=0.7,
        patch_artist=True,
        manage_ticks=False,
        showmeans=True,
        showfliers=False,
        boxprops={"facecolor": fill, "edgecolor": "black", "alpha": 0.6},
        medianprops={"color": "black"},
        meanprops={
            "marker": "o",
            "markerfacecolor": "white",
            "markeredgecolor": "black",
            "zorder": 4,
        },
    )
    # Dots side by side, in an order that is the same in every drawing.
    aside = 0.5 * (np.arange(finite.size) * 0.618034 % 1 - 0.5)
    dots = {
        "markersize": 3,
        "color": fill,
        "markeredgecolor": "black",
        "markeredgewidth": 0.3,
    }
    axes.plot(place + aside, finite, ".", zorder=3, **dots)


def legend_below(figure: Figure, axes, columns: int) -> None:
    """Put the legend of one panel below all of them, each entry once."""
    handles, names = axes.get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    figure.legend(
        once.values(),
        once.keys(),
        loc="outside lower center",
        ncols=columns,
        fontsize="small",
    )


def box_legend(figure: Figure, names: Sequence[str]) -> None:
    """Put a legend of boxes below the panels: the methods, the mean and the target."""
    handles = [
        Patch(facecolor=colour(name), edgecolor="black", label=name) for name in names
    ]
    circle = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black"}
    handles += [
        Line2D([], [], **circle, linestyle="none", label="mean"),
        Line2D([], [], color="black", linestyle="--", linewidth=1, label="target"),
    ]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 5),
        fontsize="small",
    )
