"""Exact reports: every site sends the scores of one or a few ranks."""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from fedconformal._typing import Bools, Ints
from fedconformal.laws import OrderStatistics
from fedconformal.planning import _family as families
from fedconformal.planning._advice import smallest_n_points, smallest_n_sites
from fedconformal.planning._design import Advice, Block, Design, Promise, Sending, Sites, padded
from fedconformal.planning._dummies import matters
from fedconformal.planning._family import Family
from fedconformal.planning._goal import Goal
from fedconformal.planning._search import Choice, best, confirmed, cost, search
from fedconformal.planning._silence import Reports, bear_silence

_MANY = 200  # sites among which each is taken to matter
_ALONE = 24  # ranks of the largest site that are tried by itself


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
        chosen = _Choosing(sites, goal).chosen(_found(sites, goal, share, self.numbers))
        if chosen is None:
            last = families.maxima(sites.n_points, sites.counts)
            if share is not None:
                last = families.with_share(sites.n_points, sites.counts, share)
            votes, advice = _unreachable(sites, goal, share)
            blocks = _blocks(last, 0, keep_infinite=True)
            return Design(goal, promise, self, blocks, votes, share, advice)
        rule = chosen.family.shares[chosen.vector]
        blocks = _blocks(chosen.family, chosen.vector, keep_infinite=rule is not None)
        design = Design(goal, promise, self, blocks, chosen.server_rank, rule)
        return design if rule is not None else _in_lowest_terms(_asked(design))

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The best valid number of votes; advice keeps to the share that the ranks follow."""
        blocks = design.blocks
        sizes, ranks, weights = _arrays(blocks)
        tried = search(families.fixed(sizes, design.counts, ranks, weights), goal=design.goal)
        chosen = best(tried, design.goal)
        if chosen is not None:
            return chosen.server_rank, None
        _, advice = _unreachable(Sites(sizes, design.counts), design.goal, design.share)
        return design.total_votes + 1, advice

    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether a finite threshold is left, whichever sites stay silent."""
        sizes, ranks, weights = _arrays(design.blocks)
        return Reports(sizes, design.counts, ranks, weights).survive(design.goal, n_silent)


def _found(sites: Sites, goal: Goal, share: Fraction | None, numbers: int) -> list[Choice]:
    """All valid choices that were looked at."""
    n, counts = sites.n_points, sites.counts
    if share is not None:
        given = [families.with_share(n, counts, share)]
        if goal.max_missing and not goal.max_faulty:
            given = _bearing_families(given, goal)
        return search(*given, goal=goal)
    largest = families.maxima(n, counts)
    last_resort = search(largest, goal=goal)
    if not last_resort:
        return []
    shares = families.common_shares(n, counts, goal.level, miss=goal.criterion.rarity(goal))
    several = [families.spaced(n, counts, goal.level, r) for r in range(2, numbers + 1)]
    single = shares if n.size == 1 else families.joined([shares, families.weighted(n, counts, goal.level)])
    if goal.max_missing and not goal.max_faulty:
        return search(*_bearing_families([single, *several, largest], goal), goal=goal)
    tried = search(single, *several, goal=goal, rough=goal.max_faulty > 0)
    if n.size > 1:
        tried = tried + _alone(sites, goal) if goal.criterion.heeds_spread else _with_all(tried)
    return tried + last_resort  # which bears most lies, where nothing better does


def _bearing_families(given: list[Family], goal: Goal) -> list[Family]:
    """The vectors that bear as many silent sites as were asked for: the ranks they send decide."""
    reports = [_reports(family, v) for family in given for v in range(len(family))]
    bears = np.split(
        bear_silence(reports, goal, goal.max_missing or 0), np.cumsum([len(family) for family in given])[:-1]
    )
    kept = [families.chosen(family, which) for family, which in zip(given, bears, strict=True)]
    return [family for family in kept if family is not None]


def _reports(family: Family, vector: int) -> Reports:
    """What the sites send."""
    return Reports(family.n_points, family.counts, family.ranks[vector], family.weights[vector])


def _with_all(tried: list[Choice]) -> list[Choice]:
    """The choices in which every site can change the threshold, if there are any."""
    return [choice for choice in tried if _needed(choice).all()] or tried


def _needed(choice: Choice) -> Bools:
    """For each block, whether its sites can change the threshold."""
    weights, counts = choice.family.weights[choice.vector], choice.family.counts
    if choice.family.n_sites > _MANY or int((weights.max(axis=1) * counts).max()) == 1:
        return np.asarray(weights.any(axis=1))
    return matters(weights, counts, choice.server_rank)


def _alone(sites: Sites, goal: Goal) -> list[Choice]:
    """The largest site by itself, where there is one largest; nobody else is asked."""
    largest = int(np.argmax(sites.n_points))
    if sites.counts[largest] != 1 or goal.max_faulty:
        return []
    n = int(sites.n_points[largest])
    first = goal.criterion.own_rank(n, goal)
    own = np.arange(first, min(first + _ALONE, n + 1))
    return search(families.alone(sites.n_points, sites.counts, largest, own), goal=goal) if own.size else []


@dataclass(frozen=True, eq=False)
class _Choosing:
    """The best choice of those that were tried, with regard to silence."""

    sites: Sites
    goal: Goal
    known: dict[tuple[Family, int, int], bool] = field(default_factory=dict)

    def chosen(self, tried: list[Choice]) -> Choice | None:
        """The choice that is picked, once its law is exact."""
        while (choice := self._picked(tried)) is not None and choice.is_rough:
            others = [c for c in tried if c.family is not choice.family or c.vector != choice.vector]
            tried = others + confirmed(choice, self.goal)
        return choice

    def _picked(self, tried: list[Choice]) -> Choice | None:
        """The best choice that bears as much silence as was asked for, or some where that costs little.

        It never costs more than fewer numbers, or the largest site alone, would.
        """
        goal = self.goal
        if goal.max_missing and goal.max_faulty:  # what lies can do depends on the weights too
            ordered = sorted(tried, key=self._cost)
            return next((choice for choice in ordered if self._survives(choice, goal.max_missing)), None)
        if goal.max_missing is not None:
            return best(tried, goal)
        chosen, limit = None, _cost_alone(self.sites, goal)
        for numbers in sorted({choice.family.numbers for choice in tried}):
            chosen = self._bearing([choice for choice in tried if choice.family.numbers <= numbers], limit)
            limit = min(limit, self._cost(chosen))
        return chosen

    def _bearing(self, tried: list[Choice], limit: float) -> Choice:
        """The best choice, or the next best in a limit that bears one silent site where the best does not."""
        first = best(tried, self.goal)
        assert first is not None
        lowest = self._cost(first)
        limit = min(limit, self.goal.criterion.near(lowest, self.goal))
        near = [choice for choice in tried if lowest < self._cost(choice) <= limit]
        if not near or self._survives(first, 1):
            return first
        return next((choice for choice in sorted(near, key=self._cost) if self._survives(choice, 1)), first)

    def _cost(self, choice: Choice) -> float:
        return cost(choice, self.goal)

    def _survives(self, choice: Choice, n_silent: int) -> bool:
        """Ranks and weights decide, whatever the votes."""
        key = (choice.family, choice.vector, n_silent)
        if key not in self.known:
            self.known[key] = _reports(choice.family, choice.vector).survive(self.goal, n_silent)
        return self.known[key]


def _cost_alone(sites: Sites, goal: Goal) -> float:
    """What the largest site by itself would cost; inf where it is too small."""
    n = int(sites.n_points.max())
    first = goal.criterion.own_rank(n, goal)
    means = np.arange(first, min(first + _ALONE, n + 1)) / (n + 1)
    costs = [goal.criterion.cost(mean, mean * (1 - mean) / (n + 2), goal) for mean in means.tolist()]
    return min(costs, default=math.inf)


def _blocks(family: Family, vector: int, *, keep_infinite: bool) -> tuple[Block, ...]:
    """The blocks of a choice; a number that a site is too small for is not sent, unless a share says so."""
    blocks = []
    for b, (count, n) in enumerate(zip(family.counts.tolist(), family.n_points.tolist(), strict=True)):
        pairs = zip(family.ranks[vector, b].tolist(), family.weights[vector, b].tolist(), strict=True)
        sent = [(rank, weight) for rank, weight in pairs if weight and (keep_infinite or rank <= n)]
        blocks.append(Block(count, n, tuple(rank for rank, _ in sent), tuple(w for _, w in sent)))
    return tuple(blocks)


def _asked(design: Design) -> Design:
    """The same design without the numbers of sites that can never change the threshold."""
    # Whoever may have to stand in for a silent site is asked; and whoever has the same votes as all others.
    alike = len({weight for block in design.blocks for weight in block.weights}) == 1
    if design.goal.max_faulty or design.goal.max_missing or alike:
        return design
    needed = matters(design.weights, design.counts, design.server_rank or 1)
    blocks = tuple(
        block if here else replace(block, ranks=(), weights=())
        for block, here in zip(design.blocks, needed.tolist(), strict=True)
    )
    return replace(design, blocks=blocks)


def _in_lowest_terms(design: Design) -> Design:
    """The same design, its votes divided by whatever divides them all.

    Votes come in multiples of that, so as many are reached exactly if the next multiple is.
    """
    unit = math.gcd(*(weight for block in design.blocks for weight in block.weights))
    if unit <= 1 or design.server_rank is None:
        return design
    blocks = tuple(
        replace(block, weights=tuple(weight // unit for weight in block.weights)) for block in design.blocks
    )
    return replace(design, blocks=blocks, server_rank=-(-design.server_rank // unit))


def _unreachable(sites: Sites, goal: Goal, share: Fraction | None) -> tuple[int, Advice]:
    """One vote more than there are, and the smallest federations that would do."""
    m, n = sites.n_sites, int(sites.n_points.min())
    points, more = smallest_n_points(m, goal, share), smallest_n_sites(n, goal, share)
    return m + 1, Advice(
        n_points=points if points is None or points > n else None,
        n_sites=more if more is None or more > m else None,
    )


def _arrays(blocks: tuple[Block, ...]) -> tuple[Ints, Ints, Ints]:
    """Sizes, ranks and weights; a number that is not sent has the rank n + 1 and no vote."""
    sizes = np.array([block.n for block in blocks])
    ranks = padded((block.ranks for block in blocks), sizes + 1)
    return sizes, ranks, padded((block.weights for block in blocks), np.zeros_like(sizes))
