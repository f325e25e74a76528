from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.privacy import CountNoise, prepare_count
from fedconformal.privacy._mechanisms import _measurement
from support import kolmogorov_limit


class TestNoise:
    @given(st.floats(1e-6, 100), st.integers(1, 7))
    def test_rounding_never_costs_privacy(self, epsilon, levels):
        share = Fraction(str(epsilon)) / levels
        assert 1 / Fraction(CountNoise.of(share).scale) <= share

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
    def test_the_loss_is_epsilon_for_every_pair_of_neighbours(self, epsilon):
        """Neighbours differ by at most one covered case; outputs at the ends gather all
        that is cut off.
        """
        n, noise = 6, CountNoise.of(epsilon)
        laws = [
            [
                noise.cdf(0 - count),
                *noise.pmf(np.arange(1, n) - count),
                noise.cdf(count - n),
            ]
            for count in range(n + 1)
        ]
        assert np.sum(laws, axis=1) == pytest.approx(1.0)
        ratio = np.log(np.array(laws[1:]) / np.array(laws[:-1]))
        assert np.abs(ratio).max() <= epsilon * (1 + 1e-9)
        assert np.abs(ratio).max() >= epsilon * (
            1 - 1e-9
        )  # no more noise than needed either

    def test_pmf_and_cdf_agree(self):
        for epsilon in (0.05, 1.0, 20.0):
            noise, z = CountNoise.of(epsilon), np.arange(-40, 41)
            assert np.diff(noise.cdf(z)) == pytest.approx(
                noise.pmf(z[1:]), rel=1e-8, abs=1e-16
            )
            assert noise.cdf(-1) == pytest.approx(1 - noise.cdf(0))


class TestDraws:
    @pytest.mark.slow
    def test_follow_the_law(self):
        """3,000 draws; false alarm 1e-7 (Massart's inequality holds for any law)."""
        pytest.importorskip("opendp")
        runs, n, count, epsilon = 3_000, 10, 8, 0.5
        draw = prepare_count(count, n, epsilon)
        draws = np.array([draw() for _ in range(runs)])
        assert draws.min() >= 0
        assert draws.max() <= n
        seen = np.cumsum(np.bincount(draws, minlength=n + 1)) / runs
        law = np.array([*CountNoise.of(epsilon).cdf(np.arange(n) - count), 1.0])
        assert np.abs(seen - law).max() <= kolmogorov_limit(runs)

    def test_opendp_must_confirm_the_loss(self):
        with pytest.raises(
            RuntimeError, match=r"above epsilon=2.0: nothing was released"
        ):
            _measurement(0.4, 2.0, sensitivity=1)

    def test_what_is_no_count_is_refused(self):
        with pytest.raises(ValueError, match="count must be between 0 and 5"):
            prepare_count(6, 5, 1.0)
        with pytest.raises(ValueError, match="epsilon"):
            prepare_count(1, 5, 0.0)
