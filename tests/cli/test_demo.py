"""``fedconformal demo``: the whole story."""

import polars as pl
import pytest

import fedconformal as fc


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
    methods = [line.split("   ")[0].strip() for line in said.splitlines() if line.startswith("  ")]
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
    shown = [line.strip().removeprefix("$ ") for line in said.splitlines() if "$ fedconformal" in line]
    assert [order.split()[1] for order in shown[:3]] == ["plan", "report", "calibrate"]
    for order in (each for each in shown if each.split()[1] in ("calibrate", "predict")):
        run(*order.split()[1:])
    ending = said.partition("What to open next:")[2]
    assert (tmp_path / "certificate.html").as_uri() in ending
    assert "fedconformal planner" in ending
    assert (tmp_path / "certificate.html").exists()
