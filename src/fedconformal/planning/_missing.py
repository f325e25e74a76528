"""Missing sites: whether a finite threshold is left, whichever sites do not answer.

The votes are solved again for the sites that answered, and the most that can be needed are all votes of
finite numbers. The largest number is then the threshold: if that satisfies the criterion, some threshold does.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints
from fedconformal.laws import Federation, OrderStatistics, integrate
from fedconformal.planning._goal import Goal

_PANELS = 9
_MOST_CHOICES = 1000
_MOST_POINTS = 10_000  # of which a power of the level is computed exactly


@dataclass(frozen=True, eq=False)
class Reports:
    """The ranks and votes of each block's sites.

    Parameters
    ----------
    n_points, counts : array of shape (blocks,)
        Sizes, and the number of sites of each.
    ranks, weights : array of shape (blocks, numbers)
        Ranks and votes of each number; ranks above n are infinite, or not sent.
    """

    n_points: Ints
    counts: Ints
    ranks: Ints
    weights: Ints

    def tolerate(self, goal: Goal, n_missing: int) -> bool:
        """Return whether some finite threshold satisfies the criterion, whichever sites are missing.

        Without faulty sites one distribution bounds every choice of missing sites. With faulty sites the
        largest number cannot be the threshold: a bound is tried, then every choice. False where there are
        too many choices.
        """
        if n_missing >= int(self.counts[self.tops > 0].sum()):
            return False
        if not goal.max_faulty:
            largest = _Largest(self, n_missing)
            return _satisfies(largest, goal) or goal.criterion.settles(largest.referee, goal)
        # Sites too small for their rank send +inf, unless they lie.
        counts = np.where(self.weights.any(axis=1), self.counts, 0)
        if self._tolerate_any(goal, counts, n_missing):
            return True
        # Large sites do most harm by missing, so they are tried first.
        choices = sorted(left_over(counts, n_missing) or [counts * 0], key=lambda c: int(c @ self.n_points))
        return all(self._suffice(goal, left) for left in choices)

    @property
    def tops(self) -> Ints:
        """The largest finite rank of each block's sites that has a vote; 0 if there is none."""
        return np.asarray(np.where(self._finite > 0, self.ranks, 0).max(axis=1))

    @property
    def _finite(self) -> Ints:
        """Votes of each number that is finite."""
        return np.asarray(self.weights * (self.ranks <= self.n_points[:, None]))

    def _tolerate_any(self, goal: Goal, counts: Ints, n_missing: int) -> bool:
        """Return whether the criterion is satisfied whoever is missing, by a bound.

        Let U be the finite votes above the coverage. Whoever is missing and whoever lies, the threshold can
        be below only if U is at most twice the most votes that faulty sites have, and those of missing ones.
        """
        by_site, finite = (np.repeat(votes.sum(axis=1), counts) for votes in (self.weights, self._finite))
        lies, missing = _heaviest(by_site, goal.max_faulty), _heaviest(finite, n_missing)
        votes = int(finite.sum()) - 2 * lies - missing
        if votes < 1 or int(counts.sum()) - n_missing <= 2 * goal.max_faulty:
            return False
        return _satisfies(AtVotes(self._federation(counts, 0), votes), goal)

    def _suffice(self, goal: Goal, counts: Ints) -> bool:
        """Return whether the most votes that faulty sites cannot withhold suffice for these sites."""
        lies = _heaviest(np.repeat(self.weights.sum(axis=1), counts), goal.max_faulty)
        votes = int((self._finite.sum(axis=1) * counts).sum()) - lies
        if votes <= lies or int(counts.sum()) <= 2 * goal.max_faulty:
            return False
        return _satisfies(AtVotes(self._federation(counts, goal.max_faulty), votes), goal)

    def _federation(self, counts: Ints, max_faulty: int) -> Federation:
        there = counts > 0
        sites = OrderStatistics(self.n_points[there], self.ranks[there])
        return Federation(sites, counts[there], max_faulty, self.weights[there])


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


def _heaviest(votes: Ints, n_sites: int) -> int:
    """The votes of the sites that have most."""
    return int(np.sort(votes)[::-1][:n_sites].sum())


def _satisfies(law: _Largest | AtVotes, goal: Goal) -> bool:
    return float(goal.criterion.margin(law, goal)[0]) > goal.criterion.margin_error(goal)


class _Largest:
    """The distribution of the largest number, with the worst choice of missing sites at every coverage."""

    def __init__(self, reports: Reports, n_missing: int) -> None:
        asked = reports.tops > 0
        self.n, self.top, self.counts = reports.n_points[asked], reports.tops[asked], reports.counts[asked]
        self.n_missing = n_missing

    def _cdf(self, c: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            logs = np.log(special.betainc(self.top, self.n - self.top + 1.0, c[:, None]))
        # Sites that are least likely to lie below do most harm by missing: their factors are the smallest.
        order = np.argsort(logs, axis=1)
        there = self.counts[order]
        before = np.cumsum(there, axis=1) - there
        kept = there - np.clip(self.n_missing - before, 0, there)
        factors = np.take_along_axis(logs, order, axis=1)
        return np.exp(np.multiply(kept, factors, out=np.zeros(logs.shape), where=kept > 0).sum(axis=1))

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
        return _LargestOfAll(int(self.n @ self.counts) - _heaviest(sizes, self.n_missing))


@dataclass(frozen=True)
class _LargestOfAll:
    """The same in exact arithmetic, where every site sends its largest score: one of so many points."""

    points: int | None

    def mean(self) -> Fraction | None:
        return None if self.points is None else Fraction(self.points, self.points + 1)

    def cdf(self, c: Fraction) -> Fraction | None:
        return None if self.points is None or self.points > _MOST_POINTS else c**self.points


@dataclass(frozen=True, eq=False)
class AtVotes:
    """The distribution at one number of votes."""

    federation: Federation
    votes: int

    @property
    def moments(self) -> tuple[Floats, Floats]:
        return self.federation.moments(np.array([self.votes]))

    def cdf(self, c: float) -> Floats:
        return np.asarray(self.federation.cdf(np.array([c]), np.array([self.votes]))[0])
