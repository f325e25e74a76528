"""The case study of four hospitals."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedconformal.experiments import DATA_FOLDER, MissingDataError, _data
from fedconformal.experiments import _hospitals as study
from fedconformal.experiments._cases import cases_page
from fedconformal.experiments._methods import plan_text

FOLDER = os.environ.get(DATA_FOLDER)
needs_data = pytest.mark.skipif(
    FOLDER is None or not all(f.is_here(Path(FOLDER)) for f in study.FILES),
    reason="the patients are not here",
)


def drawn(seed, sizes):
    """Hospitals that are alike, and whose model is good: healthy and sick patients by size."""
    rng = np.random.default_rng(seed)
    records = {}
    for name, (healthy, sick) in sizes.items():
        truth = np.repeat(study.CLASSES, (healthy, sick))
        X = rng.normal(size=(truth.size, 13)) + 1.5 * (truth == "sick")[:, None]
        X[rng.random(X.shape) < 0.1] = np.nan
        records[name] = study.Records(X, truth)
    return records


@pytest.fixture(scope="module")
def found():
    sizes = dict.fromkeys(study.HOSPITALS, (60, 60)) | {"Switzerland": (6, 90)}
    return study.hospitals(drawn(0, sizes), level=0.9, n_splits=3, jobs=1)


def test_every_patient_of_a_third_is_counted_once_and_every_one_of_a_hospital_left_out(found):
    default = [row for row in found if row["rule"] == study.POPULATION and row["split"] == 1]
    counts = {
        part: sum(r["n"] for r in default if r["part"] == part) for part in (study.HERE, study.LEFT_OUT)
    }
    assert counts == {study.HERE: 3 * 40 + 32, study.LEFT_OUT: 3 * 120 + 96}


def test_four_hospitals_are_too_few_for_a_new_one(found):
    new = [row for row in found if row["rule"] == study.NEW]
    assert new
    assert all(row["covered"] == row["n"] and row["labels"] == 2 * row["n"] for row in new)


def test_a_class_too_rare_for_a_threshold_is_in_every_set_of_that_hospital(found):
    rare = [
        row
        for row in found
        if (row["rule"], row["hospital"], row["truth"]) == (study.OWN, "Switzerland", "healthy")
    ]
    assert len(rare) == 3
    assert all(row["covered"] == row["n"] == 2 for row in rare)


def test_thresholds_of_a_hospitals_own_have_no_answer_elsewhere(found):
    assert not [row for row in found if row["rule"] == study.OWN and row["part"] == study.LEFT_OUT]


def test_cells_add_up_over_hospitals_and_classes():
    rows = [
        {"split": s, "rule": "x", "confidence_level": 0.9, "part": study.HERE, "hospital": h, "truth": t,
         "n": 10, "covered": c, "labels": 15}
        for s, h, t, c in (
            (0, "A", "sick", 9), (0, "B", "healthy", 5), (1, "A", "sick", 7), (1, "B", "healthy", 5))
    ]  # fmt: skip
    cells = study.cells(rows)
    both = cells["x", study.HERE, study.ALL, study.ALL]
    assert (both.coverage, both.size, both.n) == (0.65, 1.5, 40)
    assert both.error == pytest.approx(np.std([14, 12], ddof=1) / np.sqrt(2) / 20)
    steady = cells["x", study.HERE, "B", "healthy"]
    assert steady.error == 0
    assert steady.short
    assert not cells["x", study.HERE, "A", "sick"].short  # 0.8 with an error of 0.1


def test_the_page_names_who_is_short_and_says_when_it_is_a_quick_look(found):
    page = cases_page(found, [], quick=True)
    assert "**This is a quick look" in page.split("##", maxsplit=1)[0]
    assert "`fedconformal reproduce hospitals --quick`" in page
    assert "## 65 schools" not in page
    assert "**This is a quick look" not in cases_page(found, [], quick=False)


def test_missing_files_are_named_with_their_address(tmp_path, monkeypatch):
    monkeypatch.setattr(_data, "cache_folder", lambda: tmp_path / "cache")
    with pytest.raises(
        MissingDataError, match=r"hospitals: heart/processed.cleveland.data .*archive.ics.uci.edu"
    ):
        study.load_hospitals(folder=tmp_path)


def test_the_page_of_the_documentation_is_no_older_than_its_plans():
    """A plan depends on how many healthy and sick patients each hospital has, and on nothing else."""
    page = (Path(__file__).parents[2] / "docs/cases.md").read_text()
    counts = {"Cleveland": (164, 139), "Hungary": (188, 106), "Switzerland": (8, 115), "VA": (51, 149)}
    truths = {name: np.repeat(study.CLASSES, found) for name, found in counts.items()}
    rng = np.random.default_rng(0)
    seconds = {name: truth[study._thirds(truth, rng)[1]] for name, truth in truths.items()}
    sites = {name: study.Cases(np.zeros((len(truth), 2)), truth) for name, truth in seconds.items()}
    planned = [rule for rule in study.RULES if rule.plan is not None]
    assert len(planned) == 9
    for rule in planned:
        line = f"| {rule.name} | {plan_text(rule.plan(sites, rule.level or 0.9))} |"
        assert line in page, "the plan has changed since docs/cases.md was made: run 'make results'"


@needs_data
def test_the_published_file_and_the_copy_with_its_gaps_filled_are_the_same_patients(tmp_path):
    (tmp_path / "heart").mkdir()
    for file in study.FILES:
        (tmp_path / file.path).write_bytes((Path(FOLDER) / file.path).read_bytes())
    path = tmp_path / study.FILES[0].path
    lines = [line.split(",") for line in path.read_text().split()]
    for row, column in study._GAPS:
        lines[row][column] = "?"
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    published, filled = (study.load_hospitals(folder=Path(where)) for where in (tmp_path, FOLDER))
    for name in study.HOSPITALS:
        assert np.array_equal(published[name].X, filled[name].X, equal_nan=True)
        assert np.array_equal(published[name].truth, filled[name].truth)
    assert [len(found.truth) for found in filled.values()] == [303, 294, 123, 200]
    assert [round(float((found.truth == "sick").mean()), 2) for found in filled.values()] == [
        0.46,
        0.36,
        0.93,
        0.74,
    ]


@needs_data
def test_one_threshold_leaves_out_the_healthy_of_one_hospital_and_own_thresholds_do_not():
    """Four splits of the real patients, so that the seeds are fixed: nothing is left to chance."""
    rules = [rule for rule in study.RULES if rule.name in (study.POPULATION, study.OWN)]
    rows = study.hospitals(
        study.load_hospitals(folder=Path(FOLDER)), level=0.9, n_splits=4, rules=rules, jobs=1
    )
    cells = study.cells(rows)
    assert cells[study.POPULATION, study.HERE, "VA", "healthy"].coverage < 0.75
    assert cells[study.OWN, study.HERE, "VA", "healthy"].coverage > 0.85
