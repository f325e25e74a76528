"""Thresholds by true class, and of each site's own, with files."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedconformal as fc

MIX = {"north": (60, 140), "west": (120, 40)}
SIZES = ("--group", "sick:north=60,west=120", "--group", "well:north=140,west=40")
CASES = ("--target", "truth", "--prediction", "p_well", "--prediction", "p_sick")


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Cases of two sites, with columns in another order than the plan's, and the truth
    in words.
    """
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for site, sizes in MIX.items():
        truth = np.repeat(["sick", "well"], sizes)
        chance = 1 / (
            1
            + np.exp(-(rng.normal(size=truth.size) + np.where(truth == "sick", 1, -1)))
        )
        frame = pl.DataFrame({"p_well": 1 - chance, "truth": truth, "p_sick": chance})
        frame.write_csv(f"{site}.csv")
        frame.drop("truth").write_csv(f"{site}_new.csv")
        frame.with_columns(
            score=pl.when(pl.col("truth") == "sick").then(1 - chance).otherwise(chance)
        ).select("score", "truth").write_csv(f"{site}_scores.csv")
    return tmp_path


@pytest.fixture
def calibrated(desk, run):
    """The calibration of a plan with these options, from the files of both sites."""

    def calibrated(*options):
        run("plan", *SIZES, "--score", "lac", *options, "-o", "plan.json", "--force")
        for site in MIX:
            order = [
                "report",
                "plan.json",
                f"{site}.csv",
                "--site",
                site,
                *CASES,
                "-o",
                f"{site}.json",
            ]
            run(*order, "-y", "--force")
        run(
            "calibrate",
            "plan.json",
            "north.json",
            "west.json",
            "-o",
            "calibration.json",
            "--force",
        )
        return fc.Calibration.read("calibration.json")

    return calibrated


def scores_of(site):
    table = pl.read_csv(f"{site}_scores.csv")
    return table["score"].to_numpy(), table["truth"].to_list()


def assert_same_thresholds(found, expected):
    for part, other in zip(found.parts, expected.parts, strict=True):
        assert part.thresholds == pytest.approx(other.thresholds, rel=1e-12)


def test_by_class(calibrated, run):
    found = calibrated("--group-by", "class")
    plan = fc.plan(
        groups={"sick": {"north": 60, "west": 120}, "well": {"north": 140, "west": 40}},
        group_by="class",
        score="lac",
    )
    assert found.plan == plan
    reports = [
        fc.report(plan, scores_of(s)[0], groups=scores_of(s)[1], site=s) for s in MIX
    ]
    assert_same_thresholds(found, fc.calibrate(plan, reports))
    run("predict", "calibration.json", "north_new.csv", "-o", "sets.csv")
    table = pl.read_csv("sets.csv")
    expected = found.predict_set(table.select("p_well", "p_sick"))
    assert (table.select("in_set_p_well", "in_set_p_sick").to_numpy() == expected).all()
    assert run(
        "verify",
        "calibration.json",
        "--reports",
        "north.json",
        "--reports",
        "west.json",
    ).out.endswith("\nverified\n")
    out = run("plan", *SIZES, "--group-by", "class").out
    assert out.startswith("2 classes; criterion stable")
    assert "Classes, in the order of columns: sick, well." in out


def test_scores_with_their_classes(calibrated, run):
    expected = calibrated("--group-by", "class")
    order = [
        "report",
        "plan.json",
        "north_scores.csv",
        "--site",
        "north",
        "-o",
        "other.json",
        "-y",
    ]
    assert "name the column of the true class with --group" in run(*order, code=2).err
    run(*order, "--group", "truth")
    again = fc.calibrate(
        expected.plan, [fc.Report.read("other.json"), fc.Report.read("west.json")]
    )
    assert_same_thresholds(again, expected)


def test_check_by_class(calibrated, run):
    found = calibrated("--group-by", "class")
    out = run("check", "calibration.json", "west.csv", *CASES).out
    scores, truth = scores_of("west")
    for label, n in zip(("sick", "well"), MIX["west"], strict=True):
        inside = sum(
            score <= found[label].threshold * (1 + 1e-12)
            for score, of in zip(scores, truth, strict=True)
            if of == label
        )
        assert f"{inside} of {n}" in out


def test_each_class_at_each_site(calibrated, run):
    found = calibrated("--group-by", "site,class")
    assert found.plan.groups == (
        "north: sick",
        "north: well",
        "west: sick",
        "west: well",
    )
    order = ["predict", "calibration.json", "west_new.csv"]
    assert (
        "--site must be given: every site has its own threshold"
        in run(*order, code=2).err
    )
    assert "got 'east'" in run(*order, "--site", "east", code=2).err
    run(*order, "--site", "west", "-o", "sets.csv")
    table = pl.read_csv("sets.csv")
    expected = found.predict_set(table.select("p_well", "p_sick"), site="west")
    assert (table.select("in_set_p_well", "in_set_p_sick").to_numpy() == expected).all()
    assert (
        "west: well"
        in run("check", "calibration.json", "west.csv", "--site", "west", *CASES).out
    )
    assert (
        "--site must be given"
        in run("check", "calibration.json", "west.csv", *CASES, code=2).err
    )


def test_a_group_that_is_the_truth_is_noticed(desk, run):
    run("plan", *SIZES, "--score", "lac", "-o", "plan.json")
    order = [
        "report",
        "plan.json",
        "north.csv",
        "--site",
        "north",
        *CASES,
        "--group",
        "truth",
    ]
    said = run(*order, code=2).err
    assert "--group truth is the truth, which nobody knows of new cases" in said
    assert "plan --group-by class" in said


class TestMistakes:
    def test_a_class_that_the_plan_does_not_have(self, desk, run):
        run("plan", *SIZES, "--group-by", "class", "--score", "lac", "-o", "plan.json")
        text = (
            (desk / "north.csv")
            .read_text()
            .replace("sick,", "ill,")
            .replace("p_ill,", "p_sick,")
        )
        (desk / "north.csv").write_text(text)
        said = run(
            "report", "plan.json", "north.csv", "--site", "north", *CASES, code=2
        ).err
        assert (
            "column 'truth': must hold classes of the plan, 'sick', 'well', got 'ill'"
            " in 60 of 200 rows" in said
        )

    def test_names_and_numbers_of_classes_do_not_mix(self, tmp_path, run, monkeypatch):
        monkeypatch.chdir(tmp_path)
        run("plan", "--points", "A=3,B=3", "--score", "lac", "-o", "plan.json")
        order = (
            "report",
            "plan.json",
            "t.csv",
            "--site",
            "A",
            "--target",
            "y",
            "--prediction",
            "sick,well",
        )
        for truth in (["0", "1", "0"], ["sick", "well", "sick"]):
            pl.DataFrame(
                {"y": truth, "sick": [0.5, 0.2, 0.9], "well": [0.5, 0.8, 0.1]}
            ).write_csv("t.csv")
            run(*order, "-o", "A.json", "--force")
        pl.DataFrame(
            {"y": ["sick", "1", "sick"], "sick": [0.5] * 3, "well": [0.5] * 3}
        ).write_csv("t.csv")
        assert (
            "'sick', 'well', got '1' in 1 of 3 rows, first in line 3"
            in run(*order, code=2).err
        )

    def test_columns_that_are_not_the_classes(self, calibrated, run):
        calibrated("--group-by", "class")
        pl.DataFrame({"x": [0.5], "y": [0.5]}).write_csv("other.csv")
        said = run("predict", "calibration.json", "other.csv", code=2).err
        assert (
            "columns must be named after the classes, 'sick', 'well', in any order, got"
            " 'x', 'y'" in said
        )
        np.save("other.npy", np.array([[0.9, 0.1]]))
        sets = run("predict", "calibration.json", "other.npy", "--only").out
        assert sets.splitlines()[0] == "in_set_column_1,in_set_column_2"

    def test_they_get_one_line(self, calibrated, run):
        calibrated("--group-by", "class")
        Path("calibration.json").rename("c.json")
        report = (
            "report",
            "plan.json",
            "north.csv",
            "--site",
            "north",
            *CASES,
            "--group",
            "p_sick",
        )
        for arguments, words in [
            (
                ("plan", "--group-by", "class", "--points", "30,40"),
                "--group-by class needs the classes",
            ),
            (
                ("plan", "--group-by", "site", "--points", "30,40"),
                "--group-by 'site' needs the names of the sites",
            ),
            (
                ("plan", *SIZES, "--group-by", "class", "--term", "classes=sick"),
                "classes must be the labels of groups",
            ),
            (
                ("plan", *SIZES, "--group-by", "class", "--score", "absolute"),
                "score must be one of classes",
            ),
            (
                ("predict", "c.json", "north_new.csv", "--group", "p_sick"),
                "nobody knows of new cases",
            ),
            (
                ("predict", "c.json", "north_new.csv", "--site", "north"),
                "site must be left out",
            ),
            (report, "or the truth"),
        ]:
            assert words in run(*arguments, code=2).err


def test_thresholds_of_each_sites_own(desk, run):
    lac = ["--score", "lac", "--term", "classes=sick,well"]
    order = ["plan", "--points", "north=200,west=160", "--group-by", "site", *lac]
    assert run(*order, "-o", "plan.json").out.startswith("2 sites; criterion stable")
    for site in MIX:
        run(
            "report",
            "plan.json",
            f"{site}.csv",
            "--site",
            site,
            *CASES,
            "-o",
            f"{site}.json",
            "-y",
        )
    run("calibrate", "plan.json", "north.json", "west.json", "-o", "calibration.json")
    found = fc.Calibration.read("calibration.json")
    run(
        "predict",
        "calibration.json",
        "west_new.csv",
        "--site",
        "west",
        "-o",
        "sets.csv",
    )
    table = pl.read_csv("sets.csv")
    assert (
        table["in_set_p_sick"].to_numpy()
        == (1 - table["p_sick"].to_numpy() <= found["west"].threshold)
    ).all()
    assert (
        "west"
        in run("check", "calibration.json", "west.csv", "--site", "west", *CASES).out
    )
