"""A masked round on the command line: keys, plan, policies, reports, calibration,
verification.
"""

import pytest

import fedconformal as fc

SITES = ("north", "south", "west", "east")


@pytest.fixture
def federation(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = {site: run("keys", "new", site).out.split()[-1] for site in SITES}
    for i, site in enumerate(SITES):
        (tmp_path / f"{site}.csv").write_text(
            "score,case\n"
            + "\n".join(f"{(j * 37 + i) % 100 / 100},{site} {j}" for j in range(90))
        )
        (tmp_path / f"{site}.toml").write_text(f"sum_with = {[*keys.values()]}\n")
    listed = [part for site, key in keys.items() for part in ("--key", f"{site}={key}")]
    sizes = ",".join(f"{site}=90" for site in SITES)
    (tmp_path / "model.bin").write_bytes(b"weights")
    return [
        "plan",
        "--points",
        sizes,
        *listed,
        "--masked",
        "--term",
        "model=model.bin",
        "-o",
        "plan.json",
    ]


def answer(run, site, *options, code=0):
    files = (
        "plan.json",
        f"{site}.csv",
        "--column",
        "score",
        "--site",
        site,
        "--sign-with",
        f"{site}.key",
    )
    usual = (
        "--model",
        "model.bin",
        "--policy",
        f"{site}.toml",
        "-y",
        "-o",
        f"{site}.json",
    )
    return run("report", *files, *usual, *options, code=code)


def test_a_masked_round(run, federation):
    assert "Every site must answer" in run(*federation, "--curve", "uniform:0:1:20").out
    for site in SITES:
        assert "only the sum over 4 sites can be read" in answer(run, site).err
    reports = [f"{site}.json" for site in SITES]
    missing = run("calibrate", "plan.json", *reports[:3], code=2).err
    assert "needs every site, and 'east' did not answer" in missing
    assert (
        "masked"
        in run("calibrate", "plan.json", *reports, "-o", "calibration.json").out
    )
    checks = [part for report in reports for part in ("--reports", report)]
    assert (
        "the sum follows from the reports"
        in run("verify", "calibration.json", *checks).out
    )


def test_bearers_are_asked_for_with_the_bins(run, federation):
    run(*federation, "--epsilon", "1", "--bins", "uniform:0:1:20:bearers=2")
    assert fc.Plan.read("plan.json").message.bearers == ("north", "south")


def test_sites_that_the_policy_does_not_name(run, federation, tmp_path):
    run(*federation, "--curve", "uniform:0:1:20")
    (tmp_path / "north.toml").write_text("")
    assert "sum_with must list" in answer(run, "north", code=2).err
    assert not (tmp_path / "north.json").exists()


def test_identifiers_tell_the_same_cases_from_others(run, federation, tmp_path):
    plan = [*federation, "--curve", "uniform:0:1:20", "--force"]
    run(*plan)
    answer(run, "north", "--identifier", "case")
    (tmp_path / "model.bin").write_bytes(b"new weights")
    run(*plan)
    assert (
        "nothing shows whether these are the same cases"
        in answer(run, "north", "--force", code=2).err
    )
    answer(run, "north", "--identifier", "case", "--force")
    text = (tmp_path / "north.csv").read_text().replace("north 7", "another 7", 1)
    (tmp_path / "north.csv").write_text(text)
    (tmp_path / "model.bin").write_bytes(b"newer weights")
    run(*plan)
    refused = answer(run, "north", "--identifier", "case", "--force", code=2).err
    assert "of other cases was answered before" in refused


def test_a_masked_plan_names_the_model(run, federation):
    without = [part for part in federation if part not in ("--term", "model=model.bin")]
    assert (
        "--masked goes with --term model=FILE"
        in run(*without, "--curve", "uniform:0:1:20", code=2).err
    )


def test_the_site_says_which_model_it_used(run, federation, tmp_path):
    run(*federation, "--curve", "uniform:0:1:20")
    (tmp_path / "model.bin").write_bytes(b"other weights")
    assert "another model" in answer(run, "north", code=2).err
