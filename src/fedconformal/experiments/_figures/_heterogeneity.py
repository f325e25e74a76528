"""The figure of sites that differ."""

from typing import Any

from fedconformal.experiments import _heterogeneity as study
from fedconformal.experiments._figures._style import GREY, RED, colour, panels, styled, target
from fedconformal.experiments._store import Rows, distinct, select

_MARKERS = "o^sDv"
_TITLES = {
    study.SCALES: "A quarter of the sites: test points of all sites",
    study.ONE_ODD: "One odd site: test points of that site",
    study.LABELS: "Digits, labels shifted: the worst site",
}
_AXES = {
    study.SCALES: "scores larger by a factor of",
    study.ONE_ODD: "scores larger by a factor of",
    study.LABELS: "Dirichlet concentration (less alike to the right)",
}


@styled
def heterogeneity(rows: Rows) -> Any:
    """Coverage as sites grow different, the exact law and the bound; and one federation, site by site."""
    figure, grid = panels(2, 2, (9.0, 6.6))
    for axes, panel in zip(grid.flat, _TITLES, strict=False):
        _growing(axes, select(rows, panel=panel), panel)
    _sites(grid[1, 1], select(rows, panel=study.WHO))
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize="small")
    return figure


def _growing(axes: Any, rows: Rows, panel: str) -> None:
    """One line per method; for FedCP-QQ the exact law and the bound beside the simulation."""
    simulated = select(rows, curve="simulated")
    for method, marker in zip(distinct(simulated, "method"), _MARKERS, strict=True):
        line = select(simulated, method=method)
        axes.plot(
            [row["x"] for row in line],
            [row["coverage"] for row in line],
            marker=marker,
            markersize=4,
            linewidth=0.8,
            color=colour(method),
            label=method,
        )
    for curve, dashes, width in (("exact law", "-", 3.5), ("Proposition 3.4", ":", 1.5)):
        line = select(rows, curve=curve)
        if line:
            axes.plot(
                [row["x"] for row in line],
                [max(0.0, row["coverage"]) for row in line],
                linestyle=dashes,
                linewidth=width,
                alpha=0.35 if curve == "exact law" else 1.0,
                color=colour(line[0]["method"]),
                label=f"{line[0]['method']}, {curve}",
                zorder=1,
            )
    target(axes, rows[0]["confidence_level"])
    axes.set(title=_TITLES[panel], xlabel=_AXES[panel], ylabel="coverage", xscale="log")
    ticks = distinct(simulated, "x")
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.minorticks_off()
    if panel == study.LABELS:
        axes.invert_xaxis()


def _sites(axes: Any, rows: Rows) -> None:
    """The coverage that each site finds on new points, with exact intervals; odd sites are marked."""
    for place, row in enumerate(rows):
        fill, marker = (RED, "D") if row["stands_out"] else (GREY, "o")
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
        ylabel="coverage of 200 new points",
        xticks=range(0, len(rows), 2),
        xticklabels=[row["site"] for row in rows[::2]],
    )
