"""Missing sites: whether a finite threshold is left, whichever sites do not answer.

The votes are solved again for the sites that answered, and the most that can be needed are all votes of
finite numbers. The largest number is then the threshold: if that satisfies the criterion, some does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints
from fedconformal.laws import integrate
from fedconformal.planning._candidates import Candidates, given_ranks, heaviest
from fedconformal.planning._goal import Goal
from fedconformal.planning._search import satisfies

_PANELS = 9
_MOST_CHOICES = 1000
_MOST_POINTS = 10_000  # of which a power of the level is computed exactly


def tolerates_missing(tried: Candidates, row: int, goal: Goal, n_missing: int) -> bool:
    """Return whether some finite threshold satisfies the criterion, whichever sites are missing.

    Without faulty sites one distribution bounds every choice of missing sites. With faulty sites the largest
    number cannot be the threshold: a bound is tried, then every choice. False where there are too many.

    Parameters
    ----------
    tried : Candidates
        Ranks and votes.
    row : int
        One of the candidates.
    goal : Goal
        Level, criterion and faulty sites.
    n_missing : int
        Number of sites that are missing.
    """
    if n_missing >= int(tried.counts[tried.tops(row) > 0].sum()):
        return False
    if not goal.max_faulty:
        largest = _Largest(tried, row, n_missing)
        margin = float(goal.criterion.margin(largest, goal)[0])
        return margin > goal.criterion.margin_error(goal) or goal.criterion.settles(largest.referee, goal)
    # Sites too small for their rank send +inf, unless they lie.
    counts = np.where(tried.weights[row].any(axis=1), tried.counts, 0)
    if _tolerates_any(tried, row, goal, counts, n_missing):
        return True
    # Large sites do most harm by missing, so they are tried first.
    choices = sorted(
        left_over(counts, n_missing) or [counts * 0], key=lambda left: int(left @ tried.n_points)
    )
    return all(_suffices(tried, row, goal, left) for left in choices)


def _tolerates_any(tried: Candidates, row: int, goal: Goal, counts: Ints, n_missing: int) -> bool:
    """Whether the criterion is satisfied whoever is missing, by a bound.

    Let U be the finite votes above the coverage. Whoever is missing and whoever lies, the threshold can be
    below only if U is at most twice the most votes that faulty sites have, and those of missing ones.
    """
    by_site, finite = (np.repeat(part[row].sum(axis=1), counts) for part in (tried.weights, tried.finite))
    lies, missing = heaviest(by_site, goal.max_faulty), heaviest(finite, n_missing)
    votes = int(finite.sum()) - 2 * lies - missing
    enough = votes > 0 and int(counts.sum()) - n_missing > 2 * goal.max_faulty
    return enough and satisfies(_left(tried, row, counts), votes, replace(goal, max_faulty=0))


def _suffices(tried: Candidates, row: int, goal: Goal, counts: Ints) -> bool:
    """Whether the most votes that faulty sites cannot withhold suffice for these sites."""
    left = _left(tried, row, counts)
    first, last = (int(end[0]) for end in left.limits(goal.max_faulty))
    return last >= first and satisfies(left, last, goal)


def _left(tried: Candidates, row: int, counts: Ints) -> Candidates:
    there = counts > 0
    ranks, weights = tried.ranks[row, there], tried.weights[row, there]
    return given_ranks(tried.n_points[there], counts[there], ranks, weights)


def left_over(counts: Ints, n_missing: int) -> list[Ints] | None:
    """Return the sites of each block that are left, for each choice of missing ones; None if too many."""
    left = [(counts, 0)]
    for b in range(counts.size):
        left = [
            (rest - missing * (np.arange(counts.size) == b), gone + missing)
            for rest, gone in left
            for missing in range(min(n_missing - gone, int(counts[b])) + 1)
        ]
        if len(left) > _MOST_CHOICES:
            return None
    return [rest for rest, gone in left if gone == n_missing]


class _Largest:
    """The distribution of the largest number, with the worst choice of missing sites at every coverage."""

    def __init__(self, tried: Candidates, row: int, n_missing: int) -> None:
        tops, self.n_missing = tried.tops(row), n_missing
        self.n, self.top, self.counts = (part[tops > 0] for part in (tried.n_points, tops, tried.counts))

    def _cdf(self, c: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            logs = np.log(special.betainc(self.top, self.n - self.top + 1.0, c[:, None]))
        # Sites that are least likely to lie below do most harm by missing: their factors are the smallest.
        order = np.argsort(logs, axis=1)
        there = self.counts[order]
        before = np.cumsum(there, axis=1) - there
        kept = there - np.clip(self.n_missing - before, 0, there)
        factors = np.take_along_axis(logs, order, axis=1)
        left = np.multiply(kept, factors, out=np.zeros(logs.shape), where=kept > 0)
        return np.asarray(np.exp(left.sum(axis=1)))

    @property
    def moments(self) -> tuple[Floats, Floats]:
        edges = 1 - np.concatenate([np.geomspace(1.0, 1e-9, _PANELS), [0.0]])
        return 1 - integrate(lambda c: self._cdf(c)[:, None], edges, tolerance=1e-13), np.zeros(1)

    def cdf(self, c: float) -> Floats:
        return self._cdf(np.array([c]))

    @property
    def referee(self) -> _LargestOfAll:
        """The points that are left if the largest sites are missing; None where some send other ranks."""
        if (self.top != self.n).any():
            return _LargestOfAll(None)
        sizes = np.repeat(self.n, np.minimum(self.counts, self.n_missing))
        return _LargestOfAll(int(self.n @ self.counts) - heaviest(sizes, self.n_missing))


@dataclass(frozen=True)
class _LargestOfAll:
    """The same in exact arithmetic, where every site sends its largest score: one of so many points."""

    points: int | None

    def mean(self) -> Fraction | None:
        return None if self.points is None else Fraction(self.points, self.points + 1)

    def cdf(self, c: Fraction) -> Fraction | None:
        return None if self.points is None or self.points > _MOST_POINTS else c**self.points
