"""What holds for all scores of labels: definitions, and sets {y : score <= threshold},
bit for bit.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_examples import (
    DETERMINISTIC,
    RANDOMIZED,
    by_definition,
    dyadic_rows,
    float_rows,
    inf,
    labels_drawn_from,
    scores_of_all_labels,
)

from fedconformal.scores import APS, LAC, RAPS, _label


@pytest.mark.parametrize("score", DETERMINISTIC)
@given(row=dyadic_rows())
def test_scores_are_their_definition(score, row):
    expected = [float(by_definition(score, row, label)) for label in range(len(row))]
    assert scores_of_all_labels(score, row[np.newaxis])[0].tolist() == expected


@pytest.mark.parametrize("score", RANDOMIZED)
@given(row=dyadic_rows(), sixteenths=st.integers(0, 15))
def test_randomized_scores_are_their_definition(score, row, sixteenths):
    u = sixteenths / 16
    expected = [
        float(by_definition(score, row, label, u=u)) for label in range(len(row))
    ]
    assert scores_of_all_labels(score, row[np.newaxis], u=[u])[0].tolist() == expected


@pytest.mark.parametrize("score", [LAC(), APS(), RAPS(penalty=0.03, k_reg=1)])
@given(prediction=float_rows(), threshold=st.floats(-0.1, 1.5), data=st.data())
def test_a_label_is_in_the_set_if_and_only_if_its_score_is_at_most_the_threshold(
    score, prediction, threshold, data
):
    of_labels = scores_of_all_labels(score, prediction)
    own = data.draw(st.sampled_from(of_labels.ravel().tolist()))
    for t in (threshold, own, np.nextafter(own, -inf), np.nextafter(own, inf)):
        np.testing.assert_array_equal(score.set(prediction, t), of_labels <= t)


@pytest.mark.parametrize(
    "score", [APS(randomized=True), RAPS(penalty=0.03, k_reg=1, randomized=True)]
)
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
    monkeypatch.setattr(_label, "BLOCK", 50)
    np.testing.assert_array_equal(score.set(prediction, [0.3, 0.9]), whole[0])
    np.testing.assert_array_equal(score.score(y, prediction), whole[1])
    monkeypatch.setattr(_label, "BLOCK", 1)
    np.testing.assert_array_equal(score.set(prediction, [0.3, 0.9]), whole[0])


@pytest.mark.parametrize("score", DETERMINISTIC)
def test_infinite_thresholds_give_all_labels_and_none(score):
    prediction = [[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]
    assert score.set(prediction, inf).all()
    assert not score.set(prediction, -inf).any()


# --- refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "prediction", "message"),
    [
        (
            [0],
            [[0.5, 0.5]] * 2,
            r"y must have shape \(2,\) to match prediction, got \(1,\)",
        ),
        ([0], [0.5, 0.5], r"prediction must have 2 dimension\(s\), got shape \(2,\)"),
        (
            [],
            np.empty((0, 0)),
            r"prediction must have shape \(n, n_classes\), got \(0, 0\)",
        ),
        (
            [0, 2, 3],
            [[0.5, 0.5]] * 3,
            (
                "y must be class indices from 0 to 1; violated in 2 of 3 rows .*row 1,"
                " got 2"
            ),
        ),
        ([0.5], [[0.5, 0.5]], "y must be class indices from 0 to 1; .* row 0, got 0.5"),
        (
            [0, np.nan],
            [[0.5, 0.5]] * 2,
            r"y must not be nan; violated in 1 of 2 rows \(first: row 1, got nan\)",
        ),
        ([0], [["a", "b"]], "prediction must be an array of numbers, got dtype <U1"),
        (
            [0] * 2,
            [[0.5, 0.5], [0.5, np.nan]],
            r"prediction must be finite; .* 1 of 2 rows .*row 1, got \[0.5, nan\]",
        ),
        (
            [0] * 2,
            [[0.5, 0.5], [1.1, -0.1]],
            (
                r"prediction must hold probabilities, from 0 to 1; .* row 1, got \[1.1,"
                r" -0.1\]"
            ),
        ),
        (
            [0] * 3,
            [[0.5, 0.5], [0.5, 0.498], [1, 1]],
            "sum to 1 within 0.001 .*; .* 2 of 3 rows .*row 1, got 0.998",
        ),
    ],
)
@pytest.mark.parametrize("score", DETERMINISTIC[:2])
def test_scoring_refuses(score, y, prediction, message):
    with pytest.raises(ValueError, match=message):
        score.score(y, prediction)


def test_a_bad_row_is_found_by_its_number_in_whichever_block(monkeypatch):
    monkeypatch.setattr(_label, "BLOCK", 4)
    prediction = np.full((10, 2), 0.5)
    prediction[7] = 0.1, 0.1
    for score in DETERMINISTIC:
        with pytest.raises(ValueError, match=r"1 of 10 rows \(first: row 7, got 0\.2"):
            score.set(prediction, 0.5)


@pytest.mark.parametrize("score", RANDOMIZED[:1])
@pytest.mark.parametrize(
    ("u", "message"),
    [
        (None, "u is missing: with randomized=True give n numbers"),
        ([0.5], r"u must have shape \(2,\) to match prediction, got \(1,\)"),
        (
            [0.5, 1.0],
            r"u must lie in \[0, 1\); violated in 1 of 2 rows \(first: row 1, got 1.0",
        ),
        ([0.5, np.nan], r"u must lie in \[0, 1\); .* row 1, got nan"),
    ],
)
def test_randomization_refuses(score, u, message):
    prediction = [[0.5, 0.5], [0.5, 0.5]]
    with pytest.raises(ValueError, match=message):
        score.score([0, 1], prediction, u=u)
    with pytest.raises(ValueError, match=message):
        score.set(prediction, 0.5, u=u)


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


def test_equal_probabilities_rank_by_class_index():
    row = [[0.25, 0.25, 0.25, 0.25]]
    assert scores_of_all_labels(APS(), np.array(row))[0].tolist() == [
        0.25,
        0.5,
        0.75,
        1.0,
    ]
    assert APS().set(row, 0.5).tolist() == [[True, True, False, False]]


def test_randomized_aps_with_the_true_probabilities_covers_with_probability_threshold():
    """200,000 rows; by Hoeffding each level is off by more than 0.0065 with probability
    < 1e-7.
    """
    rng = np.random.default_rng(7)
    prediction = rng.dirichlet(np.full(6, 0.5), 200_000)
    y = labels_drawn_from(prediction, rng)
    levels = np.array([0.1, 0.5, 0.9])
    sets = APS(randomized=True).set(prediction, levels, u=rng)
    coverage = sets[np.arange(len(y)), y].mean(axis=0)
    assert np.abs(coverage - levels).max() < 0.0065


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


def test_parameters_are_plain_numbers():
    parameters = RAPS(penalty=np.float32(0.5), k_reg=np.int64(2)).parameters()
    assert parameters == {"penalty": 0.5, "k_reg": 2, "randomized": False}
    assert [type(value) for value in parameters.values()] == [float, int, bool]
    assert type(RAPS(penalty=1).penalty) is float
