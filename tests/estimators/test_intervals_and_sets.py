"""Intervals and label sets: those of MAPIE for one site, coverage as the law allows,
labels and draws.
"""

import math

import numpy as np
import pytest
from estimator_examples import LEVELS, Foreign, some_sites
from mapie.classification import SplitConformalClassifier
from mapie.metrics.classification import classification_coverage_score
from mapie.metrics.regression import regression_coverage_score
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor

import fedconformal as fc
from fedconformal import FederatedConformalClassifier as Classifier
from fedconformal import FederatedConformalRegressor as Regressor
from fedconformal import scores
from support import hoeffding_limit


def test_one_site_gives_the_lac_sets_of_mapie(classes):
    train, (X, y), (X_test, y_test) = classes
    model = LogisticRegression().fit(*train)
    ours = Classifier(model, confidence_level=LEVELS, criterion="marginal")
    ours.conformalize(X, y, sites=np.zeros(len(X)))
    theirs = SplitConformalClassifier(model, confidence_level=LEVELS).conformalize(X, y)
    labels, sets = ours.predict_set(X_test)
    expected_labels, expected = theirs.predict_set(X_test)
    assert sets.dtype == bool
    np.testing.assert_array_equal(sets, expected)
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_array_equal(
        classification_coverage_score(y_test, sets),
        fc.metrics.classification_coverage_score(y_test, sets),
    )


@pytest.mark.parametrize("score", ["lac", scores.RAPS(0.1, 1, randomized=True)])
def test_coverage_of_label_sets_is_what_the_law_allows(score):
    # As above, 2e-7 for each score; scores may be tied, so the bound is on one side
    # unless randomized.
    rng = np.random.default_rng(4)
    y = rng.integers(0, 4, 24000)
    X = rng.normal(size=(len(y), 4)) + np.eye(4)[y]
    model = LogisticRegression().fit(X[:1000], y[:1000])
    classifier = Classifier(model, conformity_score=score, rng=5)
    classifier.conformalize(X[1000:4000], y[1000:4000], sites=rng.integers(0, 12, 3000))
    labels, sets = classifier.predict_set(X[4000:])
    [covered] = fc.metrics.classification_coverage_score(y[4000:], sets)
    law, slack = classifier.calibration_.law, hoeffding_limit(20000)
    assert covered >= law.ppf(1e-7) - slack
    np.testing.assert_array_equal(labels, model.predict(X[4000:]))
    if getattr(score, "randomized", False):
        assert covered <= law.ppf(1 - 1e-7) + slack


def test_a_label_never_seen_in_training_scores_infinity(classes):
    (X_train, y_train), (X, y), (X_test, _) = classes
    known = LogisticRegression().fit(X_train[y_train < 2], y_train[y_train < 2])
    some = np.where(
        np.arange(len(y)) % 20 == 0, 2, np.minimum(y, 1)
    )  # one label in twenty is unknown
    sites = some_sites(len(X))
    classifier = Classifier(known, conformity_score=scores.APS(randomized=True), rng=0)
    with pytest.warns(UserWarning, match=r"20 of 400 .* the first is 2\. .* \+inf"):
        classifier.conformalize(X, some, sites=sites)
    assert sum(classifier.calibration_.n_points) == 400
    finite = classifier.calibration_.threshold
    assert finite < math.inf
    with pytest.warns(UserWarning, match=r"not among the classifier's classes"):
        classifier.conformalize(
            X, np.where(np.arange(len(y)) % 4 == 0, 7, some), sites=sites
        )
    assert classifier.calibration_.threshold == math.inf
    assert classifier.predict_set(X_test)[1].all()


def test_draws_follow_the_rng(classes):
    train, (X, y), (X_test, _) = classes
    model = LogisticRegression().fit(*train)
    sites = some_sites(len(X))

    def sets(rng, calls=1):
        score = scores.APS(randomized=True)
        classifier = Classifier(model, conformity_score=score, rng=rng)
        classifier.conformalize(X, y, sites=sites)
        return [classifier.predict_set(X_test)[1] for _ in range(calls)]

    first, second = sets(0, calls=2)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, sets(0)[0])
    assert np.any(first != sets(1)[0])
    for source in (None, np.random.default_rng(0)):
        first, second = sets(source, calls=2)
        assert np.any(first != second)


def test_the_draws_of_calibration_are_not_those_of_the_sets():
    class Witness(scores.APS):
        def score(self, y, prediction, *, u=None):
            seen["score"] = u
            return super().score(y, prediction, u=u)

        def set(self, prediction, threshold, *, u=None):
            seen["set"] = u
            return super().set(prediction, threshold, u=u)

    seen, X = {}, np.zeros((20, 1))
    classifier = Classifier(Foreign(), conformity_score=Witness(randomized=True), rng=0)
    classifier.conformalize(X, ["yes", "no"] * 10, sites=["A"] * 20).predict_set(X)
    assert seen["score"].shape == seen["set"].shape == (20,)
    assert not np.any(seen["score"] == seen["set"])


def test_one_site_gives_the_intervals_of_mapie(numbers):
    train, (X, y), (X_test, y_test) = numbers
    model = LinearRegression().fit(*train)
    ours = Regressor(model, confidence_level=LEVELS, criterion="marginal")
    theirs = SplitConformalRegressor(model, confidence_level=LEVELS)
    points, intervals = ours.conformalize(X, y, sites=["A"] * len(X)).predict_interval(
        X_test
    )
    expected_points, expected = theirs.conformalize(X, y).predict_interval(X_test)
    assert intervals.shape == expected.shape == (len(X_test), 2, 3)
    np.testing.assert_allclose(intervals, expected, rtol=1e-12)
    np.testing.assert_array_equal(points, expected_points)
    np.testing.assert_array_equal(ours.predict(X_test), points)
    np.testing.assert_array_equal(
        regression_coverage_score(y_test, intervals),
        fc.metrics.regression_coverage_score(y_test, intervals),
    )


def test_one_site_gives_the_symmetric_quantile_intervals_of_mapie(numbers):
    train, (X, y), (X_test, _) = numbers
    models = [
        QuantileRegressor(quantile=q, alpha=0).fit(*train) for q in (0.05, 0.95, 0.5)
    ]
    theirs = ConformalizedQuantileRegressor(models, prefit=True).conformalize(X, y)
    expected_points, expected = theirs.predict_interval(
        X_test, symmetric_correction=True
    )
    ours = Regressor(models, conformity_score="cqr", criterion="marginal")
    ours.conformalize(X, y, sites=["A"] * len(X))
    points, intervals = ours.predict_interval(X_test)
    np.testing.assert_allclose(intervals, expected, rtol=1e-9)
    np.testing.assert_allclose(points, expected_points)
