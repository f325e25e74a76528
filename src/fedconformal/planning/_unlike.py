"""A federation whose sites differ, as a yardstick: which of several plans, all valid, asks for least.

Nothing that is promised rests on it. Scores are half-normal, and the scales of the sites are log-normal.
"""

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints

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
