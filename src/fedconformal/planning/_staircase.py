"""Ranks for a known mixture of sites: a few steps that follow each site's count of scores from below.

What a site's numbers say of its share of scores below t is a staircase under the true one. With l_0 = 0, a
site of n scores that sends the ranks l_1 < ... < l_r shows on average sum_i (l_i - l_{i-1}) P(v_i <= t) of
them. For one t the best ranks follow from dynamic programming, each size by itself; the smallest t at which
all sites together show the level is then found by bisection. The yardstick for P is ``_unlike``.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints
from fedconformal._validation import rank_of

# -- a federation whose sites differ, as a yardstick: which of several plans, all valid, asks for least ----

# Nothing that is promised rests on it. Scores are half-normal, and the scales of the sites are log-normal.


_SPREAD = 1 / 3  # standard deviation of the logarithm of a site's scale
_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(41)
_SCALES, _WEIGHTS = np.exp(_SPREAD * _NODES), _MASSES / _MASSES.sum()
LOWEST, HIGHEST = 1e-3, 1e3
"""Thresholds between which the yardstick is looked at."""


def reported_below(ranks: Ints, n: int, t: float) -> Floats:
    """For each rank the probability that a site's score of this rank is at most t.

    Parameters
    ----------
    ranks : array of int
        From 1 to n.
    n : int
        How many scores the site has.
    t : float
        A threshold.

    Returns
    -------
    array of float
        One for each rank.
    """
    below = special.erf(t / (_SCALES * np.sqrt(2)))
    table = special.betainc(ranks[:, None], n - ranks[:, None] + 1, below[None, :])
    return np.asarray(np.minimum(table @ _WEIGHTS, 1.0))


def usual_threshold(n: int, rank: int, m: int, k: int) -> float:
    """The median of the k-th smallest of the reports of m sites.

    Parameters
    ----------
    n, rank : int
        Scores of each site, and the rank that it sends.
    m, k : int
        Number of sites, and votes that are needed.

    Returns
    -------
    float
        What is to be small.
    """
    low, high = LOWEST, HIGHEST
    for _ in range(24):
        middle = float(np.sqrt(low * high))
        below = reported_below(np.array([rank]), n, middle)[0]
        reached = special.betainc(k, m - k + 1, below) >= 0.5
        low, high = (low, middle) if reached else (middle, high)
    return high


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
