"""How many of equal sites lie below: binomial counts, and which sites are left out as faulty."""

import math

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints

_TAIL = 45.0  # counts whose Bernstein bound is below exp(-45) are left out


def binomial_tail(k: Ints, m: int, p: Floats) -> Floats:
    """P(Binomial(m, p) >= k), by the incomplete beta function; ``k`` and ``p`` are broadcast."""
    proper = np.clip(k, 1, max(m, 1)).astype(float)
    tail = (
        special.betainc(proper, m - proper + 1, p) if m else np.zeros(np.broadcast_shapes(k.shape, p.shape))
    )
    return np.where(k < 1, 1.0, np.where(k > m, 0.0, tail))


def binomial_masses(p: Floats, m: int) -> tuple[int, Floats]:
    """Binomial(m, p) probabilities over the counts that matter for any of several p.

    Ratios of neighbours are added in logarithms and the sum is normalised: for large m this keeps three
    more digits than factorials do.

    Parameters
    ----------
    p : array of shape (rows,)
        Probabilities of success.
    m : int
        Number of trials.

    Returns
    -------
    first : int
        The smallest count that matters.
    masses : array of shape (rows, counts)
        Probabilities of the counts from ``first`` on.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import binomial_masses
    >>> first, masses = binomial_masses(np.array([0.5]), 2)
    >>> first, masses.round(3)
    (0, array([[0.25, 0.5 , 0.25]]))
    """
    mean, variance = m * p, m * p * (1 - p)
    reach = _TAIL / 3 + np.sqrt((_TAIL / 3) ** 2 + 2 * _TAIL * variance)
    first = max(0, math.floor(float(np.min(mean - reach))))
    last = min(m, math.ceil(float(np.max(mean + reach))))
    inside = np.clip(p, 1e-300, 1 - 2**-53)[:, None]
    count = np.arange(first, last)
    steps = np.log((m - count) / (count + 1)) + (np.log(inside) - np.log1p(-inside))
    logs = np.concatenate([np.zeros((len(p), 1)), np.cumsum(steps, axis=1)], axis=1)
    masses = np.exp(logs - logs.max(axis=1, keepdims=True))
    return first, masses / masses.sum(axis=1, keepdims=True)


def honest_counts(p: Floats, counts: Ints, max_faulty: int) -> Ints:
    """How many sites of each block stay when the ``max_faulty`` least likely to lie below are left out.

    Parameters
    ----------
    p : array of shape (rows, blocks)
        Probability that a site of each block lies below.
    counts : array of shape (blocks,)
        How many sites each block has.
    max_faulty : int
        How many are left out.

    Returns
    -------
    array of shape (rows, blocks)

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import honest_counts
    >>> honest_counts(np.array([[0.9, 0.1]]), np.array([3, 2]), 1)
    array([[3, 1]])
    """
    order = np.argsort(p, axis=1, kind="stable")
    sorted_counts = counts[order]
    before = np.cumsum(sorted_counts, axis=1) - sorted_counts
    kept = np.empty_like(sorted_counts)
    np.put_along_axis(kept, order, sorted_counts - np.clip(max_faulty - before, 0, sorted_counts), axis=1)
    return kept
