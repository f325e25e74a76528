"""A promise for a site that was not there: sites are drawn from one population of sites, and may differ.

On average over new sites: every site sends a few of its cases, drawn at random, and a case of a new site is a
random draw from one more site like them. For most new sites, one by one: every site sends a number that
lies above its own level-quantile with a chance of at least eta. Were the new site's coverage C below the
level, its own number would exceed the threshold with that chance; so E[chance] <= 1 - k / (m + 1), and C is
below the level at no more than (1 - k / (m + 1)) / eta of new sites.
"""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np

from fedconformal._text import percent
from fedconformal.planning._cases import Cases
from fedconformal.planning._design import Advice, Block, Design, Guarantee, Sending, Sites
from fedconformal.planning._exact import Exact
from fedconformal.planning._goal import Goal
from fedconformal.planning._own_quantile import Wanted, is_above, rank_above, votes_needed
from fedconformal.planning.criteria import CRITERIA, Criterion
from fedconformal.planning.promises._base import PROMISES, Promise


@PROMISES.register
class NewSite(Promise):
    """New points of a site that took no part, of the population of sites that the others came from.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.plan(n_sites=40, n_points=9, promise="new-site").guarantee.mean >= 0.9
    True
    """

    name: ClassVar[str] = "new-site"
    default_criterion: ClassVar[str] = "marginal"
    takes_eta: ClassVar[bool] = True
    has_law: ClassVar[bool] = False
    is_bound: ClassVar[bool] = True
    allows_groups: ClassVar[bool] = False
    assumption: ClassVar[str] = "sites-exchangeable"
    whose: ClassVar[str] = "the cases of a new site"
    serves: ClassVar[str] = "the cases of a site that took no part, one of the same kind"
    bears_differing_sites: ClassVar[bool] = True
    among: ClassVar[str] = " at a new site"
    pools: ClassVar[bool] = False
    condition: ClassVar[str] = "for a new site"
    bearing: ClassVar[str] = "max_missing=1 (--max-missing 1) plans for that, if there are sites enough"

    def check(
        self, goal: Goal, *, private: bool, is_open: bool, searched: bool = True, numbers: int = 1
    ) -> None:
        """Refuse what does not serve a new site."""
        if not (goal.criterion.is_mean or goal.criterion.takes_delta):
            allowed = [name for name in CRITERIA if CRITERIA[name].is_mean or CRITERIA[name].takes_delta]
            raise ValueError(
                f"criterion must be {' or '.join(allowed)} with promise 'new-site', got "
                f"{goal.criterion.name!r}"
            )
        if goal.max_faulty:
            raise ValueError(
                f"max_faulty must be 0 with promise 'new-site', got {goal.max_faulty}: the sites are a "
                "sample, and a wrong report is not one of them"
            )
        if not searched:
            raise ValueError(
                "local_ranks does not go with promise 'new-site': its ranks follow from the level"
            )
        if private:
            raise ValueError(
                "privacy does not go with promise 'new-site': a case drawn at random leaves as it is, and "
                "noise would make sites differ more than they do"
            )
        if goal.criterion.takes_delta and numbers > 1:
            raise ValueError(
                f"numbers must be 1 with promise 'new-site' and the {goal.criterion.name} criterion, got "
                f"{numbers}"
            )

    def check_design(self, design: Design) -> None:
        """What every site sends must follow the rule that all sites follow, and the votes must be enough."""
        if design.eta is None and design.goal.criterion.takes_delta:
            raise ValueError("for a promise to new sites one by one a level has its eta")
        for block in design.blocks:
            if isinstance(design.sending, Cases):
                if block != design.sending.block(block.count, block.n):
                    raise ValueError("sites that draw cases send them in order, with their votes")
            elif block.weights != (1,) or not self._keeps(design, block):
                raise ValueError("a site's rank must keep the chance eta, and have one vote")
        if not design.is_open and (design.server_rank or 0) < self.votes(design)[0]:
            raise ValueError("the votes needed are too few for a promise to a new site")

    def _keeps(self, design: Design, block: Block) -> bool:
        return design.eta is not None and is_above(block.n, block.ranks[0], design.goal.level, design.eta)

    # -- ranks and votes -------------------------------------------------------------------------------

    def sending(self, goal: Goal, numbers: int) -> Sending:
        """Random cases for the mean over new sites, a rank for each site by itself."""
        return Exact(1) if goal.criterion.takes_delta else Cases(numbers)

    def open_design(self, goal: Goal, sending: Sending, share: Fraction | None, m: int | None) -> Design:
        """Cases need no size; ranks need a chance, which depends on how many sites there are."""
        if not goal.criterion.takes_delta:
            return Design(goal, self, sending)
        if m is None:
            raise ValueError(
                f"promise 'new-site' with the {goal.criterion.name} criterion needs n_sites: the rank that "
                "sites send depends on how many there are"
            )
        eta = _wanted(goal, m).chance()
        if eta is None:
            raise ValueError(
                f"promise 'new-site' with delta {float(goal.delta):g} needs at least {_fewest(goal)} sites, "
                f"got {m}"
            )
        return Design(goal, self, sending, eta=eta)

    def choose(self, sites: Sites, goal: Goal, sending: Sending, share: Fraction | None) -> Design:
        """Cases, or the chance that all sites keep and the ranks that follow from it."""
        if not goal.criterion.takes_delta:
            return sending.choose(sites, goal, share, self)
        wanted, alike = _wanted(goal, sites.n_sites), sites.n_points.size == 1
        eta = wanted.chance(int(sites.n_points[0]) if alike else None) or Fraction(99, 100)
        rows = zip(sites.counts.tolist(), sites.n_points.tolist(), strict=True)
        blocks = tuple(Block(count, n, (rank_above(n, goal.level, eta),)) for count, n in rows)
        design = Design(goal, self, sending, blocks, 1, eta=eta)
        votes, advice = self.votes(design)
        if advice is None and not self.survives(design, goal.max_missing or 0):
            votes, advice = design.n_sites + 1, _advice(design)
        return replace(design, server_rank=votes, advice=advice)

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """So many that few new sites' own numbers would be larger; one more than there are if none do."""
        if not design.goal.criterion.takes_delta:
            return design.sending.votes(design)
        needed = votes_needed(design.n_sites, design.goal.delta, design.eta or Fraction(0))
        if needed <= _finite(design):
            return needed, None
        return design.n_sites + 1, _advice(design)

    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether the votes that fewer sites need are there, if sites with finite numbers stay silent."""
        if not design.goal.criterion.takes_delta:
            return design.sending.survives(design, n_silent)
        left = design.n_sites - n_silent
        needed = votes_needed(left, design.goal.delta, design.eta or Fraction(0))
        return left > 0 and needed <= _finite(design) - n_silent

    def guarantee(self, design: Design) -> Guarantee:
        """The mean over new sites, or the share of new sites that reach the level."""
        level, m, k = design.goal.level, design.n_sites, design.server_rank or 1
        if not design.is_finite:
            return Guarantee(1.0, 1.0, 1.0)
        if isinstance(design.sending, Cases):
            return Guarantee(float(Fraction(k, design.sending.numbers * (m + 1))))
        missed = (1 - Fraction(k, m + 1)) / (design.eta or 1)
        return Guarantee(None, float(level), float(1 - missed))

    # -- words -----------------------------------------------------------------------------------------

    def options(self) -> str:
        """For a new site."""
        return "for a new site"

    def surety(self, criterion: Criterion, delta: float | None) -> str:
        """On average over new sites, or at most of them."""
        return (
            f"at {_most(delta)} of new sites or more"
            if criterion.takes_delta
            else "on average over new sites"
        )

    def sentence(self, criterion: Criterion, level: float, delta: float | None, group: str = "") -> str:
        """Whose average it is, or at how many sites the level is reached."""
        if criterion.takes_delta:
            return (
                f"At {_most(delta)} of new sites or more, the truth lies inside the prediction set for at "
                f"least {percent(level)} of the site's cases{group}."
            )
        return (
            "On average over new sites, the truth lies inside the prediction set for at least "
            f"{percent(level)} of a site's cases{group}."
        )

    def runs_over(self, criterion: Criterion) -> str:
        """Sites."""
        what = "share" if criterion.takes_delta else "average"
        drawn = "" if criterion.takes_delta else " and were drawn from them"
        return (
            f"The {what} is over new sites, and over the luck of which sites took part and which cases they "
            f"happened to have{drawn}; at a single new site the coverage may be lower."
        )

    def assumed(self) -> str:
        """Sites are exchangeable, with their sizes."""
        return (
            "The sites that took part and the new site are exchangeable, with how many cases they have: "
            "drawn from one population of sites, each with a distribution of its own. Given the model, the "
            "scores of a site are independent and identically distributed, and the model was trained on none "
            "of them. Where sites drew cases at random, the plan's round was drawn at random too, and not "
            "chosen among several."
        )

    def shortfall(self, where: str) -> str:
        """Coverage differs between sites."""
        return (
            f"cases {where} are harder than those of most sites, which the promise allows for some of them: "
            "it is for new sites together, and for no single one of them"
        )


def _wanted(goal: Goal, m: int) -> Wanted:
    return Wanted(m, goal.level, goal.delta, goal.max_missing)


def _fewest(goal: Goal) -> int:
    """The smallest number of sites that may do, however large they are."""
    return int(1 / goal.delta) + (goal.max_missing or 0)


def _finite(design: Design) -> int:
    """How many sites have a finite number."""
    return sum(block.count for block in design.blocks if block.ranks[0] <= block.n)


def _advice(design: Design) -> Advice:
    """More sites of the smallest size, or more points at as many sites."""
    n = int(np.min([block.n for block in design.blocks]))
    wanted = _wanted(design.goal, design.n_sites)
    points, sites = wanted.smallest_n_points(design.eta or Fraction(0)), wanted.smallest_n_sites(n)
    return Advice(
        n_points=points if points is None or points > n else None,
        n_sites=sites if sites is None or sites > design.n_sites else None,
    )


def _most(delta: float | None) -> str:
    return percent(float(1 - Decimal(str(delta))))
