"""``fit`` with sites: in one call, through pipelines and through cross-validation."""

import numpy as np
import pytest
import sklearn
from estimator_examples import some_sites
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedconformal import FederatedConformalClassifier as Classifier
from fedconformal import FederatedConformalRegressor as Regressor
from fedconformal import metrics


def coverage(estimator, X, y):
    return float(
        metrics.regression_coverage_score(y, estimator.predict_interval(X)[1])[0]
    )


def last_coverage(pipeline, X, y):
    return coverage(pipeline[-1], pipeline[:-1].transform(X), y)


@pytest.fixture
def rows(numbers):
    (X, y), (X2, y2), _ = numbers
    X, y = np.concatenate([X, X2]), np.concatenate([y, y2])
    return X, y, some_sites(len(X))


class TestFitWithSites:
    def test_it_is_fit_and_then_conformalize(self, rows):
        X, y, sites = rows
        found = Regressor(LinearRegression(), prefit=False, rng=3).fit(
            X, y, sites=sites
        )
        n = sum(found.calibration_.n_points)
        again = clone(found).fit(X, y, sites=sites)
        assert again.calibration_ == found.calibration_
        other = clone(found).set_params(rng=4).fit(X, y, sites=sites)
        assert other.calibration_ != found.calibration_
        assert 0 < n < len(X)
        assert not np.array_equal(
            found.estimator_.coef_, LinearRegression().fit(X, y).coef_
        )

    def test_with_a_fitted_model_all_rows_are_for_calibration(self, rows):
        X, y, sites = rows
        model = LinearRegression().fit(X[:100], y[:100])
        found = Regressor(model).fit(X, y, sites=sites)
        assert (
            found.calibration_
            == Regressor(model).conformalize(X, y, sites=sites).calibration_
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"calibration_size": 1.0}, "calibration_size must be a number in"),
            (
                {"calibration_size": 0.9999},
                "calibration_size must leave rows for training",
            ),
            ({"rng": -1}, "rng must be"),
        ],
    )
    def test_what_cannot_be_is_refused(self, rows, arguments, message):
        X, y, sites = rows
        with pytest.raises(ValueError, match=message):
            Regressor(prefit=False, **arguments).fit(X, y, sites=sites)


class TestPipelinesAndCrossValidation:
    def test_through_a_pipeline(self, rows):
        X, y, sites = rows
        groups = np.where(X[:, 1] > 0, "a", "b")
        with sklearn.config_context(enable_metadata_routing=True):
            last = Regressor(prefit=False, rng=0, confidence_level=0.8)
            pipeline = make_pipeline(
                StandardScaler(), last.set_fit_request(sites=True, groups=True)
            )
            pipeline.fit(X, y, sites=sites, groups=groups)
            assert set(pipeline[-1].thresholds_) == {"a", "b"}
            last = Regressor(prefit=False, rng=0).set_fit_request(sites=True)
            found = cross_validate(
                make_pipeline(StandardScaler(), last),
                X,
                y,
                params={"sites": sites},
                scoring=last_coverage,
            )
        assert 0.8 < found["test_score"].mean() < 1

    def test_without_routing_a_pipeline_takes_them_by_the_name_of_the_step(self, rows):
        X, y, sites = rows
        pipeline = make_pipeline(StandardScaler(), Regressor(prefit=False, rng=0))
        pipeline.fit(X, y, federatedconformalregressor__sites=sites)
        assert pipeline[-1].plan_.n_sites == len(np.unique(sites))

    def test_what_the_model_asks_for_is_passed_on(self, rows):
        X, y, _ = rows
        weights = (np.arange(len(X)) % 2).astype(float)
        plain = Regressor(prefit=False).fit(X, y, sample_weight=weights)
        with sklearn.config_context(enable_metadata_routing=True):
            model = LinearRegression().set_fit_request(sample_weight=True)
            routed = Regressor(model, prefit=False).fit(X, y, sample_weight=weights)
            with pytest.raises(TypeError, match="strange"):
                Regressor(LinearRegression(), prefit=False).fit(X, y, strange=weights)
        np.testing.assert_array_equal(plain.estimator_.coef_, routed.estimator_.coef_)


class TestWhatIsInside:
    def test_a_classifier_in_the_regressor_is_refused(self, classes):
        (X, y), *_ = classes
        fitted = LogisticRegression().fit(X, y)
        for conformal, act in (
            (Regressor(fitted), lambda it: it.conformalize(X, y, sites=y)),
            (Regressor(LogisticRegression(), prefit=False), lambda it: it.fit(X, y)),
            (
                Regressor(make_pipeline(StandardScaler(), fitted)),
                lambda it: it.predict(X),
            ),
        ):
            with pytest.raises(
                ValueError, match="is a classifier: its sets are made by Fed"
            ):
                act(conformal)


def test_sets_as_labels(classes):
    train, (X, y), (new, _) = classes
    names = np.array(["low", "mid", "top"])
    model = LogisticRegression().fit(train[0], names[train[1]])
    classifier = Classifier(model, confidence_level=[0.5, 0.9])
    classifier.conformalize(X, names[y], sites=some_sites(len(X)))
    labels, sets = classifier.predict_set(new)
    labels_too, lists = classifier.predict_set(new, as_labels=True)
    np.testing.assert_array_equal(labels, labels_too)
    assert len(lists) == len(new)
    assert all(
        lists[i][j] == names[sets[i, :, j]].tolist()
        for i in range(len(new))
        for j in range(2)
    )
    one = Classifier(model).conformalize(X, names[y], sites=some_sites(len(X)))
    assert (
        one.predict_set(new, as_labels=True)[1][0]
        == names[one.predict_set(new)[1][0, :, 0]].tolist()
    )
