"""Training-conditional coverage, the subject of the authors' second paper (arXiv 2405.12567).

Each plan reaches the level with probability 1 - delta over calibrations; what it costs is the mean coverage
above the level, which is of the order 1 / sqrt(mn) for pooled scores and for one number per site.
"""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import fedconformal as fc
from reproduce.drawing import BLACK, colour, legend_below, panels
from reproduce.methods import CENTRALISED, QQ, THREE
from reproduce.protocol import Settings

DELTA = 0.1
LAW, COST = "distribution", "cost"
CONDITIONAL = {QQ: 1, THREE: 3}
"""Numbers per site."""
SHOWN = (10, 100)
"""Sites and points per site whose distributions are drawn."""


def compute(settings: Settings) -> pd.DataFrame:
    """Return distribution functions for one federation, and the scaled mean excess for many."""
    sites = (5, 20) if settings.quick else (5, 10, 20, 50)
    points = (50, 100) if settings.quick else (30, 50, 80, 100, 130, 200, 300)
    rows = []
    m, n = SHOWN
    grid = np.linspace(0.84, 0.98, 141)
    marginal = fc.plan(m, n, confidence_level=settings.level, criterion="marginal").law
    for name, law in (("marginal", marginal), *_laws(m, n, settings.level)):
        rows += [(LAW, name, m, n, x, law.cdf(x)) for x in grid]
    for m in sites:
        for n in points:
            for name, law in _laws(m, n, settings.level):
                rows.append((COST, name, m, n, math.nan, (law.mean() - settings.level) * math.sqrt(m * n)))
    return pd.DataFrame(rows, columns=["panel", "method", "n_sites", "n_points", "coverage", "value"])


def _laws(m: int, n: int, level: float):
    """Yield the distribution of the coverage of each conditional plan, and of pooled scores."""
    for name, numbers in CONDITIONAL.items():
        options = {"confidence_level": level, "criterion": "conditional", "delta": DELTA, "numbers": numbers}
        yield name, fc.plan(m, n, **options).law
    total = m * n
    ranks = np.arange(1, total + 1)
    enough = stats.beta(ranks, total + 1 - ranks).sf(level) >= 1 - DELTA
    yield CENTRALISED, stats.beta(ranks[enough][0], total + 1 - ranks[enough][0])


def draw(rows: pd.DataFrame) -> Figure:
    """Draw the distribution functions on the left and the cost on the right."""
    figure, ((left, right),) = panels(1, 2, (10.0, 4.0))
    laws = rows[rows["panel"] == LAW]
    for name, found in laws.groupby("method", sort=False):
        label = f"{name}, conditional" if name != "marginal" else f"{QQ}, marginal"
        look = {"color": BLACK, "linestyle": ":"} if name == "marginal" else {"color": colour(name)}
        left.plot(found["coverage"], found["value"], label=label, **look)
    left.axvline(0.9, color="black", linestyle="--", linewidth=1)
    left.axhline(DELTA, color="black", linestyle="--", linewidth=1)
    left.set(xlabel="coverage given the calibration data", ylabel="distribution function")
    left.set_title(f"m = {SHOWN[0]}, n = {SHOWN[1]}: at most {DELTA:g} of calibrations fall below 0.9")
    cost = rows[rows["panel"] == COST]
    for name, found in cost.groupby("method", sort=False):
        total = found["n_sites"] * found["n_points"]
        right.plot(total, found["value"], "o", markersize=4, color=colour(name))
    right.set(xscale="log", xlabel="mn", ylabel="(mean coverage - 0.9) $\\sqrt{mn}$", ylim=(0, None))
    right.set_title("cost of the guarantee, scaled")
    legend_below(figure, left, 4)
    return figure
