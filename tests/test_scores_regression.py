"""Scores of numbers: what they are, and that their sets are {y : score <= threshold}."""

import dataclasses
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.base import BaseEstimator, RegressorMixin

from fedconformal import scores
from fedconformal.scores import CQR, RAPS, Absolute, EmptySetWarning, Normalized, QuantileRegression

INTERVAL_SCORES = [Absolute(), Normalized(), QuantileRegression()]
PREDICTIONS = {
    "absolute": [2.0, 7.0],
    "normalized": [[2.0, 0.5], [7.0, 2.0]],
    "cqr": [[1.0, 3.0], [6.0, 8.0]],
}

inf = np.inf
reals = st.floats(allow_nan=False, allow_infinity=False)
moderate = st.floats(-1e6, 1e6, allow_subnormal=False)
positive = st.floats(1e-6, 1e6)
steps = st.integers(-8, 8)


def step(number, n_floats):
    """Go a number of floats up (or down)."""
    for _ in range(abs(n_floats)):
        number = np.nextafter(number, np.copysign(inf, n_floats))
    return number


def holds(interval, y):
    return interval[0] <= y <= interval[1]


def quietly(score, prediction, threshold):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptySetWarning)
        return score.set(prediction, threshold)


class Column(RegressorMixin, BaseEstimator):
    """A fitted regressor that predicts a column of X."""

    fitted_ = True  # MAPIE looks for it

    def __init__(self, index=0):
        self.index = index

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.asarray(X)[:, self.index]

    def __sklearn_is_fitted__(self):
        return True


# --- what the scores are ---------------------------------------------------------------------


def test_absolute_is_the_distance():
    assert Absolute().score([3, 5, 7], [2.0, 7.0, 7.0]).tolist() == [1.0, 2.0, 0.0]


def test_normalized_is_the_distance_in_sigmas():
    assert Normalized().score([3.0, 3.0], [[2.0, 0.5], [5.0, 4.0]]).tolist() == [2.0, 0.5]


def test_cqr_is_the_signed_distance_to_the_quantiles():
    assert CQR().score([3.0, 5.0, 9.0], [[2.0, 6.0], [6.0, 8.0], [6.0, 8.0]]).tolist() == [-1.0, 1.0, 1.0]


def test_cqr_takes_crossing_quantiles_as_they_are():
    crossing = [[3.0, 1.0]]
    assert CQR().score([2.0], crossing).tolist() == [1.0]
    np.testing.assert_allclose(CQR().set(crossing, 2.0), [[1.0, 3.0]], rtol=1e-15)
    with pytest.warns(EmptySetWarning, match="1 of 1 intervals"):
        assert CQR().set(crossing, 0.5).tolist() == [[inf, -inf]]


def test_scores_are_float64_and_leave_their_input_alone():
    y, prediction = np.array([1, 2]), np.array([3.0, 3.0], dtype=np.float32)
    assert Absolute().score(y, prediction).dtype == np.float64
    kept = np.array([3.0, 3.0])
    Absolute().score(np.array([1.0, 2.0]), kept)
    Absolute().set(kept, 1.0)
    assert kept.tolist() == [3.0, 3.0]


def test_an_infinite_outcome_scores_infinity():
    for score in INTERVAL_SCORES:
        assert score.score([inf, -inf], PREDICTIONS[score.name]).tolist() == [inf, inf]


def test_a_score_beyond_the_largest_float_is_infinite():
    assert Absolute().score([1e308], [-1e308]).tolist() == [inf]
    assert Normalized().score([1e300], [[0.0, 1e-300]]).tolist() == [inf]
    assert CQR().score([1e308], [[-1e308, -1e308]]).tolist() == [inf]


# --- sets ------------------------------------------------------------------------------------


@given(p=reals, t=st.floats(0, 1e308), n_floats=steps, upper=st.booleans())
def test_absolute_sets_hold_every_number_near_their_ends_that_scores_at_most_the_threshold(
    p, t, n_floats, upper
):
    y = step(min(max(p + t if upper else p - t, -1e308), 1e308), n_floats)
    [interval] = Absolute().set([p], t)
    assert holds(interval, y) or Absolute().score([y], [p])[0] > t


@given(p=reals, y=reals)
def test_absolute_sets_hold_the_point_that_gave_the_threshold(p, y):
    [interval] = Absolute().set([p], Absolute().score([y], [p])[0])
    assert holds(interval, y)


@given(p=moderate, t=st.floats(0, 1e6))
def test_absolute_sets_end_within_rounding_of_the_threshold(p, t):
    [interval] = Absolute().set([p], t)
    slack = 4 * np.spacing(max(abs(p), t))
    assert Absolute().score(interval, [p, p]).max() <= t + slack
    assert np.abs(interval - [p - t, p + t]).max() <= slack


# Here an allowance for one rounding instead of three leaves y out.
@example(mean=0.018862261478379928, sigma=0.203109881257811, y=0.0006578066438071281, n_floats=0)
@given(mean=moderate, sigma=positive, y=moderate, n_floats=steps)
def test_normalized_sets_are_the_numbers_that_score_at_most_the_threshold_up_to_rounding(
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


@given(ends=st.tuples(moderate, moderate), t=moderate)
def test_cqr_sets_are_empty_exactly_when_the_ends_pass_each_other(ends, t):
    gap = (ends[0] - t) - (ends[1] + t)
    assume(abs(gap) > 8 * np.spacing(max(abs(ends[0]), abs(ends[1]), abs(t))))
    interval = quietly(CQR(), [list(ends)], t)[0]
    assert (interval.tolist() == [inf, -inf]) == (gap > 0)


@pytest.mark.parametrize("score", INTERVAL_SCORES)
def test_an_infinite_threshold_gives_the_whole_line(score):
    assert score.set(PREDICTIONS[score.name], inf).tolist() == [[-inf, inf]] * 2


@pytest.mark.parametrize("score", INTERVAL_SCORES)
def test_a_threshold_of_minus_infinity_gives_the_empty_set_and_says_so(score):
    with pytest.warns(EmptySetWarning, match="2 of 2 intervals are empty"):
        assert score.set(PREDICTIONS[score.name], -inf).tolist() == [[inf, -inf]] * 2


@pytest.mark.parametrize("score", [Absolute(), Normalized()])
@pytest.mark.parametrize("threshold", [-1.0, -5e-324])
def test_no_distance_is_negative(score, threshold):
    with pytest.warns(EmptySetWarning):
        assert score.set(PREDICTIONS[score.name], threshold).tolist() == [[inf, -inf]] * 2


def test_a_threshold_of_zero_gives_the_prediction_itself():
    assert Absolute().set([0.0, 0.1], 0).tolist() == [[0.0, 0.0], [0.1, 0.1]]
    assert Normalized().set([[0.1, 3.0]], 0).tolist() == [[0.1, 0.1]]
    assert CQR().set([[0.1, 0.3]], 0).tolist() == [[0.1, 0.3]]


def test_empty_sets_are_counted_in_one_warning_and_the_others_are_kept():
    with pytest.warns(EmptySetWarning, match="1 of 2 intervals are empty") as caught:
        intervals = CQR().set([[0.0, 1.0], [0.0, 10.0]], -1.0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert intervals[0].tolist() == [inf, -inf]
    np.testing.assert_allclose(intervals[1], [1.0, 9.0], rtol=1e-15)


def test_sets_that_are_not_empty_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CQR().set([[0.0, 1.0]], -0.5)
        Absolute().set([1.0], 0.0)


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


@pytest.mark.parametrize("score", INTERVAL_SCORES)
def test_no_rows_give_no_rows(score):
    prediction = np.empty((0,) if score.name == "absolute" else (0, 2))
    assert score.score([], prediction).shape == (0,)
    assert score.set(prediction, 1.0).shape == (0, 2)


# --- MAPIE as oracle -------------------------------------------------------------------------


def kth_smallest(values, level):
    n = len(values)
    return np.sort(values)[int(np.ceil(level * (n + 1))) - 1]


def test_absolute_sets_are_mapies():
    rng = np.random.default_rng(1)
    y, calibration, X = rng.normal(size=199), rng.normal(size=(199, 1)), rng.normal(size=(50, 1))
    levels = [0.8, 0.95]
    peer = SplitConformalRegressor(Column(), confidence_level=levels).conformalize(calibration, y)
    residuals = Absolute().score(y, calibration[:, 0])
    ours = Absolute().set(X[:, 0], [kth_smallest(residuals, level) for level in levels])
    np.testing.assert_allclose(ours, peer.predict_interval(X)[1], rtol=0, atol=1e-14)


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


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [*INTERVAL_SCORES, scores.LAC(), scores.APS(randomized=True), RAPS(0.5, 2)])
def test_a_score_comes_back_from_its_name_and_parameters(score):
    document = json.loads(json.dumps({"name": score.name, **score.parameters()}))
    assert scores.from_name(**document) == score
    assert isinstance(score, scores.Score)


def test_the_names():
    names = {
        name: type(scores.from_name(name)) for name in ("absolute", "normalized", "cqr", "lac", "aps", "raps")
    }
    assert names == {
        "absolute": Absolute,
        "normalized": Normalized,
        "cqr": QuantileRegression,
        "lac": scores.LAC,
        "aps": scores.APS,
        "raps": RAPS,
    }
    assert CQR is QuantileRegression


def test_kinds():
    assert {score.kind for score in INTERVAL_SCORES} == {"interval"}
    assert {score.kind for score in (scores.LAC(), scores.APS(), RAPS())} == {"labels"}


@pytest.mark.parametrize("name", ["residual", "Absolute", "", None, ["lac"]])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match="absolute, normalized, cqr, lac, aps, raps; got"):
        scores.from_name(name)


def test_an_unknown_parameter_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'absolute' has no parameter 'penalty'; it takes no parameters"):
        scores.from_name("absolute", penalty=1)
    with pytest.raises(ValueError, match="'lambda'; it takes penalty, k_reg, randomized"):
        scores.from_name("raps", **{"lambda": 1})


def test_scores_are_immutable_and_equal_if_their_content_is():
    assert Absolute() == Absolute()
    assert hash(RAPS(0.5, 2)) == hash(RAPS(0.5, 2))
    assert RAPS(0.5, 2) != RAPS(0.5, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        RAPS().penalty = 1.0


def test_scores_need_neither_scikit_learn_nor_pandas():
    code = (
        "import sys, fedconformal.scores; sys.exit(bool({'sklearn', 'pandas', 'mapie'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "y", "prediction", "message"),
    [
        (Absolute(), [1.0], [1.0, 2.0], r"y must have shape \(2,\) to match prediction, got \(1,\)"),
        (Absolute(), [[1.0], [2.0]], [1.0, 2.0], r"y must have 1 dimension\(s\), got shape \(2, 1\)"),
        (Absolute(), 1.0, [1.0], r"y must have 1 dimension\(s\), got shape \(\)"),
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
        (Absolute(), [1.0], [inf], "prediction must be finite; .* row 0: inf"),
        (Absolute(), ["1"], [1.0], "y must be an array of numbers, got dtype <U1"),
        (Absolute(), [1.0], [None], "prediction must be an array of numbers, got dtype object"),
        (Absolute(), [1.0], [1j], "prediction must be an array of numbers, got dtype complex128"),
        (Absolute(), [[1.0], [1.0, 2.0]], [1.0], "y must be an array of numbers: .*inhomogeneous"),
        (Normalized(), [1.0], [1.0], r"prediction must have 2 dimension\(s\), got shape \(1,\)"),
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
        (Normalized(), [1.0], [[1.0, inf]], "prediction must be finite"),
        (CQR(), [1.0], [[1.0, 2.0, 3.0]], r"prediction must have shape \(n, 2\), got \(1, 3\)"),
        (CQR(), [1.0], [[-inf, 1.0]], "prediction must be finite; .* row 0"),
        (CQR(), [np.nan], [[0.0, 1.0]], "y must not be nan"),
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


def test_normalized_sets_refuse_sigma_zero():
    with pytest.raises(ValueError, match=r"sigma > 0 in column 1; not so in 1 of 1 rows"):
        Normalized().set([[0.0, 0.0]], 1.0)


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        (np.nan, "threshold must not be nan"),
        ([1.0, np.nan], r"threshold must not be nan .* got \[1.0, nan\]"),
        ([[1.0]], r"threshold must be a number or a non-empty list, got shape \(1, 1\)"),
        ([], r"got shape \(0,\)"),
        ("1", "threshold must be an array of numbers"),
        (None, "threshold must be an array of numbers"),
        (True, "got a boolean"),
    ],
)
@pytest.mark.parametrize("score", [*INTERVAL_SCORES, scores.LAC()])
def test_thresholds_refused(score, threshold, message):
    prediction = PREDICTIONS.get(score.name, [[0.5, 0.5]])
    with pytest.raises(ValueError, match=message):
        score.set(prediction, threshold)
