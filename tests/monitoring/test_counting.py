"""Exact p-values and intervals for counts, with and without noise, added up over all
outcomes.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from checked_calibrations import noisy_law
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedconformal.monitoring._coverage import (
    count_cdf,
    detectable_coverage,
    holm,
    interval,
)
from fedconformal.privacy import CountNoise

LEVEL = Fraction("0.9")
SURE = Fraction("0.95")
NOISY = [(1, 1.0), (5, 0.5), (12, 0.2), (25, 10.0)]


class TestExactCounts:
    @pytest.mark.parametrize("level", ["0.9", "0.123"])
    @pytest.mark.parametrize("n", [1, 40])
    def test_the_p_value_is_the_binomial_sum(self, n, level):
        exact, total = Fraction(level), Fraction(0)
        for k in range(n + 1):
            total += math.comb(n, k) * exact**k * (1 - exact) ** (n - k)
            assert count_cdf(n, k, float(1 - exact)) == pytest.approx(
                float(total), rel=1e-13
            )

    def test_the_level_is_the_decimal_that_was_written(self):
        """All of 1000 cases missed at the level 1 - 1e-12 has probability 1e-12000,
        none of one 1e-12.
        """
        level = Fraction("0.999999999999")
        assert count_cdf(1, 0, float(1 - level)) == pytest.approx(1e-12, rel=1e-13)

    @pytest.mark.parametrize("n", [1, 5, 30])
    def test_the_interval_holds_any_coverage_often_enough(self, n):
        ends = [interval(n, y, SURE) for y in range(n + 1)]
        for c in np.linspace(0, 1, 201):
            law = stats.binom.pmf(np.arange(n + 1), n, c)
            assert (
                sum(
                    p
                    for p, (low, high) in zip(law, ends, strict=True)
                    if low <= c <= high
                )
                >= 0.95 - 1e-12
            )

    def test_what_would_be_noticed(self):
        for n, level in [
            (29, LEVEL),
            (100, LEVEL),
            (212, LEVEL),
            (80, Fraction("0.5")),
        ]:
            worst = detectable_coverage(n, level, 0.05, 0.8)
            p = stats.binom.cdf(np.arange(n + 1), n, float(level))
            critical = np.flatnonzero(p <= 0.05).max()
            assert stats.binom.cdf(critical, n, worst) == pytest.approx(0.8, abs=1e-9)
        assert detectable_coverage(1, LEVEL, 0.05, 0.8) is None
        assert (
            detectable_coverage(2, LEVEL, 0.05, 0.8) is not None
        )  # two misses of two: 0.01


class TestNoisyCounts:
    @pytest.mark.parametrize(("n", "epsilon"), NOISY)
    def test_the_law_is_that_of_all_counts_and_all_noise(self, n, epsilon):
        for c in (0.0, 0.05, 0.5, 0.9, 0.999, 1.0):
            brute = np.cumsum(noisy_law(n, c, epsilon))
            ours = [
                count_cdf(n, y, 1 - c, CountNoise.of(epsilon)) for y in range(n + 1)
            ]
            assert ours == pytest.approx(brute, rel=1e-10, abs=1e-20)

    @pytest.mark.parametrize("epsilon", [0.01, 0.3, 5.0])
    def test_what_lies_outside_of_the_windows_does_not_matter(self, epsilon):
        n = 4000
        for c in (0.2, 0.9):
            brute = np.cumsum(noisy_law(n, c, epsilon))
            for y in (0, 500, 790, 800, 3500, 3590, 3600, 3700, 3999):
                assert count_cdf(n, y, 1 - c, CountNoise.of(epsilon)) == pytest.approx(
                    brute[y], rel=1e-9, abs=1e-14
                )

    @pytest.mark.parametrize(("n", "epsilon"), NOISY)
    def test_the_interval_holds_any_coverage_often_enough(self, n, epsilon):
        ends = [interval(n, y, SURE, CountNoise.of(epsilon)) for y in range(n + 1)]
        for c in np.linspace(0, 1, 201):
            law = noisy_law(n, c, epsilon)
            assert (
                sum(
                    p
                    for p, (low, high) in zip(law, ends, strict=True)
                    if low <= c <= high
                )
                >= 0.95 - 1e-12
            )

    def test_the_interval_is_no_wider_than_it_must_be(self):
        """At each end the observed count or one beyond has probability 2.5 %."""
        n, epsilon, y = 60, 0.7, 50
        low, high = interval(n, y, SURE, CountNoise.of(epsilon))
        assert noisy_law(n, high, epsilon)[: y + 1].sum() == pytest.approx(
            0.025, abs=1e-9
        )
        assert noisy_law(n, low, epsilon)[y:].sum() == pytest.approx(0.025, abs=1e-9)

    @pytest.mark.parametrize(("n", "epsilon"), NOISY)
    def test_no_coverage_at_the_level_is_called_short_too_often(self, n, epsilon):
        p = np.array(
            [
                count_cdf(n, y, float(1 - LEVEL), CountNoise.of(epsilon))
                for y in range(n + 1)
            ]
        )
        for c in (0.9, 0.93, 0.99, 1.0):
            law = noisy_law(n, c, epsilon)
            for alarm in p:
                assert law[p <= alarm].sum() <= alarm + 1e-12


class TestManyPValues:
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.5))
    def test_holm_rejects_step_by_step(self, p_values, alarm):
        rejected = set()
        for place, (p, i) in enumerate(sorted((p, i) for i, p in enumerate(p_values))):
            if p * (len(p_values) - place) > alarm:
                break
            rejected.add(i)
        assert {i for i, p in enumerate(holm(p_values)) if p <= alarm} == rejected
