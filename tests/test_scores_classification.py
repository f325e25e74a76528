"""Scores of labels: what they are, and that their sets are {y : score <= threshold}, bit for bit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mapie.classification import SplitConformalClassifier
from scipy.special import betaincinv
from sklearn.base import BaseEstimator, ClassifierMixin

from fedconformal.scores import APS, LAC, RAPS, _classification

inf = np.inf
DETERMINISTIC = [LAC(), APS(), RAPS(penalty=0.25, k_reg=2), RAPS(penalty=1.0, k_reg=0), RAPS(penalty=0.0)]
RANDOMIZED = [APS(randomized=True), RAPS(penalty=0.25, k_reg=1, randomized=True)]


@st.composite
def dyadic_rows(draw):
    """Probabilities in sixteenths, with many ties and zeros: their sums are exact in floats."""
    n_classes = draw(st.integers(2, 7))
    cuts = draw(st.lists(st.integers(0, 16), min_size=n_classes - 1, max_size=n_classes - 1))
    return np.diff([0, *sorted(cuts), 16]) / 16


@st.composite
def float_rows(draw):
    """A few rows of any probabilities, with ties now and then."""
    shape = draw(st.integers(1, 5)), draw(st.integers(2, 6))
    size = shape[0] * shape[1]
    weights = np.reshape(draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)), shape)
    return weights / weights.sum(axis=1, keepdims=True)


def scores_of_all_labels(score, prediction, **u):
    """Ask for the score of every label of every row, one label at a time."""
    n, n_classes = prediction.shape
    return np.stack([score.score(np.full(n, c), prediction, **u) for c in range(n_classes)], axis=1)


def by_definition(score, row, label, u=0):
    """The score in exact rational arithmetic, by walking down the ranks."""
    p = [Fraction(value) for value in row.tolist()]
    if isinstance(score, LAC):
        return 1 - p[label]
    total = Fraction(0)
    for rank, c in enumerate(sorted(range(len(p)), key=lambda c: (-p[c], c)), start=1):
        total += p[c]
        if c == label:
            penalty, k_reg = (score.penalty, score.k_reg) if isinstance(score, RAPS) else (0, 0)
            return total - Fraction(u) * p[c] + Fraction(penalty) * max(0, rank - k_reg)
    raise AssertionError(label)


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


# --- what the scores are ---------------------------------------------------------------------


@pytest.mark.parametrize("score", DETERMINISTIC)
@given(row=dyadic_rows())
def test_scores_are_their_definition(score, row):
    expected = [float(by_definition(score, row, label)) for label in range(len(row))]
    assert scores_of_all_labels(score, row[np.newaxis])[0].tolist() == expected


@pytest.mark.parametrize("score", RANDOMIZED)
@given(row=dyadic_rows(), sixteenths=st.integers(0, 15))
def test_randomized_scores_are_their_definition(score, row, sixteenths):
    u = sixteenths / 16
    expected = [float(by_definition(score, row, label, u=u)) for label in range(len(row))]
    assert scores_of_all_labels(score, row[np.newaxis], u=[u])[0].tolist() == expected


def test_equal_probabilities_rank_by_class_index():
    row = [[0.25, 0.25, 0.25, 0.25]]
    assert scores_of_all_labels(APS(), np.array(row))[0].tolist() == [0.25, 0.5, 0.75, 1.0]
    assert APS().set(row, 0.5).tolist() == [[True, True, False, False]]


def test_raps_without_penalty_is_aps():
    prediction = np.random.default_rng(0).dirichlet(np.ones(8), 100)
    y = np.arange(100) % 8
    np.testing.assert_array_equal(RAPS(penalty=0.0, k_reg=0).score(y, prediction), APS().score(y, prediction))


def test_u_of_zero_is_the_deterministic_score():
    prediction = np.random.default_rng(0).dirichlet(np.ones(8), 100)
    y, u = np.arange(100) % 8, np.zeros(100)
    np.testing.assert_array_equal(APS(randomized=True).score(y, prediction, u=u), APS().score(y, prediction))


def test_a_generator_stands_for_the_numbers_it_draws():
    prediction = np.random.default_rng(0).dirichlet(np.ones(4), 20)
    y, score = np.arange(20) % 4, APS(randomized=True)
    u = np.random.default_rng(5).random(20)
    drawn = score.score(y, prediction, u=np.random.default_rng(5))
    np.testing.assert_array_equal(drawn, score.score(y, prediction, u=u))
    sets = score.set(prediction, 0.7, u=np.random.default_rng(5))
    np.testing.assert_array_equal(sets, score.set(prediction, 0.7, u=u))


def test_labels_may_be_any_kind_of_whole_number():
    prediction = [[0.75, 0.25], [0.75, 0.25]]
    for y in ([0, 1], [False, True], [0.0, 1.0], np.array([0, 1], dtype=np.uint8)):
        assert LAC().score(y, prediction).tolist() == [0.25, 0.75]


# --- sets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [LAC(), APS(), RAPS(penalty=0.03, k_reg=1)])
@given(prediction=float_rows(), threshold=st.floats(-0.1, 1.5), data=st.data())
def test_a_label_is_in_the_set_if_and_only_if_its_score_is_at_most_the_threshold(
    score, prediction, threshold, data
):
    of_labels = scores_of_all_labels(score, prediction)
    own = data.draw(st.sampled_from(of_labels.ravel().tolist()))
    for t in (threshold, own, np.nextafter(own, -inf), np.nextafter(own, inf)):
        np.testing.assert_array_equal(score.set(prediction, t), of_labels <= t)


@pytest.mark.parametrize("score", [APS(randomized=True), RAPS(penalty=0.03, k_reg=1, randomized=True)])
@given(prediction=float_rows(), threshold=st.floats(-0.1, 1.5), data=st.data())
def test_so_it_is_with_randomization(score, prediction, threshold, data):
    n = len(prediction)
    u = data.draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=n, max_size=n))
    of_labels = scores_of_all_labels(score, prediction, u=u)
    own = data.draw(st.sampled_from(of_labels.ravel().tolist()))
    for t in (threshold, own, np.nextafter(own, -inf)):
        np.testing.assert_array_equal(score.set(prediction, t, u=u), of_labels <= t)


@pytest.mark.parametrize("score", DETERMINISTIC)
def test_sets_do_not_depend_on_how_rows_are_taken_in_blocks(score, monkeypatch):
    prediction = np.random.default_rng(3).dirichlet(np.ones(5), 103)
    y = np.arange(103) % 5
    whole = score.set(prediction, [0.3, 0.9]), score.score(y, prediction)
    monkeypatch.setattr(_classification, "BLOCK", 50)
    np.testing.assert_array_equal(score.set(prediction, [0.3, 0.9]), whole[0])
    np.testing.assert_array_equal(score.score(y, prediction), whole[1])
    monkeypatch.setattr(_classification, "BLOCK", 1)
    np.testing.assert_array_equal(score.set(prediction, [0.3, 0.9]), whole[0])


@pytest.mark.parametrize("score", DETERMINISTIC)
def test_infinite_thresholds_give_all_labels_and_none(score):
    prediction = [[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]
    assert score.set(prediction, inf).all()
    assert not score.set(prediction, -inf).any()


def test_the_empty_set_stays_empty():
    prediction = [[0.6, 0.4]]
    assert LAC().set(prediction, 0.3).tolist() == [[False, False]]
    assert APS().set(prediction, 0.5).tolist() == [[False, False]]


@pytest.mark.parametrize("score", DETERMINISTIC)
def test_several_thresholds_stand_on_the_last_axis(score):
    prediction = np.random.default_rng(4).dirichlet(np.ones(4), 6)
    thresholds = np.array([0.5, inf, 0.95])
    together = score.set(prediction, thresholds)
    assert together.shape == (6, 4, 3)
    assert together.dtype == np.bool_
    for j, threshold in enumerate(thresholds):
        alone = score.set(prediction, threshold)
        assert alone.shape == (6, 4)
        np.testing.assert_array_equal(together[:, :, j], alone)


def test_all_thresholds_share_the_draw_of_their_row():
    prediction = np.random.default_rng(4).dirichlet(np.ones(4), 50)
    sets = APS(randomized=True).set(prediction, [0.7, 0.7], u=np.random.default_rng(0))
    np.testing.assert_array_equal(sets[:, :, 0], sets[:, :, 1])


@pytest.mark.parametrize("score", DETERMINISTIC)
def test_two_classes(score):
    prediction = np.array([[0.7, 0.3], [0.5, 0.5]])
    of_labels = scores_of_all_labels(score, prediction)
    for t in of_labels.ravel():
        np.testing.assert_array_equal(score.set(prediction, t), of_labels <= t)


@pytest.mark.parametrize("score", DETERMINISTIC)
def test_no_rows_give_no_rows(score):
    assert score.score([], np.empty((0, 3))).shape == (0,)
    assert score.set(np.empty((0, 3)), 0.5).shape == (0, 3)


def test_probabilities_of_a_float32_network_are_taken_and_left_alone():
    weights = np.random.default_rng(0).random((200, 1000), dtype=np.float32)
    prediction = weights / weights.sum(axis=1, keepdims=True)
    before = prediction.copy()
    sets = LAC().set(prediction, 0.999)
    np.testing.assert_array_equal(sets, 1 - prediction.astype(np.float64) <= 0.999)
    np.testing.assert_array_equal(prediction, before)


# --- MAPIE as oracle -------------------------------------------------------------------------


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


# --- coverage --------------------------------------------------------------------------------


def labels_drawn_from(prediction, rng):
    return (prediction.cumsum(axis=1) < rng.random((len(prediction), 1))).sum(axis=1)


def test_randomized_aps_with_the_true_probabilities_covers_with_probability_threshold():
    """200,000 rows; by Hoeffding each level is off by more than 0.0065 with probability < 1e-7."""
    rng = np.random.default_rng(7)
    prediction = rng.dirichlet(np.full(6, 0.5), 200_000)
    y = labels_drawn_from(prediction, rng)
    levels = np.array([0.1, 0.5, 0.9])
    sets = APS(randomized=True).set(prediction, levels, u=rng)
    coverage = sets[np.arange(len(y)), y].mean(axis=0)
    assert np.abs(coverage - levels).max() < 0.0065


@pytest.mark.parametrize("score", [LAC(), APS(), RAPS(penalty=0.05, k_reg=1)])
def test_calibrated_sets_cover(score):
    """Probabilities that are wrong, 20,000 rows to calibrate and 200,000 to test.

    The coverage given the calibration is at least Beta(k, n + 1 - k); it falls below `guaranteed`
    with probability 5e-7, and the frequency falls 0.0065 below it with probability < 5e-8.
    """
    rng = np.random.default_rng(8)
    truth = rng.dirichlet(np.full(6, 0.5), 220_000)
    y = labels_drawn_from(truth, rng)
    prediction = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    n, k = 20_000, 18_001  # k = ceil(0.9 * (n + 1))
    threshold = np.sort(score.score(y[:n], prediction[:n]))[k - 1]
    sets = score.set(prediction[n:], threshold)
    guaranteed = betaincinv(k, n + 1 - k, 5e-7)
    assert 0.889 < guaranteed < 0.9
    assert sets[np.arange(200_000), y[n:]].mean() > guaranteed - 0.0065


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "prediction", "message"),
    [
        ([0], [[0.5, 0.5]] * 2, r"y must have shape \(2,\) to match prediction, got \(1,\)"),
        ([[0]], [[0.5, 0.5]], r"y must have shape \(1,\) to match prediction, got \(1, 1\)"),
        ([0], [0.5, 0.5], r"prediction must have 2 dimension\(s\), got shape \(2,\)"),
        ([], np.empty((0, 0)), r"prediction must have shape \(n, n_classes\), got \(0, 0\)"),
        (
            [0, 2, 3],
            [[0.5, 0.5]] * 3,
            "y must be class indices from 0 to 1; not so in 2 of 3 rows, .* row 1: 2",
        ),
        ([-1], [[0.5, 0.5]], "y must be class indices from 0 to 1; .* row 0: -1"),
        ([0.5], [[0.5, 0.5]], "y must be class indices from 0 to 1; .* row 0: 0.5"),
        ([inf], [[0.5, 0.5]], "y must be class indices from 0 to 1; .* row 0: inf"),
        ([0, np.nan], [[0.5, 0.5]] * 2, "y must not be nan; not so in 1 of 2 rows, the first is row 1: nan"),
        (["cat"], [[0.5, 0.5]], "y must be an array of numbers, got dtype <U3"),
        ([0], [["a", "b"]], "prediction must be an array of numbers, got dtype <U1"),
        (
            [0] * 2,
            [[0.5, 0.5], [0.5, np.nan]],
            r"prediction must be finite; .* 1 of 2 rows, .* row 1: \[0.5, nan\]",
        ),
        ([0], [[inf, 0.5]], "prediction must be finite"),
        (
            [0] * 2,
            [[0.5, 0.5], [1.1, -0.1]],
            r"prediction must hold probabilities, from 0 to 1; .* row 1: \[1.1, -0.1\]",
        ),
        ([0], [[1.00001, 0.0]], "prediction must hold probabilities, from 0 to 1"),
        (
            [0] * 3,
            [[0.5, 0.5], [0.5, 0.498], [1, 1]],
            "sum to 1 within 0.001 .*; .* 2 of 3 rows, .* row 1: 0.998",
        ),
    ],
)
@pytest.mark.parametrize("score", DETERMINISTIC[:3])
def test_scoring_refuses(score, y, prediction, message):
    with pytest.raises(ValueError, match=message):
        score.score(y, prediction)


def test_rounding_of_probabilities_is_forgiven():
    prediction = [[1 + 5e-7, 0.0], [0.5, 0.4995]]
    assert LAC().set(prediction, 0.6).tolist() == [[True, False], [True, True]]


def test_a_bad_row_is_found_by_its_number_in_whichever_block(monkeypatch):
    monkeypatch.setattr(_classification, "BLOCK", 4)
    prediction = np.full((10, 2), 0.5)
    prediction[7] = 0.1, 0.1
    for score in DETERMINISTIC:
        with pytest.raises(ValueError, match=r"1 of 10 rows, the first is row 7: 0\.2"):
            score.set(prediction, 0.5)


@pytest.mark.parametrize("score", RANDOMIZED)
@pytest.mark.parametrize(
    ("u", "message"),
    [
        (None, "u is missing: with randomized=True give n numbers"),
        ([0.5], r"u must have shape \(2,\) to match prediction, got \(1,\)"),
        (0.5, r"u must have 1 dimension\(s\), got shape \(\)"),
        ([0.5, 1.0], r"u must lie in \[0, 1\); not so in 1 of 2 rows, the first is row 1: 1.0"),
        ([-0.1, 0.5], r"u must lie in \[0, 1\); .* row 0: -0.1"),
        ([0.5, np.nan], r"u must lie in \[0, 1\); .* row 1: nan"),
        (["a", "b"], "u must be an array of numbers"),
    ],
)
def test_randomization_refuses(score, u, message):
    prediction = [[0.5, 0.5], [0.5, 0.5]]
    with pytest.raises(ValueError, match=message):
        score.score([0, 1], prediction, u=u)
    with pytest.raises(ValueError, match=message):
        score.set(prediction, 0.5, u=u)


@pytest.mark.parametrize("score", [APS(), RAPS()])
def test_u_is_refused_without_randomization(score):
    with pytest.raises(ValueError, match="u was given, but the score has randomized=False"):
        score.score([0], [[0.5, 0.5]], u=[0.5])
    with pytest.raises(ValueError, match="u was given, but the score has randomized=False"):
        score.set([[0.5, 0.5]], 0.5, u=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": -0.1}, "penalty must be a finite number >= 0, got -0.1"),
        ({"penalty": inf}, "penalty must be a finite number >= 0, got inf"),
        ({"penalty": np.nan}, "penalty must be a finite number >= 0, got nan"),
        ({"penalty": "0.1"}, "penalty must be a finite number >= 0, got '0.1'"),
        ({"penalty": True}, "penalty must be a finite number >= 0, got True"),
        ({"k_reg": -1}, "k_reg must be an integer >= 0, got -1"),
        ({"k_reg": 2.0}, "k_reg must be an integer >= 0, got 2.0"),
        ({"k_reg": True}, "k_reg must be an integer >= 0, got True"),
        ({"randomized": 1}, "randomized must be True or False, got 1"),
    ],
)
def test_raps_refuses_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        RAPS(**parameters)


def test_aps_refuses_a_flag_that_is_no_boolean():
    with pytest.raises(ValueError, match="randomized must be True or False, got 'yes'"):
        APS(randomized="yes")


def test_parameters_are_plain_numbers():
    parameters = RAPS(penalty=np.float32(0.5), k_reg=np.int64(2)).parameters()
    assert parameters == {"penalty": 0.5, "k_reg": 2, "randomized": False}
    assert [type(value) for value in parameters.values()] == [float, int, bool]
    assert type(RAPS(penalty=1).penalty) is float
