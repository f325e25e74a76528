"""Box plots over random splits: the paper's figure 4, those of each data set, and the private ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedconformal.experiments import _methods as methods
from fedconformal.experiments._figures._style import boxes, colour, key, panels, styled, target, words
from fedconformal.experiments._models import MODELS
from fedconformal.experiments._protocol import FEW, MANY
from fedconformal.experiments._store import Rows, distinct, select

_LOWEST = 0.8  # coverages below it are counted, not drawn
_FAR = 4.0  # lengths beyond so many interquartile ranges are counted, not drawn
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
    figure, grid = panels(1, len(scenarios), (5.4 * len(scenarios), 4.2), sharey=True)
    for axes, scenario in zip(grid[0], scenarios, strict=True):
        chosen = select(rows, scenario=scenario)
        note = _coverages(axes, chosen, distinct(chosen, "model"))
        words = f"{_TITLES.get(scenario, scenario)}: {_federations(chosen)}, {_splits(chosen)}"
        axes.set_title(f"{words}{note}", fontsize="small")
        labels = [f"{name}\n({_data_sets(select(chosen, model=name))})" for name in distinct(chosen, "model")]
        axes.set_xticks(axes.get_xticks(), labels)
    grid[0, 0].set_ylabel("coverage")
    key(figure, distinct(rows, "method"))
    return figure


def _federations(rows: Rows) -> str:
    """The numbers of sites and of points, from the smallest to the largest."""
    return ", ".join(
        f"{letter} = {_range([row[column] for row in rows])}"
        for letter, column in (("m", "n_sites"), ("n", "n_points"))
    )


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _data_sets(rows: Rows) -> str:
    names = distinct(rows, "dataset")
    return names[0] if len(names) == 1 else f"{len(names)} data sets"


def _splits(rows: Rows) -> str:
    return f"{len(distinct(rows, 'split'))} splits of each data set"


@styled
def dataset(rows: Rows) -> Figure:
    """Coverage on the left and length on the right for one data set, a row for each federation.

    Lengths have an axis for each model, since those of one may be several times those of another.

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        A panel of coverages and one of lengths for each model, for each federation.
    """
    scenarios, found = distinct(rows, "scenario"), distinct(rows, "model")
    models = [*MODELS, *(name for name in found if name not in MODELS)]
    widths = (len(models) * 1.1, *[1] * len(models))
    figure, grid = panels(len(scenarios), 1 + len(models), (13.0, 3.3 * len(scenarios)), width_ratios=widths)
    for (left, *others), scenario in zip(grid, scenarios, strict=True):
        chosen = select(rows, scenario=scenario)
        note = _coverages(left, chosen, models)
        m, n = chosen[0]["n_sites"], chosen[0]["n_points"]
        splits = len(distinct(chosen, "split"))
        left.set_ylabel("coverage")
        left.set_title(f"{rows[0]['dataset']}: m = {m}, n = {n}, {splits} splits{note}", fontsize="small")
        for axes, model in zip(others, models, strict=True):
            _lengths(axes, select(chosen, model=model), model)
        others[0].set_ylabel("mean length")
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
        A panel for each data set and model.
    """
    names, models = distinct(rows, "dataset"), distinct(rows, "model")
    size = (6.4 * len(models) + 0.6, 3.0 * len(names))
    figure, grid = panels(len(names), len(models), size, sharey="row")
    for line, name in zip(grid, names, strict=True):
        for axes, model in zip(line, models, strict=True):
            chosen = select(rows, dataset=name, model=model)
            if chosen:
                _private_panel(axes, chosen)
            else:
                axes.set(title=f"{name}, {model}", xticks=[], xlim=(-1, 1))
                _not_run(axes, 0)
        line[0].set_ylabel("coverage")
    key(figure, distinct(rows, "method"))
    return figure


def _private_panel(axes: Any, chosen: Rows) -> None:
    kinds = list(dict.fromkeys((row["method"], row["epsilon"]) for row in chosen))
    for place, (method, epsilon) in enumerate(kinds):
        _private_box(axes, place, select(chosen, method=method, epsilon=epsilon))
    first, splits = chosen[0], len(distinct(chosen, "split"))
    target(axes, first["confidence_level"])
    federation = f"m = {first['n_sites']}, n = {first['n_points']}"
    axes.set_title(
        f"{first['dataset']}, {first['model']}: {federation}, {methods.N_BINS} bins, {splits} splits",
        fontsize="small",
    )
    labels = [method if epsilon is None else f"$\\varepsilon$ = {epsilon:g}" for method, epsilon in kinds]
    axes.set_xticks(range(len(kinds)), labels)


def _private_box(axes: Any, place: int, rows: Rows) -> None:
    """A box, or the words that there is no plan in its place."""
    if all(row["threshold"] == float("inf") for row in rows):
        words(axes, place, 0.5, "no plan:\ninfinite", color="0.35")
        return
    boxes(axes, [[row["coverage"] for row in rows]], [colour(rows[0]["method"])], [place])


def _coverages(axes: Any, rows: Rows, models: Sequence[str]) -> str:
    """Boxes for each model, one for each method, and the target; returns how many are not shown."""
    names = distinct(rows, "method")
    step = len(names) + 1
    for i, model in enumerate(models):
        found = [[row["coverage"] for row in select(rows, model=model, method=name)] for name in names]
        places = [i * step + j for j in range(len(names))]
        if any(found):
            boxes(axes, found, [colour(name) for name in names], places)
        else:
            _not_run(axes, i * step + (len(names) - 1) / 2)
    centres = [i * step + (len(names) - 1) / 2 for i in range(len(models))]
    axes.set_xticks(centres, models)
    axes.set_xlim(-1, len(models) * step - 1)
    target(axes, rows[0]["confidence_level"])
    below = sum(row["coverage"] < _LOWEST for row in rows)
    if below:
        axes.set_ylim(_LOWEST, 1.005)
    return f"\n({below} of {len(rows)} coverages below {_LOWEST:g} are not shown)" if below else ""


def _lengths(axes: Any, rows: Rows, model: str) -> None:
    """Boxes of the lengths of one model; those far out are counted in the title."""
    axes.set_title(model, fontsize="small")
    axes.set_xticks([])
    if not rows:
        axes.set_yticks([])
        axes.set_xlim(-1, 1)
        _not_run(axes, 0)
        return
    names = distinct(rows, "method")
    found = [[row["length"] for row in select(rows, method=name)] for name in names]
    boxes(axes, found, [colour(name) for name in names], range(len(names)))
    values = np.array([row["length"] for row in rows])
    low, high = np.quantile(values[np.isfinite(values)], [0.25, 0.75])
    far = values > high + _FAR * (high - low)
    if far.any():
        kept = values[~far]
        axes.set_ylim(kept.min() * 0.97, kept.max() * 1.03)
        axes.set_title(f"{model} ({far.sum()} beyond)", fontsize="small")


def _not_run(axes: Any, place: float) -> None:
    words(axes, place, 0.25, "not run", color="0.35")
