"""What would be enough: the smallest federation of equal sites that reaches a level."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fedconformal.planning._family import maxima, with_share
from fedconformal.planning._goal import Goal
from fedconformal.planning._search import search

LARGEST_N = 2**40
"""No site has more scores than this."""


def reachable(n_sites: int, n_points: int, goal: Goal, share: Fraction | None) -> bool:
    """Whether some ranks give m sites of n points a finite threshold at this level.

    The largest finite threshold decides: every site sends its maximum, or the rank that a given share makes
    it send, and the server keeps the largest that faulty sites cannot make infinite.
    """
    left = n_sites - (goal.max_missing or 0)  # as many as may be silent are
    if left <= 2 * goal.max_faulty:
        return False
    n, m = np.array([n_points]), np.array([left])
    return bool(search(maxima(n, m) if share is None else with_share(n, m, share), goal=goal))


def smallest_n_points(n_sites: int, goal: Goal, share: Fraction | None) -> int | None:
    """Points per site that this many sites need; None if no number will do."""
    return smallest(lambda n: reachable(n_sites, n, goal, share), start=1, stop=LARGEST_N)


def smallest_n_sites(n_points: int, goal: Goal, share: Fraction | None) -> int | None:
    """Sites of this many points that are needed; None if no number will do."""
    return smallest(
        lambda m: reachable(m, n_points, goal, share),
        start=2 * goal.max_faulty + 1,
        stop=LARGEST_N,
    )


def smallest(enough: Callable[[int], bool], *, start: int, stop: int) -> int | None:
    """Smallest whole number from ``start`` to ``stop`` that is enough, if larger numbers are too."""
    low, high = start - 1, start
    while not enough(high):
        if high >= stop:
            return None
        low, high = high, min(2 * high, stop)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
