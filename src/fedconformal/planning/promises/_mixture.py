"""A promise for a known mixture of independent sites, whose distributions may differ in any way.

Site j, of n_j scores, sends those of the ranks l_j1 < l_j2 < ..., and a new point comes from it with
probability w_j. Number i has votes in proportion to w_j (l_ji - l_j,i-1) / (n_j + 1), so the votes of all
numbers up to t are in proportion to a count that never exceeds what the sites' scores, and one unseen point
of each, would give. A threshold at which they reach the level covers the mixture with that mean probability
if each site's scores, with that of the unseen point, are exchangeable given the scores of the other sites.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np

from fedconformal.documents import MOST_VOTES, Advice, SiteKind
from fedconformal.planning._ballot import Ballot, Guarantee, Solution
from fedconformal.planning._rule import ranks_by_size
from fedconformal.planning.criteria import CRITERIA, Goal
from fedconformal.planning.promises._base import PROMISES, Promise

_LARGEST_DENOMINATOR = 10**40


@PROMISES.register
class Mixture(Promise):
    """New points that come with known shares from independent sites, which may differ in any way.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 50}, promise="mixture", mixture={"A": 1, "B": 3})
    >>> {site: str(share) for site, share in plan.mixture.items()}
    {'A': '1/4', 'B': '3/4'}
    """

    name: ClassVar[str] = "mixture"
    default_criterion: ClassVar[str] = "marginal"
    default_numbers: ClassVar[int] = 5
    takes_mixture: ClassVar[bool] = True
    is_bound: ClassVar[bool] = True
    allows_groups: ClassVar[bool] = False
    assumption: ClassVar[str] = "known-mixture"
    whose: ClassVar[str] = "the new cases of these sites, mixed as the plan says"
    serves: ClassVar[str] = "the cases of these sites together, mixed with known shares"
    bears_differing_sites: ClassVar[bool] = True
    among: ClassVar[str] = " in the mixture"
    pools: ClassVar[bool] = False
    missing_remedy: ClassVar[str] = "it counts zero here, whatever its cases are like"

    def check_goal(self, goal: Goal, *, is_open: bool, is_searched: bool = True, numbers: int = 1) -> None:
        """Refuse what the counting of a mixture cannot serve."""
        if not goal.criterion.is_mean or goal.criterion.trades_up:
            allowed = [name for name in CRITERIA if CRITERIA[name].is_mean and not CRITERIA[name].trades_up]
            raise ValueError(
                f"criterion must be {' or '.join(allowed)} with promise 'mixture', got "
                f"{goal.criterion.name!r}"
            )
        if goal.max_faulty:
            raise ValueError(
                f"max_faulty must be 0 with promise 'mixture', got {goal.max_faulty}: a wrong report breaks "
                "the promise to its own site's share"
            )
        if not is_searched:
            raise ValueError("local_ranks must be left out with promise 'mixture', whose ranks are searched")
        if is_open:
            raise ValueError(
                "promise 'mixture' needs n_points: the votes of a site depend on its number of scores"
            )

    def check_solution(self, solution: Solution, goal: Goal) -> None:
        """Refuse shares that do not add up to 1, and votes that count more than there is."""
        ballot = solution.ballot
        check_shares(ballot.sites)
        if any(ranks and not kind.share for kind, ranks in zip(ballot.sites, ballot.ranks, strict=True)):
            raise ValueError("a site without a share of the mixture is not asked")
        if solution.is_finite and solution.needed < goal.level * _unit(ballot):
            raise ValueError("the votes needed are too few for a promise to this mixture")

    # -- ranks and votes -------------------------------------------------------------------------------

    def choose(
        self, sites: tuple[SiteKind, ...], goal: Goal, numbers: int, share: Fraction | None
    ) -> Solution:
        """Return steps that follow the sites' counts, and votes that count the mixture."""
        ranks = _ranks(sites, goal, numbers)
        missing = goal.max_missing or 0
        for tried in (ranks, {n: (*each[:-1], n) for n, each in ranks.items()}):
            ballot = _ballot(sites, tried)
            needed = math.ceil(goal.level * _unit(ballot))
            solution = Solution(ballot, needed)
            if ballot.finite_votes >= needed > 0 and self.tolerates(solution, goal, missing):
                return solution
        return Solution(ballot, ballot.total_votes + 1, _advice(sites, goal, missing))

    def solve(self, planned: Solution, answered: Ballot, goal: Goal) -> Solution:
        """Keep the votes that were planned: a missing site counts zero, and the shares stay as they are."""
        if planned.is_finite and answered.finite_votes >= planned.needed:
            return Solution(answered, planned.needed)
        return Solution(answered, answered.total_votes + 1, _advice(answered.sites, goal, 0))

    def tolerates(self, solution: Solution, goal: Goal, n_missing: int) -> bool:
        """Return whether the votes of the others suffice if the sites with most votes are missing."""
        ballot, left, lost = solution.ballot, n_missing, 0
        rows = zip(ballot.sites, ballot.finite_by_kind, strict=True)
        for kind, votes in sorted(rows, key=lambda row: -row[1]):
            lost += min(left, kind.count) * votes
            left -= min(left, kind.count)
        return ballot.finite_votes - lost >= solution.needed

    def guarantee(self, solution: Solution, goal: Goal) -> Guarantee:
        """Return the votes needed, as a share of the mixture."""
        if not solution.is_finite:
            return Guarantee(1.0)
        unit = _unit(solution.ballot)
        if not unit:
            raise ValueError("for a promise to a mixture every site has a share")
        return Guarantee(float(Fraction(solution.needed) / unit))

    # -- words -----------------------------------------------------------------------------------------

    def options(self) -> str:
        """For a mixture."""
        return "for a known mixture of the sites"

    def assumed(self) -> str:
        """Assume known shares, and scores of each site that are exchangeable given the other sites."""
        return (
            "A new case comes from each site with the share that the plan says. Given the model and the "
            "scores of the other sites, the calibration scores of a site and the score of a new case of "
            "that site are exchangeable, as they are if sites are independent of each other, and the model "
            "was not trained on the calibration data; the distributions of the sites may differ in any way. "
            "A site that did not answer counts as if none of its cases were covered."
        )

    def shortfall(self, where: str) -> str:
        """Name changed cases, a site that is covered less, or a calibration that came out low."""
        return (
            f"cases {where} are harder than those of other sites, or have changed since the calibration: the "
            "promise is for the mixture of all sites, and for no single one of them"
        )


def with_shares(sites: Iterable[SiteKind]) -> tuple[SiteKind, ...]:
    """Return the sites with a share each: in proportion to their size plus 1 where none are given."""
    listed = tuple(sites)
    if any(kind.share is not None for kind in listed):
        return listed
    whole = sum(kind.count * (kind.n + 1) for kind in listed)
    return tuple(kind.model_copy(update={"share": Fraction(kind.n + 1, whole)}) for kind in listed)


def check_shares(sites: Iterable[SiteKind]) -> None:
    """Refuse sites without shares, and shares that are no mixture."""
    shares = [(kind.count, kind.share) for kind in sites]
    if any(share is None for _, share in shares):
        raise ValueError("for a promise to a mixture every site has a share")
    if common_denominator((share or Fraction(0) for _, share in shares), _LARGEST_DENOMINATOR) is None:
        raise ValueError("the shares of a mixture must have a common denominator of at most 10^40")
    if sum(count * (share or 0) for count, share in shares) != 1:
        raise ValueError("the shares of a mixture must add up to 1")


def common_denominator(fractions: Iterable[Fraction], most: int) -> int | None:
    """Return the common denominator of fractions; None if it is larger than ``most``."""
    common = 1
    for denominator in {fraction.denominator for fraction in fractions}:
        common = math.lcm(common, denominator)
        if common > most:
            return None
    return common


def _ranks(sites: tuple[SiteKind, ...], goal: Goal, numbers: int) -> dict[int, tuple[int, ...]]:
    """Ranks of each size that has a share."""
    together: dict[int, Fraction] = {}
    for kind in sites:
        if kind.share:
            together[kind.n] = together.get(kind.n, Fraction(0)) + kind.count * kind.share
    if len(sites) == 1 and sites[0].count == 1:
        numbers = 1  # a single site needs its own rank and no other
    sizes = np.array(sorted(together))
    return ranks_by_size(sizes, np.array([float(together[n]) for n in sizes]), goal.level, numbers)


def _ballot(sites: tuple[SiteKind, ...], ranks: dict[int, tuple[int, ...]]) -> Ballot:
    """Make votes in whole numbers, rounded down; a number without votes is not sent."""
    asked = [(kind.n, kind.share) for kind in sites if kind.share]
    steps = {n: max(high - low for low, high in pairwise((0, *ranks[n]))) for n in {n for n, _ in asked}}
    most = min(int(MOST_VOTES * (n + 1) / (share * steps[n])) for n, share in asked)
    unit = common_denominator((share / (n + 1) for n, share in asked), most) or most
    sent = []
    for kind in sites:
        own = ranks[kind.n] if kind.share else ()
        counted = [floor_votes(unit, kind, rank) for rank in own]
        votes = [high - low for low, high in pairwise((0, *counted))]
        sent.append([(rank, vote) for rank, vote in zip(own, votes, strict=True) if vote])
    return Ballot(
        sites,
        tuple(tuple(rank for rank, _ in each) for each in sent),
        tuple(tuple(vote for _, vote in each) for each in sent),
    )


def floor_votes(unit: int, kind: SiteKind, count: int) -> int:
    """Return the votes for ``count`` scores of a site, as its share of ``unit`` votes, rounded down."""
    share = kind.share or Fraction(0)
    return unit * share.numerator * count // (share.denominator * (kind.n + 1))


def _unit(ballot: Ballot) -> Fraction:
    """Fewest votes for which the whole mixture can stand, so that no number has more than its share."""
    return max(
        (
            Fraction(counted * (kind.n + 1), 1) / (kind.share * rank)
            for kind, ranks, votes in zip(ballot.sites, ballot.ranks, ballot.votes, strict=True)
            if kind.share
            for rank, counted in zip(ranks, accumulate(votes), strict=True)
        ),
        default=Fraction(0),
    )


def _advice(sites: Iterable[SiteKind], goal: Goal, n_missing: int) -> Advice:
    """Size that would suffice if every site had it, for the shares that are left if some are missing."""
    left, out, level = Fraction(0), n_missing, goal.level
    for kind in sorted(sites, key=lambda kind: -(kind.share or 0)):
        left += max(kind.count - out, 0) * (kind.share or 0)
        out = max(out - kind.count, 0)
    return Advice(n_points=math.ceil(level / (left - level)) if left > level else None)
