"""Figure 1: exact coverage of FedCP-QQ, and the upper bounds of centralised and
single-site calibration.
"""

import pandas as pd
from matplotlib.figure import Figure

import fedconformal as fc
from reproduce.drawing import (
    BLUE,
    GREEN,
    ORANGE,
    SKY,
    VERMILION,
    legend_below,
    panels,
    target,
)
from reproduce.methods import CENTRALISED, QQ, SINGLE, STABLE, THREE
from reproduce.protocol import Settings

POOLED_BOUND, SINGLE_BOUND = f"{CENTRALISED}, upper bound", f"{SINGLE}, upper bound"
CURVES = {
    QQ: (BLUE, "o-"),
    STABLE: (GREEN, "^:"),
    THREE: (SKY, "v--"),
    POOLED_BOUND: (ORANGE, "s-"),
    SINGLE_BOUND: (VERMILION, "D-"),
}


def compute(settings: Settings, sites=(5, 20), points=None) -> pd.DataFrame:
    """Return the coverage of each curve for all federations."""
    level = settings.level
    points = points or range(10, 101, 10 if settings.quick else 2)
    rows = []
    for m in sites:
        for n in points:
            values = {
                QQ: (
                    fc.plan(
                        m, n, confidence_level=level, criterion="marginal"
                    ).law.mean()
                ),
                STABLE: (
                    fc.plan(m, n, confidence_level=level, criterion="stable").law.mean()
                ),
                THREE: (
                    fc.plan(
                        m, n, confidence_level=level, criterion="stable", numbers=3
                    ).law.mean()
                ),
                POOLED_BOUND: level + 1 / (m * n + 1),
                SINGLE_BOUND: level + 1 / (n + 1),
            }
            rows += [(m, n, level, curve, value) for curve, value in values.items()]
    return pd.DataFrame(
        rows, columns=["n_sites", "n_points", "confidence_level", "curve", "coverage"]
    )


def draw(rows: pd.DataFrame) -> Figure:
    """Draw a panel for each number of sites, and below it the part near the target."""
    level = rows["confidence_level"].iloc[0]
    sites = rows["n_sites"].unique()
    figure, grid = panels(
        2, len(sites), (4.0 * len(sites), 5.6), sharex=True, height_ratios=(3, 2)
    )
    for axes, near, (m, chosen) in zip(*grid, rows.groupby("n_sites"), strict=True):
        for panel in (axes, near):
            for name, (colour, marks) in CURVES.items():
                line = chosen[chosen["curve"] == name]
                panel.plot(
                    line["n_points"],
                    line["coverage"],
                    marks,
                    color=colour,
                    markersize=3,
                    label=name,
                )
            target(panel, level)
        highest = chosen.loc[chosen["curve"] != SINGLE_BOUND, "coverage"].max()
        near.set_ylim(
            level - 0.05 * (highest - level), highest + 0.1 * (highest - level)
        )
        near.set_xlabel("n, points per site")
        axes.set_title(f"m = {m}, $\\alpha$ = {1 - level:.2g}")
        near.set_title("the same, near the target", fontsize="small")
    for left in grid[:, 0]:
        left.set_ylabel("coverage")
    legend_below(figure, grid[0, 0], 3)
    return figure
