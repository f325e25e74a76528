import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc

OPEN = fc.plan(confidence_level=[0.5, 0.9])


@given(st.lists(st.floats(allow_nan=False, min_value=-1e300), min_size=1, max_size=60))
def test_the_report_holds_the_score_of_the_planned_rank(scores):
    report = fc.report(OPEN, scores, site="A")
    ordered = [*sorted(scores), math.inf]
    assert report.ranks == OPEN.ranks_for(len(scores))
    assert report.values == tuple(ordered[rank - 1] for rank in report.ranks)
    assert (report.plan, report.site, report.n) == (OPEN.digest, "A", len(scores))


def test_scores_stay_as_they_were_unless_told_otherwise():
    scores = np.random.default_rng(0).random(1000)
    before = scores.copy()
    first = fc.report(OPEN, scores, site="A")
    assert np.array_equal(scores, before)
    assert fc.report(OPEN, scores, site="A", in_place=True) == first
    assert np.array_equal(np.sort(scores), np.sort(before))


def test_integers_one_score_equal_scores_and_ties():
    assert fc.report(OPEN, [3, 1, 2], site="A").values == (2.0, math.inf)
    assert fc.report(OPEN, [7], site="A").values == (7.0, math.inf)
    assert fc.report(OPEN, np.ones(50), site="A").values == (1.0, 1.0)
    assert fc.report(OPEN, np.arange(100_000) % 3, site="A").values == (1.0, 2.0)
    assert fc.report(OPEN, np.arange(9, dtype=np.float32), site="A").values == (4.0, 8.0)


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
        fc.report(OPEN, scores, site="A")


def test_a_closed_plan_expects_its_sizes_and_names():
    plan = fc.plan(n_points={"A": 20, "B": 30}, confidence_level=0.8)
    with pytest.raises(ValueError, match="expects 20 scores from site 'A', got 19"):
        fc.report(plan, np.ones(19), site="A")
    with pytest.raises(ValueError, match="one of the 2 sites"):
        fc.report(plan, np.ones(20), site="C")
