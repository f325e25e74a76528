"""Private plans that are simulated: for the sections that look at their coverage."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import fedconformal as fc
from benchmarks._rows import Figure
from fedconformal.documents import Curve
from fedconformal.messages import CurveMessage, mechanisms

LEVEL = 0.9
N_BINS = 100
BINS = fc.Bins.uniform(0, 10, N_BINS)


def cells(count: int) -> fc.Bins:
    """Equal cells from 0 to 10."""
    return fc.Bins.uniform(0, 10, count)


def private_plan(
    m: int,
    n: int,
    epsilon: float,
    *,
    bins: fc.Bins = BINS,
    level: float = LEVEL,
    **rule: Any,
) -> fc.Plan:
    """A private plan, feasible or not."""
    options = {
        "criterion": "marginal",
        **{name: rule.pop(name) for name in ("criterion",) if name in rule},
    }
    with warnings.catch_warnings(action="ignore"):
        return fc.plan(
            n_sites=m,
            n_points=n,
            confidence_level=level,
            privacy=fc.Privacy(epsilon=epsilon, bins=bins, **rule),
            **options,
        )


def masses_of(shape: str, bins: fc.Bins) -> np.ndarray:
    """The share of scores in each bin; a shape's scale is a tenth of the last edge."""
    if shape == "even":
        return np.full(len(bins.edges), 1 / len(bins.edges))
    from scipy import stats

    shares = {"half-normal": stats.halfnorm.cdf, "gamma": stats.gamma(2).cdf}[shape](
        np.array(bins.edges) * 10 / bins.edges[-1]
    )
    shares[-1] = 1.0
    return np.diff(shares, prepend=0.0)


@dataclass(frozen=True)
class Mean:
    """A simulated mean with its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.4f} +- {self.error:.4f}"

    def figure(self, words: str = "") -> Figure:
        """It for a row; the words come before the error."""
        return Figure(
            self.value,
            "coverage",
            "; ".join(filter(None, (words, f"+- {self.error:.4f}"))),
        )


def simulate(plan: fc.Plan, masses: np.ndarray, *, runs: int, rng: int) -> Mean:
    """True coverage of the private threshold for scores with these shares of the
    cells.
    """
    design = plan.designs[0]
    if isinstance(design.message, Curve):
        mean, std = CurveMessage().expected(design, 0, masses, runs=runs, rng=rng)
        return Mean(mean, std / np.sqrt(runs))
    source, (mechanism,) = np.random.default_rng(rng), mechanisms(design)
    cumulated = np.cumsum(masses)
    cumulated[-1] = 1.0
    counts = source.multinomial(plan.n_points[0], masses, size=(runs, plan.n_sites))
    cells = np.sort(mechanism.simulate(counts, source), axis=1)[:, plan.server_rank - 1]
    coverage = cumulated[cells]
    return Mean(float(coverage.mean()), float(coverage.std(ddof=1) / np.sqrt(runs)))
