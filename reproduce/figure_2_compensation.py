"""Figure 2: the coverage after compensating for privacy, for m = 10 and several alpha, n and epsilon."""

import itertools
import math

import pandas as pd
from matplotlib.figure import Figure

import fedconformal as fc
from fedconformal.messages import CurveMessage
from reproduce.drawing import colour, legend_below, panels, target
from reproduce.methods import CURVE, EPSILONS, N_BINS, PAPER, plan_text, private_plan
from reproduce.protocol import Settings

N_SITES = 10
ANALYSES = {"paper": ("paper", PAPER, "-"), "curve": ("ours, noisy counts", CURVE, "--")}
"""Label, method whose colour is used, and line style of each analysis."""


def compute(settings: Settings, points=None, levels=None) -> pd.DataFrame:
    """Return the plan and its coverage for each level, epsilon, analysis and n; NaN where there is none."""
    full = (200, 300, 400, 500, 750, 1000, 1500, 2000, 3000)
    points = points or ((250, 500, 1000) if settings.quick else full)
    levels = levels or ((0.9,) if settings.quick else (0.95, 0.9, 0.8))
    rows = []
    for level, epsilon, analysis, n in itertools.product(levels, EPSILONS, ANALYSES, points):
        plan = private_plan(N_SITES, n, level, epsilon, analysis)
        coverage = _coverage(plan, analysis) if plan.feasible else math.nan
        rows.append((N_SITES, n, level, epsilon, N_BINS, analysis, plan_text(plan), coverage))
    columns = ["n_sites", "n_points", "confidence_level", "epsilon", "n_bins", "analysis", "plan", "coverage"]
    return pd.DataFrame(rows, columns=columns)


def _coverage(plan: fc.Plan, analysis: str) -> float:
    """Return M at the corrected ranks for the paper's analysis, and the expected coverage for ours."""
    if analysis == "paper":
        return fc.CoverageLaw(
            n_points=plan.n_points, local_rank=plan.local_ranks, server_rank=plan.server_rank
        ).mean()
    return CurveMessage().expected(plan.designs[0], 0)[0]


def draw(rows: pd.DataFrame) -> Figure:
    """Draw a panel for each level; hollow marks at 1 show that an analysis has no plan."""
    levels = rows["confidence_level"].unique()
    markers = dict(zip(rows["epsilon"].unique(), "os^Dv", strict=False))
    figure, grid = panels(1, len(levels), (3.8 * len(levels), 3.8), sharex=True)
    for axes, level in zip(grid[0], levels, strict=True):
        chosen = rows[rows["confidence_level"] == level]
        lines = [
            (chosen[(chosen["analysis"] == analysis) & (chosen["epsilon"] == epsilon)], epsilon, *look)
            for analysis, look in ANALYSES.items()
            for epsilon in markers
        ]
        for line, epsilon, label, method, dashes in lines:
            axes.plot(
                line["n_points"], line["coverage"], linestyle=dashes, marker=markers[epsilon], markersize=4,
                color=colour(method), label=f"{label}, $\\varepsilon$ = {epsilon:g}",
            )  # fmt: skip
        for line, epsilon, _, method, _ in lines:
            gaps = line.loc[line["coverage"].isna(), "n_points"]
            if len(gaps):
                axes.plot(
                    gaps, [1.0] * len(gaps), markers[epsilon], markersize=5, color=colour(method),
                    markerfacecolor="white", label="hollow, at 1: no plan, infinite",
                )  # fmt: skip
        target(axes, level)
        title = f"m = {N_SITES}, $\\alpha$ = {1 - level:.2g}, {N_BINS} bins"
        axes.set(title=title, ylim=(None, 1.01), xlabel="n, points per site", xscale="log")
        ticks = [n for n in (200, 500, 1000, 3000) if n <= rows["n_points"].max()]
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.minorticks_off()
    grid[0, 0].set_ylabel("coverage after compensation")
    figure.suptitle(
        "paper: M at its corrected ranks; ours: expected coverage, rounding to bins included",
        fontsize="small",
    )
    legend_below(figure, grid[0, 0], 3)
    return figure
