"""Many roots at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.laws._roots import rising_roots


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=5), st.sampled_from([1, 3, 9]))
def test_roots_of_powers(roots, power):
    at = np.array(roots)
    found = rising_roots(lambda x: (x - at) ** power, np.zeros(at.size), np.ones(at.size))
    assert found == pytest.approx(at, abs=1e-12)


def test_infinite_values_and_steps():
    found = rising_roots(lambda x: np.where(x < 0.3, -np.inf, np.inf), np.zeros(1), np.ones(1))
    assert found == pytest.approx([0.3], abs=1e-15)
    assert found >= 0.3


def test_a_coarse_answer_costs_less():
    calls = []

    def f(x):
        calls.append(x)
        return np.tan(x - 0.3)

    rising_roots(f, np.zeros(1), np.ones(1), resolution=1e-3)
    coarse = len(calls)
    rising_roots(f, np.zeros(1), np.ones(1))
    assert coarse < len(calls) - coarse


def test_no_roots():
    assert rising_roots(lambda x: x, np.empty(0), np.empty(0)).size == 0
