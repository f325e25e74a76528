"""What holds for all scores of numbers: infinite outcomes and thresholds, empty sets,
shapes, refusals.
"""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from score_examples import (
    INTERVAL_SCORES,
    PREDICTIONS,
    holds,
    inf,
    moderate,
    positive,
    quietly,
    reals,
    step,
    steps,
)

from fedconformal import scores
from fedconformal.scores import CQR, Absolute, EmptySetWarning, Normalized


def test_an_infinite_outcome_scores_infinity():
    for score in INTERVAL_SCORES:
        assert score.score([inf, -inf], PREDICTIONS[score.name]).tolist() == [inf, inf]


def test_a_score_beyond_the_largest_float_is_infinite():
    assert Absolute().score([1e308], [-1e308]).tolist() == [inf]
    assert Normalized().score([1e300], [[0.0, 1e-300]]).tolist() == [inf]
    assert CQR().score([1e308], [[-1e308, -1e308]]).tolist() == [inf]


@pytest.mark.parametrize("score", INTERVAL_SCORES)
def test_an_infinite_threshold_gives_the_whole_line(score):
    assert score.set(PREDICTIONS[score.name], inf).tolist() == [[-inf, inf]] * 2


@pytest.mark.parametrize("score", [Absolute(), Normalized()])
@pytest.mark.parametrize("threshold", [-5e-324])
def test_no_distance_is_negative(score, threshold):
    with pytest.warns(EmptySetWarning):
        assert (
            score.set(PREDICTIONS[score.name], threshold).tolist() == [[inf, -inf]] * 2
        )


def test_an_end_beyond_the_largest_float_is_infinite():
    assert Absolute().set([1.7e308], 1e308)[0, 1] == inf
    assert Normalized().set([[0.0, 1e300]], 1e300).tolist() == [[-inf, inf]]


@pytest.mark.parametrize("score", INTERVAL_SCORES)
def test_several_thresholds_stand_on_the_last_axis(score):
    prediction, thresholds = PREDICTIONS[score.name], [0.5, inf, 1.25]
    together = score.set(prediction, thresholds)
    assert together.shape == (2, 2, 3)
    for j, threshold in enumerate(thresholds):
        alone = score.set(prediction, threshold)
        assert alone.shape == (2, 2)
        np.testing.assert_array_equal(together[:, :, j], alone)


# --- refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "y", "prediction", "message"),
    [
        (
            Absolute(),
            [1.0],
            [1.0, 2.0],
            r"y must have shape \(2,\) to match prediction, got \(1,\)",
        ),
        (
            Absolute(),
            [[1.0], [2.0]],
            [1.0, 2.0],
            r"y must have 1 dimension\(s\), got shape \(2, 1\)",
        ),
        (
            Absolute(),
            [1.0],
            [[1.0]],
            r"prediction must have 1 dimension\(s\), got shape \(1, 1\)",
        ),
        (
            Absolute(),
            [1.0, np.nan, np.nan],
            [1.0] * 3,
            "y must not be nan; violated in 2 of 3 rows .*row 1, got nan",
        ),
        (
            Absolute(),
            [1.0] * 3,
            [1.0, 2.0, np.nan],
            "prediction must be finite; .* 1 of 3 rows .*row 2, got nan",
        ),
        (Absolute(), ["1"], [1.0], "y must be an array of numbers, got dtype <U1"),
        (
            Absolute(),
            [1.0],
            [None],
            "prediction must be an array of numbers, got dtype object",
        ),
        (
            Absolute(),
            [[1.0], [1.0, 2.0]],
            [1.0],
            "y must be an array of numbers: .*inhomogeneous",
        ),
        (
            Normalized(),
            [1.0],
            [[1.0, 1.0, 1.0]],
            r"prediction must have shape \(n, 2\), got \(1, 3\)",
        ),
        (
            Normalized(),
            [1.0] * 3,
            [[1, 1], [1, 0], [1, -1]],
            "sigma > 0 in column 1; .* 2 of 3 rows .*row 1, got 0.0",
        ),
        (
            Normalized(),
            [1.0],
            [[1.0, np.nan]],
            r"prediction must be finite; .* 1 of 1 rows .*row 0, got \[1.0, nan\]",
        ),
        (
            CQR(),
            [1.0],
            [[1.0, 2.0, 3.0]],
            r"prediction must have shape \(n, 2\), got \(1, 3\)",
        ),
    ],
)
def test_scoring_refuses(score, y, prediction, message):
    with pytest.raises(ValueError, match=message):
        score.score(y, prediction)


@pytest.mark.parametrize("score", INTERVAL_SCORES)
def test_sets_refuse_the_predictions_that_scoring_refuses(score):
    bad = np.array(PREDICTIONS[score.name])
    bad.flat[0] = np.nan
    with pytest.raises(ValueError, match=r"prediction must be finite; .* row 0"):
        score.set(bad, 1.0)


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        (np.nan, "threshold must not be nan"),
        (
            [[1.0]],
            r"threshold must be a number or a non-empty list, got shape \(1, 1\)",
        ),
        ([], r"got shape \(0,\)"),
        ("1", "threshold must be an array of numbers"),
        (True, "got a boolean"),
    ],
)
@pytest.mark.parametrize("score", [Absolute(), scores.LAC()])
def test_thresholds_refused(score, threshold, message):
    prediction = PREDICTIONS.get(score.name, [[0.5, 0.5]])
    with pytest.raises(ValueError, match=message):
        score.set(prediction, threshold)


def test_absolute_is_the_distance():
    assert Absolute().score([3, 5, 7], [2.0, 7.0, 7.0]).tolist() == [1.0, 2.0, 0.0]


@given(p=reals, t=st.floats(0, 1e308), n_floats=steps, upper=st.booleans())
def test_absolute_sets_hold_every_number_near_their_ends_within_the_threshold(
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


def test_normalized_is_the_distance_in_sigmas():
    assert Normalized().score([3.0, 3.0], [[2.0, 0.5], [5.0, 4.0]]).tolist() == [
        2.0,
        0.5,
    ]


# Here an allowance for one rounding instead of three leaves y out.
@example(
    mean=0.018862261478379928,
    sigma=0.203109881257811,
    y=0.0006578066438071281,
    n_floats=0,
)
@given(mean=moderate, sigma=positive, y=moderate, n_floats=steps)
def test_normalized_sets_are_the_numbers_within_the_threshold_up_to_rounding(
    mean, sigma, y, n_floats
):
    prediction = [[mean, sigma]]
    own = Normalized().score([y], prediction)[0]
    assume(own > 1e-290)  # no underflow
    assert holds(Normalized().set(prediction, own)[0], y)

    t = step(own, n_floats)
    [low, high] = interval = Normalized().set(prediction, t)[0]
    for near in (step(low, n_floats), step(high, n_floats)):
        assert holds(interval, near) or Normalized().score([near], prediction)[0] > t
    rounding = 4 * np.spacing(max(abs(mean), sigma * t)) / sigma + 8 * np.spacing(t)
    assert Normalized().score(interval, prediction * 2).max() <= t + rounding


def test_cqr_is_the_signed_distance_to_the_quantiles():
    assert CQR().score(
        [3.0, 5.0, 9.0], [[2.0, 6.0], [6.0, 8.0], [6.0, 8.0]]
    ).tolist() == [-1.0, 1.0, 1.0]


def test_cqr_takes_crossing_quantiles_as_they_are():
    crossing = [[3.0, 1.0]]
    assert CQR().score([2.0], crossing).tolist() == [1.0]
    np.testing.assert_allclose(CQR().set(crossing, 2.0), [[1.0, 3.0]], rtol=1e-15)
    with pytest.warns(EmptySetWarning, match="1 of 1 intervals"):
        assert CQR().set(crossing, 0.5).tolist() == [[inf, -inf]]


@given(ends=st.tuples(moderate, moderate), t=moderate, n_floats=steps, y=moderate)
def test_cqr_sets_are_the_numbers_that_score_at_most_the_threshold_up_to_rounding(
    ends, t, n_floats, y
):
    prediction = [list(ends)]
    own = CQR().score([y], prediction)[0]
    assert holds(CQR().set(prediction, own)[0], y)

    interval = quietly(CQR(), prediction, t)[0]
    for near in (step(ends[0] - t, n_floats), step(ends[1] + t, n_floats)):
        assert holds(interval, near) or CQR().score([near], prediction)[0] > t
    if interval[0] <= interval[1]:
        rounding = 4 * np.spacing(max(abs(ends[0]), abs(ends[1]), abs(t)))
        assert CQR().score(interval, prediction * 2).max() <= t + rounding


def test_columns_that_seem_to_be_exchanged_are_warned_of():
    crossed = np.array([[2.0, 1.0], [3.0, 1.0], [0.0, 1.0]])
    with pytest.warns(
        UserWarning, match="p95 is larger than p5 in 2 of 3 rows: are they exchanged"
    ):
        assert (
            CQR().prediction_from(crossed, ["p95", "p5"]).tolist() == crossed.tolist()
        )
