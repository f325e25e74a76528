"""The levels and the power of comparing sites, and what no such test can do.

Every simulation test states its runs; with the limits of support.py each fails by chance with probability
at most 1e-7.
"""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedconformal.heterogeneity._yardsticks import EachOther, ReferenceScores, yardstick
from support import FALSE_ALARM, hoeffding_limit

FAMILIES = {
    "half-normal": lambda rng, size: np.abs(rng.standard_normal(size)),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "cauchy": lambda rng, size: np.abs(rng.standard_cauchy(size)),
    "discrete": lambda rng, size: rng.integers(0, 8, size).astype(float),
}


def drawn(family, rng, m, n, l, factor=1.0):
    """Reports of m sites alike, but for the first one, whose scores are larger by the factor."""
    scores = FAMILIES[family](rng, (m, n))
    scores[0] *= factor
    return np.partition(scores, l - 1, axis=1)[:, l - 1]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("m", [5, 50, 500])
@pytest.mark.parametrize("n", [10, 100])
def test_with_reference_scores_the_level_holds_whatever_the_distribution(family, m, n):
    """200 federations, each with 200 reference scores of its own; alarms are at most Binomial(200, 0.05)."""
    rng = np.random.default_rng([m, n])
    l, runs, alarms = math.ceil(0.9 * n), 200, 0
    sizes, ranks = np.full(m, n), np.full(m, l)
    for _ in range(runs):
        values = drawn(family, rng, m, n, l)
        _, p = ReferenceScores(FAMILIES[family](rng, 200)).compare(values, sizes, ranks)
        alarms += p.min() <= 0.05
    assert alarms <= stats.binom.isf(FALSE_ALARM, runs, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("m", [5, 50, 500])
@pytest.mark.parametrize("n", [10, 100])
def test_without_a_reference_the_level_holds_for_exponential_tails(m, n):
    """1,000 federations; the simulated critical value errs by at most a Beta quantile of 1e-7."""
    rng = np.random.default_rng([m, n, 7])
    l, runs = math.ceil(0.9 * n), 1000
    sizes, ranks = np.full(m, n), np.full(m, l)
    p = [
        EachOther().compare(3 + 2 * drawn("exponential", rng, m, n, l), sizes, ranks)[1].min()
        for _ in range(runs)
    ]
    level = stats.beta.isf(FALSE_ALARM / 2, 500, 9501)
    assert sum(value <= 0.05 for value in p) <= stats.binom.isf(FALSE_ALARM / 2, runs, level)
    least = stats.beta.ppf(FALSE_ALARM / 2, 500, 9501)
    # The level is not wasted either.
    assert sum(value <= 0.05 for value in p) >= stats.binom.ppf(FALSE_ALARM / 2, runs, least)


@pytest.mark.parametrize("family", ["half-normal", "exponential"])
@pytest.mark.parametrize("with_reference", [False, True])
def test_one_site_with_doubled_scores_among_twenty_is_found(family, with_reference):
    """300 federations of 20 sites with 100 points: a power of 0.9 passes but for a chance below 1e-7."""
    rng = np.random.default_rng(3)
    m, n, l, runs, found = 20, 100, 92, 300, 0
    sizes, ranks = np.full(m, n), np.full(m, l)
    for _ in range(runs):
        values = drawn(family, rng, m, n, l, factor=2.0)
        stick = ReferenceScores(FAMILIES[family](rng, 500)) if with_reference else EachOther()
        found += stick.compare(values, sizes, ranks)[1][0] <= 0.05
    assert found / runs >= 0.8


@pytest.mark.slow
def test_no_test_from_the_reports_alone_is_free_of_assumptions():
    """The proof, in numbers: if all sites follow the mixture, it alarms with at least power / e.

    2,000 federations each; both frequencies are within Hoeffding's limit of their probabilities.
    """
    rng = np.random.default_rng(4)
    m, n, l, runs = 20, 100, 92, 2000
    sizes, ranks = np.full(m, n), np.full(m, l)

    def alarms(odd):
        found = 0
        for _ in range(runs):
            values = np.where(odd(m), 3.0, 1.0) * drawn("exponential", rng, m, n, l)
            found += EachOther().compare(values, sizes, ranks)[1].min() <= 0.05
        return found / runs

    power_of_it = alarms(lambda m: np.arange(m) == 0)
    at_the_mixture = alarms(lambda m: rng.random(m) < 1 / m)
    assert power_of_it > 0.9
    assert at_the_mixture >= power_of_it / math.e - 2 * hoeffding_limit(runs)


@settings(max_examples=25)
@given(st.floats(-50, 50), st.floats(0.01, 100))
def test_position_and_scale_do_not_matter_without_a_reference(a, b):
    values = np.random.default_rng(0).exponential(size=12)
    sizes, ranks = np.full(12, 40), np.full(12, 36)
    ours, p = EachOther().compare(values, sizes, ranks)
    theirs, q = EachOther().compare(a + b * values, sizes, ranks)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(p, q, atol=2e-3)


def test_exact_ranks_among_reference_scores():
    """Against the negative hypergeometric law, counted: where may 2 of 3 new scores fall among 4 old ones."""
    n, l, old = 3, 2, np.array([10.0, 20.0, 30.0, 40.0])
    placements = list(combinations(range(7), n))
    below = np.array([taken[l - 1] - (l - 1) for taken in placements])  # old scores below the l-th new one
    for k in range(5):
        value = np.array([5.0 + 10 * k])
        low, high = (below <= k).mean(), (below >= k).mean()
        _, p = ReferenceScores(old).compare(value, np.array([n]), np.array([l]))
        assert p[0] == pytest.approx(min(1.0, 2 * min(low, high)), abs=1e-12)


class TestPower:
    """With 2,000 simulated federations the standard error is at most 0.0112; bounds are 6 of them away."""

    n, l = np.full(20, 100), np.full(20, 90)

    def found(self, stick, draw, factor=2.0, runs=300, seed=4):
        """How often one odd site among 20 is named, simulated through the comparison itself."""
        rng, hits = np.random.default_rng(seed), 0
        for _ in range(runs):
            scores = np.sort(draw(rng, (20, 100)), axis=1)
            values = scores[:, 89]
            values[7] *= factor
            hits += stick.compare(values, self.n, self.l)[1][7] <= 0.05
        return hits / runs

    @pytest.mark.parametrize("factor", [1.2, 1.4])
    def test_reference_distribution(self, factor):
        stick = yardstick("half-normal")
        said = stick.power(self.n, self.l, 0.05, factor)
        seen = self.found(stick, lambda rng, shape: np.abs(rng.standard_normal(shape)), factor)
        assert abs(said - seen) <= 6 * np.sqrt(0.25 / 300)  # fails by chance less than once in 1e8
        assert 0.05 < said < 0.95

    def test_reference_scores(self):
        reference = np.abs(np.random.default_rng(1).standard_normal(2000))
        stick = yardstick(reference)
        seen = self.found(stick, lambda rng, shape: rng.choice(reference, shape), 1.4)
        assert abs(stick.power(self.n, self.l, 0.05, 1.4) - seen) <= 6 * np.sqrt(0.25 / 300)

    def test_each_other(self):
        stick = yardstick(None)
        seen = self.found(stick, lambda rng, shape: rng.exponential(size=shape), 1.5)
        assert abs(stick.power(self.n, self.l, 0.05, 1.5) - seen) <= 6 * np.sqrt(0.25 / 300 + 0.25 / 2000)

    def test_four_sites_without_a_reference_see_little(self):
        few = yardstick(None).power(np.full(4, 100), np.full(4, 90), 0.05)
        assert few < yardstick(None).power(self.n, self.l, 0.05)
        assert few < 0.5

    def test_no_difference_is_found_no_more_often_than_stated(self):
        assert yardstick("half-normal").power(self.n, self.l, 0.05, 1.0) <= 0.05 / 20 + 1e-3


class TestTrainedReference:
    def values(self, factor, seed=2):
        rng = np.random.default_rng(seed)
        return factor * np.sort(np.abs(rng.standard_normal((8, 100))), axis=1)[:, 89]

    def test_small_reference_scores_are_suspected(self):
        n, l = np.full(8, 100), np.full(8, 90)
        reference = np.abs(np.random.default_rng(3).standard_normal(500))
        assert yardstick(reference).suspicion(self.values(1.0), n, l) is None
        words = yardstick(0.6 * reference).suspicion(self.values(1.0), n, l)
        assert "trained on the reference cases" in words
        assert yardstick(2.0 * reference).suspicion(self.values(1.0), n, l) is None
        assert yardstick("half-normal").suspicion(self.values(9.0), n, l) is None

    def test_false_alarms_are_rare(self):
        """About once in 700; 10 or more in 400 runs have probability below 1e-8."""
        rng, n, l, alarms = np.random.default_rng(5), np.full(8, 100), np.full(8, 90), 0
        for _ in range(400):
            values = np.sort(rng.random((8, 100)), axis=1)[:, 89]
            alarms += yardstick(rng.random(300)).suspicion(values, n, l) is not None
        assert alarms < 10
