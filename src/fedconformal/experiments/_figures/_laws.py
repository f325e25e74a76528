"""Figures that need no data: the paper's figures 1 and 2, and those of its appendix A.2."""

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from fedconformal.experiments import _methods as methods
from fedconformal.experiments._figures._style import below, colour, curve, panels, styled, target
from fedconformal.experiments._store import Rows, distinct, select
from fedconformal.plots.style import BLUE, GREEN, ORANGE, SKY, VERMILION

_SINGLE = "Single site, upper bound"
_CURVES = (
    (methods.QQ, BLUE, "o-"),
    (methods.STABLE, GREEN, "^:"),
    (methods.THREE, SKY, "v--"),
    ("Centralised, upper bound", ORANGE, "s-"),
    (_SINGLE, VERMILION, "D-"),
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
        A panel for each number of sites, and below it the part near the target, where the curves meet.
    """
    sites = distinct(rows, "n_sites")
    level = rows[0]["confidence_level"]
    figure, grid = panels(2, len(sites), (4.0 * len(sites), 5.6), sharex=True, height_ratios=(3, 2))
    for axes, near, m in zip(*grid, sites, strict=True):
        found = select(rows, n_sites=m)
        for panel in (axes, near):
            for name, fill, style in _CURVES:
                line = select(found, curve=name)
                curve(panel, line, "n_points", "coverage", style, color=fill, markersize=3, label=name)
            target(panel, level)
        highest = max(row["coverage"] for row in found if row["curve"] != _SINGLE)
        near.set(xlabel="n, points per site", ylim=(level - 0.05 * (highest - level), None))
        near.set_ylim(top=highest + 0.1 * (highest - level))
        axes.set_title(f"m = {m}, $\\alpha$ = {1 - level:.2g}")
        near.set_title("the same, near the target", fontsize="small")
    for left in grid[:, 0]:
        left.set_ylabel("coverage")
    below(figure, grid[0, 0], 3)
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
    marks = dict(zip(distinct(rows, "epsilon"), "os^Dv", strict=False))
    figure, grid = panels(1, len(levels), (3.8 * len(levels), 3.8), sharex=True)
    for axes, level in zip(grid[0], levels, strict=True):
        for analysis, words, method, style in _ANALYSES:
            for epsilon, marker in marks.items():
                line = select(rows, confidence_level=level, epsilon=epsilon, analysis=analysis)
                curve(
                    axes,
                    line,
                    "n_points",
                    "coverage",
                    linestyle=style,
                    marker=marker,
                    markersize=4,
                    color=colour(method),
                    label=f"{words}, $\\varepsilon$ = {epsilon:g}",
                )
        for analysis, _, method, _ in _ANALYSES:  # last, for the sake of the key
            for epsilon, marker in marks.items():
                line = select(rows, confidence_level=level, epsilon=epsilon, analysis=analysis)
                _no_plan(axes, line, marker, colour(method))
        target(axes, level)
        m = rows[0]["n_sites"]
        axes.set(title=f"m = {m}, $\\alpha$ = {1 - level:.2g}, {rows[0]['n_bins']} bins", ylim=(None, 1.01))
        axes.set(xlabel="n, points per site", xscale="log")
        ticks = [n for n in (200, 500, 1000, 3000) if n <= max(row["n_points"] for row in rows)]
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.minorticks_off()
    grid[0, 0].set_ylabel("coverage after compensation")
    words = "paper: M at its corrected ranks; ours: the coverage to expect, rounding to bins included"
    figure.suptitle(words, fontsize="small")
    below(figure, grid[0, 0], 3)
    return figure


_ANALYSES = (("paper", "paper", methods.PAPER, "-"), ("tight", "ours, free slopes", methods.TIGHT, "--"))
"""The two analyses of figure 2: name, words, whose colour, dashes."""


def _no_plan(axes: Any, line: Rows, marker: str, fill: str) -> None:
    """Hollow marks on the upper edge where an analysis has no plan."""
    places = [row["n_points"] for row in line if row["coverage"] is None]
    if places:
        axes.plot(
            places, [1.0] * len(places), marker, markersize=5, color=fill, markerfacecolor="white",
            label="hollow, at 1: no plan, infinite",
        )  # fmt: skip


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
    figure, ((axes,),) = panels(1, 1, (4.6, 5.0))
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
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
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
    figure, grid = panels(1, len(pairs), (4.9 * len(pairs), 3.6), sharey=True)
    for axes, (m, n) in zip(grid[0], pairs, strict=True):
        fills = colormaps["viridis"](np.linspace(0, 0.95, m))
        for k in range(1, m + 1):
            line = select(rows, n_sites=m, n_points=n, server_rank=k)
            curve(axes, line, "local_rank", "coverage", ".-", color=fills[k - 1], label=f"k = {k}")
        target(axes, rows[0]["confidence_level"])
        axes.set(title=f"(m, n) = ({m}, {n})", xlabel="l, local rank", xticks=range(n // 10, n + 1, n // 10))
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    grid[0, 0].set_ylabel("M")
    return figure
