"""Prediction intervals with the truths inside and outside."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import fedconformal as fc


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    return X, X @ [1.0, 2.0] + rng.normal(size=300)


def test_truths_inside_and_outside_are_told_apart(lines):
    intervals = np.array([[0.0, 2.0], [1.0, 3.0], [-np.inf, np.inf]])
    ax = fc.plots.IntervalDisplay.from_predictions([1.0, 2.0, 3.0], intervals, [1.5, 9.0, 100.0]).ax_
    found = lines(ax)
    inside, outside = found["truth inside (2 of 3)"], found["truth outside (1)"]
    assert inside.get_marker() != outside.get_marker()
    assert outside.get_ydata().tolist() == [9.0]
    assert ax.get_ylim()[0] < 0
    assert ax.get_ylim()[1] > 100
    assert ax.get_ylabel() == "outcome"


def test_truths_keep_their_places_in_the_order_of_the_prediction(lines):
    intervals = np.array([[2.0, 4.0], [0.0, 2.0]])
    ax = fc.plots.IntervalDisplay.from_predictions([3.0, 1.0], intervals, [3.5, 7.0]).ax_
    found = lines(ax)
    assert found["truth outside (1)"].get_xydata().tolist() == [[0.0, 7.0]]
    assert found["truth inside (1 of 2)"].get_xydata().tolist() == [[1.0, 3.5]]


def test_from_an_estimator(rows):
    X, y = rows
    model = fc.FederatedConformalRegressor(LinearRegression().fit(X[:50], y[:50]))
    model.conformalize(X[50:200], y[50:200], sites=np.arange(150) % 3)
    display = fc.plots.IntervalDisplay.from_estimator(model, X[200:], y[200:])
    prediction, intervals = model.predict_interval(X[200:])
    assert np.array_equal(display.prediction, prediction)
    assert np.array_equal(display.intervals, intervals[:, :, 0])


@pytest.mark.parametrize(
    ("intervals", "truth", "words"),
    [([[0, 1, 2]], None, "intervals must have shape"), ([[0, 1]], [1, 2], "y_true must have shape")],
)
def test_wrong_shapes_are_named(intervals, truth, words):
    with pytest.raises(ValueError, match=words):
        fc.plots.IntervalDisplay.from_predictions([1.0], intervals, truth)


def test_without_truths(lines):
    ax = fc.plots.IntervalDisplay.from_predictions([1.0, 1.0], np.ones((2, 2, 1))).ax_
    assert set(lines(ax)) == {"prediction"}
