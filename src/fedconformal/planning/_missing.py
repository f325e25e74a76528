"""Missing sites: whether a finite threshold is left, whichever sites do not answer.

The votes are solved again for the sites that answered, and the most that can be needed are all votes of
finite numbers. The largest number is then the threshold: if that satisfies the criterion, some does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from operator import or_

import numpy as np
from scipy import special

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws import integrate
from fedconformal.planning._ballot import Goal
from fedconformal.planning._candidates import Candidates, given_ranks, heaviest
from fedconformal.planning._search import satisfies

# -- sites whose numbers can never change the threshold: they need not be asked ----------------------------


_LARGEST_SUM = 200_000  # votes up to which sums are listed exactly


def pivotal_sites(weights: Ints, counts: Ints, votes: int) -> Bools:
    """Return, for each block, whether one of its sites can decide if the votes are reached.

    Parameters
    ----------
    weights : array of shape (blocks, numbers)
        Votes of each number of a site; 0 for one that is infinite, or not sent.
    counts : array of shape (blocks,)
        Number of sites.
    votes : int
        Votes that are needed.

    Returns
    -------
    array of bool
        False only where it is certain that no site of the block can.
    """
    # Blocks may differ in size alone: what counts is how many sites have the same votes.
    kinds, which = np.unique(weights, axis=0, return_inverse=True)
    sites = np.bincount(which.ravel(), weights=counts).astype(np.int64)
    # The numbers of a site are ordered, so it casts the sum of its first few.
    cast = [np.unique(row[row > 0]).tolist() for row in np.cumsum(kinds, axis=1)]
    total = sum(each[-1] * count for each, count in zip(cast, sites.tolist(), strict=True) if each)
    found = [bool(each) and _is_pivotal(cast, sites, votes, b, total) for b, each in enumerate(cast)]
    return np.array(found)[which.ravel()]


def _is_pivotal(cast: list[list[int]], counts: Ints, votes: int, block: int, total: int) -> bool:
    """Fill up to just below the votes, the largest casts first; where that fails, list all sums as bits."""
    others: list[int] = (counts - (np.arange(counts.size) == block)).tolist()
    room = votes - 1
    for b in sorted(range(len(cast)), key=lambda b: cast[b][:1], reverse=True):
        left = others[b]
        for cast_by_site in reversed(cast[b]):
            taken = min(left, room // cast_by_site)
            room, left = room - taken * cast_by_site, left - taken
    if room < cast[block][-1] or total > _LARGEST_SUM:
        return True
    sums = 1
    for each, count in zip(cast, others, strict=True):
        for _ in range(count):
            sums = reduce(or_, (sums << cast_by_site for cast_by_site in each), sums)
    low = max(0, votes - cast[block][-1])
    return bool((sums >> low) & ((1 << (votes - low)) - 1))


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
