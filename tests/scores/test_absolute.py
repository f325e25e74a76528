"""The absolute residual, and that its sets are {y : score <= threshold}."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from mapie.regression import SplitConformalRegressor
from score_examples import Column, holds, kth_smallest, moderate, reals, step, steps

from fedconformal.scores import Absolute


def test_absolute_is_the_distance():
    assert Absolute().score([3, 5, 7], [2.0, 7.0, 7.0]).tolist() == [1.0, 2.0, 0.0]


def test_scores_are_float64_and_leave_their_input_alone():
    y, prediction = np.array([1, 2]), np.array([3.0, 3.0], dtype=np.float32)
    assert Absolute().score(y, prediction).dtype == np.float64
    kept = np.array([3.0, 3.0])
    Absolute().score(np.array([1.0, 2.0]), kept)
    Absolute().set(kept, 1.0)
    assert kept.tolist() == [3.0, 3.0]


@given(p=reals, t=st.floats(0, 1e308), n_floats=steps, upper=st.booleans())
def test_absolute_sets_hold_every_number_near_their_ends_that_scores_at_most_the_threshold(
    p, t, n_floats, upper
):
    y = step(min(max(p + t if upper else p - t, -1e308), 1e308), n_floats)
    [interval] = Absolute().set([p], t)
    assert holds(interval, y) or Absolute().score([y], [p])[0] > t


@given(p=moderate, t=st.floats(0, 1e6))
def test_absolute_sets_end_within_rounding_of_the_threshold(p, t):
    [interval] = Absolute().set([p], t)
    slack = 4 * np.spacing(max(abs(p), t))
    assert Absolute().score(interval, [p, p]).max() <= t + slack
    assert np.abs(interval - [p - t, p + t]).max() <= slack


def test_absolute_sets_are_mapies():
    rng = np.random.default_rng(1)
    y, calibration, X = rng.normal(size=199), rng.normal(size=(199, 1)), rng.normal(size=(50, 1))
    levels = [0.8, 0.95]
    peer = SplitConformalRegressor(Column(), confidence_level=levels).conformalize(calibration, y)
    residuals = Absolute().score(y, calibration[:, 0])
    ours = Absolute().set(X[:, 0], [kth_smallest(residuals, level) for level in levels])
    np.testing.assert_allclose(ours, peer.predict_interval(X)[1], rtol=0, atol=1e-14)
