"""A masked round on the command line: keys, plan, policies, reports, calibration, verification."""

import json
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc

SITES = ("north", "south", "west", "east")


@pytest.fixture
def federation(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    keys = {site: run("keys", "new", site).out.split()[-1] for site in SITES}
    for i, site in enumerate(SITES):
        (tmp_path / f"{site}.csv").write_text(
            "score\n" + "\n".join(f"{(j * 37 + i) % 100 / 100}" for j in range(90))
        )
        (tmp_path / f"{site}.toml").write_text(f"sum_with = {[*keys.values()]}\n")
    listed = [part for site, key in keys.items() for part in ("--key", f"{site}={key}")]
    sizes = ",".join(f"{site}=90" for site in SITES)
    return ["plan", "--points", sizes, *listed, "--masked", "-o", "plan.json"]


def answer(run, site, *options, code=0):
    files = ("plan.json", f"{site}.csv", "--site", site, "--sign-with", f"{site}.key")
    return run("report", *files, "--policy", f"{site}.toml", "-y", "-o", f"{site}.json", *options, code=code)


def test_a_masked_round(run, federation):
    assert "Every site must answer" in run(*federation, "--curve", "uniform:0:1:20").out
    for site in SITES:
        assert "only the sum over 4 sites can be read" in answer(run, site).err
    reports = [f"{site}.json" for site in SITES]
    missing = run("calibrate", "plan.json", *reports[:3], code=2).err
    assert "needs every site, and 'east' did not answer" in missing
    assert "masked" in run("calibrate", "plan.json", *reports, "-o", "calibration.json").out
    checks = [part for report in reports for part in ("--reports", report)]
    assert "the sum follows from the reports" in run("verify", "calibration.json", *checks).out


def test_bearers_are_asked_for_with_the_bins(run, federation):
    run(*federation, "--epsilon", "1", "--bins", "uniform:0:1:20:bearers=2")
    assert fc.Plan.read("plan.json").message.bearers == ("north", "south")


def test_sites_that_the_policy_does_not_name(run, federation, tmp_path):
    run(*federation, "--curve", "uniform:0:1:20")
    (tmp_path / "north.toml").write_text("")
    assert "sum_with must list" in answer(run, "north", code=2).err
    assert not (tmp_path / "north.json").exists()


def check(run, site, table, *options, code=0):
    """Check on cases that are not those of the calibration, nor of another period."""
    seed = 1000 * SITES.index(site) + sum(map(ord, table))
    scores = np.random.default_rng(seed).random(90).tolist()
    Path(table).write_text("score\n" + "\n".join(map(str, scores)))
    files = ("calibration.json", table, "--site", site, "--policy", f"{site}.toml", "-y")
    keys = ("--masked", "--sign-with", f"{site}.key", "-o", f"later-{site}.json")
    return run("check", *files, *keys, "--force", *options, code=code)


def test_masked_checks(run, federation):
    run(*federation, "--curve", "uniform:0:1:20")
    for site in SITES:
        answer(run, site)
    run("calibrate", "plan.json", *(f"{site}.json" for site in SITES), "-o", "calibration.json")
    for site in SITES:
        shown = check(run, site, "march.csv", "--period", "2027-03")
        assert "masked so that only the sum over 4 sites can be read" in shown.err
    later = [f"later-{site}.json" for site in SITES]
    (row,) = json.loads(run("watch", "calibration.json", *later, "--json").out)["rows"]
    assert (row["site"], row["n"]) == (None, 360)
    assert "'east' did not answer" in run("watch", "calibration.json", *later[:3], code=2).err
    assert (
        "--masked goes with --sign-with"
        in run("check", "calibration.json", "north.csv", "--site", "north", "--masked", code=2).err
    )
    assert "nearly the same cases" in check(run, "north", "march.csv", code=2).err
    for site in SITES:
        check(run, site, "later.csv")
    assert "No significant shortfall of all sites together" in run("compare", "calibration.json", *later).out
    given = [part for file in later for part in ("--check", file)]
    run("certificate", "calibration.json", *given, "-o", "certificate.html")
    assert "all sites together" in Path("certificate.html").read_text()
