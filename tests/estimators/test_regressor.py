"""Intervals: MAPIE's where there is one site, and coverage as the law allows where there are many."""

import numpy as np
from estimator_examples import LEVELS
from mapie.metrics.regression import regression_coverage_score
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import fedconformal as fc
from fedconformal import FederatedConformalRegressor as Regressor


def test_one_site_gives_the_intervals_of_mapie(numbers):
    train, (X, y), (X_test, y_test) = numbers
    model = LinearRegression().fit(*train)
    ours = Regressor(model, confidence_level=LEVELS, criterion="marginal")
    theirs = SplitConformalRegressor(model, confidence_level=LEVELS)
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
