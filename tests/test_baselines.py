import math

import numpy as np
import pytest
from scipy.special import betainc

import fedconformal as fc
from fedconformal import baselines


def test_centralized_is_the_rank_of_split_conformal_prediction():
    scores = np.random.default_rng(0).permutation(np.arange(1.0, 100.0))
    assert baselines.centralized(scores, 0.9) == 90
    assert baselines.centralized(scores, 0.95) == 95


def test_too_few_scores_give_the_whole_line():
    message = "90 % coverage cannot be guaranteed with 8 scores.* at least 9"
    with pytest.warns(fc.InfeasibleWarning, match=message):
        assert baselines.centralized([1.0] * 8, 0.9) == math.inf
    with pytest.warns(fc.InfeasibleWarning, match=message):
        assert baselines.average([[1.0] * 8, [1.0] * 20], 0.9) == math.inf


def test_average_of_the_sites_quantiles():
    assert baselines.average([np.arange(1, 10), np.arange(11, 20)], 0.9) == (9 + 19) / 2


def test_average_weighted_by_size():
    sites = {"A": np.arange(1, 10), "B": np.arange(11, 40)}
    assert baselines.average(sites, 0.9, weighted=True) == pytest.approx(
        (9 * 9 + 29 * 37) / 38
    )


def test_the_upper_bounds_of_section_3_3_hold_and_are_tight():
    for n in (10, 50, 99):
        mean = fc.plan(n_sites=1, n_points=n, confidence_level=0.9).law.mean()
        assert mean + 1e-12 >= 0.9
        assert mean < 0.9 + 1 / (n + 1)


@pytest.mark.parametrize("scores", [[], [1.0, math.nan]])
def test_scores_must_be_numbers(scores):
    with pytest.raises(ValueError, match="scores must hold"):
        baselines.centralized(scores, 0.9)


def test_average_needs_a_site():
    with pytest.raises(ValueError, match="at least one site"):
        baselines.average([], 0.9)


def test_the_coverage_of_split_conformal_prediction_has_a_beta_law():
    law = baselines.coverage_law(99, 0.9)
    assert law.mean() == pytest.approx(90 / 100, abs=1e-14)
    assert law.cdf(0.88) == pytest.approx(betainc(90, 10, 0.88), rel=1e-12)
    assert baselines.coverage_law(8, 0.9).mean() == 1


@pytest.mark.parametrize("scores", [np.arange(50.0), [1, 2, 3]])
def test_average_takes_no_numbers_without_their_sites(scores):
    with pytest.raises(ValueError, match="scores must be one array for each site"):
        baselines.average(scores, 0.9)
