"""The bound on the law of a private threshold, a second time: plain sums over ranks and counts.

The bound on the rank of a release is derived anew from the plan's whole numbers. A bin with fewer than r
scores up to its edge is bad. There are at most B - 1 of them; each has at least a certain error, and the bin
that holds the r'-th smallest score, r' >= r, is none of them and has at most a certain error. With free
slopes u and v these are max(v (t - r + 1), 0) and max(u (r' - t), v (t - r'), 0) for the rank t that is aimed
at. With the paper's errors and the quantile a/d they are a (n - r + 1) and max((r' - 1)(d - a), (n - r') a).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np
from scipy import special

from fedconformal._typing import Floats
from fedconformal.audit._effort import UncountableError
from fedconformal.documents import Calibration, Level

PRIVATE_ERROR = 1e-9
"""Of the recount of a private law."""

_LARGEST_EXPONENT = 700.0  # where a bad bin is as good as certain, without an overflow
_MOST_POINTS = 2_000_000  # at sites of different sizes
_MOST_STEPS = 30_000_000  # sites times votes


@dataclass(frozen=True)
class Errors:
    """What is known of the errors of bins for every data set, and how much noise they get.

    Attributes
    ----------
    bad : array of float
        The least error of a bin with fewer than r scores up to its edge, r = 1..n.
    good : array of float
        The largest error of the bin that holds the r-th smallest score, r = 1..n.
    width : int
        Scale of the noise times epsilon.
    """

    bad: Floats
    good: Floats
    width: int


def free_slopes(n: int, quantile: Fraction, slope: Fraction) -> Errors:
    """A slope of u above the rank that is aimed at, of v below it: slope is v / (u + v)."""
    t = math.ceil(quantile * n)
    v = slope.numerator
    u = slope.denominator - v
    above = np.arange(1.0, n + 1) - t
    return Errors(np.maximum(v * (1 - above), 0.0), np.maximum(u * above, -v * above), u + v)


def papers_errors(n: int, quantile: Fraction) -> Errors:
    """Algorithm 2, with its own scale."""
    a, d = quantile.numerator, quantile.denominator
    r = np.arange(1.0, n + 1)
    return Errors(a * (n - r + 1), np.maximum((r - 1) * (d - a), (n - r) * a), 2 * max(a, d - a))


def _errors(analysis: str, level: Level) -> Callable[[int], Errors] | None:
    """The errors of a site of n scores; None where this auditor does not know the analysis."""
    quantile, slope = level.exact_quantile, level.exact_slope
    if quantile is None or analysis not in _ANALYSES or _ANALYSES[analysis] != (slope is not None):
        return None
    return lambda n: papers_errors(n, quantile) if slope is None else free_slopes(n, quantile, slope)


_ANALYSES = {"tight": True, "paper": False}
"""Which analyses are known here, and whether their slopes are free."""


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


def rank_bound(errors: Errors, n_bins: int, epsilon: Fraction, mechanism: str) -> Floats:
    """P(fewer than r scores are at most what is released), r = 1..n+1, at most, for every data set."""
    least = np.minimum.accumulate(errors.good[::-1])[::-1]
    with np.errstate(over="ignore"):
        odds = np.exp(np.minimum((least - errors.bad) * float(epsilon / errors.width), _LARGEST_EXPONENT))
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
        rule = plan.privacy
        if rule is None or rule.mechanism not in _MECHANISMS:
            return None
        errors = _errors(rule.analysis, plan.levels[level])
        if errors is None:
            return None
        epsilon = Fraction(str(rule.epsilon)) / len(plan.levels)
        sizes: dict[int, int] = {}
        for (n, _), count in part.kinds.items():
            sizes[n] = sizes.get(n, 0) + count
        votes = calibration.levels[level].server_rank or 0
        if sum(sizes) > _MOST_POINTS or sum(sizes.values()) * votes > _MOST_STEPS:
            m = sum(sizes.values())
            raise UncountableError(f"{m:,} private sites: more than can be recounted within seconds")
        kinds = tuple(
            (rank_bound(errors(n), len(rule.edges) + rule.bounded, epsilon, rule.mechanism), count)
            for n, count in sizes.items()
        )
        return cls(kinds, votes, plan.max_faulty)

    @property
    def alone(self) -> list[tuple[Self, int]]:
        """The law of a site's own report, for each size, and how many sites have it."""
        return [(replace(self, kinds=((tail, 1),), votes=1), count) for tail, count in self.kinds]

    def cdf(self, c: Floats) -> Floats:
        """P(coverage <= c), at most, by adding one site after the other to the law of the count."""
        needed = self.votes - self.max_faulty
        columns: list[Floats] = []
        for tail, count in self.kinds:
            columns += [_below(tail, c)] * count
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


def _below(tail: Floats, c: Floats) -> Floats:
    """Probability that a private site lies below c: over how many of its scores do.

    Only counts within twelve standard deviations of their mean, and fifty more, are added up: the others have
    a probability below 1e-30 together, by Bernstein's inequality.
    """
    n = tail.size - 1
    out = np.empty(c.size)
    for j, value in enumerate(c):
        if not 0 < value < 1:
            out[j] = tail[0] if value <= 0 else 1.0
            continue
        reach = 12 * math.sqrt(n * value * (1 - value)) + 50
        counts = np.arange(max(0, math.floor(n * value - reach)), min(n, math.ceil(n * value + reach)) + 1)
        heights = counts * math.log(value) + (n - counts) * math.log1p(-value)
        heights -= special.gammaln(counts + 1.0) + special.gammaln(n - counts + 1.0)
        masses = np.exp(heights - heights.max())
        out[j] = float(masses @ tail[counts]) / float(masses.sum())
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
