"""What each score says of itself, and what all can do with it: no caller has to know
which it is.
"""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_examples import DETERMINISTIC, INTERVAL_SCORES, PREDICTIONS, RANDOMIZED, inf

from fedconformal.scores import (
    CQR,
    LAC,
    Absolute,
    LabelScore,
    Normalized,
    from_name,
)

LABEL_SCORES = [*DETERMINISTIC, *RANDOMIZED]
ALL_SCORES = [*INTERVAL_SCORES, *LABEL_SCORES]
ODD_NUMBERS = [0.0, 1.0, 2.0, 0.5, -1.0, 3.0, 1e300, -1e308, 1e308, np.nan, inf, -inf]
ODD_PROBABILITIES = [0.0, 0.25, 0.5, 0.75, 1.0, 0.4995, 0.49, -0.25, 1.25, np.nan, inf]


def table_of(score, rng, n):
    """Columns that the score takes."""
    if isinstance(score, LabelScore):
        return rng.dirichlet(np.ones(4), n)
    return rng.uniform(0.1, 1, size=(n, len(score.columns)))


# --- columns --------------------------------------------------------------------------


@pytest.mark.parametrize("score", ALL_SCORES)
def test_a_table_becomes_what_the_score_takes(score):
    rng = np.random.default_rng(0)
    table = table_of(score, rng, 5)
    prediction = score.prediction_from(table, [f"c{i}" for i in range(table.shape[1])])
    assert (
        prediction.tolist()
        == (table[:, 0] if score.columns == ("prediction",) else table).tolist()
    )
    assert score.score(
        score.truth_from(np.zeros(5)), prediction, **score.draws(rng)
    ).shape == (5,)


@pytest.mark.parametrize(
    ("score", "names", "message"),
    [
        (
            Absolute(),
            ["a", "b"],
            (
                r"^score 'absolute' needs one column: the prediction; got 2 columns"
                r" \(a, b\)$"
            ),
        ),
        (
            Normalized(),
            ["mean"],
            r"needs two columns: the mean, then sigma; got 1 column \(mean\)$",
        ),
        (
            CQR(),
            ["a", "b", "c"],
            r"the lower quantile, then the upper; got 3 columns \(a, b, c\)$",
        ),
        (
            LAC(),
            [],
            (
                r"'lac' needs one column per class: its probability, .*; got 0 columns"
                r" \(\)$"
            ),
        ),
    ],
)
def test_other_columns_are_refused_with_their_names(score, names, message):
    with pytest.raises(ValueError, match=message):
        score.prediction_from(np.zeros((3, len(names))), names)
    with pytest.raises(ValueError, match=f"got {len(names)} columns?$"):
        score.prediction_from(np.zeros((3, len(names))))


# --- truth ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.5, -1.0, np.nan])
@pytest.mark.parametrize("score", [LAC()])
def test_what_is_no_class_number_is_refused(score, value):
    message = (
        r"^y.csv: column 'y' must hold class numbers 0, 1, \.\.\.; violated in 1 of 2"
        r" rows .*row 1"
    )
    with pytest.raises(ValueError, match=message):
        score.truth_from([0.0, value], argument="y.csv: column 'y'")


# --- the largest value ----------------------------------------------------------------


def test_only_probabilities_bound_scores():
    assert {score.name: score.largest for score in ALL_SCORES} == {
        "absolute": None,
        "normalized": None,
        "cqr": None,
        "lac": 1.0,
        "aps": 1.002,
        "raps": None,
    }


@pytest.mark.parametrize(
    "score", [score for score in LABEL_SCORES if score.largest is not None]
)
@given(data=st.data())
def test_no_score_is_above_the_largest(score, data):
    n_classes = data.draw(st.integers(1, 30))
    weights = np.array(
        data.draw(st.lists(st.floats(0.01, 1), min_size=n_classes, max_size=n_classes))
    )
    row = weights / weights.sum() * data.draw(st.floats(0.9995, 1.0005))
    every = np.arange(n_classes)
    values = score.score(
        every,
        np.tile(np.minimum(row, 1), (n_classes, 1)),
        **score.draws(np.zeros(n_classes)),
    )
    assert values.max() <= score.largest


# --- draws ----------------------------------------------------------------------------


# --- words ----------------------------------------------------------------------------


# --- sets with thresholds of their own ------------------------------------------------


@pytest.mark.filterwarnings("ignore::fedconformal.scores.EmptySetWarning")
@pytest.mark.parametrize("score", ALL_SCORES)
def test_rows_may_have_thresholds_of_their_own(score):
    rng = np.random.default_rng(1)
    prediction = score.prediction_from(table_of(score, rng, 40))
    thresholds = rng.choice([0.2, 0.5, 0.8, inf], size=(40, 3))
    u = rng.random(40)
    sets = score.sets(prediction, thresholds, **score.draws(u))
    for i in range(40):
        one = slice(i, i + 1)
        alone = score.set(prediction[one], thresholds[i], **score.draws(u[one]))
        np.testing.assert_array_equal(sets[one], alone)
    assert sets.dtype == alone.dtype


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        (0.5, r"thresholds must have shape \(n_levels,\) or \(2, n_levels\), got \(\)"),
        ([[0.5]], r"got \(1, 1\)"),
        ([[0.5], [np.nan]], "threshold must not be nan"),
        ("high", "thresholds must be an array of numbers"),
    ],
)
def test_other_thresholds_are_refused(thresholds, message):
    with pytest.raises(ValueError, match=message):
        Absolute().sets([1.0, 2.0], thresholds)


# --- scores where no error may tell of a case -----------------------------------------


def row_by_row(score, y, table, **u):
    """The score of each row by itself; NaN where the outcome is none or the row is
    refused.
    """
    out = np.full(len(y), np.nan)
    for i, truth in enumerate(y):
        of_row = {name: values[i : i + 1] for name, values in u.items()}
        row = (
            table[i : i + 1, 0]
            if score.columns == ("prediction",)
            else table[i : i + 1]
        )
        label = score.columns is None
        if np.isfinite(truth) and not (label and truth != int(truth)):
            with contextlib.suppress(ValueError, TypeError):
                out[i] = score.score(
                    np.array([int(truth) if label else truth]), row, **of_row
                )[0]
    return out


@pytest.mark.parametrize("score", ALL_SCORES)
@given(data=st.data())
def test_bad_rows_score_nan_and_the_others_what_they_score_alone(score, data):
    n = data.draw(st.integers(0, 12))
    n_columns = 2 if score.columns is None else len(score.columns)
    odd = st.sampled_from(ODD_PROBABILITIES if score.columns is None else ODD_NUMBERS)
    table = np.array(
        data.draw(st.lists(odd, min_size=n * n_columns, max_size=n * n_columns))
    )
    table = table.reshape(n, n_columns)
    y = np.array(
        data.draw(st.lists(st.sampled_from(ODD_NUMBERS), min_size=n, max_size=n))
    )
    u = score.draws(np.linspace(0, 0.9, n))
    np.testing.assert_array_equal(
        score.scores_or_nan(y, table, **u), row_by_row(score, y, table, **u)
    )


@pytest.mark.parametrize("score", INTERVAL_SCORES)
def test_what_shapes_alone_tell_is_refused(score):
    table = np.reshape(PREDICTIONS[score.name], (2, -1))
    with pytest.raises(
        ValueError, match=rf"needs .*; got {table.shape[1] + 1} columns \(a, b(, c)?\)"
    ):
        score.scores_or_nan(
            [1.0, 2.0],
            np.ones((2, table.shape[1] + 1)),
            ["a", "b", "c"][: table.shape[1] + 1],
        )
    with pytest.raises(
        ValueError, match=r"y must have shape \(2,\) to match prediction, got \(1,\)"
    ):
        score.scores_or_nan([1.0], table)
    with pytest.raises(ValueError, match="u was given"):
        score.scores_or_nan([1.0, 2.0], table, u=[0.5, 0.5])


@pytest.mark.parametrize(
    ("name", "threshold", "words"),
    [
        (
            "absolute",
            3.9396,
            "a prediction of 100 mm becomes about 96.06 to 103.94 mm.",
        ),
        (
            "absolute",
            0.0041,
            "a prediction of 0.1 mm becomes about 0.09590 to 0.10410 mm.",
        ),
        ("absolute", -1.0, "every set is empty"),
        (
            "normalized",
            2.0,
            "100 mm with a scale of 5 mm becomes about 90.0 to 110.0 mm.",
        ),
        ("cqr", 1.5, "quantiles of 90 and 110 mm become about 88.50 to 111.50 mm."),
        ("lac", 0.9, "a predicted probability of 10.0\N{NO-BREAK SPACE}% or more"),
        ("lac", 1.0, "every set holds all labels"),
        ("aps", 0.92, "the set holds the first two."),
        ("raps", 0.97, "the set holds the first three."),
    ],
)
def test_an_example_shows_how_large_sets_are(name, threshold, words):
    assert words in from_name(name).example(threshold, "mm")


@pytest.mark.parametrize("name", ["absolute", "normalized", "cqr"])
@pytest.mark.parametrize("threshold", [5e-324, 1.7e308])
def test_no_example_is_made_of_what_cannot_be_read(name, threshold):
    assert from_name(name).example(threshold) == ""
