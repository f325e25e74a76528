"""Distributions of scores: named ones against scipy's, quantiles that invert their cdf."""

import numpy as np
import pytest
from scipy import stats

from fedconformal.heterogeneity import contaminated, examples, location, power, reference, scale

SAMPLE = np.random.default_rng(5).gamma(2.0, size=300)


@pytest.mark.parametrize("name", ["half-normal", "exponential", "normal", "uniform", "log-normal", "cauchy"])
def test_named_references_are_what_they_are_called(name):
    same = {
        "half-normal": stats.halfnorm,
        "exponential": stats.expon,
        "normal": stats.norm,
        "uniform": stats.uniform,
        "log-normal": stats.lognorm(1.0),
        "cauchy": stats.halfcauchy,
    }[name]
    c = np.linspace(0, 1, 41)
    x = np.linspace(-2, 9, 45)
    np.testing.assert_allclose(reference(name).ppf(c), same.ppf(c), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(reference(name).cdf(x), same.cdf(x), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "maker", [scale(2.0), location(0.3), power(3.0), contaminated(0.1, 5.0), examples(SAMPLE)]
)
def test_quantiles_invert_the_cdf(maker):
    shifted = maker(reference("half-normal"))
    c = np.linspace(0.001, 0.999, 101)
    np.testing.assert_allclose(shifted.cdf(shifted.ppf(c)), c, atol=1e-12)


def test_anything_with_cdf_and_ppf_is_a_distribution():
    assert reference(stats.expon) is stats.expon


@pytest.mark.parametrize(
    ("wrong", "message"), [("gauss", "reference must be one of"), ([1.0, 1.0], "at least two different")]
)
def test_what_is_no_distribution_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        reference(wrong)
