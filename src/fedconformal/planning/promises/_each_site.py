"""A promise to every site by itself: no site need be like another.

Site j sends the rank that split conformal prediction would use on its own scores, and the server keeps the
largest report. The threshold is then at least site j's own for every j, so a point of site j is covered at
least as often as by site j's own threshold, whatever the other sites are like.
"""

from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from fedconformal._typing import Ints
from fedconformal.laws import CoverageLaw, EachSiteLaw
from fedconformal.planning._advice import LARGEST_N, smallest
from fedconformal.planning._design import Advice, Block, Design, Sending, Sites
from fedconformal.planning._goal import Goal
from fedconformal.planning.criteria import CRITERIA
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
    condition: ClassVar[str] = "for a site of this federation"
    whose: ClassVar[str] = "the new cases of every site that answered"
    serves: ClassVar[str] = "the cases of every site that answers, by itself"
    bears_differing_sites: ClassVar[bool] = True
    among: ClassVar[str] = " at any one site"
    bound_of: ClassVar[str] = "worst site"
    pools: ClassVar[bool] = False
    smallest_decides: ClassVar[bool] = True

    def check(
        self, goal: Goal, *, private: bool, is_open: bool, searched: bool = True, numbers: int = 1
    ) -> None:
        """Refuse what a largest report cannot serve."""
        if goal.criterion.trades_up:
            allowed = " or ".join(name for name in CRITERIA if not CRITERIA[name].trades_up)
            raise ValueError(
                f"criterion must be {allowed} with promise 'each-site', got {goal.criterion.name!r}"
            )
        if goal.max_faulty:
            raise ValueError(
                "max_faulty does not go with promise 'each-site': a wrong report harms the promise to its "
                "own site alone, or makes the sets larger"
            )
        if not searched:
            raise ValueError(
                "local_ranks does not go with promise 'each-site': every site sends its own rank"
            )
        if numbers > 1:
            raise ValueError(
                f"numbers must be 1 with promise 'each-site', got {numbers}: the largest report is kept, and "
                "a site's other numbers could never matter"
            )
        if is_open and goal.criterion.takes_delta:
            raise ValueError(
                f"the {goal.criterion.name} criterion with promise 'each-site' needs n_points: how often one "
                "site may miss depends on how many there are"
            )

    def check_design(self, design: Design) -> None:
        """The server must keep the largest report, of one number and one vote from every site."""
        if any(block.weights != (1,) for block in design.blocks):
            raise ValueError("for a promise to each site every site sends one number, of one vote")
        if not design.is_open and (design.server_rank or 0) < design.n_sites:
            raise ValueError("for a promise to each site the server keeps the largest report")

    def choose(self, sites: Sites, goal: Goal, sending: Sending, share: Fraction | None) -> Design:
        """Every site's own rank, or a private aim that does as much, and all votes."""
        aimed = sending.choose_for_each(sites, goal, _own_goal(goal, sites.n_sites), self)
        if aimed is not None:
            return aimed
        ranks = own_ranks(sites.n_points, goal, sites.n_sites)
        rows = zip(sites.counts.tolist(), sites.n_points.tolist(), ranks.tolist(), strict=True)
        blocks = tuple(Block(count, n, (rank,)) for count, n, rank in rows)
        rule = None if goal.criterion.takes_delta else goal.level
        design = Design(goal, self, sending, blocks, None, rule)
        votes, advice = self.votes(design)
        return Design(goal, self, sending, blocks, votes, rule, advice)

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """All of them; one more where a site is too small, and the size that would do."""
        m = design.n_sites
        if design.sending.keeps_each(design, _own_goal(design.goal, m)):
            return m, None
        return m + 1, design.advice or Advice(n_points=_smallest(design.goal, m))

    def law(self, design: Design) -> CoverageLaw:
        """The worst of all sites' own laws."""
        if (design.server_rank or 0) > design.n_sites:
            return EachSiteLaw((block.n, block.n + 1) for block in design.blocks)
        return EachSiteLaw(
            ((block.n, block.ranks[0]) for block in design.blocks), design.sending.own_laws(design.blocks)
        )

    def options(self) -> str:
        """For each site."""
        return "for each site by itself"

    def assumed(self) -> str:
        """Each site's scores are like its own new points'."""
        return (
            "Given the model, the calibration scores of a site and the score of a new point of that site are "
            "independent and identically distributed, and the model was not trained on the calibration data; "
            "sites may differ in any way. The promise is for points of the sites that answered."
        )

    def shortfall(self, where: str) -> str:
        """The cases have changed, or the calibration came out low."""
        return (
            f"cases {where} have changed since the calibration, or it came out low for this site: if they "
            "have not changed,"
        )


def own_ranks(n_points: Ints, goal: Goal, m: int) -> Ints:
    """The rank of a site of each size; n + 1 where the site is too small for the promise.

    With a delta, every site's coverage is at least the level with probability 1 - delta for all m sites at
    once: each may miss with delta / m, by the union bound, however they depend.
    """
    own = _own_goal(goal, m)
    return np.array([goal.criterion.own_rank(int(n), own) for n in n_points])


def _own_goal(goal: Goal, m: int) -> Goal:
    return replace(goal, delta=goal.delta / m * (1 - _MARGIN))


def _smallest(goal: Goal, m: int) -> int | None:
    """Smallest size whose own rank is finite: the largest of n scores must do."""
    own = _own_goal(goal, m)
    return smallest(lambda n: goal.criterion.own_rank(n, own) <= n, start=1, stop=LARGEST_N)
