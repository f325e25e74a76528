"""Sums of losses and tests of answers on the command line, from the plan to the
certificate.
"""

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedconformal as fc

SIZES = {"north": 60, "south": 90}
EDGES = fc.Bins([0.2, 0.4, 0.6, 0.8], bounded=True)
PLAIN = fc.SitePolicy(curves="plain")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plain.toml").write_text('curves = "plain"\n')


def plan(run, curve, *options):
    points = ",".join(f"{site}={n}" for site, n in SIZES.items())
    return " ".join(
        run(
            "plan", "--points", points, "--curve", curve, *options, "-o", "plan.json"
        ).out.split()
    )


def report(run, site, file, *options, code=0):
    order = (
        "report",
        "plan.json",
        file,
        "--site",
        site,
        "--policy",
        "plain.toml",
        "-y",
        *options,
    )
    return run(*order, code=code)


def finish(run):
    """Calibrate, verify and certify; returns the calibration, what was printed, and the
    page.
    """
    files = [f"{site}.json" for site in SIZES]
    run("calibrate", "plan.json", *files, "-o", "c.json")
    printed = run("calibrate", "plan.json", *files).out
    run("verify", "c.json", *(word for file in files for word in ("--reports", file)))
    run("certificate", "c.json", "-o", "c.html")
    page = (
        Path("c.html")
        .read_text()
        .replace("\N{NO-BREAK SPACE}", " ")
        .replace("&#39;", "'")
    )
    return (
        fc.Calibration.read("c.json"),
        " ".join(printed.split()),
        " ".join(page.split()),
    )


def make_losses(site):
    rng = np.random.default_rng(len(site) + SIZES[site])
    return np.maximum(
        0, 1 - np.array(EDGES.edges) / rng.random((SIZES[site], 1))
    ).round(6)


def test_sums_of_losses(run):
    printed = plan(run, "edges:0.2,0.4,0.6,0.8:bounded:parts=1000", "--risk", 0.2)
    assert fc.Plan.read("plan.json") == fc.plan(
        n_points=SIZES, curve=EDGES, parts=1000, risk=0.2
    )
    assert "1 - risk at least" in printed
    assert (
        "On average, at least 80 % of the largest loss is avoided for new cases, if the"
        " model" in printed
    )
    losses = {site: make_losses(site) for site in SIZES}
    np.save("north.npy", losses["north"])
    pl.DataFrame(losses["south"], schema=["a", "b", "c", "d"], orient="row").write_csv(
        "south.csv"
    )
    refused = run("report", "plan.json", "north.npy", "--site", "north", code=2).err
    assert 'curves = "plain" would allow it' in refused
    sentence = report(run, "north", "north.npy", "-o", "north.json").err
    assert (
        "the sums of the losses of your 60 cases at 4 settings, and for their number"
        in sentence
    )
    report(run, "south", "south.csv", "-o", "south.json")
    for site, own in losses.items():
        same = fc.report(fc.Plan.read("plan.json"), losses=own, site=site, policy=PLAIN)
        assert fc.Report.read(f"{site}.json") == same
    calibration, printed, page = finish(run)
    pooled = (
        np.ceil(1000 * np.concatenate(list(losses.values())) - 1e-9).sum(axis=0) / 1000
    )
    good = [(total + 1) / (150 + 1) <= 0.2 for total in pooled]
    assert calibration.threshold == EDGES.edges[good.index(True)]
    assert "ties" not in printed
    assert "at least 80 % of the largest loss is avoided" in page
    assert "the sums of the losses of its 60 cases at 4 settings" in page
    np.save("north.npy", losses["north"][:, ::-1])
    assert (
        "losses must not rise from one setting to the next"
        in report(run, "north", "north.npy", code=2).err
    )
    order = report(run, "south", "south.csv", "--column", "a,b", code=2).err
    assert "must have a row for each case and 4 columns, got (90, 2)" in order
    np.save("north.npy", np.ones((60, 4)))
    np.save("south.npy", np.ones((90, 4)))
    for site in SIZES:
        report(run, site, f"{site}.npy", "-o", f"{site}.json", "--force")
    printed = run("calibrate", "plan.json", "north.json", "south.json").out
    assert (
        "The threshold at level 0.8 is infinite, because the losses are too large."
        in printed
    )


def test_losses_of_a_score_come_from_truth_and_prediction(run):
    """Labels from tables, pixels from arrays: the losses are computed at the edges of
    the plan.
    """
    bins = fc.Bins.uniform(0, 1, 10)
    plan(run, "uniform:0:1:10:parts=60", "--score", "missed-labels", "--risk", 0.3)
    assert fc.Plan.read("plan.json") == fc.plan(
        n_points=SIZES, curve=bins, parts=60, risk=0.3, score="missed-labels"
    )
    rng = np.random.default_rng(1)
    score = fc.scores.MissedLabels()
    for site, n in SIZES.items():
        p = rng.random((n, 3)).round(3)
        truth = (rng.random((n, 3)) < p).astype(int)
        columns = {f"t_{i}": truth[:, i] for i in range(3)} | {
            f"p_{i}": p[:, i] for i in range(3)
        }
        pl.DataFrame(columns).write_csv(f"{site}.csv")
        given = (
            "--target",
            "t_0,t_1,t_2",
            "--prediction",
            "p_0,p_1,p_2",
            "-o",
            f"{site}.json",
        )
        report(run, site, f"{site}.csv", *given)
        losses, fixed = score.losses(truth, p, bins.edges), fc.Plan.read("plan.json")
        same = fc.report(
            fixed, losses=losses, site=site, policy=PLAIN, score="missed-labels"
        )
        assert fc.Report.read(f"{site}.json") == same
    calibration, _, page = finish(run)
    assert "at least 70 % of a case's true labels are found" in page
    pl.DataFrame({f"p_{i}": [0.1 * i, 0.9] for i in range(3)}).write_csv("new.csv")
    run("predict", "c.json", "new.csv", "--only", "-o", "sets.csv")
    assert pl.read_csv("sets.csv").rows()[0] == tuple(
        1 - 0.1 * i <= calibration.threshold for i in range(3)
    )
    assert "of 60 " in run("check", "c.json", "north.csv", *given[:4]).out
    plan(
        run,
        "uniform:0:1:10:parts=60",
        "--score",
        "missed-pixels",
        "--risk",
        0.3,
        "--force",
    )
    p = rng.random((60, 4, 5))
    truth = rng.random(p.shape) < p
    np.savez("north.npz", truth=truth, p=p)
    report(
        run,
        "north",
        "north.npz",
        "--target",
        "truth",
        "--prediction",
        "p",
        "-o",
        "pixels.json",
    )
    losses, fixed = (
        fc.scores.MissedPixels().losses(truth, p, bins.edges),
        fc.Plan.read("plan.json"),
    )
    same = fc.report(
        fixed, losses=losses, site="north", policy=PLAIN, score="missed-pixels"
    )
    assert fc.Report.read("pixels.json") == same


def write_answers(site, *, wrong="wrong", chance=0.4):
    rng = np.random.default_rng(SIZES[site])
    c = rng.random(SIZES[site]).round(6)
    errors = (rng.random(c.size) < chance * (1 - c)).astype(int)
    pl.DataFrame({"id": np.arange(c.size), wrong: errors, "confidence": c}).write_csv(
        f"{site}.csv"
    )
    return c, errors


def test_answers(run):
    printed = plan(
        run, "uniform:0:1:20:starts=10", "--risk", 0.2, "--criterion", "conditional"
    )
    bins = fc.Bins.uniform(0, 1, 20)
    fixed = fc.plan(
        n_points=SIZES, curve=bins, starts=10, risk=0.2, criterion="conditional"
    )
    assert fc.Plan.read("plan.json") == fixed
    assert "right answers at least" in printed
    assert (
        "With 90 % certainty, at least 80 % of the answers are right, among new cases"
        in printed
    )
    for site in SIZES:
        c, wrong = write_answers(site)
        sentence = report(run, site, f"{site}.csv", "-o", f"{site}.json").err
        assert (
            "are answered at 20 settings, and how many of the answers are wrong, which"
            " show" in sentence
        )
        assert fc.Report.read(f"{site}.json") == fc.report(
            fixed, c, losses=wrong, site=site, policy=PLAIN
        )
    np.save("south.npy", np.column_stack([c, wrong]))
    report(run, "south", "south.npy", "-o", "again.json")
    assert Path("again.json").read_bytes() == Path("south.json").read_bytes()
    calibration, printed, page = finish(run)
    assert 0 < calibration.threshold < 1
    assert "ties" not in printed
    assert "at least 80 % of the answers are right, among new cases" in page
    pl.DataFrame({"confidence": [0.01, 0.999], "sure": [0.999, 0.01]}).write_csv(
        "new.csv"
    )
    run("predict", "c.json", "new.csv", "-o", "answered.csv")
    assert pl.read_csv("answered.csv")["answered"].to_list() == [False, True]
    run("predict", "c.json", "new.csv", "--column", "sure", "--only", "-o", "other.csv")
    assert pl.read_csv("other.csv").to_dict(as_series=False) == {
        "answered": [True, False]
    }
    wide = run(
        "predict", "c.json", "new.csv", "--column", "confidence,sure", code=2
    ).err
    assert "--column must name the confidence of each case" in wide
    for site in SIZES:
        write_answers(site, chance=4.0)
        report(run, site, f"{site}.csv", "-o", f"{site}.json", "--force")
    printed = run("calibrate", "plan.json", "north.json", "south.json").out
    assert (
        "is infinite, because no setting passes the tests: no case is answered."
        in printed
    )


def test_columns_of_answers_cannot_be_mistaken(run):
    """A column of right answers in the place of wrong ones would promise the
    opposite.
    """
    plan(run, "uniform:0:1:20:starts=10", "--risk", 0.2, "--criterion", "conditional")
    write_answers("north", wrong="right")
    refused = report(run, "north", "north.csv", code=2).err
    assert "needs the columns confidence, and wrong: 1 for a wrong answer" in refused
    refused = report(
        run, "north", "north.csv", "--column", "confidence,right", code=2
    ).err
    assert "--target and --column must be left out" in refused
    pl.DataFrame({"confidence": [0.5] * 60, "wrong": [0.5] * 60}).write_csv("north.csv")
    assert (
        "losses must be 0 or 1 for each of the 60 cases"
        in report(run, "north", "north.csv", code=2).err
    )


def test_answers_by_group(run):
    groups = ("--group", "a:north=60", "--group", "b:north=60")
    order = (
        "plan",
        *groups,
        "--curve",
        "uniform:0:1:20:starts=10",
        "--criterion",
        "conditional",
    )
    run(*order, "--risk", 0.3, "-o", "plan.json")
    rng = np.random.default_rng(2)
    c, ward = rng.random(120), np.repeat(["a", "b"], 60)
    wrong = (rng.random(120) < np.where(ward == "a", 0.1, 0.9)).astype(int)
    pl.DataFrame({"confidence": c, "wrong": wrong, "ward": ward}).write_csv("north.csv")
    report(run, "north", "north.csv", "--group", "ward", "-o", "north.json")
    run("calibrate", "plan.json", "north.json", "-o", "c.json")
    calibration = fc.Calibration.read("c.json")
    assert calibration["a"].threshold < 0.5
    assert calibration["b"].threshold == math.inf
    run(
        "predict",
        "c.json",
        "north.csv",
        "--group",
        "ward",
        "--only",
        "-o",
        "answered.csv",
    )
    expected = (c >= calibration["a"].threshold) & (ward == "a")
    assert pl.read_csv("answered.csv")["answered"].to_list() == expected.tolist()


def test_answers_by_site(run):
    order = (
        "--group-by",
        "site",
        "--curve",
        "uniform:0:1:20:starts=10",
        "--criterion",
        "conditional",
    )
    run(
        "plan",
        "--points",
        "north=60,south=90",
        *order,
        "--risk",
        0.3,
        "-o",
        "plan.json",
    )
    for site, chance in (("north", 0.2), ("south", 4.0)):
        write_answers(site, chance=chance)
        report(run, site, f"{site}.csv", "-o", f"{site}.json")
    run("calibrate", "plan.json", "north.json", "south.json", "-o", "c.json")
    for site in SIZES:
        threshold = fc.Calibration.read("c.json")[site].threshold
        run(
            "predict",
            "c.json",
            "north.csv",
            "--site",
            site,
            "--only",
            "-o",
            f"{site}_answered.csv",
        )
        answered = pl.read_csv(f"{site}_answered.csv")["answered"]
        assert (
            answered.to_list()
            == (pl.read_csv("north.csv")["confidence"] >= threshold).to_list()
        )
        assert answered.any() == (site == "north")
    assert run("predict", "c.json", "north.csv", code=2).err


def test_what_a_curve_may_count(run):
    for curve, message in (
        ("uniform:0:1:10:parts=ten", "parts must be a whole number, as in parts=10"),
        ("uniform:0:1:10:parts=0", "parts must be between 1 and 1000000, got 0"),
        (
            "uniform:0:1:10:starts=10",
            "starts goes with promise 'population' and criterion 'conditional'",
        ),
        ("parts=10", "must be uniform:LOW:HIGH:COUNT"),
    ):
        assert (
            message
            in run("plan", "--sites", 3, "--points", 60, "--curve", curve, code=2).err
        )


def test_sums_without_a_score_make_no_sets(run):
    plan(run, "edges:0.2,0.4,0.6,0.8:bounded:parts=1000", "--risk", 0.2)
    reports = []
    for site, n in SIZES.items():
        losses = np.tile([0.4, 0.2, 0.1, 0.0], (n, 1))
        policy = fc.SitePolicy(curves="plain")
        reports.append(
            fc.report(
                fc.Plan.read("plan.json"), losses=losses, site=site, policy=policy
            )
        )
    Path("c.json").write_text(
        fc.calibrate(fc.Plan.read("plan.json"), reports).to_json()
    )
    pl.DataFrame({"prediction": [1.0, 2.0]}).write_csv("new.csv")
    said = run("predict", "c.json", "new.csv", code=2).err
    assert (
        "the calibration is of losses without a score, and makes no sets: give --score"
        in said
    )
