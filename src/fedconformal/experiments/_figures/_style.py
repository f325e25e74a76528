"""How all figures look: one colour per method, safe for colour-blind readers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fedconformal.experiments import _methods as methods
from fedconformal.experiments._store import Rows
from fedconformal.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

COLOURS = {
    methods.QQ: BLUE,
    methods.STABLE: GREEN,
    methods.THREE: SKY,
    methods.CENTRALISED: ORANGE,
    methods.AVERAGE: VERMILION,
    methods.AVERAGE_NEXT: "#7f2a00",
    methods.SINGLE: GREY,
    methods.PAPER: "#a8922f",
    methods.TIGHT: PURPLE,
    methods.EACH: BLACK,
}
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "font.size": 9,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "fedconformal",
}


def panels(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """A figure and a two-dimensional array of its axes; no window is ever opened."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def style() -> AbstractContextManager[None]:
    """A context in which figures are drawn and saved in the house style."""
    return matplotlib.rc_context(STYLE)


def styled(draw: Callable[[Rows], Figure]) -> Callable[[Rows], Figure]:
    """The same figure in the house style."""

    @wraps(draw)
    def drawn(rows: Rows) -> Figure:
        with style():
            return draw(rows)

    return drawn


def colour(method: str) -> str:
    """The colour of a method; grey for one of the reader's own."""
    return COLOURS.get(method, GREY)


def target(axes: Any, level: float) -> None:
    """The coverage that was asked for."""
    axes.axhline(level, color="black", linestyle="--", linewidth=1, label="target", zorder=1)


def curve(axes: Any, rows: Rows, x: str, y: str, *marks: str, **options: Any) -> None:
    """One column of rows over another; nothing where there is no value."""
    values = [np.nan if row[y] is None else row[y] for row in rows]
    axes.plot([row[x] for row in rows], values, *marks, **options)


def words(axes: Any, place: float, height: float, text: str, **options: Any) -> None:
    """Words in the place of a box that is not there, at a share of the panel's height."""
    options = {"ha": "center", "va": "center", "fontsize": "small", **options}
    axes.text(place, height, text, transform=axes.get_xaxis_transform(), **options)


def boxes(
    axes: Any, samples: Sequence[Sequence[float]], colours: Sequence[str], places: Sequence[float]
) -> None:
    """A box for each sample at its place, the mean as a white circle; infinite values are said in words."""
    for values, fill, place in zip(samples, colours, places, strict=True):
        finite = np.asarray(values)[np.isfinite(values)]
        if not finite.size:
            words(axes, place, 0.5, "infinite", rotation=90)
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


def below(figure: Figure, axes: Any, columns: int) -> None:
    """The key of one panel, below all of them, where it covers nothing; each entry once."""
    handles, names = axes.get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc="outside lower center", ncols=columns, fontsize="small")


def key(figure: Figure, names: Sequence[str]) -> None:
    """Below the panels: a filled box for each method, the mean and the target."""
    handles: list[Artist] = [Patch(facecolor=colour(name), edgecolor="black", label=name) for name in names]
    circle: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black"}
    handles += [
        Line2D([], [], **circle, linestyle="none", label="mean"),
        Line2D([], [], color="black", linestyle="--", linewidth=1, label="target"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5), fontsize="small")
