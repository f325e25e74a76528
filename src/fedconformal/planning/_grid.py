"""Laws of private thresholds at fixed coverages: quick to compute for many aims, and nearly exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal.laws import Federation, binomial_masses, legendre
from fedconformal.planning._goal import Goal
from fedconformal.privacy import PrivateRelease, Tabulated

_NODES = 128
_REACH = 9.0  # standard deviations of a site's own coverage that the nodes span
_REST = 25.0  # a release further off than this, in units of the noise, does not matter


@dataclass(frozen=True, eq=False)
class Grid:
    """Coverages, with the binomial probabilities of sites of some sizes there.

    Parameters
    ----------
    n_points : array of int
        Sizes of sites.
    nodes : array of float
        Coverages.
    """

    n_points: Ints
    nodes: Floats

    @cached_property
    def _masses(self) -> tuple[tuple[int, Floats], ...]:
        return tuple(binomial_masses(self.nodes, int(n)) for n in self.n_points)

    def sites(self, release: PrivateRelease) -> Tabulated:
        """The bound on what sites of each size send, at the nodes."""
        columns = []
        for n, (first, masses) in zip(self.n_points.tolist(), self._masses, strict=True):
            ranks = np.arange(first + 1, first + 1 + masses.shape[1])
            bounds = np.ones(ranks.size)
            bounds[ranks <= n] = release.bounds(n, ranks[ranks <= n])
            columns.append(masses @ bounds)
        return Tabulated(np.clip(np.stack(columns, axis=-1), 0.0, 1.0))

    def missed(self, release: PrivateRelease, k: int, counts: Ints, max_faulty: int) -> Floats:
        """P(C <= c) at the nodes, at most."""
        federation = Federation(self.sites(release), counts, max_faulty)
        found: Floats = federation.cdf(self.nodes, np.array([k]), digits=False)[:, 0]
        return found


@dataclass(frozen=True, eq=False)
class QuickLaws:
    """Laws of many aims, by one quadrature rule whose nodes are dense around the level.

    Parameters
    ----------
    grid : Grid
        The nodes, and the level as the last of them.
    weights : array of float
        Of the nodes.
    last : float
        The coverage that is not exceeded: above the nodes nothing is counted.
    """

    grid: Grid
    weights: Floats
    last: float

    @classmethod
    def around(cls, n_points: Ints, n_sites: int, goal: Goal, release: PrivateRelease) -> QuickLaws:
        """A rule for sites of these sizes and this noise."""
        level, n = float(goal.level), float(n_points.min())
        std = math.sqrt(level * (1 - level) / n)
        reach = _REACH * std + (math.log(release.n_bins) + _REST) / (0.3 * float(release.epsilon) * n)
        low, high = max(0.0, level - reach), min(1.0, level + reach)
        unit = std / math.sqrt(n_sites)
        start, stop = math.asinh((low - level) / unit), math.asinh((high - level) / unit)
        x, w = legendre(_NODES)
        y = start + (stop - start) * x
        nodes = np.clip(level + unit * np.sinh(y), low, high)
        weights = (stop - start) * w * unit * np.cosh(y)
        return cls(Grid(n_points, np.append(nodes, level)), weights, high)

    def law(self, release: PrivateRelease, k: int, counts: Ints, max_faulty: int) -> QuickLaw:
        """The law of one aim and server rank."""
        return QuickLaw(self, self.grid.missed(release, k, counts, max_faulty))


@dataclass(frozen=True, eq=False)
class QuickLaw:
    """A law that is known at the nodes of a quadrature rule, as a criterion looks at it."""

    rule: QuickLaws
    missed: Floats

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance."""
        nodes, last = self.rule.grid.nodes[:-1], self.rule.last
        area = self.rule.weights * self.missed[:-1]
        mean = last - float(area.sum())
        square = last**2 - 2 * float(area @ nodes)
        return np.array([mean]), np.array([max(square - mean**2, 0.0)])

    def cdf(self, c: float) -> Floats:
        """At the level, or between the nodes."""
        order = np.argsort(self.rule.grid.nodes)
        return np.interp([c], self.rule.grid.nodes[order], self.missed[order])
