"""A private design within a moment: valid, if not the best, for somebody who is still moving a slider."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._typing import Floats
from fedconformal.planning._design import Advice, Design, Promise, Sites
from fedconformal.planning._goal import Goal
from fedconformal.planning._grid import Grid
from fedconformal.planning._private import NO_PLAN, Private

_NODES = 96
_REACH = 8.0  # standard deviations of a site's own coverage that the nodes span
_FINEST = 500  # quantiles are multiples of one over this


def draft_private(sites: Sites, goal: Goal, sending: Private, promise: Promise) -> Design:
    """A design with an aim for the sites and votes for the server whose promise holds.

    Only the middle server rank and the usual slopes are tried. The binomial probabilities of a site are
    computed once for a few coverages, and the mean coverage is bounded from below by a sum over these.

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

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> import fedconformal as fc
    >>> from fedconformal.planning import PROMISES, Goal, Private, Sites
    >>> from fedconformal.planning import draft_private
    >>> sending = Private(fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10)).release())
    >>> sites = Sites(np.array([100]), np.array([5]))
    >>> draft_private(sites, Goal(Fraction(9, 10)), sending, PROMISES["population"]()).server_rank
    3
    """
    grid, k, analysis = _grid(sites, goal), (sites.n_sites + 1) // 2, sending.release.analysis
    low, high = math.ceil(_FINEST / 2) - 1, _FINEST - 1

    def valid(step: int) -> bool:
        release = sending.release.aimed(analysis.usual_aim(Fraction(step, _FINEST)))
        law = _Steps(grid.nodes, grid.missed(release, k, sites.counts, goal.max_faulty))
        return float(goal.criterion.margin(law, goal)[0]) > goal.criterion.margin_error(goal)

    if not valid(high):
        none = analysis.usual_aim(NO_PLAN)
        return sending.aiming(none, sites, goal, promise, sites.n_sites + 1, Advice())
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if valid(middle) else (middle, high)
    return sending.aiming(analysis.usual_aim(Fraction(high, _FINEST)), sites, goal, promise, k)


def _grid(sites: Sites, goal: Goal) -> Grid:
    level = float(goal.level)
    reach = _REACH * math.sqrt(level * (1 - level) / float(sites.n_points.min()))
    low, high = max(0.0, level - reach), min(1.0, level + max(reach, 0.75 * (1 - level)))
    inner = np.linspace(low, high, _NODES + 1)[1:]
    return Grid(sites.n_points, np.unique(np.append(inner[inner < 1], level)))


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
