"""The figure of sites that differ."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from fedconformal.experiments import _heterogeneity as study
from fedconformal.experiments._figures._style import below, colour, curve, panels, styled, target
from fedconformal.experiments._store import Rows, distinct, select
from fedconformal.plots.style import GREY, VERMILION

_MARKERS = "o^sDv"


@dataclass(frozen=True)
class _Panel:
    """Words of a panel, and whether its axis runs down, so that sites are less alike to the right."""

    title: str
    axis: str
    runs_down: bool = False


_PANELS = {
    study.SCALES: _Panel("A quarter of the sites: test points of all sites", "scores larger by a factor of"),
    study.ONE_ODD: _Panel("One odd site: test points of that site", "scores larger by a factor of"),
    study.LABELS: _Panel(
        "Digits, labels shifted: the worst site",
        "Dirichlet concentration (less alike to the right)",
        runs_down=True,
    ),
}


@styled
def heterogeneity(rows: Rows) -> Figure:
    """Coverage as sites grow different, the exact law and the bound; and one federation, site by site.

    Parameters
    ----------
    rows : list of dict
        What the study found.

    Returns
    -------
    matplotlib.figure.Figure
        Three panels of curves, and one of sites.
    """
    figure, grid = panels(2, 2, (9.0, 6.6))
    for axes, (name, panel) in zip(grid.flat, _PANELS.items(), strict=False):
        _growing(axes, select(rows, panel=name), panel)
    _sites(grid[1, 1], select(rows, panel=study.WHO))
    runs = next(row["runs"] for row in rows if row.get("runs"))
    words = f"{study.N_SITES} sites of {study.N_POINTS} points; every point of a curve: {runs} federations"
    figure.suptitle(words, fontsize="small")
    below(figure, grid[0, 0], 4)
    return figure


def _growing(axes: Any, rows: Rows, panel: _Panel) -> None:
    """One line per method; for FedCP-QQ the exact law and the bound beside the simulation."""
    simulated = select(rows, curve="simulated")
    for method, marker in zip(distinct(simulated, "method"), _MARKERS, strict=True):
        line = select(simulated, method=method)
        curve(
            axes,
            line,
            "x",
            "coverage",
            marker=marker,
            markersize=4,
            linewidth=0.8,
            color=colour(method),
            label=method,
        )
    for kind, dashes, width, alpha in (("exact law", "-", 3.5, 0.35), ("Proposition 3.4", ":", 1.5, 1.0)):
        line = select(rows, curve=kind)
        if line:
            axes.plot(
                [row["x"] for row in line],
                [max(0.0, row["coverage"]) for row in line],
                linestyle=dashes,
                linewidth=width,
                alpha=alpha,
                color=colour(line[0]["method"]),
                label=f"{line[0]['method']}, {kind}",
                zorder=1,
            )
    target(axes, rows[0]["confidence_level"])
    axes.set(title=panel.title, xlabel=panel.axis, ylabel="coverage", xscale="log")
    ticks = distinct(simulated, "x")
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.minorticks_off()
    if panel.runs_down:
        axes.invert_xaxis()


def _sites(axes: Any, rows: Rows) -> None:
    """The coverage that each site finds on new points, with exact intervals; odd sites are marked."""
    for place, row in enumerate(rows):
        fill, marker = (VERMILION, "D") if row["stands_out"] else (GREY, "o")
        axes.plot([place, place], [row["lower"], row["upper"]], color=fill, linewidth=1.5)
        axes.plot(place, row["coverage"], marker=marker, color=fill, markersize=5)
        if row["stands_out"]:
            axes.annotate(
                f"site {row['site']}", (place, row["lower"]), (0, -10), textcoords="offset points",
                ha="center", fontsize="small", color=fill,
            )  # fmt: skip
    target(axes, rows[0]["confidence_level"])
    axes.margins(y=0.12)
    axes.set(
        title="Who stands out, and what each site finds (95 %)",
        xlabel="site",
        ylabel=f"coverage of {rows[0]['n']} new points",
        xticks=range(0, len(rows), 2),
        xticklabels=[row["site"] for row in rows[::2]],
    )
