"""``fedconformal promises``, and the words for thresholds that admit every label."""

import json

import numpy as np
import polars as pl
import pytest

import fedconformal as fc
from fedconformal.planning import PROMISES


def test_every_promise_in_words(run):
    out = run("promises", "--points", "A=101,B=98,C=41,D=67").out
    for name in PROMISES:
        assert f"\n{name}: for {PROMISES[name].serves}." in out
        assert PROMISES[name]().assumed() in out
    assert "does not contain the spread between sites" in out
    assert "It would take 9 sites of 41 points" in out


def test_a_plan_and_a_named_shift(run, tmp_path):
    path = tmp_path / "plan.json"
    plan = fc.plan(n_points={"A": 100, "B": 100, "C": 60}, confidence_level=0.8)
    path.write_text(plan.to_json())
    rows = json.loads(run("promises", path, "--shift", "C=scale:1.5", "--json").out)
    assert rows[0]["promise"] == "population"
    assert rows[0]["votes"] == plan.server_rank
    asked = fc.heterogeneity.what_if(plan, {"C": fc.heterogeneity.scale(1.5)})
    assert rows[0]["worst_site"] == asked.law("C").mean()
    each = next(row for row in rows if row["promise"] == "each-site")
    assert each["holds_if_sites_differ"]
    assert each["worst_site"] >= 0.8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a plan, or the sizes"),
        (("--points", "A=10", "--shift", "B=scale:2"), "--shift must name sites"),
        (("--points", "10", "--sites", "A,B"), "--sites must be a number here"),
        (("--points", "A=100", "--mixture", "Z=1"), "mixture must name sites of the plan, got 'Z'"),
    ],
)
def test_bad_input(run, arguments, words):
    assert words in run("promises", *arguments, code=2).err


class TestEveryLabel:
    @pytest.fixture
    def calibrated(self, tmp_path, monkeypatch, run):
        """One case in five has the wrong label on top, so 90 % takes both labels."""
        monkeypatch.chdir(tmp_path)
        made = run(
            "plan", "--points", "A=50,B=50", "--score", "aps", "--classes", "no,yes", "-o", "plan.json"
        )
        chance = np.tile([0.1, 0.9, 0.8, 0.7, 0.6], 10)
        frame = pl.DataFrame({"no": 1 - chance, "yes": chance, "truth": ["yes"] * 50})
        frame.write_csv("A.csv")
        for site in "AB":
            order = ("--target", "truth", "--prediction", "no", "--prediction", "yes", "--site", site)
            run("report", "plan.json", "A.csv", *order, "-o", f"{site}.json")
        return made.out, run("calibrate", "plan.json", "A.json", "B.json", "-o", "c.json").out

    def test_said_at_plan_calibrate_predict_and_verify(self, calibrated, run):
        planned, found = calibrated
        assert "Score aps with two classes" in planned
        assert "Use lac, or --score-option randomized=true" in planned
        said = "Level 0.9: the threshold, 1, is as large as a score can be, so every label is in every set."
        assert said in found
        assert said in run("verify", "c.json").out
        assert "every one of the 50 sets holds every label" in run("predict", "c.json", "A.csv").err

    def test_not_said_where_it_is_not_so(self, run):
        for more in (("--score", "lac"), ("--score", "aps", "--score-option", "randomized=true")):
            order = ("plan", "--points", "A=50", "--classes", "no,yes", *more)
            assert "with two classes" not in run(*order).out
        assert (
            "with two classes"
            not in run("plan", "--points", "A=50", "--score", "aps", "--classes", "a,b,c").out
        )


@pytest.mark.parametrize(
    ("score", "n_classes", "threshold", "admits"),
    [
        (fc.scores.LAC(), 3, 1.0, True),
        (fc.scores.LAC(), 3, 0.999, False),
        (fc.scores.APS(), 2, 1.0, True),
        (fc.scores.APS(), 2, 0.99, False),
        (fc.scores.RAPS(penalty=0.1, k_reg=1), 3, 1.2, True),
        (fc.scores.RAPS(penalty=0.1, k_reg=1), 3, 1.1, False),
    ],
)
def test_a_threshold_admits_every_label_or_not(score, n_classes, threshold, admits):
    assert score.admits_all(threshold, n_classes) is admits
    probabilities = np.random.default_rng(0).dirichlet(np.ones(n_classes) / 5, size=500)
    assert score.set(probabilities, threshold + 1e-9).all() == admits
