"""Which predictions a score takes, and what a model must give."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from estimator_examples import Foreign, Pair, some_sites
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import (
    BayesianRidge,
    LinearRegression,
    LogisticRegression,
    QuantileRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import fedconformal as fc
from fedconformal import FederatedConformalClassifier as Classifier
from fedconformal import FederatedConformalRegressor as Regressor
from fedconformal import scores


@pytest.mark.parametrize(
    "model",
    [
        BayesianRidge(),
        make_pipeline(StandardScaler(), BayesianRidge()),
        FrozenEstimator(make_pipeline(StandardScaler(), BayesianRidge())),
        GaussianProcessRegressor(
            RBF() + WhiteKernel(), normalize_y=True, optimizer=None
        ),
    ],
    ids=["plain", "pipeline", "frozen", "gaussian process"],
)
def test_normalized_scores_ask_the_model_for_its_standard_deviation(numbers, model):
    (X_train, y_train), (X, y), (X_test, _) = numbers
    getattr(model, "estimator", model).fit(X_train, y_train)
    regressor = Regressor(model, conformity_score="normalized", criterion="marginal")
    regressor.conformalize(X, y, sites=["A"] * len(X))
    mean, sigma = model.predict(X, return_std=True)
    q = np.sort(np.abs(y - mean) / sigma)[math.ceil(0.9 * 251) - 1]
    points, intervals = regressor.predict_interval(X_test)
    mean, sigma = model.predict(X_test, return_std=True)
    expected = np.column_stack([mean - q * sigma, mean + q * sigma])
    np.testing.assert_allclose(intervals[:, :, 0], expected)
    np.testing.assert_array_equal(points, mean)
    np.testing.assert_array_equal(regressor.predict(X_test), mean)


def test_two_quantile_regressors_are_trained_and_their_middle_is_the_point(numbers):
    train, (X, y), (X_test, _) = numbers
    pair = (
        QuantileRegressor(quantile=0.1, alpha=0),
        QuantileRegressor(quantile=0.9, alpha=0),
    )
    regressor = Regressor(pair, conformity_score="cqr", prefit=False).fit(*train)
    lower, upper = (model.predict(X_test) for model in regressor.estimator_)
    np.testing.assert_allclose(regressor.predict(X_test), (lower + upper) / 2)
    _, intervals = regressor.conformalize(
        X, y, sites=some_sites(len(X))
    ).predict_interval(X_test)
    q = regressor.calibration_.threshold
    np.testing.assert_allclose(
        intervals[:, :, 0], np.column_stack([lower - q, upper + q])
    )
    assert regressor.n_features_in_ == X.shape[1]
    assert not hasattr(pair[0], "coef_")


def test_models_of_other_libraries_are_trusted_to_be_fitted():
    X = np.zeros((20, 1))
    assert not get_tags(Regressor(Foreign())).input_tags.sparse
    regressor = Regressor(Foreign()).conformalize(X, np.arange(20), sites=["A"] * 20)
    assert regressor.predict_interval(X)[1][0, 1, 0] == pytest.approx(18)
    classifier = Classifier(Foreign()).conformalize(
        X, ["yes"] * 19 + ["no"], sites=["A"] * 20
    )
    assert classifier.predict_set(X)[1][0, :, 0].tolist() == [False, True]


@pytest.mark.parametrize(
    ("model", "score", "message"),
    [
        (
            LinearRegression(),
            "normalized",
            (
                "'normalized' needs two columns.* return_std=True.* LinearRegression"
                " returned"
            ),
        ),
        (
            LinearRegression(),
            "cqr",
            (
                r"'cqr' needs two columns.* \[lower, upper\]; LinearRegression returned"
                r" shape \(250,\)"
            ),
        ),
        (Pair(width=3), "cqr", r"Pair returned shape \(250, 3\)"),
        (
            Pair(),
            "absolute",
            (
                r"'absolute' needs one column: the prediction; Pair returned shape"
                r" \(250, 2\)"
            ),
        ),
    ],
)
def test_models_that_do_not_predict_what_the_score_takes_are_refused(
    numbers, model, score, message
):
    train, (X, y), _ = numbers
    regressor = Regressor(model.fit(*train), conformity_score=score)
    with pytest.raises(ValueError, match=message):
        regressor.conformalize(X, y, sites=["A"] * len(X))


@dataclass(frozen=True)
class Quantiles(scores.IntervalScore):
    """A score of one's own with a model for each of three columns."""

    name = "quantiles"
    columns = ("low", "middle", "high")
    one_model_per_column = True
    slack: float = 0.5

    def score(self, y, prediction):
        low, _, high = self.checked(prediction).T
        return np.maximum(low - y, y - high) - self.slack

    def set(self, prediction, threshold):
        low, _, high = self.checked(prediction).T
        return self.intervals(low, high, lambda t: t + self.slack, threshold)


def test_a_registered_score_goes_into_the_plan_with_its_parameters(numbers):
    train, (X, y), _ = numbers
    models = [
        QuantileRegressor(quantile=q, alpha=0).fit(*train) for q in (0.1, 0.5, 0.9)
    ]
    regressor = Regressor(models, conformity_score=Quantiles(slack=2.0))
    regressor.conformalize(X, y, sites=some_sites(len(X)))
    assert regressor.plan_.score is None
    scores.SCORES.register(Quantiles)
    try:
        regressor.conformalize(X, y, sites=some_sites(len(X)))
        assert regressor.plan_.score == fc.documents.ScoreRule(
            name="quantiles", parameters={"slack": 2.0}
        )
        other = Regressor(models, conformity_score="quantiles")
        with pytest.raises(
            ValueError, match=r"Quantiles\(slack=2.0\), got Quantiles\(slack=0.5\)"
        ):
            other.from_calibration(regressor.calibration_)
    finally:
        scores.SCORES.unregister("quantiles")
    with pytest.raises(ValueError, match="score must be one of"):
        regressor.from_calibration(regressor.calibration_)


def test_a_score_says_how_many_models_it_takes(numbers):
    train, (X, y), _ = numbers
    models = [
        QuantileRegressor(quantile=q, alpha=0).fit(*train) for q in (0.1, 0.5, 0.9)
    ]
    mean = LinearRegression().fit(*train)
    regressor = Regressor([*models, mean], conformity_score=Quantiles())
    points, intervals = regressor.conformalize(
        X, y, sites=some_sites(len(X))
    ).predict_interval(X)
    np.testing.assert_array_equal(points, mean.predict(X))
    assert fc.metrics.regression_coverage_score(y, intervals)[0] >= 0.85
    with pytest.raises(
        ValueError, match=r"list \[low, middle, high\] or \[low, middle, high, points\]"
    ):
        Regressor(models[:2], conformity_score=Quantiles()).conformalize(
            X, y, sites=["A"] * len(X)
        )


class TestTwoClasses:
    """Truths, groups and sites of a classifier with text for classes."""

    @pytest.fixture(scope="class")
    @staticmethod
    def rows():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 2))
        return (
            X,
            np.where(X[:, 0] + rng.normal(size=600) > 0, "sick", "well"),
            np.arange(600) % 4,
        )

    @pytest.fixture(scope="class")
    @staticmethod
    def model(rows):
        X, y, _ = rows
        return LogisticRegression().fit(X[:200], y[:200])

    @pytest.mark.parametrize("score", ["aps", "raps"])
    def test_summed_scores_are_warned_of(self, rows, model, score):
        X, y, sites = rows
        plain = scores.from_name(score)
        with pytest.warns(UserWarning, match=f"Score {score} with two classes"):
            Classifier(model, conformity_score=plain).conformalize(X, y, sites=sites)
        with warnings.catch_warnings(action="error"):
            Classifier(model, conformity_score=score).conformalize(X, y, sites=sites)
        with pytest.warns(UserWarning, match=f"Score {score} with two classes"):
            fc.plan(3, 50, score=score, terms={"classes": ["sick", "well"]})

    def test_truths_must_be_classes(self, rows, model):
        X, y, sites = rows
        with pytest.raises(
            ValueError,
            match=r"y must hold classes of the classifier, 'sick', 'well'; none of",
        ):
            Classifier(model).conformalize(X, (y == "sick").astype(int), sites=sites)

    def test_groups_may_be_true_or_false(self, rows, model):
        X, y, sites = rows
        groups = X[:, 1] > 0
        named, plain = (
            Classifier(model).conformalize(X, y, sites=sites, groups=g)
            for g in (groups, groups.astype(str))
        )
        assert named.plan_.groups == ("False", "True")
        for new in (groups, groups.tolist()):
            sets = named.predict_set(X, groups=new)[1]
            np.testing.assert_array_equal(
                sets, plain.predict_set(X, groups=groups.astype(str))[1]
            )

    def test_one_site_may_be_a_number(self, rows, model):
        X, y, sites = rows
        classifier = Classifier(model, group_by="site").conformalize(X, y, sites=sites)
        for site in (2, np.int64(2), "2"):
            sets = classifier.predict_set(X, sites=site)[1]
            np.testing.assert_array_equal(
                sets, classifier.predict_set(X, sites=[2] * 600)[1]
            )

    def test_a_level_that_is_changed_needs_a_calibration(self, rows, model):
        X, y, sites = rows
        classifier = (
            Classifier(model)
            .conformalize(X, y, sites=sites)
            .set_params(confidence_level=[0.8, 0.5])
        )
        with pytest.raises(
            ValueError, match=r"changed to \[0.8, 0.5\] after a calibration at 0.9"
        ):
            classifier.predict_set(X)
        assert classifier.conformalize(X, y, sites=sites).predict_set(X)[1].shape == (
            600,
            2,
            2,
        )
