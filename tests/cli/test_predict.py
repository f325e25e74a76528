"""``fedconformal predict``: which columns go in, which come out."""

import io
import json
import sys
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

import fedconformal as fc


@pytest.fixture(autouse=True)
def calibration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = fc.plan(confidence_level=0.8)
    reports = [fc.report(plan, np.arange(20.0), site=name) for name in "AB"]
    (tmp_path / "c.json").write_text(fc.calibrate(plan, reports).to_json())


@pytest.mark.parametrize("option", ["--column", "--prediction"])
def test_other_columns_pass_through_unchanged(run, tmp_path, option):
    """Whoever has said --prediction to a report may say it here."""
    (tmp_path / "p.csv").write_text("id,prediction\n007,1.5\n")
    run("predict", "c.json", "p.csv", option, "prediction", "-o", "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("007,1.5,")
    run("predict", "c.json", "p.csv", option, "prediction", "-o", "out.parquet")
    assert pl.read_parquet("out.parquet")["prediction"].to_list() == [1.5]
    again = run("predict", "c.json", "out.parquet", option, "prediction", "--only").out
    assert again.splitlines()[0] == "lower,upper"


def test_no_column_is_overwritten(run, tmp_path):
    (tmp_path / "p.csv").write_text("prediction,lower\n1,2\n")
    order = [
        "predict",
        "c.json",
        "p.csv",
        "--score",
        "absolute",
        "--column",
        "prediction",
    ]
    assert "has a column 'lower' already" in run(*order, code=2).err
    assert run(*order, "--only").out.splitlines()[0] == "lower,upper"


def test_a_name_says_what_is_in_a_file(run, tmp_path):
    (tmp_path / "p.csv").write_text("prediction\n1.5\n")
    order = ["predict", "c.json", "p.csv", "--score", "absolute"]
    assert ".csv or .parquet" in run(*order, "-o", "out.xlsx", code=2).err
    assert "must end with .csv or .parquet" in run(*order, "-o", "out.npy", code=2).err


def test_a_score_says_which_columns_it_needs(run, tmp_path):
    (tmp_path / "p.csv").write_text("a,b,c\n1,2,3\n")
    error = run("predict", "c.json", "p.csv", "--score", "absolute", code=2).err
    assert "p.csv: score 'absolute' needs one column" in error
    assert "got 3 columns (a, b, c): choose them with --column" in error
    assert "give --score" in run("predict", "c.json", "p.csv", code=2).err
    out = run(
        "predict",
        "c.json",
        "p.csv",
        "--score",
        "normalized",
        "--column",
        "a",
        "--column",
        "b",
    ).out
    assert out.splitlines()[0] == "a,b,c,lower,upper"


def test_a_score_with_parameters_where_the_plan_fixes_none(run, tmp_path):
    (tmp_path / "p.csv").write_text("x,y\n0.6,0.4\n")
    order = ["predict", "c.json", "p.csv", "--json", "--score"]
    (row,) = json.loads(run(*order, "raps:penalty=100,k_reg=1").out)
    assert (row["in_set_x"], row["in_set_y"]) == (True, False)
    (row,) = json.loads(run(*order, "raps:penalty=1,k_reg=1").out)
    assert (row["in_set_x"], row["in_set_y"]) == (True, True)


def test_the_score_of_the_plan_is_not_replaced(run, tmp_path):
    plan = fc.plan(
        n_points={"A": 20}, confidence_level=0.8, score={"name": "raps", "penalty": 0.5}
    )
    found = fc.calibrate(plan, [fc.report(plan, np.arange(20.0), site="A")])
    (tmp_path / "raps.json").write_text(found.to_json())
    (tmp_path / "p.csv").write_text("x,y\n0.6,0.4\n")
    run("predict", "raps.json", "p.csv", "--score", "raps")
    for other in (["--score", "aps"], ["--score", "raps:penalty=1"]):
        assert (
            "the plan fixes the score, raps"
            in run("predict", "raps.json", "p.csv", *other, code=2).err
        )


def test_a_column_that_csv_cannot_hold_is_refused_in_one_line(run):
    pl.DataFrame({"prediction": [1.0], "stay": [timedelta(hours=3)]}).write_parquet(
        "stay.parquet"
    )
    options = [
        "predict",
        "c.json",
        "stay.parquet",
        "--column",
        "prediction",
        "--score",
        "absolute",
    ]
    assert "cannot be written as CSV: datatype duration" in run(*options, code=2).err
    run(*options, "--only")


def test_a_terminal_without_the_characters_is_named(run, tmp_path, monkeypatch):
    (tmp_path / "p.csv").write_text("prédiction\n1.5\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    order = ["predict", "c.json", "p.csv", "--score", "absolute"]
    assert (
        r"ascii, has no '\xe9': set PYTHONIOENCODING=utf-8" in run(*order, code=2).err
    )
