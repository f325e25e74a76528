"""The search for a private plan: which quantile the sites aim at, and which rank the server keeps."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fedconformal.laws import MEAN_ERROR, Federation
from fedconformal.laws._moments import equal_moments
from fedconformal.laws._sites import Ints
from fedconformal.planning._advice import smallest
from fedconformal.planning._family import common_shares
from fedconformal.planning._search import Goal, search
from fedconformal.privacy._terms import Terms

_RANKS = 12  # server ranks that are tried, and tried again between the best of them
_FINEST = 1000  # quantiles are multiples of one over this, or over the largest site if that is larger
_LARGEST_N = 100_000  # of an advice
_GAMMAS = tuple(Fraction(i, 100) for i in (*range(1, 10), *range(10, 100, 5)))  # the paper's grid search


@dataclass(frozen=True)
class PrivateChoice:
    """A quantile for the sites, a rank for the server, and the coverage to expect."""

    quantile: Fraction
    server_rank: int
    expected_coverage: float


@dataclass(frozen=True)
class _Federation:
    n_points: Ints
    counts: Ints
    goal: Goal
    terms: Terms

    @property
    def ranks(self) -> range:
        f = self.goal.max_faulty
        return range(f + 1, int(self.counts.sum()) - f + 1)

    def _law(self, quantile: Fraction, *, expected: bool = False) -> Federation:
        sites = self.terms.sites(self.n_points, quantile, expected=expected)
        return Federation(sites, self.counts, self.goal.max_faulty)

    def is_valid(self, quantile: Fraction, k: int) -> bool:
        law, level = self._law(quantile), float(self.goal.level)
        if self.goal.criterion == "conditional":
            return (
                float(law.cdf(np.array([level]), np.array([k]))[0, 0]) < float(self.goal.delta) - MEAN_ERROR
            )
        return float(law.moments(np.array([k]))[0][0]) > level + MEAN_ERROR

    def expected(self, quantile: Fraction, k: int) -> tuple[float, float]:
        """Mean coverage to expect, and the cost under the criterion."""
        law = Federation(self.terms.sites(self.n_points, quantile, expected=True), self.counts)
        mean, variance = (float(moment[0]) for moment in law.moments(np.array([k])))
        if self.goal.criterion == "stable":
            return mean, variance + (mean - float(self.goal.level)) ** 2
        return mean, mean

    def smallest_quantile(self, k: int) -> Fraction | None:
        """Smallest multiple of 1/d from one half on that is valid with this server rank."""
        d = max(_FINEST, int(self.n_points.max()))
        low, high = math.ceil(d / 2) - 1, d - 1
        if not self.is_valid(Fraction(high, d), k):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_valid(Fraction(middle, d), k) else (middle, high)
        return Fraction(high, d)

    def best_of(self, ranks: Iterable[int]) -> dict[int, tuple[float, PrivateChoice]]:
        found = {}
        for k in ranks:
            quantile = self.smallest_quantile(k)
            if quantile is not None:
                mean, cost = self.expected(quantile, k)
                found[k] = (cost, PrivateChoice(quantile, k, mean))
        return found


def search_private(n_points: Ints, counts: Ints, goal: Goal, terms: Terms) -> PrivateChoice | None:
    """The plan whose expected coverage is smallest among those whose promise holds for all data.

    For each server rank the smallest valid quantile is found by bisection; with many sites, first for a few
    ranks spread over all, then for those around the best.
    """
    if terms.analysis == "paper":
        return _paper(n_points, counts, goal, terms)
    federation = _Federation(n_points, counts, goal, terms)
    ranks = _spread(federation.ranks.start, federation.ranks.stop - 1)
    found = federation.best_of(ranks)
    if not found:
        return None
    while True:
        best = min(found, key=lambda k: (found[k][0], k))
        place = ranks.index(best)
        low, high = ranks[max(place - 1, 0)], ranks[min(place + 1, len(ranks) - 1)]
        between = [k for k in _spread(low, high, 8) if k not in ranks]
        if not between:
            return found[best][1]
        found |= federation.best_of(between)
        ranks = sorted({*ranks, *between})


def _spread(low: int, high: int, most: int = _RANKS) -> list[int]:
    """All whole numbers in a range, or an even choice of them."""
    return sorted(set(np.linspace(low, high, min(most, high - low + 1)).round().astype(int).tolist()))


def solve_private_rank(
    n_points: Ints, counts: Ints, quantile: Fraction, goal: Goal, terms: Terms
) -> int | None:
    """The smallest valid server rank when the sites' quantile is given."""
    federation = _Federation(n_points, counts, goal, terms)
    low, high = federation.ranks.start - 1, federation.ranks.stop - 1
    if high <= low or not federation.is_valid(quantile, high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if federation.is_valid(quantile, middle) else (middle, high)
    return high


def _paper(n_points: Ints, counts: Ints, goal: Goal, terms: Terms) -> PrivateChoice | None:
    """Algorithm 3 to the letter: the gamma whose non-private coverage M at the corrected rank is smallest."""
    m, n = int(counts.sum()), int(n_points[0])
    alpha = 1 - goal.level
    best: tuple[float, PrivateChoice] | None = None
    for gamma in _GAMMAS:
        level = goal.level / (1 - gamma * alpha)
        family = common_shares(n_points, counts, level)
        choice = search(family, Goal(level))
        if choice is None:
            continue
        miss = 1 - float(1 - gamma * alpha) ** (1 / m)
        corrected = int(family.ranks[choice.vector, 0]) + math.ceil(
            2 / float(terms.epsilon) * math.log(terms.n_bins / miss)
        )
        if corrected >= n:
            continue
        quantile = max(Fraction(corrected, n), Fraction(1, 2))
        coverage = float(equal_moments(m, n, corrected, choice.server_rank)[0])
        if best is None or coverage < best[0]:
            federation = _Federation(n_points, counts, goal, terms)
            mean, _ = federation.expected(quantile, choice.server_rank)
            best = (coverage, PrivateChoice(quantile, choice.server_rank, mean))
    return None if best is None else best[1]


def smallest_epsilon(
    n_points: Ints, counts: Ints, goal: Goal, terms: Terms, n_levels: int = 1
) -> float | None:
    """Smallest epsilon that has a plan, for all levels together, to three digits; None above 100."""

    def enough(step: int) -> bool:
        return _has_plan(n_points, counts, goal, replace(terms, epsilon=_three_digits(step) / n_levels))

    steps = range(1, 4 * 900)
    found = smallest(enough, start=steps.start, stop=steps.stop)
    return None if found is None else float(_three_digits(found))


def _three_digits(step: int) -> Fraction:
    """0.0101, 0.0102, ..., 0.0999, 0.100, 0.101, ..., 100: the numbers with three digits, in order."""
    decade, rest = divmod(step, 900)
    return Fraction(100 + rest, 100) * Fraction(10) ** (decade - 2)


def smallest_private_n(n_points: Ints, counts: Ints, goal: Goal, terms: Terms) -> int | None:
    """Smallest number of points that would do if every site had it; None above 100,000."""
    m = np.array([int(counts.sum())])
    return smallest(lambda n: _has_plan(np.array([n]), m, goal, terms), start=1, stop=_LARGEST_N)


def _has_plan(n_points: Ints, counts: Ints, goal: Goal, terms: Terms) -> bool:
    if terms.analysis == "paper":
        return _paper(n_points, counts, goal, terms) is not None
    federation = _Federation(n_points, counts, goal, terms)
    d = max(_FINEST, int(n_points.max()))
    return federation.is_valid(Fraction(d - 1, d), federation.ranks.stop - 1)
