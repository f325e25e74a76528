"""Scores by name: ours, and those of other packages."""

import dataclasses
import json
import subprocess
import sys

import pytest
from score_examples import INTERVAL_SCORES

from fedconformal import scores
from fedconformal.scores import CQR, RAPS, Absolute, Normalized, QuantileRegression


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
    assert all(isinstance(score, scores.IntervalScore) for score in INTERVAL_SCORES)
    assert all(isinstance(score, scores.LabelScore) for score in (scores.LAC(), scores.APS(), RAPS()))
    assert scores.names_of(scores.IntervalScore) == ("absolute", "normalized", "cqr")
    assert scores.names_of(scores.LabelScore) == ("lac", "aps", "raps")
    assert scores.names_of(scores.Score) == tuple(scores.SCORES)


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
