"""Appendix B.2: coverage of private calibration on bio and bike, five sites of 200
points.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reproduce.drawing import box, box_legend, colour, note, panels, target
from reproduce.methods import N_BINS, PRIVATE_METHODS
from reproduce.protocol import PRIVATE, Scenario, Settings, run


def compute(settings: Settings) -> pd.DataFrame:
    """Run FedCP-QQ and its private versions with the paper's forest, and with ridge
    regression.
    """
    models = [settings.model("ridge"), settings.model("forest")]
    scenario = Scenario(PRIVATE, 5, 200, PRIVATE_METHODS)
    return run(
        settings.data_sets(("bio", "bike")),
        models,
        settings,
        lambda dataset: [scenario],
    )


def draw(rows: pd.DataFrame) -> Figure:
    """Draw coverage by method and epsilon, a panel for each data set and model."""
    names, models = rows["dataset"].unique(), rows["model"].unique()
    size = (6.4 * len(models) + 0.6, 3.0 * len(names))
    figure, grid = panels(len(names), len(models), size, sharey="row")
    for axes, (_, found) in zip(
        grid.flat, rows.groupby(["dataset", "model"], sort=False), strict=True
    ):
        kinds = found.groupby(["method", "epsilon"], sort=False, dropna=False)
        labels = []
        for place, ((method, epsilon), one) in enumerate(kinds):
            labels.append(
                method if np.isnan(epsilon) else f"$\\varepsilon$ = {epsilon:g}"
            )
            if np.isinf(one["threshold"]).all():
                note(axes, place, 0.5, "no plan:\ninfinite")
            else:
                box(axes, one["coverage"], colour(method), place)
        first = found.iloc[0]
        target(axes, first["confidence_level"])
        federation = f"m = {first['n_sites']}, n = {first['n_points']}, {N_BINS} bins"
        title = (
            f"{first['dataset']}, {first['model']}: {federation},"
            f" {found['split'].nunique()} splits"
        )
        axes.set_title(title, fontsize="small")
        axes.set_xticks(range(len(labels)), labels)
    for left in grid[:, 0]:
        left.set_ylabel("coverage")
    box_legend(figure, rows["method"].unique())
    return figure
