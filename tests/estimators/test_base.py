"""What both estimators share: scikit-learn's conventions, the workflow, and what is
refused.
"""

import math
import pickle

import numpy as np
import pytest
from estimator_examples import RESIDUALS, federation, some_sites
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    BayesianRidge,
    LinearRegression,
    LogisticRegression,
    QuantileRegressor,
    Ridge,
)
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import fedconformal as fc
from fedconformal import FederatedConformalClassifier as Classifier
from fedconformal import FederatedConformalRegressor as Regressor
from fedconformal import scores


@parametrize_with_checks([Regressor(prefit=False), Classifier(prefit=False)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scikit_learn_has_no_objection(estimator, check):
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks(
    [
        Regressor(BayesianRidge(), conformity_score="normalized", prefit=False),
        Regressor(
            [
                QuantileRegressor(quantile=0.1, alpha=0),
                QuantileRegressor(quantile=0.9, alpha=0),
            ],
            conformity_score="cqr",
            prefit=False,
        ),
        Classifier(GaussianNB(), conformity_score="aps", prefit=False),
    ]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nor_to_other_scores(estimator, check):
    check(estimator)


def test_a_clone_keeps_a_prefit_model_fitted_but_not_the_calibration(numbers):
    train, (X, y), _ = numbers
    model = LinearRegression().fit(*train)
    regressor = Regressor(model).conformalize(X, y, sites=some_sites(len(X)))
    copy = clone(regressor)
    assert copy.estimator is not model
    assert not hasattr(copy, "calibration_")
    copy.conformalize(X, y, sites=some_sites(len(X)))
    assert copy.calibration_ == regressor.calibration_


def test_fitted_estimators_can_be_pickled_and_searched_over(numbers):
    train, (X, y), (X_test, _) = numbers
    search = GridSearchCV(
        Regressor(Ridge(), prefit=False), {"estimator__alpha": [1e-3, 1e9]}
    ).fit(*train)
    assert search.best_params_ == {"estimator__alpha": 1e-3}
    best = search.best_estimator_.conformalize(X, y, sites=some_sites(len(X)))
    loaded = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(
        loaded.predict_interval(X_test)[1], best.predict_interval(X_test)[1]
    )


def test_strings_are_labels(classes):
    (X_train, y_train), (X, y), (X_test, _) = classes
    names, sites = np.array(["a", "b", "c"]), some_sites(len(X))
    by_index = Classifier(LogisticRegression().fit(X_train, y_train)).conformalize(
        X, y, sites=sites
    )
    by_name = Classifier(
        LogisticRegression().fit(X_train, names[y_train])
    ).conformalize(X, names[y], sites=sites)
    labels, sets = by_name.predict_set(X_test)
    assert set(labels) <= set(names)
    np.testing.assert_array_equal(sets, by_index.predict_set(X_test)[1])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_are_welcome_and_their_columns_checked(library, numbers, classes):
    frames = pytest.importorskip(library, reason=f"{library} is not installed")
    names = [f"x{i}" for i in range(10)]
    (X, y), (X_cal, y_cal), (X_test, _) = [
        (frames.DataFrame(dict(zip(names, X.T, strict=True))), frames.Series(y))
        for X, y in numbers
    ]
    sites = frames.Series(some_sites(len(X_cal)).tolist())
    regressor = (
        Regressor(prefit=False).fit(X, y).conformalize(X_cal, y_cal, sites=sites)
    )
    assert regressor.feature_names_in_.tolist() == names
    arrays = (
        Regressor(prefit=False)
        .fit(*numbers[0])
        .conformalize(*numbers[1], sites=some_sites(250))
    )
    np.testing.assert_allclose(
        regressor.predict_interval(X_test)[1], arrays.predict_interval(numbers[2][0])[1]
    )
    with pytest.raises(ValueError, match="feature names"):
        regressor.predict_interval(X_test[names[::-1]])
    text = frames.Series(np.array(["a", "b", "c"])[classes[1][1]].tolist())
    model = LogisticRegression().fit(
        classes[0][0], np.array(["a", "b", "c"])[classes[0][1]]
    )
    assert (
        Classifier(model)
        .conformalize(classes[1][0], text, sites=["A"] * 400)
        .plan_.n_sites
        == 1
    )


def test_conformalize_is_plan_report_and_calibrate(numbers):
    train, (X, y), _ = numbers
    model = LinearRegression().fit(*train)
    sites = some_sites(len(X))
    regressor = Regressor(
        model, confidence_level=[0.8, 0.9], criterion="stable", max_faulty=1
    )
    regressor.conformalize(X, y, sites=sites)
    names, sizes = np.unique(sites, return_counts=True)
    plan = fc.plan(
        n_points=dict(zip(names.tolist(), sizes.tolist(), strict=True)),
        confidence_level=[0.8, 0.9],
        criterion="stable",
        max_faulty=1,
        score="absolute",
    )
    residuals = np.abs(y - model.predict(X))
    reports = [
        fc.report(plan, residuals[sites == name], site=name) for name in names.tolist()
    ]
    assert regressor.plan_ == plan
    assert regressor.calibration_ == fc.calibrate(plan, reports)
    assert regressor.thresholds_.tolist() == list(regressor.calibration_.thresholds)
    assert regressor.estimator_ is model


def test_sites_that_could_never_matter_are_not_asked():
    """Five rows beside 1,895 decide nothing, in all rows together and in one group of
    two.
    """
    sites = np.array(["tiny"] * 5 + ["big"] * 1895)
    rng = np.random.default_rng(0)
    X, y = np.zeros((1900, 1)), rng.normal(size=1900)
    model = DummyRegressor(strategy="constant", constant=0.0).fit(X, y)
    alone = Regressor(model).conformalize(X, y, sites=sites).calibration_
    assert (alone.answered, alone.missing, alone.not_asked) == (("big",), (), ("tiny",))
    assert (
        alone.threshold
        == Regressor(model).conformalize(X[5:], y[5:], sites=sites[5:]).thresholds_[0]
    )
    groups = np.array(["c"] * 5 + ["a"] * 1000 + ["b"] * 895)
    some = (
        Regressor(model, confidence_level=0.5)
        .conformalize(X, y, sites=sites, groups=groups)
        .calibration_
    )
    assert (some["c"].answered, some["a"].answered) == (("tiny",), ("big",))


def test_tiny_sites_give_infinite_intervals_and_all_labels(numbers, classes):
    train, (X, y), _ = numbers
    regressor = Regressor(LinearRegression().fit(*train), confidence_level=[0.5, 0.9])
    with pytest.warns(fc.InfeasibleWarning, match="90 % coverage"):
        regressor.conformalize(X[:6], y[:6], sites=["A", "B"] * 3)
    _, intervals = regressor.predict_interval(X)
    assert np.all(np.isfinite(intervals[:, :, 0]))
    assert np.all(intervals[:, :, 1] == [-math.inf, math.inf])
    assert fc.metrics.regression_coverage_score(y, intervals)[1] == 1
    classifier = Classifier(LogisticRegression().fit(*classes[0]))
    with pytest.warns(fc.InfeasibleWarning):
        classifier.conformalize(*(part[:4] for part in classes[1]), sites=["A"] * 4)
    assert classifier.predict_set(classes[2][0])[1].all()


def test_sets_need_a_calibration(numbers, classes):
    for estimator, ask in (
        (Regressor(LinearRegression().fit(*numbers[0])), "predict_interval"),
        (Regressor(prefit=False).fit(*numbers[0]), "predict_interval"),
        (Classifier(LogisticRegression().fit(*classes[0])), "predict_set"),
        (Classifier(prefit=False).fit(*classes[0]), "predict_set"),
    ):
        with pytest.raises(NotFittedError, match="conformalize"):
            getattr(estimator, ask)(numbers[0][0])
        assert not hasattr(estimator, "plan_")
        check_is_fitted(estimator)


@pytest.mark.parametrize(
    "estimator", [Regressor(), Regressor(Ridge()), Regressor([Ridge(), Ridge()])]
)
def test_prefit_means_fitted(numbers, estimator):
    X, y = numbers[1]
    with pytest.raises(NotFittedError, match="prefit=True"):
        estimator.conformalize(X, y, sites=["A"] * len(X))
    with pytest.raises(NotFittedError, match="prefit=True"):
        estimator.from_calibration(federation(RESIDUALS))
    with pytest.raises(ValueError, match="fit must be skipped with prefit=True"):
        estimator.fit(X, y)


def test_a_calibration_that_fails_changes_nothing(numbers):
    train, (X, y), _ = numbers
    regressor = Regressor(LinearRegression().fit(*train)).conformalize(
        X, y, sites=["A"] * len(X)
    )
    before = regressor.predict_interval(X)[1]
    regressor.set_params(estimator=Ridge().fit(*train))
    with pytest.raises(ValueError, match="sites"):
        regressor.conformalize(X, y, sites=["A"])
    np.testing.assert_array_equal(regressor.predict_interval(X)[1], before)


def test_missing_outcomes_are_refused(numbers, classes):
    train, (X, y), _ = numbers
    with pytest.raises(
        ValueError, match="y must not be nan; violated in 1 of 250 rows"
    ):
        Regressor(LinearRegression().fit(*train)).conformalize(
            X, [math.nan, *y[1:]], sites=["A"] * len(X)
        )
    train, (X, y), _ = classes
    classifier = Classifier(LogisticRegression().fit(*train))
    for missing in ([math.nan, *y[1:]], np.array([None, *y[1:]], dtype=object)):
        with pytest.raises(ValueError, match="y must not hold missing labels"):
            classifier.conformalize(X, missing, sites=["A"] * len(X))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            Regressor(conformity_score="lac"),
            "conformity_score must be one of 'absolute', 'normalized', 'cqr'",
        ),
        (
            Regressor(conformity_score=scores.Absolute),
            "instance of scores.IntervalScore, got <class",
        ),
        (
            Classifier(conformity_score="absolute"),
            "conformity_score must be one of 'lac', 'aps', 'raps'",
        ),
        (Regressor(confidence_level=1.0), "confidence_level must be"),
        (Regressor(criterion="best"), "criterion must be one of"),
        (
            Regressor(numbers=2, promise="each-site"),
            "numbers must be 1 with promise 'each-site'",
        ),
        (
            Regressor([LinearRegression()] * 2),
            r"list only with .*'cqr'.* 2 models with Absolute\(\)",
        ),
        (Regressor([LinearRegression()], conformity_score="cqr"), r"\[lower, upper\]"),
        (
            Classifier(LinearSVC()),
            "estimator must have predict_proba, and LinearSVC has not",
        ),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_trained(
    classes, estimator, message
):
    with pytest.raises(ValueError, match=message):
        estimator.set_params(prefit=False).fit(*classes[0])
    assert not hasattr(estimator, "estimator_")


@pytest.mark.parametrize(
    "labels",
    [
        lambda sites: sites.tolist(),
        lambda sites: np.array([int(site[-1]) for site in sites]),
        lambda sites: np.array(
            [int(site[-1]) if site < "site 3" else site[-1] for site in sites], object
        ),
    ],
    ids=["list", "integers", "mixed"],
)
def test_labels_of_any_kind_name_the_same_sites(numbers, labels):
    train, (X, y), _ = numbers
    sites = some_sites(len(X))
    regressor = Regressor(LinearRegression().fit(*train))
    expected = regressor.conformalize(X, y, sites=sites)
    threshold, m = expected.calibration_.threshold, expected.plan_.n_sites
    regressor.conformalize(X, y, sites=labels(sites))
    assert (regressor.calibration_.threshold, regressor.plan_.n_sites) == (threshold, m)


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        (None, "sites must give the site of each row"),
        (["A"], r"one label for each of the 250 rows, got shape \(1,\)"),
        (
            [*["A"] * 249, ""],
            "sites must hold labels of 1 to 200 printable characters, .* got ''",
        ),
        (np.array([*["A"] * 249, None], dtype=object), "none missing, got None"),
        ([*[1.0] * 249, math.nan], "none missing, got nan"),
    ],
)
def test_every_row_needs_a_site(numbers, sites, message):
    train, (X, y), _ = numbers
    with pytest.raises(ValueError, match=message):
        Regressor(LinearRegression().fit(*train)).conformalize(X, y, sites=sites)
