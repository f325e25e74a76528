"""A private plan within a moment: valid, perhaps not the best, for somebody who is still moving a slider."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedconformal.laws import MEAN_ERROR, Federation
from fedconformal.laws._counts import binomial_masses
from fedconformal.laws._sites import Floats, Ints
from fedconformal.planning._search import Goal
from fedconformal.privacy._terms import Terms

_NODES = 96
_REACH = 8.0  # standard deviations of a site's own coverage that the nodes span
_FINEST = 500  # quantiles are multiples of one over this


def draft_private(n_points: Ints, counts: Ints, goal: Goal, terms: Terms) -> tuple[Fraction, int] | None:
    """A quantile for the sites and a rank for the server whose promise holds; None if none was found.

    Only the middle server rank is tried. The binomial probabilities of a site are computed once for a few
    coverages, and the mean coverage is bounded from below by a sum over these.
    """
    draft = _Draft.of(n_points, goal)
    k = (int(counts.sum()) + 1) // 2
    high, low = _FINEST - 1, math.ceil(_FINEST / 2) - 1

    def valid(step: int) -> bool:
        return draft.holds(Fraction(step, _FINEST), k, counts, goal, terms)

    if not valid(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if valid(middle) else (middle, high)
    return Fraction(high, _FINEST), k


@dataclass(frozen=True)
class _Draft:
    n_points: Ints
    nodes: Floats
    masses: tuple[tuple[int, Floats], ...]  # of each site's number of scores below each node

    @classmethod
    def of(cls, n_points: Ints, goal: Goal) -> "_Draft":
        level = float(goal.level)
        reach = _REACH * math.sqrt(level * (1 - level) / float(n_points.min()))
        low, high = max(0.0, level - reach), min(1.0, level + max(reach, 0.75 * (1 - level)))
        inner = np.linspace(low, high, _NODES + 1)[1:]
        nodes = np.unique(np.append(inner[inner < 1], level))
        return cls(n_points, nodes, tuple(binomial_masses(nodes, int(n)) for n in n_points))

    def holds(self, quantile: Fraction, k: int, counts: Ints, goal: Goal, terms: Terms) -> bool:
        columns = [
            masses @ terms.tail(int(n), quantile)[first + 1 : first + 1 + masses.shape[1]]
            for n, (first, masses) in zip(self.n_points, self.masses, strict=True)
        ]
        sites = _Tabulated(np.clip(np.stack(columns, axis=-1), 0.0, 1.0))
        missed = Federation(sites, counts, goal.max_faulty).cdf(self.nodes, np.array([k]))[:, 0]
        if goal.criterion == "conditional":
            at_level = float(missed[np.searchsorted(self.nodes, float(goal.level))])
            return at_level < float(goal.delta) - MEAN_ERROR
        # P(C <= c) grows with c, so its value at the right end of a step bounds the integral over the step.
        area = float(np.diff(self.nodes, prepend=0.0) @ missed) + 1.0 - float(self.nodes[-1])
        return 1.0 - area > float(goal.level) + MEAN_ERROR


@dataclass(frozen=True, eq=False)
class _Tabulated:
    """Site laws that are known at the nodes alone."""

    below_nodes: Floats

    @property
    def n_groups(self) -> int:
        """How many groups of equal sites there are."""
        return int(self.below_nodes.shape[1])

    @property
    def sends_infinity(self) -> NDArray[np.bool_]:
        """No group sends +inf for sure."""
        return np.zeros(self.n_groups, dtype=bool)

    def below(self, c: Floats) -> Floats:
        """The values at the nodes, whatever is asked."""
        return self.below_nodes

    def above(self, c: Floats) -> Floats:
        """One minus the same."""
        return 1.0 - self.below_nodes

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Nothing is known between the nodes."""
        return 0.0, 1.0

    def rvs(self, group: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """A table cannot be drawn from."""
        raise NotImplementedError
