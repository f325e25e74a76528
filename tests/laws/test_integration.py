"""Integrals over panels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from fedconformal.laws import integrate


@given(st.floats(0.001, 0.999), st.integers(1, 12))
def test_a_step_cannot_hide(place, digits):
    """P(C <= c) rises from 0 to 1 at ``place`` within 10^-digits: the area is 1 - place."""
    width = 10.0**-digits

    def step(c):
        return special.ndtr((c - place) / width)[:, None]

    upper, lower = (1 - place) / width, place / width

    def integral(z):
        return z * special.ndtr(z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

    exact = width * (integral(upper) - integral(-lower))
    assert integrate(step, np.array([0.0, 1.0]), tolerance=1e-13)[0] == pytest.approx(exact, abs=2e-12)


def test_a_kink_costs_no_accuracy():
    area = integrate(lambda x: np.abs(x - 1 / 3)[:, None], np.array([0.0, 1.0]), tolerance=1e-14)
    assert area[0] == pytest.approx((1 / 9 + 4 / 9) / 2, abs=1e-13)
