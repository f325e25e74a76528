"""A look at all rank vectors at once, at the level alone: which server rank each needs, and what it gives.

Let S(c) be the number of sites below the coverage c, with mean mu(c) and variance V(c). Expanding
P(C <= c) = P(S(c) >= k) to second order round the level a gives the real-valued rank at which E[C] = a,

    k* = mu + 1/2 + mu'' V / (2 mu'^2) - V' / (2 mu'),

a step of 1 / mu' in coverage from one server rank to the next, and a standard deviation of sqrt(V) / mu'.
The error of k* is a small multiple of 1 / V. Nothing is decided here: it orders the work.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from fedconformal._typing import Floats
from fedconformal.laws import honest_counts
from fedconformal.planning._family import Family

_RANK_ERROR = 0.25  # |error of k*| * V; the tests find it below 0.05 for equal sites


@dataclass(frozen=True)
class Screen:
    """For each rank vector of a family."""

    rank: Floats  # k*
    rank_error: Floats  # k* is off by no more than this
    step: Floats  # coverage gained from one server rank to the next
    std: Floats  # of the coverage at k*
    count_std: Floats  # of the number of sites below the level


def screen(family: Family, level: float, max_faulty: int) -> Screen:
    """Expand the law of every rank vector round the level."""
    n, l = family.n_points, family.ranks
    finite = l <= n
    a, b = np.where(finite, l, 1).astype(float), np.where(finite, n - l + 1, 1).astype(float)
    p = np.where(finite, special.betainc(a, b, level), 0.0)
    log_slope = special.xlogy(a - 1, level) + special.xlog1py(b - 1, -level) - special.betaln(a, b)
    slope = np.where(finite, np.exp(log_slope), 0.0)
    bend = slope * ((a - 1) / level - (b - 1) / (1 - level))
    weight = family.counts if max_faulty == 0 else honest_counts(p, family.counts, max_faulty)
    mean, variance = (weight * p).sum(axis=1), np.maximum((weight * p * (1 - p)).sum(axis=1), 1e-12)
    rise = np.maximum((weight * slope).sum(axis=1), 1e-12)
    bending = (weight * bend).sum(axis=1)
    spreading = (weight * slope * (1 - 2 * p)).sum(axis=1)
    rank = max_faulty + mean + 0.5 + bending * (variance / rise) / (2 * rise) - spreading / (2 * rise)
    return Screen(rank, _RANK_ERROR / variance, 1 / rise, np.sqrt(variance) / rise, np.sqrt(variance))
