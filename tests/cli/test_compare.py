"""``fedconformal compare``: who stands out."""

import json

import numpy as np
import pytest

import fedconformal as fc

ODD = ("03", "11", "17")


@pytest.fixture
def federation(tmp_path, monkeypatch):
    """Twenty sites of which three have larger scores, and scores of the coordinator's own."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    plan = fc.plan(n_points={f"{j:02}": 100 for j in range(20)}, confidence_level=0.9)
    (tmp_path / "plan.json").write_text(plan.to_json())
    (tmp_path / "reports").mkdir()
    for name in plan.site_names:
        scores = rng.exponential(size=100) * (3 if name in ODD else 1)
        report = fc.report(plan, scores, site=name)
        (tmp_path / "reports" / f"{name}.json").write_text(report.to_json())
    np.savetxt(tmp_path / "own.csv", rng.exponential(size=2000), header="score", comments="")
    return tmp_path


def test_who_stands_out(federation, run):
    (federation / "reports" / "broken.json").write_text("{}")
    printed = run("compare", "plan.json", "reports", "--reference", "own.csv")
    assert "3 of 20 sites stand out" in printed.out
    assert "share of the reference below" in printed.out
    assert "left out: reports/broken.json: not a report" in printed.err
    content = json.loads(run("compare", "plan.json", "reports", "--reference", "own.csv", "--json").out)
    assert {row["site"] for row in content["sites"] if row["stands_out"]} == set(ODD)
    assert content["refused"][0]["source"] == "reports/broken.json"


def test_without_a_reference(federation, run):
    out = run("compare", "plan.json", "reports").out
    assert "robust sd from the middle" in out


def test_of_several_numbers_the_middle_one_is_compared(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    plan = fc.plan(n_sites=6, n_points=80, numbers=3)
    (tmp_path / "plan.json").write_text(plan.to_json())
    (tmp_path / "reports").mkdir()
    for j in range(6):
        report = fc.report(plan, np.random.default_rng(j).exponential(size=80), site=f"{j}")
        (tmp_path / "reports" / f"{j}.json").write_text(report.to_json())
    order = ["compare", "plan.json", "reports", "--reference", "exponential"]
    assert "A site that sent several numbers is compared by the middle one.\n" in run(*order).out
    rows = {row["site"]: row["value"] for row in json.loads(run(*order, "--json").out)["sites"]}
    assert rows == {f"{j}": fc.Report.read(f"reports/{j}.json").parts[0].values[0][1] for j in range(6)}


def test_one_number_needs_no_word_about_several(federation, run):
    assert "several numbers" not in run("compare", "plan.json", "reports").out


def test_only_the_first_rows_are_shown(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    plan = fc.plan(n_sites=23, n_points=100)
    (tmp_path / "plan.json").write_text(plan.to_json())
    (tmp_path / "reports").mkdir()
    for j in range(23):
        report = fc.report(plan, np.random.default_rng(j).exponential(size=100), site=f"{j}")
        (tmp_path / "reports" / f"{j}.json").write_text(report.to_json())
    order = ["compare", "plan.json", "reports", "--reference", "exponential"]
    assert "... and 3 more sites (--json shows all)." in run(*order).out
    assert "--column goes with a file" in run(*order, "--column", "score", code=2).err


def test_one_group(group_reported, run):
    files = group_reported()
    order = ["compare", "plan.json", *files, "--reference", "exponential", "--json"]
    old = json.loads(run(*order, "--label", "old").out)
    assert [(row["site"], row["n"]) for row in old["sites"]] == [("A", 40), ("B", 70), ("C", 33)]
    young = json.loads(run(*order, "--label", "young").out)
    assert [row["value"] for row in young["sites"]] == [
        fc.Report.read(f"{site}.json")["young"].value for site in "AB"
    ]
