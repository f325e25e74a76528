"""``fedconformal report``: what leaves, from which files, and what is refused."""

import math

import numpy as np
import pytest

import fedconformal as fc


def test_what_leaves_is_shown(desk, run):
    shown = run("report", "plan.json", "A.csv", "--site", "A", "-o", "A.json").err
    assert "everything that leaves" in shown
    assert shown.startswith(
        "This plan asks for 1 of your 40 scores (the 37th smallest), and for their"
        " number.\n"
    )
    assert (desk / "A.json").read_text().strip() in shown


@pytest.mark.parametrize(
    "account", [(), ("--ledger", "site.db", "--dataset", "D", "--policy", "site.toml")]
)
def test_a_person_is_asked_before_a_file_is_written(desk, run, monkeypatch, account):
    fc.Ledger.create("site.db").set_budget("D", 100)
    (desk / "site.toml").write_text("private_only = false\n")
    questions = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(
        "typer.confirm", lambda question, **_: questions.append(question)
    )
    run("report", "plan.json", "A.csv", "--site", "A", *account, "-o", "north.json")
    assert questions == ["Write north.json?"]
    assert (desk / "north.json").exists()


class TestRequest:
    """A sentence for the data owner, before the report itself."""

    def said(self, run, *options, plan="p.json"):
        return run(
            "report", plan, "A.csv", "--site", "A", *options, "--yes"
        ).err.splitlines()[0]

    def test_several_numbers_and_levels_that_share_a_rank(self, desk, run):
        run("plan", "--points", "A=40,B=60", "--numbers", 3, "-o", "p.json")
        assert self.said(run).startswith("This plan asks for 3 of your 40 scores (the ")
        levels = ["--confidence-level", 0.9, "--confidence-level", 0.902, "--paper"]
        run("plan", "--points", "A=40,B=60", *levels, "-o", "p.json", "--force")
        assert (
            self.said(run)
            == "This plan asks for 1 of your 40 scores (the 37th smallest), and for"
            " their number."
        )

    def test_no_score_at_all(self, desk, run):
        run("plan", "--confidence-level", 0.99, "-o", "p.json")
        assert (
            self.said(run)
            == "This plan asks for none of your 40 scores, and for their number."
        )

    def test_random_cases(self, desk, run):
        run("plan", "--promise", "new-site", "--numbers", 2, "-o", "p.json")
        assert (
            self.said(run)
            == "This plan asks for 2 of your 40 scores, drawn at random, and for their"
            " number."
        )

    def test_exact_counts_leave_if_the_policy_allows_them(self, desk, run):
        run(
            "plan", "--points", "A=40,B=60", "--curve", "uniform:0:5:20", "-o", "p.json"
        )
        assert (
            'curves = "plain" would allow it'
            in run("report", "p.json", "A.csv", "--site", "A", code=2).err
        )
        (desk / "site.toml").write_text('curves = "plain"\n')
        asked = (
            "This plan asks for the counts of your 40 scores in 20 cells, which show"
            " every score up to the width of a cell, and for their number."
        )
        assert self.said(run, "--policy", "site.toml", "-o", "A.json") == asked
        counts = fc.Bins.uniform(0, 5, 20).place(np.loadtxt("A.csv", skiprows=1))
        assert fc.Report.read("A.json").payload.counts == tuple(counts)

    @pytest.mark.parametrize(
        ("options", "asked"),
        [
            ((), "50 counts of your 40 scores, with noise of epsilon 4"),
            (
                ("--paper",),
                "one cell near a quantile of your 40 scores, drawn with epsilon 4",
            ),
        ],
    )
    def test_private(self, desk, run, options, asked):
        private = [
            "--epsilon",
            4,
            "--bins",
            "uniform:0:8:50",
            "--confidence-level",
            0.5,
            *options,
        ]
        run("plan", "--points", "A=40,B=40,C=40", *private, "-o", "p.json")
        fc.Ledger.create("site.db").set_budget("D", 100)
        account = ("--ledger", "site.db", "--dataset", "D", "--decimal", ".")
        costs = "It costs epsilon 4 of the 100 that are left."
        assert (
            self.said(run, *account)
            == f"This plan asks for {asked}, and for their number. {costs}"
        )
        assert "It costs nothing: the ledger holds the answer" in self.said(
            run, *account
        )

    def test_a_site_that_is_not_asked_is_told_so(self, desk, run):
        run("plan", "--points", "A=40,B=4000", "-o", "p.json")
        error = run("report", "p.json", "A.csv", "--site", "A", code=2).err
        assert "the plan does not ask site 'A'" in error


class TestScoreFiles:
    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("missing.csv", None, "missing.csv: no such file"),
            ("empty.csv", b"", "empty.csv: is empty"),
            ("header.csv", b"score\n", "no scores"),
            ("two.csv", b"a,b\n1,2\n", "2 columns (a, b): choose one with --column"),
            ("junk.parquet", b"PAR1junk", "cannot be read as Parquet"),
            ("junk.npy", b"junk", "cannot be read as .npy"),
            ("scores.doc", b"1", "must end with one of"),
        ],
    )
    def test_what_cannot_be_read(self, desk, run, name, content, words):
        if content is not None:
            (desk / name).write_bytes(content)
        assert (
            words
            in run(
                "report", "plan.json", name, "--site", "A", "-o", "out.json", code=2
            ).err
        )
        assert not (desk / "out.json").exists()
        assert sorted(path.name for path in desk.glob(".*")) == []

    def test_integers_one_score_and_ties(self, desk, run):
        run("plan", "-o", "open.json")
        for name, text in [
            ("int.csv", "3\n1\n2\n"),
            ("one.csv", "7\n"),
            ("same.csv", "score\n" + "1\n" * 50),
        ]:
            (desk / name).write_text(text)
            run("report", "open.json", name, "--site", "A", "-o", name + ".json")
        assert fc.Report.read("int.csv.json").n == 3
        assert fc.Report.read("one.csv.json").payload.levels[0].values == (math.inf,)
        np.save("ties.npy", np.arange(100_000) % 3)
        run("report", "open.json", "ties.npy", "--site", "A", "-o", "ties.json")
        assert fc.Report.read("ties.json").payload.levels[0].values == (2.0,)

    def test_no_such_column_and_a_directory(self, desk, run):
        assert (
            "no column 'x'; there are score"
            in run(
                "report", "plan.json", "A.csv", "--site", "A", "--column", "x", code=2
            ).err
        )
        assert (
            "is a directory"
            in run("report", "plan.json", ".", "--site", "A", code=2).err
        )
        assert "directory" in run("report", ".", "A.csv", "--site", "A", code=2).err


class TestCases:
    """Truth and predictions instead of scores."""

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--target", "y"], "--target needs --prediction"),
            (["--prediction", "guess"], "--prediction goes with --target"),
            (
                ["--target", "y", "--prediction", "guess", "--column", "y"],
                "give one of them",
            ),
            (["--target", "z", "--prediction", "guess"], "no column 'z'"),
            (["--target", "y", "--prediction", "text"], "must hold numbers"),
        ],
    )
    def test_mistakes_get_one_line(self, desk, run, options, words):
        (desk / "cases.csv").write_text("y,guess,text\n1,2,a\n2,2,b\n3,2,c\n9,3,d\n")
        run("plan", "--points", "A=4", "--score", "absolute", "-o", "abs.json")
        assert (
            words
            in run(
                "report", "abs.json", "cases.csv", "--site", "A", *options, code=2
            ).err
        )

    def test_columns_are_asked_for_by_name(self, desk, run):
        (desk / "cases.csv").write_text(
            "y,guess,age\n1,2,old\n2,2,young\n3,2,old\n9,3,old\n"
        )
        run("plan", "--points", "A=4", "--score", "absolute", "-o", "abs.json")
        error = run("report", "abs.json", "cases.csv", "--site", "A", code=2).err
        assert (
            "cases.csv: 3 columns (y, guess, age): name the column of the truth with"
            " --target" in error
        )
        assert "with --prediction (score 'absolute' needs one column" in error

    def test_a_plan_that_fixes_no_score(self, desk, run):
        error = run(
            "report", "plan.json", "A.csv", "--site", "A", "--target", "y", code=2
        ).err
        assert "fixes the score" in error


def test_wrong_site_or_size(desk, run):
    assert (
        "--site must be one of the plan's, 'A', 'B', 'C', got 'Z'"
        in run("report", "plan.json", "A.csv", "--site", "Z", code=2).err
    )
    assert (
        "expects 60 scores from site 'B', got 40"
        in run("report", "plan.json", "A.csv", "--site", "B", code=2).err
    )
    assert "--site" in run("report", "plan.json", "A.csv", code=2).err
