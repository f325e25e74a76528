"""``fedconformal demo``: the whole story."""

import polars as pl
import pytest

import fedconformal as fc


@pytest.mark.slow
def test_the_demo_tells_the_whole_story(tmp_path, process):
    done = process("demo", "--directory", str(tmp_path), cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "site-07 stays silent" in done.stdout
    assert "\n     verified\n" in done.stdout
    calibration = fc.Calibration.read(tmp_path / "calibration.json")
    assert calibration.missing == ("site-07",)
    assert calibration.law.mean() >= 0.9
    assert pl.read_csv(tmp_path / "intervals.csv").height == 72
    methods = [line.split("   ")[0].strip() for line in done.stdout.splitlines() if line.startswith("  ")]
    rules = [
        "FedCP-QQ, stable (the default)",
        "FedCP-QQ, stable, three numbers per site",
        "FedCP-QQ, marginal (the paper's rule)",
    ]
    assert [method for method in methods if method.startswith("FedCP-QQ,")] == rules
    stable = next(line for line in done.stdout.splitlines() if rules[0] in line).split()
    assert f"{calibration.threshold:.1f}" in stable
    assert f"{calibration.law.mean():.3f}" in stable
    # Every command can be copied and run again, and the end says what to open.
    shown = [line.strip().removeprefix("$ ") for line in done.stdout.splitlines() if "$ fedconformal" in line]
    assert [order.split()[1] for order in shown[:3]] == ["plan", "report", "calibrate"]
    for order in (each for each in shown if each.split()[1] in ("calibrate", "predict")):
        again = process(*order.split()[1:], cwd=tmp_path)
        assert again.returncode == 0, again.stderr
    ending = done.stdout.partition("What to open next:")[2]
    assert (tmp_path / "certificate.html").as_uri() in ending
    assert "fedconformal planner" in ending
    assert (tmp_path / "certificate.html").exists()
