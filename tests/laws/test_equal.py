"""Equal sites in closed form, and the array of all pairs of ranks."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.laws import exact_mean
from fedconformal.laws._sites import equal_cdf, equal_moments, equal_quantile


def binomial_tail(k, m, p):
    return sum(comb(m, j) * p**j * (1 - p) ** (m - j) for j in range(k, m + 1))


def exact(m, n, l, k, c):
    """P(C <= c) and P(C > c) in fractions."""
    cdf = binomial_tail(k, m, binomial_tail(l, n, c))
    return float(cdf), float(1 - cdf)


@given(st.integers(1, 12), st.integers(1, 25), st.data())
def test_both_tails_keep_their_digits(m, n, data):
    l, k = data.draw(st.integers(1, n)), data.draw(st.integers(1, m))
    c = Fraction(data.draw(st.integers(1, 255)), 256)
    below, above = exact(m, n, l, k, c)
    assert equal_cdf(m, n, l, k, float(c)) == pytest.approx(below, rel=1e-12)
    assert equal_cdf(m, n, l, k, float(c), upper=True) == pytest.approx(
        above, rel=1e-12
    )


def test_the_lower_tail_down_to_the_smallest_numbers():
    # All of m sites send their maximum, so P(C <= c) = c^(m n); the minimum of minima
    # the other way round.
    assert equal_cdf(10, 100, 100, 10, 0.5) == pytest.approx(0.5**1000, rel=1e-12)
    assert equal_cdf(10, 100, 1, 1, 0.5, upper=True) == pytest.approx(
        0.5**1000, rel=1e-12
    )
    assert equal_cdf(1000, 1000, 1000, 1000, 1 - 2.0**-10) == pytest.approx(
        (1 - 2.0**-10) ** 10**6, rel=1e-9
    )


@pytest.mark.parametrize("size", [10**3, 10**6])
def test_quantiles_invert_both_tails(size):
    for l, k in [
        (size // 2, size // 3),
        (9 * size // 10, size // 2),
        (size // 4, 9 * size // 10),
    ]:
        for q in (1e-18, 1e-6, 0.3):
            low = equal_quantile(size, size, l, k, q, upper=False)
            high = equal_quantile(size, size, l, k, q, upper=True)
            assert equal_cdf(size, size, l, k, low) == pytest.approx(q, rel=1e-6)
            assert equal_cdf(size, size, l, k, high, upper=True) == pytest.approx(
                q, rel=1e-6
            )


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 10), (3, 40)])
def test_means_of_all_pairs_agree_with_exact_integers(m, n):
    mean, variance = equal_moments(
        m, n, np.arange(1, n + 1)[:, None], np.arange(1, m + 1)
    )
    assert mean.shape == variance.shape == (n, m)
    for l, k in {(1, 1), (n, m), (1, m), (n, 1), ((n + 1) // 2, (m + 1) // 2)}:
        assert mean[l - 1, k - 1] == pytest.approx(
            float(exact_mean([n] * m, [l] * m, k)), abs=1e-14
        )


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 10), (1, 40)])
def test_agrees_with_exact_integers(m, n):
    table = fc.coverage_table(n_sites=m, n_points=n)
    assert table.shape == (n, m)
    for l, k in {(1, 1), (n, m), (1, m), (n, 1), ((n + 1) // 2, (m + 1) // 2)}:
        assert table[l - 1, k - 1] == pytest.approx(
            float(exact_mean([n] * m, [l] * m, k)), abs=1e-13
        )


@pytest.mark.parametrize(("m", "n"), [(10, 20), (50, 40)])
def test_polynomial_and_window_integration_agree_and_are_monotone(m, n):
    table = fc.coverage_table(m, n)
    means = [
        [fc.CoverageLaw(m, n, l, k).mean() for k in range(1, m + 1, 7)]
        for l in range(1, n + 1, 5)
    ]
    assert np.allclose(table[::5, ::7], means, atol=1e-13, rtol=0)
    assert (np.diff(table, axis=0) > 0).all()
    assert (np.diff(table, axis=1) > 0).all()
