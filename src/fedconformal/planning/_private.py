"""Private reports: every site draws a bin near a quantile of its scores, with noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal.laws import CoverageLaw, Federation, SiteLaw, equal_moments
from fedconformal.planning._advice import smallest
from fedconformal.planning._candidates import equal_sites
from fedconformal.planning._design import Advice, Block, Design, Expected, Promise, Sending, Sites
from fedconformal.planning._exact import Exact
from fedconformal.planning._goal import Goal
from fedconformal.planning._grid import QuickLaws
from fedconformal.planning._missing import AtVotes, left_over
from fedconformal.planning._search import best, search
from fedconformal.planning.criteria import Marginal, Outcomes
from fedconformal.privacy import (
    MOST_DRAWS,
    Aim,
    PrivateRelease,
    Releases,
    draws_for,
    even,
    expected_coverage,
    ranks_seen,
)

_FINEST = 500  # sites of different sizes aim at no coarser steps than one over this
_LARGEST_N = 100_000  # of an advice
_SEARCH_DRAWS = 8192  # while aims are compared, and the luck of the draw is the same for all
_SEARCHED = 1  # the seed of draws by which aims are chosen, which are not those by which they are judged

NO_PLAN = Fraction(999, 1000)
"""What sites would aim at if there were a finite threshold."""


@dataclass(frozen=True)
class Private(Sending):
    """Sites send bins that are drawn at random around a quantile of their scores.

    Parameters
    ----------
    release : PrivateRelease
        One private release, and where it aims once that is chosen.
    n_levels : int
        How many levels share a site's epsilon.
    draws : int
        How many histograms are drawn at the most, for all sizes together, to see what to expect.

    Examples
    --------
    >>> import fedconformal as fc
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10))
    >>> fc.plan(n_sites=5, n_points=100, privacy=privacy).designs[0].sending.n_levels
    1
    """

    release: PrivateRelease
    n_levels: int = 1
    draws: int = MOST_DRAWS
    is_bound: ClassVar[bool] = True

    def site_law(self, blocks: tuple[Block, ...]) -> SiteLaw:
        """The bound on what a release may be, for every data set."""
        return self.release.sites(_sizes(blocks))

    def expected_law(self, design: Design, masses: Floats | None) -> Expected:
        """The mechanism's own law over the counts of scores with these masses, or of evenly spread ones."""
        assert design.server_rank is not None
        spread = even(self.release.n_bins) if masses is None else masses
        release = replace(self.release, n_bins=spread.size)
        most = self.draws // max(len(design.blocks), 1)
        fewest = draws_for(design.server_rank, design.n_sites)
        releases = [Releases(block.n, spread, release, most=most, fewest=fewest) for block in design.blocks]
        return expected_coverage(releases, release, design.counts, design.server_rank)

    def choose(self, sites: Sites, goal: Goal, share: Fraction | None, promise: Promise) -> Design:
        """Search the aim of the sites together with the votes."""
        return self._chosen(PrivateSearch(sites, goal, self.release, draws=self.draws), promise)

    def choose_for_each(self, sites: Sites, goal: Goal, own: Goal, promise: Promise) -> Design:
        """Search the aim with which every site's own release keeps the promise; the largest is kept."""
        if not self.release.analysis.allows_each_site:
            raise ValueError(
                f"promise 'each-site' does not go with the {self.release.analysis.name} analysis"
            )
        return self._chosen(PrivateSearch(sites, goal, self.release, own, self.draws), promise)

    def _chosen(self, search: PrivateSearch, promise: Promise) -> Design:
        sites, goal = search.sites, search.goal
        best = self.release.analysis.choose(search)
        if best is None:
            none = self.release.analysis.usual_aim(NO_PLAN)
            return self.aiming(none, sites, goal, promise, sites.n_sites + 1, self._advice(search))
        return self.aiming(best.aim, sites, goal, promise, best.server_rank)

    def aiming(
        self,
        aim: Aim,
        sites: Sites,
        goal: Goal,
        promise: Promise,
        server_rank: int,
        advice: Advice | None = None,
    ) -> Design:
        """The design in which all sites aim there."""
        release = self.release.aimed(aim)
        rows = zip(sites.counts.tolist(), sites.n_points.tolist(), strict=True)
        blocks = tuple(Block(count, n, (release.rank(n),)) for count, n in rows)
        return Design(goal, promise, replace(self, release=release), blocks, server_rank, None, advice)

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The smallest valid number of votes when the aim is given."""
        sites = Sites(_sizes(design.blocks), design.counts)
        goal = replace(design.goal, max_missing=0)  # who answered has answered: no further silence is borne
        found = PrivateSearch(sites, goal, self.release).smallest_rank()
        return (sites.n_sites + 1, design.advice or Advice()) if found is None else (found, None)

    def keeps_each(self, design: Design, own: Goal) -> bool:
        """Whether every site's own release keeps the promise by itself."""
        sites, aim = Sites(_sizes(design.blocks), design.counts), self.release.aim
        return aim is not None and PrivateSearch(sites, own, self.release, own).is_valid(aim, sites.n_sites)

    def own_laws(self, blocks: tuple[Block, ...]) -> list[CoverageLaw]:
        """The bound on the coverage of each block's own release at its own site."""
        one = np.array([1])
        return [
            CoverageLaw.of_sites(self.release.sites(np.array([block.n])), one, server_rank=1)
            for block in blocks
        ]

    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether the sites that are left, the smallest ones, have a finite threshold with this aim."""
        sites = Sites(_sizes(design.blocks), design.counts)
        return PrivateSearch(sites, design.goal, self.release).bears(n_silent)

    def without_privacy(self) -> Sending:
        """Exact reports."""
        return Exact()

    def _advice(self, search: PrivateSearch) -> Advice:
        return Advice(n_points=self._smallest_n(search), epsilon=self._smallest_epsilon(search))

    def _smallest_epsilon(self, search: PrivateSearch) -> float | None:
        """Smallest epsilon that has a plan, for all levels together, to three digits; None above 100."""

        def enough(step: int) -> bool:
            release = replace(self.release, epsilon=_three_digits(step) / self.n_levels)
            return release.analysis.has_plan(replace(search, release=release))

        found = smallest(enough, start=1, stop=4 * 900)
        return None if found is None else float(_three_digits(found))

    def _smallest_n(self, search: PrivateSearch) -> int | None:
        """Smallest number of points that would do if every site had it; None above 100,000."""
        m = np.array([search.n_sites])

        def enough(n: int) -> bool:
            return self.release.analysis.has_plan(replace(search, sites=Sites(np.array([n]), m)))

        return smallest(enough, start=1, stop=_LARGEST_N)


@dataclass(frozen=True, eq=False)
class PrivateSearch:
    """What an analysis may ask while it looks for a private plan.

    Where ``own`` is given, every site's own release must keep that goal by itself, and the largest is kept.
    """

    sites: Sites
    goal: Goal
    release: PrivateRelease
    own: Goal | None = None
    draws: int = MOST_DRAWS

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return self.sites.n_sites

    @property
    def sizes(self) -> Ints:
        """The different sizes of sites."""
        return self.sites.n_points

    @property
    def level(self) -> Fraction:
        """The coverage that was asked for."""
        return self.goal.level

    @property
    def ranks(self) -> range:
        """Server ranks that faulty sites can neither undercut nor make infinite."""
        if self.own is not None:
            return range(self.n_sites, self.n_sites + 1)
        f = self.goal.max_faulty
        return range(f + 1, self.n_sites - f + 1)

    @cached_property
    def judged(self) -> range:
        """Server ranks of which enough draws can tell what to expect: the outermost of very many cannot."""
        draws = [each.n_draws for each in self._releases if not each.is_exact]
        seen = ranks_seen(min(draws), self.n_sites) if draws else self.ranks
        both = range(max(seen.start, self.ranks.start), min(seen.stop, self.ranks.stop))
        return both or self.ranks

    @property
    def finest(self) -> int:
        """Quantiles are odd multiples of one over twice this: one for each rank of sites that are alike."""
        largest = int(self.sizes.max())
        return largest if self.sizes.size == 1 else max(_FINEST, largest)

    def bears(self, n_silent: int) -> bool:
        """Whether a finite threshold is left whichever sites stay silent, for the aim of the release."""
        return self._all_left(n_silent, PrivateSearch._keeps)

    def _all_left(self, n_silent: int, keeps: _Keeps) -> bool:
        """Whether the most votes that faulty sites cannot withhold keep the promise, whoever is left."""
        if self.n_sites - n_silent <= 2 * self.goal.max_faulty or self.release.aim is None:
            return False
        left = left_over(self.sites.counts, n_silent)
        return left is not None and all(
            keeps(each, self.release, each.ranks.stop - 1)
            for each in (
                replace(self, sites=Sites(self.sizes[counts > 0], counts[counts > 0])) for counts in left
            )
        )

    def is_valid(self, aim: Aim, k: int) -> bool:
        """Whether the promise holds for all data, also if as many sites stay silent as are allowed to."""
        return self._holds(aim, k, PrivateSearch._keeps)

    def seems_valid(self, aim: Aim, k: int) -> bool:
        """The same by a quick quadrature, whose error is far below what a rank is worth."""
        return self._holds(aim, k, PrivateSearch._seems_to_keep)

    def _holds(self, aim: Aim, k: int, keeps: _Keeps) -> bool:
        release = self.release.aimed(aim)
        if self.own is not None:
            return all(keeps(alone, release, 1) for alone in self._alone)
        missing = self.goal.max_missing
        if missing and not replace(self, release=release)._all_left(missing, keeps):
            return False
        return keeps(self, release, k)

    @cached_property
    def _alone(self) -> list[PrivateSearch]:
        """A site of each size by itself."""
        goal, one = self.own or self.goal, np.array([1])
        return [PrivateSearch(Sites(np.array([n]), one), goal, self.release) for n in self.sizes.tolist()]

    def _keeps(self, release: PrivateRelease, k: int) -> bool:
        law = AtVotes(Federation(release.sites(self.sizes), self.sites.counts, self.goal.max_faulty), k)
        return self._is_enough(law)

    def _seems_to_keep(self, release: PrivateRelease, k: int) -> bool:
        return self._is_enough(self._quick.law(release, k, self.sites.counts, self.goal.max_faulty))

    def _is_enough(self, law: Outcomes) -> bool:
        margin = float(self.goal.criterion.margin(law, self.goal)[0])
        return margin > self.goal.criterion.margin_error(self.goal)

    @cached_property
    def _quick(self) -> QuickLaws:
        return QuickLaws.around(self.sizes, self.n_sites, self.goal, self.release)

    @cached_property
    def _releases(self) -> list[Releases]:
        most = min(self.draws, _SEARCH_DRAWS) // self.sizes.size
        spread = even(self.release.n_bins)
        return [Releases(n, spread, self.release, _SEARCHED, most) for n in self.sizes.tolist()]

    def expected(self, aim: Aim, k: int) -> tuple[float, float]:
        """Mean coverage to expect of evenly spread scores, and the cost under the criterion."""
        release = self.release.aimed(aim)
        law = expected_coverage(self._releases, release, self.sites.counts, k, with_error=False)
        return law.mean(), self.goal.criterion.cost(law.mean(), law.std() ** 2, self.goal)

    def smallest_rank(self) -> int | None:
        """The smallest valid server rank for the aim of the release."""
        aim = self.release.aim
        low, high = self.ranks.start - 1, self.ranks.stop - 1
        if aim is None or high <= low or not self.is_valid(aim, high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_valid(aim, middle) else (middle, high)
        return high

    def exact_ranks(self, level: Fraction) -> tuple[int, int] | None:
        """Local and server rank of the plan without privacy at another level, on average."""
        return _exact_ranks(self.n_sites, int(self.sizes[0]), level)

    def exact_mean(self, local_rank: int, server_rank: int) -> float:
        """Mean coverage of these ranks without privacy, for sites of one size."""
        return _exact_mean(self.n_sites, int(self.sizes[0]), local_rank, server_rank)


# While an epsilon that would do is sought, the same sites are asked again and again.
@lru_cache(maxsize=4096)
def _exact_ranks(m: int, n: int, level: Fraction) -> tuple[int, int] | None:
    goal = Goal(level, Marginal(), max_missing=0)
    choice = best(search(equal_sites(Sites(np.array([n]), np.array([m])), goal), goal), goal)
    return None if choice is None else (int(choice.ranks[0, 0]), choice.server_rank)


@lru_cache(maxsize=65_536)
def _exact_mean(m: int, n: int, local_rank: int, server_rank: int) -> float:
    return float(equal_moments(m, n, local_rank, server_rank)[0])


_Keeps = Callable[[PrivateSearch, PrivateRelease, int], bool]


def _three_digits(step: int) -> Fraction:
    """0.0101, 0.0102, ..., 0.0999, 0.100, 0.101, ..., 100: the numbers with three digits, in order."""
    decade, rest = divmod(step, 900)
    return Fraction(100 + rest, 100) * Fraction(10) ** (decade - 2)


def _sizes(blocks: tuple[Block, ...]) -> Ints:
    return np.array([block.n for block in blocks])
