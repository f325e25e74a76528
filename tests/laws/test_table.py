"""The array M of all pairs of ranks."""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.laws import exact_mean


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 10), (1, 40)])
def test_agrees_with_exact_integers(m, n):
    table = fc.coverage_table(n_sites=m, n_points=n)
    assert table.shape == (n, m)
    for l, k in {(1, 1), (n, m), (1, m), (n, 1), ((n + 1) // 2, (m + 1) // 2)}:
        assert table[l - 1, k - 1] == pytest.approx(float(exact_mean([n] * m, [l] * m, k)), abs=1e-13)


def test_polynomial_and_window_integration_agree_and_are_monotone():
    m, n = 10, 20
    table = fc.coverage_table(m, n)
    means = [[fc.CoverageLaw(m, n, l, k).mean() for k in range(1, m + 1, 7)] for l in range(1, n + 1, 5)]
    assert np.allclose(table[::5, ::7], means, atol=1e-13, rtol=0)
    assert (np.diff(table, axis=0) > 0).all()
    assert (np.diff(table, axis=1) > 0).all()
