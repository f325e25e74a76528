"""Ranks for a known mixture of sites: a few steps that follow each site's count of scores from below.

What a site's numbers say of its share of scores below t is a staircase under the true one. With l_0 = 0, a
site of n scores that sends the ranks l_1 < ... < l_r shows on average sum_i (l_i - l_{i-1}) P(v_i <= t) of
them. For one t the best ranks follow from dynamic programming, each size by itself; the smallest t at which
all sites together show the level is then found by bisection. The yardstick for P is ``_unlike``.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal._validation import rank_of
from fedconformal.planning._unlike import HIGHEST, LOWEST, reported_below

_RANKS = 140  # that are looked at for a size, closer to each other where scores are large
_SIZES = 8  # that are looked at; others get the ranks of the next one, in proportion


def ranks_by_size(
    n_points: Ints, shares: Floats, level: Fraction, numbers: int
) -> dict[int, tuple[int, ...]]:
    """The ranks that sites of each size send.

    Parameters
    ----------
    n_points : array of int
        Different sizes.
    shares : array of float
        Share of new points that come from all sites of each size together.
    level : Fraction
        The coverage that was asked for.
    numbers : int
        How many numbers a site sends at the most.

    Returns
    -------
    dict
        For each size the ranks, in increasing order.
    """
    if n_points.size == 1 and numbers == 1:
        return {int(n_points[0]): (min(rank_of(level, int(n_points[0])), int(n_points[0])),)}
    looked_at = np.unique(np.quantile(n_points, np.linspace(0, 1, _SIZES), method="nearest"))
    which = np.abs(np.log(n_points[:, None] / looked_at)).argmin(axis=1)
    stairs = [_Stairs.of(int(n), numbers) for n in looked_at]
    weights: Floats = np.array([float(shares[which == i].sum()) for i in range(looked_at.size)])
    t = _smallest(stairs, weights, float(level))
    chosen = [stair.best(t)[1] for stair in stairs]
    return {
        int(n): _stretched(chosen[i], int(looked_at[i]), int(n))
        for n, i in zip(n_points.tolist(), which.tolist(), strict=True)
    }


@dataclass(frozen=True, eq=False)
class _Stairs:
    """The ranks among which those of one size are chosen."""

    n: int
    numbers: int
    ranks: Ints

    @classmethod
    def of(cls, n: int, numbers: int) -> "_Stairs":
        heights = 1 - (1 - np.linspace(0, 1, min(n, _RANKS) + 1)[1:]) ** 2
        ranks = np.arange(1, n + 1) if n <= _RANKS else np.unique(np.ceil(heights * n).astype(np.int64))
        return cls(n, min(numbers, ranks.size), ranks)

    def best(self, t: float) -> tuple[float, Ints]:
        """The largest share that can be shown to lie below t on average, and the ranks that show it."""
        ranks, below = self.ranks, reported_below(self.ranks, self.n, t)
        rises = ranks[None, :] - ranks[:, None]
        gains = np.where(rises > 0, rises * below, -np.inf)
        shown, came_from = ranks * below, []
        for _ in range(self.numbers - 1):
            sums = shown[:, None] + gains
            came_from.append(sums.argmax(axis=0))
            shown = sums.max(axis=0)
        path = [int(shown.argmax())]
        for back in reversed(came_from):
            path.append(int(back[path[-1]]))
        return float(shown.max()) / (self.n + 1), ranks[path[::-1]]


def _smallest(stairs: list[_Stairs], weights: Floats, level: float) -> float:
    """The smallest threshold at which the level is shown on average; the highest looked at if none is."""
    low, high = LOWEST, HIGHEST
    for _ in range(20):
        middle = float(np.sqrt(low * high))
        shown = sum(w * stair.best(middle)[0] for stair, w in zip(stairs, weights, strict=True))
        low, high = (low, middle) if shown >= level else (middle, high)
    return high


def _stretched(ranks: Ints, n: int, to: int) -> tuple[int, ...]:
    """The same shares of another number of scores."""
    places = -(-ranks * (to + 1) // (n + 1)) if n != to else ranks
    return tuple(sorted({min(max(int(place), 1), to) for place in places.tolist()}))
