"""Exact reports: every site sends the scores of one or a few ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fedconformal._typing import Ints
from fedconformal.laws import OrderStatistics
from fedconformal.planning._advice import smallest_federation
from fedconformal.planning._candidates import Candidates, candidates, common_share, given_ranks, maxima
from fedconformal.planning._design import Advice, Block, Design, Promise, Sending, Sites, padded
from fedconformal.planning._goal import Goal
from fedconformal.planning._missing import Reports
from fedconformal.planning._pivotal import pivotal_sites
from fedconformal.planning._search import Choice, best, confirm, search

_MANY = 200  # sites among which each is taken to be pivotal


@dataclass(frozen=True)
class Exact(Sending):
    """Sites send scores of theirs, to the last digit.

    Parameters
    ----------
    numbers : int
        How many a site sends at the most.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.plan(n_sites=10, n_points=79).designs[0].sending
    Exact(numbers=1)
    """

    numbers: int = 1

    def site_law(self, blocks: tuple[Block, ...]) -> OrderStatistics:
        """Order statistics of uniform variables, on the scale of coverage."""
        return OrderStatistics(*_arrays(blocks)[:2])

    def choose(self, sites: Sites, goal: Goal, share: Fraction | None, promise: Promise) -> Design:
        """Search ranks, weights and votes, unless the share is given that fixes ranks of one vote each."""
        choosing = _Choosing(sites, goal)
        choice = choosing.among(self.numbers) if share is None else choosing.with_share(share)
        if choice is None:
            last = maxima(sites) if share is None else common_share(sites, share)
            blocks = _blocks(last.ranks[0], last.weights[0], sites, keep_infinite=True)
            advice = smallest_federation(sites, goal, share)
            return Design(goal, promise, self, blocks, sites.n_sites + 1, share, advice)
        blocks = _blocks(choice.ranks, choice.weights, sites, keep_infinite=share is not None)
        if share is None and choice.candidates.is_plain:
            share = Fraction(int(choice.ranks[0, 0]), int(sites.n_points[0]) + 1)
        design = Design(goal, promise, self, blocks, choice.server_rank, share)
        return design if share is not None else in_lowest_terms(without_idle_sites(design))

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The best valid number of votes; advice keeps to the share that the ranks follow."""
        sizes, ranks, weights = _arrays(design.blocks)
        tried = given_ranks(sizes, design.counts, ranks, weights)
        choice = best(search(tried, design.goal), design.goal)
        if choice is not None:
            return choice.server_rank, None
        advice = smallest_federation(Sites(sizes, design.counts), design.goal, design.share)
        return design.total_votes + 1, advice

    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether a finite threshold is left, whichever sites are missing."""
        sizes, ranks, weights = _arrays(design.blocks)
        return Reports(sizes, design.counts, ranks, weights).tolerate(design.goal, n_silent)


class _Choosing:
    """The best choice with regard to missing sites."""

    def __init__(self, sites: Sites, goal: Goal) -> None:
        self.sites, self.goal = sites, goal
        self.known: dict[tuple[Candidates, int, int], bool] = {}
        self.settled: list[tuple[Ints, bool]] = []

    def with_share(self, share: Fraction) -> Choice | None:
        """Return the best votes for ranks that follow a share."""
        choice = self._preferred(search(common_share(self.sites, share), self.goal), math.inf)
        missing = self.goal.max_missing or 0
        return choice if choice is None or not missing or self._tolerates(choice, missing) else None

    def among(self, numbers: int) -> Choice | None:
        """Return the best choice in which a site sends up to so many numbers.

        It never costs more than fewer numbers would, or the largest site alone.
        """
        sites, goal, choice = self.sites, self.goal, None
        pool = self._searched(maxima(sites))  # the last resort, which tolerates most
        if not pool:
            return None
        pool += (alone := self._alone())
        limit = min((each.cost(goal) for each in alone), default=math.inf)
        for r in range(1, numbers + 1):
            pool += self._searched(candidates(sites, goal, r))
            preferred = self._preferred(pool, limit)
            if preferred is not None and (choice is None or preferred.cost(goal) <= choice.cost(goal)):
                choice = preferred
                limit = min(limit, choice.cost(goal))
        return choice

    def _searched(self, tried: Candidates) -> list[Choice]:
        return search(tried, self.goal, self._accepts if self.goal.max_missing else None)

    def _accepts(self, tried: Candidates, row: int) -> bool:
        """Whether as many sites may be missing as the goal says, were none faulty: the largest ranks decide."""
        reports = _reports(tried, row)
        tops = reports.tops
        for others, tolerated in self.settled:
            if np.all(tops >= others if tolerated else tops <= others):
                return tolerated
        tolerated = reports.tolerate(replace(self.goal, max_faulty=0), self.goal.max_missing or 0)
        self.settled.append((tops, tolerated))
        return tolerated

    def _tolerates(self, choice: Choice, n_missing: int) -> bool:
        """Ranks and weights decide, whatever the votes."""
        key = (choice.candidates, choice.row, n_missing)
        if key not in self.known:
            self.known[key] = _reports(choice.candidates, choice.row).tolerate(self.goal, n_missing)
        return self.known[key]

    def _alone(self) -> list[Choice]:
        """The largest site by itself, where there is one largest and it may be left to decide."""
        sites, goal = self.sites, self.goal
        largest = int(np.argmax(sites.n_points))
        n, count = int(sites.n_points[largest]), int(sites.counts[largest])
        rank = goal.criterion.own_rank(n, goal)
        if count > 1 or goal.max_faulty or goal.max_missing or rank > n or not goal.criterion.heeds_spread:
            return []

        def choice(l: int) -> Choice:
            here, mean = np.arange(sites.n_points.size)[:, None] == largest, l / (n + 1)
            tried = given_ranks(
                sites.n_points, sites.counts, np.where(here, l, sites.n_points[:, None] + 1), here.astype(int)
            )
            return Choice(tried, 0, 1, mean, mean * (1 - mean) / (n + 2))

        while rank < n and choice(rank + 1).cost(goal) < choice(rank).cost(goal):
            rank += 1
        return [choice(rank)]

    def _preferred(self, pool: list[Choice], limit: float) -> Choice | None:
        """The choice that is picked, once its distribution is exact."""
        while (choice := self._picked(pool, limit)) is not None and not choice.is_exact:
            pool[:] = [other for other in pool if other is not choice] + confirm(choice, self.goal)
        return choice

    def _picked(self, pool: list[Choice], limit: float) -> Choice | None:
        """The best choice, or one up to a limit that tolerates a missing site where the best does not."""
        goal, first = self.goal, best(pool, self.goal)
        ordered = sorted(pool, key=lambda choice: choice.cost(goal))
        if goal.max_missing and goal.max_faulty:  # what lies can do depends on the weights too
            return next((choice for choice in ordered if self._tolerates(choice, goal.max_missing)), None)
        if not goal.criterion.heeds_spread and first is not None:
            first = next((choice for choice in [first, *ordered] if _all_pivotal(choice)), first)
        if goal.max_missing is not None or first is None:
            return first
        lowest = first.cost(goal)
        limit = min(limit, goal.criterion.near(lowest, goal))
        near = [choice for choice in ordered if lowest < choice.cost(goal) <= limit]
        if not near or self._tolerates(first, 1):
            return first
        return next((choice for choice in near if self._tolerates(choice, 1)), first)


def _reports(tried: Candidates, row: int) -> Reports:
    return Reports(tried.n_points, tried.counts, tried.ranks[row], tried.weights[row])


def _all_pivotal(choice: Choice) -> bool:
    """Whether every site can change the threshold."""
    weights, counts = choice.weights, choice.candidates.counts
    if choice.candidates.n_sites > _MANY or int((weights.max(axis=1) * counts).max()) == 1:
        return bool(weights.any(axis=1).all())
    return bool(pivotal_sites(weights, counts, choice.server_rank).all())


def _blocks(ranks: Ints, weights: Ints, sites: Sites, *, keep_infinite: bool) -> tuple[Block, ...]:
    """The blocks of a choice; a number that a site is too small for is not sent, unless a share says so."""
    blocks = []
    for b, (count, n) in enumerate(zip(sites.counts.tolist(), sites.n_points.tolist(), strict=True)):
        pairs = zip(ranks[b].tolist(), weights[b].tolist(), strict=True)
        sent = [(rank, weight) for rank, weight in pairs if weight and (keep_infinite or rank <= n)]
        blocks.append(Block(count, n, tuple(rank for rank, _ in sent), tuple(w for _, w in sent)))
    return tuple(blocks)


def without_idle_sites(design: Design) -> Design:
    """Return the same design without the numbers of sites that can never change the threshold."""
    # Sites that may have to stand in for a missing one are asked; so are all where all have the same votes.
    alike = len({weight for block in design.blocks for weight in block.weights}) == 1
    if design.goal.max_faulty or design.goal.max_missing or alike:
        return design
    needed = pivotal_sites(design.weights, design.counts, design.server_rank or 1)
    blocks = tuple(
        block if here else replace(block, ranks=(), weights=())
        for block, here in zip(design.blocks, needed.tolist(), strict=True)
    )
    return replace(design, blocks=blocks)


def in_lowest_terms(design: Design) -> Design:
    """Return the same design, its votes divided by whatever divides them all.

    Votes come in multiples of that, so as many are reached exactly if the next multiple is.
    """
    unit = math.gcd(*(weight for block in design.blocks for weight in block.weights))
    if unit <= 1 or design.server_rank is None:
        return design
    blocks = tuple(
        replace(block, weights=tuple(weight // unit for weight in block.weights)) for block in design.blocks
    )
    return replace(design, blocks=blocks, server_rank=-(-design.server_rank // unit))


def _arrays(blocks: tuple[Block, ...]) -> tuple[Ints, Ints, Ints]:
    """Sizes, ranks and weights; a number that is not sent has the rank n + 1 and no vote."""
    sizes = np.array([block.n for block in blocks])
    ranks = padded((block.ranks for block in blocks), sizes + 1)
    return sizes, ranks, padded((block.weights for block in blocks), np.zeros_like(sizes))
