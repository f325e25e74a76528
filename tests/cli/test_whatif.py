"""``fedconformal whatif``: what becomes of a promise."""

import json

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.heterogeneity import scale, what_if


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = fc.plan(n_points={"A": 90, "B": 60, "C": 120, "D": 60}, confidence_level=0.9)
    (tmp_path / "plan.json").write_text(made.to_json())
    scores = np.random.default_rng(0).gamma(2.0, size=500)
    np.savetxt(tmp_path / "scores.csv", scores, header="score", comments="")
    return made


def test_for_machines(plan, run):
    result = json.loads(run("whatif", "plan.json", "--shift", "A=scale:1.7", "--json").out)
    asked = what_if(plan, {"A": scale(1.7)})
    assert result["promised"]["mean"] == plan.law.mean()
    assert [row["test"] for row in result["test"]] == [None, "A", "mixture"]
    assert result["test"][1]["mean"] == asked.law("A").mean()


def test_for_people(plan, run):
    order = ["whatif", "plan.json", "--shift", "B=scores:scores.csv", "--reference", "exponential"]
    out = run(*order).out
    assert "from site B" in out
    assert "from all sites, by their shares" in out


def test_shares_of_the_mixture(plan, run):
    order = ["whatif", "plan.json", "--shift", "A=scale:2", "--test", "mixture", "--json"]
    only = json.loads(run(*order, "--mixture", "A=1").out)["test"][1]["mean"]
    assert only == pytest.approx(what_if(plan, {"A": scale(2)}).law("A").mean())
    assert "--mixture must be SITE=SHARE" in run(*order, "--mixture", "A", code=2).err


@pytest.mark.parametrize("wrong", ["A=scale:0", "A=scale", "A=walk:1", "scale:1", "Z=scale:2", "A=scale:1:2"])
def test_mistakes_get_one_line(plan, run, wrong):
    assert run("whatif", "plan.json", "--shift", wrong, code=2).out == ""


def test_what_is_neither_plan_nor_calibration(plan, run):
    assert (
        "scores.csv: this is a table, not a plan"
        in run("whatif", "scores.csv", "--shift", "A=scale:2", code=2).err
    )


def test_one_group_of_a_plan_and_of_a_calibration(group_reported, run):
    files = group_reported()
    run("calibrate", "plan.json", *files[:2], "-o", "c.json")
    for file, alone in (
        ("plan.json", fc.Plan.read("plan.json")["old"]),
        ("c.json", fc.Calibration.read("c.json")["old"]),
    ):
        order = ["whatif", file, "--shift", "A=scale:2", "--label", "old", "--json"]
        assert json.loads(run(*order).out)["promised"]["mean"] == alone.law.mean()
