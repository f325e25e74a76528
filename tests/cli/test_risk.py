"""A risk on the command line: labels from tables, pixels from arrays, and draws that no
round can choose.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedconformal as fc

SITES, LABELS = ("north", "south", "west"), ("heart", "lung", "skin")
N = 60


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_cases(site, seed):
    """Write truth and probabilities of some labels, the columns of the truth in the
    order of the labels.
    """
    rng = np.random.default_rng(seed)
    p = rng.random((N, 3)).round(4)
    truth = (rng.random((N, 3)) < p).astype(int)
    columns = {f"true_{name}": truth[:, i] for i, name in enumerate(LABELS)}
    columns |= {f"p_{name}": p[:, i] for i, name in enumerate(LABELS)}
    pl.DataFrame(columns).write_csv(f"{site}.csv")
    return truth, p


TRUE, P = (
    ",".join(f"true_{name}" for name in LABELS),
    ",".join(f"p_{name}" for name in LABELS),
)


def plan_labels(run, *options, output="plan.json"):
    sizes = ",".join(f"{site}={N}" for site in SITES)
    return run(
        "plan", "--points", sizes, "--score", "missed-labels", *options, "-o", output
    )


def report_labels(run, site, *options, plan="plan.json", code=0):
    return run(
        *(
            "report",
            plan,
            f"{site}.csv",
            "--site",
            site,
            "--target",
            TRUE,
            "--prediction",
            P,
            *options,
            "-y",
        ),
        code=code,
    )


@pytest.mark.slow
def test_labels_from_the_plan_to_the_certificate(run):
    printed = " ".join(plan_labels(run, "--risk", 0.2).out.split())
    promised = (
        "On average, at least 80 % of a case's true labels are found for new cases, if"
        " the model errs"
    )
    end = (
        "equally at every site. A case without true labels counts as found completely."
    )
    assert f"Promised: {promised} {end}" in printed
    plan = fc.Plan.read("plan.json")
    assert plan == fc.plan(
        n_points=dict.fromkeys(SITES, N), score="missed-labels", confidence_level=0.8
    )
    for i, site in enumerate(SITES):
        write_cases(site, i)
        report_labels(run, site, "-o", f"{site}.json")
    run("calibrate", "plan.json", *(f"{site}.json" for site in SITES), "-o", "c.json")
    run(
        "verify",
        "c.json",
        *(word for site in SITES for word in ("--reports", f"{site}.json")),
    )
    threshold = fc.Calibration.read("c.json").threshold
    pl.DataFrame(
        {f"p_{name}": [0.05 * i, 0.9] for i, name in enumerate(LABELS)}
    ).write_csv("new.csv")
    run("predict", "c.json", "new.csv", "--column", P, "--only", "-o", "sets.csv")
    sets = pl.read_csv("sets.csv")
    assert sets.columns == [f"in_set_p_{name}" for name in LABELS]
    assert [list(row) for row in sets.rows()] == [
        [1 - p <= threshold for p in (0.0, 0.05, 0.1)],
        [threshold >= 1 - 0.9] * 3,
    ]
    run("certificate", "c.json", "-o", "c.html")
    page = (
        Path("c.html")
        .read_text()
        .replace("&#39;", "'")
        .replace("\N{NO-BREAK SPACE}", " ")
    )
    assert promised in page
    assert "Selected in vain" in page
    assert "Wide intervals" not in page
    assert (
        "of 60 "
        in run("check", "c.json", "west.csv", "--target", TRUE, "--prediction", P).out
    )


def test_a_risk_is_one_minus_the_level(run):
    plan_labels(run, "--risk", 0.1, "--risk", 0.2)
    assert fc.Plan.read("plan.json").confidence_levels == (0.9, 0.8)
    options = (
        "plan",
        "--sites",
        3,
        "--points",
        60,
        "--risk",
        0.1,
        "--confidence-level",
        0.9,
    )
    assert (
        "--risk is 1 minus --confidence-level: give one of them"
        in run(*options, code=2).err
    )
    for level in (0.8, 0.9):  # 0.9 is the default
        with pytest.raises(
            ValueError, match="risk is 1 - confidence_level: give one of them, got"
        ):
            fc.plan(n_sites=3, n_points=60, risk=0.2, confidence_level=level)
    with pytest.raises(ValueError, match=r"risk must be a number in \(0, 1\), got 1.5"):
        fc.plan(n_sites=3, n_points=60, risk=1.5)


def test_columns_in_another_order_are_refused(run):
    plan_labels(run, "--risk", 0.2)
    write_cases("north", 0)
    order = [
        "report",
        "plan.json",
        "north.csv",
        "--site",
        "north",
        "--prediction",
        P,
        "-y",
        "--target",
    ]
    swapped = "true_lung,true_heart,true_skin"
    assert "must have the same order" in run(*order, swapped, code=2).err
    assert (
        "a column of 0 and 1 for each of the 3 columns"
        in run(*order, "true_lung", code=2).err
    )
    assert (
        "both name 'p_lung'" in run(*order, "true_heart,p_lung,true_skin", code=2).err
    )
    plan_labels(
        run, "--risk", 0.2, "--term", f"classes={','.join(LABELS)}", output="named.json"
    )
    order[1] = "named.json"
    assert run(
        *order, swapped, "--json"
    ).out  # the plan names the labels, so that any order will do
    pl.read_csv("north.csv").with_columns(true_lung=2).write_csv("north.csv")
    assert (
        "must hold 0 or 1; 60 of 60 rows are not, first in line 2: ["
        in run(*order, TRUE, code=2).err
    )


def values_of(run, *options, plan):
    report = json.loads(report_labels(run, "north", *options, "--json", plan=plan).out)
    return report["parts"][0]["payload"]["levels"]


@pytest.mark.parametrize("kept_in", ["ledger", "policy"])
def test_no_round_draws_again(run, kept_in):
    """Whoever writes plans must not be able to repeat rounds until the draws suit
    them.
    """
    write_cases("north", 0)
    for i in range(3):
        plan_labels(run, "--risk", 0.3, "--term", f"round=r{i}", output=f"p{i}.json")
    if kept_in == "ledger":
        run("ledger", "new", "site.db")
        Path("site.toml").write_text("private_only = false\n")
        options = ["--ledger", "site.db", "--dataset", "trial", "--policy", "site.toml"]
    else:
        run("policy", "new")
        options = ["--policy", "site.toml"]
    first = [values_of(run, *options, plan=f"p{i}.json") for i in range(3)]
    assert first[0] == first[1] == first[2]
    assert (
        len({str(values_of(run, plan="p0.json")) for _ in range(20)}) > 1
    )  # the system's generator
    score, policy = fc.scores.MissedLabels(), fc.SitePolicy.read("site.toml")
    account = (
        {"ledger": fc.Ledger("site.db"), "dataset": "trial"}
        if kept_in == "ledger"
        else {}
    )
    given = {"policy": policy, "ledger": None, "dataset": None, **account}
    draws = fc.protocol.draw_source(score, site="north", **given).random(9)
    others = [
        fc.protocol.draw_source(fc.scores.MissedPixels(), site="north", **given),
        fc.protocol.draw_source(score, site="north", of_check=True, **given),
        fc.protocol.draw_source(score, site="north", **{**given, "dataset": "other"}),
    ]
    assert all((other.random(9) != draws).all() for other in others)
    again = fc.protocol.draw_source(score, site="north", **given)
    assert (
        again.random(500)[:9] == draws
    ).all()  # by the place of a record, however many follow


def write_images(name, seed, n=40):
    rng = np.random.default_rng(seed)
    p = rng.random((n, 5, 6))
    np.savez(
        f"{name}.npz",
        truth=rng.random(p.shape) < p,
        probability=p,
        ward=rng.choice(["a", "b"], size=n),
    )
    return p


def test_pixels_from_arrays(run):
    run(
        "plan",
        "--points",
        "A=40,B=40",
        "--score",
        "missed-pixels",
        "--risk",
        0.2,
        "-o",
        "plan.json",
    )
    run("policy", "new")
    columns = ["--target", "truth", "--prediction", "probability"]
    for site in "AB":
        write_images(site, ord(site))
        run(
            "report",
            "plan.json",
            f"{site}.npz",
            "--site",
            site,
            *columns,
            "-y",
            "-o",
            f"{site}.json",
        )
    run("calibrate", "plan.json", "A.json", "B.json", "-o", "c.json")
    calibration, p = fc.Calibration.read("c.json"), write_images("new", 3)
    run("predict", "c.json", "new.npz", "--column", "probability", "-o", "masks.npz")
    np.testing.assert_array_equal(
        np.load("masks.npz")["in_set"], 1 - p <= calibration.threshold
    )
    np.testing.assert_array_equal(
        calibration.predict_set(p), 1 - p <= calibration.threshold
    )
    masks = calibration.predict_set([p[0], p[1, :3]])
    assert [mask.shape for mask in masks] == [(5, 6), (3, 6)]
    wrong = ["report", "plan.json", "A.npz", "--site", "A", "-y"]
    missing = ["--target", "mask", "--prediction", "probability"]
    assert "has no array 'mask'; it has" in run(*wrong, *missing, code=2).err
    Path("A.npz").write_bytes(b"PK junk")
    assert "A.npz: " in run(*wrong, *columns, code=2).err
    assert (
        "images need a plan that fixes the score"
        in run("predict", "c.json", "new.npz", code=2).err
    )
    run("plan", "--points", "A=40,B=40", "--score", "lac", "-o", "lac.json")
    wrong = ["report", "lac.json", "new.npz", "--site", "A", *columns, "-y"]
    assert "score 'lac' takes tables; .npz is for images" in run(*wrong, code=2).err


@pytest.mark.slow
def test_private_pixels_and_groups(run):
    write_images("A", 1, n=400)
    bins = ("--epsilon", 4, "--group", "a:A=100", "--group", "b:A=100")
    run("plan", *bins, "--score", "missed-pixels", "--risk", 0.3, "-o", "plan.json")
    run("ledger", "new", "site.db")
    run("ledger", "budget", "site.db", "trial", 4)
    held = dict(np.load("A.npz"))
    keep = np.concatenate([np.flatnonzero(held["ward"] == ward)[:100] for ward in "ab"])
    held["probability"][keep[0], 0, 0] = np.nan
    np.savez("A.npz", **{name: array[keep] for name, array in held.items()})
    account = (
        "--ledger",
        "site.db",
        "--dataset",
        "trial",
        "--group",
        "ward",
        "-y",
        "--json",
    )
    columns = ("--target", "truth", "--prediction", "probability")
    report = fc.Report.from_json(
        run("report", "plan.json", "A.npz", "--site", "A", *columns, *account).out
    )
    assert [part.group for part in report.parts] == ["a", "b"]


def test_a_check_draws_once_for_the_same_cases(run):
    plan_labels(run, "--risk", 0.3)
    run("policy", "new")
    for site in SITES:
        write_cases(site, 0)
        report_labels(run, site, "--policy", "site.toml", "-o", f"{site}.json")
    run("calibrate", "plan.json", *(f"{site}.json" for site in SITES), "-o", "c.json")
    check = (
        "check",
        "c.json",
        "north.csv",
        "--site",
        "north",
        "--target",
        TRUE,
        "--prediction",
        P,
        "--json",
    )
    first, second = (run(*check, "--policy", "site.toml") for _ in range(2))
    assert first.out == second.out
    assert first.err == ""
    drawn = [run(*check) for _ in range(20)]
    assert len({one.out for one in drawn}) > 1
    assert all("fedconformal policy new" in one.err for one in drawn)
