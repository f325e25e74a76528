"""Which of a site's numbers lie below a coverage, for sites of any size at the same cost.

The rank-th of n uniform points has a beta density. In s = log(c / (1 - c)) it is proportional to
exp(-D(s)) with D convex, so what lies beyond a point on the side away from the largest density is one smooth,
falling integral, which Gauss' rule has to the last digits. The integrals on both sides of the largest density
add up to one, which fixes the factor that they have in common: no special function is needed.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from fedconformal._typing import Floats

NODES = 32
"""Values that a probability takes."""

_DROP = 40.0  # integrals end where the density has fallen by exp(-40)
_SHORT = 0.5  # up to here the series of exp(x) - 1 - x has all digits
_TERMS = 15


def masses(n: int, ranks: Sequence[int], c: Floats, rest: float = 0.0) -> Floats:
    """P(none, one, two, ... of the numbers lie below c): one row for each coverage.

    Parameters
    ----------
    n : int
        Points of the site.
    ranks : sequence of int
        In increasing order, from 1 to n.
    c : array
        Coverages between 0 and 1.
    rest : float
        To be added to them: what a float64 has no room for.

    Returns
    -------
    array of shape (len(c), len(ranks) + 1)
    """
    below = np.stack([_below(n, rank, c, rest) for rank in ranks])
    ends = np.concatenate([np.ones((1, c.size)), below, np.zeros((1, c.size))])
    cells: Floats = np.maximum(-np.diff(ends, axis=0), 0.0).T
    return cells


def _below(n: int, rank: int, c: Floats, rest: float) -> Floats:
    """P(at least ``rank`` of n points lie below c)."""
    total, share = n + 1.0, Fraction(rank, n + 1)
    middle = float(share)
    c = np.clip(c, 1e-250, 1 - 2.0**-53)
    away = (c - middle) - (float(share - Fraction(middle)) - rest)
    side = np.where(away < 0, -1.0, 1.0)
    opposite = float(1 - share)
    step = _log_ratio(away, middle, c) - _log_ratio(-away, opposite, 1 - c)
    height = np.exp(-total * _bend(step, np.array([middle]), np.array([opposite])))
    beyond = height * _beyond(total, c, 1 - c, side, total * np.abs(away)) / _norm(n, rank)
    return np.where(away < 0, beyond, 1 - beyond)


def _log_ratio(away: Floats, middle: float, c: Floats) -> Floats:
    """log(c / middle), to the last digits also where they are close."""
    near = np.abs(away) < _SHORT * middle
    return np.where(near, np.log1p(np.where(near, away / middle, 0.0)), np.log(c / middle))


@cache
def _norm(n: int, rank: int) -> float:
    """The whole integral, in units of the largest density."""
    middle = np.full(2, rank / (n + 1))
    opposite = np.full(2, float(1 - Fraction(rank, n + 1)))
    return float(_beyond(n + 1.0, middle, opposite, np.array([-1.0, 1.0]), np.zeros(2)).sum())


def _beyond(total: float, c: Floats, q: Floats, side: Floats, slope: Floats) -> Floats:
    """The integral from c away to one side, in units of the density at c; ``slope`` is that of D there."""
    reach = 2 * _DROP / (slope + np.sqrt(slope**2 + 2 * _DROP * total * c * q))
    for _ in range(3):  # D is convex: the first step may go too far, the others come back without passing it
        lifted = c * np.expm1(side * reach)
        rise = slope + total * np.abs(lifted * q / (1 + lifted))
        fallen = total * _bend(side * reach, c, q) + slope * reach
        reach = reach - (fallen - _DROP) / rise
    nodes, weights = _gauss()
    u = reach[:, None] * nodes
    drop = total * _bend(side[:, None] * u, c[:, None], q[:, None]) + slope[:, None] * u
    found: Floats = np.exp(-drop) @ weights * reach
    return found


def _bend(u: Floats, c: Floats, q: Floats) -> Floats:
    """log(q + c exp(u)) - c u, q = 1 - c: how far D bends away from its tangent. No digits cancel."""
    bent: Floats = np.log1p(q * _curve(-c * u) + c * _curve(q * u))
    return bent


def _curve(x: Floats) -> Floats:
    """exp(x) - 1 - x."""
    short = np.abs(x) < _SHORT
    near = np.where(short, x, 0.0)
    series = np.ones_like(near)
    for i in range(_TERMS, 2, -1):
        series = 1 + near / i * series
    series *= near * near / 2
    return series if short.all() else np.where(short, series, np.expm1(x) - x)


@cache
def _gauss() -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss' rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2
