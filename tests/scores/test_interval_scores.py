"""What holds for all scores of numbers: infinite outcomes and thresholds, empty sets, shapes, refusals."""

import numpy as np
import pytest
from score_examples import INTERVAL_SCORES, PREDICTIONS, inf

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
        assert score.set(PREDICTIONS[score.name], threshold).tolist() == [[inf, -inf]] * 2


def test_a_threshold_of_zero_gives_the_prediction_itself():
    assert Absolute().set([0.0, 0.1], 0).tolist() == [[0.0, 0.0], [0.1, 0.1]]
    assert Normalized().set([[0.1, 3.0]], 0).tolist() == [[0.1, 0.1]]
    assert CQR().set([[0.1, 0.3]], 0).tolist() == [[0.1, 0.3]]


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


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "y", "prediction", "message"),
    [
        (Absolute(), [1.0], [1.0, 2.0], r"y must have shape \(2,\) to match prediction, got \(1,\)"),
        (Absolute(), [[1.0], [2.0]], [1.0, 2.0], r"y must have 1 dimension\(s\), got shape \(2, 1\)"),
        (Absolute(), [1.0], [[1.0]], r"prediction must have 1 dimension\(s\), got shape \(1, 1\)"),
        (
            Absolute(),
            [1.0, np.nan, np.nan],
            [1.0] * 3,
            "y must not be nan; not so in 2 of 3 rows, .* row 1: nan",
        ),
        (
            Absolute(),
            [1.0] * 3,
            [1.0, 2.0, np.nan],
            "prediction must be finite; .* 1 of 3 rows, .* row 2: nan",
        ),
        (Absolute(), ["1"], [1.0], "y must be an array of numbers, got dtype <U1"),
        (Absolute(), [1.0], [None], "prediction must be an array of numbers, got dtype object"),
        (Absolute(), [[1.0], [1.0, 2.0]], [1.0], "y must be an array of numbers: .*inhomogeneous"),
        (Normalized(), [1.0], [[1.0, 1.0, 1.0]], r"prediction must have shape \(n, 2\), got \(1, 3\)"),
        (
            Normalized(),
            [1.0] * 3,
            [[1, 1], [1, 0], [1, -1]],
            "sigma > 0 in column 1; .* 2 of 3 rows, .* row 1: 0.0",
        ),
        (
            Normalized(),
            [1.0],
            [[1.0, np.nan]],
            r"prediction must be finite; .* 1 of 1 rows, .* row 0: \[1.0, nan\]",
        ),
        (CQR(), [1.0], [[1.0, 2.0, 3.0]], r"prediction must have shape \(n, 2\), got \(1, 3\)"),
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
        ([[1.0]], r"threshold must be a number or a non-empty list, got shape \(1, 1\)"),
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
