"""What a plan's promise becomes if named sites are distributed otherwise."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.documents import Calibration, Plan
from fedconformal.heterogeneity._levels import level_index
from fedconformal.heterogeneity._shifts import Mixture, Scores, Shift, reference
from fedconformal.laws import CoverageLaw
from fedconformal.laws._bounds import heterogeneity_losses
from fedconformal.laws._sites import Distortion, Floats, OrderStatistics, Shifted

MIXTURE = "mixture"
"""Test points that come from the sites themselves, by weight."""


@dataclass(frozen=True)
class Site:
    """One site as the plan has it."""

    name: str
    n: int
    rank: int


@dataclass(frozen=True)
class WhatIf:
    """The exact law of coverage for sites that differ, and the paper's bounds beside it.

    Attributes
    ----------
    sites : name, size and rank of each site.
    server_rank : the rank that the server keeps.
    max_faulty : how many reports may be arbitrary besides.
    reference : the distribution of scores that shifts start from.
    shifts : the sites that differ, by name.
    weights : how often a test point comes from each site, for the mixture.
    """

    sites: Sequence[Site]
    server_rank: int
    max_faulty: int
    reference: Scores
    shifts: Mapping[str, Shift]
    weights: Sequence[float]

    @cached_property
    def promised(self) -> CoverageLaw:
        """The law if no site differs."""
        sizes, ranks = [site.n for site in self.sites], [site.rank for site in self.sites]
        return CoverageLaw(
            n_points=sizes, local_rank=ranks, server_rank=self.server_rank, max_faulty=self.max_faulty
        )

    def law(self, test: str | None = None) -> CoverageLaw:
        """The law of the coverage for a test point of this site, of the mixture, or of the reference."""
        target = self._target(test)
        kinds = self._kinds
        sites = OrderStatistics(np.array([n for n, _, _ in kinds]), np.array([l for _, l, _ in kinds]))
        quantile = _remembering(target.ppf)
        shares = [_share(self._scores(name), target, quantile) for _, _, name in kinds]
        return CoverageLaw.of_sites(
            Shifted(sites, shares),
            np.array(list(kinds.values())),
            server_rank=self.server_rank,
            max_faulty=self.max_faulty,
        )

    def bounds(self, test: str | None = None) -> tuple[float, float]:
        """Lower bounds of the mean coverage: Proposition 3.4, and what Ehm's inequality makes of it.

        They are for honest sites: with ``max_faulty`` there is no such bound.
        """
        if self.max_faulty:
            raise ValueError("the bounds are for honest sites, and this plan has max_faulty")
        distance, ehm = heterogeneity_losses(self.law(test).federation)
        return self.promised.mean() - distance, self.promised.mean() - ehm

    @cached_property
    def _kinds(self) -> Counter[tuple[int, int, str | None]]:
        """Sites by size, rank and shift."""
        return Counter(
            (site.n, site.rank, site.name if site.name in self.shifts else None) for site in self.sites
        )

    @cached_property
    def _shifted(self) -> dict[str, Scores]:
        return {name: shift(self.reference) for name, shift in self.shifts.items()}

    def _scores(self, name: str | None) -> Scores:
        return self.reference if name is None else self._shifted.get(name, self.reference)

    def _target(self, test: str | None) -> Scores:
        if test is None:
            return self.reference
        if test == MIXTURE:
            by_name: dict[str | None, float] = {}
            for site, weight in zip(self.sites, self.weights, strict=True):
                shifted = site.name if site.name in self.shifts else None
                by_name[shifted] = by_name.get(shifted, 0.0) + weight
            return Mixture([self._scores(name) for name in by_name], list(by_name.values()))
        if test not in {site.name for site in self.sites}:
            raise ValueError(f"test must be {MIXTURE!r} or a site of the plan, got {test!r}")
        return self._scores(test)


def what_if(
    plan: Plan | Calibration,
    shifts: Mapping[str, Shift],
    *,
    reference: "str | ArrayLike | Scores" = "half-normal",
    weights: Mapping[str, float] | None = None,
    confidence_level: float | None = None,
) -> WhatIf:
    """Ask what happens to the coverage if some sites' scores are distributed otherwise.

    Parameters
    ----------
    plan : a plan with known sizes, or a calibration (then for the sites that answered).
    shifts : how sites differ: ``{"A": scale(1.5), "B": examples(scores)}``. Sites without names are called
        by their numbers, "1" first.
    reference : the distribution of the other sites' scores: a name (see ``reference``) or example scores.
    weights : how often a test point comes from each site, for ``law("mixture")``; by default in proportion
        to their sizes.
    confidence_level : which level of the plan, if it has several; the first by default.
    """
    sites, server_rank, max_faulty = _read(plan, confidence_level)
    names = {site.name for site in sites}
    for given, what in ((shifts, "shifts"), (weights or {}, "weights")):
        if unknown := sorted(set(given) - names):
            some = ", ".join(sorted(names)[:8]) + (", ..." if len(names) > 8 else "")
            raise ValueError(f"{what} must name sites of the plan ({some}), got {unknown[0]!r}")
    shares = [site.n if weights is None else weights.get(site.name, 0.0) for site in sites]
    total = sum(shares)
    if not 0 < total < math.inf or min(shares) < 0:
        raise ValueError("weights must be finite, not negative, and not all zero")
    return WhatIf(
        sites,
        server_rank,
        max_faulty,
        _reference(reference),
        dict(shifts),
        [share / total for share in shares],
    )


_reference = reference


def _read(document: Plan | Calibration, confidence_level: float | None) -> tuple[list[Site], int, int]:
    """Sites, server rank and faulty sites of a plan or calibration, at one of its levels."""
    plan = document.plan if isinstance(document, Calibration) else document
    if plan.privacy is not None:
        raise ValueError(
            "what if is not answered for private plans: their law is already a bound for all scores"
        )
    i = level_index(plan, confidence_level)
    if isinstance(document, Calibration):
        answers = document.answers
        return (
            [Site(answer.site, answer.n, answer.ranks[i]) for answer in answers],
            document.levels[i].server_rank,
            plan.max_faulty,
        )
    rank = plan.levels[i].server_rank
    if plan.groups is None or rank is None:
        raise ValueError("this plan is open: what happens depends on the sites' sizes, give a calibration")
    number = count(1)
    sites = [
        Site(name or str(next(number)), group.n, group.ranks[i])
        for group in plan.groups
        for name in group.names or [None] * group.count
    ]
    return sites, rank, plan.max_faulty


def _share(site: Scores, target: Scores, quantile: Callable[[Floats], Floats]) -> Distortion:
    """``h(c)``: which share of a site's scores lies below the c-quantile of the target's."""
    if site is target:
        return lambda c: c

    def h(c: Floats) -> Floats:
        return np.clip(site.cdf(quantile(c)), 0.0, 1.0)

    return h


def _remembering(f: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """The same function, which does not repeat its last computation: all sites ask for the same quantiles."""
    last: list[tuple[bytes, Floats]] = []

    def call(c: Floats) -> Floats:
        key = c.tobytes()
        if not last or last[0][0] != key:
            last[:] = [(key, f(c))]
        return last[0][1]

    return call
