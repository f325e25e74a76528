"""``fedconformal compare``: who stands out."""

import json

import numpy as np
import pytest

import fedconformal as fc

ODD = ("03", "11", "17")


@pytest.fixture
def federation(tmp_path, monkeypatch):
    """Sites of which three have larger scores, and scores of the coordinator's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    rng = np.random.default_rng(4)
    np.savetxt(
        tmp_path / "own.csv", rng.exponential(size=2000), header="score", comments=""
    )

    def federation(n_sites, **options):
        plan = fc.plan(n_points={f"{j:02}": 100 for j in range(n_sites)}, **options)
        (tmp_path / "plan.json").write_text(plan.to_json())
        for name in plan.site_names:
            scores = rng.exponential(size=100) * (3 if name in ODD else 1)
            report = fc.report(plan, scores, site=name)
            (tmp_path / "reports" / f"{name}.json").write_text(report.to_json())
        return ["compare", "plan.json", "reports"]

    return federation


def test_who_stands_out(federation, run, tmp_path):
    order = [*federation(20), "--reference", "own.csv"]
    (tmp_path / "reports" / "broken.json").write_text("{}")
    printed = run(*order)
    assert "3 of 20 sites stand out" in printed.out
    assert "share of the reference below" in printed.out
    assert "the estimated power to find one with doubled scores is " in printed.out
    assert (
        "population, holds only if the model errs equally at every site. These hold"
        in printed.out
    )
    assert "even if sites differ: each-site" in printed.out
    assert "several numbers" not in printed.out
    assert "left out: reports/broken.json: not a report" in printed.err
    content = json.loads(run(*order, "--json").out)
    assert {row["site"] for row in content["sites"] if row["stands_out"]} == set(ODD)
    assert content["refused"][0]["source"] == "reports/broken.json"


def test_a_promise_that_holds_for_sites_that_differ(federation, run):
    out = run(*federation(20, promise="each-site"), "--reference", "own.csv").out
    assert "The promise of this plan, each-site, holds even if sites differ" in out


def test_without_a_reference(federation, run):
    order = federation(23)
    out = run(*order).out
    assert "robust sd from the middle" in out
    assert "... and 3 more sites (--json shows all)." in out
    assert (
        "--column goes with --reference" in run(*order, "--column", "score", code=2).err
    )


def test_of_several_numbers_the_middle_one_is_compared(federation, run):
    order = [*federation(6, numbers=3), "--reference", "own.csv"]
    assert (
        "A site that sent several numbers is compared by the middle one.\n"
        in run(*order).out
    )
    rows = {
        row["site"]: row["value"]
        for row in json.loads(run(*order, "--json").out)["sites"]
    }
    assert rows == {
        name: fc.Report.read(f"reports/{name}.json").payload.levels[0].values[1]
        for name in rows
    }


def test_one_group(group_desk, group_reported, run):
    files = group_reported()
    np.savetxt(
        "own.csv",
        np.random.default_rng(0).exponential(size=500),
        header="score",
        comments="",
    )
    order = ["compare", "plan.json", *files, "--reference", "own.csv", "--json"]
    old = json.loads(run(*order, "--label", "old").out)
    assert [(row["site"], row["n"]) for row in old["sites"]] == [
        ("A", 40),
        ("B", 70),
        ("C", 33),
    ]
