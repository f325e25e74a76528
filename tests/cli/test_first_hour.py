"""What people meet in their first hour: their own files, words they typed, pipes."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedconformal as fc
from fedconformal.cli import main
from fedconformal.scores import SCORES

RNG = np.random.default_rng(7)
N = 12
TRUTH, GUESS = np.round(RNG.normal(100, 20, size=(2, N)), 4)
SIGMA = np.round(RNG.uniform(1, 3, size=N), 3)
SHARES = np.round(RNG.dirichlet([2, 2, 2], size=N), 3)
SHARES[:, 2] = np.round(1 - SHARES[:, 0] - SHARES[:, 1], 3)
CLASSES = ("gutartig", "bösartig", "unklar")
LABELS = [CLASSES[i] for i in RNG.integers(3, size=N)]

KINDS = {
    "absolute": ({"truth": TRUTH}, {"guess": GUESS}),
    "normalized": ({"truth": TRUTH}, {"mean": GUESS, "sigma": SIGMA}),
    "cqr": ({"truth": TRUTH}, {"low": GUESS - 10, "high": GUESS + 10}),
    "lac": ({"diagnosis": LABELS}, dict(zip(CLASSES, SHARES.T, strict=True))),
    "aps": ({"diagnosis": LABELS}, dict(zip(CLASSES, SHARES.T, strict=True))),
    "raps": ({"diagnosis": LABELS}, dict(zip(CLASSES, SHARES.T, strict=True))),
}
"""Truth and prediction of every kind of score, the names of classes in the truth."""


def as_text(columns, *, separator=",", decimal="."):
    """A table as some program would write it."""

    def cell(value):
        text = (
            value
            if isinstance(value, str)
            else repr(round(float(value), 4)).replace(".", decimal)
        )
        return f'"{text}"' if separator in text else text

    rows = [
        separator.join(map(cell, row)) for row in zip(*columns.values(), strict=True)
    ]
    return "\n".join([separator.join(columns), *rows, ""])


class TestFiles:
    """Every kind of file, for every kind of score, gives the same report."""

    def score_of(self, name):
        truth, prediction = KINDS[name]
        score = fc.scores.from_name(name)
        table = np.round(np.stack(list(prediction.values()), axis=1), 4)
        column = next(iter(truth.values()))
        numbers = (
            [CLASSES.index(x) for x in column]
            if isinstance(column, list)
            else np.round(column, 4)
        )
        return score.score(score.truth_from(numbers), score.prediction_from(table))

    def test_scores_that_are_random_have_tests_of_their_own(self):
        assert set(SCORES) == {*KINDS, "missed-labels", "missed-pixels"}

    @pytest.mark.parametrize("name", list(KINDS))
    def test_every_dialect_and_score(self, name, tmp_path, monkeypatch, run):
        monkeypatch.chdir(tmp_path)
        truth, prediction = KINDS[name]
        plan = fc.plan(n_points={"A": N}, score=name, confidence_level=0.5)
        Path("plan.json").write_text(plan.to_json())
        expected = fc.report(plan, self.score_of(name), site="A", score=name)
        columns = ["--target", next(iter(truth)), "--prediction", ",".join(prediction)]
        styles = ((",", ".", "utf-8"), ("\t", ",", "utf-16"), (",", ",", "latin-1"))
        for separator, decimal, encoding in styles:
            table = as_text(
                {**truth, **prediction}, separator=separator, decimal=decimal
            )
            Path("cases.csv").write_bytes(table.encode(encoding))
            found = run(
                "report", "plan.json", "cases.csv", "--site", "A", *columns, "--json"
            ).out
            assert fc.Report.from_json(found) == expected, encoding

    def test_what_was_found_out_is_said_and_options_decide(self, desk, run):
        Path("g.csv").write_bytes(b"wert\n" + b"0,5\n" * 20 + b"1,75\n" * 20)
        order = ["report", "plan.json", "g.csv", "--site", "A", "--yes"]
        assert "g.csv: read with decimal commas\n" in run(*order).err
        Path("t.csv").write_text("wert\n" + "1,200\n" * 40)
        order[2] = "t.csv"
        assert "1,200 in line 2 may be a thousand or more" in run(*order, code=2).err
        report = fc.Report.from_json(run(*order, "--decimal", ",", "--json").out)
        assert report.payload.levels[0].values == (1.2,)
        assert (
            "got '1,200' in line 2: numbers here"
            in run(*order, "--decimal", ".", code=2).err
        )
        assert (
            "--decimal must be a point or a comma, got 'x'"
            in run(*order, "--decimal", "x", code=2).err
        )

    def test_predictions_with_decimal_commas(self, desk, run, reported):
        run("calibrate", "plan.json", *reported(), "-o", "c.json")
        Path("new.csv").write_text("id;prediction\n007;50,5\n008;60\n")
        run("predict", "c.json", "new.csv", "--column", "prediction", "-o", "sets.csv")
        found = pl.read_csv("sets.csv", schema_overrides={"id": pl.String})
        assert found["id"].to_list() == ["007", "008"]
        assert found["prediction"].to_list() == [50.5, 60.0]


class TestLabels:
    @pytest.fixture
    def asked(self, tmp_path, monkeypatch, run):
        """A plan for the score lac, and a way to answer it."""
        monkeypatch.chdir(tmp_path)
        Path("plan.json").write_text(
            fc.plan(n_points={"A": 3}, score="lac", confidence_level=0.5).to_json()
        )

        def asked(content, *prediction, code=0):
            Path("cases.csv").write_text(content)
            columns = [
                option for name in prediction for option in ("--prediction", name)
            ]
            order = [
                "report",
                "plan.json",
                "cases.csv",
                "--site",
                "A",
                "--target",
                "y",
                *columns,
            ]
            printed = run(*order, "--json", code=code)
            return (
                printed.err
                if code
                else fc.Report.from_json(printed.out).payload.levels[0].values[0]
            )

        return asked

    CASES = (
        "y,benign,malignant\n"
        "malignant,0.75,0.25\nbenign,0.5,0.5\nmalignant,0.125,0.875\n"
    )

    def test_names_find_their_column_in_any_order(self, asked):
        expected = asked(self.CASES, "benign,malignant")
        assert expected == 0.5
        assert asked(self.CASES, "malignant", "benign") == expected
        assert asked(self.CASES, "malignant, benign") == expected
        numbers = self.CASES.replace("\nmalignant", "\n1").replace("\nbenign", "\n0")
        assert asked(numbers, "benign", "malignant") == expected
        assert (
            asked(numbers.replace("\n1", "\n1.0e+00"), "benign", "malignant")
            == expected
        )

    def test_columns_called_by_numbers_are_names(self, asked):
        numbered = self.CASES.replace("y,benign,malignant", "y,2,1").replace(
            "\nmalignant", "\n1"
        )
        numbered = numbered.replace("\nbenign", "\n2")
        assert asked(numbered, "2,1") == asked(numbered, "1,2") == 0.5
        error = asked(numbered.replace("\n2,", "\n0,"), "1,2", code=2)
        assert (
            "must hold names of the columns of probabilities, '1', '2', got '0' in 1 of"
            " 3 rows" in error
        )

    def test_a_column_with_a_comma_in_its_name(self, asked):
        cases = self.CASES.replace("y,benign,", 'y,"benign, likely",').replace(
            "\nbenign", '\n"benign, likely"'
        )
        assert asked(cases, "benign, likely", "malignant") == 0.5

    @pytest.mark.parametrize(
        ("change", "prediction", "words"),
        [
            (
                (CASES, "y,p\n1,0.75\n0,0.25\n1,0.5\n"),
                "p",
                "score 'lac' needs one column per class",
            ),
            (
                ("\nbenign", "\nunclear"),
                "benign,malignant",
                "got 'unclear' in 1 of 3 rows, first in line 3",
            ),
            (
                ("y,benign,malignant", "y,p_benign,p_malignant"),
                "p_benign,p_malignant",
                "'p_benign', 'p_malignant', got 'benign', 'malignant' in 3 of 3 rows",
            ),
            (("", ""), "benign,benign", "the column 'benign' is named twice"),
            (("", ""), "y,benign", "--target and --prediction both name 'y'"),
        ],
    )
    def test_mistakes_get_one_line(self, asked, change, prediction, words):
        assert words in asked(self.CASES.replace(*change), prediction, code=2)

    def test_a_wrong_number_of_columns_names_them(self, run, desk):
        run("plan", "--points", "A=2", "--score", "cqr", "-o", "q.json")
        Path("cases.csv").write_text("y,low,high\n1,0,2\n2,1,3\n")
        order = ["report", "q.json", "cases.csv", "--site", "A", "--target", "y"]
        error = run(*order, "--prediction", "low", code=2).err
        assert (
            "needs two columns: the lower quantile, then the upper; got 1 column (low)"
            in error
        )
        assert "there are y, low, high" in error
        assert "needs two columns: the lower quantile" in run(*order, code=2).err


class TestLines:
    """Rows are counted one way: as lines of the file."""

    @pytest.mark.parametrize(
        ("score", "content", "words"),
        [
            (
                "absolute",
                "y,p\n1,1\n2,x\n",
                "column 'p' must hold numbers, got 'x' in line 3",
            ),
            (
                "absolute",
                "y,p\n1,1\n,2\n",
                "column 'y': NaN or empty in 1 of 2 rows, first in line 3",
            ),
            (
                "absolute",
                "y,p\n1,1\n2,inf\n",
                "column 'p' must be finite; 1 of 2 rows are not, first in line 3",
            ),
            (
                "lac",
                "y,p,q\n0,0.5,0.5\n0,0.5,0.7\n",
                "'p', 'q' must hold probabilities that sum to 1",
            ),
            (
                "lac",
                "y,p,q\n0,0.5,0.5\n0,0.5,0.7\n",
                "1 of 2 rows are not, first in line 3: 1.2",
            ),
            (
                "lac",
                "y,p,q\n0,0.5,0.5\n0.5,0.5,0.5\n",
                "column 'y' must hold class numbers",
            ),
            ("lac", "y,p,q\n0,0.5,0.5\n5,0.5,0.5\n", "first in line 3: 5"),
        ],
    )
    def test_in_all_messages(self, desk, run, score, content, words):
        run("plan", "--points", "A=2", "--score", score, "-o", "s.json")
        Path("cases.csv").write_text(content)
        columns = content.split("\n")[0].removeprefix("y,")
        order = [
            "report",
            "s.json",
            "cases.csv",
            "--site",
            "A",
            "--target",
            "y",
            "--prediction",
            columns,
        ]
        error = run(*order, code=2).err
        assert words in error
        assert "row 1" not in error

    def test_scores_that_cannot_be_ranked(self, desk, run):
        Path("s.csv").write_text("score\n1\n-inf\n")
        assert (
            "s.csv: -Infinity in 1 of 2 rows, first in line 3"
            in run("report", "plan.json", "s.csv", "--site", "A", code=2).err
        )


class TestPipes:
    def test_files_are_written_before_anything_is_printed(
        self, desk, reported, monkeypatch
    ):
        """``calibrate ... | head -3`` must not lose the file: here every print
        fails.
        """
        files = reported()

        class Closed(io.StringIO):
            def write(self, text):
                raise BrokenPipeError

            def fileno(self):
                return 1

        monkeypatch.setattr(os, "dup2", lambda *_: None)
        monkeypatch.setattr(sys, "stdout", Closed())
        monkeypatch.setattr(sys, "stderr", Closed())
        for order, output in [
            (["calibrate", "plan.json", *files], "c.json"),
            (["check", "c.json", "A.csv", "--site", "A"], "k.json"),
        ]:
            assert main([*order, "-o", output]) == 0
            assert (desk / output).read_text().endswith("}\n"), order

    def given(self, monkeypatch, path):
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(path).read_bytes()))
        )

    def test_a_dash_is_standard_input(self, desk, run, reported, monkeypatch):
        a, b, c = reported()
        expected = run("calibrate", "plan.json", a, b, c, "--json").out
        Path("calibration.json").write_text(expected)
        for position in (0, 2):
            order = ["plan.json", a, b, c]
            self.given(monkeypatch, order[position])
            order[position] = "-"
            assert run("calibrate", *order, "--json").out == expected
        for order in (
            ["verify", "-"],
            ["predict", "-", "predictions.csv"],
            ["certificate", "-", "-o", "c.html"],
            ["check", "-", "A.csv"],
        ):
            self.given(monkeypatch, "calibration.json")
            run(*order)
        for order, path in (
            (["report", "plan.json", "-", "--site", "A"], "A.csv"),
            (["predict", "calibration.json", "-"], "predictions.csv"),
            (["compare", "-", a, b, c, "--reference", "A.csv"], "plan.json"),
        ):
            self.given(monkeypatch, path)
            run(*order)
        self.given(monkeypatch, "A.csv")
        assert (
            "standard input: this is a table, not a plan"
            in run("report", "-", "A.csv", "--site", "A", code=2).err
        )

    @pytest.mark.slow
    def test_a_dash_in_an_option(self, desk, run, reported, monkeypatch):
        files = reported()
        Path("sizes.csv").write_text("site;n\nA;30\nB;40\n")
        Path("model.bin").write_bytes(b"weights")
        run("policy", "new", "site.toml")
        answer = ["report", "plan.json", "A.csv", "--site", "A"]
        for order, path in (
            (["plan", "--points", "-"], "sizes.csv"),
            (["plan", "--sites", 3, "--term", "model=-"], "model.bin"),
            (["compare", "plan.json", *files, "--reference", "-"], "A.csv"),
            (["policy", "show", "-"], "site.toml"),
            ([*answer, "--policy", "-"], "site.toml"),
        ):
            expected = run(
                *(re.sub("^(model=)?-$", rf"\1{path}", str(word)) for word in order)
            ).out
            self.given(monkeypatch, path)
            assert run(*order).out == expected, order

    def test_a_dash_stands_for_one_file(self, desk, run, monkeypatch):
        for order in (["report", "-", "-", "--site", "A"], ["calibrate", "-", "-"]):
            self.given(monkeypatch, "plan.json")
            assert (
                "standard input: is empty; - can stand for one file only"
                in run(*order, code=2).err
            )
        assert "it cannot be standard input" in run("ledger", "show", "-", code=2).err

    def test_a_dash_is_standard_output(self, desk, run, reported):
        a, b, c = reported()
        assert (
            fc.Plan.from_json(
                run("plan", "--sites", 3, "--points", 30, "-o", "-").out
            ).n_sites
            == 3
        )
        assert (
            fc.Report.from_json(
                run("report", "plan.json", "A.csv", "--site", "A", "-o", "-").out
            ).site
            == "A"
        )
        Path("c.json").write_text(run("calibrate", "plan.json", a, b, c, "-o", "-").out)
        assert fc.Calibration.read("c.json").n_answers == 3
        checked = run("check", "c.json", "A.csv", "--site", "A", "-o", "-")
        assert fc.documents.Check.from_json(checked.out).site == "A"
        assert "covered" in checked.err
        assert run("predict", "c.json", "predictions.csv", "-o", "-").out.startswith(
            "prediction,lower,upper\n"
        )
        assert run("certificate", "c.json", "-o", "-").out.startswith("<!doctype html>")
        assert run("policy", "new", "-").out.startswith(
            "# Limits on what this site discloses"
        )
        made = run("keys", "new", "-o", "-")
        assert made.out.startswith("-----BEGIN PRIVATE KEY")
        assert made.err.startswith("ed25519:")
        assert "cannot be standard output" in run("ledger", "new", "-", code=2).err
        assert not (desk / "-").exists()


class TestWrongFiles:
    def test_another_kind_is_called_by_its_name(self, desk, run, reported):
        a, *_ = reported("A")
        run("calibrate", "plan.json", a, "-o", "c.json")
        for order, words in [
            (
                ["calibrate", "plan.json", "plan.json"],
                "plan.json: this is a plan, not a report",
            ),
            (
                ["report", a, "A.csv", "--site", "A"],
                "A.json: this is a report, not a plan",
            ),
            (
                ["report", "c.json", "A.csv", "--site", "A"],
                "c.json: this is a calibration, not a plan",
            ),
            (
                ["report", "A.csv", "plan.json", "--site", "A"],
                "A.csv: this is a table, not a plan, which is JSON",
            ),
            (
                ["report", "plan.json", "plan.json", "--site", "A"],
                "plan.json: this is a plan, not a table",
            ),
            (
                ["predict", "c.json", "c.json"],
                "c.json: this is a calibration, not a table",
            ),
        ]:
            assert words in run(*order, code=2).err, order

    def test_tables_of_every_kind(self, desk, run):
        pl.DataFrame({"a": [1]}).write_parquet("t.parquet")
        np.save("t.npy", [1.0])
        Path("t.csv").write_bytes("a;b\n1;2\n".encode("utf-16"))
        for name in ("t.parquet", "t.npy", "t.csv"):
            assert (
                f"{name}: this is a table, not a plan"
                in run("report", name, "A.csv", "--site", "A", code=2).err
            )

    def test_what_is_neither_is_not_called_a_table(self, desk, run):
        for content in ("hello", "{\n1,2\n3,4", "", "[1, 2]\n[3, 4]"):
            Path("x.json").write_text(content)
            assert (
                "x.json: not a plan"
                in run("report", "x.json", "A.csv", "--site", "A", code=2).err
            )


class TestWords:
    @pytest.mark.parametrize(
        ("order", "words"),
        [
            (["--sites", 0, "--points", 9], "--sites must be between 1"),
            (["--points", 30], "--sites is needed when --points is one number"),
            (
                ["--confidence-level", 2],
                "--confidence-level must be a number in (0, 1), got 2.0",
            ),
            (
                ["--sites", 5, "--points", 30, "--max-faulty", 9],
                "--max-faulty must be below half",
            ),
            (["--sites", 5, "--points", 30, "--numbers", 99], "--numbers must be"),
            (
                ["--sites", 5, "--points", 30, "--criterion", "x"],
                "--criterion must be one of '",
            ),
            (
                ["--points", "A=120;B=40"],
                "sizes must have commas between them, as in A=120,B=40",
            ),
            (
                ["--sites", 3, "--term", "model=none.bin"],
                "fedconformal: none.bin: No such file",
            ),
        ],
    )
    def test_errors_name_what_was_typed(self, run, order, words):
        assert words in run("plan", *order, code=2).err

    def test_of_other_commands_too(self, desk, run):
        assert (
            "--model was given, but the plan names none"
            in run(
                "report",
                "plan.json",
                "A.csv",
                "--site",
                "A",
                "--model",
                "A.csv",
                code=2,
            ).err
        )

    @pytest.mark.parametrize(
        "order", [["plann"], ["plan", "--site", 3], ["keys", "neww"]]
    )
    def test_nobody_is_asked_twice_what_was_meant(self, run, order):
        assert run(*order, code=2).err.count("Did you mean") == 1

    @pytest.mark.parametrize(
        ("typed", "meant"),
        [
            ("--level", "--confidence-level"),
            ("--site", "--sites"),
            ("--faulty", "--max-faulty"),
        ],
    )
    def test_a_part_of_an_option_is_known_again(self, run, typed, meant):
        said = f"No such option '{typed}'. Did you mean '{meant}'?"
        assert said in run("plan", typed, 3, code=2).err
        assert (
            "No such option" not in run("plan", meant, code=2).err
        )  # it lacks its value

    def test_an_infeasible_plan_has_a_code_for_those_who_ask(self, desk, run):
        order = ["plan", "--sites", 3, "--points", 2]
        shown = run(*order).out
        assert "the threshold is infinite" in shown
        assert "1.0000" not in shown  # what cannot work does not look like success
        assert "The law of the coverage" not in shown
        assert (
            "the threshold is infinite"
            in run(*order, "--exit-code", "-o", "p.json", code=3).out
        )
        assert not fc.Plan.read("p.json").feasible
        run("plan", "--sites", 3, "--points", 200, "--exit-code")


def words(text):
    """All words, wherever they stand."""
    return {word.strip(":") for word in text.split()} - {"─" * n for n in range(200)}


class TestPlans:
    """What ``plan`` prints fits, and says what is promised."""

    PLANS = (
        ["--points", "north=120,south=40,west=377,east=88"],
        [
            "--points",
            "60,40,80",
            "--numbers",
            3,
            "--confidence-level",
            0.8,
            "--confidence-level",
            0.9,
        ],
        ["--points", "north=120,south=40", "--promise", "each-site"],
        ["--sites", 4, "--points", 300, "--epsilon", 4, "--bins", "uniform:0:5:20"],
        ["--sites", 10, "--points", 100, "--promise", "new-site"],
        [
            "--sites",
            10,
            "--points",
            100,
            "--max-faulty",
            1,
            "--criterion",
            "conditional",
        ],
        ["--points", "north=120,south=140", "--promise", "mixture"],
        [
            "--group",
            "old:A=40,B=70",
            "--group",
            "young:A=90,B=60",
            "--confidence-level",
            0.8,
        ],
        ["--points", "north=120,south=40", "--curve", "uniform:0:1:50"],
        ["--sites", 5, "--points", 200, "--epsilon", 10, "--score", "lac", "--paper"],
        [],
    )

    @pytest.mark.parametrize(
        "order", PLANS, ids=lambda order: " ".join(map(str, order))[:30]
    )
    def test_nothing_is_cut_and_nothing_too_wide(self, run, monkeypatch, order):
        wide = run("plan", *order).out
        monkeypatch.setenv("COLUMNS", "60")
        narrow = run("plan", *order).out
        assert max(map(len, narrow.splitlines())) <= 60
        assert "…" not in narrow
        assert words(narrow) == words(wide)
        tables = [line for line in wide.splitlines() if line.startswith("  ")]
        assert max(map(len, tables)) <= 80

    @pytest.mark.parametrize(
        ("order", "how", "sentence"),
        [
            (
                PLANS[0],
                "(exact)",
                "at least 90 % of new cases, if the model errs equally",
            ),
            (
                PLANS[2],
                "(at least, each single site)",
                "90 % of the new cases of every site that answered.",
            ),
            (
                PLANS[3],
                "(at least, with noise)",
                "at least 90 % of new cases, if the model errs equally",
            ),
            (
                PLANS[4],
                "at least (at a new site)",
                "for at least 90 % of a site's cases.",
            ),
            (
                PLANS[5],
                "(at least, with faulty sites)",
                "With 90 % certainty, the truth lies inside",
            ),
            (
                PLANS[7],
                "(exact)",
                "at least 80 % of new cases of every group, if the model errs equally",
            ),
            (
                PLANS[8],
                "coverage (at least)",
                "at least 90 % of new cases, if the model errs equally",
            ),
            (
                PLANS[9],
                "at least (with noise)",
                "at least 90 % of new cases, if the model errs equally",
            ),
        ],
    )
    def test_what_is_known_and_what_is_promised(self, run, order, how, sentence):
        shown = run("plan", *order).out
        (promised,) = [
            line for line in shown.splitlines() if line.startswith("Promised: ")
        ]
        assert sentence in promised
        head = shown.partition("──")[0].splitlines()
        place = next(line.index("coverage") for line in head if "coverage" in line)
        words = " ".join(line[place : place + 17].strip() for line in head[1:])
        assert how in " ".join(words.split()), shown


def test_completion(tmp_path):
    """The shell asks what may follow."""
    asked = {
        **os.environ,
        "_FEDCONFORMAL_COMPLETE": "complete_bash",
        "COMP_WORDS": "fedconformal cert",
        "COMP_CWORD": "1",
    }
    script = Path(sys.executable).with_name("fedconformal")
    done = subprocess.run(
        [script], env=asked, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["certificate"]
