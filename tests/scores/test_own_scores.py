"""A score of one's own: a name, ``score`` and ``set`` are enough."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedconformal.scores import IntervalScore, LabelScore


@dataclass(frozen=True)
class Relative(IntervalScore):
    """The distance in units of the prediction, with nothing but numpy."""

    name = "relative"

    def score(self, y, prediction):
        return np.abs(y - prediction) / prediction

    def set(self, prediction, threshold):
        center = np.asarray(prediction)[:, np.newaxis]
        sets = np.stack([center * (1 - threshold), center * (1 + threshold)], axis=1)
        return sets[:, :, 0] if np.ndim(threshold) == 0 else sets


@dataclass(frozen=True)
class Odds(LabelScore):
    """The odds against a label, with nothing but numpy."""

    name = "odds"

    def score(self, y, prediction):
        p = np.asarray(prediction)[np.arange(len(y)), y]
        return (1 - p) / p

    def set(self, prediction, threshold):
        odds = (1 - np.asarray(prediction)) / prediction
        return (
            odds <= threshold
            if np.ndim(threshold) == 0
            else odds[:, :, np.newaxis] <= threshold
        )


def test_what_is_not_said_has_a_default():
    score = Relative()
    assert score.columns == ("prediction",)
    assert score.column_help() == "one column: prediction"
    assert score.prediction_from([[2.0], [4.0]]).tolist() == [2.0, 4.0]
    assert score.points([2.0, 4.0]).tolist() == [2.0, 4.0]
    assert score.set_columns(["whatever"]) == ("lower", "upper")
    assert (
        score.set_words()
        == "The set is the interval of all numbers whose score is at most q."
    )
    assert (score.largest, score.needs_draws, score.draws(), score.parameters()) == (
        None,
        False,
        {},
        {},
    )
    assert Odds().set_words() == "The set holds every label whose score is at most q."
    assert Odds().set_columns(["a", "b"]) == ("in_set_a", "in_set_b")


def test_it_can_do_what_all_scores_can():
    score = Relative()
    sets = score.sets([2.0, 4.0], [[0.5, 1.0], [0.25, 0.25]])
    assert sets.tolist() == [[[1.0, 0.0], [3.0, 4.0]], [[3.0, 3.0], [5.0, 5.0]]]
    np.testing.assert_array_equal(
        score.scores_or_nan([3.0, np.nan, 5.0], [[2.0]] * 3), [0.5, np.nan, 1.5]
    )
    assert Odds().sets([[0.5, 0.5], [0.75, 0.25]], [[1.0], [3.0]])[:, :, 0].all()
    np.testing.assert_array_equal(
        Odds().scores_or_nan([1, 1.5, 2], [[0.75, 0.25]] * 3), [3.0, np.nan, np.nan]
    )


@pytest.mark.parametrize("missing", ["name", "score", "set"])
@pytest.mark.parametrize("kind", [IntervalScore, LabelScore])
def test_what_is_missing_is_told_by_name(missing, kind):
    members = {
        "name": "mine",
        "score": lambda self, y, p: y,
        "set": lambda self, p, t: p,
    }
    del members[missing]
    with pytest.raises(
        TypeError,
        match=rf"abstract class Mine with(out .*)? abstract method '?{missing}'?$",
    ):
        type("Mine", (kind,), members)()


def test_parameters_that_no_plan_would_hold_are_refused():
    class Powered(Relative):
        def __init__(self, power):
            self.power = power

    with pytest.raises(
        TypeError, match=r"Powered must be decorated with @dataclass\(frozen=True\)"
    ):
        Powered(2).parameters()


def test_sets_with_a_threshold_for_each_class():
    rng = np.random.default_rng(0)
    chances = rng.dirichlet([1, 1, 1], size=20)
    thresholds = np.array([[0.5, 1.0], [2.0, np.inf], [-1.0, 0.5]])
    sets = Odds().sets_by_class(chances, thresholds)
    odds = (1 - chances) / chances
    assert (sets == (odds[:, :, np.newaxis] <= thresholds)).all()
    with pytest.raises(
        ValueError, match=r"thresholds must have shape \(3, n_levels\), got \(2, 2\)"
    ):
        Odds().sets_by_class(chances, thresholds[:2])
