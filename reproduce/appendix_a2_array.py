"""Appendix A.2: the array M as a heat map, and by local rank."""

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure

import fedconformal as fc
from reproduce.drawing import panels, target
from reproduce.protocol import Settings


def compute_heat_map(settings: Settings) -> pd.DataFrame:
    """Return M for ten sites of twenty points."""
    return array(10, 20, settings.level)


def compute_curves(settings: Settings) -> pd.DataFrame:
    """Return M for the two federations of the figure."""
    return pd.concat(
        [array(m, n, settings.level) for m, n in ((5, 10), (10, 20))], ignore_index=True
    )


def array(m: int, n: int, level: float) -> pd.DataFrame:
    """Return M for each pair of ranks, and the criteria that choose it."""
    values = fc.coverage_table(m, n)
    rows = pd.DataFrame(
        {
            "n_sites": m,
            "n_points": n,
            "confidence_level": level,
            "local_rank": np.repeat(np.arange(1, n + 1), m),
            "server_rank": np.tile(np.arange(1, m + 1), n),
            "coverage": values.ravel(),
            "chosen_by": "",
        }
    )
    for criterion in ("marginal", "stable"):
        plan = fc.plan(m, n, confidence_level=level, criterion=criterion)
        chosen = (rows["local_rank"] == plan.local_ranks[0]) & (
            rows["server_rank"] == plan.server_rank
        )
        rows.loc[chosen, "chosen_by"] = (
            rows.loc[chosen, "chosen_by"] + f" {criterion}"
        ).str.strip()
    return rows


def draw_heat_map(rows: pd.DataFrame) -> Figure:
    """Draw M with the pairs that the criteria choose."""
    m, n = rows["n_sites"].iloc[0], rows["n_points"].iloc[0]
    table = rows["coverage"].to_numpy().reshape(n, m)
    figure, ((axes,),) = panels(1, 1, (4.6, 5.0))
    extent = (0.5, m + 0.5, 0.5, n + 0.5)
    image = axes.imshow(
        table,
        origin="lower",
        cmap="viridis",
        vmin=0,
        vmax=1,
        aspect="auto",
        extent=extent,
    )
    ranks = np.arange(1, m + 1), np.arange(1, n + 1)
    axes.contour(*ranks, table, [rows["confidence_level"].iloc[0]], colors="white")
    for criterion, marker in (("marginal", "o"), ("stable", "^")):
        chosen = rows[rows["chosen_by"].str.contains(criterion)].iloc[0]
        l, k = chosen["local_rank"], chosen["server_rank"]
        look = {"color": "white", "markeredgecolor": "black", "markersize": 9}
        axes.plot(k, l, marker, **look, label=f"{criterion}: l = {l}, k = {k}")
    axes.set(
        xlabel="k, server rank", ylabel="l, local rank", title=f"M for m = {m}, n = {n}"
    )
    axes.set(xticks=range(1, m + 1), yticks=range(1, n + 1))
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    figure.colorbar(image, ax=axes, label="coverage (white line: the target)")
    return figure


def draw_curves(rows: pd.DataFrame) -> Figure:
    """Draw M by local rank, a colour for each server rank and a panel for each
    federation.
    """
    federations = rows.groupby(["n_sites", "n_points"], sort=False)
    figure, grid = panels(
        1, len(federations), (4.9 * len(federations), 3.6), sharey=True
    )
    for axes, ((m, n), found) in zip(grid[0], federations, strict=True):
        colours = colormaps["viridis"](np.linspace(0, 0.95, m))
        for k, line in found.groupby("server_rank"):
            axes.plot(
                line["local_rank"],
                line["coverage"],
                ".-",
                color=colours[k - 1],
                label=f"k = {k}",
            )
        target(axes, rows["confidence_level"].iloc[0])
        axes.set(
            title=f"(m, n) = ({m}, {n})",
            xlabel="l, local rank",
            xticks=range(n // 10, n + 1, n // 10),
        )
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    grid[0, 0].set_ylabel("M")
    return figure
