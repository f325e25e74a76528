"""The referees: fractions against sums over everything that can happen."""

from fractions import Fraction
from itertools import pairwise, product
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedconformal.laws import exact_cdf, exact_mean
from vote_laws import federations, plain_cdf


def paper_sum(m, n, l, k):
    """Theorem 3.2 as it stands, in exact fractions: sums over the counts of every
    site.
    """
    total = Fraction(0)
    for j in range(k, m + 1):
        ranges = [range(l, n + 1)] * j + [range(l)] * (m - j)
        for counts in product(*ranges):
            weight = comb(m, j)
            for i in counts:
                weight *= comb(n, i)
            total += Fraction(weight, comb(m * n, sum(counts)))
    return 1 - total / (m * n + 1)


@pytest.mark.parametrize(("m", "n"), [(1, 5), (2, 3), (3, 2), (3, 4), (4, 3)])
def test_the_mean_is_the_sum_of_theorem_3_2(m, n):
    for l, k in product(range(1, n + 1), range(1, m + 1)):
        assert exact_mean([n] * m, [l] * m, k) == paper_sum(m, n, l, k)


@settings(max_examples=40)
@given(federations(sites=3, points=4), st.integers(0, 8))
def test_the_cdf_of_votes_is_a_sum_over_all_outcomes(federation, eighths):
    sizes, ranks, weights, k = federation
    c = Fraction(eighths, 8)
    assert exact_cdf(sizes, ranks, k, c, weights=weights) == plain_cdf(
        sizes, ranks, weights, k, c
    )


def integral(values, degree):
    """Of the polynomial with these values at 0, 1/degree, ..., 1, over [0, 1]: by its
    Newton series.
    """
    differences, total, basis = list(values), Fraction(0), [Fraction(1)]
    for i in range(degree + 1):
        area = sum(coefficient / (power + 1) for power, coefficient in enumerate(basis))
        total += differences[0] * area
        differences = [b - a for a, b in pairwise(differences)]
        shifted = [Fraction(0), *(degree * coefficient for coefficient in basis)]
        basis = [
            (a - i * b) / (i + 1)
            for a, b in zip(shifted, [*basis, Fraction(0)], strict=True)
        ]
    return total


@settings(max_examples=40)
@given(federations(sites=3, points=4))
def test_the_mean_of_votes_is_the_integral_of_the_cdf(federation):
    sizes, ranks, weights, k = federation
    degree = sum(sizes)
    values = [
        exact_cdf(sizes, ranks, k, Fraction(i, degree), weights=weights)
        for i in range(degree + 1)
    ]
    assert exact_mean(sizes, ranks, k, weights=weights) == 1 - integral(values, degree)
