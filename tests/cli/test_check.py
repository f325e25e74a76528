"""``fedconformal check`` and ``compare``: what a site sees and sends, and what a
coordinator makes of it.
"""

import json
import re

import numpy as np
import polars as pl
import pytest

import fedconformal as fc
from fedconformal.documents import Check
from fedconformal.monitoring import check


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with a calibration and new scores."""
    monkeypatch.chdir(tmp_path)
    plan = fc.plan(n_points={"A": 40, "B": 60}, confidence_level=0.8, score="absolute")
    rng = np.random.default_rng(0)
    reports = [
        fc.report(plan, rng.exponential(size=n), site=s)
        for s, n in (("A", 40), ("B", 60))
    ]
    (tmp_path / "calibration.json").write_text(fc.calibrate(plan, reports).to_json())
    np.savetxt(
        tmp_path / "new.csv", rng.exponential(size=150), header="score", comments=""
    )
    np.savetxt(
        tmp_path / "odd.csv", 4 * rng.exponential(size=150), header="score", comments=""
    )
    return tmp_path


def test_nothing_leaves_unless_asked(here, run):
    before = sorted(here.iterdir())
    printed = run("check", "calibration.json", "new.csv", "--site", "A")
    assert "new cases at A" in printed.out
    assert "new cases only" in printed.out
    assert "leaves" not in printed.err
    assert sorted(here.iterdir()) == before


def test_json(here, run):
    found = json.loads(run("check", "calibration.json", "new.csv", "--json").out)
    expected = check(
        fc.Calibration.read("calibration.json"), np.loadtxt("new.csv", skiprows=1)
    )
    assert found["levels"][0]["covered"] == expected.covered
    assert found["levels"][0]["interval"] == list(expected.interval)
    assert found["sentence"] == expected.sentence()


def test_answers_are_shown_and_compared(here, run):
    shown = run(
        "check", "calibration.json", "new.csv", "--site", "A", "-o", "A.json"
    ).err
    assert (here / "A.json").read_text().strip() in shown
    run("check", "calibration.json", "odd.csv", "--site", "B", "-o", "B.json")
    out = run("compare", "calibration.json", "A.json", "B.json").out
    assert "falls short at: B" in out
    assert (
        "population, holds only if the model errs equally at every site. These hold"
        " even if" in out
    )
    rows = json.loads(
        run("compare", "calibration.json", "A.json", "B.json", "--json").out
    )["sites"]
    assert [row["falls_short"] for row in rows] == [False, True]
    assert rows[1]["adjusted_p_value"] == pytest.approx(2 * rows[1]["p_value"])


def test_a_private_answer(here, run):
    run("ledger", "new", "site.db")
    run("ledger", "budget", "site.db", "spring", 1)
    (here / "gap.csv").write_text("score\n0.5\nnan\n9.5\n0.25\n")
    order = ["check", "calibration.json", "gap.csv", "--site", "A", "--private", 1]
    account = ["--ledger", "site.db", "--dataset", "spring"]
    run(*order, *account, "-o", "A.json")
    made = Check.read("A.json")
    assert (made.n, made.epsilon) == (4, 1.0)
    run(*order, *account, "-o", "again.json")
    assert Check.read("again.json") == made
    assert "exact" not in run("compare", "calibration.json", "A.json").out
    for wrong in (order, [*order, *account], [*order, "-o", "x.json"]):
        assert "--private goes with" in run(*wrong, code=2).err


def test_scores_from_cases(here, run):
    truth, predicted = np.random.default_rng(1).normal(size=(2, 30))
    cases = np.stack([truth, predicted], axis=1)
    np.savetxt("cases.csv", cases, delimiter=",", header="y,yhat", comments="")
    np.savetxt(
        "differences.csv", np.abs(truth - predicted), header="score", comments=""
    )
    columns = ["--target", "y", "--prediction", "yhat"]
    computed = run("check", "calibration.json", "cases.csv", *columns, "--json").out
    assert computed == run("check", "calibration.json", "differences.csv", "--json").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-o", "A.json"], "--site"),
        (["--ledger", "site.db"], "go with an answer"),
        (["--site", "A", "--confidence-level", 0.8, "-o", "A.json"], "for all levels"),
        (["--confidence-level", 0.7], "one of the calibration's"),
        (["--column", "nothing"], "no column"),
    ],
)
def test_mistakes_are_one_line(here, run, options, words):
    assert words in run("check", "calibration.json", "new.csv", *options, code=2).err
    assert not (here / "A.json").exists()


def test_files_that_are_no_answers_are_named(here, run):
    order = ["compare", "calibration.json"]
    assert (
        "calibration.json: this is a calibration, not a check"
        in run(*order, "calibration.json", code=2).err
    )
    assert "nowhere.json" in run(*order, "nowhere.json", code=2).err


def test_one_group(group_reported, run):
    files = group_reported()
    run("calibrate", "plan.json", *files, "-o", "c.json")
    scores = np.random.default_rng(8).exponential(size=60)
    pl.DataFrame({"score": scores, "age": ["old"] * 60}).write_csv("new_scores.csv")
    order = ["c.json", "new_scores.csv", "--group", "age", "--label", "old"]
    found = json.loads(run("check", *order, "--json").out)["groups"]["old"]
    assert (
        found["levels"][0]["covered"]
        == check(fc.Calibration.read("c.json")["old"], scores).covered
    )
    run("check", *order, "--site", "A", "-o", "check_A.json")
    run("compare", "c.json", "check_A.json", "--label", "old")
    error = run("compare", "c.json", "check_A.json", "--label", "young", code=2).err
    assert "checks group 'old', and this is group 'young'" in error


def test_every_group_by_its_own_threshold(group_reported, run):
    files = group_reported()
    run("calibrate", "plan.json", *files, "-o", "c.json")
    scores, ages = np.random.default_rng(8).exponential(size=100), ["old", "young"] * 50
    pl.DataFrame({"score": scores, "age": ages}).write_csv("new_scores.csv")
    found = json.loads(
        run("check", "c.json", "new_scores.csv", "--group", "age", "--json").out
    )["groups"]
    published = fc.Calibration.read("c.json")
    for label, mine in {"old": scores[::2], "young": scores[1::2]}.items():
        assert found[label]["n"] == 50
        assert (
            found[label]["levels"][0]["covered"]
            == check(published[label], mine).covered
        )
    table = run("check", "c.json", "new_scores.csv", "--group", "age").out
    assert "Group 'old': " in table
    assert "Group 'young': " in table
    order = (
        "check",
        "c.json",
        "new_scores.csv",
        "--group",
        "age",
        "--site",
        "A",
        "-o",
        "new_A.json",
    )
    run(*order)
    answer = Check.read("new_A.json")
    assert (answer.by, answer.group) == (("age",), None)
    assert [group.covered for group in answer.groups] == [
        (found[label]["levels"][0]["covered"],) for label in ("old", "young")
    ]
    rows = json.loads(run("compare", "c.json", "new_A.json", "--json").out)["sites"]
    assert [row.get("group") for row in rows] == [None, "age=old", "age=young"]


def test_columns_by_hand(here, run):
    (here / "cases.csv").write_text("score,sex\n" + "0.1,m\n9.0,w\n" * 20)
    rows = json.loads(
        run("check", "calibration.json", "cases.csv", "--by", "sex", "--json").out
    )["sites"]
    assert [(row.get("group"), row["covered"]) for row in rows] == [
        (None, 20),
        ("sex=m", 20),
        ("sex=w", 0),
    ]
    assert (
        "no column 'age'"
        in run("check", "calibration.json", "cases.csv", "--by", "age", code=2).err
    )
    (here / "policy.toml").write_text("min_group = 21\n")
    order = [
        "check",
        "calibration.json",
        "cases.csv",
        "--by",
        "sex",
        "--site",
        "A",
        "-o",
        "x.json",
    ]
    assert "no group has 21 cases" in run(*order, "--policy", "policy.toml", code=2).err


def test_checks_of_many_periods_are_watched(here, run):
    (here / "checks").mkdir()
    for month in (1, 2, 3):
        for site, file in (("A", "new.csv"), ("B", "odd.csv")):
            order = [
                "check",
                "calibration.json",
                file,
                "--site",
                site,
                "--period",
                f"2027-0{month}",
            ]
            shown = run(*order, "-o", f"checks/{site}-{month}.json", "-y").err
            assert f"150 new cases of 2027-0{month}" in shown
    out = run("watch", "calibration.json", "checks").out
    assert re.search(
        r"At B: below 80 %, alarm since 2027-01 \(E = \S+, alarm at 20; false alarm at"
        " this site at most 1 in 20",
        out,
    )
    assert "the next reports are due for 2027-04" in out
    content = json.loads(
        run(
            "watch", "calibration.json", "checks", "--json", "--false-alarm", "0.01"
        ).out
    )
    assert [row["site"] for row in content["rows"]] == [None, "A", "B"]
    assert content["rows"][2]["points"][0]["period"] == "2027-01"
    assert content["false_alarm"] == 0.01
    (here / "checks" / "again.json").write_text(
        (here / "checks" / "A-1.json").read_text()
    )
    assert (
        "A: periods 2027-01 and 2027-01 overlap"
        in run("watch", "calibration.json", "checks", code=2).err
    )


def test_a_watch_is_planned(here, run):
    out = run("watch", "calibration.json", "--plan", 100).out
    assert "a drop from 80 % to 75 % at all 2 sites is found within" in out
    assert "a drop from 80 % to 75 % at one site is found within" in out
    assert "Simulated 2,000 times" in out
    rows = json.loads(
        run("watch", "calibration.json", "--plan", 100, "--coverage", 0.5, "--json").out
    )
    assert rows[0]["coverage"] == 0.5
    assert (
        "watch takes checks, or --plan" in run("watch", "calibration.json", code=2).err
    )
    assert (
        "--coverage goes with --plan"
        in run("watch", "calibration.json", "--coverage", 0.5, code=2).err
    )
    assert (
        "period must be"
        in run(
            "check",
            "calibration.json",
            "new.csv",
            "--site",
            "A",
            "--period",
            "May",
            "-o",
            "x.json",
            code=2,
        ).err
    )
