"""Figure 4 and appendix B.1: coverage and length on the five data sets, over random splits."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reproduce import data
from reproduce.drawing import box, box_legend, colour, panels, target
from reproduce.protocol import FEW, MANY, Settings, run

LOWEST = 0.8
"""Coverages below it are counted in the title, not drawn."""
FAR = 4.0
"""Lengths this many interquartile ranges above the third quartile are counted, not drawn."""
TITLES = {MANY: "$m \\gg n$", FEW: "$m \\ll n$"}


def compute(settings: Settings) -> pd.DataFrame:
    """Run the protocol on all data sets that are here."""
    return run(settings.data_sets(), [settings.model(name) for name in settings.models], settings)


def compute_dataset(settings: Settings, name: str) -> pd.DataFrame:
    """Run the protocol on one data set."""
    dataset = data.load(name, download=settings.download)
    return run([dataset], [settings.model(name) for name in settings.models], settings)


def draw(rows: pd.DataFrame) -> Figure:
    """Draw coverage over all data sets and splits, m >> n on the left and m << n on the right."""
    scenarios = rows["scenario"].unique()
    figure, grid = panels(1, len(scenarios), (5.4 * len(scenarios), 4.2), sharey=True)
    for axes, scenario in zip(grid[0], scenarios, strict=True):
        chosen = rows[rows["scenario"] == scenario]
        data_sets = chosen.groupby("model", sort=False)["dataset"].unique()
        hidden = _coverages(axes, chosen, data_sets.index)
        federations = f"m = {_range(chosen['n_sites'])}, n = {_range(chosen['n_points'])}"
        splits = f"{chosen['split'].nunique()} splits of each data set"
        axes.set_title(f"{TITLES[scenario]}: {federations}, {splits}{hidden}", fontsize="small")
        names = [names[0] if len(names) == 1 else f"{len(names)} data sets" for names in data_sets]
        labels = [f"{model}\n({name})" for model, name in zip(data_sets.index, names, strict=True)]
        axes.set_xticks(axes.get_xticks(), labels)
    grid[0, 0].set_ylabel("coverage")
    box_legend(figure, rows["method"].unique())
    return figure


def draw_dataset(rows: pd.DataFrame) -> Figure:
    """Draw coverage, and the lengths of each model on an axis of their own, a row for each federation."""
    scenarios, models = rows["scenario"].unique(), rows["model"].unique()
    widths = (len(models) * 1.1, *[1] * len(models))
    figure, grid = panels(len(scenarios), 1 + len(models), (13.0, 3.3 * len(scenarios)), width_ratios=widths)
    for (left, *others), scenario in zip(grid, scenarios, strict=True):
        chosen = rows[rows["scenario"] == scenario]
        hidden = _coverages(left, chosen, models)
        name, m, n = chosen[["dataset", "n_sites", "n_points"]].iloc[0]
        left.set_title(
            f"{name}: m = {m}, n = {n}, {chosen['split'].nunique()} splits{hidden}", fontsize="small"
        )
        left.set_ylabel("coverage")
        for axes, model in zip(others, models, strict=True):
            _lengths(axes, chosen[chosen["model"] == model], model)
        others[0].set_ylabel("mean length")
    box_legend(figure, rows["method"].unique())
    return figure


def _range(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return str(low) if low == high else f"{low} to {high}"


def _coverages(axes, rows: pd.DataFrame, models: Sequence[str]) -> str:
    """Draw a box for each model and method; return a line that counts those below the axis."""
    names = rows["method"].unique()
    step = len(names) + 1
    centres = [i * step + (len(names) - 1) / 2 for i in range(len(models))]
    for i, model in enumerate(models):
        for j, name in enumerate(names):
            chosen = (rows["model"] == model) & (rows["method"] == name)
            box(axes, rows.loc[chosen, "coverage"], colour(name), i * step + j)
    axes.set_xticks(centres, models)
    axes.set_xlim(-1, len(models) * step - 1)
    target(axes, rows["confidence_level"].iloc[0])
    below = (rows["coverage"] < LOWEST).sum()
    if not below:
        return ""
    axes.set_ylim(LOWEST, 1.005)
    return f"\n({below} of {len(rows)} coverages below {LOWEST:g} are not shown)"


def _lengths(axes, rows: pd.DataFrame, model: str) -> None:
    """Draw a box of the lengths of each method; those far out are counted in the title."""
    axes.set_title(model, fontsize="small")
    axes.set_xticks([])
    for place, (name, found) in enumerate(rows.groupby("method", sort=False)):
        box(axes, found["length"], colour(name), place)
    lengths = rows["length"]
    low, high = np.quantile(lengths[np.isfinite(lengths)], [0.25, 0.75])
    far = lengths > high + FAR * (high - low)
    if far.any():
        axes.set_ylim(lengths[~far].min() * 0.97, lengths[~far].max() * 1.03)
        axes.set_title(f"{model} ({far.sum()} beyond)", fontsize="small")
