"""Bounds for noisy curves, and rules of ranks and cells: direct convolution and the
package are oracles.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedconformal.audit._base import NotVerifiableError, Work
from fedconformal.audit._curves import CurveNoise, _find_share
from fedconformal.audit._ranks import _apply_rule
from fedconformal.documents import RankRule
from fedconformal.laws._curves import NoisyCurve, choose_curve, share_bridge
from fedconformal.planning import ranks_of_rule
from fedconformal.privacy import scale_noise


def convolved_tail(g, cells, n_sites, epsilon, reach=400):
    """P(Z_g >= x) for x from -reach to reach, by direct convolution of the noise of
    single cells.
    """
    z = np.arange(-60, 61)
    one = np.exp(-np.abs(z) * float(epsilon) / 2)
    before, after = ([1.0] for _ in range(2))
    for _ in range(g * n_sites):
        before = np.convolve(before, one / one.sum())
    for _ in range((cells - g) * n_sites):
        after = np.convolve(after, one / one.sum())
    share = Fraction(_find_share(g, cells), 16)
    a, b = (np.arange(len(law)) - len(law) // 2 for law in (before, after))
    values = np.add.outer(a * float(1 - share), -b * float(share)).ravel()
    masses = np.multiply.outer(before, after).ravel()
    return np.array(
        [masses[values >= x - 1e-9].sum() for x in range(-reach, reach + 1)]
    )


@pytest.mark.parametrize(
    ("g", "cells", "n_sites", "epsilon"), [(1, 5, 1, 2), (2, 5, 2, 2), (3, 4, 1, 3)]
)
def test_noise_is_that_of_a_direct_convolution(g, cells, n_sites, epsilon):
    reach, tail = CurveNoise(cells, n_sites, Fraction(epsilon), Work()).tail(g)
    expected = convolved_tail(g, cells, n_sites, epsilon, reach)
    np.testing.assert_allclose(tail, expected, atol=1e-13)


@pytest.mark.parametrize("cells", [2, 3, 5, 17, 100, 233])
def test_the_shares_of_the_bridge(cells):
    assert [_find_share(g, cells) for g in range(1, cells)] == share_bridge(
        cells, 16
    ).tolist()


@pytest.mark.parametrize(
    ("n_sites", "n", "epsilon", "cells", "level"),
    [
        (10, 500, 1, 100, "0.9"),
        (5, 200, 1, 50, "0.8"),
        (1, 60, 4, 13, "0.6"),
        (50, 100, 2, 30, "0.9"),
    ],
)
class TestPrivateCurves:
    def test_the_mean_is_bounded_as_the_package_does(
        self, n_sites, n, epsilon, cells, level
    ):
        curve = choose_curve(
            n_sites * n, scale_noise(cells, n_sites, epsilon), Fraction(level), runs=50
        )
        noise = CurveNoise(cells, n_sites, Fraction(epsilon), Work())
        offsets = curve.offsets or (0,) * (cells - 1)
        mean = noise.bound_mean(n_sites * n, curve.votes, offsets)
        assert (
            0 < mean - curve.mean_bound < 2e-11
        )  # the package adds an error of 1e-11 to every tail
        assert (
            mean
            >= Fraction(level)
            > noise.bound_mean(n_sites * n, curve.votes - 1, offsets)
        )

    def test_so_is_the_probability_to_miss(self, n_sites, n, epsilon, cells, level):
        """The package averages the worst edge for each count, which is a little more
        than the worst edge.
        """
        points, delta = n_sites * n, Fraction(1, 10)
        package = scale_noise(cells, n_sites, epsilon)
        curve = choose_curve(points, package, Fraction(level), delta=delta, runs=50)
        noise = CurveNoise(cells, n_sites, Fraction(epsilon), Work())
        offsets = curve.offsets or (0,) * (cells - 1)
        missed = noise.bound_missed(points, curve.votes, offsets, Fraction(level))
        looser = float(
            NoisyCurve(points, curve.votes, package, curve.offsets).below(
                np.array(float(level))
            )[0]
        )
        assert 0.8 * looser < missed <= looser <= delta
        assert (
            noise.bound_missed(points, curve.votes - 30, offsets, Fraction(level))
            > delta
        )


def test_without_noise_to_speak_of_the_bounds_are_those_of_exact_counts():
    noise, level = CurveNoise(2, 1, Fraction(100), Work()), Fraction(9, 10)
    assert noise.bound_mean(99, 90, (0,)) == pytest.approx(0.9, abs=1e-12)
    assert noise.bound_missed(100, 95, (0,), level) == pytest.approx(
        stats.binom.sf(94, 100, 0.9), abs=1e-12
    )


@given(
    st.integers(2, 9),
    st.integers(1, 4),
    st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(4)]),
    st.integers(1, 300),
    st.data(),
)
def test_bounds_from_variances_enclose_those_of_the_distributions(
    cells, n_sites, epsilon, n, data
):
    noise, level = CurveNoise(cells, n_sites, epsilon, Work()), Fraction(4, 5)
    votes = data.draw(st.integers(1, n + 1))
    offsets = data.draw(
        st.lists(st.integers(0, 9), min_size=cells - 1, max_size=cells - 1)
    )
    low, high = noise.bound_roughly(n, votes, offsets, level, mean=True)
    assert low - 1e-9 <= noise.bound_mean(n, votes, offsets) <= high + 1e-9
    low, high = noise.bound_roughly(n, votes, offsets, level, mean=False)
    assert low - 1e-9 <= noise.bound_missed(n, votes, offsets, level) <= high + 1e-9


def test_hostile_noise_is_not_tried():
    for cells, epsilon, offsets in (
        (100, Fraction(1, 10**6), (0,) * 99),
        (3, Fraction(1), (0, 2**30)),
    ):
        with pytest.raises(NotVerifiableError):
            CurveNoise(cells, 10**4, epsilon, Work()).bound_mean(2**34, 2**33, offsets)


@given(
    st.integers(1, 2**30) | st.integers(1, 60),
    st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=1000),
    st.integers(1, 20),
    st.fractions(Fraction(1, 20), Fraction(3, 2), max_denominator=50),
)
def test_ranks_of_open_plans_are_those_that_sites_find(n, level, numbers, spacing):
    rule = RankRule(
        share=level, numbers=numbers, spacing=None if numbers == 1 else spacing
    )
    assert _apply_rule(rule, level, n) == ranks_of_rule(rule, level, n)
    chance = RankRule(eta=Fraction(math.ceil(float(spacing) * 50), 80))
    assert _apply_rule(chance, level, n) == ranks_of_rule(chance, level, n)
