"""What a plan's promise becomes if named sites are distributed otherwise."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import quoted
from fedconformal._typing import Floats
from fedconformal.documents import Calibration, Plan
from fedconformal.heterogeneity._distributions import Distribution, Mixture
from fedconformal.heterogeneity._distributions import reference as as_distribution
from fedconformal.heterogeneity._documents import level_index, refuse_groups
from fedconformal.heterogeneity._shifts import Shift
from fedconformal.laws import (
    CoverageLaw,
    Distortion,
    OrderStatistics,
    Shifted,
    SiteLaw,
    heterogeneity_losses,
)
from fedconformal.planning import Block, Design

MIXTURE = "mixture"
"""Test points that come from the sites themselves, each with its share."""


@dataclass(frozen=True)
class Site:
    """One site of a federation.

    Parameters
    ----------
    name : str
        Its name, or its number where the plan has no names.
    n : int
        How many scores it has.
    ranks : tuple of int
        The ranks that it sends; none if it is not asked.
    weights : tuple of int
        The votes of each of its numbers.
    """

    name: str
    n: int
    ranks: tuple[int, ...]
    weights: tuple[int, ...]


@dataclass(frozen=True)
class WhatIf:
    """The exact law of coverage for sites that differ, and the paper's bounds beside it.

    Attributes
    ----------
    design : Design
        Ranks and votes at one level.
    sites : sequence of Site
        Name, size and ranks of each site.
    reference : Distribution
        The distribution of scores that shifts start from.
    shifts : mapping from str to Shift
        The sites that differ, by name.
    mixture : sequence of float
        Which share of the test points comes from each site, for ``law("mixture")``; they add up to 1.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100}, criterion="marginal")
    >>> asked = fc.heterogeneity.what_if(plan, {"A": fc.heterogeneity.scale(1.5)})
    >>> [round(asked.law(site).mean(), 3) for site in "ABC"]
    [0.755, 0.918, 0.918]
    """

    design: Design
    sites: Sequence[Site]
    reference: Distribution
    shifts: Mapping[str, Shift]
    mixture: Sequence[float]

    @property
    def server_rank(self) -> int:
        """The votes that the threshold needs."""
        return self.design.server_rank or 1

    @property
    def max_faulty(self) -> int:
        """How many reports may be arbitrary besides."""
        return self.design.goal.max_faulty

    @cached_property
    def promised(self) -> CoverageLaw:
        """The law if no site differs."""
        return self._law(self.design, _order_statistics(self.design))

    def law(self, test: str | None = None) -> CoverageLaw:
        """The law of the coverage for some kind of test point.

        Parameters
        ----------
        test : str, optional
            The site that test points come from, or ``"mixture"`` for all of them by their shares. Left out,
            test points are like the sites that do not differ.

        Returns
        -------
        CoverageLaw
            Exact; with ``max_faulty`` a lower bound.

        Raises
        ------
        ValueError
            If there is no such site.
        """
        tests = self.distribution_of(test)
        quantile = _remembering(tests.ppf)
        distortions = [_distortion(self._distributions[key], tests, quantile) for _, key in self._kinds]
        blocks = tuple(replace(block, count=count) for (block, _), count in self._kinds.items())
        design = replace(self.design, blocks=blocks)
        return self._law(design, Shifted(_order_statistics(design), distortions))

    def bounds(self, test: str | None = None) -> tuple[float, float]:
        """Lower bounds of the mean coverage: Proposition 3.4, and a simpler one that needs no law of votes.

        The first is the paper's for one vote each, and the same argument for weighted votes: the coverage
        changes by at most the mean total-variation distance between the votes of the sites as they are and
        of sites that do not differ. The second bounds that distance: by Ehm's inequality for one vote each,
        else by the sum of the sites' own distances.

        Parameters
        ----------
        test : str, optional
            As for `law`.

        Returns
        -------
        tuple of two floats
            Both hold; the second is never above the first.

        Raises
        ------
        ValueError
            If the plan has ``max_faulty``: the bounds are for honest sites.
        """
        if self.max_faulty:
            raise ValueError("the bounds are for honest sites, and this plan has max_faulty")
        distance, ehm = heterogeneity_losses(self.law(test).federation)
        return self.promised.mean() - distance, self.promised.mean() - ehm

    def _law(self, design: Design, sites: SiteLaw) -> CoverageLaw:
        return CoverageLaw.of_sites(
            sites,
            design.counts,
            server_rank=self.server_rank,
            max_faulty=self.max_faulty,
            weights=design.weights,
        )

    @cached_property
    def _kinds(self) -> Counter[tuple[Block, int | None]]:
        """Sites by size, ranks, weights and distribution."""
        return Counter(
            (Block(1, site.n, site.ranks, site.weights), self._key(site.name)) for site in self.sites
        )

    @cached_property
    def _distributions(self) -> dict[int | None, Distribution]:
        """The different distributions of scores: sites that share a shift share theirs."""
        found: dict[int | None, Distribution] = {None: self.reference}
        for shift in {id(shift): shift for shift in self.shifts.values()}.values():
            found[id(shift)] = shift(self.reference)
        return found

    def _key(self, name: str) -> int | None:
        return id(self.shifts[name]) if name in self.shifts else None

    def _distribution(self, name: str) -> Distribution:
        return self._distributions[self._key(name)]

    def distribution_of(self, test: str | None) -> Distribution:
        """The distribution of the scores of some kind of test point.

        Parameters
        ----------
        test : str, optional
            As for `law`.

        Returns
        -------
        Distribution
        """
        if test is None:
            return self.reference
        if test == MIXTURE:
            shares: dict[int | None, float] = {}
            for site, share in zip(self.sites, self.mixture, strict=True):
                key = self._key(site.name)
                shares[key] = shares.get(key, 0.0) + share
            return Mixture([self._distributions[key] for key in shares], list(shares.values()))
        if test not in {site.name for site in self.sites}:
            raise ValueError(f"test must be {MIXTURE!r} or a site of the plan, got {test!r}")
        return self._distribution(test)


def what_if(
    plan: Plan | Calibration,
    shifts: Mapping[str, Shift],
    *,
    reference: "str | ArrayLike | Distribution" = "half-normal",
    mixture: Mapping[str, float] | None = None,
    confidence_level: float | None = None,
) -> WhatIf:
    """Ask what happens to the coverage if some sites' scores are distributed otherwise.

    Parameters
    ----------
    plan : Plan or Calibration
        A plan with known sizes, or a calibration (then for the sites that answered); of a document with
        groups, one group: ``plan["child"]``.
    shifts : mapping from str to Shift
        How sites differ: ``{"A": scale(1.5), "B": examples(scores)}``. Sites without names are called by
        their numbers, "1" first.
    reference : str, array-like or Distribution
        The distribution of the other sites' scores: a name (see `reference`) or example scores.
    mixture : mapping from str to float, optional
        How often a test point comes from each site, for ``law("mixture")``; by default in proportion to
        their sizes. Sites that are not named have no share; the shares need not add up to 1.
    confidence_level : float, optional
        Which level of the plan, if it has several; the first by default.

    Returns
    -------
    WhatIf
        The laws, for whatever test points are asked for.

    Raises
    ------
    ValueError
        If a name is no site of the plan, or the plan is open, private or has groups.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 100, "C": 100}, criterion="marginal")
    >>> asked = what_if(plan, {"A": fc.heterogeneity.scale(1.5)})
    >>> round(plan.law.mean(), 3), round(asked.law("A").mean(), 3)
    (0.902, 0.755)
    """
    refuse_groups(plan)
    design, sites = _design_and_sites(plan, confidence_level)
    names = {site.name for site in sites}
    for given, what in ((shifts, "shifts"), (mixture or {}, "mixture")):
        if unknown := sorted(set(given) - names):
            raise ValueError(
                f"{what} must name sites of the plan ({quoted(sorted(names))}), got {unknown[0]!r}"
            )
    return WhatIf(design, sites, as_distribution(reference), dict(shifts), _shares(sites, mixture))


def _shares(sites: Sequence[Site], mixture: Mapping[str, float] | None) -> list[float]:
    """The share of each site in the mixture; together 1."""
    given = [site.n if mixture is None else mixture.get(site.name, 0.0) for site in sites]
    total = sum(given)
    if not 0 < total < math.inf or min(given) < 0:
        raise ValueError("mixture must hold shares that are finite, not negative, and not all zero")
    return [share / total for share in given]


def _design_and_sites(
    document: Plan | Calibration, confidence_level: float | None
) -> tuple[Design, list[Site]]:
    """Ranks and votes at one level, and who has which."""
    i = level_index(document, confidence_level)
    design = document.designs[i]
    if design.sending.release is not None:
        raise ValueError(
            "what if is answered for exact reports only: the law of private ones is already a bound for all "
            "distributions of scores"
        )
    if isinstance(document, Calibration):
        if design.is_open:
            raise ValueError("too few sites answered for any threshold: there is no coverage to ask about")
        answers: list[tuple[str | None, int]] = [(answer.site, answer.n) for answer in document.answers]
        return design, _sites(document.plan, answers, i)
    if design.is_open:
        raise ValueError("this plan is open: what happens depends on the sites' sizes, give a calibration")
    names = document.site_names or [None] * design.n_sites
    return design, _sites(document, list(zip(names, document.n_points, strict=True)), i)


def _sites(plan: Plan, sizes: Sequence[tuple[str | None, int]], level: int) -> list[Site]:
    """What each site sends at one level; one without a name is called by its number."""
    part = plan.part
    return [
        Site(
            name or str(number),
            n,
            part.ranks_for(n, site=name)[level],
            part.votes_for(n, site=name)[level],
        )
        for number, (name, n) in enumerate(sizes, start=1)
    ]


def _order_statistics(design: Design) -> OrderStatistics:
    """What the sites of a design send if none differs; ranks in one dimension where each sends one number."""
    law = design.sending.site_law(design.blocks)
    assert isinstance(law, OrderStatistics)
    single = law.local_ranks.ndim == 2 and law.local_ranks.shape[1] == 1
    return OrderStatistics(law.n_points, law.local_ranks[:, 0]) if single else law


def _distortion(site: Distribution, tests: Distribution, quantile: Callable[[Floats], Floats]) -> Distortion:
    """``h(c)``: which share of a site's scores lies below the c-quantile of the test points'."""
    if site is tests:
        return lambda c: c
    return lambda c: np.clip(site.cdf(quantile(c)), 0.0, 1.0)


def _remembering(f: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """The same function, which does not repeat its last computation: all sites ask for the same quantiles."""
    last: list[tuple[bytes, Floats]] = []

    def call(c: Floats) -> Floats:
        key = c.tobytes()
        if not last or last[0][0] != key:
            last[:] = [(key, f(c))]
        return last[0][1]

    return call
