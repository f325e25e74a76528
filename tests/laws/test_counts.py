"""Binomial counts, and which sites are left out."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.laws import binomial_masses, honest_counts


@given(st.integers(1, 60), st.integers(1, 19))
def test_masses_agree_with_fractions(m, twentieths):
    p = Fraction(twentieths, 20)
    first, masses = binomial_masses(np.array([float(p), 0.5]), m)
    exact = [float(comb(m, j) * p**j * (1 - p) ** (m - j)) for j in range(m + 1)]
    kept = exact[first : first + masses.shape[1]]
    assert masses[0] == pytest.approx(kept, abs=1e-14)
    assert sum(exact) - sum(kept) < 1e-18


def test_masses_of_many_trials_keep_to_those_that_matter():
    first, masses = binomial_masses(np.array([0.3]), 10**6)
    assert masses.shape[1] < 10**4
    assert masses.sum() == pytest.approx(1, abs=1e-12)
    assert first + masses[0] @ np.arange(masses.shape[1]) == pytest.approx(300_000, rel=1e-10)


def test_those_least_likely_to_lie_below_are_left_out():
    p = np.array([[0.1, 0.9, 0.5], [0.9, 0.1, 0.5]])
    assert honest_counts(p, np.array([2, 3, 4]), 3).tolist() == [[0, 3, 3], [2, 0, 4]]
    assert honest_counts(p, np.array([2, 3, 4]), 0).tolist() == [[2, 3, 4]] * 2
