"""Coverage of private plans, against the paper's analysis, tied slopes and pooled data.

Too much coverage is the price of privacy. Ours stands beside that of slopes which are tied to the quantile,
as the paper's are (the ratio is of what exceeds the level), that of the paper's own analysis, and that of
the same budget spent once on all scores in one place: what is above it is the price of locality. Goal:
never below the level, and no more above it than is written for each setting. The seeds are fixed; no clock
is involved.
"""

from collections.abc import Iterator, Sequence

import numpy as np

import fedconformal as fc
from benchmarks._private_runs import BINS, LEVEL, Mean, masses_of, private_plan, simulate
from benchmarks._rows import Figure, Row, beside
from benchmarks._tied import tied

# Sites, scores per site, epsilon, the shape of the scores, and the coverage not to be exceeded.
SETTINGS = (
    (10, 500, 1, "even", 0.920),
    (10, 500, 1, "half-normal", 0.923),
    (10, 200, 2, "half-normal", 0.925),
    (50, 100, 2, "half-normal", 0.938),
    (5, 200, 1, "even", 0.940),
    (20, 2000, 0.5, "even", 0.911),
    (5, 200, 10, "even", 0.912),
    (10, 500, 0.5, "even", 0.940),
    (100, 500, 1, "even", 0.926),
)


def run(
    *, settings: Sequence[tuple[int, int, float, str, float]] = SETTINGS, runs: int = 500
) -> Iterator[Row]:
    """Federations with goals, and how often each is simulated."""
    for m, n, epsilon, shape, goal in settings:
        yield _compared(m, n, epsilon, shape, goal=goal, runs=runs)


def _compared(m: int, n: int, epsilon: float, shape: str, *, goal: float, runs: int) -> Row:
    with tied() as name:
        plans = {
            "ours": private_plan(m, n, epsilon),
            "paper": private_plan(m, n, epsilon, analysis="paper"),
            "tied": private_plan(m, n, epsilon, analysis=name),
            "central": private_plan(1, m * n, epsilon),
        }
        found = {what: _mean(plan, shape, runs=runs) for what, plan in plans.items()}
    ours, other = found["ours"], found["tied"]
    return beside(
        f"mean coverage of {runs:,} runs",
        f"m = {m}, n = {n}, eps = {epsilon:g}, {shape}",
        _figure(ours),
        _figure(other, f"tied; the paper {_words(found['paper'])}, pooled {_words(found['central'])}"),
        ratio=_share(ours, other),
        goal=f"{LEVEL:.3f} to {goal:.3f}",
        met=ours is not None and LEVEL <= ours.value <= goal,
        required=True,
    )


def _mean(plan: fc.Plan, shape: str, *, runs: int) -> Mean | None:
    if not plan.feasible:
        return None
    return simulate(plan, masses_of(shape, BINS), runs=runs, rng=np.random.default_rng(11))


def _figure(mean: Mean | None, words: str = "") -> Figure:
    return mean.figure(words) if mean else Figure(None, words="; ".join(filter(None, ("no plan", words))))


def _words(mean: Mean | None) -> str:
    return "no plan" if mean is None else f"{mean.value:.4f}"


def _share(ours: Mean | None, tied: Mean | None) -> float | None:
    """Our excess over the level as a share of that with tied slopes."""
    return (ours.value - LEVEL) / (tied.value - LEVEL) if ours and tied else None
