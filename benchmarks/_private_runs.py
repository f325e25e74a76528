"""Private plans that are simulated: for the sections that look at their coverage."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import fedconformal as fc
from benchmarks._rows import Figure

LEVEL = 0.9
N_BINS = 100
BINS = fc.Bins.uniform(0, 10, N_BINS)


def private_plan(
    m: int, n: int, epsilon: float, *, bins: fc.Bins = BINS, level: float = LEVEL, **rule: Any
) -> fc.Plan:
    """A plan with the smallest coverage to expect."""
    return fc.plan(
        n_sites=m,
        n_points=n,
        confidence_level=level,
        criterion="marginal",
        privacy=fc.Privacy(epsilon=epsilon, bins=bins, **rule),
        on_infeasible="ignore",
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
        return Figure(self.value, "coverage", "; ".join(filter(None, (words, f"+- {self.error:.4f}"))))


def simulate(plan: fc.Plan, masses: np.ndarray, *, runs: int, rng: np.random.Generator) -> Mean:
    """True coverage of the private threshold for scores with these bin masses; the last bin means +inf."""
    m, n, (release,) = plan.n_sites, plan.n_points[0], plan.releases
    cumulated = np.cumsum(masses)
    cumulated[-1] = 1.0
    kept = []
    for start in range(0, runs, 1000):  # bounds the memory
        part = min(1000, runs - start)
        counts = rng.multinomial(n, masses, size=(part, m))
        bins = fc.privacy.simulate_releases(counts, release, rng=rng)
        kept.append(np.sort(bins, axis=1)[:, plan.server_rank - 1])
    coverage = cumulated[np.concatenate(kept)]
    return Mean(float(coverage.mean()), float(coverage.std(ddof=1) / np.sqrt(runs)))
