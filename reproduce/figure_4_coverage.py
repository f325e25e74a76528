"""Figure 4 and appendix B.1: coverage and length on the five data sets, over random
splits.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reproduce import data
from reproduce.drawing import box, box_legend, colour, panels, target
from reproduce.methods import AVERAGE, CENTRALISED, QQ
from reproduce.protocol import FEW, MANY, Settings, run

LOWEST = 0.8
"""Coverages below it are counted in the title, not drawn."""
FAR = 4.0
"""Lengths this many interquartile ranges above the third quartile are counted, not
drawn.
"""
THREE_METHODS = (QQ, CENTRALISED, AVERAGE)
"""The methods of the paper's figure, in a panel of their own; with equal sites FedWQ-CP
is FedCP-Avg.
"""
TITLES = {MANY: "$m \\gg n$", FEW: "$m \\ll n$"}


def compute(settings: Settings) -> pd.DataFrame:
    """Run the protocol on all data sets that are here."""
    return run(
        settings.data_sets(),
        [settings.model(name) for name in settings.models],
        settings,
    )


def compute_dataset(settings: Settings, name: str) -> pd.DataFrame:
    """Run the protocol on one data set."""
    dataset = data.load(name, download=settings.download)
    return run([dataset], [settings.model(name) for name in settings.models], settings)


def draw(rows: pd.DataFrame) -> Figure:
    """Draw coverage over all data sets and splits: the paper's methods above, others
    below.
    """
    scenarios = rows["scenario"].unique()
    figure, grid = panels(2, len(scenarios), (5.4 * len(scenarios), 7.0), sharey="row")
    for column, scenario in zip(grid.T, scenarios, strict=True):
        chosen = rows[rows["scenario"] == scenario]
        data_sets = chosen.groupby("model", sort=False)["dataset"].unique()
        federations = (
            f"m = {_range(chosen['n_sites'])}, n = {_range(chosen['n_points'])}"
        )
        splits = f"{chosen['split'].nunique()} splits of each data set"
        for axes, part, words in zip(
            column, _parts(chosen), (splits, "other methods"), strict=True
        ):
            hidden = _coverages(axes, part, data_sets.index)
            axes.set_title(
                f"{TITLES[scenario]}: {federations}, {words}{hidden}", fontsize="small"
            )
            names = [
                names[0] if len(names) == 1 else f"{len(names)} data sets"
                for names in data_sets
            ]
            labels = [
                f"{model}\n({name})"
                for model, name in zip(data_sets.index, names, strict=True)
            ]
            axes.set_xticks(axes.get_xticks(), labels)
    for axes in grid[:, 0]:
        axes.set_ylabel("coverage")
    box_legend(figure, _in_order(rows))
    return figure


def draw_dataset(rows: pd.DataFrame) -> Figure:
    """Draw coverage, and the lengths of each model on an axis of their own, two rows
    for each federation.
    """
    scenarios, models = rows["scenario"].unique(), rows["model"].unique()
    widths = (len(models) * 1.1, *[1] * len(models))
    figure, grid = panels(
        2 * len(scenarios),
        1 + len(models),
        (13.0, 5.6 * len(scenarios)),
        width_ratios=widths,
    )
    for pair, scenario in zip(
        grid.reshape(len(scenarios), 2, -1), scenarios, strict=True
    ):
        chosen = rows[rows["scenario"] == scenario]
        name, m, n = chosen[["dataset", "n_sites", "n_points"]].iloc[0]
        splits = f"{chosen['split'].nunique()} splits"
        for (left, *others), part, words in zip(
            pair, _parts(chosen), (splits, "other methods"), strict=True
        ):
            hidden = _coverages(left, part, models)
            left.set_title(
                f"{name}: m = {m}, n = {n}, {words}{hidden}", fontsize="small"
            )
            left.set_ylabel("coverage")
            for axes, model in zip(others, models, strict=True):
                _lengths(axes, part[part["model"] == model], model)
            others[0].set_ylabel("mean length")
    box_legend(figure, _in_order(rows))
    return figure


def _parts(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the paper's methods, and those of all others."""
    paper = rows["method"].isin(THREE_METHODS)
    return rows[paper], rows[~paper]


def _in_order(rows: pd.DataFrame) -> list[str]:
    """Return the names of the methods, the paper's first."""
    return [name for part in _parts(rows) for name in part["method"].unique()]


def _range(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return str(low) if low == high else f"{low} to {high}"


def _coverages(axes, rows: pd.DataFrame, models: Sequence[str]) -> str:
    """Draw a box for each model and method; return a line that counts those below the
    axis.
    """
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
    """Draw a box of the lengths of each method; those far out are counted in the
    title.
    """
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
