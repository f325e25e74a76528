"""From a plan to intervals, as people do it with files, and the demo."""

import json

import numpy as np
import polars as pl
import pytest

import fedconformal as fc


def with_reports(files):
    return [x for file in files for x in ("--reports", file)]


def test_plan_report_calibrate_predict_verify(reported, run):
    out = run(
        "plan",
        "--sites",
        10,
        "--points",
        79,
        "--confidence-level",
        0.9,
        "-o",
        "ten.json",
    ).out
    assert out.startswith("10 sites, 79 points each; criterion stable\n")
    assert "71" in out
    assert "7 of 10" in out
    assert fc.Plan.read("ten.json") == fc.plan(
        n_sites=10, n_points=79, confidence_level=0.9
    )
    files = reported()
    out = run("calibrate", "plan.json", *files, "-o", "calibration.json").out
    assert "3 sites answered, 0 missing" in out
    calibration = fc.Calibration.read("calibration.json")
    run("predict", "calibration.json", "predictions.csv", "-o", "intervals.csv")
    table = pl.read_csv("intervals.csv")
    assert table.columns == ["prediction", "lower", "upper"]
    width = (table["upper"] - table["lower"]).to_numpy()
    assert width == pytest.approx(2 * calibration.threshold, rel=1e-12)
    assert run(
        "verify", "calibration.json", "--reports", ".", code=2
    )  # the plan lies there too
    out = run("verify", "calibration.json", *with_reports(files)).out
    assert out.endswith("\nverified\n")


def test_several_levels(desk, run):
    levels = ["--confidence-level", 0.8, "--confidence-level", 0.9]
    run("plan", "--sites", 3, "--points", 60, *levels, "-o", "two.json")
    for name in "XYZ":
        np.save(f"{name}.npy", np.random.default_rng(ord(name)).random(60))
        run("report", "two.json", f"{name}.npy", "--site", name, "-o", f"{name}.json")
    run("calibrate", "two.json", "X.json", "Y.json", "Z.json", "-o", "two_c.json")
    out = run("predict", "two_c.json", "predictions.csv").out
    assert out.splitlines()[0] == "prediction,lower_0.8,upper_0.8,lower_0.9,upper_0.9"


def test_an_infinite_threshold_predicts_the_whole_line(desk, run):
    run("plan", "--sites", 3, "--points", 2, "-o", "tiny.json")
    (desk / "two.csv").write_text("1\n2\n")
    for name in "XYZ":
        run("report", "tiny.json", "two.csv", "--site", name, "-o", f"{name}.json")
    run("calibrate", "tiny.json", "X.json", "Y.json", "Z.json", "-o", "c.json")
    assert "inf" in run("predict", "c.json", "predictions.csv").out
    assert (
        json.loads(run("predict", "c.json", "predictions.csv", "--json").out)[0][
            "upper"
        ]
        == "Infinity"
    )
    run("verify", "c.json")


@pytest.mark.slow
def test_the_demo_tells_the_whole_story(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run("demo", "--directory", tmp_path).out
    assert "site-07 is missing" in said
    assert "\n     verified\n" in said
    calibration = fc.Calibration.read(tmp_path / "calibration.json")
    assert calibration.missing == ("site-07",)
    assert calibration.law.mean() >= 0.9
    assert pl.read_csv(tmp_path / "intervals.csv").height == 72
    methods = [
        line.split("   ")[0].strip()
        for line in said.splitlines()
        if line.startswith("  ")
    ]
    rules = [
        "FedCP-QQ, stable (the default)",
        "FedCP-QQ, stable, three numbers",
        "FedCP-QQ, marginal (the paper's)",
    ]
    assert [method for method in methods if method.startswith("FedCP-QQ,")] == rules
    stable = next(line for line in said.splitlines() if rules[0] in line).split()
    assert f"{calibration.threshold:.1f}" in stable
    assert f"{calibration.law.mean():.3f}" in stable
    # Every command can be copied and run again, and the end says what to open.
    shown = [
        line.strip().removeprefix("$ ")
        for line in said.splitlines()
        if "$ fedconformal" in line
    ]
    assert [order.split()[1] for order in shown[:3]] == ["plan", "report", "calibrate"]
    for order in (
        each for each in shown if each.split()[1] in ("calibrate", "predict")
    ):
        run(*order.split()[1:])
    ending = said.partition("What to open next:")[2]
    assert (tmp_path / "certificate.html").as_uri() in ending
    assert "fedconformal planner" in ending
    assert (tmp_path / "certificate.html").exists()
