"""From a plan to intervals, as people do it with files."""

import json

import numpy as np
import polars as pl
import pytest

import fedconformal as fc


def with_reports(files):
    return [x for file in files for x in ("--reports", file)]


def test_plan_report_calibrate_predict_verify(reported, run):
    out = run("plan", "--sites", 10, "--points", 79, "--confidence-level", 0.9, "-o", "ten.json").out
    assert out.startswith("10 sites, 79 points each; criterion stable\n")
    assert "71" in out
    assert "7 of 10" in out
    assert fc.Plan.read("ten.json") == fc.plan(n_sites=10, n_points=79, confidence_level=0.9)
    files = reported()
    out = run("calibrate", "plan.json", *files, "-o", "calibration.json").out
    assert "3 sites answered, 0 missing" in out
    calibration = fc.Calibration.read("calibration.json")
    run("predict", "calibration.json", "predictions.csv", "-o", "intervals.csv")
    table = pl.read_csv("intervals.csv")
    assert table.columns == ["prediction", "lower", "upper"]
    width = (table["upper"] - table["lower"]).to_numpy()
    assert width == pytest.approx(2 * calibration.threshold, rel=1e-12)
    assert run("verify", "calibration.json", "--reports", ".", code=2)  # the plan lies there too
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
    assert json.loads(run("predict", "c.json", "predictions.csv", "--json").out)[0]["upper"] == "Infinity"
    run("verify", "c.json")
