"""Estimators with thresholds by true class, and of each site's own."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

import fedconformal as fc
from fedconformal import FederatedConformalClassifier as Classifier
from fedconformal import FederatedConformalRegressor as Regressor


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
    return Classifier(model, **options).conformalize(X[300:900], y[300:900], sites=sites[300:900])


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
    values = fc.scores.LAC().score((y[rows] == "well").astype(int), model.predict_proba(X[rows]))
    sizes = {
        label: {site: int(((y[rows] == label) & (sites[rows] == site)).sum()) for site in "ABC"}
        for label in ("well", "sick")
    }
    plan = fc.plan(groups=sizes, group_by="class", score="lac")
    assert plan.classes == ("well", "sick")
    reports = [
        fc.report(plan, values[sites[rows] == site], groups=y[rows][sites[rows] == site], site=site)
        for site in plan.site_names
    ]
    published = fc.Calibration.from_json(fc.calibrate(plan, reports).to_json())
    other = Classifier(model).from_calibration(published).predict_set(X[900:])[1]
    assert (other == conformalized(model, data, group_by="class").predict_set(X[900:])[1]).all()
    with pytest.raises(ValueError, match=r"group_by must be that of the calibration's plan, \('class',\)"):
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
        assert (alone == found.calibration_.predict_set(model.predict_proba(X[900:][here]), site=site)).all()
    with pytest.raises(ValueError, match="sites must give the site of each row"):
        found.predict_set(X)
    with pytest.raises(ValueError, match="site must be one of the plan's, 'A', 'B', 'C', got 'D'"):
        found.predict_set(X, sites="D")


def test_numbers_by_site_and_label():
    rng = np.random.default_rng(1)
    X, sites = rng.normal(size=(400, 1)), rng.choice(["A", "B"], size=400)
    groups, y = rng.choice(["old", "young"], size=400), X[:, 0] + rng.normal(size=400)
    regressor = Regressor(LinearRegression().fit(X[:100], y[:100]), group_by=("site", "label"))
    regressor.conformalize(X[100:], y[100:], sites=sites[100:], groups=groups[100:])
    points, intervals = regressor.predict_interval(X[:9], groups=groups[:9], sites=sites[:9])
    expected = [regressor.thresholds_[f"{s}: {g}"][0] for s, g in zip(sites[:9], groups[:9], strict=True)]
    assert intervals[:, 1, 0] - points == pytest.approx(expected)
    with pytest.raises(ValueError, match="groups must give the group of each row"):
        clone(regressor).conformalize(X, y, sites=sites)


def test_mistakes(model, data):
    X, y, sites = data
    with pytest.raises(ValueError, match="these are y itself: group_by='class'"):
        Classifier(model).conformalize(X, y, sites=sites, groups=y)
    with pytest.raises(
        ValueError, match=r"y must hold classes of the classifier .* got 'ill' in 1 of 1500 rows"
    ):
        Classifier(model, group_by="class").conformalize(X, np.array(["ill", *y[1:]]), sites=sites)
    healthy = y == "well"
    with pytest.raises(ValueError, match="must each have cases at some site; groups has none of 'sick'"):
        Classifier(model, group_by="class").conformalize(X[healthy], y[healthy], sites=sites[healthy])
    with pytest.raises(ValueError, match="groups must be left out with group_by='class'"):
        Classifier(model, group_by="class").conformalize(X, y, sites=sites, groups=["a"] * 1500)
    with pytest.raises(ValueError, match="calibrated with groups by class"):
        conformalized(model, data, group_by="class").predict_set(X[:2], groups=["a", "b"])
    with pytest.raises(ValueError, match="sites must be left out"):
        conformalized(model, data).predict_set(X[:2], sites=["A", "B"])
    with pytest.raises(ValueError, match="group_by must not be of classes with numbers as outcomes"):
        Regressor(LinearRegression().fit(X, X[:, 0]), group_by="class").conformalize(X, X[:, 0], sites=sites)
