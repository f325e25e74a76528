"""The whole array M of the paper: the marginal coverage of every pair of ranks."""

import numpy as np
from scipy import special

from fedconformal import _validation
from fedconformal._typing import Floats
from fedconformal.laws._equal import equal_moments
from fedconformal.laws._integration import legendre

_EXACT_DEGREE = 1000  # up to this many points Gauss-Legendre integrates P(C <= c), a polynomial, exactly


def coverage_table(n_sites: int, n_points: int) -> Floats:
    """Marginal coverage of every pair: ``table[l - 1, k - 1]`` is M_{l,k} of the paper's Theorem 3.2.

    Exact to 1e-12, and non-decreasing along both axes as the theorem's M is.

    Parameters
    ----------
    n_sites : int
        Number of sites m.
    n_points : int
        Scores at each site, n.

    Returns
    -------
    array of shape (n, m)

    Examples
    --------
    >>> table = coverage_table(n_sites=5, n_points=10)
    >>> table.shape, round(float(table[9, 2]), 6)
    ((10, 5), 0.925626)
    """
    m = _validation.integer("n_sites", n_sites, low=1)
    n = _validation.integer("n_points", n_points, low=1)
    if m * n <= _EXACT_DEGREE:
        table = _polynomial_table(m, n)
    else:
        table = equal_moments(m, n, np.arange(1, n + 1)[:, None], np.arange(1, m + 1)[None, :])[0]
    # Neighbours may differ by less than rounding; the truth is monotone, so this only removes error.
    return np.maximum.accumulate(np.maximum.accumulate(table, axis=0), axis=1)


def _polynomial_table(m: int, n: int) -> Floats:
    """P(C <= c) has degree m n in c, so m n / 2 nodes integrate all entries at once without error."""
    nodes, weights = legendre(m * n // 2 + 1)
    l, j = np.arange(1, n + 1)[:, None], np.arange(1, m + 1)
    p = special.betainc(l, n - l + 1, nodes)[..., None]
    q = special.betainc(n - l + 1, l, 1 - nodes)[..., None]
    exactly = special.binom(m, j) * p**j * q ** (m - j)  # P(count = j), j = 1..m
    share = np.einsum("lcj,c->lj", exactly, weights)
    return 1.0 - np.cumsum(share[:, ::-1], axis=1)[:, ::-1]
