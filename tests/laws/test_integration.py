"""Integrals over panels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from fedconformal.laws import integrate
from fedconformal.laws._integration import from_window, legendre


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_polynomials_are_integrated_exactly(coefficients):
    polynomial = np.polynomial.Polynomial(coefficients)
    area = integrate(lambda x: polynomial(x)[:, None], np.array([0.0, 0.25, 1.0]), tolerance=1e-13)
    assert area[0] == pytest.approx(polynomial.integ()(1.0), abs=1e-13)


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


def test_several_functions_at_once():
    area = integrate(lambda x: np.stack([x, x**2, np.exp(x)], axis=1), np.array([0.0, 1.0]), tolerance=1e-13)
    assert area == pytest.approx([1 / 2, 1 / 3, np.e - 1], abs=1e-14)


def test_legendre_on_the_unit_interval():
    x, w = legendre(5)
    assert w @ x**9 == pytest.approx(1 / 10, abs=1e-16)


def test_mean_and_variance_of_a_uniform_law():
    # cdf(c) = (c - 0.2) / 0.6 on [0.2, 0.8], so u in the window has cdf u.
    mean, variance = from_window(np.array(0.2), np.array(0.8), np.array(1 / 2), np.array(1 / 3))
    assert mean == pytest.approx(0.5)
    assert variance == pytest.approx(0.6**2 / 12)
