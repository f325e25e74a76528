"""A promise to every site individually: no site need be like another.

Site j sends the rank that split conformal prediction would use on its own scores, and the server keeps the
largest report. The threshold is then at least site j's own for every j, so a point of site j is covered at
least as often as by site j's own threshold, whatever the other sites are like.
"""

from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

from fedconformal.documents import LARGEST_N, Advice, SiteKind, total_sites
from fedconformal.laws import CoverageLaw, EachSiteLaw
from fedconformal.planning._ballot import Ballot, Solution
from fedconformal.planning._choosing import smallest
from fedconformal.planning.criteria import CRITERIA, Goal
from fedconformal.planning.promises._base import PROMISES, Promise

_MARGIN = Fraction(1, 10**12)


@PROMISES.register
class EachSite(Promise):
    """New points of each site that answered, and so of every mixture of them; sites may differ in any way.

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
    whose: ClassVar[str] = "the new cases of every site that answered"
    serves: ClassVar[str] = "the cases of every site that answers, individually"
    bears_differing_sites: ClassVar[bool] = True
    among: ClassVar[str] = " at any one site"
    bound_of: ClassVar[str] = "worst site"
    pools: ClassVar[bool] = False
    smallest_decides: ClassVar[bool] = True

    def check_goal(self, goal: Goal, *, is_open: bool, is_searched: bool = True, numbers: int = 1) -> None:
        """Refuse what a largest report cannot serve."""
        if goal.criterion.trades_up:
            allowed = " or ".join(name for name in CRITERIA if not CRITERIA[name].trades_up)
            raise ValueError(
                f"criterion must be {allowed} with promise 'each-site', got {goal.criterion.name!r}"
            )
        if goal.max_faulty:
            raise ValueError(
                f"max_faulty must be 0 with promise 'each-site', got {goal.max_faulty}: a wrong report harms "
                "only the promise to its own site, or makes the sets larger"
            )
        if not is_searched:
            raise ValueError("local_ranks must be left out with promise 'each-site': ranks are fixed")
        if numbers > 1:
            raise ValueError(
                f"numbers must be 1 with promise 'each-site', got {numbers}: the largest report is kept, so "
                "other numbers of a site could never matter"
            )
        if is_open and goal.criterion.takes_delta:
            raise ValueError(
                f"the {goal.criterion.name} criterion with promise 'each-site' needs n_points: the error "
                "probability of a site depends on the number of sites"
            )

    def check_solution(self, solution: Solution, goal: Goal) -> None:
        """Refuse more than one number per site, and votes below the largest report."""
        if any(votes != (1,) for votes in solution.ballot.votes):
            raise ValueError("for a promise to each site every site sends one number, of one vote")
        if solution.needed < solution.ballot.n_sites:
            raise ValueError("for a promise to each site the server keeps the largest report")

    def choose(
        self, sites: tuple[SiteKind, ...], goal: Goal, numbers: int, share: Fraction | None
    ) -> Solution:
        """Return every site's own rank, and all votes."""
        own = own_goal(goal, total_sites(sites))
        ballot = Ballot.from_ranks(sites, ((goal.criterion.own_rank(kind.n, own),) for kind in sites))
        return self.solve(Solution(ballot, ballot.n_sites), ballot, goal)

    def solve(self, planned: Solution, answered: Ballot, goal: Goal) -> Solution:
        """Return all votes, or advice where a site is too small."""
        rows = zip(answered.sites, answered.ranks, strict=True)
        if all(ranks[0] <= kind.n for kind, ranks in rows):
            return Solution(answered, answered.n_sites, None, planned.rule)
        advice = planned.advice or Advice(n_points=_smallest(goal, answered.n_sites))
        return Solution(answered, answered.n_sites + 1, advice, planned.rule)

    def tolerates(self, solution: Solution, goal: Goal, n_missing: int) -> bool:
        """Return whether anybody is left: every site's own report suffices."""
        return n_missing < solution.ballot.n_sites

    def law(self, solution: Solution, goal: Goal) -> CoverageLaw:
        """Return the worst of the sites' own distributions."""
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
            "Given the model, the calibration scores of a site and the score of a new case of that site are "
            "independent and identically distributed, and the model was not trained on the calibration data; "
            "sites may differ in any way. The promise is for cases of the sites that answered."
        )

    def shortfall(self, where: str) -> str:
        """Name changed cases, or a calibration that came out low."""
        return (
            f"cases {where} have changed since the calibration, or it came out low for this site: if they "
            "have not changed,"
        )


def own_goal(goal: Goal, n_sites: int) -> Goal:
    """Return the goal of each site individually.

    With a delta, the coverage at every site is at least the level with probability 1 - delta for all sites at
    once: each may miss with delta / m, by the union bound, however they depend.
    """
    return replace(goal, delta=goal.delta / n_sites * (1 - _MARGIN))


def _smallest(goal: Goal, m: int) -> int | None:
    """Smallest size whose own rank is finite."""
    own = own_goal(goal, m)
    return smallest(lambda n: goal.criterion.own_rank(n, own) <= n, start=1, stop=LARGEST_N)
