"""Coverage of private plans: ours, the paper's, slopes that are tied to the quantile, and pooled data.

The last is the same budget spent once on all scores in one place: what is above it is the price of locality.
"""

from collections.abc import Iterator, Sequence

import numpy as np

import fedconformal as fc
from benchmarks._private_runs import BINS, LEVEL, Mean, masses_of, private_plan, simulate
from benchmarks._tied import tied
from benchmarks._timing import Row

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
    ours = found.pop("ours")
    return Row(
        what=f"mean coverage of {runs:,} runs, m = {m}, n = {n}, eps = {epsilon:g}, {shape}",
        ours=str(ours or "no plan"),
        anchor=", ".join(
            f"{what} {'no plan' if mean is None else f'{mean.value:.4f}'}" for what, mean in found.items()
        ),
        ratio=_share(ours, found["tied"]),
        goal=f"{LEVEL:.3f} to {goal:.3f}",
        met=ours is not None and LEVEL <= ours.value <= goal,
        required=True,
    )


def _mean(plan: fc.Plan, shape: str, *, runs: int) -> Mean | None:
    if not plan.feasible:
        return None
    return simulate(plan, masses_of(shape, BINS), runs=runs, rng=np.random.default_rng(11))


def _share(ours: Mean | None, tied: Mean | None) -> str:
    """Our excess over the level as a share of that with tied slopes."""
    return f"excess {(ours.value - LEVEL) / (tied.value - LEVEL):.2f}" if ours and tied else ""
