"""One threshold for each group of rows."""

import numpy as np
import pytest
from estimator_examples import some_sites
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import fedconformal as fc
from fedconformal import FederatedConformalClassifier as Classifier
from fedconformal import FederatedConformalRegressor as Regressor
from fedconformal import scores


def some_groups(n):
    return np.random.default_rng(n + 1).choice(["adult", "child"], n)


def test_conformalize_with_groups_is_plan_report_and_calibrate(numbers):
    train, (X, y), _ = numbers
    model, sites, groups = LinearRegression().fit(*train), some_sites(len(X)), some_groups(len(X))
    regressor = Regressor(model, confidence_level=[0.8, 0.9]).conformalize(X, y, sites=sites, groups=groups)
    names = sorted(set(sites.tolist()))
    sizes = {
        group: {name: int(((sites == name) & (groups == group)).sum()) for name in names}
        for group in ("adult", "child")
    }
    plan = fc.plan(groups=sizes, confidence_level=[0.8, 0.9], score="absolute")
    residuals = np.abs(y - model.predict(X))
    reports = [
        fc.report(plan, residuals[sites == name], groups=groups[sites == name], site=name) for name in names
    ]
    assert regressor.plan_ == plan
    assert regressor.calibration_ == fc.calibrate(plan, reports)
    for group in ("adult", "child"):
        assert regressor.thresholds_[group].tolist() == list(regressor.calibration_[group].thresholds)


@pytest.mark.parametrize("score", ["lac", scores.APS(randomized=True)])
def test_each_row_has_the_label_set_of_its_group(classes, score):
    train, (X, y), (X_test, _) = classes
    groups, new = np.arange(len(X)) % 2, np.arange(len(X_test)) % 2
    classifier = Classifier(LogisticRegression().fit(*train), conformity_score=score, rng=0)
    classifier.conformalize(X, y, sites=some_sites(len(X)), groups=groups)
    assert classifier.plan_.groups == ("0", "1")
    labels, sets = classifier.predict_set(X_test, groups=new)
    assert (labels.shape, sets.shape) == ((len(X_test),), (len(X_test), 3, 1))
    thresholds = classifier.thresholds_
    expected = score if isinstance(score, scores.Score) else scores.LAC()
    draws = expected.draws(np.random.default_rng([1, 0]).random(len(X_test)))
    probabilities = classifier.predict_proba(X_test)
    both = {group: expected.set(probabilities, thresholds[group], **draws) for group in ("0", "1")}
    np.testing.assert_array_equal(sets, np.where((new == 0)[:, None, None], both["0"], both["1"]))


def test_a_calibration_with_groups_from_elsewhere():
    """Levels are picked in the order asked for; every group must promise enough."""
    plan = fc.plan(groups={"a": {"A": 60, "B": 60}, "b": {"A": 60, "B": 60}}, confidence_level=[0.8, 0.9])
    rng = np.random.default_rng(0)
    reports = [fc.report(plan, rng.random(120), groups=["a", "b"] * 60, site=site) for site in "AB"]
    calibration, model = fc.calibrate(plan, reports), DummyRegressor().fit([[0], [0]], [0, 1])
    regressor = Regressor(model, confidence_level=[0.9, 0.8]).from_calibration(calibration)
    _, intervals = regressor.predict_interval(np.zeros((2, 1)), groups=["b", "a"])
    widths = (intervals[:, 1] - intervals[:, 0]) / 2
    expected = [calibration[group].thresholds[::-1] for group in "ba"]
    np.testing.assert_allclose(widths, expected)
    weaker = fc.plan(groups={"a": [60, 60], "b": [60, 60]}, criterion="conditional", delta=0.4)
    reports = [fc.report(weaker, rng.random(120), groups=["a", "b"] * 60, site=site) for site in "AB"]
    with pytest.raises(ValueError, match=r"promises less than is asked for: .* delta=0.4"):
        Regressor(model, criterion="conditional", delta=0.3).from_calibration(fc.calibrate(weaker, reports))


def test_groups_are_given_if_and_only_if_there_are_groups(numbers):
    train, (X, y), _ = numbers
    regressor = Regressor(LinearRegression().fit(*train))
    regressor.conformalize(X, y, sites=some_sites(len(X)))
    with pytest.raises(ValueError, match="this model was calibrated without groups"):
        regressor.predict_interval(X, groups=["a"] * len(X))
    regressor.conformalize(X, y, sites=some_sites(len(X)), groups=some_groups(len(X)))
    with pytest.raises(ValueError, match="the calibration has 'adult', 'child'"):
        regressor.predict_interval(X)
    with pytest.raises(ValueError, match="groups must hold one label for each of the 250 rows"):
        regressor.predict_interval(X, groups=["adult"])
