"""M in exact integers, the oracle of every accuracy figure.

Integrating c against the density of the k-th smallest of the sites' values gives, with
N = mn,

    M_{l,k} = k C(m,k) l C(n,l) / (N+1) * sum_r a_r / C(N, l+r),   a_r = [z^r]
    A(z)^(k-1) B(z)^(m-k), A(z) = sum_{i>=l} C(n,i) z^i,   B(z) = sum_{i<l} C(n,i) z^i.

(N+1) C(N,s) divides D = lcm(1..N+1) for every s, so with the integer weights w_s = D /
((N+1) C(N,s)) the sum is a dot product of integers over one denominator. The powers of
A and B are shared by all k of a rank l.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, repeat
from math import comb, lcm
from operator import mul

import numpy as np
from flint import fmpz, fmpz_poly
from numpy.typing import NDArray

PUBLISHED = {  # (m, n, l, k): M, to the digits that are published
    (5, 10, 10, 3): Fraction("0.9256259545517656315"),
    (10, 20, 19, 5): Fraction("0.9079146399715186270"),
}


def table(n_sites: int, n_points: int) -> NDArray[np.float64]:
    """The array M[l-1, k-1], every entry correctly rounded."""
    ranks = range(1, n_points + 1)
    return np.array(
        [[_quotient(*entry) for entry in _row(n_sites, n_points, ell)] for ell in ranks]
    )


def mean(n_sites: int, n_points: int, local_rank: int, server_rank: int) -> float:
    """One entry M_{l,k}, correctly rounded."""
    return _quotient(*_entry(n_sites, n_points, local_rank, server_rank))


def mean_fraction(
    n_sites: int, n_points: int, local_rank: int, server_rank: int
) -> Fraction:
    numerator, denominator = _entry(n_sites, n_points, local_rank, server_rank)
    return Fraction(int(numerator), int(denominator))


def paper_sum(
    n_sites: int, n_points: int, local_rank: int, server_rank: int
) -> Fraction:
    """Oracle (i): the sum of Theorem 3.2, grouped by the total r of its indices."""
    m, n, total = n_sites, n_points, n_sites * n_points
    above, below = _polynomials(n, local_rank)
    above = above.left_shift(local_rank)
    sums = sum(
        (comb(m, j) * above**j * below ** (m - j) for j in range(server_rank, m + 1)),
        start=fmpz_poly([]),
    )
    miss = sum(
        (Fraction(int(a), comb(total, r)) for r, a in enumerate(sums.coeffs())),
        start=Fraction(0),
    )
    return 1 - miss / (total + 1)


def count_agreements(limit: int) -> int:
    """Check every entry of every (m, n) with mn <= limit against the paper's sum, as
    fractions; how many.
    """
    checked = 0
    for m, n in shapes(limit):
        for ell in range(1, n + 1):
            for k, (numerator, denominator) in enumerate(_row(m, n, ell), start=1):
                exact = Fraction(int(numerator), int(denominator))
                if not exact == mean_fraction(m, n, ell, k) == paper_sum(m, n, ell, k):
                    raise ArithmeticError(
                        "the exact oracle disagrees with Theorem 3.2 at"
                        f" {(m, n, ell, k)}"
                    )
                checked += 1
    for arguments, value in PUBLISHED.items():
        if abs(mean_fraction(*arguments) - value) > Fraction(1, 10**19):
            raise ArithmeticError(
                f"the exact oracle disagrees with the published value at {arguments}"
            )
    return checked + len(PUBLISHED)


def shapes(limit: int) -> list[tuple[int, int]]:
    """Every (m, n) with mn <= limit, by mn, so that shapes with the same weights follow
    each other.
    """
    return [
        (m, total // m)
        for total in range(1, limit + 1)
        for m in range(1, total + 1)
        if total % m == 0
    ]


def _row(m: int, n: int, ell: int) -> list[tuple[fmpz, fmpz]]:
    """M_{l,k} for k = 1..m, as numerator and denominator."""
    above, below = (
        list(accumulate(repeat(p, m - 1), mul, initial=_ONE))
        for p in _polynomials(n, ell)
    )
    return [
        _integrate(m, n, ell, k, above[k - 1] * below[m - k]) for k in range(1, m + 1)
    ]


def _entry(m: int, n: int, ell: int, k: int) -> tuple[fmpz, fmpz]:
    above, below = _polynomials(n, ell)
    return _integrate(m, n, ell, k, above ** (k - 1) * below ** (m - k))


def _integrate(
    m: int, n: int, ell: int, k: int, product: fmpz_poly
) -> tuple[fmpz, fmpz]:
    """The dot product with the weights; A carries a factor z^l that the product leaves
    out.
    """
    weights, denominator = _weights(m * n)
    dot = sum(map(mul, product.coeffs(), weights[ell * k :]), start=fmpz(0))
    return k * comb(m, k) * ell * comb(n, ell) * dot, denominator


def _polynomials(n: int, ell: int) -> tuple[fmpz_poly, fmpz_poly]:
    """A(z) / z^l and B(z)."""
    row = _binomials(n)
    return fmpz_poly(row[ell:]), fmpz_poly(row[:ell])


@lru_cache(maxsize=1)
def _binomials(n: int) -> list[fmpz]:
    return [fmpz(comb(n, i)) for i in range(n + 1)]


@lru_cache(maxsize=1)  # 18 MB of weights for mn = 10,000
def _weights(total: int) -> tuple[list[fmpz], fmpz]:
    denominator = fmpz(lcm(*range(1, total + 2)))
    choose = fmpz(1)
    weights = []
    for s in range(total + 1):
        weights.append(denominator // ((total + 1) * choose))
        choose = choose * (total - s) // (s + 1)
    return weights, denominator


def _quotient(numerator: fmpz, denominator: fmpz) -> float:
    return int(numerator) / int(
        denominator
    )  # Python rounds the quotient of two integers correctly


_ONE = fmpz_poly([1])
