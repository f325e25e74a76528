"""Intervals: MAPIE's where there is one site, and coverage as the law allows where there are many."""

import numpy as np
import pytest
from estimator_examples import LEVELS
from mapie.metrics.regression import regression_coverage_score
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from scipy.special import ndtr
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import fedconformal as fc
from fedconformal import FederatedConformalRegressor as Regressor
from support import hoeffding_limit, kolmogorov_distance, kolmogorov_limit


@pytest.mark.parametrize("prefit", [True, False])
def test_one_site_gives_the_intervals_of_mapie(numbers, prefit):
    train, (X, y), (X_test, y_test) = numbers
    model = LinearRegression().fit(*train) if prefit else LinearRegression()
    ours = Regressor(model, confidence_level=LEVELS, criterion="marginal", prefit=prefit)
    theirs = SplitConformalRegressor(model, confidence_level=LEVELS, prefit=prefit)
    if not prefit:
        ours.fit(*train)
        theirs.fit(*train)
    points, intervals = ours.conformalize(X, y, sites=["A"] * len(X)).predict_interval(X_test)
    expected_points, expected = theirs.conformalize(X, y).predict_interval(X_test)
    assert intervals.shape == expected.shape == (len(X_test), 2, 3)
    np.testing.assert_allclose(intervals, expected, rtol=1e-12)
    np.testing.assert_array_equal(points, expected_points)
    np.testing.assert_array_equal(ours.predict(X_test), points)
    np.testing.assert_array_equal(
        regression_coverage_score(y_test, intervals), fc.metrics.regression_coverage_score(y_test, intervals)
    )


def test_one_site_gives_the_symmetric_quantile_intervals_of_mapie(numbers):
    train, (X, y), (X_test, _) = numbers
    models = [QuantileRegressor(quantile=q, alpha=0).fit(*train) for q in (0.05, 0.95, 0.5)]
    theirs = ConformalizedQuantileRegressor(models, prefit=True).conformalize(X, y)
    expected_points, expected = theirs.predict_interval(X_test, symmetric_correction=True)
    ours = Regressor(models, conformity_score="cqr", criterion="marginal")
    ours.conformalize(X, y, sites=["A"] * len(X))
    points, intervals = ours.predict_interval(X_test)
    np.testing.assert_allclose(intervals, expected, rtol=1e-9)
    np.testing.assert_allclose(points, expected_points)


@pytest.mark.slow
def test_coverage_given_the_data_follows_the_law():
    # Outcomes are normal and the model predicts 0, so the coverage of [-t, t] is 2 Phi(t) - 1 exactly.
    # 500 federations; a correct program fails with probability 1e-7 (Massart).
    runs, sites = 500, np.repeat(["A", "B", "C", "D"], 20)
    X = np.zeros((len(sites), 1))
    regressor = Regressor(DummyRegressor(strategy="constant", constant=0.0).fit(X, sites == "A"))
    rng = np.random.default_rng(2)
    coverage = np.empty(runs)
    for i in range(runs):
        regressor.conformalize(X, rng.normal(size=len(sites)), sites=sites)
        low, high = regressor.predict_interval(X[:1])[1][0, :, 0]
        coverage[i] = ndtr(high) - ndtr(low)
    law = regressor.calibration_.law
    assert law.mean() >= 0.9
    assert kolmogorov_distance(coverage, law.cdf) <= kolmogorov_limit(runs)


def test_coverage_of_held_out_rows_is_what_the_law_allows():
    # One federation of 30 sites, 20000 new rows. The law allows a coverage below its 1e-7 quantile or above
    # its 1 - 1e-7 quantile with probability 2e-7, and the rows stray further with probability 2e-7.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24000, 3))
    y = X.sum(axis=1) + rng.standard_t(3, size=len(X))
    sites = rng.integers(0, 30, 3000)
    regressor = Regressor(prefit=False, criterion="conditional").fit(X[:1000], y[:1000])
    regressor.conformalize(X[1000:4000], y[1000:4000], sites=sites)
    _, intervals = regressor.predict_interval(X[4000:])
    [covered] = fc.metrics.regression_coverage_score(y[4000:], intervals)
    law, slack = regressor.calibration_.law, hoeffding_limit(20000)
    assert law.sf(0.9) >= 0.9
    assert law.ppf(1e-7) - slack <= covered <= law.ppf(1 - 1e-7) + slack
