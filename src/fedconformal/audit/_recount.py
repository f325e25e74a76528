"""The law of coverage a second time, by counting: nothing is shared with `fedconformal.laws`.

Small federations are counted in whole numbers. Larger ones take binomial probabilities as products of their
neighbours' ratios, or integrals of their own; votes of unequal sites by Fourier inversion; and integrals by
the double-exponential rule: no special function and no law of the package is used a second time.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from fedconformal._typing import Floats
from fedconformal.audit._effort import Effort
from fedconformal.audit._integral import moments
from fedconformal.audit._one_vote import OneVoteEach
from fedconformal.audit._sites import MOST_CHOICES, Entry, Honest, Kind, Sites
from fedconformal.audit._votes import VoteLaw
from fedconformal.audit._whole import AFFORDABLE, cost, counted_cdf, counted_moments, likelihood

Tick = Callable[[], None]

MEAN_ERROR = 2e-13
"""Means that were not counted are right to this much; the tests compare them with exact fractions."""


@dataclass(frozen=True)
class Recount:
    """The law for sites of these sizes that sent these ranks, at most ``max_faulty`` of them anything.

    The threshold is the smallest number at which the votes of all numbers up to it reach ``server_rank``, so
    that P(coverage <= c) = P(votes of the numbers below the c-quantile >= server_rank). With faulty sites it
    is a bound: their votes are all cast, and which sites these are is taken at its worst.

    Parameters
    ----------
    sizes : sequence of int
        How many scores each site has.
    ranks : sequence of int, or of sequences of int
        The rank that each site sent, or its ranks; those above its size are infinite and never vote.
    server_rank : int
        Votes that the threshold needs.
    max_faulty : int
        How many sites may be arbitrary.
    weights : sequence of int, or of sequences of int, optional
        Votes of every number of a site, or of each; one by default.
    counts : sequence of int, optional
        How many sites each entry stands for; one by default.
    effort : Effort, optional
        Where the cost is added up; several recounts may share one.
    tick : callable
        Called now and then while this works.

    Raises
    ------
    UncountableError
        By ``cdf`` and ``moments``, where they would take more than a few seconds.

    Examples
    --------
    >>> mean, _ = Recount([9, 9], [(8, 9), (8, 9)], 3).exact_moments()
    >>> print(f"{float(mean):.4f}")
    0.8947
    """

    sizes: Sequence[int]
    ranks: Sequence[Entry]
    server_rank: int
    max_faulty: int = 0
    weights: Sequence[Entry] | None = None
    counts: Sequence[int] | None = None
    effort: Effort = field(default_factory=Effort)
    tick: Tick = lambda: None

    @cached_property
    def _sites(self) -> Sites:
        given = (self.sizes, self.ranks, self.weights, self.counts)
        return Sites.of(*given, self.server_rank, self.max_faulty)

    @cached_property
    def certain(self) -> Fraction | None:
        """The coverage where it is not random."""
        sites = self._sites
        if sites.server_rank <= sites.largest():
            return Fraction(0)
        most = sum(count * kind.all_votes for kind, count in sites.finite.items())
        return Fraction(1) if sites.server_rank > most + sites.largest(infinite_only=True) else None

    # -- in whole numbers ------------------------------------------------------------------------------

    @cached_property
    def honest(self) -> Honest | None:
        """The honest sites at their worst, and the votes they need, if the same at every coverage."""
        sites = self._sites
        if not sites.one_vote_each:
            return sites.honest(sites.choices[0]) if len(sites.choices) == 1 else None
        if sites.max_faulty and len(sites.finite) > 1:
            return None
        # Sites that send infinity are least likely to lie below, so they are left out first.
        most = sites.n_sites - sites.max_faulty
        kept = {kind: min(count, most) for kind, count in sites.finite.items()}
        return Honest(Counter(kept), sites.server_rank - sites.max_faulty)

    @property
    def countable(self) -> bool:
        """Whether mean and variance can be had in whole numbers within seconds."""
        if self.certain is not None or self._beta is not None:
            return True
        return self._moments_cost < AFFORDABLE and self.effort.allows(self._moments_cost)

    @cached_property
    def _moments_cost(self) -> float:
        honest = self.honest
        return math.inf if honest is None else cost(honest, bits=honest.n_points, all_points=True)

    @property
    def _beta(self) -> tuple[int, int] | None:
        """(rank, points) when one rank of independent points is kept: one site, or one point at each."""
        if self.honest is None:
            return None
        kinds, needed = self.honest
        (only,) = kinds if len(kinds) == 1 else (None,)
        if only is not None and kinds[only] == 1:
            return only.ranks[bisect_left(only.cast, needed) - 1], only.n
        return (needed, self.honest.n_sites) if only == Kind(1, (1,), (1,)) else None

    @property
    def half(self) -> bool:
        """Whether the mean is 1/2 by symmetry: every site sends its median and the server keeps theirs.

        Or several ranks which, with their votes, are the same from above as from below.
        """
        if self.honest is None:
            return False
        symmetric = all(kind == kind.turned for kind in self.honest.kinds)
        return symmetric and 2 * self.honest.needed == self.honest.votes + 1

    @property
    def maximum(self) -> int | None:
        """How many points there are, if the largest of them all is kept; else None."""
        if self.honest is None:
            return None
        kinds, needed = self.honest
        own = all(kind.ranks[-1] == kind.n for kind in kinds)
        spared = min((kind.votes[-1] for kind in kinds), default=0)
        return self.honest.n_points if own and self.honest.votes - spared < needed else None

    def exact_moments(self) -> tuple[Fraction, Fraction]:
        """Mean and variance of the coverage as fractions; for a ``countable`` law."""
        if self.certain is not None:
            return self.certain, Fraction(0)
        if self._beta is not None:
            rank, n = self._beta
            return Fraction(rank, n + 1), Fraction(rank * (n - rank + 1), (n + 1) ** 2 * (n + 2))
        if self.honest is None:
            raise ValueError("the worst choice of faulty sites is not the same at every coverage")
        self.effort.spend(self._moments_cost, f"{self.honest.n_sites:,} sites")
        return counted_moments(self.honest)

    def countable_at(self, level: Fraction) -> bool:
        """Whether the cdf at this level can be had in whole numbers within seconds."""
        if self.certain is not None:
            return True
        work = self._cdf_cost(level)
        return work < AFFORDABLE and self.effort.allows(work)

    def _cdf_cost(self, level: Fraction) -> float:
        sites = self._sites
        whole = Honest(sites.finite, sites.server_rank - sites.max_faulty)
        tried = 1 if sites.one_vote_each else len(sites.choices)
        return tried * cost(whole, bits=level.denominator.bit_length())

    def exact_cdf(self, level: Fraction) -> Fraction:
        """P(coverage <= level) as a fraction."""
        if self.certain is not None:
            return 1 - self.certain
        self.effort.spend(self._cdf_cost(level), f"{self._sites.n_sites:,} sites")
        return max(counted_cdf(honest, level) for honest in self._tried(level))

    def _tried(self, level: Fraction) -> list[Honest]:
        """The honest sites at their worst, or for each choice of faulty ones that can reach the votes."""
        sites = self._sites
        if not sites.one_vote_each:
            every = [sites.honest(choice) for choice in sites.choices]
            return [honest for honest in every if honest.votes >= honest.needed]
        likely = {kind: likelihood(kind, level) for kind in (sites.finite if sites.max_faulty else ())}
        ordered = sorted(sites.finite.elements(), key=lambda kind: -likely.get(kind, 0))
        kept = Counter(ordered[: sites.n_sites - sites.max_faulty])
        return [Honest(kept, sites.server_rank - sites.max_faulty)]

    # -- in floating point -----------------------------------------------------------------------------

    @cached_property
    def _law(self) -> OneVoteEach | VoteLaw:
        sites = self._sites
        if sites.one_vote_each:
            needed = sites.server_rank - sites.max_faulty
            law = OneVoteEach(sites.kinds, needed, sites.max_faulty, self.effort)
            if not law.is_long or sites.n_choices > MOST_CHOICES:
                return law
        return VoteLaw(sites.finite, sites.choices, self.effort)

    def cdf(self, c: Floats, rest: float = 0.0) -> Floats:
        """P(coverage <= c) for coverages strictly between 0 and 1."""
        if self.certain is not None:
            return np.full(c.shape, 1.0 - float(self.certain))
        self.tick()
        return self._law.cdf(c, rest)

    def cdf_at(self, level: Fraction) -> float:
        """P(coverage <= level) for one coverage that need be no float64."""
        nearest = float(level)
        return float(self.cdf(np.array([nearest]), float(level - Fraction(nearest)))[0])

    def moments(self) -> tuple[float, float]:
        """Mean and variance of the coverage, the mean to within ``MEAN_ERROR``."""
        if self.certain is not None:
            return float(self.certain), 0.0
        return moments(self.cdf, self._law.hints, self._law.look)
