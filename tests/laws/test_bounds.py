import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal.laws import (
    conditional_coverage_bound,
    ehm_bound,
    heterogeneous_coverage_bound,
)
from fedconformal.laws._reference import heterogeneity_loss, maximum_coverage


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.01, 0.5), st.data())
def test_theorem_3_3_bounds_the_exact_quantile_from_below(m, n, delta, data):
    l, k = data.draw(st.integers(1, n)), data.draw(st.integers(1, m))
    bound = conditional_coverage_bound(m, n, l, k, delta=delta)
    assert bound <= fc.CoverageLaw(m, n, l, k).ppf(delta) + 1e-9


def test_theorem_3_3_by_hand():
    assert conditional_coverage_bound(10, 100, 95, 10, delta=0.1) == pytest.approx(
        0.95 - np.sqrt(np.log(10) / 2000)
    )
    with pytest.raises(ValueError, match="delta"):
        conditional_coverage_bound(10, 100, 95, 10, delta=0.6)


def number_of_successes(chances):
    """Its distribution; scipy.stats.binom overflows with chances next to zero."""
    masses = np.ones(1)
    for chance in chances:
        masses = np.convolve(masses, [1 - chance, chance])
    return masses


def test_the_number_of_successes_is_binomial_where_all_are_alike():
    binomial = stats.binom.pmf(np.arange(31), 30, 0.3)
    assert number_of_successes([0.3] * 30) == pytest.approx(binomial, abs=1e-15)


@given(
    st.lists(
        st.floats(0, 1) | st.sampled_from([0.0, 0.001, 0.5, 1.0]),
        min_size=1,
        max_size=30,
    )
)
@example([1.1e-308, 1.1e-308])
@example([5e-324, 0.0])
def test_ehm_bounds_the_distance(p):
    """Total variation of the number of successes from the binomial with the same
    mean.
    """
    m = len(p)
    masses = number_of_successes(p)
    binomial = number_of_successes([np.mean(p)] * m)
    distance = np.abs(masses - binomial).sum() / 2
    assert ehm_bound(p, lower=True) - 1e-12 <= distance <= ehm_bound(p) + 1e-12
    assert ehm_bound(p) * (m + 1) / m / 22 <= ehm_bound(p, lower=True) + 1e-12, (
        "the paper's form, C = 1/22"
    )


@given(st.integers(2, 12), st.floats(0, np.pi), st.data())
def test_the_lower_bound_holds_step_by_step(m, t, data):
    """Moving a pair of probabilities together changes E cos(t(X - mp)) as the proof
    says.
    """
    p = np.array(data.draw(st.lists(st.floats(0, 1), min_size=m, max_size=m)))
    move = data.draw(st.floats(0, 1)) * (p[1] - p[0]) / 2
    closer = p + np.array([move, -move, *[0.0] * (m - 2)])

    def mean_cosine(chances, away):
        factors = 1 - chances + chances * np.exp(1j * t)
        return (np.prod(factors) * np.exp(-1j * t * away)).real

    gain = mean_cosine(p, p.sum()) - mean_cosine(closer, p.sum())  # of 1 - cos
    grown = closer[0] * closer[1] - p[0] * p[1]
    others = mean_cosine(p[2:], p.sum() - 1)
    assert gain == pytest.approx(2 * grown * (1 - np.cos(t)) * others, abs=1e-12)
    variance = m * p.mean() * (1 - p.mean())
    assert others >= 1 - t**2 * (variance + 1) / 2 - 1e-12


def test_ehm_is_vectorised_and_exact_where_all_are_alike():
    assert ehm_bound(np.full((4, 3), 0.3)).tolist() == pytest.approx(
        [0.0] * 4, abs=1e-15
    )
    assert ehm_bound([0.0, 1.0]) == pytest.approx(2 / 3 * (1 - 0.25))
    assert ehm_bound([1e-17, 0.0]) >= ehm_bound([1e-17, 0.0], lower=True) > 0
    with pytest.raises(ValueError, match="probabilities"):
        ehm_bound([0.5, 1.5])


@pytest.mark.parametrize("power", [0.7, 1.0, 2.0])
def test_proposition_3_4_is_below_the_exact_coverage(power):
    def shift(c):
        return c**power

    shifts = [shift, shift, None, None, None, None]
    bound = heterogeneous_coverage_bound(6, 20, 19, 3, distortion=shifts)
    exact = fc.CoverageLaw(6, 20, 19, 3, distortion=shifts).mean()
    alike = fc.CoverageLaw(6, 20, 19, 3).mean()
    assert bound <= exact + 1e-9
    if power == 1.0:
        assert bound == pytest.approx(alike, abs=1e-9)


def test_proposition_3_4_against_a_plain_sum():
    """Two sites, total variation by hand on a fine grid."""
    law, n, l = fc.CoverageLaw(2, 8, 7, 1), 8, 7
    c = (np.arange(20_000) + 0.5) / 20_000
    one = fc.CoverageLaw(1, n, l, 1)
    p, r = one.cdf(c), one.cdf(c**1.5)
    actual = np.stack([(1 - p) * (1 - r), p * (1 - r) + r * (1 - p), p * r])
    ideal = np.stack([(1 - p) ** 2, 2 * p * (1 - p), p**2])
    distance = np.abs(actual - ideal).sum(axis=0).mean() / 2
    bound = heterogeneous_coverage_bound(
        2, n, l, 1, distortion=[lambda x: x**1.5, None]
    )
    assert bound == pytest.approx(law.mean() - distance, abs=1e-6)


def shares(c):
    return np.asarray(c) ** 1.5


@pytest.mark.parametrize("weights", [None, [2, 1, 3]])
def test_the_distance_of_votes_bounds_the_loss_of_coverage(weights):
    sites = {
        "n_points": [20, 30, 12],
        "local_rank": [(17, 19), (26, 28), (11,)],
        "server_rank": 4,
    }
    distortion = [shares, None, shares]
    law = fc.CoverageLaw(**sites, weights=weights, distortion=distortion)
    loss = fc.CoverageLaw(**sites, weights=weights).mean() - law.mean()
    exact = heterogeneity_loss(law.federation)
    assert abs(loss) <= exact + 1e-9
    bound = heterogeneous_coverage_bound(
        **sites, weights=weights, distortion=distortion
    )
    assert bound == pytest.approx(
        fc.CoverageLaw(**sites, weights=weights).mean() - exact, abs=1e-12
    )


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 10), (20, 3)])
def test_proposition_a_1_is_the_last_row_of_the_table(m, n):
    values = [maximum_coverage(m, n, k) for k in range(1, m + 1)]
    assert values == pytest.approx(fc.coverage_table(m, n)[-1], abs=1e-11)


def test_the_rank_of_proposition_a_1_falls_short_and_reaches_the_level_in_the_limit():
    assert maximum_coverage(100, 10) == pytest.approx(0.8987, abs=5e-5)
    for m in (99, 10**5, 10**9, 10**15):
        k = math.ceil(m * Fraction(9, 10) ** 10)
        exact = fc.CoverageLaw(m, 10, 10, k).mean()
        assert maximum_coverage(m, 10) == pytest.approx(exact, abs=1e-13)
    assert exact == pytest.approx(0.9, abs=1e-12)


def test_the_best_coupling_lies_between_equal_scores_and_the_exact_coverage():
    sites = {"n_sites": 10, "n_points": 100, "local_rank": 92, "server_rank": 4}
    same, best = (
        heterogeneous_coverage_bound(
            **sites, distortion=lambda c: c**1.1, coupling=name
        )
        for name in ("same", "best")
    )
    assert (
        same + 0.005
        < best
        <= fc.CoverageLaw(**sites, distortion=lambda c: c**1.1).mean() + 1e-9
    )
    with pytest.raises(ValueError, match="coupling"):
        heterogeneous_coverage_bound(**sites, distortion=lambda c: c, coupling="x")
    for name in ("same", "best"):  # without shifts nothing is lost
        bound = heterogeneous_coverage_bound(
            **sites, distortion=[None] * 10, coupling=name
        )
        assert bound == fc.CoverageLaw(**sites).mean()


@pytest.mark.parametrize(("m", "n"), [(2, 1), (5, 10), (20, 3), (12, 40)])
def test_steps_between_server_ranks_are_below_the_theorem(m, n):
    """M_{l,k+1} - M_{l,k} is at most sqrt(12) sigma m / (k (m - k)), for every l and
    k.
    """
    steps = np.diff(fc.coverage_table(m, n), axis=1)
    l, k = np.arange(1, n + 1)[:, None], np.arange(1, m)
    sigma = stats.beta(l, n - l + 1).std()
    assert (steps > 0).all()
    assert (steps <= np.sqrt(12) * sigma * m / (k * (m - k))).all()
