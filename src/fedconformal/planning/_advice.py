"""What would be enough: the smallest federation of equal sites that reaches a level."""

from collections.abc import Callable

import numpy as np

from fedconformal.planning._family import fixed
from fedconformal.planning._search import Goal, search


def reachable(n_sites: int, n_points: int, goal: Goal) -> bool:
    """Whether some ranks give m sites of n points a finite threshold at this level.

    The largest finite threshold decides: every site sends its maximum, the server keeps the largest that
    faulty sites cannot make infinite.
    """
    if n_sites <= 2 * goal.max_faulty:
        return False
    n, one = np.array([n_points]), np.array([n_sites])
    return search(fixed(n, one, n), goal) is not None


def smallest_n_points(n_sites: int, goal: Goal) -> int:
    """Points per site that this many sites need."""
    found = smallest(lambda n: reachable(n_sites, n, goal), start=1)
    assert found is not None
    return found


def smallest_n_sites(n_points: int, goal: Goal) -> int:
    """Sites of this many points that are needed."""
    found = smallest(lambda m: reachable(m, n_points, goal), start=2 * goal.max_faulty + 1)
    assert found is not None
    return found


def smallest(enough: Callable[[int], bool], *, start: int, stop: int | None = None) -> int | None:
    """Smallest whole number from ``start`` on that is enough, for a property that larger numbers keep.

    None if no number up to ``stop`` is.
    """
    low, high = start - 1, start
    while not enough(high):
        if stop is not None and high >= stop:
            return None
        low, high = high, 2 * high if stop is None else min(2 * high, stop)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
