"""Arrays of scores, checked."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal.protocol import flat_numbers, flat_scores


@pytest.mark.parametrize(
    ("scores", "error", "words"),
    [
        ([], ValueError, "at least one score"),
        ([[1.0]], ValueError, "flat array"),
        ([1.0, math.nan, math.nan], ValueError, "must not be NaN, got 2, the first in row 1"),
        ([1.0, -math.inf], ValueError, "must not be -inf, got 1, the first in row 1"),
        ([math.inf, -math.inf], ValueError, "must not be -inf"),
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


def test_numbers_may_be_anything():
    assert flat_numbers([math.nan, -math.inf]).size == 2
    with pytest.raises(TypeError, match="scores must be numbers"):
        flat_numbers([None])
