"""Ranks for a promise to every site by itself: no site need be like another.

Site j sends the rank that split conformal prediction would use on its own scores, and the server keeps the
largest report. The threshold is then at least site j's own for every j, so a point of site j is covered at
least as often as by site j's own threshold, whatever the other sites are like.
"""

import math
from fractions import Fraction

import numpy as np
from scipy import special

from fedconformal.documents import Advice
from fedconformal.laws._sites import Ints
from fedconformal.planning._search import Goal

_MARGIN = 1e-12


def own_ranks(n_points: Ints, goal: Goal, m: int) -> Ints:
    """The rank of a site of each size; n + 1 where the site is too small for the promise.

    Marginal: ceil(level (n + 1)), as the mean coverage of rank l is l / (n + 1). Conditional: every site's
    coverage is at least the level with probability 1 - delta for all m sites at once, by the union bound.
    """
    if goal.criterion == "marginal":
        return np.array([min(math.ceil(goal.level * (int(n) + 1)), int(n) + 1) for n in n_points])
    return np.array([_conditional_rank(int(n), goal.level, own_delta(goal, m)) for n in n_points])


def own_delta(goal: Goal, m: int) -> float:
    """What each of m sites may miss so that all meet with probability 1 - delta, however they depend."""
    return float(goal.delta) / m * (1 - _MARGIN)


def _conditional_rank(n: int, level: Fraction, delta: float) -> int:
    """Smallest l with P(Bin(n, level) >= l) <= delta, which is P(coverage of the l-th smallest < level)."""
    low, high = 0, n + 1  # missed(low) > delta >= missed(high)
    while high - low > 1:
        middle = (low + high) // 2
        if special.betainc(middle, n - middle + 1, float(level)) <= delta:
            high = middle
        else:
            low = middle
    return high


def each_site(n_points: Ints, counts: Ints, ranks: Ints, goal: Goal) -> tuple[int, Advice | None]:
    """The server's rank, all of them; one more where a site is too small, and the size that would do."""
    m = int(counts.sum())
    if bool((ranks <= n_points).all()):
        return m, None
    return m + 1, Advice(n_points=_smallest(goal, m), n_sites=None)


def _smallest(goal: Goal, m: int) -> int:
    """Smallest size whose own rank is finite: the largest of n scores must do."""
    if goal.criterion == "marginal":
        return math.ceil(goal.level / (1 - goal.level))
    n = max(1, math.ceil(math.log(own_delta(goal, m)) / math.log(float(goal.level))))
    while _conditional_rank(n, goal.level, own_delta(goal, m)) > n:
        n += 1
    return n
