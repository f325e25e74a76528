"""Private reports: every site draws a bin near a quantile of its scores, with noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal.laws import Federation, SiteLaw, equal_moments
from fedconformal.planning._advice import smallest
from fedconformal.planning._design import Advice, Block, Design, Promise, Sending, Sites
from fedconformal.planning._exact import Exact
from fedconformal.planning._family import common_shares
from fedconformal.planning._goal import Goal
from fedconformal.planning._search import best, search
from fedconformal.planning._silence import left_over
from fedconformal.planning.criteria import Marginal
from fedconformal.privacy import PrivateRelease

_FINEST = 1000  # quantiles are multiples of one over this, or over the largest site if that is larger
_LARGEST_N = 100_000  # of an advice
_NO_PLAN = Fraction(999, 1000)  # what sites would aim at if there were a finite threshold


@dataclass(frozen=True)
class Private(Sending):
    """Sites send bins that are drawn at random around a quantile of their scores.

    Parameters
    ----------
    release : PrivateRelease
        One private release, and the quantile that it aims at once that is chosen.
    n_levels : int
        How many levels share a site's epsilon.
    """

    release: PrivateRelease
    n_levels: int = 1
    is_bound: ClassVar[bool] = True

    def site_law(self, blocks: tuple[Block, ...]) -> SiteLaw:
        """The bound on what a release may be, for every data set."""
        return self.release.sites(_sizes(blocks))

    def expected_site_law(self, blocks: tuple[Block, ...]) -> SiteLaw:
        """What to expect if scores lie evenly over the bins."""
        return self.release.expected_sites(_sizes(blocks))

    def choose(self, sites: Sites, goal: Goal, share: Fraction | None, promise: Promise) -> Design:
        """Search the quantile that sites aim at together with the votes."""
        best = self.release.analysis.choose(PrivateSearch(sites, goal, self.release))
        if best is None:
            return self.aiming_at(
                _NO_PLAN, sites, goal, promise, sites.n_sites + 1, self._advice(sites, goal)
            )
        return self.aiming_at(best.quantile, sites, goal, promise, best.server_rank)

    def aiming_at(
        self,
        quantile: Fraction,
        sites: Sites,
        goal: Goal,
        promise: Promise,
        server_rank: int,
        advice: Advice | None = None,
    ) -> Design:
        """The design in which all sites aim at this quantile."""
        release = self.release.aiming_at(quantile)
        rows = zip(sites.counts.tolist(), sites.n_points.tolist(), strict=True)
        blocks = tuple(Block(count, n, (release.aim(n),)) for count, n in rows)
        return Design(goal, promise, replace(self, release=release), blocks, server_rank, None, advice)

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The smallest valid number of votes when the quantile is given."""
        sites = Sites(_sizes(design.blocks), design.counts)
        goal = replace(design.goal, max_missing=0)  # who answered has answered: no further silence is borne
        found = PrivateSearch(sites, goal, self.release).smallest_rank()
        return (sites.n_sites + 1, design.advice or Advice()) if found is None else (found, None)

    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether the sites that are left, the smallest ones, have a finite threshold at this quantile."""
        sites = Sites(_sizes(design.blocks), design.counts)
        return PrivateSearch(sites, design.goal, self.release).bears(n_silent)

    def without_privacy(self) -> Sending:
        """Exact reports."""
        return Exact()

    def _advice(self, sites: Sites, goal: Goal) -> Advice:
        return Advice(n_points=self._smallest_n(sites, goal), epsilon=self._smallest_epsilon(sites, goal))

    def _smallest_epsilon(self, sites: Sites, goal: Goal) -> float | None:
        """Smallest epsilon that has a plan, for all levels together, to three digits; None above 100."""

        def enough(step: int) -> bool:
            release = replace(self.release, epsilon=_three_digits(step) / self.n_levels)
            return release.analysis.has_plan(PrivateSearch(sites, goal, release))

        found = smallest(enough, start=1, stop=4 * 900)
        return None if found is None else float(_three_digits(found))

    def _smallest_n(self, sites: Sites, goal: Goal) -> int | None:
        """Smallest number of points that would do if every site had it; None above 100,000."""
        m = np.array([sites.n_sites])

        def enough(n: int) -> bool:
            alike = Sites(np.array([n]), m)
            return self.release.analysis.has_plan(PrivateSearch(alike, goal, self.release))

        return smallest(enough, start=1, stop=_LARGEST_N)


@dataclass(frozen=True, eq=False)
class PrivateSearch:
    """What an analysis may ask while it looks for a private plan."""

    sites: Sites
    goal: Goal
    release: PrivateRelease

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
        f = self.goal.max_faulty
        return range(f + 1, self.n_sites - f + 1)

    @property
    def finest(self) -> int:
        """Quantiles are multiples of one over this."""
        return max(_FINEST, int(self.sizes.max()))

    def bears(self, n_silent: int) -> bool:
        """Whether a finite threshold is left whichever sites stay silent, for the quantile of the release."""
        if self.n_sites - n_silent <= 2 * self.goal.max_faulty:
            return False
        left = left_over(self.sites.counts, n_silent)
        return left is not None and all(
            replace(self, sites=Sites(self.sizes[counts > 0], counts[counts > 0]))._is_reachable()
            for counts in left
        )

    def _is_reachable(self) -> bool:
        """Whether the most votes that faulty sites cannot withhold keep the promise."""
        quantile, most = self.release.quantile, self.ranks.stop - 1
        return quantile is not None and most >= self.ranks.start and self._holds(quantile, most)

    def is_valid(self, quantile: Fraction, k: int) -> bool:
        """Whether the promise holds for all data, also if as many sites stay silent as are allowed to."""
        if self.goal.max_missing:
            aiming = replace(self, release=self.release.aiming_at(quantile))
            if not aiming.bears(self.goal.max_missing):
                return False
        return self._holds(quantile, k)

    def _holds(self, quantile: Fraction, k: int) -> bool:
        sites = self.release.aiming_at(quantile).sites(self.sizes)
        law = _Bound(Federation(sites, self.sites.counts, self.goal.max_faulty), k)
        margin = self.goal.criterion.margin(law, self.goal)
        return float(margin[0]) > self.goal.criterion.margin_error(self.goal)

    def expected(self, quantile: Fraction, k: int) -> tuple[float, float]:
        """Mean coverage to expect, and the cost under the criterion."""
        sites = self.release.aiming_at(quantile).expected_sites(self.sizes)
        moments = Federation(sites, self.sites.counts).moments(np.array([k]))
        mean, variance = (float(moment[0]) for moment in moments)
        return mean, self.goal.criterion.cost(mean, variance, self.goal)

    def smallest_rank(self) -> int | None:
        """The smallest valid server rank for the quantile of the release."""
        quantile = self.release.quantile
        low, high = self.ranks.start - 1, self.ranks.stop - 1
        if quantile is None or high <= low or not self.is_valid(quantile, high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_valid(quantile, middle) else (middle, high)
        return high

    def exact_ranks(self, level: Fraction) -> tuple[int, int] | None:
        """Local and server rank of the plan without privacy at another level, on average."""
        family = common_shares(self.sizes, self.sites.counts, level)
        goal = Goal(level, Marginal(), max_missing=0)
        found = best(search(family, goal=goal), goal)
        return None if found is None else (int(family.ranks[found.vector, 0, 0]), found.server_rank)

    def exact_mean(self, local_rank: int, server_rank: int) -> float:
        """Mean coverage of these ranks without privacy, for sites of one size."""
        return float(equal_moments(self.n_sites, int(self.sizes[0]), local_rank, server_rank)[0])


@dataclass(frozen=True, eq=False)
class _Bound:
    """The bound of one server rank, as a criterion looks at it."""

    federation: Federation
    k: int

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        mean, variance = self.federation.moments(np.array([self.k]))
        return mean, variance

    def cdf(self, c: float) -> Floats:
        found: Floats = self.federation.cdf(np.array([c]), np.array([self.k]))[0]
        return found


def _three_digits(step: int) -> Fraction:
    """0.0101, 0.0102, ..., 0.0999, 0.100, 0.101, ..., 100: the numbers with three digits, in order."""
    decade, rest = divmod(step, 900)
    return Fraction(100 + rest, 100) * Fraction(10) ** (decade - 2)


def _sizes(blocks: tuple[Block, ...]) -> Ints:
    return np.array([block.n for block in blocks])
