"""The smallest federation of equal sites that would suffice."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fedconformal.planning._candidates import common_share, maxima
from fedconformal.planning._design import Advice, Sites
from fedconformal.planning._goal import Goal
from fedconformal.planning._search import search

LARGEST_N = 2**40
"""No site has more scores than this."""


def smallest_federation(sites: Sites, goal: Goal, share: Fraction | None) -> Advice:
    """Return the size, and the number of sites of the smallest size, that would suffice for a level.

    Parameters
    ----------
    sites : Sites
        The sites, which do not suffice.
    goal : Goal
        The level and its criterion.
    share : Fraction or None
        The share that fixes the ranks, where there is one.
    """
    m, n, f = sites.n_sites, int(sites.n_points.min()), goal.max_faulty

    def suffices(m: int, n: int) -> bool:
        left = m - (goal.max_missing or 0)
        equal = Sites(np.array([n]), np.array([left]))
        tried = maxima(equal) if share is None or left < 1 else common_share(equal, share)
        return left > 2 * f and bool(search(tried, goal))

    points = smallest(lambda n: suffices(m, n), start=1, stop=LARGEST_N)
    more = smallest(lambda m: suffices(m, n), start=2 * f + 1, stop=LARGEST_N)
    return Advice(
        n_points=points if points is None or points > n else None,
        n_sites=more if more is None or more > m else None,
    )


def smallest(enough: Callable[[int], bool], *, start: int, stop: int) -> int | None:
    """Return the smallest number from ``start`` to ``stop`` that is enough, if larger numbers are too."""
    low, high = start - 1, start
    while not enough(high):
        if high >= stop:
            return None
        low, high = high, min(2 * high, stop)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
