"""The law in exact integers: the referee when a mean lies too close to a level for floating point."""

from collections.abc import Sequence
from fractions import Fraction
from math import comb, lcm


def exact_mean(n_points: Sequence[int], local_ranks: Sequence[int], server_rank: int) -> Fraction:
    """Marginal coverage of Theorem 3.2 and appendix A.1 for exact sites, as a fraction.

    Every site contributes A_j(z) y + B_j(z), where A_j collects binomials from the rank on and B_j those
    below it; the power of y counts the sites below, the power of z all points below. Polynomials are
    multiplied as integers in base 2^w (Kronecker), so the work is done by big-integer multiplication.
    The cost grows like (m * total)^2 bits: meant for totals of a few hundred points.
    """
    m, total = len(n_points), sum(n_points)
    if server_rank > m:
        return Fraction(1)
    width = total + 1  # all coefficients together are 2^total
    row = width * (total + 1)
    product = 1
    for n, l in zip(n_points, local_ranks, strict=True):
        above = sum(comb(n, i) << (width * i) for i in range(l, n + 1))
        below = sum(comb(n, i) << (width * i) for i in range(min(l, n + 1)))
        product *= (above << row) + below
    scale = lcm(*(comb(total, r) for r in range(total + 1)))
    mask = (1 << width) - 1
    missed = 0
    for j in range(server_rank, m + 1):
        line = (product >> (row * j)) & ((1 << row) - 1)
        missed += sum(((line >> (width * r)) & mask) * (scale // comb(total, r)) for r in range(total + 1))
    return 1 - Fraction(missed, scale * (total + 1))


def exact_cdf(n_points: Sequence[int], local_ranks: Sequence[int], server_rank: int, c: Fraction) -> Fraction:
    """P(C <= c) for exact sites and a rational c."""
    law = [Fraction(1)]
    for n, l in zip(n_points, local_ranks, strict=True):
        p = sum((comb(n, i) * c**i * (1 - c) ** (n - i) for i in range(l, n + 1)), Fraction(0))
        law = [a * (1 - p) + b * p for a, b in zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)]
    return sum(law[server_rank:], Fraction(0))
