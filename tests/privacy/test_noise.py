import inspect
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedconformal.privacy import CountNoise
from fedconformal.privacy._mechanisms import (
    _measurement,
    prepare_noisy_counts,
    scale_noise,
    simulate_noisy_counts,
)
from support import kolmogorov_limit


def histograms(n, cells):
    return [h for h in product(range(n + 1), repeat=cells) if sum(h) == n]


class TestPrivacy:
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
    @pytest.mark.parametrize(("n", "cells"), [(3, 3), (2, 4), (4, 2)])
    def test_the_loss_is_epsilon_for_every_pair_of_neighbours(self, epsilon, n, cells):
        """Neighbours differ in the cell of one record; the joint pmf is compared for
        releases in a box.
        """
        noise = CountNoise(scale_noise(cells, 1, epsilon).scale)
        releases = np.array(list(product(range(-2, n + 3), repeat=cells)))
        logs = {
            h: np.log(noise.pmf(releases - np.array(h))).sum(axis=1)
            for h in histograms(n, cells)
        }
        losses = []
        for one, other in product(logs, repeat=2):
            moved = np.abs(np.subtract(one, other))
            if moved.sum() == 2 and moved.max() == 1:  # one record in another cell
                losses.append(float(np.abs(logs[one] - logs[other]).max()))
            elif one != other:
                assert moved.sum() >= 2
        assert max(losses) <= epsilon * (1 + 1e-9)
        assert min(losses) >= epsilon * (1 - 1e-9)  # no more noise than needed either

    @pytest.mark.parametrize("epsilon", [0.3, 1 / 3, 0.7, 1.1, 2.0, 99.9])
    def test_opendp_confirms_the_loss(self, epsilon):
        pytest.importorskip("opendp")
        assert len(prepare_noisy_counts([1, 2, 3], epsilon)()) == 3

    @given(st.floats(1e-3, 100))
    def test_opendp_confirms_any_loss(self, epsilon):
        pytest.importorskip("opendp")
        prepare_noisy_counts([1, 2, 3], epsilon)

    def test_opendp_must_confirm_the_loss(self):
        pytest.importorskip("opendp")
        with pytest.raises(
            RuntimeError, match=r"above epsilon=2.0: nothing was released"
        ):
            _measurement(0.9, 2.0, sensitivity=2)

    def test_releases_cannot_be_seeded(self):
        pytest.importorskip("opendp")
        assert [*inspect.signature(prepare_noisy_counts).parameters] == [
            "counts",
            "epsilon",
        ]
        draw = prepare_noisy_counts([50] * 100, 0.1)
        draws = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            draws.append(draw())
        assert draws[0] != draws[1]


class TestDraws:
    def test_follow_the_law(self):
        """6,000 draws in 30 cells; false alarm 1e-7 (Massart), and a chi-square test of
        pairs at 1e-7.
        """
        pytest.importorskip("opendp")
        counts, epsilon = np.arange(30) * 7, 0.8
        draw = prepare_noisy_counts(counts, epsilon)
        noise = np.array([draw() for _ in range(200)]) - counts
        check_law(noise, epsilon)
        signs = np.sign(noise) + 1
        table = np.bincount((3 * signs[:, ::2] + signs[:, 1::2]).ravel(), minlength=9)
        zero = float(CountNoise.of(epsilon / 2).pmf(0))
        single = np.array([(1 - zero) / 2, zero, (1 - zero) / 2])
        assert (
            stats.chisquare(
                table, np.outer(single, single).ravel() * table.sum()
            ).pvalue
            > 1e-7
        )

    def test_simulated_ones_do_too(self):
        """6,000 draws; false alarm 1e-7."""
        counts = np.tile(np.arange(30), (200, 1))
        rng = np.random.default_rng(0)
        check_law(simulate_noisy_counts(counts, 0.8, rng=rng) - counts, 0.8)

    def test_sums_over_sites_follow_the_law(self):
        """6,000 draws of the sum of 5 sites; false alarm 1e-7."""
        sites = scale_noise(2, 5, 0.8, denominator=1)
        seen = sites.rvs((6000,), np.random.default_rng(1))
        x = np.arange(-sites.reach, sites.reach + 1)
        empirical = (seen[:, None] >= x).mean(axis=0)
        assert np.abs(empirical - sites.tails[0, :-1]).max() <= kolmogorov_limit(
            seen.size
        )


def check_law(noise, epsilon):
    law = CountNoise.of(epsilon / 2)
    z = np.arange(noise.min(), noise.max() + 1)
    empirical = (noise.ravel()[:, None] <= z).mean(axis=0)
    assert np.abs(empirical - law.cdf(z)).max() <= kolmogorov_limit(noise.size)


class TestArguments:
    def test_what_is_no_histogram_is_refused(self):
        with pytest.raises(ValueError, match=r"counts\[1\] must be >= 0"):
            prepare_noisy_counts([1, -1], 1.0)
        with pytest.raises(TypeError, match="counts"):
            prepare_noisy_counts([1.5, 2.0], 1.0)
        with pytest.raises(ValueError, match="epsilon"):
            prepare_noisy_counts([1, 2], 0.0)

    def test_simulation_needs_a_generator(self):
        with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
            simulate_noisy_counts([1, 2], 1.0, rng=0)

    def test_scale_is_rounded_up(self):
        assert scale_noise(10, 3, 0.1).scale >= 20.0
        assert math.isclose(scale_noise(10, 3, 0.1).scale, 20.0)
