"""Promises: whose new points are covered, and what that asks of the ranks.

Promises for one population and for each site are here, those for a mixture and for a
new site in files of their own. To every site individually, site j sends the rank that
split conformal prediction would use on its own scores, and the server keeps the largest
report. The threshold is then at least site j's own for every j, so a point of site j is
covered at least as often as by site j's own threshold, whatever the other sites are
like.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt
from typing import ClassVar

from scipy import special

from fedconformal._text import USUAL_CLAIM
from fedconformal._util import Registry, rank_of
from fedconformal.documents import LARGEST_N, Advice, RankRule, total_sites
from fedconformal.laws import CoverageLaw, EachSiteLaw
from fedconformal.planning._ballot import Ballot, Guarantee, Sites, Solution
from fedconformal.planning._choosing import (
    choose_ranks,
    refutes,
    smallest,
    solve_votes,
    tolerates,
)
from fedconformal.planning.criteria import CRITERIA, Criterion, Goal

PROMISES: "Registry[Promise]" = Registry("promise", "fedconformal.promises")
"""All promises by name."""
MARGIN = 1e-9
"""A chance exceeds what is asked for by this much, so that rounding never decides."""

_MARGIN = Fraction(1, 10**12)


# -- rules by which sites of unknown size find their ranks -----------------------------


def chance_above(n: int, rank: int, level: Fraction) -> float:
    """Return the probability that the score of this rank lies above the level-quantile
    of the site's scores.

    Parameters
    ----------
    n, rank : int
        Size of the site, and the rank that it sends; n + 1 stands for +inf.
    level : Fraction
        Level of the quantile.

    Returns
    -------
    float
        ``1 - I(level; rank, n - rank + 1)``.
    """
    return (
        1.0
        if rank > n
        else float(special.betainc(n - rank + 1, rank, float(1 - level)))
    )


def rank_above(n: int, level: Fraction, eta: Fraction) -> int:
    """Return the smallest rank whose score lies above the level-quantile with a chance
    of at least eta.

    Parameters
    ----------
    n : int
        Size of the site.
    level, eta : Fraction
        Level of the quantile, and the chance.

    Returns
    -------
    int
        n + 1 where no score does.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.planning import rank_above
    >>> rank_above(100, Fraction(9, 10), Fraction(1, 2))
    91
    """
    least = float(eta) + MARGIN
    return 1 + bisect_left(
        range(1, n + 1), True, key=lambda rank: chance_above(n, rank, level) >= least
    )


def ranks_of_rule(rule: RankRule, level: Fraction, n: int) -> tuple[int, ...]:
    """Return the ranks that a site of n scores sends by a rule, in increasing order; n
    + 1 stands for +inf.

    Parameters
    ----------
    rule : RankRule
        The rule, which all sites follow.
    level : Fraction
        The confidence level.
    n : int
        Number of scores of the site; one with fewer scores than numbers sends all it
        has.

    Returns
    -------
    tuple of int
        One rank, or several between 1 and n.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.documents import RankRule
    >>> from fedconformal.planning import ranks_of_rule
    >>> ranks_of_rule(RankRule(share=Fraction(9, 10)), Fraction(9, 10), 99)
    (90,)
    """
    if rule.eta is not None:
        return (rank_above(n, level, rule.eta),)
    assert rule.share is not None
    middle = rank_of(rule.share, n)
    if rule.spacing is None:
        return (middle,)
    numbers = min(rule.numbers, n)
    step = min(_step(rule.spacing, level, n), (n - 1) // max(numbers - 1, 1)) or 1
    first = min(max(middle - (numbers - 1) * step // 2, 1), n - (numbers - 1) * step)
    return tuple(first + i * step for i in range(numbers))


def _step(spacing: Fraction, level: Fraction, n: int) -> int:
    """Return ``spacing * sqrt(n level (1 - level))`` as a whole number, rounded up from
    0.4 on; at least 1.

    Too wide costs less than too narrow: over many sizes this is never worse than the
    nearest number.
    """
    square = 25 * spacing**2 * n * level * (1 - level)
    return max(1, (3 + isqrt(square.numerator // square.denominator)) // 5)


def usual_spacing(numbers: int) -> Fraction | None:
    """Return the spacing at which this many numbers locate a level's quantile best,
    roughly.

    Parameters
    ----------
    numbers : int
        Number of scores that a site sends.

    Returns
    -------
    Fraction or None
        In standard deviations of a site's count; None for one number.

    Examples
    --------
    >>> from fedconformal.planning import usual_spacing
    >>> usual_spacing(1), usual_spacing(3)
    (None, Fraction(29, 33))
    """
    return None if numbers == 1 else Fraction(29, 10 * numbers + 3)


# -- promises --------------------------------------------------------------------------


@dataclass(frozen=True)
class Promise(ABC):
    """A population of new points, and the ranks, votes, distribution and assumptions
    that cover it.

    Examples
    --------
    >>> from fedconformal.planning import PROMISES
    >>> PROMISES["population"]().whose
    'new cases'
    """

    name: ClassVar[str]
    default_criterion: ClassVar[str]
    """The criterion that is meant where none is chosen."""
    default_numbers: ClassVar[int] = 1
    """Numbers that a site sends by default."""
    takes_mixture: ClassVar[bool] = False
    """True if it is for new points that come from the sites with known shares."""
    is_bound: ClassVar[bool] = False
    """True if its ``law`` is a bound of the distribution of the coverage."""
    allows_groups: ClassVar[bool] = True
    """True if it can be given for each group of points."""
    smallest_decides: ClassVar[bool] = False
    """True if one site with too few points makes the threshold infinite, so that
    leaving it out helps.
    """
    bears_differing_sites: ClassVar[bool] = False
    """True if it holds however the sites differ from each other."""
    fixes_ranks: ClassVar[bool] = False
    """True if ranks cannot be given."""
    is_for_new_sites: ClassVar[bool] = False
    """True if the promise is about sites that the plan does not have."""
    is_for_each_case: ClassVar[bool] = False
    """True if every case of these sites is missed with at most the same chance, so that
    evidence of several sites may be multiplied.
    """
    is_for_answered_sites: ClassVar[bool] = False
    """True if nothing is promised to cases of a site that did not answer."""
    no_faulty: ClassVar[str] = ""
    """Reason why no site may be faulty; empty if some may."""
    assumption: ClassVar[str]
    """Code of what it rests on, as a calibration holds it."""

    def message(self, goal: Goal) -> str:
        """Return the name of the message that sites send unless another is asked
        for.
        """
        return "ranks"

    # -- what goes together ------------------------------------------------------------

    def accepts(self, criterion: Criterion) -> bool:
        """Return whether the promise can be given under a criterion."""
        return True

    def check_goal(
        self, goal: Goal, *, is_open: bool, is_searched: bool = True, numbers: int = 1
    ) -> None:
        """Refuse what does not go together with this promise.

        Parameters
        ----------
        goal : Goal
            Level, criterion, delta and max_faulty.
        is_open : bool
            True if the sizes of the sites are unknown.
        is_searched : bool
            True if the local ranks are left to planning.
        numbers : int
            Largest number of scores that a site sends.

        Raises
        ------
        ValueError
            If this promise cannot be given like that.
        """
        if not self.accepts(goal.criterion):
            allowed = " or ".join(
                name for name in CRITERIA if self.accepts(CRITERIA[name]())
            )
            raise ValueError(
                f"criterion must be {allowed} with promise {self.name!r}, got"
                f" {goal.criterion.name!r}"
            )
        if goal.max_faulty and self.no_faulty:
            raise ValueError(
                f"max_faulty must be 0 with promise {self.name!r}, got"
                f" {goal.max_faulty}: {self.no_faulty}"
            )
        if not is_searched and self.fixes_ranks:
            raise ValueError(
                f"local_ranks must be left out with promise {self.name!r}, which"
                " chooses the ranks"
            )

    def check_solution(self, solution: Solution, goal: Goal) -> None:
        """Refuse ranks and votes that cannot keep this promise, whatever their
        distribution.
        """
        return

    def breaks_promise(self, solution: Solution, goal: Goal, most_work: int) -> bool:
        """Return whether ranks and votes that pass `check_solution` do not keep this
        promise.
        """
        return False

    # -- ranks and votes ---------------------------------------------------------------

    def open_rule(
        self, goal: Goal, numbers: int, share: Fraction | None, n_sites: int | None
    ) -> RankRule:
        """Return the rule by which sites of unknown size find their ranks."""
        return RankRule(
            share=goal.level if share is None else share,
            numbers=numbers,
            spacing=usual_spacing(numbers),
        )

    @abstractmethod
    def choose(
        self, sites: Sites, goal: Goal, numbers: int, share: Fraction | None
    ) -> Solution:
        """Return the best ranks and votes for these sites."""

    @abstractmethod
    def solve(self, planned: Solution, answered: Ballot, goal: Goal) -> Solution:
        """Return the solution for the sites that answered with the planned ranks."""

    @abstractmethod
    def tolerates(self, solution: Solution, goal: Goal, n_missing: int) -> bool:
        """Return whether a finite threshold is left, whichever sites are missing."""

    def law(self, solution: Solution, goal: Goal) -> CoverageLaw | None:
        """Return the distribution of the coverage, or a bound of it; None for a promise
        that has none.
        """
        return None

    def guarantee(self, solution: Solution, goal: Goal) -> Guarantee:
        """Return the guarantee; by default the mean of the distribution and the chance
        to reach the level.
        """
        law, level = self.law(solution, goal), float(goal.level)
        assert law is not None
        return Guarantee(law.mean(), level, float(law.sf(level)))

    # -- words -------------------------------------------------------------------------

    serves: ClassVar[str] = ""
    """New cases that are covered, for a list of promises; empty: as ``whose`` says."""
    law_note: ClassVar[str] = ""
    """Sentences about what the law does not contain, with ``{condition}`` for the
    condition on the sites.
    """
    condition: ClassVar[str] = ""
    """Condition on the sites where all cases have one threshold; empty if sites may
    differ. `PromiseScope` decides which condition a grouping has.
    """
    condition_in_groups: ClassVar[str] = ""
    """Condition on the sites where each group of cases has a threshold from several
    sites, with ``{kind}`` for the kind of group.
    """
    missing_remedy: ClassVar[str] = (
        "to tolerate one, plan with max_missing=1 (--max-missing 1)"
    )
    """Remedy for a missing site, as the end of a sentence."""

    whose: ClassVar[str] = "new cases"
    """Cases whose truth is covered, in a sentence."""
    among: ClassVar[str] = ""
    """Place that the share covered refers to, as in "the share covered at each single
    site".
    """
    bound_of: ClassVar[str] = ""
    """Quantity that its law bounds, where it is a bound, for the heading of a table:
    "each single site".
    """
    pools: ClassVar[bool] = True
    """True if pooling all cases would satisfy the same promise, and so can be compared
    with.
    """

    def options(self) -> str:
        """Return a few words for a line on a terminal; empty for the usual promise."""
        return f"promise {self.name}"

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
        """Return the promise as a sentence, with its condition.

        ``group`` follows whose cases are meant, and ``claim`` is what the score
        promises to them. ``condition`` is that of the grouping; left out, that of one
        threshold for all cases.
        """
        if condition is None:
            condition = self.condition
        whose = f"{self.whose}{group}"
        if condition:
            whose = f"{whose}, {condition}"
        return criterion.promise(level, whose, delta, claim)

    @abstractmethod
    def assumed(self) -> str:
        """Return the assumptions of the promise, described."""

    def assumed_in_groups(self) -> str:
        """Return the assumptions of a threshold for each group of points, each from
        several sites.
        """
        return f"In each group individually: {self.assumed()}"

    def assumed_by_site(self, *, has_labels: bool) -> str:
        """Return the assumptions of thresholds that each come from one site and serve
        that site alone.

        Parameters
        ----------
        has_labels : bool
            True if a site has a threshold for each label or class.
        """
        if has_labels:
            given, whose = "the model and all labels", "a group at one site"
            same, differing = "that group at that site", "sites and groups may"
        else:
            given, whose = "the model", "a site"
            same, differing = "that site", "sites may"
        return (
            f"Given {given}, the calibration scores of {whose} and the score of a new"
            f" case of {same} are independent and identically distributed;"
            f" {differing} differ in any way. The model was not trained on the"
            " calibration data."
        )

    def shortfall_of_own_threshold(self, where: str) -> str:
        """Explain the same as `shortfall` where the site has a threshold of its own."""
        return (
            f"cases {where} have changed since the calibration, or it came out low for"
            " this site: if they have not changed,"
        )

    @abstractmethod
    def shortfall(self, where: str) -> str:
        """Explain why new cases may be covered too rarely: two causes, and the
        condition of the second.

        Parameters
        ----------
        where : str
            The place, as in ``"here"``.
        """


@PROMISES.register
class Population(Promise):
    """New points of the population that all sites' scores were drawn from.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.plan(n_sites=10, n_points=100, promise="population").law.mean() >= 0.9
    True
    """

    name: ClassVar[str] = "population"
    default_criterion: ClassVar[str] = "stable"
    assumption: ClassVar[str] = "alike"
    is_for_each_case: ClassVar[bool] = True
    condition: ClassVar[str] = "if the model errs equally at every site"
    condition_in_groups: ClassVar[str] = (
        "if the model errs equally on each {kind} at every site"
    )
    serves: ClassVar[str] = "new cases, if the model errs equally at every site"
    law_note: ClassVar[str] = (
        "The distribution of the coverage shows how it varies from one calibration to"
        " the next {condition}. If sites differ, coverage at a single site can fall"
        " outside this range."
    )

    def choose(
        self, sites: Sites, goal: Goal, numbers: int, share: Fraction | None
    ) -> Solution:
        """Search ranks and votes together."""
        return choose_ranks(sites, goal, numbers, share)

    def breaks_promise(self, solution: Solution, goal: Goal, most_work: int) -> bool:
        """Return whether the distribution of the coverage does not satisfy the
        criterion.

        Where no votes do, sites send their largest score alone, or the rank that the
        rule fixes.
        """
        if solution.is_finite:
            return refutes(solution.ballot, solution.needed, goal, most_work)
        rows = zip(solution.ballot.sites, solution.ballot.ranks, strict=True)
        return solution.rule is None and any(
            ranks not in ((), (kind.n,)) for kind, ranks in rows
        )

    def solve(self, planned: Solution, answered: Ballot, goal: Goal) -> Solution:
        """Return the best valid number of votes for the sites that answered."""
        return Solution(
            answered, *solve_votes(answered, goal, planned.rule), planned.rule
        )

    def tolerates(self, solution: Solution, goal: Goal, n_missing: int) -> bool:
        """Return whether the remaining sites have a valid number of votes."""
        return tolerates(solution.ballot, goal, n_missing)

    def law(self, solution: Solution, goal: Goal) -> CoverageLaw:
        """Return the distribution of the coverage, which follows from the votes below
        it.
        """
        return solution.ballot.law(solution.needed, goal.max_faulty)

    def options(self) -> str:
        """Nothing: it is the usual one."""
        return ""

    def assumed(self) -> str:
        """Scores are independent and identically distributed."""
        return (
            "Given the model, the calibration scores of all sites and the score of a"
            " new case are independent and identically distributed, and the model was"
            " not trained on the calibration data."
        )

    def assumed_in_groups(self) -> str:
        """Assume the same in each group."""
        return (
            "In each group individually, given the model and all labels, the"
            " calibration scores of all sites and the score of a new case are"
            " independent and identically distributed; groups may differ in any way,"
            " and sites in how many cases of each they have. The model was not trained"
            " on the calibration data."
        )

    def shortfall(self, where: str) -> str:
        """Name a site that differs, or a calibration that came out low."""
        return (
            f"cases {where} differ from those of other sites, or this calibration came"
            " out low for everybody: if all sites are alike,"
        )


@dataclass(frozen=True)
class EachSiteGuarantee(Guarantee):
    """Guarantee for each single site, not for all sites at once.

    Attributes
    ----------
    mean, coverage, probability : float
        As of `Guarantee`, for any single site.
    all_sites : float or None
        All sites reach ``coverage`` at once with at least this probability, by the
        union bound.

    Examples
    --------
    >>> import fedconformal as fc
    >>> options = {"promise": "each-site", "criterion": "conditional", "delta": 0.3}
    >>> plan = fc.plan(n_sites=30, n_points=50, confidence_level=0.8, **options)
    >>> round(plan.guarantee.probability, 4), round(plan.guarantee.all_sites, 2)
    (0.9943, 0.83)
    """

    all_sites: float | None = None

    @classmethod
    def from_law(
        cls, worst: CoverageLaw, level: float, misses: Iterable[tuple[int, float]]
    ) -> "EachSiteGuarantee":
        """Return the guarantee that follows from the coverage of the sites' own
        thresholds.

        Parameters
        ----------
        worst : CoverageLaw
            The worst of the distributions.
        level : float
            The confidence level.
        misses : iterable of (int, float)
            Number of sites of each kind, and the probability that one of them does not
            reach the level by its own threshold.

        Returns
        -------
        EachSiteGuarantee
        """
        missed = sum(number * chance for number, chance in misses)
        probability = float(worst.sf(level))
        return cls(worst.mean(), level, probability, max(0.0, 1 - missed))


@PROMISES.register
class EachSite(Promise):
    """New points of each site that answered, and so of every mixture of them; sites may
    differ in any way.

    With the conditional criterion all sites reach the level at once with probability 1
    - delta. The guarantee and the distribution of the coverage are those of each single
    site, which has more certainty.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.plan(n_sites=10, n_points=100, promise="each-site").law.mean() >= 0.9
    True
    """

    name: ClassVar[str] = "each-site"
    default_criterion: ClassVar[str] = "marginal"
    is_bound: ClassVar[bool] = True
    assumption: ClassVar[str] = "each-site-alike"
    is_for_each_case: ClassVar[bool] = True
    whose: ClassVar[str] = "the new cases of every site that answered"
    serves: ClassVar[str] = "the cases of every site that answers, individually"
    bears_differing_sites: ClassVar[bool] = True
    is_for_answered_sites: ClassVar[bool] = True
    among: ClassVar[str] = " at each single site"
    bound_of: ClassVar[str] = "each single site"
    law_note: ClassVar[str] = (
        "The distribution of the coverage, and what follows from it, is a bound for"
        " each single site, not for all sites at once."
    )
    pools: ClassVar[bool] = False
    smallest_decides: ClassVar[bool] = True
    fixes_ranks: ClassVar[bool] = True
    no_faulty: ClassVar[str] = (
        "a wrong report harms only its own site's promise, or makes the sets larger"
    )

    def accepts(self, criterion: Criterion) -> bool:
        """Accept criteria by which the smallest valid threshold is the best."""
        return not criterion.trades_up

    def check_goal(
        self, goal: Goal, *, is_open: bool, is_searched: bool = True, numbers: int = 1
    ) -> None:
        """Refuse what a largest report cannot serve."""
        super().check_goal(
            goal, is_open=is_open, is_searched=is_searched, numbers=numbers
        )
        if numbers > 1:
            raise ValueError(
                f"numbers must be 1 with promise 'each-site', got {numbers}: the"
                " largest report is kept, so other numbers of a site could never"
                " matter"
            )
        if is_open and goal.criterion.takes_delta:
            raise ValueError(
                f"the {goal.criterion.name} criterion with promise 'each-site' needs"
                " n_points: the error probability of a site depends on the number of"
                " sites"
            )

    def check_solution(self, solution: Solution, goal: Goal) -> None:
        """Refuse more than one number per site, and votes below the largest report."""
        if any(votes != (1,) for votes in solution.ballot.votes):
            raise ValueError(
                "for a promise to each site every site sends one number, of one vote"
            )
        if solution.needed < solution.ballot.n_sites:
            raise ValueError(
                "for a promise to each site the server keeps the largest report"
            )
        own = own_goal(goal, solution.ballot.n_sites)
        for kind, ranks in zip(
            solution.ballot.sites, solution.ballot.ranks, strict=True
        ):
            if ranks[0] < goal.criterion.own_rank(kind.n, own):
                raise ValueError(
                    "a site's rank is too low for the level that the plan promises"
                    " to it"
                )

    def choose(
        self, sites: Sites, goal: Goal, numbers: int, share: Fraction | None
    ) -> Solution:
        """Return every site's own rank, and all votes."""
        own = own_goal(goal, total_sites(sites))
        ballot = Ballot.from_ranks(
            sites, ((goal.criterion.own_rank(kind.n, own),) for kind in sites)
        )
        return self.solve(Solution(ballot, ballot.n_sites), ballot, goal)

    def solve(self, planned: Solution, answered: Ballot, goal: Goal) -> Solution:
        """Return all votes, or advice where a site is too small."""
        rows = zip(answered.sites, answered.ranks, strict=True)
        if all(ranks[0] <= kind.n for kind, ranks in rows):
            return Solution(answered, answered.n_sites, None, planned.rule)
        own = own_goal(goal, answered.n_sites)
        points = smallest(
            lambda n: goal.criterion.own_rank(n, own) <= n, start=1, stop=LARGEST_N
        )
        return Solution(
            answered,
            answered.n_sites + 1,
            planned.advice or Advice(n_points=points),
            planned.rule,
        )

    def tolerates(self, solution: Solution, goal: Goal, n_missing: int) -> bool:
        """Return whether anybody is left: every site's own report suffices."""
        return n_missing < solution.ballot.n_sites

    def guarantee(self, solution: Solution, goal: Goal) -> EachSiteGuarantee:
        """Return the guarantee for each single site, and the probability that all reach
        the level at once.
        """
        level = float(goal.level)
        ballot = solution.ballot
        misses = []
        if solution.needed <= ballot.n_sites:
            for kind, ranks in zip(ballot.sites, ballot.ranks, strict=True):
                above = kind.n - ranks[0] + 1
                chance = float(special.betainc(ranks[0], above, level))
                misses.append((kind.count, chance))
        worst = self.law(solution, goal)
        return EachSiteGuarantee.from_law(worst, level, misses)

    def law(self, solution: Solution, goal: Goal) -> CoverageLaw:
        """Return the worst of the sites' own distributions, a bound for each single
        site.
        """
        ballot = solution.ballot
        if solution.needed > ballot.n_sites:
            return EachSiteLaw((kind.n, kind.n + 1) for kind in ballot.sites)
        rows = zip(ballot.sites, ballot.ranks, strict=True)
        return EachSiteLaw((kind.n, ranks[0]) for kind, ranks in rows)

    def options(self) -> str:
        """For each site."""
        return "for each site individually"

    def assumed(self) -> str:
        """Each site's scores are like its own new points'."""
        return (
            "Given the model, the calibration scores of a site and the score of a new"
            " case of that site are independent and identically distributed, and the"
            " model was not trained on the calibration data; sites may differ in any"
            " way. The promise is for cases of the sites that answered."
        )

    def shortfall(self, where: str) -> str:
        """Name changed cases, or a calibration that came out low."""
        return self.shortfall_of_own_threshold(where)


def own_goal(goal: Goal, n_sites: int) -> Goal:
    """Return the goal of each site individually.

    With a delta, the coverage at every site is at least the level with probability 1 -
    delta for all sites at once: each may miss with delta / m, by the union bound,
    however they depend.
    """
    return replace(goal, delta=goal.delta / n_sites * (1 - _MARGIN))
