import math
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from mapie.metrics.classification import classification_coverage_score
from mapie.metrics.regression import regression_coverage_score
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from scipy.sparse import csr_array
from scipy.special import ndtr
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import fedconformal as fc
from fedconformal import FederatedConformalClassifier as Classifier
from fedconformal import FederatedConformalRegressor as Regressor
from fedconformal import scores
from support import hoeffding_limit, kolmogorov_distance, kolmogorov_limit

LEVELS = [0.95, 0.5, 0.9]


@pytest.fixture(scope="module")
def numbers():
    """Train, calibration and test rows of a regression problem."""
    X, y = load_diabetes(return_X_y=True)
    return (X[:150], y[:150]), (X[150:400], y[150:400]), (X[400:], y[400:])


@pytest.fixture(scope="module")
def classes():
    """Train, calibration and test rows of a problem with three classes that overlap."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 900)
    X = rng.normal(size=(900, 4)) + 0.9 * np.eye(3, 4)[y]
    return (X[:200], y[:200]), (X[200:600], y[200:600]), (X[600:], y[600:])


def some_sites(n, m=5):
    return np.random.default_rng(n).choice([f"site {j}" for j in range(m)], n)


class Pair(RegressorMixin, BaseEstimator):
    """A fitted model that predicts two numbers: the first feature, and 1 or that plus 1."""

    def __init__(self, second="sigma", width=2):
        self.second = second
        self.width = width

    def fit(self, X, y=None):
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        first = np.asarray(X)[:, 0]
        second = np.ones_like(first) if self.second == "sigma" else first + 1
        return np.column_stack([first, second] + [first] * (self.width - 2))


class Foreign:
    """A model of a library that knows nothing of scikit-learn."""

    classes_ = ("no", "yes")

    def predict(self, X):
        return np.zeros(len(X))

    def predict_proba(self, X):
        return np.tile([0.25, 0.75], (len(X), 1))


# -- scikit-learn's own checks: all of them, no exception --------------------------------------------------


@parametrize_with_checks(
    [
        Regressor(prefit=False),
        Regressor(BayesianRidge(), conformity_score="normalized", prefit=False),
        Regressor(
            [QuantileRegressor(quantile=0.1, alpha=0), QuantileRegressor(quantile=0.9, alpha=0)],
            conformity_score="cqr",
            prefit=False,
        ),
        Classifier(prefit=False),
        Classifier(GaussianNB(), conformity_score="aps", prefit=False),
    ]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scikit_learn_has_no_objection(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [Regressor, Classifier])
def test_parameters_can_be_read_set_and_cloned(kind):
    estimator = kind(
        estimator=FrozenEstimator(LinearRegression()),
        confidence_level=[0.8, 0.9],
        criterion="conditional",
        delta=0.05,
        max_faulty=1,
        prefit=False,
    )
    copy = clone(estimator)
    assert copy.get_params()["confidence_level"] == [0.8, 0.9]
    assert {**copy.get_params(deep=False), "estimator": 0} == {
        **estimator.get_params(deep=False),
        "estimator": 0,
    }
    assert copy.set_params(delta=0.2).delta == 0.2
    assert kind(Ridge()).set_params(estimator__alpha=7).estimator.alpha == 7
    assert repr(estimator).startswith(kind.__name__)


def test_scores_and_lists_survive_a_clone():
    given = scores.RAPS(penalty=0.5, k_reg=1, randomized=True)
    assert clone(Classifier(conformity_score=given)).conformity_score == given
    pair = [QuantileRegressor(quantile=0.1), QuantileRegressor(quantile=0.9)]
    copied = clone(Regressor(pair, conformity_score="cqr")).estimator
    assert [model.quantile for model in copied] == [0.1, 0.9]
    assert copied[0] is not pair[0]


def test_a_clone_keeps_a_prefit_model_fitted_but_not_the_calibration(numbers):
    train, (X, y), _ = numbers
    model = LinearRegression().fit(*train)
    regressor = Regressor(model).conformalize(X, y, sites=some_sites(len(X)))
    copy = clone(regressor)
    assert copy.estimator is not model
    assert not hasattr(copy, "calibration_")
    copy.conformalize(X, y, sites=some_sites(len(X)))
    assert copy.calibration_ == regressor.calibration_


def test_a_clone_of_an_estimator_to_be_trained_is_not_trained(numbers):
    train, _, _ = numbers
    regressor = Regressor(Ridge().fit(*train), prefit=False).fit(*train)
    copy = clone(regressor)
    assert not hasattr(copy, "estimator_")
    assert not hasattr(copy.estimator, "coef_")


def test_what_the_model_knows_of_its_features_is_passed_on(numbers, classes):
    for estimator, (X, y) in ((Regressor(prefit=False), numbers[0]), (Classifier(prefit=False), classes[0])):
        assert not hasattr(estimator, "n_features_in_")
        estimator.fit(X, y)
        assert estimator.n_features_in_ == X.shape[1]
        assert not hasattr(estimator, "feature_names_in_")
    assert is_regressor(Regressor())
    assert is_classifier(Classifier())
    assert estimator.classes_.tolist() == [0, 1, 2]
    assert Regressor(LinearRegression().fit(*numbers[0])).n_features_in_ == 10


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_are_welcome_and_their_columns_checked(library, numbers, classes):
    frames = pytest.importorskip(library, reason=f"{library} is not installed")
    names = [f"x{i}" for i in range(10)]
    (X, y), (X_cal, y_cal), (X_test, _) = [
        (frames.DataFrame(dict(zip(names, X.T, strict=True))), frames.Series(y)) for X, y in numbers
    ]
    sites = frames.Series(some_sites(len(X_cal)).tolist())
    regressor = Regressor(prefit=False).fit(X, y).conformalize(X_cal, y_cal, sites=sites)
    assert regressor.feature_names_in_.tolist() == names
    arrays = Regressor(prefit=False).fit(*numbers[0]).conformalize(*numbers[1], sites=some_sites(250))
    np.testing.assert_allclose(
        regressor.predict_interval(X_test)[1], arrays.predict_interval(numbers[2][0])[1]
    )
    with pytest.raises(ValueError, match="feature names"):
        regressor.predict_interval(X_test[names[::-1]])
    text = frames.Series(np.array(["a", "b", "c"])[classes[1][1]].tolist())
    model = LogisticRegression().fit(classes[0][0], np.array(["a", "b", "c"])[classes[0][1]])
    assert Classifier(model).conformalize(classes[1][0], text, sites=["A"] * 400).plan_.n_sites == 1


def test_both_ways_round_with_a_pipeline(numbers):
    train, (X, y), (X_test, _) = numbers
    sites = some_sites(len(X))
    inside = Regressor(make_pipeline(StandardScaler(), Ridge()), prefit=False).fit(*train)
    inside.conformalize(X, y, sites=sites)
    outside = make_pipeline(StandardScaler(), Regressor(Ridge(), prefit=False)).fit(*train)
    scaler, last = outside
    last.conformalize(scaler.transform(X), y, sites=sites)
    np.testing.assert_array_equal(outside.predict(X_test), inside.predict(X_test))
    np.testing.assert_array_equal(
        last.predict_interval(scaler.transform(X_test))[1], inside.predict_interval(X_test)[1]
    )
    prefit = make_pipeline(StandardScaler(), Ridge()).fit(*train)
    assert Regressor(prefit).conformalize(X, y, sites=sites).calibration_ == inside.calibration_


def test_grid_search_over_the_parameters_of_the_model(numbers, classes):
    search = GridSearchCV(Regressor(Ridge(), prefit=False), {"estimator__alpha": [1e-3, 1e9]}).fit(
        *numbers[0]
    )
    assert search.best_params_ == {"estimator__alpha": 1e-3}
    X, y = numbers[1]
    best = search.best_estimator_.conformalize(X, y, sites=some_sites(len(X)))
    assert best.predict_interval(X)[1].shape == (len(X), 2, 1)
    log_losses = cross_val_score(Classifier(prefit=False), *classes[0], scoring="neg_log_loss")
    assert np.all(log_losses > -math.log(3))


def test_sparse_input_is_as_good_as_the_model_takes_it(numbers):
    (X_train, y_train), (X, y), (X_test, _) = numbers
    regressor = Regressor(Ridge(), prefit=False)
    assert get_tags(regressor).input_tags.sparse
    regressor.fit(csr_array(X_train), y_train).conformalize(csr_array(X), y, sites=some_sites(len(X)))
    dense = Regressor(regressor.estimator_).conformalize(X, y, sites=some_sites(len(X)))
    np.testing.assert_allclose(
        regressor.predict_interval(csr_array(X_test))[1], dense.predict_interval(X_test)[1]
    )


def test_fitted_estimators_can_be_pickled(numbers):
    train, (X, y), (X_test, _) = numbers
    regressor = Regressor(LinearRegression().fit(*train)).conformalize(X, y, sites=some_sites(len(X)))
    loaded = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(loaded.predict_interval(X_test)[1], regressor.predict_interval(X_test)[1])


def test_fit_parameters_reach_the_model(numbers):
    X, y = numbers[0]
    weights = np.arange(len(X))
    regressor = Regressor(prefit=False).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(regressor.estimator_.coef_, LinearRegression().fit(X, y, weights).coef_)


def test_the_extra_to_install_is_named():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import fedconformal as fc\n"
        "try: fc.FederatedConformalRegressor\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "sklearn is not installed: pip install 'fedconformal[sklearn]'"


# -- one site is split conformal prediction: MAPIE as oracle -----------------------------------------------


@pytest.mark.parametrize("prefit", [True, False])
def test_one_site_gives_the_intervals_of_mapie(numbers, prefit):
    train, (X, y), (X_test, y_test) = numbers
    model = LinearRegression().fit(*train) if prefit else LinearRegression()
    ours = Regressor(model, confidence_level=LEVELS, prefit=prefit)
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
    ours = Regressor(models, conformity_score="cqr").conformalize(X, y, sites=["A"] * len(X))
    points, intervals = ours.predict_interval(X_test)
    np.testing.assert_allclose(intervals, expected, rtol=1e-9)
    np.testing.assert_allclose(points, expected_points)


def test_one_site_gives_the_lac_sets_of_mapie(classes):
    train, (X, y), (X_test, y_test) = classes
    model = LogisticRegression().fit(*train)
    ours = Classifier(model, confidence_level=LEVELS).conformalize(X, y, sites=np.zeros(len(X)))
    theirs = SplitConformalClassifier(model, confidence_level=LEVELS).conformalize(X, y)
    labels, sets = ours.predict_set(X_test)
    expected_labels, expected = theirs.predict_set(X_test)
    assert sets.dtype == bool
    np.testing.assert_array_equal(sets, expected)
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_array_equal(
        classification_coverage_score(y_test, sets), fc.metrics.classification_coverage_score(y_test, sets)
    )


# -- many sites --------------------------------------------------------------------------------------------


def test_conformalize_is_plan_report_and_calibrate(numbers):
    train, (X, y), _ = numbers
    model = LinearRegression().fit(*train)
    sites = some_sites(len(X))
    regressor = Regressor(model, confidence_level=[0.8, 0.9], criterion="stable", max_faulty=1)
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
    reports = [fc.report(plan, residuals[sites == name], site=name) for name in names.tolist()]
    assert regressor.plan_ == plan
    assert regressor.calibration_ == fc.calibrate(plan, reports)
    assert regressor.thresholds_.tolist() == list(regressor.calibration_.thresholds)
    assert regressor.estimator_ is model


def test_the_order_of_rows_does_not_matter(numbers):
    train, (X, y), _ = numbers
    sites, order = some_sites(len(X)), np.random.default_rng(1).permutation(len(X))
    regressor = Regressor(LinearRegression().fit(*train))
    first = regressor.conformalize(X, y, sites=sites).calibration_
    assert regressor.conformalize(X[order], y[order], sites=sites[order]).calibration_ == first


@pytest.mark.parametrize(
    "labels",
    [
        lambda sites: sites.tolist(),
        lambda sites: sites.astype(object),
        lambda sites: np.array([int(site[-1]) for site in sites]),
        lambda sites: np.array([int(site[-1]) if site < "site 3" else site[-1] for site in sites], object),
    ],
    ids=["list", "objects", "integers", "mixed"],
)
def test_labels_of_any_kind_name_the_same_sites(numbers, labels):
    train, (X, y), _ = numbers
    sites = some_sites(len(X))
    regressor = Regressor(LinearRegression().fit(*train))
    expected = regressor.conformalize(X, y, sites=sites)
    threshold, m = expected.calibration_.threshold, expected.plan_.n_sites
    regressor.conformalize(X, y, sites=labels(sites))
    assert (regressor.calibration_.threshold, regressor.plan_.n_sites) == (threshold, m)


def test_coverage_given_the_data_follows_the_law():
    # Outcomes are normal and the model predicts 0, so the coverage of [-t, t] is 2 Phi(t) - 1 exactly.
    # 1000 federations; a correct program fails with probability 1e-7 (Massart).
    runs, sites = 1000, np.repeat(["A", "B", "C", "D"], 20)
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


@pytest.mark.parametrize(
    "score", ["lac", "aps", "raps", scores.APS(randomized=True), scores.RAPS(0.1, 1, randomized=True)]
)
def test_coverage_of_label_sets_is_what_the_law_allows(score):
    # As above, 2e-7 for each score; scores may be tied, so the bound is on one side unless randomized.
    rng = np.random.default_rng(4)
    y = rng.integers(0, 4, 24000)
    X = rng.normal(size=(len(y), 4)) + np.eye(4)[y]
    model = LogisticRegression().fit(X[:1000], y[:1000])
    classifier = Classifier(model, conformity_score=score, random_state=5)
    classifier.conformalize(X[1000:4000], y[1000:4000], sites=rng.integers(0, 12, 3000))
    labels, sets = classifier.predict_set(X[4000:])
    [covered] = fc.metrics.classification_coverage_score(y[4000:], sets)
    law, slack = classifier.calibration_.law, hoeffding_limit(20000)
    assert covered >= law.ppf(1e-7) - slack
    np.testing.assert_array_equal(labels, model.predict(X[4000:]))
    if getattr(score, "randomized", False):
        assert covered <= law.ppf(1 - 1e-7) + slack


def test_higher_levels_give_larger_sets_in_the_order_asked_for(numbers, classes):
    train, (X, y), (X_test, _) = numbers
    regressor = Regressor(LinearRegression().fit(*train), confidence_level=LEVELS)
    _, intervals = regressor.conformalize(X, y, sites=some_sites(len(X))).predict_interval(X_test)
    assert intervals.shape == (len(X_test), 2, 3)
    highest, lowest, middle = np.moveaxis(intervals, 2, 0)
    assert np.all(highest[:, 0] < middle[:, 0])
    assert np.all(middle[:, 0] < lowest[:, 0])
    assert np.all(lowest[:, 1] < middle[:, 1])
    assert np.all(middle[:, 1] < highest[:, 1])
    train, (X, y), (X_test, _) = classes
    classifier = Classifier(LogisticRegression().fit(*train), confidence_level=LEVELS)
    _, sets = classifier.conformalize(X, y, sites=some_sites(len(X))).predict_set(X_test)
    highest, lowest, middle = np.moveaxis(sets, 2, 0)
    assert np.all(lowest <= middle)
    assert np.all(middle <= highest)
    assert sets.sum() > lowest.sum() * 3


def test_tiny_sites_give_infinite_intervals_and_all_labels(numbers, classes):
    train, (X, y), _ = numbers
    regressor = Regressor(LinearRegression().fit(*train), confidence_level=[0.5, 0.9])
    with pytest.warns(fc.InfeasibleWarning, match=r"0\.9"):
        regressor.conformalize(X[:6], y[:6], sites=["A", "B"] * 3)
    _, intervals = regressor.predict_interval(X)
    assert np.all(np.isfinite(intervals[:, :, 0]))
    assert np.all(intervals[:, :, 1] == [-math.inf, math.inf])
    assert fc.metrics.regression_coverage_score(y, intervals)[1] == 1
    classifier = Classifier(LogisticRegression().fit(*classes[0]))
    with pytest.warns(fc.InfeasibleWarning):
        classifier.conformalize(*(part[:4] for part in classes[1]), sites=["A"] * 4)
    assert classifier.predict_set(classes[2][0])[1].all()


# -- which predictions a score takes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        BayesianRidge(),
        make_pipeline(StandardScaler(), BayesianRidge()),
        FrozenEstimator(make_pipeline(StandardScaler(), BayesianRidge())),
        GaussianProcessRegressor(RBF() + WhiteKernel(), normalize_y=True, optimizer=None),
    ],
    ids=["plain", "pipeline", "frozen", "gaussian process"],
)
def test_normalized_scores_ask_the_model_for_its_standard_deviation(numbers, model):
    (X_train, y_train), (X, y), (X_test, _) = numbers
    getattr(model, "estimator", model).fit(X_train, y_train)
    regressor = Regressor(model, conformity_score="normalized").conformalize(X, y, sites=["A"] * len(X))
    mean, sigma = model.predict(X, return_std=True)
    q = np.sort(np.abs(y - mean) / sigma)[math.ceil(0.9 * 251) - 1]
    points, intervals = regressor.predict_interval(X_test)
    mean, sigma = model.predict(X_test, return_std=True)
    expected = np.column_stack([mean - q * sigma, mean + q * sigma])
    np.testing.assert_allclose(intervals[:, :, 0], expected)
    np.testing.assert_array_equal(points, mean)
    np.testing.assert_array_equal(regressor.predict(X_test), mean)


def test_a_model_may_predict_mean_and_sigma_or_two_quantiles():
    X = np.arange(10.0)[:, np.newaxis]
    y = X[:, 0] + np.linspace(0, 2, 10)
    for score, model, points in (
        ("normalized", Pair("sigma"), X[:, 0]),
        (scores.CQR(), Pair("upper"), X[:, 0] + 0.5),
    ):
        regressor = Regressor(model.fit(X), conformity_score=score, confidence_level=0.5)
        predicted, intervals = regressor.conformalize(X, y, sites=["A"] * 10).predict_interval(X)
        np.testing.assert_array_equal(predicted, points)
        np.testing.assert_array_equal(regressor.predict(X), points)
        expected = regressor.conformity_score_.set(model.predict(X), regressor.calibration_.threshold)
        np.testing.assert_array_equal(intervals[:, :, 0], expected)


def test_two_quantile_regressors_are_trained_and_their_middle_is_the_point(numbers):
    train, (X, y), (X_test, _) = numbers
    pair = (QuantileRegressor(quantile=0.1, alpha=0), QuantileRegressor(quantile=0.9, alpha=0))
    regressor = Regressor(pair, conformity_score="cqr", prefit=False).fit(*train)
    lower, upper = (model.predict(X_test) for model in regressor.estimator_)
    np.testing.assert_allclose(regressor.predict(X_test), (lower + upper) / 2)
    _, intervals = regressor.conformalize(X, y, sites=some_sites(len(X))).predict_interval(X_test)
    q = regressor.calibration_.threshold
    np.testing.assert_allclose(intervals[:, :, 0], np.column_stack([lower - q, upper + q]))
    assert regressor.n_features_in_ == X.shape[1]
    assert not hasattr(pair[0], "coef_")


def test_a_column_of_predictions_or_outcomes_is_as_good_as_a_row(numbers):
    (X_train, y_train), (X, y), (X_test, _) = numbers
    column = LinearRegression().fit(X_train, y_train[:, np.newaxis])
    flat = LinearRegression().fit(X_train, y_train)
    sites = some_sites(len(X))
    points, intervals = (
        Regressor(column).conformalize(X, y[:, np.newaxis], sites=sites).predict_interval(X_test)
    )
    expected_points, expected = Regressor(flat).conformalize(X, y, sites=sites).predict_interval(X_test)
    np.testing.assert_allclose(points, expected_points)
    np.testing.assert_allclose(intervals, expected)


class Relative:
    """A score of one's own: |y - prediction| / prediction."""

    name = "relative"
    kind = "interval"

    def parameters(self):
        return {}

    def score(self, y, prediction):
        return np.abs(y - prediction) / prediction

    def set(self, prediction, threshold):
        spread = prediction[:, np.newaxis] * threshold
        return np.stack([prediction[:, np.newaxis] - spread, prediction[:, np.newaxis] + spread], axis=1)


def test_a_score_of_ones_own_works_and_no_plan_can_name_it(numbers):
    train, (X, y), _ = numbers
    regressor = Regressor(LinearRegression().fit(*train), conformity_score=Relative())
    points, intervals = regressor.conformalize(X, y, sites=some_sites(len(X))).predict_interval(X)
    assert regressor.plan_.score is None
    np.testing.assert_allclose(intervals[:, 1, 0], points * (1 + regressor.calibration_.threshold))


def test_models_of_other_libraries_are_trusted_to_be_fitted():
    X = np.zeros((20, 1))
    assert not get_tags(Regressor(Foreign())).input_tags.sparse
    regressor = Regressor(Foreign()).conformalize(X, np.arange(20), sites=["A"] * 20)
    assert regressor.predict_interval(X)[1][0, 1, 0] == pytest.approx(18)
    classifier = Classifier(Foreign()).conformalize(X, ["yes"] * 19 + ["no"], sites=["A"] * 20)
    assert classifier.predict_set(X)[1][0, :, 0].tolist() == [False, True]


# -- labels and randomness ---------------------------------------------------------------------------------


def test_strings_are_labels():
    X, y = load_iris(return_X_y=True)
    names = load_iris().target_names[y]
    sites = some_sites(75)
    by_name = Classifier(LogisticRegression(max_iter=1000).fit(X[::2], names[::2]))
    by_index = Classifier(LogisticRegression(max_iter=1000).fit(X[::2], y[::2]))
    labels, sets = by_name.conformalize(X[1::2], names[1::2], sites=sites).predict_set(X)
    assert set(labels) <= set(by_name.classes_.tolist()) == set(names)
    np.testing.assert_array_equal(
        sets, by_index.conformalize(X[1::2], y[1::2].tolist(), sites=sites).predict_set(X)[1]
    )
    np.testing.assert_allclose(by_name.predict_proba(X), by_index.predict_proba(X))


def test_a_label_never_seen_in_training_scores_infinity(classes):
    (X_train, y_train), (X, y), (X_test, _) = classes
    known = LogisticRegression().fit(X_train[y_train < 2], y_train[y_train < 2])
    some = np.where(np.arange(len(y)) % 20 == 0, 2, np.minimum(y, 1))  # one label in twenty is unknown
    sites = some_sites(len(X))
    classifier = Classifier(known, conformity_score=scores.APS(randomized=True), random_state=0)
    with pytest.warns(UserWarning, match=r"20 of 400 .* the first is 2\. .* \+inf"):
        classifier.conformalize(X, some, sites=sites)
    assert sum(answer.n for answer in classifier.calibration_.answers) == 400
    finite = classifier.calibration_.threshold
    assert finite < math.inf
    with pytest.warns(UserWarning, match=r"not among the classifier's classes"):
        classifier.conformalize(X, np.where(np.arange(len(y)) % 4 == 0, "?", some.astype(str)), sites=sites)
    assert classifier.calibration_.threshold == math.inf
    assert classifier.predict_set(X_test)[1].all()


def test_draws_follow_the_random_state(classes):
    train, (X, y), (X_test, _) = classes
    model = LogisticRegression().fit(*train)
    sites = some_sites(len(X))

    def sets(random_state, calls=1):
        score = scores.APS(randomized=True)
        classifier = Classifier(model, conformity_score=score, random_state=random_state)
        classifier.conformalize(X, y, sites=sites)
        return [classifier.predict_set(X_test)[1] for _ in range(calls)]

    first, second = sets(0, calls=2)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, sets(0)[0])
    assert np.any(first != sets(1)[0])
    for source in (None, np.random.default_rng(0), np.random.RandomState(0)):
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
    classifier = Classifier(Foreign(), conformity_score=Witness(randomized=True), random_state=0)
    classifier.conformalize(X, ["yes", "no"] * 10, sites=["A"] * 20).predict_set(X)
    assert seen["score"].shape == seen["set"].shape == (20,)
    assert not np.any(seen["score"] == seen["set"])


# -- a calibration from elsewhere --------------------------------------------------------------------------


def federation(scores_of_site, **wishes):
    plan = fc.plan(n_sites=len(scores_of_site), n_points=len(scores_of_site[0]), **wishes)
    return fc.calibrate(
        plan, [fc.report(plan, values, site=f"s{j}") for j, values in enumerate(scores_of_site)]
    )


RESIDUALS = np.random.default_rng(6).exponential(size=(8, 40))


def test_a_calibration_file_gives_the_intervals_of_conformalize(numbers, tmp_path):
    train, (X, y), (X_test, _) = numbers
    model = LinearRegression().fit(*train)
    here = Regressor(model, confidence_level=LEVELS).conformalize(X, y, sites=some_sites(len(X)))
    path = tmp_path / "calibration.json"
    path.write_text(here.calibration_.to_json())
    there = Regressor(model, confidence_level=LEVELS).from_calibration(fc.Calibration.read(path))
    assert there.plan_ == here.plan_
    np.testing.assert_array_equal(there.predict_interval(X_test)[1], here.predict_interval(X_test)[1])
    some = Regressor(model, confidence_level=0.9).from_calibration(fc.Calibration.read(path))
    np.testing.assert_array_equal(
        some.predict_interval(X_test)[1], here.predict_interval(X_test)[1][:, :, 2:]
    )


def test_a_calibration_goes_with_an_estimator_trained_here(classes):
    train, (X, y), (X_test, _) = classes
    here = Classifier(prefit=False, conformity_score="raps").fit(*train).conformalize(X, y, sites=["A"] * 400)
    there = Classifier(prefit=False, conformity_score=scores.RAPS()).fit(*train)
    there.from_calibration(here.calibration_)
    np.testing.assert_array_equal(there.predict_set(X_test)[1], here.predict_set(X_test)[1])


@pytest.mark.parametrize(
    ("wishes", "parameters", "message"),
    [
        ({"score": "cqr"}, {}, r"conformity_score must be .* QuantileRegression\(\), got Absolute\(\)"),
        ({"score": "absolute"}, {"conformity_score": Relative()}, "conformity_score must be"),
        ({}, {"confidence_level": 0.8}, r"among those of the calibration, \[0\.9\], got \[0\.8\]"),
        ({}, {"confidence_level": [0.9, 0.8]}, "among those of the calibration"),
        ({}, {"max_faulty": 1}, r"promises less .* max_faulty=0 instead of .* max_faulty=1"),
        ({}, {"criterion": "conditional"}, "criterion='marginal', .* criterion='conditional', delta=0.1"),
        ({"criterion": "conditional", "delta": 0.2}, {"criterion": "conditional"}, "delta=0.2, .* delta=0.1"),
        ({"criterion": "conditional", "delta": 0.5}, {}, "promises less"),
    ],
)
def test_a_calibration_that_promises_less_is_refused(wishes, parameters, message):
    model = DummyRegressor().fit([[0], [0]], [0, 1])
    # One site of 8: half of the time the coverage exceeds 0.9, but its mean is 8 / 9.
    data = RESIDUALS[:1, :8] if wishes.get("delta") == 0.5 else RESIDUALS
    calibration = federation(data, **wishes)
    regressor = Regressor(model, **parameters)
    with pytest.raises(ValueError, match=message):
        regressor.from_calibration(calibration)
    assert not hasattr(regressor, "calibration_")


@pytest.mark.parametrize(
    ("wishes", "parameters"),
    [
        ({"criterion": "stable"}, {}),
        ({"criterion": "conditional"}, {}),
        ({"criterion": "conditional", "delta": 0.05}, {"criterion": "conditional"}),
        ({"max_faulty": 1, "score": "absolute"}, {}),
    ],
)
def test_a_calibration_that_promises_more_is_welcome(wishes, parameters):
    model = DummyRegressor().fit([[0], [0]], [0, 1])
    calibration = federation(RESIDUALS, **wishes)
    regressor = Regressor(model, **parameters).from_calibration(calibration)
    assert regressor.calibration_ is calibration
    assert regressor.thresholds_.tolist() == [calibration.threshold]


# -- errors ------------------------------------------------------------------------------------------------


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


def test_points_need_a_fitted_model_only(numbers):
    train, _, (X_test, _) = numbers
    model = LinearRegression().fit(*train)
    np.testing.assert_array_equal(Regressor(model).predict(X_test), model.predict(X_test))
    for estimator in (Regressor(prefit=False), Regressor(LinearRegression()), Regressor(), Classifier()):
        with pytest.raises(NotFittedError):
            estimator.predict(X_test)
        with pytest.raises(NotFittedError):
            check_is_fitted(estimator)
    with pytest.raises(ValueError, match="list only with"):
        Regressor([model, model]).predict(X_test)


@pytest.mark.parametrize("estimator", [Regressor(), Regressor(Ridge()), Regressor([Ridge(), Ridge()])])
def test_prefit_means_fitted(numbers, estimator):
    X, y = numbers[1]
    with pytest.raises(NotFittedError, match="prefit=True"):
        estimator.conformalize(X, y, sites=["A"] * len(X))
    with pytest.raises(NotFittedError, match="prefit=True"):
        estimator.from_calibration(federation(RESIDUALS))
    with pytest.raises(ValueError, match="fit must be skipped with prefit=True"):
        estimator.fit(X, y)


def test_without_prefit_fit_comes_before_conformalize(numbers):
    X, y = numbers[1]
    with pytest.raises(NotFittedError, match="call fit"):
        Regressor(prefit=False).conformalize(X, y, sites=["A"] * len(X))


def test_a_new_fit_drops_the_calibration_of_the_model_before(numbers):
    train, (X, y), _ = numbers
    regressor = Regressor(prefit=False).fit(*train).conformalize(X, y, sites=["A"] * len(X))
    regressor.fit(*train)
    with pytest.raises(NotFittedError, match="conformalize"):
        regressor.predict_interval(X)


def test_a_calibration_that_fails_changes_nothing(numbers):
    train, (X, y), _ = numbers
    regressor = Regressor(LinearRegression().fit(*train)).conformalize(X, y, sites=["A"] * len(X))
    before = regressor.predict_interval(X)[1]
    regressor.set_params(estimator=Ridge().fit(*train))
    with pytest.raises(ValueError, match="sites"):
        regressor.conformalize(X, y, sites=["A"])
    np.testing.assert_array_equal(regressor.predict_interval(X)[1], before)


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        (None, "sites must give the site of each row"),
        (["A"], r"one label for each of the 250 rows of X, got shape \(1,\)"),
        ([["A"]] * 250, r"got shape \(250, 1\)"),
        ([*["A"] * 249, ""], "sites must hold labels of 1 to 200 printable characters, .* got ''"),
        ([*["A"] * 249, "a\nb"], "printable"),
        (np.array([*["A"] * 249, None], dtype=object), "none missing, got None"),
        ([*[1.0] * 249, math.nan], "none missing, got nan"),
    ],
)
def test_every_row_needs_a_site(numbers, sites, message):
    train, (X, y), _ = numbers
    with pytest.raises(ValueError, match=message):
        Regressor(LinearRegression().fit(*train)).conformalize(X, y, sites=sites)


def test_lengths_must_agree(numbers, classes):
    train, (X, y), _ = numbers
    with pytest.raises(ValueError, match=r"y must have shape \(250,\)"):
        Regressor(LinearRegression().fit(*train)).conformalize(X, y[1:], sites=["A"] * len(X))
    train, (X, y), _ = classes
    with pytest.raises(ValueError, match=r"y must have shape \(400,\)"):
        Classifier(LogisticRegression().fit(*train)).conformalize(X, y[1:], sites=["A"] * len(X))


def test_missing_outcomes_are_refused(numbers, classes):
    train, (X, y), _ = numbers
    with pytest.raises(ValueError, match="y must not be nan; not so in 1 of 250 rows"):
        Regressor(LinearRegression().fit(*train)).conformalize(X, [math.nan, *y[1:]], sites=["A"] * len(X))
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
        (Regressor(conformity_score=scores.LAC()), r"kind is 'interval', got LAC\(\)"),
        (Regressor(conformity_score=scores.Absolute), "score object"),
        (Regressor(conformity_score=3), "got 3"),
        (Classifier(conformity_score="absolute"), "conformity_score must be one of 'lac', 'aps', 'raps'"),
        (Regressor(confidence_level=1.0), "confidence_level must be"),
        (Regressor(confidence_level=[]), "confidence_level must hold"),
        (Regressor(criterion="best"), "criterion must be one of"),
        (Regressor(delta=0.7), "delta must be"),
        (Regressor(max_faulty=-1), "max_faulty must be"),
        (Regressor([LinearRegression()] * 2), r"list only with .*'cqr'.* 2 models with Absolute\(\)"),
        (Regressor([LinearRegression()], conformity_score="cqr"), r"\[lower, upper\]"),
        (Classifier(LinearSVC()), "estimator must have predict_proba, and LinearSVC has not"),
        (Classifier([LogisticRegression()]), "estimator must have predict_proba"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_trained(classes, estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator.set_params(prefit=False).fit(*classes[0])
    assert not hasattr(estimator, "estimator_")


@pytest.mark.parametrize(
    ("model", "score", "message"),
    [
        (
            LinearRegression(),
            "normalized",
            "'normalized' needs .* return_std=True .* LinearRegression returned",
        ),
        (LinearRegression(), "cqr", r"'cqr' needs .* shape \(n, 2\); LinearRegression returned \(250,\)"),
        (Pair(width=3), "cqr", r"Pair returned \(250, 3\)"),
        (Pair(), "absolute", "prediction must have 1 dimension"),
    ],
)
def test_models_that_do_not_predict_what_the_score_takes_are_refused(numbers, model, score, message):
    train, (X, y), _ = numbers
    regressor = Regressor(model.fit(*train), conformity_score=score)
    with pytest.raises(ValueError, match=message):
        regressor.conformalize(X, y, sites=["A"] * len(X))


def test_more_faulty_sites_than_sites_allow_is_refused(numbers):
    train, (X, y), _ = numbers
    with pytest.raises(ValueError, match="max_faulty must be below half the number of sites"):
        Regressor(LinearRegression().fit(*train), max_faulty=1).conformalize(X, y, sites=["A", "B"] * 125)


def test_a_path_is_not_a_calibration():
    with pytest.raises(TypeError, match=r"Calibration\.read\(path\) gives, got str"):
        Regressor(Foreign()).from_calibration("calibration.json")


def test_random_state_must_be_a_source_of_numbers(classes):
    train, (X, y), _ = classes
    randomized = scores.APS(randomized=True)
    classifier = Classifier(LogisticRegression().fit(*train), conformity_score=randomized, random_state=-1)
    with pytest.raises(ValueError, match="random_state must be"):
        classifier.conformalize(X, y, sites=["A"] * len(X))


def test_nothing_is_said_when_nothing_is_wrong(numbers):
    train, (X, y), _ = numbers
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Regressor(prefit=False).fit(*train).conformalize(X, y, sites=some_sites(len(X))).predict_interval(X)
