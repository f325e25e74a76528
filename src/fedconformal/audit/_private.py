"""The bound on the law of a private threshold, a second time: plain sums over ranks and counts.

The bound on the rank of a release is derived anew from the plan's whole numbers: for a quantile a/d the rank
error of a bin with R < r scores at most its edge is at least a (n - r + 1), that of the bin which holds the
r'-th smallest score at most max((r' - 1)(d - a), (n - r') a), r' >= r, and there are at most B - 1 bad bins.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from fedconformal._typing import Floats
from fedconformal.audit._effort import UncountableError
from fedconformal.documents import Calibration

PRIVATE_ERROR = 1e-9
"""Of the recount of a private law."""

_MOST_POINTS = 2_000_000  # at sites of different sizes
_MOST_STEPS = 30_000_000  # sites times votes

_WIDTHS: dict[str, Callable[[int, int], int]] = {
    "tight": lambda a, d: d,
    "paper": lambda a, d: 2 * max(a, d - a),
}
"""Scale of the noise times epsilon, for the quantile a/d."""


def _exponential(odds: Floats, n_bins: int) -> Floats:
    """B - 1 bad bins against a good one, each with the weight ``odds`` relative to it."""
    bad = (n_bins - 1) * odds
    bound: Floats = np.where(np.isfinite(bad), bad / (1 + np.minimum(bad, 1e300)), 1.0)
    return bound


def _permute_and_flip(odds: Floats, n_bins: int) -> Floats:
    """Bins are asked in random order; a bad one says yes with probability ``odds``, the good one surely.

    The good one stands at each place with the same probability, so nobody before it says yes with probability
    1/B sum_i (1 - x)^i. Where bad bins are better than the good one, that one comes first and says yes with
    1/odds at least.
    """
    x = np.minimum(odds, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        nobody = np.where(
            x > 0, (1 - np.exp(n_bins * np.log1p(-np.minimum(x, 1 - 1e-16)))) / (n_bins * x), 1.0
        )
    small = (n_bins - 1) * x / 2  # an upper bound by Bernoulli's inequality, without cancellation
    bound = np.where(n_bins * x < 1e-6, small, np.where(x < 1, 1 - nobody, 1 - 1 / n_bins))
    return np.where(odds > 1, 1 - 1 / (n_bins * np.maximum(odds, 1.0)), bound)


_MECHANISMS: dict[str, Callable[[Floats, int], Floats]] = {
    "permute-and-flip": _permute_and_flip,
    "exponential": _exponential,
}


def rank_bound(n: int, a: int, d: int, n_bins: int, scale: float, mechanism: str) -> Floats:
    """P(fewer than r scores are at most what is released), r = 1..n+1, at most, for every data set."""
    best, gaps = None, []
    for r in range(n, 0, -1):
        here = max((r - 1) * (d - a), (n - r) * a)
        best = here if best is None else min(best, here)
        gaps.append(a * (n - r + 1) - best)
    with np.errstate(over="ignore"):
        odds = np.exp(-np.array(gaps[::-1], dtype=float) / scale)
    bound = np.minimum(_MECHANISMS[mechanism](odds, n_bins) * (1 + 1e-11), 1.0)
    return np.append(np.maximum.accumulate(bound), 1.0)


@dataclass(frozen=True)
class PrivateRecount:
    """The bound for sites of these sizes, so many of each.

    Attributes
    ----------
    kinds : tuple of (bounds on the rank, number of sites)
        For each size of site.
    votes, max_faulty : int
        As for `Recount`.
    """

    kinds: tuple[tuple[Floats, int], ...]
    votes: int
    max_faulty: int

    @classmethod
    def of(cls, calibration: Calibration, level: int) -> Self | None:
        """The law of a private calibration; None where this auditor does not know its mechanism.

        Raises
        ------
        UncountableError
            If there are more points or sites than can be recounted within seconds.
        """
        plan, part = calibration.plan, calibration.part
        rule, quantile = plan.privacy, plan.levels[level].exact_quantile
        if (
            rule is None
            or quantile is None
            or rule.mechanism not in _MECHANISMS
            or rule.analysis not in _WIDTHS
        ):
            return None
        a, d = quantile.numerator, quantile.denominator
        epsilon = Fraction(str(rule.epsilon)) / len(plan.levels)
        scale = float(_WIDTHS[rule.analysis](a, d) / epsilon)
        sizes: dict[int, int] = {}
        for (n, _), count in part.kinds.items():
            sizes[n] = sizes.get(n, 0) + count
        votes = calibration.levels[level].server_rank or 0
        if sum(sizes) > _MOST_POINTS or sum(sizes.values()) * votes > _MOST_STEPS:
            m = sum(sizes.values())
            raise UncountableError(f"{m:,} private sites: more than can be recounted within seconds")
        kinds = tuple(
            (rank_bound(n, a, d, len(rule.edges), scale, rule.mechanism), count) for n, count in sizes.items()
        )
        return cls(kinds, votes, plan.max_faulty)

    @cached_property
    def _choose(self) -> list[Floats]:
        """Logarithms of binomial coefficients, for each size."""
        return [
            np.array([math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1) for x in range(n + 1)])
            for n in (tail.size - 1 for tail, _ in self.kinds)
        ]

    def cdf(self, c: Floats) -> Floats:
        """P(coverage <= c), at most, by adding one site after the other to the law of the count."""
        needed = self.votes - self.max_faulty
        columns: list[Floats] = []
        for (tail, count), choose in zip(self.kinds, self._choose, strict=True):
            columns += [_below(tail, choose, c)] * count
        law = np.zeros((needed + 1, c.size))
        law[0] = 1.0
        for row in np.sort(np.stack(columns), axis=0)[self.max_faulty :]:
            top = law[needed] + law[needed - 1] * row
            law[1:needed] = law[1:needed] * (1 - row) + law[: needed - 1] * row
            law[0] *= 1 - row
            law[needed] = top
        found: Floats = law[needed]
        return found

    def mean(self) -> float:
        """Mean coverage, at least."""
        return 1.0 - _integral(self.cdf)


def _below(tail: Floats, choose: Floats, c: Floats) -> Floats:
    """Probability that a private site lies below c: over how many of its scores do."""
    n = tail.size - 1
    counts = np.arange(n + 1)
    out = np.empty(c.size)
    for j, value in enumerate(c):
        if not 0 < value < 1:
            out[j] = tail[0] if value <= 0 else 1.0
            continue
        masses = np.exp(choose + counts * math.log(value) + (n - counts) * math.log1p(-value))
        out[j] = float(masses @ tail) / float(masses.sum())
    return out


def _integral(f: Callable[[Floats], Floats]) -> float:
    """Simpson's rule over [0, 1], on the part where the cdf moves, doubled until it settles."""
    grid = np.linspace(0, 1, 65)
    values = f(grid)
    low = float(grid[max(int(np.argmax(values > 1e-14)) - 1, 0)])
    above = np.flatnonzero(values > 1 - 1e-14)
    high = float(grid[above[0]]) if above.size else 1.0
    base, previous, n = 1.0 - high, math.nan, 64
    while n <= 4096:
        x = np.linspace(low, high, n + 1)
        weights = np.ones(n + 1)
        weights[1:-1:2], weights[2:-1:2] = 4, 2
        total = base + float(weights @ f(x)) * (high - low) / (3 * n)
        if abs(total - previous) < PRIVATE_ERROR / 10:
            break
        previous, n = total, 2 * n
    return total
