"""Arrays of scores, checked."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal._util import flat_numbers, flat_scores, private_numbers


@pytest.mark.parametrize(
    ("scores", "error", "words"),
    [
        ([], ValueError, "at least one score"),
        ([[1.0]], ValueError, "flat array"),
        (
            [1.0, math.nan, math.nan],
            ValueError,
            r"contain NaN in 2 of 3 rows \(first: row 1\)",
        ),
        ([1.0, -math.inf], ValueError, r"contain -inf in 1 of 2 rows \(first: row 1\)"),
        (["a"], TypeError, "scores must be numbers"),
    ],
)
def test_scores_that_cannot_be_ranked_are_refused(scores, error, words):
    with pytest.raises(error, match=words):
        flat_scores(scores)


@given(st.lists(st.floats(allow_nan=False, min_value=-1e300), min_size=1))
def test_all_others_pass_as_they_are(scores):
    assert flat_scores(scores).tolist() == scores


def test_a_large_sum_is_no_reason_to_refuse():
    assert flat_scores([1e308, 1e308]).tolist() == [1e308, 1e308]
    assert flat_scores([-1e308, -1e308]).tolist() == [-1e308, -1e308]


def test_floats_are_not_copied_and_whole_numbers_become_floats():
    floats = np.ones(3, dtype=np.float32)
    assert flat_scores(floats) is floats
    for kind in (np.int8, np.uint64, bool):
        assert flat_numbers(np.ones(2, dtype=kind)).dtype == np.float64


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        (None, math.nan),
        ("secret", math.nan),
        ("2.5", 2.5),
        (b"no", math.nan),
        (1 + 2j, math.nan),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        ([1], math.nan),
        (math.inf, math.inf),
    ],
    ids=lambda value: str(value)[:9],
)
def test_of_a_private_array_no_cell_is_refused(cell, number):
    """One record that holds no number must not be told by an error."""
    cells = np.empty(3, dtype=object)
    cells[:] = 0.5
    cells[1] = cell
    np.testing.assert_array_equal(private_numbers(cells), [0.5, number, 0.5])


def test_nor_is_one_that_changes_the_kind_of_the_array():
    for cell in ("secret", 1 + 2j, None):
        np.testing.assert_array_equal(private_numbers([0.5, cell]), [0.5, math.nan])
    for shape in ([], [[None]]):
        with pytest.raises(ValueError, match="flat array"):
            private_numbers(shape)
