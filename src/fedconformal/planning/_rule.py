"""Ranks for sites that may differ, and rules for sites of unknown size."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt

import numpy as np
from scipy import special

from fedconformal._util import Floats, Ints, rank_of
from fedconformal.documents import LARGEST_N, MOST_SITES, RankRule
from fedconformal.planning._choosing import smallest
from fedconformal.planning.criteria import Goal

# -- ranks for a known mixture of sites: a few steps that follow each site's count of scores from below ----

# What a site's numbers say of its share of scores below t is a staircase under the true one. With l_0 = 0, a
# site of n scores that sends the ranks l_1 < ... < l_r shows on average sum_i (l_i - l_{i-1}) P(v_i <= t) of
# them. For one t the best ranks follow from dynamic programming, for each size alone; the smallest t at which
# all sites together show the level follows by bisection. P is that of the federation below.


# A federation whose sites differ is the yardstick that compares plans, all of them valid. No guarantee
# rests on it. Scores are half-normal, and the scales of the sites are log-normal.


_SPREAD = 1 / 3  # standard deviation of the logarithm of a site's scale
_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(41)
_SCALES, _WEIGHTS = np.exp(_SPREAD * _NODES), _MASSES / _MASSES.sum()
LOWEST, HIGHEST = 1e-3, 1e3
"""Thresholds between which the yardstick is evaluated."""


def reported_below(ranks: Ints, n: int, t: float) -> Floats:
    """Return for each rank the probability that a site's score of this rank is at most t.

    Parameters
    ----------
    ranks : array of int
        From 1 to n.
    n : int
        Number of scores of the site.
    t : float
        A threshold.

    Returns
    -------
    array of float
        One for each rank.
    """
    below = special.erf(t / (_SCALES * np.sqrt(2)))
    table = special.betainc(ranks[:, None], n - ranks[:, None] + 1, below[None, :])
    return np.asarray(np.minimum(table @ _WEIGHTS, 1.0))


def usual_threshold(n: int, rank: int, m: int, k: int) -> float:
    """Return the median of the k-th smallest of the reports of m sites, which is to be small.

    Parameters
    ----------
    n, rank : int
        Scores of each site, and the rank that it sends.
    m, k : int
        Number of sites, and votes that are needed.

    Returns
    -------
    float
    """
    low, high = LOWEST, HIGHEST
    for _ in range(24):
        middle = float(np.sqrt(low * high))
        below = reported_below(np.array([rank]), n, middle)[0]
        reached = special.betainc(k, m - k + 1, below) >= 0.5
        low, high = (low, middle) if reached else (middle, high)
    return high


_RANKS = 140  # tried for a size, closer to each other where scores are large
_SIZES = 8  # that are searched; others get the ranks of the next one, in proportion


def ranks_by_size(
    n_points: Ints, shares: Floats, level: Fraction, numbers: int
) -> dict[int, tuple[int, ...]]:
    """Return the ranks that sites of each size send.

    Parameters
    ----------
    n_points : array of int
        Different sizes.
    shares : array of float
        Share of new points that come from all sites of each size together.
    level : Fraction
        Coverage that was asked for.
    numbers : int
        Most numbers that a site sends.

    Returns
    -------
    dict
        Ranks of each size, in increasing order.
    """
    if n_points.size == 1 and numbers == 1:
        return {int(n_points[0]): (min(rank_of(level, int(n_points[0])), int(n_points[0])),)}
    looked_at = np.unique(np.quantile(n_points, np.linspace(0, 1, _SIZES), method="nearest"))
    which = np.abs(np.log(n_points[:, None] / looked_at)).argmin(axis=1)
    stairs = [_Stairs(int(n), numbers) for n in looked_at]
    weights: Floats = np.array([float(shares[which == i].sum()) for i in range(looked_at.size)])
    t = _smallest(stairs, weights, float(level))
    chosen = [stair.best(t)[1] for stair in stairs]
    return {
        int(n): _stretch(chosen[i], int(looked_at[i]), int(n))
        for n, i in zip(n_points.tolist(), which.tolist(), strict=True)
    }


@dataclass(frozen=True, eq=False)
class _Stairs:
    """The ranks among which those of one size are chosen."""

    n: int
    numbers: int

    @cached_property
    def ranks(self) -> Ints:
        if self.n <= _RANKS:
            return np.arange(1, self.n + 1)
        heights = 1 - (1 - np.linspace(0, 1, _RANKS + 1)[1:]) ** 2
        return np.unique(np.ceil(heights * self.n).astype(np.int64))

    def best(self, t: float) -> tuple[float, Ints]:
        """Return the largest share that can be shown to lie below t on average, and its ranks."""
        ranks, below = self.ranks, reported_below(self.ranks, self.n, t)
        rises = ranks[None, :] - ranks[:, None]
        gains = np.where(rises > 0, rises * below, -np.inf)
        shown, came_from = ranks * below, []
        for _ in range(min(self.numbers, ranks.size) - 1):
            sums = shown[:, None] + gains
            came_from.append(sums.argmax(axis=0))
            shown = sums.max(axis=0)
        path = [int(shown.argmax())]
        for back in reversed(came_from):
            path.append(int(back[path[-1]]))
        return float(shown.max()) / (self.n + 1), ranks[path[::-1]]


def _smallest(stairs: list[_Stairs], weights: Floats, level: float) -> float:
    """Return the smallest threshold at which the level is shown on average; the highest if none is."""
    low, high = LOWEST, HIGHEST
    for _ in range(20):
        middle = float(np.sqrt(low * high))
        shown = sum(w * stair.best(middle)[0] for stair, w in zip(stairs, weights, strict=True))
        low, high = (low, middle) if shown >= level else (middle, high)
    return high


def _stretch(ranks: Ints, n: int, to: int) -> tuple[int, ...]:
    """Return the same shares of another number of scores."""
    places = -(-ranks * (to + 1) // (n + 1)) if n != to else ranks
    return tuple(sorted({min(max(int(place), 1), to) for place in places.tolist()}))


# -- ranks whose scores lie above a quantile of the site's own scores with some probability ---------------


_MARGIN = 1e-9  # by which a chance must exceed what is asked for: rounding never decides
_CANDIDATES = 32  # numbers of votes that are compared
_NEAR = 1.02  # a threshold up to this multiple of the lowest is accepted to tolerate a missing site
_DIGITS = 10**6  # chances are rounded down to multiples of its inverse


def chance_above(n: int, rank: int, level: Fraction) -> float:
    """Return the probability that the score of this rank lies above the level-quantile of the site's scores.

    Parameters
    ----------
    n, rank : int
        Size of the site, and the rank that it sends; n + 1 stands for +inf.
    level : Fraction
        Level of the quantile.

    Returns
    -------
    float
        ``1 - I(level; rank, n - rank + 1)``.
    """
    return 1.0 if rank > n else float(special.betainc(n - rank + 1, rank, float(1 - level)))


def rank_above(n: int, level: Fraction, eta: Fraction) -> int:
    """Return the smallest rank whose score lies above the level-quantile with a chance of at least eta.

    Parameters
    ----------
    n : int
        Size of the site.
    level, eta : Fraction
        Level of the quantile, and the chance.

    Returns
    -------
    int
        n + 1 where no score does.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.planning import rank_above
    >>> rank_above(100, Fraction(9, 10), Fraction(1, 2))
    91
    """
    least = float(eta) + _MARGIN
    return 1 + bisect_left(range(1, n + 1), True, key=lambda rank: chance_above(n, rank, level) >= least)


@dataclass(frozen=True)
class NewSiteGoal:
    """Coverage of at least the level at a share 1 - delta of new sites, by the reports of m sites.

    Parameters
    ----------
    m : int
        Number of sites.
    goal : Goal
        Level, delta and missing sites.
    """

    m: int
    goal: Goal

    def choose_eta(self, size: int | None = None) -> Fraction | None:
        """Return the chance that all sites keep, for a declared size; None if no chance below 1 suffices.

        It does not depend on the scores of the sites.

        Parameters
        ----------
        size : int, optional
            Size of every site, where they are alike.

        Returns
        -------
        Fraction or None
            The best by the yardstick of sites that differ.
        """
        missing = self.goal.max_missing or 0
        if self.least_eta(missing) is None:
            return None
        cost, chosen = self._best(missing, size)
        if self.goal.max_missing is None and self.least_eta(1) is not None:
            other, tolerant = self._best(1, size)
            return tolerant if other <= _NEAR * cost else chosen
        return chosen

    def least_eta(self, n_missing: int) -> Fraction | None:
        """Return the smallest chance that suffices if this many sites are missing; None if none below 1."""
        if self.m - n_missing < 1:
            return None
        least = 1 / ((self.m - n_missing + 1) * self.goal.delta)
        return least if least < 1 else None

    def _best(self, n_missing: int, size: int | None) -> tuple[float, Fraction]:
        """Return the lowest threshold of several numbers of votes, and its chance."""
        level, delta, least = self.goal.level, self.goal.delta, self.least_eta(n_missing)
        assert least is not None
        n, first = size or math.ceil(10 / (1 - level)), math.ceil((self.m + 1) * (1 - delta))
        choices = [(math.inf, least)]
        for k in np.unique(np.linspace(first, self.m, _CANDIDATES).astype(int)) if first <= self.m else ():
            eta = max((1 - Fraction(int(k), self.m + 1)) / delta, least)
            if eta >= 1 or (rank := rank_above(n, level, eta)) > n:
                continue
            if size is not None:  # the chance of the rank as a short fraction below it
                chance = chance_above(n, rank, level) - 2 * _MARGIN
                eta = max(Fraction(math.floor(chance * _DIGITS), _DIGITS), eta)
            choices.append((usual_threshold(n, rank, self.m, votes_needed(self.m, delta, eta)), eta))
        return min(choices)

    def smallest_n_sites(self, n: int) -> int | None:
        """Return the number of sites of this size that would suffice."""
        finite = Fraction(chance_above(n, n, self.goal.level) - 2 * _MARGIN)
        if finite * self.goal.delta * MOST_SITES < 1:
            return None
        return math.floor(1 / (self.goal.delta * finite)) + (self.goal.max_missing or 0)

    def smallest_n_points(self, eta: Fraction) -> int | None:
        """Return the size at which this many sites would suffice with this chance; None if none would."""
        least = self.least_eta(self.goal.max_missing or 0)
        if least is None:
            return None
        chance = max(least, eta)
        return smallest(lambda n: rank_above(n, self.goal.level, chance) <= n, start=1, stop=LARGEST_N)


def votes_needed(m: int, delta: Fraction, eta: Fraction) -> int:
    """Return the votes with which at most a share delta of new sites falls below the level.

    Parameters
    ----------
    m : int
        Number of sites that answered.
    delta, eta : Fraction
        Share of new sites that may miss the level, and the chance that every site keeps.

    Returns
    -------
    int
        ``ceil((m + 1) (1 - delta eta))``, which may be above m.
    """
    return math.ceil((m + 1) * (1 - delta * eta))


def ranks_of_rule(rule: RankRule, level: Fraction, n: int) -> tuple[int, ...]:
    """Return the ranks that a site of n scores sends by a rule, in increasing order; n + 1 stands for +inf.

    Parameters
    ----------
    rule : RankRule
        The rule, which all sites follow.
    level : Fraction
        The confidence level.
    n : int
        Number of scores of the site; one with fewer scores than numbers sends all it has.

    Returns
    -------
    tuple of int
        One rank, or several between 1 and n.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.documents import RankRule
    >>> from fedconformal.planning import ranks_of_rule
    >>> ranks_of_rule(RankRule(share=Fraction(9, 10)), Fraction(9, 10), 99)
    (90,)
    """
    if rule.eta is not None:
        return (rank_above(n, level, rule.eta),)
    assert rule.share is not None
    middle = rank_of(rule.share, n)
    if rule.spacing is None:
        return (middle,)
    numbers = min(rule.numbers, n)
    step = min(_step(rule.spacing, level, n), (n - 1) // max(numbers - 1, 1)) or 1
    first = min(max(middle - (numbers - 1) * step // 2, 1), n - (numbers - 1) * step)
    return tuple(first + i * step for i in range(numbers))


def _step(spacing: Fraction, level: Fraction, n: int) -> int:
    """Return ``spacing * sqrt(n level (1 - level))`` as a whole number, rounded up from 0.4 on; at least 1.

    Too wide costs less than too narrow: over many sizes this is never worse than the nearest number.
    """
    square = 25 * spacing**2 * n * level * (1 - level)
    return max(1, (3 + isqrt(square.numerator // square.denominator)) // 5)


def usual_spacing(numbers: int) -> Fraction | None:
    """Return the spacing at which this many numbers locate a level's quantile best, roughly.

    Parameters
    ----------
    numbers : int
        Number of scores that a site sends.

    Returns
    -------
    Fraction or None
        In standard deviations of a site's count; None for one number.

    Examples
    --------
    >>> from fedconformal.planning import usual_spacing
    >>> usual_spacing(1), usual_spacing(3)
    (None, Fraction(29, 33))
    """
    return None if numbers == 1 else Fraction(29, 10 * numbers + 3)
