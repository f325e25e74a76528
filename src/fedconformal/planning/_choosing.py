"""Choice of ranks and votes for sites that are all alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np

from fedconformal._typing import Ints
from fedconformal.documents import LARGEST_N, MOST_SITES, Advice, RankRule, SiteKind, total_sites
from fedconformal.planning._ballot import Ballot, Goal, Solution, counts_of, sizes_of
from fedconformal.planning._candidates import Candidates, candidates, common_share, given_ranks, maxima
from fedconformal.planning._missing import pivotal_sites, tolerates_missing
from fedconformal.planning._search import Choice, best, confirm, search

# -- the smallest federation of equal sites that would suffice ---------------------------------------------


def smallest_federation(sites: Sequence[SiteKind], goal: Goal, share: Fraction | None) -> Advice:
    """Return the size, and the number of sites of the smallest size, that would suffice for a level.

    Parameters
    ----------
    sites : sequence of SiteKind
        The sites, which do not suffice.
    goal : Goal
        The level and its criterion.
    share : Fraction or None
        The share that fixes the ranks, where there is one.
    """
    m, n, f = total_sites(sites), min(kind.n for kind in sites), goal.max_faulty

    def suffices(m: int, n: int) -> bool:
        left = m - (goal.max_missing or 0)
        if left <= 2 * f:
            return False
        equal = (SiteKind(count=left, n=n),)
        return bool(search(maxima(equal) if share is None else common_share(equal, share), goal))

    points = smallest(lambda n: suffices(m, n), start=1, stop=LARGEST_N)
    more = smallest(lambda m: suffices(m, n), start=2 * f + 1, stop=MOST_SITES)
    return Advice(
        n_points=points if points is None or points > n else None,
        n_sites=more if more is None or more > m else None,
    )


def smallest(enough: Callable[[int], bool], *, start: int, stop: int) -> int | None:
    """Return the smallest number from ``start`` to ``stop`` that is enough, if larger numbers are too."""
    low, high = start - 1, start
    while not enough(high):
        if high >= stop:
            return None
        low, high = high, min(2 * high, stop)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


_ALONE = 24  # ranks of the largest site that are tried by itself


def choose_ranks(sites: tuple[SiteKind, ...], goal: Goal, numbers: int, share: Fraction | None) -> Solution:
    """Search ranks, weights and votes for sites that are all alike; a share fixes ranks of one vote each."""
    choosing = _Choosing(sites, goal)
    choice = choosing.among(numbers) if share is None else choosing.with_share(share)
    rule = None if share is None else RankRule(share=share)
    if choice is None:
        last = maxima(sites) if share is None else common_share(sites, share)
        ballot = _ballot(sites, last.ranks[0], last.weights[0])
        return Solution(ballot, ballot.n_sites + 1, smallest_federation(sites, goal, share), rule)
    weights, votes = choice.weights, choice.server_rank
    if share is None and not choice.candidates.is_plain:
        # Sites that may have to stand in for others are asked, even if they could not decide otherwise.
        if not (goal.max_faulty or goal.max_missing):
            weights = weights * pivotal_sites(weights, counts_of(sites), votes)[:, None]
        weights, votes = in_lowest_terms(weights, votes)
    return Solution(_ballot(sites, choice.ranks, weights), votes, None, rule)


def solve_votes(ballot: Ballot, goal: Goal, rule: RankRule | None) -> tuple[int, Advice | None]:
    """Return the best valid number of votes for ranks that are given, or advice that follows their rule."""
    choice = best(search(_candidate(ballot), goal), goal)
    if choice is not None:
        return choice.server_rank, None
    share = None if rule is None else rule.share
    return ballot.total_votes + 1, smallest_federation(ballot.sites, goal, share)


def tolerates(ballot: Ballot, goal: Goal, n_missing: int) -> bool:
    """Return whether a finite threshold is left, whichever sites are missing."""
    return tolerates_missing(_candidate(ballot), 0, goal, n_missing)


def _candidate(ballot: Ballot) -> Candidates:
    sizes, ranks, weights = ballot.arrays
    return given_ranks(sizes, ballot.counts, ranks, weights)


class _Choosing:
    """The best choice with regard to missing sites."""

    def __init__(self, sites: tuple[SiteKind, ...], goal: Goal) -> None:
        self.sites, self.goal = sites, goal
        self.settled: list[tuple[Ints, bool]] = []
        self.tolerates = cache(lambda tried, row, missing: tolerates_missing(tried, row, goal, missing))

    def with_share(self, share: Fraction) -> Choice | None:
        """Return the best votes for ranks that follow a share."""
        tried, missing = common_share(self.sites, share), self.goal.max_missing
        return (
            best(search(tried, self.goal), self.goal)
            if not missing or self.tolerates(tried, 0, missing)
            else None
        )

    def among(self, numbers: int) -> Choice | None:
        """Return the best choice in which a site sends up to so many numbers.

        It never costs more than fewer numbers would, or the largest site alone.
        """
        sites, goal, choice = self.sites, self.goal, None
        accepts = self._accepts if goal.max_missing else None
        pool = search(maxima(sites), goal, accepts)  # the last resort, which tolerates most
        if not pool:
            return None
        pool += (alone := self._alone())
        limit = min((each.cost(goal) for each in alone), default=math.inf)
        for r in range(1, numbers + 1):
            pool += search(candidates(sites, goal, r), goal, accepts)
            while (picked := self._picked(pool, limit)) is not None and not picked.is_exact:
                pool = [other for other in pool if other is not picked] + confirm(picked, goal)
            if picked is not None and (choice is None or picked.cost(goal) <= choice.cost(goal)):
                choice, limit = picked, min(limit, picked.cost(goal))
        return choice

    def _accepts(self, tried: Candidates, row: int) -> bool:
        """Whether enough sites may be missing if none is faulty: the largest ranks decide."""
        tops = tried.tops(row)
        for others, tolerated in self.settled:
            if np.all(tops >= others if tolerated else tops <= others):
                return tolerated
        tolerated = tolerates_missing(
            tried, row, replace(self.goal, max_faulty=0), self.goal.max_missing or 0
        )
        self.settled.append((tops, tolerated))
        return tolerated

    def _alone(self) -> list[Choice]:
        """The largest site by itself, where there is one largest and it may be left to decide."""
        sizes, goal = sizes_of(self.sites), self.goal
        largest = int(np.argmax(sizes))
        n = int(sizes[largest])
        rank = goal.criterion.own_rank(n, goal)
        several = self.sites[largest].count > 1 or goal.max_faulty or goal.max_missing
        if several or rank > n or not goal.criterion.heeds_spread:
            return []
        means = [l / (n + 1) for l in range(rank, min(rank + _ALONE, n + 1))]
        costs = [goal.criterion.cost(mean, mean * (1 - mean) / (n + 2), goal) for mean in means]
        i = int(np.argmin(costs))
        here = (np.arange(sizes.size) == largest)[:, None]
        ranks = np.where(here, rank + i, sizes[:, None] + 1)
        tried = given_ranks(sizes, counts_of(self.sites), ranks, here.astype(np.int64))
        return [Choice(tried, 0, 1, means[i], means[i] * (1 - means[i]) / (n + 2))]

    def _picked(self, pool: list[Choice], limit: float) -> Choice | None:
        """The best choice, or one up to a limit that tolerates a missing site where the best does not."""
        goal, first = self.goal, best(pool, self.goal)
        ordered = sorted(pool, key=lambda choice: choice.cost(goal))
        if goal.max_missing and goal.max_faulty:  # what lies can do depends on the weights too
            return next((c for c in ordered if self.tolerates(c.candidates, c.row, goal.max_missing)), None)
        if not goal.criterion.heeds_spread and first is not None:
            first = next((choice for choice in [first, *ordered] if _all_pivotal(choice)), first)
        if goal.max_missing is not None or first is None:
            return first
        lowest = first.cost(goal)
        limit = min(limit, goal.criterion.near(lowest, goal))
        near = [first, *(choice for choice in ordered if lowest < choice.cost(goal) <= limit)]
        return next((c for c in near if len(near) > 1 and self.tolerates(c.candidates, c.row, 1)), first)


def _all_pivotal(choice: Choice) -> bool:
    """Whether every site can change the threshold, but for those too small for their rank."""
    pivotal = pivotal_sites(choice.weights, choice.candidates.counts, choice.server_rank)
    return bool(pivotal[choice.weights.any(axis=1)].all())


def in_lowest_terms(weights: Ints, votes: int) -> tuple[Ints, int]:
    """Return weights divided by whatever divides them all, and the votes needed.

    Votes come in multiples of that, so as many are reached exactly if the next multiple is.
    """
    unit = int(np.gcd.reduce(weights, axis=None))
    return weights // unit, -(-votes // unit)


def _ballot(sites: tuple[SiteKind, ...], ranks: Ints, weights: Ints) -> Ballot:
    """Make the ballot of a choice; a number without votes is not sent."""
    rows = list(zip(ranks, weights, strict=True))
    return Ballot(
        sites,
        tuple(tuple(l[w > 0].tolist()) for l, w in rows),
        tuple(tuple(w[w > 0].tolist()) for _, w in rows),
    )
