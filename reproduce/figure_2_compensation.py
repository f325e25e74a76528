"""Figure 2: the coverage after compensating for privacy, for m = 10 and several alpha,
n and epsilon.
"""

import itertools
import math

import pandas as pd
from matplotlib.figure import Figure

import fedconformal as fc
from fedconformal.messages import CurveMessage
from reproduce.drawing import colour, panels, target
from reproduce.methods import CURVE, EPSILONS, N_BINS, PAPER, plan_text, private_plan
from reproduce.protocol import Settings

N_SITES = 10
ANALYSES = {
    "paper": (PAPER, "paper: M at the corrected ranks"),
    "curve": (CURVE, "private curve: expected coverage,\nrounding to bins included"),
}
"""Method whose colour is used and quantity that is drawn, in a row of panels for each
analysis.
"""
SHADES = {10.0: 1.0, 5.0: 0.7, 1.0: 0.45}


def compute(settings: Settings, points=None, levels=None) -> pd.DataFrame:
    """Return the plan and its coverage for each level, epsilon, analysis and n; NaN
    where there is none.
    """
    full = (200, 300, 400, 500, 750, 1000, 1500, 2000, 3000)
    points = points or ((250, 500, 1000) if settings.quick else full)
    levels = levels or ((0.9,) if settings.quick else (0.95, 0.9, 0.8))
    rows = []
    for level, epsilon, analysis, n in itertools.product(
        levels, EPSILONS, ANALYSES, points
    ):
        plan = private_plan(N_SITES, n, level, epsilon, analysis)
        coverage = _coverage(plan, analysis) if plan.feasible else math.nan
        rows.append(
            (N_SITES, n, level, epsilon, N_BINS, analysis, plan_text(plan), coverage)
        )
    columns = [
        "n_sites",
        "n_points",
        "confidence_level",
        "epsilon",
        "n_bins",
        "analysis",
        "plan",
        "coverage",
    ]
    return pd.DataFrame(rows, columns=columns)


def _coverage(plan: fc.Plan, analysis: str) -> float:
    """Return M at the corrected ranks for the paper's analysis, and the expected
    coverage for ours.
    """
    if analysis == "paper":
        return fc.CoverageLaw(
            n_points=plan.n_points,
            local_rank=plan.local_ranks,
            server_rank=plan.server_rank,
        ).mean()
    return CurveMessage().expected(plan.designs[0], 0)[0]


def draw(rows: pd.DataFrame) -> Figure:
    """Draw a row for each analysis and a panel for each level; hollow marks at 1: there
    is no plan.
    """
    levels = rows["confidence_level"].unique()
    markers = dict(zip(rows["epsilon"].unique(), "os^Dv", strict=False))
    size = (3.8 * len(levels), 6.4)
    figure, grid = panels(len(ANALYSES), len(levels), size, sharex=True, sharey="col")
    ticks = [n for n in (200, 500, 1000, 3000) if n <= rows["n_points"].max()]
    for line_of_panels, (analysis, (method, quantity)) in zip(
        grid, ANALYSES.items(), strict=True
    ):
        for axes, level in zip(line_of_panels, levels, strict=True):
            chosen = rows[
                (rows["confidence_level"] == level) & (rows["analysis"] == analysis)
            ]
            for epsilon, curve in chosen.groupby("epsilon", sort=False):
                look = {
                    "color": colour(method),
                    "alpha": SHADES.get(epsilon, 1.0),
                    "marker": markers[epsilon],
                }
                label = f"$\\varepsilon$ = {epsilon:g}"
                axes.plot(
                    curve["n_points"],
                    curve["coverage"],
                    markersize=4,
                    label=label,
                    **look,
                )
                gaps = curve.loc[curve["coverage"].isna(), "n_points"]
                axes.plot(
                    gaps,
                    [1.0] * len(gaps),
                    linestyle="none",
                    markerfacecolor="white",
                    **look,
                )
            target(axes, level)
            title = f"m = {N_SITES}, $\\alpha$ = {1 - level:.2g}, {N_BINS} bins"
            axes.set(title=title, ylim=(None, 1.01), xscale="log")
            axes.set_xticks(ticks, [str(n) for n in ticks])
            axes.minorticks_off()
        line_of_panels[0].set_ylabel(quantity)
        line_of_panels[-1].legend(
            fontsize="small", title="hollow, at 1: no plan", title_fontsize="small"
        )
    for axes in grid[-1]:
        axes.set_xlabel("n, points per site")
    return figure
