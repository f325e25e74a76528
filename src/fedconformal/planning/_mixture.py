"""A promise for a known mixture of independent sites, whose distributions may differ in
any way.

Site j, of n_j scores, sends those of the ranks l_j1 < l_j2 < ..., and a new point comes
from it with probability w_j. Number i has votes in proportion to w_j (l_ji - l_j,i-1) /
(n_j + 1), so the votes of all numbers up to t are in proportion to a count that never
exceeds what the sites' scores, and one unseen point of each, would give. A threshold at
which they reach the level covers the mixture with that mean probability if each site's
scores, with that of the unseen point, are exchangeable given the scores of the other
sites.

What a site's numbers say of its share of scores below t is a staircase under the true
one. With l_0 = 0, a site of n scores that sends the ranks l_1 < ... < l_r shows on
average sum_i (l_i - l_{i-1}) P(v_i <= t) of them. For one t the best ranks follow from
dynamic programming, for each size alone; the smallest t at which all sites together
show the level follows by bisection. P is that of a federation whose sites differ: the
yardstick that compares plans, all of them valid. No guarantee rests on it.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
from scipy import special

from fedconformal._util import Floats, Ints, rank_of
from fedconformal.documents import MOST_VOTES, Advice, SiteKind
from fedconformal.laws._votes import heaviest
from fedconformal.planning._ballot import Ballot, Guarantee, Sites, Solution
from fedconformal.planning.criteria import Criterion, Goal
from fedconformal.planning.promises import PROMISES, Promise

_LARGEST_DENOMINATOR = 10**40


@PROMISES.register
class Mixture(Promise):
    """New points that come with known shares from independent sites, which may differ
    in any way.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(
    ...     n_points={"A": 100, "B": 50}, promise="mixture", mixture={"A": 1, "B": 3}
    ... )
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
    fixes_ranks: ClassVar[bool] = True
    no_faulty: ClassVar[str] = (
        "a wrong report breaks the promise to its own site's share"
    )
    missing_remedy: ClassVar[str] = "it counts zero here, whatever its cases are like"

    def accepts(self, criterion: Criterion) -> bool:
        """Accept the mean coverage, and nothing beyond it."""
        return criterion.is_mean and not criterion.trades_up

    def check_goal(
        self, goal: Goal, *, is_open: bool, is_searched: bool = True, numbers: int = 1
    ) -> None:
        """Refuse what the counting of a mixture cannot serve."""
        super().check_goal(
            goal, is_open=is_open, is_searched=is_searched, numbers=numbers
        )
        if is_open:
            raise ValueError(
                "promise 'mixture' needs n_points: the votes of a site depend on its"
                " number of scores"
            )

    def check_solution(self, solution: Solution, goal: Goal) -> None:
        """Refuse shares that do not add up to 1, and votes that count more than there
        is.
        """
        ballot = solution.ballot
        check_shares(ballot.sites)
        if any(
            ranks and not kind.share
            for kind, ranks in zip(ballot.sites, ballot.ranks, strict=True)
        ):
            raise ValueError("a site without a share of the mixture is not asked")
        if solution.is_finite and solution.needed < goal.level * _unit(ballot):
            raise ValueError(
                "the votes needed are too few for a promise to this mixture"
            )
        rows = zip(ballot.sites, ballot.ranks, strict=True)
        if not solution.is_finite and any(
            ranks and ranks[-1] < kind.n for kind, ranks in rows
        ):
            raise ValueError(
                "where a level is not reached sites send their largest score"
            )

    # -- ranks and votes ---------------------------------------------------------------

    def choose(
        self, sites: Sites, goal: Goal, numbers: int, share: Fraction | None
    ) -> Solution:
        """Return steps that follow the sites' counts, and votes that count the
        mixture.
        """
        ranks = _ranks(sites, goal, numbers)
        missing = goal.max_missing or 0
        for tried in (ranks, {n: (*each[:-1], n) for n, each in ranks.items()}):
            ballot = _ballot(sites, tried)
            needed = math.ceil(goal.level * _unit(ballot))
            solution = Solution(ballot, needed)
            if ballot.finite_votes >= needed > 0 and self.tolerates(
                solution, goal, missing
            ):
                return solution
        return Solution(
            ballot, ballot.total_votes + 1, advise_mixture(sites, goal, missing)
        )

    def solve(self, planned: Solution, answered: Ballot, goal: Goal) -> Solution:
        """Keep the votes that were planned: a missing site counts zero, and the shares
        stay as they are.
        """
        if planned.is_finite and answered.finite_votes >= planned.needed:
            return Solution(answered, planned.needed)
        return Solution(
            answered, answered.total_votes + 1, advise_mixture(answered.sites, goal, 0)
        )

    def tolerates(self, solution: Solution, goal: Goal, n_missing: int) -> bool:
        """Return whether the votes of the others suffice if the sites with most votes
        are missing.
        """
        ballot = solution.ballot
        lost = heaviest(
            ballot.finite_by_kind, (kind.count for kind in ballot.sites), n_missing
        )
        return ballot.finite_votes - lost >= solution.needed

    def guarantee(self, solution: Solution, goal: Goal) -> Guarantee:
        """Return the votes needed, as a share of the mixture."""
        if not solution.is_finite:
            return Guarantee(1.0)
        unit = _unit(solution.ballot)
        if not unit:
            raise ValueError("for a promise to a mixture every site has a share")
        return Guarantee(float(Fraction(solution.needed) / unit))

    # -- words -------------------------------------------------------------------------

    def options(self) -> str:
        """For a mixture."""
        return "for a known mixture of the sites"

    def assumed(self) -> str:
        """Assume known shares, and scores of each site that are exchangeable given the
        other sites.
        """
        return (
            "A new case comes from each site with the share that the plan says. Given"
            " the model and the scores of the other sites, the calibration scores of a"
            " site and the score of a new case of that site are exchangeable, as they"
            " are if sites are independent of each other, and the model was not trained"
            " on the calibration data; the distributions of the sites may differ in any"
            " way. A site that did not answer counts as if none of its cases were"
            " covered."
        )

    def shortfall(self, where: str) -> str:
        """Name changed cases, a site that is covered less, or a calibration that came
        out low.
        """
        return (
            f"cases {where} are harder than those of other sites, or have changed since"
            " the calibration: the promise is for the mixture of all sites, and for no"
            " single one of them"
        )


def with_shares(sites: Iterable[SiteKind]) -> Sites:
    """Return the sites with a share each: in proportion to their size plus 1 where none
    are given.
    """
    listed = tuple(sites)
    if any(kind.share is not None for kind in listed):
        return listed
    whole = sum(kind.count * (kind.n + 1) for kind in listed)
    return tuple(
        kind.model_copy(update={"share": Fraction(kind.n + 1, whole)})
        for kind in listed
    )


def check_shares(sites: Iterable[SiteKind]) -> None:
    """Refuse sites without shares, and shares that are no mixture."""
    shares = [(kind.count, kind.share) for kind in sites]
    if any(share is None for _, share in shares):
        raise ValueError("for a promise to a mixture every site has a share")
    if (
        common_denominator(
            (share or Fraction(0) for _, share in shares), _LARGEST_DENOMINATOR
        )
        is None
    ):
        raise ValueError(
            "the shares of a mixture must have a common denominator of at most 10^40"
        )
    if sum(count * (share or 0) for count, share in shares) != 1:
        raise ValueError("the shares of a mixture must add up to 1")


def common_denominator(fractions: Iterable[Fraction], most: int) -> int | None:
    """Return the common denominator of fractions; None if it is larger than
    ``most``.
    """
    common = 1
    for denominator in {fraction.denominator for fraction in fractions}:
        common = math.lcm(common, denominator)
        if common > most:
            return None
    return common


def _ranks(sites: Sites, goal: Goal, numbers: int) -> dict[int, tuple[int, ...]]:
    """Ranks of each size that has a share."""
    together: dict[int, Fraction] = {}
    for kind in sites:
        if kind.share:
            together[kind.n] = (
                together.get(kind.n, Fraction(0)) + kind.count * kind.share
            )
    if len(sites) == 1 and sites[0].count == 1:
        numbers = 1  # a single site needs its own rank and no other
    sizes = np.array(sorted(together))
    return ranks_by_size(
        sizes, np.array([float(together[n]) for n in sizes]), goal.level, numbers
    )


def _ballot(sites: Sites, ranks: dict[int, tuple[int, ...]]) -> Ballot:
    """Make votes in whole numbers, rounded down; a number without votes is not sent."""
    asked = [(kind.n, kind.share) for kind in sites if kind.share]
    steps = {
        n: max(high - low for low, high in pairwise((0, *ranks[n])))
        for n in {n for n, _ in asked}
    }
    most = min(int(MOST_VOTES * (n + 1) / (share * steps[n])) for n, share in asked)
    unit = common_denominator((share / (n + 1) for n, share in asked), most) or most
    sent = []
    for kind in sites:
        own = ranks[kind.n] if kind.share else ()
        counted = [floor_votes(unit, kind, rank) for rank in own]
        votes = [high - low for low, high in pairwise((0, *counted))]
        sent.append(
            [(rank, vote) for rank, vote in zip(own, votes, strict=True) if vote]
        )
    return Ballot(
        sites,
        tuple(tuple(rank for rank, _ in each) for each in sent),
        tuple(tuple(vote for _, vote in each) for each in sent),
    )


def floor_votes(unit: int, kind: SiteKind, count: int, parts: int = 1) -> int:
    """Return the votes for ``count`` parts of a site's cases: its share of ``unit``
    votes, rounded down.
    """
    share = kind.share or Fraction(0)
    return unit * share.numerator * count // (share.denominator * (kind.n + 1) * parts)


def _unit(ballot: Ballot) -> Fraction:
    """Fewest votes for which the whole mixture can stand, so that no number has more
    than its share.
    """
    return max(
        (
            Fraction(counted * (kind.n + 1), 1) / (kind.share * rank)
            for kind, ranks, votes in zip(
                ballot.sites, ballot.ranks, ballot.votes, strict=True
            )
            if kind.share
            for rank, counted in zip(ranks, accumulate(votes), strict=True)
        ),
        default=Fraction(0),
    )


def advise_mixture(sites: Iterable[SiteKind], goal: Goal, n_missing: int) -> Advice:
    """Return the size that would suffice if every site had it, for the shares that are
    left if some miss.
    """
    left, out, level = Fraction(0), n_missing, goal.level
    for kind in sorted(sites, key=lambda kind: -(kind.share or 0)):
        left += max(kind.count - out, 0) * (kind.share or 0)
        out = max(out - kind.count, 0)
    return Advice(n_points=math.ceil(level / (left - level)) if left > level else None)


# -- the yardstick: scores are half-normal, and the scales of the sites are log-normal -


_SPREAD = 1 / 3  # standard deviation of the logarithm of a site's scale
_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(41)
_SCALES, _WEIGHTS = np.exp(_SPREAD * _NODES), _MASSES / _MASSES.sum()
_RANKS = 140  # tried for a size, closer to each other where scores are large
_SIZES = 8  # that are searched; others get the ranks of the next one, in proportion


def reported_below(ranks: Ints, n: int, t: float) -> Floats:
    """Return for each rank the probability that a site's score of this rank is at most
    t.

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


def smallest_threshold(reaches: Callable[[float], bool], *, halvings: int) -> float:
    """Return the smallest threshold of the yardstick that suffices, up to rounding; the
    highest if none does.

    Parameters
    ----------
    reaches : callable
        Returns whether a threshold suffices, as all larger ones then do.
    halvings : int
        Number of steps of the bisection between 0.001 and 1000.

    Returns
    -------
    float
    """
    low, high = 1e-3, 1e3
    for _ in range(halvings):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


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
        return {
            int(n_points[0]): (min(rank_of(level, int(n_points[0])), int(n_points[0])),)
        }
    looked_at = np.unique(
        np.quantile(n_points, np.linspace(0, 1, _SIZES), method="nearest")
    )
    which = np.abs(np.log(n_points[:, None] / looked_at)).argmin(axis=1)
    stairs = [_Stairs(int(n), numbers) for n in looked_at]
    weights: Floats = np.array(
        [float(shares[which == i].sum()) for i in range(looked_at.size)]
    )

    def shows_level(t: float) -> bool:
        shown = sum(
            w * stair.best(t)[0] for stair, w in zip(stairs, weights, strict=True)
        )
        return bool(shown >= float(level))

    t = smallest_threshold(shows_level, halvings=20)
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
        """Return the largest share that can be shown to lie below t on average, and its
        ranks.
        """
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


def _stretch(ranks: Ints, n: int, to: int) -> tuple[int, ...]:
    """Return the same shares of another number of scores."""
    places = -(-ranks * (to + 1) // (n + 1)) if n != to else ranks
    return tuple(sorted({min(max(int(place), 1), to) for place in places.tolist()}))
