"""The same commands for a plan with groups: one threshold for each, in one round."""

import json

import numpy as np
import polars as pl
import pytest
from cli_desk import GROUP_SIZES

import fedconformal as fc


def with_reports(files):
    return [x for file in files for x in ("--reports", file)]


def test_the_whole_story(group_reported, run, group_plan, group_data):
    files = group_reported()
    assert fc.Plan.read("plan.json") == group_plan
    out = run("calibrate", "plan.json", *files, "-o", "calibration.json").out
    assert "3 sites answered" in out
    found = fc.Calibration.read("calibration.json")
    reports = [
        fc.report(group_plan, scores, groups=labels, site=site)
        for site, (scores, labels) in group_data.items()
    ]
    assert found == fc.calibrate(group_plan, reports)
    order = [
        "predict",
        "calibration.json",
        "new.csv",
        "--group",
        "age",
        "--column",
        "prediction",
    ]
    run(*order, "-o", "out.csv")
    table = pl.read_csv("out.csv")
    half = ((table["upper"] - table["lower"]) / 2).to_numpy()
    assert half == pytest.approx(
        [found[label].threshold for label in ("old", "young", "child")], rel=1e-12
    )
    assert run("verify", "calibration.json", *with_reports(files)).out.endswith(
        "\nverified\n"
    )
    assert (
        json.loads(run("verify", "calibration.json", "--json").out)["verified"] is True
    )


def test_every_group_is_shown(group_reported, run):
    files = group_reported()
    out = run("calibrate", "plan.json", *files, "-o", "c.json").out
    found = fc.Calibration.read("c.json")
    rows = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()
    }
    for label in GROUP_SIZES:
        alone = found[label]
        votes = [f"{alone.server_rank}", "of", f"{sum(alone.weights)}"]
        assert rows[label][:6] == [
            "0.8",
            f"{alone.threshold:.6g}",
            *votes,
            f"{alone.law.mean():.4f}",
        ]
        assert rows[label][-3:] == [
            f"{alone.n_answers}",
            "of",
            f"{alone.n_answers + alone.n_missing}",
        ]
    assert "In each group individually" in out


def test_a_site_that_one_group_does_not_ask_answers_for_the_others(group_desk, run):
    run(
        "plan",
        "--group",
        "old:A=40,B=4000",
        "--group",
        "young:A=90,B=60",
        "-o",
        "p.json",
    )
    assert fc.Plan.read("p.json").by_group["old"].asked_names == ("B",)
    run(
        "report",
        "p.json",
        "A.csv",
        "--group",
        "age",
        "--site",
        "A",
        "-o",
        "x.json",
        code=2,
    )
    (group_desk / "both.csv").write_text(
        "score,age\n" + "1,old\n" * 40 + "2,young\n" * 90
    )
    shown = run(
        "report", "p.json", "both.csv", "--group", "age", "--site", "A", "-o", "A.json"
    ).err
    assert (
        "the sizes of 1 group, and for 'young': 1 of your 90 scores (the 81st"
        " smallest)." in shown
    )
    assert [part.group for part in fc.Report.read("A.json").parts] == ["young"]


def test_signed_and_private(group_desk, run):
    key = fc.SigningKey.new()
    (group_desk / "A.key").write_bytes(key.to_pem())
    (group_desk / "A.key").chmod(0o600)
    printed = run(
        *(
            "plan",
            "--group",
            "old:A=4000",
            "--group",
            "young:A=2000",
            "--key",
            f"A={key.public_key}",
        ),
        *("--epsilon", 4, "--bins", "uniform:0:10:50"),
        *("--confidence-level", 0.8, "-o", "plan.json"),
    )
    assert "Private: each site's answer has epsilon 4 for each group.\n" in printed.out
    labels = ["old"] * 4000 + ["young"] * 2000
    scores = np.random.default_rng(0).exponential(size=6000)
    pl.DataFrame({"score": scores, "age": labels}).write_csv("A.csv")
    ledger = fc.Ledger.create("site.db")
    ledger.set_budget("D", 4)
    report = (
        "report",
        "plan.json",
        "A.csv",
        "--group",
        "age",
        "--site",
        "A",
        "--sign-with",
        "A.key",
    )
    assert "give --ledger and --dataset" in run(*report, code=2).err
    run(*report, "--ledger", "site.db", "--dataset", "D", "-o", "A.json")
    assert ledger.remaining("D") == 0
    assert fc.calibrate(
        fc.Plan.read("plan.json"), [fc.Report.read("A.json")]
    ).authenticated


def test_numbers_that_are_refused_in_one_group_only(
    group_desk, group_reported, run, group_plan
):
    files = group_reported()
    sent = fc.Report.read("A.json")
    part = sent.by_group["old"].model_copy(update={"n": 999})
    parts = tuple(part if each.group == "old" else each for each in sent.parts)
    (group_desk / "A.json").write_text(
        sent.model_copy(update={"parts": parts}).to_json()
    )
    assert "A, group 'old': " in run("calibrate", "plan.json", *files, code=2).err
    out = run("calibrate", "plan.json", *files, "--skip-refused").out
    assert (
        "refused: A, group 'old': the plan expects 40 scores from site 'A', got 999"
        in out
    )
    assert "group 'old': missing: A\n" in out


def test_a_group_that_too_few_answer_for(group_desk, run):
    run(
        "plan",
        "--group",
        "old:A=40,B=30,C=30",
        "--group",
        "young:A=90,B=60",
        "-o",
        "p.json",
    )
    (group_desk / "C.csv").write_text("score,age\n" + "1,old\n" * 30)
    run("report", "p.json", "C.csv", "--group", "age", "--site", "C", "-o", "C.json")
    out = run("calibrate", "p.json", "C.json", "-o", "c.json").out
    assert "group 'young': too few answers (0), the threshold is infinite" in out
    assert "1 site answered\n" in out
    (group_desk / "n.csv").write_text("score,age\n1,young\n")
    error = run(
        "check", "c.json", "n.csv", "--group", "age", "--label", "young", code=2
    ).err
    assert "too few sites answered for group 'young'" in error


def test_mistakes_get_one_line(group_desk, group_reported, run):
    """Groups that are there and not asked for, or the other way round, and columns that
    hold none.
    """
    run("calibrate", "plan.json", *group_reported(), "-o", "c.json")
    run("plan", "-o", "plain.json")
    run(
        "report",
        "plain.json",
        "A.csv",
        "--column",
        "score",
        "--site",
        "A",
        "-o",
        "plain_A.json",
    )
    run("calibrate", "plain.json", "plain_A.json", "-o", "plain_c.json")
    (group_desk / "holes.csv").write_text("score,age\n1,old\n2,\n")
    np.save("scores.npy", np.full(3, 1.5))
    labels = "has groups ('child', 'old', 'young')"
    site, group, old = ("--site", "A"), ("--group", "age"), ("--label", "old")
    for arguments, words in [
        (
            ("report", "plan.json", "A.csv", *site),
            f"plan.json: {labels}: name the column of the groups",
        ),
        (("predict", "c.json", "new.csv"), f"c.json: {labels}: name the column"),
        (
            ("report", "plain.json", "A.csv", *site, *group),
            "has no groups: --group age does not go with it",
        ),
        (
            ("predict", "plain_c.json", "new.csv", *group),
            "has no groups: --group age does not go with it",
        ),
        (("check", "c.json", "A.csv"), f"c.json: {labels}: name the column"),
        (("compare", "c.json", "A.json"), "A.json: this is a report, not a check"),
        (("compare", "plan.json", "A.json"), f"plan.json: {labels}: choose one"),
        (
            ("check", "c.json", "A.csv", *group, "--label", "x"),
            "--label must be a group of c.json",
        ),
        (
            ("compare", "plan.json", "A.json", "--label", "x"),
            "--label must be a group of plan.json",
        ),
        (
            ("check", "plain_c.json", "A.csv", *group, *old),
            "plain_c.json: has no groups",
        ),
        (("compare", "plain.json", "A.json", *old), "plain.json: has no groups"),
        (("report", "plan.json", "A.csv", "--group", "sex", *site), "no column 'sex'"),
        (
            ("report", "plan.json", "A.csv", "--group", "score", *site),
            "must hold numbers",
        ),
        (
            ("report", "plan.json", "holes.csv", *group, *site),
            "empty in 1 of 2 rows, first in line 3",
        ),
        (
            ("report", "plan.json", "scores.npy", "--group", "column_1", *site),
            "neither text nor a whole number in 3 of 3 rows, first in row 1",
        ),
    ]:
        assert words in run(*arguments, code=2).err, arguments


def test_a_strange_label_among_new_points(group_desk, group_reported, run):
    files = group_reported()
    run("calibrate", "plan.json", *files, "-o", "c.json")
    (group_desk / "odd.csv").write_text("age,prediction\nold,1\nancient,2\n")
    printed = run("predict", "c.json", "odd.csv", "--group", "age", "--json")
    assert "1 of 2 points" in printed.err
    assert json.loads(printed.out)[1]["upper"] == "Infinity"
