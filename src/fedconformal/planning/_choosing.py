"""Choice of ranks and votes for sites that are all alike, with regard to missing
sites.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, reduce
from operator import or_

import numpy as np

from fedconformal._util import Bools, Floats, Ints
from fedconformal.documents import (
    LARGEST_N,
    MOST_SITES,
    Advice,
    RankRule,
    SiteKind,
    total_sites,
)
from fedconformal.laws import CoverageLaw, OrderStatistics
from fedconformal.laws._federation import MOST_CHOICES, leave_out, n_choices
from fedconformal.laws._votes import Votes, heaviest
from fedconformal.planning._ballot import (
    Ballot,
    Candidates,
    Sites,
    Solution,
    candidates,
    common_share,
    counts_of,
    maxima,
    single_candidate,
    sizes_of,
)
from fedconformal.planning._search import (
    Choice,
    ExactReferee,
    best,
    confirm,
    satisfies,
    search,
)
from fedconformal.planning.criteria import Goal, Outcomes

# -- sites whose numbers can never change the threshold: they need not be asked --------


_LARGEST_SUM = 200_000  # votes up to which sums are listed exactly


def pivotal_sites(weights: Ints, counts: Ints, votes: int) -> Bools:
    """Return, for each block, whether one of its sites can decide if the votes are
    reached.

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
    # Blocks may differ in size alone: what counts is how many sites have the same
    # votes.
    kinds, which = np.unique(weights, axis=0, return_inverse=True)
    sites = np.bincount(which.ravel(), weights=counts).astype(np.int64)
    # The numbers of a site are ordered, so it casts the sum of its first few.
    cast = [np.unique(row[row > 0]).tolist() for row in np.cumsum(kinds, axis=1)]
    total = sum(
        sums[-1] * count
        for sums, count in zip(cast, sites.tolist(), strict=True)
        if sums
    )
    pivotal = [
        bool(sums) and _is_pivotal(cast, sites, votes, b, total)
        for b, sums in enumerate(cast)
    ]
    return np.array(pivotal)[which.ravel()]


def _is_pivotal(
    cast: list[list[int]], counts: Ints, votes: int, block: int, total: int
) -> bool:
    """Fill up to just below the votes, the largest casts first; where that fails, list
    all sums as bits.
    """
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
    for votes_cast, count in zip(cast, others, strict=True):
        for _ in range(count):
            sums = reduce(or_, (sums << vote for vote in votes_cast), sums)
    low = max(0, votes - cast[block][-1])
    return bool((sums >> low) & ((1 << (votes - low)) - 1))


# -- missing sites: whether a finite threshold is left, whichever sites do not answer --

# The votes are solved again for the sites that answered, and the most that can be
# needed are all votes of finite numbers. The largest number is then the threshold: if
# that satisfies the criterion, some does.


def tolerates_missing(tried: Candidates, row: int, goal: Goal, n_missing: int) -> bool:
    """Return whether some finite threshold satisfies the criterion, whichever sites are
    missing.

    Without faulty sites one distribution bounds every choice of missing sites. With
    faulty sites the largest number cannot be the threshold: a bound is tried, then
    every choice. False where there are too many.

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
        return _largest_suffices(tried, row, goal, n_missing)
    # Sites too small for their rank send +inf, unless they lie.
    counts = np.where(tried.weights[row].any(axis=1), tried.counts, 0)
    if _tolerates_any(tried, row, goal, counts, n_missing):
        return True
    if n_choices(np.append(counts, n_missing), n_missing) > MOST_CHOICES:
        return False
    # Large sites do most harm by missing, so they are tried first.
    choices = sorted(
        leave_out(counts, n_missing), key=lambda left: int(left @ tried.n_points)
    )
    return all(_suffices(tried, row, goal, left) for left in choices)


def _tolerates_any(
    tried: Candidates, row: int, goal: Goal, counts: Ints, n_missing: int
) -> bool:
    """Return whether the criterion is satisfied whoever is missing, by a bound.

    Let U be the finite votes above the coverage. Whoever is missing and whoever lies,
    the threshold can be below only if U is at most twice the most votes that faulty
    sites have, and those of missing ones.
    """
    by_site, finite = (part[row].sum(axis=1) for part in (tried.weights, tried.finite))
    lies, missing = (
        heaviest(by_site, counts, goal.max_faulty),
        heaviest(finite, counts, n_missing),
    )
    votes = int(finite @ counts) - 2 * lies - missing
    enough = votes > 0 and int(counts.sum()) - n_missing > 2 * goal.max_faulty
    return enough and satisfies(
        _left(tried, row, counts), votes, replace(goal, max_faulty=0)
    )


def _suffices(tried: Candidates, row: int, goal: Goal, counts: Ints) -> bool:
    """Return whether the most votes that faulty sites cannot withhold suffice for these
    sites.
    """
    left = _left(tried, row, counts)
    first, last = (int(end[0]) for end in left.limits(goal.max_faulty))
    return last >= first and satisfies(left, last, goal)


def _left(tried: Candidates, row: int, counts: Ints) -> Candidates:
    there = counts > 0
    ranks, weights = tried.ranks[row, there], tried.weights[row, there]
    return single_candidate(tried.n_points[there], counts[there], ranks, weights)


def _largest_suffices(tried: Candidates, row: int, goal: Goal, n_missing: int) -> bool:
    """Return whether the largest number satisfies the criterion, whoever is missing.

    It lies below a coverage if the largest numbers of all sites do, so at worst those
    least likely to lie below are missing. That is the distribution of all votes if as
    many sites as that are faulty.
    """
    there = tried.tops(row) > 0
    n, tops, counts = (
        part[there] for part in (tried.n_points, tried.tops(row), tried.counts)
    )
    sites, total = OrderStatistics(n, tops), int(counts.sum())
    law = CoverageLaw.of_sites(sites, counts, server_rank=total, max_faulty=n_missing)
    margin = float(goal.criterion.margin(Outcomes.of_law(law), goal)[0])
    error = goal.criterion.margin_error(goal)
    if abs(margin) > error or (tops != n).any():
        return margin > error
    # The largest of all scores, if the largest sites are missing.
    points = int(n @ counts) - heaviest(n, counts, n_missing)
    pooled = single_candidate(*(np.array([number]) for number in (points, 1, [points])))
    return goal.criterion.settles(ExactReferee(pooled, 0, 1, 0), goal)


# -- the smallest federation of equal sites that would suffice -------------------------


def smallest_federation(
    sites: Sequence[SiteKind], goal: Goal, share: Fraction | None
) -> Advice:
    """Return the size, and the number of sites of the smallest size, that would suffice
    for a level.

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
        return bool(
            search(maxima(equal) if share is None else common_share(equal, share), goal)
        )

    points = smallest(lambda n: suffices(m, n), start=1, stop=LARGEST_N)
    more = smallest(lambda m: suffices(m, n), start=2 * f + 1, stop=MOST_SITES)
    return Advice(
        n_points=points if points is None or points > n else None,
        n_sites=more if more is None or more > m else None,
    )


def smallest(suffices: Callable[[int], bool], *, start: int, stop: int) -> int | None:
    """Return the smallest number from ``start`` to ``stop`` that suffices, if larger
    numbers do too.
    """
    low, high = start, start
    while not suffices(high):
        if high >= stop:
            return None
        low, high = high + 1, min(2 * high, stop)
    return low + bisect_left(range(low, high), True, key=suffices)


# -- ranks and votes -------------------------------------------------------------------


_ALONE = 24  # ranks of the largest site that are tried alone


def choose_ranks(
    sites: Sites, goal: Goal, numbers: int, share: Fraction | None
) -> Solution:
    """Search ranks, weights and votes for sites that are all alike; a share fixes ranks
    of one vote each.
    """
    choosing = _Choosing(sites, goal)
    choice = choosing.choose(numbers) if share is None else choosing.choose_votes(share)
    rule = None if share is None else RankRule(share=share)
    if choice is None:
        last = maxima(sites) if share is None else common_share(sites, share)
        ballot = _ballot(sites, last.ranks[0], last.weights[0])
        return Solution(
            ballot, ballot.n_sites + 1, smallest_federation(sites, goal, share), rule
        )
    weights, votes = choice.weights, choice.server_rank
    if share is None and not choice.candidates.is_plain:
        # Sites that may have to stand in for others are asked, even if they could not
        # decide otherwise.
        if not (goal.max_faulty or goal.max_missing):
            weights = weights * pivotal_sites(weights, counts_of(sites), votes)[:, None]
        weights, votes = reduce_votes(weights, votes)
    return Solution(_ballot(sites, choice.ranks, weights), votes, None, rule)


def solve_votes(
    ballot: Ballot, goal: Goal, rule: RankRule | None
) -> tuple[int, Advice | None]:
    """Return the best valid number of votes for ranks that are given, or advice that
    follows their rule.
    """
    choice = best(search(_candidate(ballot), goal), goal)
    if choice is not None:
        return choice.server_rank, None
    share = None if rule is None else rule.share
    return ballot.total_votes + 1, smallest_federation(ballot.sites, goal, share)


_MOST_VOTES = 20_000  # up to which a distribution is computed
_BELOW = np.array(
    [0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0]
)  # of the level, where a bound is tried


def refutes(ballot: Ballot, votes: int, goal: Goal, most_work: int) -> bool:
    """Return whether the votes of a plan miss the criterion; by a bound if the law is
    too much work.

    ``most_work`` limits the votes times the kinds of sites times the faulty sites and
    one.
    """
    merged = ballot.merge()
    is_small = (
        merged.total_votes * len(merged.sites) * (1 + goal.max_faulty) <= most_work
    )
    is_computed = is_small and merged.total_votes <= _MOST_VOTES
    law = (
        Outcomes.of_law(merged.law(votes, goal.max_faulty))
        if is_computed
        else _bound(merged, votes, goal)
    )
    return float(goal.criterion.margin(law, goal)[0]) < -goal.criterion.margin_error(
        goal
    )


def _bound(ballot: Ballot, votes: int, goal: Goal) -> Outcomes:
    """Return bounds in favour of a plan: a mean that is not below, a cdf that is not
    above (Cantelli).

    With V the votes below a coverage c, P(C > c) = P(V < votes), which is at most Var V
    / (Var V + (E V - votes + 1)^2) where E V > votes - 1; and E C is at most c + (1 -
    c) P(C > c). Faulty sites can only make the coverage smaller.
    """
    sites, counted = (
        OrderStatistics(*ballot.arrays[:2]),
        Votes(ballot.counts, ballot.arrays[2]),
    )

    def cdf(c: float) -> Floats:
        below = sites.below(np.array([c]))
        spread, excess = counted.variance(below), counted.mean(below) - votes + 1
        return np.where(
            excess > 0, excess**2 / np.maximum(spread + excess**2, 1e-300), 0.0
        )

    def moments() -> tuple[Floats, Floats]:
        mean = min(
            c + (1 - c) * (1 - float(cdf(c)[0])) for c in float(goal.level) * _BELOW
        )
        return np.array([mean]), np.zeros(1)

    return Outcomes(moments, cdf)


def tolerates(ballot: Ballot, goal: Goal, n_missing: int) -> bool:
    """Return whether a finite threshold is left, whichever sites are missing."""
    return tolerates_missing(_candidate(ballot), 0, goal, n_missing)


def _candidate(ballot: Ballot) -> Candidates:
    sizes, ranks, weights = ballot.arrays
    return single_candidate(sizes, ballot.counts, ranks, weights)


class _Choosing:
    """The best choice with regard to missing sites."""

    def __init__(self, sites: Sites, goal: Goal) -> None:
        self.sites, self.goal = sites, goal
        self.settled: list[tuple[Ints, bool]] = []
        self.tolerates = cache(
            lambda tried, row, missing: tolerates_missing(tried, row, goal, missing)
        )

    def choose_votes(self, share: Fraction) -> Choice | None:
        """Return the best votes for ranks that follow a share."""
        tried, missing = common_share(self.sites, share), self.goal.max_missing
        if missing and not self.tolerates(tried, 0, missing):
            return None
        return best(search(tried, self.goal), self.goal)

    def choose(self, numbers: int) -> Choice | None:
        """Return the best choice in which a site sends up to this many numbers.

        It never costs more than fewer numbers would, or the largest site alone.
        """
        sites, goal, choice = self.sites, self.goal, None
        accepts = self._accepts if goal.max_missing else None
        pool = search(
            maxima(sites), goal, accepts
        )  # the last resort, which tolerates most
        if not pool:
            return None
        pool += (alone := self._alone())
        limit = min((choice.cost(goal) for choice in alone), default=math.inf)
        for r in range(1, numbers + 1):
            pool += search(candidates(sites, goal, r), goal, accepts)
            while (
                picked := self._pick(pool, limit)
            ) is not None and not picked.is_exact:
                pool = [other for other in pool if other is not picked] + confirm(
                    picked, goal
                )
            if picked is not None and (
                choice is None or picked.cost(goal) <= choice.cost(goal)
            ):
                choice, limit = picked, min(limit, picked.cost(goal))
        return choice

    def _accepts(self, tried: Candidates, row: int) -> bool:
        """Return whether enough sites may be missing if none is faulty: the largest
        ranks decide.
        """
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
        """Return the largest site alone, where there is one largest and it may
        decide.
        """
        sizes, goal = sizes_of(self.sites), self.goal
        largest = int(np.argmax(sizes))
        n = int(sizes[largest])
        rank = goal.criterion.own_rank(n, goal)
        several = self.sites[largest].count > 1 or goal.max_faulty or goal.max_missing
        if several or rank > n or not goal.criterion.heeds_spread:
            return []
        means = [l / (n + 1) for l in range(rank, min(rank + _ALONE, n + 1))]
        costs = [
            goal.criterion.cost(mean, mean * (1 - mean) / (n + 2), goal)
            for mean in means
        ]
        i = int(np.argmin(costs))
        here = (np.arange(sizes.size) == largest)[:, None]
        ranks = np.where(here, rank + i, sizes[:, None] + 1)
        tried = single_candidate(
            sizes, counts_of(self.sites), ranks, here.astype(np.int64)
        )
        return [Choice(tried, 0, 1, means[i], means[i] * (1 - means[i]) / (n + 2))]

    def _pick(self, pool: list[Choice], limit: float) -> Choice | None:
        """Return the best choice, or one up to a limit that tolerates a missing site if
        the best does not.
        """
        goal, first = self.goal, best(pool, self.goal)
        ordered = sorted(pool, key=lambda choice: choice.cost(goal))
        if (
            goal.max_missing and goal.max_faulty
        ):  # what lies can do depends on the weights too
            return next(
                (
                    c
                    for c in ordered
                    if self.tolerates(c.candidates, c.row, goal.max_missing)
                ),
                None,
            )
        if not goal.criterion.heeds_spread and first is not None:
            first = next(
                (choice for choice in [first, *ordered] if _all_pivotal(choice)), first
            )
        if goal.max_missing is not None or first is None:
            return first
        lowest = first.cost(goal)
        limit = min(limit, goal.criterion.missing_slack(lowest, goal))
        near = [
            first,
            *(choice for choice in ordered if lowest < choice.cost(goal) <= limit),
        ]
        return next(
            (
                c
                for c in near
                if len(near) > 1 and self.tolerates(c.candidates, c.row, 1)
            ),
            first,
        )


def _all_pivotal(choice: Choice) -> bool:
    """Return whether every site can change the threshold, but for those too small for
    their rank.
    """
    pivotal = pivotal_sites(
        choice.weights, choice.candidates.counts, choice.server_rank
    )
    return bool(pivotal[choice.weights.any(axis=1)].all())


def reduce_votes(weights: Ints, votes: int) -> tuple[Ints, int]:
    """Return weights divided by whatever divides them all, and the votes needed.

    Votes come in multiples of that, so as many are reached exactly if the next multiple
    is.
    """
    unit = int(np.gcd.reduce(weights, axis=None))
    return weights // unit, -(-votes // unit)


def _ballot(sites: Sites, ranks: Ints, weights: Ints) -> Ballot:
    """Make the ballot of a choice; a number without votes is not sent."""
    rows = list(zip(ranks, weights, strict=True))
    return Ballot(
        sites,
        tuple(tuple(l[w > 0].tolist()) for l, w in rows),
        tuple(tuple(w[w > 0].tolist()) for _, w in rows),
    )
