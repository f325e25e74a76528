"""One minus the probability of the label."""

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin

from fedconformal.scores import LAC


class Given(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose probabilities are X."""

    def __init__(self, n_classes=3):
        self.n_classes = n_classes

    @property
    def classes_(self):
        return np.arange(self.n_classes)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.asarray(X)

    def predict(self, X):
        return np.argmax(X, axis=1)

    def __sklearn_is_fitted__(self):
        return True


def test_labels_may_be_any_kind_of_whole_number():
    prediction = [[0.75, 0.25], [0.75, 0.25]]
    for y in ([0, 1], [False, True], [0.0, 1.0], np.array([0, 1], dtype=np.uint8)):
        assert LAC().score(y, prediction).tolist() == [0.25, 0.75]


def test_probabilities_of_a_float32_network_are_taken_and_left_alone():
    weights = np.random.default_rng(0).random((200, 1000), dtype=np.float32)
    prediction = weights / weights.sum(axis=1, keepdims=True)
    before = prediction.copy()
    sets = LAC().set(prediction, 0.999)
    np.testing.assert_array_equal(sets, 1 - prediction.astype(np.float64) <= 0.999)
    np.testing.assert_array_equal(prediction, before)


def test_rounding_of_probabilities_is_forgiven():
    prediction = [[1 + 5e-7, 0.0], [0.5, 0.4995]]
    assert LAC().set(prediction, 0.6).tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("n_classes", [2, 10])
def test_lac_sets_are_mapies(n_classes):
    rng = np.random.default_rng(n_classes)
    calibration, X = rng.dirichlet(np.ones(n_classes), 499), rng.dirichlet(np.ones(n_classes), 2000)
    y = rng.integers(n_classes, size=499)
    levels = [0.8, 0.9, 0.95]
    peer = SplitConformalClassifier(Given(n_classes), confidence_level=levels).conformalize(calibration, y)
    ordered = np.sort(LAC().score(y, calibration))
    thresholds = [ordered[int(np.ceil(level * 500)) - 1] for level in levels]
    np.testing.assert_array_equal(LAC().set(X, thresholds), peer.predict_set(X)[1])
