"""Questions that the paper leaves open: the rate of the excess coverage, and Theorem
3.3 for (l*, k*).
"""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import fedconformal as fc
from reproduce.drawing import panels
from reproduce.protocol import Settings

EXCESS, RATE = "excess", "Theorem 3.3"
DELTAS = (0.1, 0.05, 0.01)
MANY_SITES = 10
"""Sites from which on the scaled excess is shown as one distribution."""


def compute(settings: Settings) -> pd.DataFrame:
    """Return both questions, for few federations if quick."""
    if settings.quick:
        frames = [excess((2, 10), range(50, 61)), rate((5, 10), range(20, 201, 20))]
    else:
        frames = [
            excess((2, 5, 10, 20, 50, 100, 200, 400), range(50, 101)),
            excess((20,), range(50, 61), numbers=(2, 3)),
            rate((5, 10, 20, 50), range(20, 201, 3)),
        ]
    return pd.concat(frames, ignore_index=True)


def excess(sites, points, numbers=(1,), level: float = 0.9) -> pd.DataFrame:
    """Return (mean coverage - level)(mn + 1) of (l*, k*); centralised calibration has
    at most 1.
    """
    rows = [
        (
            EXCESS,
            m,
            n,
            "marginal",
            r,
            (_plan(m, n, level, "marginal", r).law.mean() - level) * (m * n + 1),
        )
        for r in numbers
        for m in sites
        for n in points
    ]
    return pd.DataFrame(
        rows,
        columns=["question", "n_sites", "n_points", "criterion", "numbers", "value"],
    )


def rate(sites, points, level: float = 0.9) -> pd.DataFrame:
    """Return the probability that the coverage is below the rate of Theorem 3.3, for
    each delta.
    """
    rows = []
    for criterion in ("marginal", "stable"):
        for m in sites:
            for n in points:
                plan = _plan(m, n, level, criterion)
                for delta in DELTAS:
                    bound = level - math.sqrt(math.log(1 / delta) / (2 * m * n))
                    rows.append(
                        (
                            RATE,
                            m,
                            n,
                            criterion,
                            delta,
                            plan.server_rank,
                            plan.law.cdf(bound),
                        )
                    )
    columns = [
        "question",
        "n_sites",
        "n_points",
        "criterion",
        "delta",
        "server_rank",
        "value",
    ]
    return pd.DataFrame(rows, columns=columns)


def _plan(
    m: int, n: int, level: float, criterion: str, numbers: int | None = None
) -> fc.Plan:
    return fc.plan(m, n, confidence_level=level, criterion=criterion, numbers=numbers)


def draw(rows: pd.DataFrame) -> Figure:
    """Draw the scaled excess by m, and the share of federations above a multiple of its
    mean.
    """
    figure, ((left, right),) = panels(1, 2, (10.0, 3.8))
    scaled = rows[(rows["question"] == EXCESS) & (rows["numbers"] == 1)]
    groups = scaled.groupby("n_sites")["value"]
    left.boxplot(
        [values for _, values in groups], tick_labels=list(groups.groups), whis=(0, 100)
    )
    left.axhline(1, color="black", linestyle="--", linewidth=1)
    points = f"n = {scaled['n_points'].min()} to {scaled['n_points'].max()}"
    left.set(
        title=f"(mean coverage − 0.9)(mn + 1), {points}",
        xlabel="m, sites",
        ylabel="scaled excess",
    )
    many = np.sort(scaled.loc[scaled["n_sites"] >= MANY_SITES, "value"])
    multiples, above = many / many.mean(), 1 - np.arange(1, len(many) + 1) / len(many)
    right.semilogy(
        multiples[:-1], above[:-1], ".", markersize=4, label="m of at least 10"
    )
    ends = np.array([0, multiples[-1]])
    right.semilogy(ends, np.exp(-ends), color="black", linewidth=1, label="exponential")
    right.set(
        title="distribution", xlabel="scaled excess / its mean", ylabel="share above"
    )
    right.legend()
    return figure
