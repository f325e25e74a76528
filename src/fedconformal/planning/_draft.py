"""A private design within a moment: valid, if not the best, for somebody who is still moving a slider."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws import Federation, binomial_masses
from fedconformal.planning._design import Advice, Design, Promise, Sites
from fedconformal.planning._goal import Goal
from fedconformal.planning._private import Private
from fedconformal.privacy import PrivateRelease

_NODES = 96
_REACH = 8.0  # standard deviations of a site's own coverage that the nodes span
_FINEST = 500  # quantiles are multiples of one over this


def draft_private(sites: Sites, goal: Goal, sending: Private, promise: Promise) -> Design:
    """A design with a quantile for the sites and votes for the server whose promise holds.

    Only the middle server rank is tried. The binomial probabilities of a site are computed once for a few
    coverages, and the mean coverage is bounded from below by a sum over these.

    Parameters
    ----------
    sites : Sites
        How many sites there are of each size.
    goal : Goal
        What is to be reached.
    sending : Private
        The private release.
    promise : Promise
        Whose new points the promise is for.

    Returns
    -------
    Design
        With an infinite threshold, and no advice in its `Advice`, if no finite one was found.
    """
    draft = _Draft.of(sites.n_points, goal)
    k = (sites.n_sites + 1) // 2
    high, low = _FINEST - 1, math.ceil(_FINEST / 2) - 1

    def valid(step: int) -> bool:
        return draft.holds(Fraction(step, _FINEST), k, sites.counts, goal, sending.release)

    if not valid(high):
        return sending.aiming_at(Fraction(999, 1000), sites, goal, promise, sites.n_sites + 1, Advice())
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if valid(middle) else (middle, high)
    return sending.aiming_at(Fraction(high, _FINEST), sites, goal, promise, k)


@dataclass(frozen=True)
class _Draft:
    n_points: Ints
    nodes: Floats
    masses: tuple[tuple[int, Floats], ...]  # of each site's number of scores below each node

    @classmethod
    def of(cls, n_points: Ints, goal: Goal) -> _Draft:
        level = float(goal.level)
        reach = _REACH * math.sqrt(level * (1 - level) / float(n_points.min()))
        low, high = max(0.0, level - reach), min(1.0, level + max(reach, 0.75 * (1 - level)))
        inner = np.linspace(low, high, _NODES + 1)[1:]
        nodes = np.unique(np.append(inner[inner < 1], level))
        return cls(n_points, nodes, tuple(binomial_masses(nodes, int(n)) for n in n_points))

    def holds(self, quantile: Fraction, k: int, counts: Ints, goal: Goal, release: PrivateRelease) -> bool:
        aiming = release.aiming_at(quantile)
        columns = [
            masses @ aiming.tail(int(n))[first + 1 : first + 1 + masses.shape[1]]
            for n, (first, masses) in zip(self.n_points, self.masses, strict=True)
        ]
        sites = _Tabulated(np.clip(np.stack(columns, axis=-1), 0.0, 1.0))
        missed = Federation(sites, counts, goal.max_faulty).cdf(self.nodes, np.array([k]))[:, 0]
        law = _Steps(self.nodes, missed)
        return float(goal.criterion.margin(law, goal)[0]) > goal.criterion.margin_error(goal)


@dataclass(frozen=True, eq=False)
class _Steps:
    """A law that is known at a few coverages, bounded from below between them."""

    nodes: Floats
    missed: Floats

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """P(C <= c) grows with c, so its value at the right end of a step bounds its integral there."""
        area = float(np.diff(self.nodes, prepend=0.0) @ self.missed) + 1.0 - float(self.nodes[-1])
        return np.array([1.0 - area]), np.array([0.0])

    def cdf(self, c: float) -> Floats:
        """The value at the next node."""
        place = min(int(np.searchsorted(self.nodes, c)), self.nodes.size - 1)
        return self.missed[[place]]


@dataclass(frozen=True, eq=False)
class _Tabulated:
    """Site laws that are known at the nodes alone."""

    below_nodes: Floats

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        return int(self.below_nodes.shape[1])

    @property
    def sends_infinity(self) -> Bools:
        """No block sends +inf for sure."""
        return np.zeros(self.n_blocks, dtype=bool)

    def below(self, c: Floats) -> Floats:
        """The values at the nodes, whatever is asked."""
        return self.below_nodes

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Nothing is known between the nodes."""
        return 0.0, 1.0

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """A table cannot be drawn from."""
        raise NotImplementedError
