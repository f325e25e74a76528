"""The four hospitals: who is covered under which promise, as one coloured table."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedconformal.experiments import _hospitals as study
from fedconformal.experiments._figures._style import panels, styled
from fedconformal.experiments._store import Rows
from fedconformal.plots.style import BLUE, VERMILION

_COLOURS = LinearSegmentedColormap.from_list("coverage", [VERMILION, "white", BLUE])
_WORST, _BEST = -0.25, 0.25
"""Coverages so far from the level have the strongest colours."""

Column = tuple[str, str, str, str]
"""Heading, part, hospital and class."""


def _columns() -> Iterator[tuple[str, list[Column]]]:
    """The blocks of the table, each with its columns."""
    here, every = study.HERE, study.ALL
    yield "", [("all", here, every, every)]
    yield "at each hospital", [(name, here, name, every) for name in study.HOSPITALS]
    yield "each class", [(truth, here, every, truth) for truth in study.CLASSES]
    for truth in study.CLASSES:
        yield f"{truth}, at each hospital", [(name, here, name, truth) for name in study.HOSPITALS]
    yield "a hospital left out", [(name, study.LEFT_OUT, name, every) for name in study.HOSPITALS]


@styled
def hospitals(rows: Rows) -> Figure:
    """Coverage in percent, by rule and by whom: red below the level, blue above.

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        One table.
    """
    found = study.cells(rows)
    rules = list(dict.fromkeys(row["rule"] for row in rows))
    figure, ((axes,),) = panels(1, 1, (12.0, 0.36 * len(rules) + 1.9))
    place = 0.0
    for title, columns in _columns():
        first = place
        for heading, *who in columns:
            for line, rule in enumerate(rules):
                _cell(axes, place, line, found.get((rule, *who)))
            axes.text(place + 0.5, -0.15, heading, rotation=40, ha="left", va="bottom", fontsize="small")
            place += 1
        axes.text((first + place) / 2, len(rules) + 0.25, title, ha="center", va="top", fontsize="small")
        place += 0.35
    for line, rule in enumerate(rules):
        axes.text(-0.2, line + 0.5, rule, ha="right", va="center")
        size = found[rule, study.HERE, study.ALL, study.ALL].size
        axes.text(place + 0.6, line + 0.5, f"{size:.2f}", ha="center", va="center")
    axes.text(place + 0.2, -0.15, "labels in a set", rotation=40, ha="left", va="bottom", fontsize="small")
    axes.set(xlim=(-4.2, place + 2.6), ylim=(len(rules) + 0.9, -2.4))
    axes.axis("off")
    n_splits = len({row["split"] for row in rows})
    level = found[rules[0], study.HERE, study.ALL, study.ALL].level
    axes.set_title(
        f"Four hospitals, {n_splits} splits into thirds: percent of patients covered where {level:.0%} was "
        "asked for\n(red: fewer; bold: fewer by more than three standard errors)"
    )
    return figure


def _cell(axes: Any, x: float, line: int, cell: study.Cell | None) -> None:
    if cell is None:
        axes.text(x + 0.5, line + 0.5, "–", ha="center", va="center", color="0.5")
        return
    shade = (cell.coverage - cell.level - _WORST) / (_BEST - _WORST)
    colour = _COLOURS(float(np.clip(shade, 0.05, 0.95)))
    axes.add_patch(Rectangle((x + 0.03, line + 0.05), 0.94, 0.9, facecolor=colour, edgecolor="none"))
    weight = "bold" if cell.short else "normal"
    axes.text(x + 0.5, line + 0.5, f"{100 * cell.coverage:.0f}", ha="center", va="center", weight=weight)
