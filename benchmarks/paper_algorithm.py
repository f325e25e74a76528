"""The paper's own algorithm for M (appendix A.2), as published: the yardstick of the
table's speed.

    1 - M_{l,k} = 1/(mn+1) * sum_{j>=k} C(m,j) * sum_{r in R_j} p_r(a, b)

where p_r is a rectangular probability of the multivariate hypergeometric law of r
draws, computed from m binomials W_i and their truncations T_i to [a_i, b_i]:

    p_r(a, b) = P(sum T_i = r) * prod_i P(a_i <= W_i <= b_i) / P(sum W_i = r)

and P(sum T_i = r) is the coefficient of degree r of the product of the m generating
functions, multiplied out by FFT in O(m r log r). Every entry, every j and every r
stands on its own, as the appendix has it. `table_shared` is a kinder reading, for
comparison: one product serves all r of an entry's j.
"""

from collections.abc import Callable
from functools import cache
from math import comb, exp, log, log1p

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.special import gammaln

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
SumOfRectangles = Callable[[int, int, int, int], float]


def table(n_sites: int, n_points: int) -> Array:
    """The whole array M[l-1, k-1], entry by entry, one product of generating functions
    for every r.
    """
    return _entries(n_sites, n_points, _sum_of_rectangles)


def table_shared(n_sites: int, n_points: int) -> Array:
    """The same array; within an entry, one product of generating functions per j serves
    every r.
    """
    return _entries(n_sites, n_points, _sum_of_rectangles_shared)


def _entries(m: int, n: int, sum_of_rectangles: SumOfRectangles) -> Array:
    return np.array(
        [
            [
                1.0
                - sum(
                    comb(m, j) * sum_of_rectangles(m, n, ell, j)
                    for j in range(k, m + 1)
                )
                / (m * n + 1)
                for k in range(1, m + 1)
            ]
            for ell in range(1, n + 1)
        ]
    )


def _rectangle(m: int, n: int, ell: int, j: int) -> tuple[Counts, Counts]:
    """Bounds (a_i, b_i): the first j sites hold at least l of the draws, the others
    fewer.
    """
    first = np.arange(m) < j
    return np.where(first, ell, 0), np.where(first, n, ell - 1)


def _sum_of_rectangles(m: int, n: int, ell: int, j: int) -> float:
    lower, upper = _rectangle(m, n, ell, j)
    draws = range(int(lower.sum()), int(upper.sum()) + 1)
    return sum(rectangular_probability(n, r, lower, upper) for r in draws)


def rectangular_probability(n: int, r: int, lower: Counts, upper: Counts) -> float:
    """P(a_i <= H_i <= b_i for all i), H multivariate hypergeometric: r draws from m
    groups of n.
    """
    m = lower.size
    t = (r + 0.5) / (
        m * n + 1
    )  # any t in (0, 1) is right; near r / (m n) nothing underflows
    inside, truncated = _truncated(_binomial(n, t), lower, upper)
    total = _coefficient(truncated, r, degree=int(upper.sum()))
    return float(total * inside.prod() / _binomial_at(m * n, t, r))


def _truncated(pmf: Array, lower: Counts, upper: Counts) -> tuple[Array, Array]:
    """P(a_i <= W_i <= b_i), and the mass function of T_i, one row per site."""
    i = np.arange(pmf.size)
    rows = np.where((lower[:, None] <= i) & (i <= upper[:, None]), pmf, 0.0)
    inside = rows.sum(axis=1)
    return inside, rows / inside[:, None]


def _coefficient(polynomials: Array, r: int, *, degree: int) -> float:
    """Coefficient of degree r of the product of the rows, whose degree is given, by
    FFT.
    """
    length = next_fast_len(degree + 1, real=True)
    return float(np.fft.irfft(np.fft.rfft(polynomials, length).prod(axis=0), length)[r])


def _binomial(n: int, t: float) -> Array:
    """Mass function of the binomial law of n trials."""
    i = np.arange(n + 1)
    pmf: Array = np.exp(_log_choose(n) + i * log(t) + (n - i) * log1p(-t))
    return pmf


def _binomial_at(n: int, t: float, r: int) -> float:
    return exp(_log_choose(n)[r] + r * log(t) + (n - r) * log1p(-t))


@cache
def _log_choose(n: int) -> Array:
    i = np.arange(n + 1)
    return np.asarray(
        gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1), dtype=np.float64
    )


def _sum_of_rectangles_shared(m: int, n: int, ell: int, j: int) -> float:
    lower, upper = _rectangle(m, n, ell, j)
    inside, truncated = _truncated(_binomial(n, 0.5), lower, upper)
    product = truncated[0]
    for row in truncated[1:]:
        product = np.convolve(product, row)
    draws = slice(int(lower.sum()), int(upper.sum()) + 1)
    return float((product[draws] * inside.prod() / _binomial(m * n, 0.5)[draws]).sum())
