"""A promise for a site that was not there: sites are drawn from one population of
sites, and may differ.

On average over new sites: every site sends a few of its cases, drawn at random, and a
case of a new site is a random draw from one more site like them. For most new sites,
one by one: every site sends a number that lies above its own level-quantile with a
chance of at least eta. Were the new site's coverage C below the level, its own number
would exceed the threshold with that chance; so E[chance] <= 1 - k / (m + 1), and C is
below the level at no more than (1 - k / (m + 1)) / eta of new sites.
"""

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy import special

from fedconformal._text import USUAL_CLAIM, percent
from fedconformal.documents import LARGEST_N, MOST_SITES, Advice, RankRule, total_sites
from fedconformal.planning._ballot import Ballot, Guarantee, Sites, Solution
from fedconformal.planning._choosing import smallest
from fedconformal.planning._mixture import reported_below, smallest_threshold
from fedconformal.planning.criteria import Criterion, Goal
from fedconformal.planning.promises import (
    MARGIN,
    PROMISES,
    Promise,
    chance_above,
    rank_above,
)

_CANDIDATES = 32  # numbers of votes that are compared
# a threshold up to this multiple of the lowest is accepted to tolerate a missing site
_NEAR = 1.02
_DIGITS = 10**6  # chances are rounded down to multiples of its inverse


@PROMISES.register
class NewSite(Promise):
    """New points of a site that took no part, of the population of sites that the
    others came from.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.plan(n_sites=40, n_points=9, promise="new-site").guarantee.mean >= 0.9
    True
    """

    name: ClassVar[str] = "new-site"
    default_criterion: ClassVar[str] = "marginal"
    is_bound: ClassVar[bool] = True
    allows_groups: ClassVar[bool] = False
    assumption: ClassVar[str] = "sites-exchangeable"
    whose: ClassVar[str] = "the cases of a new site"
    serves: ClassVar[str] = (
        "the cases of a site that took no part, one of the same kind"
    )
    bears_differing_sites: ClassVar[bool] = True
    among: ClassVar[str] = " at a new site"
    pools: ClassVar[bool] = False
    missing_remedy: ClassVar[str] = (
        "to tolerate one, plan with max_missing=1 (--max-missing 1), if there are sites"
        " enough"
    )

    fixes_ranks: ClassVar[bool] = True
    is_for_new_sites: ClassVar[bool] = True
    no_faulty: ClassVar[str] = (
        "the sites are a sample, and a wrong report is not one of them"
    )

    def accepts(self, criterion: Criterion) -> bool:
        """Accept a mean over new sites and nothing beyond it, or a share of them."""
        return (criterion.is_mean and not criterion.trades_up) or criterion.takes_delta

    def message(self, goal: Goal) -> str:
        """Return ranks for new sites one by one, and random cases for the mean over new
        sites.
        """
        return "ranks" if goal.criterion.takes_delta else "cases"

    def check_goal(
        self, goal: Goal, *, is_open: bool, is_searched: bool = True, numbers: int = 1
    ) -> None:
        """Refuse what does not serve a new site."""
        super().check_goal(
            goal, is_open=is_open, is_searched=is_searched, numbers=numbers
        )
        if goal.criterion.takes_delta and numbers > 1:
            raise ValueError(
                "numbers must be 1 with promise 'new-site' and the"
                f" {goal.criterion.name} criterion, got {numbers}"
            )

    def check_solution(self, solution: Solution, goal: Goal) -> None:
        """Refuse ranks that do not keep the chance eta, and too few votes."""
        ballot, eta = solution.ballot, _eta(solution)
        if not eta:
            raise ValueError(
                "for a promise to new sites one by one a level has its eta"
            )
        for kind, ranks, votes in zip(
            ballot.sites, ballot.ranks, ballot.votes, strict=True
        ):
            if votes != (1,) or chance_above(kind.n, ranks[0], goal.level) < float(eta):
                raise ValueError(
                    "a site's rank must keep the chance eta, and have one vote"
                )
        if solution.needed < self.solve(solution, ballot, goal).needed:
            raise ValueError("the votes needed are too few for a promise to a new site")

    # -- ranks and votes, with a delta; on average over new sites, cases are drawn at ra

    def open_rule(
        self, goal: Goal, numbers: int, share: Fraction | None, n_sites: int | None
    ) -> RankRule:
        """Return a rule by the chance that all sites keep, which depends on the number
        of sites.
        """
        if n_sites is None:
            raise ValueError(
                f"promise 'new-site' with the {goal.criterion.name} criterion needs"
                " n_sites: the rank that sites send depends on how many there are"
            )
        eta = NewSiteGoal(n_sites, goal).choose_eta()
        if eta is None:
            fewest = int(1 / goal.delta) + (goal.max_missing or 0)
            raise ValueError(
                f"promise 'new-site' with delta {float(goal.delta):g} needs at least"
                f" {fewest} sites, got {n_sites}"
            )
        return RankRule(eta=eta)

    def choose(
        self, sites: Sites, goal: Goal, numbers: int, share: Fraction | None
    ) -> Solution:
        """Return the ranks that follow from the chance that all sites keep."""
        size = sites[0].n if len(sites) == 1 else None
        eta = NewSiteGoal(total_sites(sites), goal).choose_eta(size) or Fraction(
            99, 100
        )
        ballot = Ballot.from_ranks(
            sites, ((rank_above(kind.n, goal.level, eta),) for kind in sites)
        )
        solution = self.solve(
            Solution(ballot, 1, None, RankRule(eta=eta)), ballot, goal
        )
        if solution.is_finite and not self.tolerates(
            solution, goal, goal.max_missing or 0
        ):
            return replace(
                solution, needed=ballot.n_sites + 1, advice=_advice(solution, goal)
            )
        return solution

    def solve(self, planned: Solution, answered: Ballot, goal: Goal) -> Solution:
        """Return votes with which few new sites' own numbers would be larger than the
        threshold.
        """
        needed = votes_needed(answered.n_sites, goal.delta, _eta(planned))
        solution = Solution(answered, needed, None, planned.rule)
        if needed <= answered.finite_votes:
            return solution
        return replace(
            solution, needed=answered.n_sites + 1, advice=_advice(solution, goal)
        )

    def tolerates(self, solution: Solution, goal: Goal, n_missing: int) -> bool:
        """Return whether the others suffice if sites with finite numbers are
        missing.
        """
        left = solution.ballot.n_sites - n_missing
        needed = votes_needed(left, goal.delta, _eta(solution))
        return left > 0 and needed <= solution.ballot.finite_votes - n_missing

    def guarantee(self, solution: Solution, goal: Goal) -> Guarantee:
        """Return the share of new sites that reach the level."""
        if not solution.is_finite:
            return Guarantee(1.0, 1.0, 1.0)
        missed = (1 - Fraction(solution.needed, solution.ballot.n_sites + 1)) / (
            _eta(solution) or 1
        )
        return Guarantee(None, float(goal.level), float(1 - missed))

    # -- words -------------------------------------------------------------------------

    def options(self) -> str:
        """For a new site."""
        return "for a new site"

    def sentence(
        self,
        criterion: Criterion,
        level: float,
        delta: float | None,
        *,
        group: str = "",
        claim: str = USUAL_CLAIM,
        condition: str | None = None,
    ) -> str:
        """Return the average over sites, or the share of sites at which the level is
        reached.
        """
        where, whose, mean = "On average over new sites", "a site's cases", ""
        if criterion.takes_delta:
            share = percent(float(1 - Decimal(str(delta))))
            where, whose, mean = (
                f"At {share} of new sites or more",
                "the site's cases",
                " on average",
            )
        said = claim.format(share=percent(level), whose=f"{whose}{group}", mean=mean)
        return f"{where}, {said}."

    def assumed(self) -> str:
        """Sites are exchangeable, with their sizes."""
        return (
            "The sites that took part and the new site are exchangeable, with how many"
            " cases they have: drawn from one population of sites, each with a"
            " distribution of its own. Given the model, the scores of a site are"
            " independent and identically distributed, and the model was trained on"
            " none of them. Where sites drew cases at random, the plan's round was"
            " drawn at random too, and not chosen among several."
        )

    def shortfall(self, where: str) -> str:
        """Coverage differs between sites."""
        return (
            f"cases {where} are harder than those of most sites, which the promise"
            " allows for some of them: it is for new sites together, and for no single"
            " one of them"
        )


def _eta(solution: Solution) -> Fraction:
    eta = None if solution.rule is None else solution.rule.eta
    return Fraction(0) if eta is None else eta


def _advice(solution: Solution, goal: Goal) -> Advice:
    """More sites of the smallest size, or more points at as many sites."""
    ballot = solution.ballot
    n = min(kind.n for kind in ballot.sites)
    new_site = NewSiteGoal(ballot.n_sites, goal)
    points, sites = (
        new_site.smallest_n_points(_eta(solution)),
        new_site.smallest_n_sites(n),
    )
    return Advice(
        n_points=points if points is None or points > n else None,
        n_sites=sites if sites is None or sites > ballot.n_sites else None,
    )


# -- the chance that all sites keep ----------------------------------------------------


@dataclass(frozen=True)
class NewSiteGoal:
    """Coverage of at least the level at a share 1 - delta of new sites, by the reports
    of m sites.

    Parameters
    ----------
    m : int
        Number of sites.
    goal : Goal
        Level, delta and missing sites.
    """

    m: int
    goal: Goal

    def choose_eta(self, size: int | None = None) -> Fraction | None:
        """Return the chance that all sites keep, for a declared size; None if no chance
        below 1 suffices.

        It does not depend on the scores of the sites.

        Parameters
        ----------
        size : int, optional
            Size of every site, where they are alike.

        Returns
        -------
        Fraction or None
            The best by the yardstick of sites that differ.
        """
        missing = self.goal.max_missing or 0
        if self.least_eta(missing) is None:
            return None
        cost, chosen = self._best(missing, size)
        if self.goal.max_missing is None and self.least_eta(1) is not None:
            other, tolerant = self._best(1, size)
            return tolerant if other <= _NEAR * cost else chosen
        return chosen

    def least_eta(self, n_missing: int) -> Fraction | None:
        """Return the smallest chance that suffices if this many sites are missing; None
        if none below 1.
        """
        if self.m - n_missing < 1:
            return None
        least = 1 / ((self.m - n_missing + 1) * self.goal.delta)
        return least if least < 1 else None

    def _best(self, n_missing: int, size: int | None) -> tuple[float, Fraction]:
        """Return the lowest threshold of several numbers of votes, and its chance."""
        level, delta, least = (
            self.goal.level,
            self.goal.delta,
            self.least_eta(n_missing),
        )
        assert least is not None
        n, first = (
            size or math.ceil(10 / (1 - level)),
            math.ceil((self.m + 1) * (1 - delta)),
        )
        choices = [(math.inf, least)]
        for k in (
            np.unique(np.linspace(first, self.m, _CANDIDATES).astype(int))
            if first <= self.m
            else ()
        ):
            eta = max((1 - Fraction(int(k), self.m + 1)) / delta, least)
            if eta >= 1 or (rank := rank_above(n, level, eta)) > n:
                continue
            if size is not None:  # the chance of the rank as a short fraction below it
                chance = chance_above(n, rank, level) - 2 * MARGIN
                eta = max(Fraction(math.floor(chance * _DIGITS), _DIGITS), eta)
            choices.append(
                (
                    _usual_threshold(n, rank, self.m, votes_needed(self.m, delta, eta)),
                    eta,
                )
            )
        return min(choices)

    def smallest_n_sites(self, n: int) -> int | None:
        """Return the number of sites of this size that would suffice."""
        finite = Fraction(chance_above(n, n, self.goal.level) - 2 * MARGIN)
        if finite * self.goal.delta * MOST_SITES < 1:
            return None
        return math.floor(1 / (self.goal.delta * finite)) + (self.goal.max_missing or 0)

    def smallest_n_points(self, eta: Fraction) -> int | None:
        """Return the size at which this many sites would suffice with this chance; None
        if none would.
        """
        least = self.least_eta(self.goal.max_missing or 0)
        if least is None:
            return None
        chance = max(least, eta)
        return smallest(
            lambda n: rank_above(n, self.goal.level, chance) <= n,
            start=1,
            stop=LARGEST_N,
        )


def _usual_threshold(n: int, rank: int, m: int, k: int) -> float:
    """Return the median of the k-th smallest of the reports of m sites of n scores, by
    the yardstick.
    """

    def is_reached(t: float) -> bool:
        below = reported_below(np.array([rank]), n, t)[0]
        return bool(special.betainc(k, m - k + 1, below) >= 0.5)

    return smallest_threshold(is_reached, halvings=24)


def votes_needed(m: int, delta: Fraction, eta: Fraction) -> int:
    """Return the votes with which at most a share delta of new sites falls below the
    level.

    Parameters
    ----------
    m : int
        Number of sites that answered.
    delta, eta : Fraction
        Share of new sites that may miss the level, and the chance that every site
        keeps.

    Returns
    -------
    int
        ``ceil((m + 1) (1 - delta eta))``, which may be above m.
    """
    return math.ceil((m + 1) * (1 - delta * eta))
