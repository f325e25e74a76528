"""Upper bounds of the mean coverage that the page Theory proves, times m sqrt(n) and
sqrt(mn).
"""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import fedconformal as fc
from fedconformal._util import fraction, rank_of
from reproduce.drawing import BLUE, GREEN, ORANGE, panels
from reproduce.protocol import Settings

DELTA = 0.1
STEP, EXCESS, CONDITIONAL = "step", "excess", "conditional"
PAPER_STEP = "step, rank of the paper"


def compute(settings: Settings) -> pd.DataFrame:
    """Return scaled steps and excesses for each pair of sizes on a grid from 20 to
    394.
    """
    sizes = range(20, 401, 95 if settings.quick else 11)
    rows = [row for m in sizes for n in sizes for row in _scaled(m, n, settings.level)]
    return pd.DataFrame(
        rows, columns=["n_sites", "n_points", "curve", "share", "value"]
    )


def limits(level: float) -> dict[str, float]:
    """Return the limit of each scaled quantity as m and n grow; that of the excess
    bounds its upper limit.
    """
    step = math.sqrt(2 * math.pi * level * (1 - level))
    return {STEP: step, EXCESS: step, CONDITIONAL: step * stats.norm.isf(DELTA) / 2}


def _scaled(m: int, n: int, level: float):
    """Yield size, curve, k/m and value for the local rank whose report has its median
    nearest the level; the step also for the rank ceil(level (n + 1)) of the paper.
    """
    l = min(n, round(level * (n + 1 / 3) + 1 / 3))
    below = stats.beta(l, n - l + 1).cdf(level)
    k = _smallest_valid(m, n, l, level)
    mean, scale = _mean(m, n, l, k), m * math.sqrt(n)
    yield m, n, STEP, k / m, scaled_step(m, n, l, level)
    yield m, n, EXCESS, k / m, (mean - level) * scale
    paper_l = rank_of(fraction("level", level), n)
    paper_k = _smallest_valid(m, n, paper_l, level)
    step = scaled_step(m, n, paper_l, level)
    yield m, n, PAPER_STEP, paper_k / m, step
    k = int(stats.binom.isf(DELTA, m, below)) + 1
    yield m, n, CONDITIONAL, k / m, (_mean(m, n, l, k) - level) * math.sqrt(m * n)


def scaled_step(m: int, n: int, l: int, level: float) -> float:
    """Return m sqrt(n) times the step of the mean coverage to the smallest valid
    server rank.
    """
    k = _smallest_valid(m, n, l, level)
    return (_mean(m, n, l, k) - _mean(m, n, l, k - 1)) * m * math.sqrt(n)


def _smallest_valid(m: int, n: int, l: int, level: float) -> int:
    """Return the smallest server rank with a mean coverage of at least the level."""
    k = max(1, round(m * stats.beta(l, n - l + 1).cdf(level)))
    while k > 1 and _mean(m, n, l, k - 1) >= level:
        k -= 1
    while _mean(m, n, l, k) < level:
        k += 1
    return k


def _mean(m: int, n: int, l: int, k: int) -> float:
    return fc.CoverageLaw(m, n, l, k).mean()


def draw(rows: pd.DataFrame) -> Figure:
    """Draw the distribution of both scaled quantities over the grid, with their
    limits.
    """
    figure, ((left, right),) = panels(1, 2, (10.0, 3.6))
    values, ends = rows.groupby("curve")["value"], limits(0.9)
    for curve, fill, label in (
        (EXCESS, BLUE, "mean coverage − 0.9"),
        (STEP, ORANGE, "step from k − 1 to k, its bound"),
    ):
        found = values.get_group(curve)
        left.hist(
            found, bins=np.arange(0, 0.86, 0.02), color=fill, alpha=0.7, label=label
        )
    right.hist(values.get_group(CONDITIONAL), bins=30, color=GREEN, alpha=0.7)
    for axes, curve in ((left, STEP), (right, CONDITIONAL)):
        text = f"limit, {ends[curve]:.3f}"
        axes.axvline(
            ends[curve], color="black", linestyle="--", linewidth=1, label=text
        )
        axes.legend(loc="upper left" if axes is left else "upper right")
        axes.set_ylabel("federations")
    left.set(
        yscale="log", xlabel="times $m\\sqrt{n}$", title="smallest valid k (marginal)"
    )
    left.set_ylim(1, 3000)
    right.set(
        xlabel="(mean coverage − 0.9) $\\sqrt{mn}$",
        title=f"conditional, $\\delta$ = {DELTA:g}",
    )
    return figure
