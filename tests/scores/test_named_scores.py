"""Scores by name: ours, and those of other packages."""

import json
import os
import subprocess
import sys

import pytest
from score_examples import INTERVAL_SCORES

from fedconformal import scores
from fedconformal.scores import RAPS


@pytest.mark.parametrize(
    "score", [*INTERVAL_SCORES, scores.LAC(), scores.APS(randomized=True), RAPS(0.5, 2)]
)
def test_a_score_comes_back_from_its_name_and_parameters(score):
    document = json.loads(json.dumps({"name": score.name, **score.parameters()}))
    assert scores.from_name(**document) == score
    assert isinstance(score, scores.Score)


@pytest.mark.parametrize("name", ["Absolute", None, ["lac"]])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(
        ValueError, match="'lac', 'aps', 'raps', 'missed-labels', 'missed-pixels', got"
    ):
        scores.from_name(name)


def test_an_unknown_parameter_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError,
        match="'absolute' has no parameter 'penalty'; it takes no parameters",
    ):
        scores.from_name("absolute", penalty=1)
    with pytest.raises(
        ValueError, match="'lambda'; it takes penalty, k_reg, randomized"
    ):
        scores.from_name("raps", **{"lambda": 1})


# --- scores of other packages ---------------------------------------------------------

PACKAGE = """
from dataclasses import dataclass

import numpy as np

from fedconformal.scores import IntervalScore


@dataclass(frozen=True)
class Relative(IntervalScore):
    name = "relative"
    power: float
    offset: float = 0.0

    def score(self, y, prediction):
        return np.abs(y - prediction) / (self.offset + np.abs(prediction) ** self.power)

    def set(self, prediction, threshold):
        center = self.checked(prediction)
        spread = self.offset + np.abs(center) ** self.power
        return self.intervals(center, center, lambda t: t * spread, threshold)


class Stranger:
    name = "stranger"
"""


@pytest.fixture
def installed(tmp_path):
    """Run code where a package is installed that brings a score by an entry point."""
    (tmp_path / "relative_scores.py").write_text(PACKAGE)
    metadata = tmp_path / "relative_scores-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: relative-scores\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(
        "[fedconformal.scores]\nrelative = relative_scores:Relative\nstranger ="
        " relative_scores:Stranger\n"
    )
    path = os.pathsep.join(
        [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    )

    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", f"from fedconformal import scores\n{code}"],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_a_package_adds_a_score_by_an_entry_point(installed):
    tried = (
        "try:\n    scores.from_name({})\nexcept ValueError as error:\n   "
        " print(error)\n"
    )
    printed = installed(
        "score = scores.from_name('relative', power=1)\n"
        "print(score, type(score).__module__, scores.is_registered(score))\n"
        "print(score.set([2.0], 0.5).tolist(), score.parameters())\n"
        "print(scores.list_scores(scores.IntervalScore))\n"
        + "".join(
            map(
                tried.format,
                ("'relative'", "'relative', power=1, root=2", "'stranger'"),
            )
        )
    )
    assert printed[:-1] == [
        "Relative(power=1, offset=0.0) relative_scores True",
        "[[1.0, 3.0]] {'power': 1, 'offset': 0.0}",
        "('absolute', 'normalized', 'cqr', 'relative')",
        "score 'relative' needs parameter 'power'; it takes power, offset",
        "score 'relative' has no parameter 'root'; it takes power, offset",
    ]
    assert printed[-1].startswith(
        "score 'stranger' must be a subclass of IntervalScore or LabelScore, got"
    )


def test_a_score_that_has_the_name_of_another_is_not_registered():
    class Absolute(scores.Absolute):
        pass

    assert not scores.is_registered(Absolute())
    assert scores.is_registered(scores.Absolute())
    with pytest.raises(ValueError, match="there is a score called 'absolute' already"):
        scores.SCORES.register(Absolute)
