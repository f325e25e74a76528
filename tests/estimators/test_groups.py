"""One threshold for each group of rows."""

import numpy as np
import pytest
from estimator_examples import some_sites
from sklearn.base import clone
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
    model, sites, groups = (
        LinearRegression().fit(*train),
        some_sites(len(X)),
        some_groups(len(X)),
    )
    regressor = Regressor(model, confidence_level=[0.8, 0.9]).conformalize(
        X, y, sites=sites, groups=groups
    )
    names = sorted(set(sites.tolist()))
    sizes = {
        group: {
            name: int(((sites == name) & (groups == group)).sum()) for name in names
        }
        for group in ("adult", "child")
    }
    plan = fc.plan(groups=sizes, confidence_level=[0.8, 0.9], score="absolute")
    residuals = np.abs(y - model.predict(X))
    reports = [
        fc.report(
            plan, residuals[sites == name], groups=groups[sites == name], site=name
        )
        for name in names
    ]
    assert regressor.plan_ == plan
    assert regressor.calibration_ == fc.calibrate(plan, reports)
    for group in ("adult", "child"):
        assert regressor.thresholds_[group].tolist() == list(
            regressor.calibration_[group].thresholds
        )


@pytest.mark.parametrize("score", ["lac", scores.APS(randomized=True)])
def test_each_row_has_the_label_set_of_its_group(classes, score):
    train, (X, y), (X_test, _) = classes
    groups, new = np.arange(len(X)) % 2, np.arange(len(X_test)) % 2
    classifier = Classifier(
        LogisticRegression().fit(*train), conformity_score=score, rng=0
    )
    classifier.conformalize(X, y, sites=some_sites(len(X)), groups=groups)
    assert classifier.plan_.groups == ("0", "1")
    labels, sets = classifier.predict_set(X_test, groups=new)
    assert (labels.shape, sets.shape) == ((len(X_test),), (len(X_test), 3, 1))
    thresholds = classifier.thresholds_
    expected = score if isinstance(score, scores.Score) else scores.LAC()
    draws = expected.draws(np.random.default_rng([1, 0]).random(len(X_test)))
    probabilities = classifier.predict_proba(X_test)
    both = {
        group: expected.set(probabilities, thresholds[group], **draws)
        for group in ("0", "1")
    }
    np.testing.assert_array_equal(
        sets, np.where((new == 0)[:, None, None], both["0"], both["1"])
    )


def test_a_calibration_with_groups_from_elsewhere():
    """Levels are picked in the order asked for; every group must promise enough."""
    plan = fc.plan(
        groups={"a": {"A": 60, "B": 60}, "b": {"A": 60, "B": 60}},
        confidence_level=[0.8, 0.9],
    )
    rng = np.random.default_rng(0)
    reports = [
        fc.report(plan, rng.random(120), groups=["a", "b"] * 60, site=site)
        for site in "AB"
    ]
    calibration, model = (
        fc.calibrate(plan, reports),
        DummyRegressor().fit([[0], [0]], [0, 1]),
    )
    regressor = Regressor(model, confidence_level=[0.9, 0.8]).from_calibration(
        calibration
    )
    _, intervals = regressor.predict_interval(np.zeros((2, 1)), groups=["b", "a"])
    widths = (intervals[:, 1] - intervals[:, 0]) / 2
    expected = [calibration[group].thresholds[::-1] for group in "ba"]
    np.testing.assert_allclose(widths, expected)
    weaker = fc.plan(
        groups={"a": [60, 60], "b": [60, 60]}, criterion="conditional", delta=0.4
    )
    reports = [
        fc.report(weaker, rng.random(120), groups=["a", "b"] * 60, site=site)
        for site in "AB"
    ]
    with pytest.raises(
        ValueError, match=r"promises less than is asked for: .* delta=0.4"
    ):
        Regressor(model, criterion="conditional", delta=0.3).from_calibration(
            fc.calibrate(weaker, reports)
        )


def test_groups_are_given_if_and_only_if_there_are_groups(numbers):
    train, (X, y), _ = numbers
    regressor = Regressor(LinearRegression().fit(*train))
    regressor.conformalize(X, y, sites=some_sites(len(X)))
    with pytest.raises(ValueError, match="this model was calibrated without groups"):
        regressor.predict_interval(X, groups=["a"] * len(X))
    regressor.conformalize(X, y, sites=some_sites(len(X)), groups=some_groups(len(X)))
    with pytest.raises(ValueError, match="the calibration has 'adult', 'child'"):
        regressor.predict_interval(X)
    with pytest.raises(
        ValueError, match="groups must hold one label for each of the 250 rows"
    ):
        regressor.predict_interval(X, groups=["adult"])


# -- thresholds by true class, and of each site's own ----------------------------------


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(1500) < 0.3, "sick", "well")
    X = rng.normal(size=(1500, 2)) + (truth == "sick")[:, np.newaxis]
    return X, truth, rng.choice(["A", "B", "C"], size=1500)


@pytest.fixture(scope="module")
def model(data):
    X, y, _ = data
    return LogisticRegression().fit(X[:300], y[:300])


def conformalized(model, data, **options):
    X, y, sites = data
    return Classifier(model, **options).conformalize(
        X[300:900], y[300:900], sites=sites[300:900]
    )


def test_by_class_is_plan_report_and_calibrate(model, data):
    X = data[0]
    found = conformalized(model, data, group_by="class")
    assert found.plan_.group_by == ("class",)
    assert found.plan_.classes == ("sick", "well")
    P = model.predict_proba(X[900:])
    sets = found.predict_set(X[900:])[1][:, :, 0]
    own = np.array([found.calibration_[label].threshold for label in ("sick", "well")])
    assert (sets == np.less_equal(1 - P, own)).all()
    assert (sets == found.calibration_.predict_set(P)).all()


def test_a_federations_calibration_with_its_columns_in_another_order(model, data):
    X, y, sites = data
    rows = slice(300, 900)
    values = fc.scores.LAC().score(
        (y[rows] == "well").astype(int), model.predict_proba(X[rows])
    )
    sizes = {
        label: {
            site: int(((y[rows] == label) & (sites[rows] == site)).sum())
            for site in "ABC"
        }
        for label in ("well", "sick")
    }
    plan = fc.plan(groups=sizes, group_by="class", score="lac")
    assert plan.classes == ("well", "sick")
    reports = [
        fc.report(
            plan,
            values[sites[rows] == site],
            groups=y[rows][sites[rows] == site],
            site=site,
        )
        for site in plan.site_names
    ]
    published = fc.Calibration.from_json(fc.calibrate(plan, reports).to_json())
    other = Classifier(model).from_calibration(published).predict_set(X[900:])[1]
    assert (
        other == conformalized(model, data, group_by="class").predict_set(X[900:])[1]
    ).all()
    with pytest.raises(
        ValueError,
        match=r"group_by must be that of the calibration's plan, \('class',\)",
    ):
        Classifier(model, group_by="site").from_calibration(published)


@pytest.mark.parametrize("group_by", ["site", ("site", "class")])
def test_each_site_predicts_with_thresholds_of_its_own(model, data, group_by):
    X, _, sites = data
    found = conformalized(model, data, group_by=group_by, confidence_level=[0.8, 0.9])
    mixed = found.predict_set(X[900:], sites=sites[900:])[1]
    for site in "ABC":
        here = sites[900:] == site
        alone = found.predict_set(X[900:][here], sites=site)[1]
        assert (mixed[here] == alone).all()
        assert (
            alone
            == found.calibration_.predict_set(
                model.predict_proba(X[900:][here]), site=site
            )
        ).all()
    with pytest.raises(ValueError, match="sites must give the site of each row"):
        found.predict_set(X)
    with pytest.raises(
        ValueError, match="site must be one of the plan's, 'A', 'B', 'C', got 'D'"
    ):
        found.predict_set(X, sites="D")


def test_numbers_by_site_and_label():
    rng = np.random.default_rng(1)
    X, sites = rng.normal(size=(400, 1)), rng.choice(["A", "B"], size=400)
    groups, y = rng.choice(["old", "young"], size=400), X[:, 0] + rng.normal(size=400)
    regressor = Regressor(
        LinearRegression().fit(X[:100], y[:100]), group_by=("site", "label")
    )
    regressor.conformalize(X[100:], y[100:], sites=sites[100:], groups=groups[100:])
    points, intervals = regressor.predict_interval(
        X[:9], groups=groups[:9], sites=sites[:9]
    )
    expected = [
        regressor.thresholds_[f"{s}: {g}"][0]
        for s, g in zip(sites[:9], groups[:9], strict=True)
    ]
    assert intervals[:, 1, 0] - points == pytest.approx(expected)
    with pytest.raises(ValueError, match="groups must give the group of each row"):
        clone(regressor).conformalize(X, y, sites=sites)


def test_mistakes(model, data):
    X, y, sites = data
    with pytest.raises(ValueError, match="these are y itself: group_by='class'"):
        Classifier(model).conformalize(X, y, sites=sites, groups=y)
    with pytest.raises(
        ValueError,
        match=r"y must hold classes of the classifier .* got 'ill' in 1 of 1500 rows",
    ):
        Classifier(model, group_by="class").conformalize(
            X, np.array(["ill", *y[1:]]), sites=sites
        )
    healthy = y == "well"
    with pytest.raises(
        ValueError, match="must each have cases at some site; groups has none of 'sick'"
    ):
        Classifier(model, group_by="class").conformalize(
            X[healthy], y[healthy], sites=sites[healthy]
        )
    with pytest.raises(
        ValueError, match="groups must be left out with group_by='class'"
    ):
        Classifier(model, group_by="class").conformalize(
            X, y, sites=sites, groups=["a"] * 1500
        )
    with pytest.raises(ValueError, match="calibrated with groups by class"):
        conformalized(model, data, group_by="class").predict_set(
            X[:2], groups=["a", "b"]
        )
    with pytest.raises(ValueError, match="sites must be left out"):
        conformalized(model, data).predict_set(X[:2], sites=["A", "B"])
    with pytest.raises(
        ValueError, match="group_by must not be of classes with numbers as outcomes"
    ):
        Regressor(LinearRegression().fit(X, X[:, 0]), group_by="class").conformalize(
            X, X[:, 0], sites=sites
        )
