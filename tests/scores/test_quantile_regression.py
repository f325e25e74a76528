"""The distance to two quantiles, and that its sets are {y : score <= threshold}."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mapie.regression import ConformalizedQuantileRegressor
from score_examples import Column, holds, inf, kth_smallest, moderate, quietly, step, steps

from fedconformal.scores import CQR, EmptySetWarning


def test_cqr_is_the_signed_distance_to_the_quantiles():
    assert CQR().score([3.0, 5.0, 9.0], [[2.0, 6.0], [6.0, 8.0], [6.0, 8.0]]).tolist() == [-1.0, 1.0, 1.0]


def test_cqr_takes_crossing_quantiles_as_they_are():
    crossing = [[3.0, 1.0]]
    assert CQR().score([2.0], crossing).tolist() == [1.0]
    np.testing.assert_allclose(CQR().set(crossing, 2.0), [[1.0, 3.0]], rtol=1e-15)
    with pytest.warns(EmptySetWarning, match="1 of 1 intervals"):
        assert CQR().set(crossing, 0.5).tolist() == [[inf, -inf]]


@given(ends=st.tuples(moderate, moderate), t=moderate, n_floats=steps, y=moderate)
def test_cqr_sets_are_the_numbers_that_score_at_most_the_threshold_up_to_rounding(ends, t, n_floats, y):
    prediction = [list(ends)]
    own = CQR().score([y], prediction)[0]
    assert holds(CQR().set(prediction, own)[0], y)

    interval = quietly(CQR(), prediction, t)[0]
    for near in (step(ends[0] - t, n_floats), step(ends[1] + t, n_floats)):
        assert holds(interval, near) or CQR().score([near], prediction)[0] > t
    if interval[0] <= interval[1]:
        rounding = 4 * np.spacing(max(abs(ends[0]), abs(ends[1]), abs(t)))
        assert CQR().score(interval, prediction * 2).max() <= t + rounding


def test_cqr_sets_are_mapies_symmetric_ones():
    rng = np.random.default_rng(2)
    y = rng.normal(size=199)
    calibration = np.sort(rng.normal(size=(199, 3)), axis=1)
    X = np.sort(rng.normal(size=(50, 3)), axis=1)
    columns = [Column(0), Column(2), Column(1)]
    peer = ConformalizedQuantileRegressor(columns, confidence_level=0.9, prefit=True)
    peer.conformalize(calibration, y)
    threshold = kth_smallest(CQR().score(y, calibration[:, [0, 2]]), 0.9)
    ours = CQR().set(X[:, [0, 2]], [threshold])
    theirs = peer.predict_interval(X, symmetric_correction=True)[1]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-14)


def test_columns_that_seem_to_be_exchanged_are_warned_of():
    crossed = np.array([[2.0, 1.0], [3.0, 1.0], [0.0, 1.0]])
    with pytest.warns(UserWarning, match="p95 is larger than p5 in 2 of 3 rows: are they exchanged"):
        assert CQR().prediction_from(crossed, ["p95", "p5"]).tolist() == crossed.tolist()
