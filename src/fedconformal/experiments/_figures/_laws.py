"""Figures that need no data: the paper's figures 1 and 2, and those of its appendix A.2."""

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from fedconformal.experiments._figures._style import panels, styled, target
from fedconformal.experiments._store import Rows, distinct, select
from fedconformal.plots.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

_CURVES = (
    ("FedCP-QQ stable", GREEN, "^:"),
    ("FedCP-QQ", BLUE, "o-"),
    ("Centralised, upper bound", ORANGE, "s-"),
    ("Single site, upper bound", VERMILION, "D-"),
)


@styled
def upper_bounds(rows: Rows) -> Figure:
    """Exact coverage of FedCP-QQ between the upper bounds of pooled data and of one site (figure 1).

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each number of sites.
    """
    sites = distinct(rows, "n_sites")
    figure, grid = panels(1, len(sites), (4.0 * len(sites), 3.2), sharey=True)
    for axes, m in zip(grid[0], sites, strict=True):
        for name, fill, style in _CURVES:
            line = select(rows, n_sites=m, curve=name)
            axes.plot(
                [row["n_points"] for row in line],
                [row["coverage"] for row in line],
                style,
                color=fill,
                markersize=3,
                label=name,
            )
        target(axes, rows[0]["confidence_level"])
        axes.set(title=f"m = {m}", xlabel="n, points per site")
    grid[0, 0].set_ylabel("coverage")
    grid[0, -1].legend()
    return figure


@styled
def compensation(rows: Rows) -> Figure:
    """How much coverage privacy costs as n and epsilon grow, m = 10 (figure 2).

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each level.
    """
    levels = distinct(rows, "confidence_level")
    figure, grid = panels(1, len(levels), (3.6 * len(levels), 3.4), sharex=True)
    for axes, level in zip(grid[0], levels, strict=True):
        for epsilon, marker in zip(distinct(rows, "epsilon"), "os^Dv", strict=False):
            for analysis, fill, style in (("paper", SKY, "-"), ("tight", PURPLE, ":")):
                line = select(rows, confidence_level=level, epsilon=epsilon, analysis=analysis)
                axes.plot(
                    [row["n_points"] for row in line],
                    [np.nan if row["coverage"] is None else row["coverage"] for row in line],
                    linestyle=style,
                    marker=marker,
                    markersize=4,
                    color=fill,
                    label=f"{analysis}, $\\varepsilon$ = {epsilon:g}",
                )
        target(axes, level)
        axes.set(title=f"$\\alpha$ = {1 - level:.2g}", xlabel="n, points per site", ylim=(None, 1.005))
    grid[0, 0].set_ylabel("coverage after compensation")
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(
        handles[:-1], names[:-1], loc="outside lower center", ncols=len(names) // 2, fontsize="small"
    )
    return figure


@styled
def heat_map(rows: Rows) -> Figure:
    """The array M, with the pairs that the criteria choose (figure of appendix A.2).

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.
    """
    m, n = rows[0]["n_sites"], rows[0]["n_points"]
    table = np.array([row["coverage"] for row in rows]).reshape(n, m)
    figure, ((axes,),) = panels(1, 1, (4.4, 4.6))
    image = axes.imshow(table, origin="lower", cmap="viridis", vmin=0, vmax=1, aspect="auto",
                        extent=(0.5, m + 0.5, 0.5, n + 0.5))  # fmt: skip
    axes.contour(
        np.arange(1, m + 1), np.arange(1, n + 1), table, [rows[0]["confidence_level"]], colors="white"
    )
    for criterion, marker in (("marginal", "o"), ("stable", "^")):
        chosen = next(row for row in rows if criterion in row["chosen_by"].split())
        l, k = chosen["local_rank"], chosen["server_rank"]
        point = {"color": "white", "markeredgecolor": "black", "markersize": 9}
        axes.plot(k, l, marker, **point, label=f"{criterion}: l = {l}, k = {k}")
    axes.set(
        xlabel="k, server rank",
        ylabel="l, local rank",
        title=f"M for m = {m}, n = {n}",
        xticks=range(1, m + 1),
        yticks=range(1, n + 1),
    )
    axes.legend(loc="lower left", frameon=True)
    figure.colorbar(image, ax=axes, label="coverage (white line: the target)")
    return figure


@styled
def curves(rows: Rows) -> Figure:
    """M as a function of the local rank, one colour per server rank (figure of appendix A.2).

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each federation.
    """
    pairs = list(dict.fromkeys((row["n_sites"], row["n_points"]) for row in rows))
    figure, grid = panels(1, len(pairs), (4.2 * len(pairs), 3.4), sharey=True)
    for axes, (m, n) in zip(grid[0], pairs, strict=True):
        fills = colormaps["viridis"](np.linspace(0, 0.95, m))
        for k in range(1, m + 1):
            line = select(rows, n_sites=m, n_points=n, server_rank=k)
            axes.plot(
                [row["local_rank"] for row in line],
                [row["coverage"] for row in line],
                ".-",
                color=fills[k - 1],
                label=f"k = {k}",
            )
        target(axes, rows[0]["confidence_level"])
        axes.set(title=f"(m, n) = ({m}, {n})", xlabel="l, local rank", xticks=range(n // 10, n + 1, n // 10))
        axes.legend(fontsize="x-small", ncols=2)
    grid[0, 0].set_ylabel("M")
    return figure
