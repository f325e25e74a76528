"""How all figures look: one colour per method, safe for colour-blind readers."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal.experiments import _methods as methods
from fedconformal.experiments._store import Rows

# Okabe and Ito's palette, told apart with any common colour blindness.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#666666",
    "#000000",
)
COLOURS = {
    methods.QQ: BLUE,
    methods.STABLE: GREEN,
    methods.CENTRALISED: ORANGE,
    methods.AVERAGE: RED,
    methods.SINGLE: GREY,
    methods.PAPER: SKY,
    methods.TIGHT: PURPLE,
    methods.EACH: BLACK,
}
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "font.size": 9,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "fedconformal",
}


def panels(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """A figure and a two-dimensional array of its axes; no window is ever opened."""
    figure = need("matplotlib.figure", extra="experiments").Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def style() -> Any:
    """A context in which figures are drawn and saved in the house style."""
    return need("matplotlib", extra="experiments").rc_context(STYLE)


def styled(draw: Callable[[Rows], Any]) -> Callable[[Rows], Any]:
    """The same figure in the house style."""

    @wraps(draw)
    def drawn(rows: Rows) -> Any:
        with style():
            return draw(rows)

    return drawn


def colour(method: str) -> str:
    """The colour of a method; grey for one of the reader's own."""
    return COLOURS.get(method, GREY)


def target(axes: Any, level: float) -> None:
    """The coverage that was asked for."""
    axes.axhline(level, color="black", linestyle="--", linewidth=1, label=f"target {level:g}", zorder=1)


def boxes(
    axes: Any, groups: Sequence[Sequence[float]], colours: Sequence[str], places: Sequence[float]
) -> None:
    """A box for each group at its place, the mean as a white circle; infinite values are said in words."""
    for values, fill, place in zip(groups, colours, places, strict=True):
        finite = np.asarray(values)[np.isfinite(values)]
        if not finite.size:
            axes.text(
                place, 0.5, "infinite", rotation=90, ha="center", va="center", fontsize="small",
                transform=axes.get_xaxis_transform(),
            )  # fmt: skip
            continue
        axes.boxplot(
            finite,
            positions=[place],
            widths=0.7,
            patch_artist=True,
            manage_ticks=False,
            showmeans=True,
            boxprops={"facecolor": fill, "edgecolor": "black", "alpha": 0.85},
            medianprops={"color": "black"},
            meanprops={"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black"},
            flierprops={"marker": ".", "markersize": 4, "markeredgecolor": fill},
        )


def key(figure: Any, names: Sequence[str]) -> None:
    """Below the panels: a filled box for each method, the mean and the target."""
    patches = need("matplotlib.patches", extra="experiments")
    lines = need("matplotlib.lines", extra="experiments")
    handles = [patches.Patch(facecolor=colour(name), edgecolor="black", label=name) for name in names]
    mean = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black", "linestyle": "none"}
    handles += [
        lines.Line2D([], [], **mean, label="mean"),
        lines.Line2D([], [], color="black", linestyle="--", linewidth=1, label="target"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize="small")
