"""Training-conditional coverage, the subject of the authors' second paper (arXiv
2405.12567).

Each plan reaches the level with probability 1 - delta over calibrations; what it costs
is the mean coverage above the level, which is of the order 1 / sqrt(mn) for pooled
scores and for one number per site.

A mean says nothing of a single calibration: full conformal prediction with an unstable
learner (Bian and Barber, 2023) covers everything or nothing, given its data, and 90 %
on average.
"""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import fedconformal as fc
from reproduce.drawing import BLACK, VERMILION, colour, legend_below, panels
from reproduce.methods import CENTRALISED, QQ, THREE
from reproduce.protocol import Settings

DELTA = 0.1
LAW, COST, UNSTABLE = "distribution", "cost", "unstable"
CONDITIONAL = {QQ: 1, THREE: 3}
"""Numbers per site."""
SHOWN = (10, 100)
"""Sites and points per site whose distributions are drawn."""
FULL = "full conformal, unstable learner"
LARGE = (10, 10_000)
"""Sites and points per site beside full conformal prediction with as many points."""
CLASSES, BAD = 1000, 95


def compute(settings: Settings) -> pd.DataFrame:
    """Return distribution functions for one federation, and the scaled mean excess for
    many.
    """
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
                rows.append(
                    (
                        COST,
                        name,
                        m,
                        n,
                        math.nan,
                        (law.mean() - settings.level) * math.sqrt(m * n),
                    )
                )
    m, n = LARGE
    covered = unstable_coverage(200 if settings.quick else 2000, m * n, settings.level)
    law = fc.plan(m, n, confidence_level=settings.level, criterion="marginal").law
    for x in np.linspace(0, 1, 201):
        rows += [
            (UNSTABLE, FULL, m, n, x, np.mean(covered <= x)),
            (UNSTABLE, QQ, m, n, x, law.cdf(x)),
        ]
    return pd.DataFrame(
        rows, columns=["panel", "method", "n_sites", "n_points", "coverage", "value"]
    )


def unstable_coverage(n_sets: int, n_points: int, level: float) -> np.ndarray:
    """Return the coverage of full conformal prediction given each of many training
    sets, seeded.

    Features are uniform on a cycle of classes, and every outcome is 0. The learner
    predicts 1 at x if the sum of all other features of its data lies in the first BAD
    classes, and 0 else. For a new case, this sum is that of the training set: one set
    in CLASSES / BAD is wrong for every new case.
    """
    rng = np.random.default_rng(0)
    even = np.full(CLASSES, 1 / CLASSES)
    return np.array(
        [
            coverage_given(rng.multinomial(n_points, even), BAD, level)
            for _ in range(n_sets)
        ]
    )


def coverage_given(counts: np.ndarray, bad: int, level: float) -> float:
    """Return the coverage given a training set with these counts of cases at each
    feature.

    A new case whose prediction is wrong is covered only if enough training cases are
    predicted as badly.
    """
    classes = len(counts)
    total = int(counts @ np.arange(classes)) % classes
    if total >= bad:
        return 1.0
    # With a new case at x, a training case at x' is wrong if total + x - x' is in the
    # first classes.
    around = np.cumsum(np.concatenate([[0], counts, counts]))
    last = (total + np.arange(classes)) % classes + classes
    wrong = around[last + 1] - around[last + 1 - bad]
    most = math.floor((1 - Fraction(str(level))) * (int(counts.sum()) + 1))
    return float(np.mean(wrong + 1 > most))


def _laws(m: int, n: int, level: float):
    """Yield the distribution of the coverage of each conditional plan, and of pooled
    scores.
    """
    for name, numbers in CONDITIONAL.items():
        options = {
            "confidence_level": level,
            "criterion": "conditional",
            "delta": DELTA,
            "numbers": numbers,
        }
        yield name, fc.plan(m, n, **options).law
    total = m * n
    ranks = np.arange(1, total + 1)
    enough = stats.beta(ranks, total + 1 - ranks).sf(level) >= 1 - DELTA
    yield CENTRALISED, stats.beta(ranks[enough][0], total + 1 - ranks[enough][0])


def draw(rows: pd.DataFrame) -> Figure:
    """Draw the distribution functions, the cost, and how far a mean and a single
    calibration can part.
    """
    figure, ((left, right, last),) = panels(1, 3, (13.5, 4.0))
    laws = rows[rows["panel"] == LAW]
    for name, found in laws.groupby("method", sort=False):
        label = f"{name}, conditional" if name != "marginal" else f"{QQ}, marginal"
        look = (
            {"color": BLACK, "linestyle": ":"}
            if name == "marginal"
            else {"color": colour(name)}
        )
        left.plot(found["coverage"], found["value"], label=label, **look)
    left.axvline(0.9, color="black", linestyle="--", linewidth=1)
    left.axhline(DELTA, color="black", linestyle="--", linewidth=1)
    left.set(
        xlabel="coverage given the calibration data", ylabel="distribution function"
    )
    left.set_title(
        f"m = {SHOWN[0]}, n = {SHOWN[1]}: at most {DELTA:g} of calibrations fall"
        " below 0.9"
    )
    cost = rows[rows["panel"] == COST]
    for name, found in cost.groupby("method", sort=False):
        total = found["n_sites"] * found["n_points"]
        right.plot(total, found["value"], "o", markersize=4, color=colour(name))
    right.set(
        xscale="log",
        xlabel="mn",
        ylabel="(mean coverage - 0.9) $\\sqrt{mn}$",
        ylim=(0, None),
    )
    right.set_title("cost of the guarantee, scaled")
    for name, found in rows[rows["panel"] == UNSTABLE].groupby("method", sort=False):
        look = (
            {"color": BLACK, "linestyle": ":"} if name == QQ else {"color": VERMILION}
        )
        last.step(found["coverage"], found["value"], where="post", **look)
    last.annotate(FULL, (0.02, 0.13), color=VERMILION)
    last.axvline(0.9, color="black", linestyle="--", linewidth=1)
    last.set(xlabel="coverage given the data", ylim=(0, 1.02))
    last.set_title(f"{LARGE[0] * LARGE[1]:,} cases: both cover at least 0.9 on average")
    legend_below(figure, left, 4)
    return figure
