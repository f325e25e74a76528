"""Box plots over random splits: the paper's figure 4, those of each data set, and the private ones."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from fedconformal.experiments import _methods as methods
from fedconformal.experiments._figures._style import boxes, colour, key, panels, styled, target
from fedconformal.experiments._protocol import FEW, MANY
from fedconformal.experiments._store import Rows, distinct, select

_LOWEST = 0.8  # coverages below it are counted, not drawn
_TITLES = {MANY: "$m \\gg n$", FEW: "$m \\ll n$"}


@styled
def coverage(rows: Rows) -> Figure:
    """Coverage over all data sets and splits, m >> n on the left and m << n on the right (figure 4).

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each federation.
    """
    scenarios = distinct(rows, "scenario")
    figure, grid = panels(1, len(scenarios), (5.2 * len(scenarios), 4.2), sharey=True)
    for axes, scenario in zip(grid[0], scenarios, strict=True):
        _panel(axes, select(rows, scenario=scenario), "coverage")
        axes.set_title(_TITLES.get(scenario, scenario))
    grid[0, 0].set_ylabel("coverage")
    key(figure, distinct(rows, "method"))
    return figure


@styled
def dataset(rows: Rows) -> Figure:
    """Coverage on the left and length on the right for one data set, a row for each federation.

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels for each federation.
    """
    scenarios = distinct(rows, "scenario")
    figure, grid = panels(len(scenarios), 2, (10.4, 3.4 * len(scenarios)), sharex=True)
    for (left, right), scenario in zip(grid, scenarios, strict=True):
        chosen = select(rows, scenario=scenario)
        _panel(left, chosen, "coverage")
        _panel(right, chosen, "length")
        m, n = chosen[0]["n_sites"], chosen[0]["n_points"]
        left.set(ylabel="coverage", title=f"{rows[0]['dataset']}: m = {m}, n = {n}")
        right.set(ylabel="mean length", title=f"{rows[0]['dataset']}: m = {m}, n = {n}")
    key(figure, distinct(rows, "method"))
    return figure


@styled
def private(rows: Rows) -> Figure:
    """Coverage of FedCP-QQ and of its private versions for each epsilon, a panel for each data set.

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each data set.
    """
    names = distinct(rows, "dataset")
    figure, grid = panels(len(names), 1, (7.6, 3.0 * len(names)), sharex=True)
    for (axes,), name in zip(grid, names, strict=True):
        chosen = select(rows, dataset=name)
        kinds = list(dict.fromkeys((row["method"], row["epsilon"]) for row in chosen))
        coverages = [
            [row["coverage"] for row in select(chosen, method=method, epsilon=epsilon)]
            for method, epsilon in kinds
        ]
        boxes(axes, coverages, [colour(method) for method, _ in kinds], range(len(kinds)))
        for place, (method, epsilon) in enumerate(kinds):
            cut = select(chosen, method=method, epsilon=epsilon)
            if all(row["threshold"] == float("inf") for row in cut):
                place_text = {"textcoords": "offset points", "ha": "center", "va": "top"}
                axes.annotate(
                    "infeasible:\ninfinite intervals", (place, 1.0), (0, -8), fontsize="x-small", **place_text
                )
        target(axes, chosen[0]["confidence_level"])
        m, n = chosen[0]["n_sites"], chosen[0]["n_points"]
        axes.set(ylabel="coverage", title=f"{name}: m = {m}, n = {n}, {methods.N_BINS} bins")
        labels = [method if epsilon is None else f"$\\varepsilon$ = {epsilon:g}" for method, epsilon in kinds]
        axes.set_xticks(range(len(kinds)), labels)
    key(figure, distinct(rows, "method"))
    return figure


def _panel(axes: Any, rows: Rows, column: str) -> None:
    """Boxes for each model, one for each method; coverage gets its target line."""
    models, names = distinct(rows, "model"), distinct(rows, "method")
    step = len(names) + 1
    for i, model in enumerate(models):
        found = [[row[column] for row in select(rows, model=model, method=name)] for name in names]
        boxes(axes, found, [colour(name) for name in names], [i * step + j for j in range(len(names))])
    centres = [i * step + (len(names) - 1) / 2 for i in range(len(models))]
    axes.set_xticks(centres, models)
    if column == "coverage":
        target(axes, rows[0]["confidence_level"])
        _cut(axes, [row["coverage"] for row in rows])


def _cut(axes: Any, values: Sequence[float]) -> None:
    """Keep a few very low coverages from squeezing the boxes, and say how many are not shown."""
    below = sum(value < _LOWEST for value in values)
    if below:
        axes.set_ylim(_LOWEST, 1.005)
        words = f"{below} of {len(values)} below {_LOWEST:g}"
        axes.text(0.99, 0.02, words, ha="right", transform=axes.transAxes, fontsize="x-small")
