"""What one site sends, as a law."""

import numpy as np
import pytest

from fedconformal.laws import OrderStatistics, Shifted
from support import kolmogorov_distance, kolmogorov_limit

RUNS = 40_000


def square(c):
    return np.asarray(c) ** 2


@pytest.fixture
def one_number():
    return OrderStatistics(np.array([5, 8, 3]), np.array([5, 7, 4]))


@pytest.fixture
def two_numbers():
    return OrderStatistics(np.array([5, 8, 3]), np.array([[2, 5], [7, 9], [4, 4]]))


def test_a_bracket_holds_all_finite_numbers(two_numbers):
    low, high = two_numbers.bracket(1e-3, 1e-4)
    finite = ~two_numbers.sends_infinity
    assert two_numbers.below(np.array([low]))[0][finite].max() == pytest.approx(1e-3)
    assert (1 - two_numbers.below(np.array([high])))[0][finite].max() == pytest.approx(1e-4)
    assert OrderStatistics(np.array([5]), np.array([6])).bracket(0.1, 0.1) == (0.0, 1.0)
    assert OrderStatistics(np.array([5, 5]), np.array([0, 3])).bracket(0.1, 0.1)[0] == 0.0


def test_steps_are_where_a_large_site_decides():
    sites = OrderStatistics(np.array([19, 10**8]), np.array([[9, 10], [9 * 10**7, 10**8 + 1]]))
    starts, ends = sites.steps(0.1)
    assert starts.size == 1
    assert ends - starts < 1e-3
    assert sites.below(starts)[0, 1, 0] < 1e-16
    assert sites.below(ends)[0, 1, 0] > 1 - 1e-15


@pytest.mark.parametrize("distortion", [None, square])
def test_numbers_are_drawn_together(two_numbers, distortion):
    """Against sorted uniforms, each number by itself and their difference."""
    sites = two_numbers if distortion is None else Shifted(two_numbers, [distortion] * 3)
    draws = sites.rvs(0, (RUNS,), np.random.default_rng(3))
    assert draws.shape == (RUNS, 2)
    scores = np.sort(np.random.default_rng(4).random((RUNS, 5)), axis=1)[:, [1, 4]]
    scores = scores if distortion is None else np.sqrt(scores)
    for f in (lambda x: x[:, 0], lambda x: x[:, 1], lambda x: x[:, 1] - x[:, 0]):
        other = np.sort(f(scores))
        gap = kolmogorov_distance(f(draws), lambda x, other=other: np.searchsorted(other, x) / RUNS)
        assert gap < 2 * kolmogorov_limit(RUNS)


def test_a_shifted_site_is_seen_through_its_distortion(one_number, two_numbers):
    c = np.array([0.3, 0.8])
    for base in (one_number, two_numbers):
        shifted = Shifted(base, [square, square, square])
        assert shifted.below(c) == pytest.approx(base.below(c**2))
        assert shifted.n_blocks == 3
        assert (shifted.sends_infinity == base.sends_infinity).all()
        assert shifted.bracket(0.1, 0.1) == (0.0, 1.0)


@pytest.mark.parametrize("wrong", [lambda c: 2 * c, lambda c: c * np.nan])
def test_a_distortion_must_be_a_probability(one_number, wrong):
    with pytest.raises(ValueError, match=r"a distortion must map \[0, 1\] to \[0, 1\]"):
        Shifted(one_number, [square, wrong, square]).below(np.array([0.3, 0.9]))
