"""What silence does to a choice of ranks: whether a finite threshold is left when sites do not answer.

The votes are solved anew for who answered, and the most that can be needed are all votes of finite numbers.
The largest number is then the threshold: if that keeps the promise, some threshold does.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws import Federation, OrderStatistics, integrate
from fedconformal.planning._goal import Goal

_PANELS = 9
_STEPS = 32  # of the coverage, on either side of the level, in a first look at a mean
_SURE = 1e-9  # far more than rounding leaves of a sum over the steps
_DOUBT = 0.05  # standard deviations: a rough mean is far closer than that
_MOST_CHOICES = 1000
_MOST_POINTS = 10_000


@dataclass(frozen=True, eq=False)
class Reports:
    """The largest finite number of each block's sites, and how many sites there are.

    Parameters
    ----------
    n_points, counts : array of shape (blocks,)
        Sizes, and how many sites have each.
    ranks, weights : array of shape (blocks, numbers)
        Ranks and votes of each number; ranks above n are infinite, or not sent.
    """

    n_points: Ints
    counts: Ints
    ranks: Ints
    weights: Ints

    def survive(self, goal: Goal, n_silent: int) -> bool:
        """Whether some finite threshold keeps the promise, whichever sites stay silent.

        With faulty sites the largest number cannot be the threshold. One law bounds what any choice of
        silent sites does; where that is too little every choice is tried. False where there are too many.
        """
        asked: Bools = np.any(self._finite, axis=1)
        if n_silent >= int(self.counts[asked].sum()):
            return False
        if goal.max_faulty:
            # Sites too small for their rank send +inf, unless they lie.
            there = np.where(self.weights.any(axis=1), self.counts, 0)
            if self._reach_whoever(goal, there, n_silent):
                return True
            left = left_over(there, n_silent)
            # The silence of large sites does most harm, so it is tried first.
            return left is not None and all(
                self._reach(goal, counts) for counts in sorted(left, key=lambda c: int(c @ self.n_points))
            )
        law = _Largest(self, asked, n_silent)
        low, high = (_Between(law, float(goal.level), upper=upper) for upper in (False, True))
        kept = _keeps(low, goal) or (_keeps(high, goal) and _keeps(law, goal))
        return kept or goal.criterion.settles(_LargestOfAll.of(law), goal)

    @property
    def tops(self) -> Ints:
        """The largest finite rank of each block's sites; 0 if there is none."""
        return np.asarray(np.where(self.ranks <= self.n_points[:, None], self.ranks, 0).max(axis=1))

    @property
    def _finite(self) -> Ints:
        """Votes of each number that is finite."""
        return np.asarray(self.weights * (self.ranks <= self.n_points[:, None]))

    def _reach_whoever(self, goal: Goal, counts: Ints, n_silent: int) -> bool:
        """Whether the promise is kept whoever is silent, by a bound.

        Let U be the finite votes above the coverage. Whoever is silent and whoever lies, the threshold can
        be below only if U is at most twice the most votes that faulty sites have, and what silent ones have.
        """
        by_site, finite = (np.repeat(votes.sum(axis=1), counts) for votes in (self.weights, self._finite))
        lies, silent = (_heaviest(votes, f) for votes, f in ((by_site, goal.max_faulty), (finite, n_silent)))
        votes = int(finite.sum()) - 2 * lies - silent
        if votes < 1 or int(counts.sum()) - n_silent <= 2 * goal.max_faulty:
            return False
        return _reaches(self._federation(counts, 0), votes, goal)

    def _reach(self, goal: Goal, counts: Ints) -> bool:
        """Whether the most votes that faulty sites cannot withhold keep the promise for so many sites."""
        lies = _heaviest(np.repeat(self.weights.sum(axis=1), counts), goal.max_faulty)
        votes = int((self._finite.sum(axis=1) * counts).sum()) - lies
        if votes <= lies or int(counts.sum()) <= 2 * goal.max_faulty:
            return False
        return _reaches(self._federation(counts, goal.max_faulty), votes, goal)

    def _federation(self, counts: Ints, max_faulty: int) -> Federation:
        there = counts > 0
        sites = OrderStatistics(self.n_points[there], self.ranks[there])
        return Federation(sites, counts[there], max_faulty, self.weights[there])


def bear_silence(reports: list[Reports], goal: Goal, n_silent: int) -> Bools:
    """Which of several choices for the same sites survive, all sites being honest.

    Larger ranks give larger numbers, so one answer settles many others: few choices are looked at.
    """
    tops = np.array([report.tops for report in reports])
    order = np.argsort(tops.sum(axis=1), kind="stable")
    bears, unknown = np.zeros(len(reports), dtype=bool), np.ones(len(reports), dtype=bool)
    while unknown.any():
        left = order[unknown[order]]
        here = int(left[left.size // 2])
        bears_here = reports[here].survive(goal, n_silent)
        settled = unknown & np.all(tops >= tops[here] if bears_here else tops <= tops[here], axis=1)
        bears[settled], unknown[settled] = bears_here, False
    return bears


def _heaviest(votes: Ints, f: int) -> int:
    """The votes of the f sites that have most."""
    return int(np.sort(votes)[::-1][:f].sum())


def left_over(counts: Ints, n_silent: int) -> list[Ints] | None:
    """How many sites of each block are left, for every choice of silent ones; None if these are too many."""
    left = [(counts, 0)]
    for b in range(counts.size):
        left = [
            (rest - silent * (np.arange(counts.size) == b), gone + silent)
            for rest, gone in left
            for silent in range(min(n_silent - gone, int(counts[b])) + 1)
        ]
        if len(left) > _MOST_CHOICES:
            return None
    return [rest for rest, gone in left if gone == n_silent]


def _reaches(federation: Federation, votes: int, goal: Goal) -> bool:
    """Whether so many votes keep the promise: by a rough look where that tells."""
    low, high = (_Roughly(federation, votes, doubt) for doubt in (-_DOUBT, _DOUBT))
    return _keeps(low, goal) or (_keeps(high, goal) and _keeps(_AtMost(federation, votes), goal))


def _keeps(law: "_Largest | _Between | _AtMost", goal: Goal) -> bool:
    return float(goal.criterion.margin(law, goal)[0]) > goal.criterion.margin_error(goal)


@dataclass(frozen=True, eq=False)
class _Largest:
    """The law of the largest number, with the worst choice of silent sites at every coverage."""

    reports: Reports
    asked: Bools
    n_silent: int

    def _cdf(self, c: Floats) -> Floats:
        reports, asked = self.reports, self.asked
        n, counts = reports.n_points[asked].astype(float), reports.counts[asked]
        top = reports.tops[asked].astype(float)
        with np.errstate(divide="ignore"):
            logs = np.log(special.betainc(top, n - top + 1, c[:, None]))
        # Silence of those least likely to lie below does most harm: it takes the smallest factors away.
        order = np.argsort(logs, axis=1)
        there = counts[order]
        before = np.cumsum(there, axis=1) - there
        kept = there - np.clip(self.n_silent - before, 0, there)
        smallest_first = np.take_along_axis(logs, order, axis=1)
        left = np.multiply(kept, smallest_first, out=np.zeros(logs.shape), where=kept > 0)
        return np.asarray(np.exp(left.sum(axis=1)))

    @property
    def moments(self) -> tuple[Floats, Floats]:
        edges = 1 - np.concatenate([np.geomspace(1.0, 1e-9, _PANELS), [0.0]])
        area = integrate(lambda c: self._cdf(c)[:, None], edges, tolerance=1e-13)
        return 1 - area, np.zeros(1)

    def cdf(self, c: float) -> Floats:
        return self._cdf(np.array([c]))

    def limits(self, level: float) -> tuple[float, float]:
        """What the mean is at least, and at most: the cdf rises, so both ends of a step tell."""
        below, beyond = np.linspace(0.0, level, _STEPS, endpoint=False), np.linspace(level, 1.0, _STEPS)
        grid = np.concatenate([below, beyond])
        above, steps = 1 - self._cdf(grid), np.diff(grid)
        return float(steps @ above[1:]) - _SURE, float(steps @ above[:-1]) + _SURE


@dataclass(frozen=True, eq=False)
class _Between:
    """The same law, with a lower or upper limit of its mean in the place of the mean."""

    law: _Largest
    level: float
    upper: bool

    @property
    def moments(self) -> tuple[Floats, Floats]:
        return np.array([self.law.limits(self.level)[self.upper]]), np.zeros(1)

    def cdf(self, c: float) -> Floats:
        return self.law.cdf(c)


@dataclass(frozen=True)
class _LargestOfAll:
    """The same in whole numbers, where every site sends its largest score: one of so many points."""

    points: int | None

    @classmethod
    def of(cls, law: _Largest) -> "_LargestOfAll":
        """The points that are left if the largest sites are silent; None where some send other ranks."""
        reports, asked = law.reports, law.asked
        if (reports.tops != reports.n_points)[asked].any():
            return cls(None)
        sizes = np.sort(np.repeat(reports.n_points[asked], np.minimum(reports.counts[asked], _MOST_CHOICES)))
        whole = int((reports.n_points[asked] * reports.counts[asked]).sum())
        return cls(whole - int(sizes[::-1][: law.n_silent].sum()) if law.n_silent <= sizes.size else None)

    def mean(self) -> Fraction | None:
        return None if self.points is None else Fraction(self.points, self.points + 1)

    def cdf(self, c: Fraction) -> Fraction | None:
        return None if self.points is None or self.points > _MOST_POINTS else c**self.points


@dataclass(frozen=True, eq=False)
class _AtMost:
    """The law at one number of votes."""

    federation: Federation
    votes: int

    @property
    def moments(self) -> tuple[Floats, Floats]:
        return self.federation.moments(np.array([self.votes]))

    def cdf(self, c: float) -> Floats:
        found: Floats = self.federation.cdf(np.array([c]), np.array([self.votes]))[0]
        return found


@dataclass(frozen=True, eq=False)
class _Roughly(_AtMost):
    """The same from a rough look, its mean moved by some doubt, in standard deviations."""

    doubt: float

    @property
    def moments(self) -> tuple[Floats, Floats]:
        mean, variance = self.federation.moments(np.array([self.votes]), rough=True)
        return mean + self.doubt * np.sqrt(variance), variance
