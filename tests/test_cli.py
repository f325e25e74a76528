"""The command line, as people use it: exit codes, one line for every mistake, nothing half-written."""

import contextlib
import json
import math
import os
import pty
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import fedconformal as fc
from fedconformal import _outputs
from fedconformal.cli import main

SIZES = {"A": 40, "B": 60, "C": 50}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A directory with a plan, three score files and predictions."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "plan.json").write_text(fc.plan(n_points=SIZES, confidence_level=0.9).to_json())
    for name, size in SIZES.items():
        np.savetxt(tmp_path / f"{name}.csv", rng.exponential(size=size), header="score", comments="")
    np.savetxt(tmp_path / "predictions.csv", rng.normal(size=5), header="prediction", comments="")
    return tmp_path


@pytest.fixture
def run(capsys):
    def run(*arguments, code=0):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == code
        printed = capsys.readouterr()
        if code == 2:
            assert printed.err.startswith("fedconformal: ")
            assert printed.err.count("\n") == 1, printed.err
            assert "Traceback" not in printed.err
        return printed

    return run


def reported(run, *names):
    for name in names or SIZES:
        run("report", "plan.json", f"{name}.csv", "--site", name, "-o", f"{name}.json")
    return [f"{name}.json" for name in names or SIZES]


class TestStory:
    def test_plan_report_calibrate_predict_verify(self, desk, run):
        out = run("plan", "--sites", 10, "--points", 79, "--confidence-level", 0.9, "-o", "ten.json").out
        assert "70" in out
        assert "8 of 10" in out
        assert fc.Plan.read("ten.json") == fc.plan(n_sites=10, n_points=79, confidence_level=0.9)
        files = reported(run)
        out = run("calibrate", "plan.json", *files, "-o", "calibration.json").out
        assert "3 sites answered, 0 missing" in out
        calibration = fc.Calibration.read("calibration.json")
        run("predict", "calibration.json", "predictions.csv", "-o", "intervals.csv")
        table = pl.read_csv("intervals.csv")
        assert table.columns == ["prediction", "lower", "upper"]
        width = (table["upper"] - table["lower"]).to_numpy()
        assert width == pytest.approx(2 * calibration.threshold, rel=1e-12)
        assert run("verify", "calibration.json", "--reports", ".", code=2)  # the plan lies there too
        out = run("verify", "calibration.json", *(x for file in files for x in ("--reports", file))).out
        assert out.endswith("verified\n")

    def test_json_and_nothing_else(self, desk, run):
        made = fc.Plan.from_json(run("plan", "--points", "A=40,B=60,C=50", "--json").out)
        assert made == fc.plan(n_points=SIZES, confidence_level=0.9)
        report = fc.Report.from_json(run("report", "plan.json", "A.csv", "--site", "A", "--json").out)
        assert report.site == "A"
        files = reported(run)
        calibration = fc.Calibration.from_json(run("calibrate", "plan.json", *files, "--json").out)
        run("calibrate", "plan.json", *files, "-o", "calibration.json")
        rows = json.loads(run("predict", "calibration.json", "predictions.csv", "--json").out)
        assert rows[0]["upper"] - rows[0]["prediction"] == pytest.approx(calibration.threshold)
        assert json.loads(run("verify", "calibration.json", "--json").out)["verified"] is True

    def test_a_silent_site_is_named(self, desk, run):
        out = run("calibrate", "plan.json", *reported(run, "A", "B"), "-o", "calibration.json").out
        assert "2 sites answered, 1 missing: C" in out

    def test_a_directory_of_reports(self, desk, run):
        (desk / "inbox").mkdir()
        for name in reported(run):
            (desk / name).rename(desk / "inbox" / name)
        run("calibrate", "plan.json", "inbox", "-o", "calibration.json")

    def test_what_leaves_is_shown(self, desk, run):
        shown = run("report", "plan.json", "A.csv", "--site", "A", "-o", "A.json").err
        assert "everything that leaves" in shown
        assert (desk / "A.json").read_text().strip() in shown

    def test_signed_reports(self, desk, run):
        public = {}
        for name in SIZES:
            public[name] = run("keys", "new", "-o", f"{name}.key").out.strip()
            assert (desk / f"{name}.key").stat().st_mode & 0o777 == 0o600
            assert run("keys", "show", f"{name}.key").out.strip() == public[name]
        keys = [x for name, key in public.items() for x in ("--key", f"{name}={key}")]
        run("plan", "--points", "A=40,B=60,C=50", *keys, "-o", "plan.json", "--force")
        for name in SIZES:
            run(
                "report",
                "plan.json",
                f"{name}.csv",
                "--site",
                name,
                "--sign-with",
                f"{name}.key",
                "-o",
                f"{name}.json",
            )
        out = run("calibrate", "plan.json", "A.json", "B.json", "C.json", "-o", "c.json").out
        assert "not authenticated" not in out
        run("verify", "c.json", "--reports", "A.json", "--reports", "B.json", "--reports", "C.json")

    def test_labels_and_quantiles(self, desk, run):
        rng = np.random.default_rng(1)
        probabilities = rng.dirichlet([1, 1, 1], size=40)
        frame = pl.DataFrame(
            {"y": rng.integers(3, size=40), **{f"p{i}": probabilities[:, i] for i in range(3)}}
        )
        frame.write_parquet("labels.parquet")
        run("plan", "--points", "A=40", "--score", "lac", "--confidence-level", 0.8, "-o", "lac.json")
        columns = ["--prediction", "p0", "--prediction", "p1", "--prediction", "p2"]
        run(
            "report",
            "lac.json",
            "labels.parquet",
            "--site",
            "A",
            "--target",
            "y",
            *columns,
            "-o",
            "lac_A.json",
        )
        run("calibrate", "lac.json", "lac_A.json", "-o", "lac_c.json")
        picks = ["--column", "p0", "--column", "p1", "--column", "p2"]
        run("predict", "lac_c.json", "labels.parquet", *picks, "--only", "-o", "sets.parquet")
        sets = pl.read_parquet("sets.parquet")
        threshold = fc.Calibration.read("lac_c.json").threshold
        assert np.array_equal(sets.to_numpy(), 1 - probabilities <= threshold)

    def test_several_levels(self, desk, run):
        run(
            "plan",
            "--sites",
            3,
            "--points",
            60,
            "--confidence-level",
            0.8,
            "--confidence-level",
            0.9,
            "-o",
            "two.json",
        )
        for name in "XYZ":
            np.save(f"{name}.npy", np.random.default_rng(ord(name)).random(60))
            run("report", "two.json", f"{name}.npy", "--site", name, "-o", f"{name}.json")
        run("calibrate", "two.json", "X.json", "Y.json", "Z.json", "-o", "two_c.json")
        out = run("predict", "two_c.json", "predictions.csv").out
        assert out.splitlines()[0] == "prediction,lower_0.8,upper_0.8,lower_0.9,upper_0.9"

    def test_open_plans_named_sites_and_a_file_of_sizes(self, desk, run):
        assert "sizes come with the reports" in run("plan", "--sites", "A,B").out
        (desk / "sizes.csv").write_text("site,n\nA,40\nB,60\nC,50\n")
        assert fc.Plan.from_json(run("plan", "--points", "sizes.csv", "--json").out).site_names == (
            "A",
            "B",
            "C",
        )
        assert "infinite" in run("plan", "--sites", 3, "--points", 2).out

    def test_version_and_help(self, run):
        assert run("--version").out.strip() == fc.__version__
        assert "calibrate" in run("--help").out


class TestPrivate:
    def test_the_whole_way(self, desk, run):
        rule = ["--epsilon", 4, "--bins", "uniform:0:8:50"]
        out = run("plan", "--sites", 3, "--points", 300, *rule, "-o", "private.json").out
        assert "expected with privacy" in out
        for name in "XYZ":
            np.save(f"{name}.npy", np.random.default_rng(ord(name)).exponential(size=300))
            run("ledger", "new", f"{name}.db")
            run("ledger", "budget", f"{name}.db", "trial", 5)
            order = [
                "report",
                "private.json",
                f"{name}.npy",
                "--site",
                name,
                "--ledger",
                f"{name}.db",
                "--dataset",
                "trial",
            ]
            run(*order, "-o", f"{name}.json")
            again = run(*order, "--json").out
            assert fc.Report.from_json(again) == fc.Report.read(f"{name}.json")
            run(*order, "--one-hot", "-o", f"{name}.hot.json")
        run("calibrate", "private.json", "X.json", "Y.json", "Z.json", "-o", "c.json")
        hot = ["X.hot.json", "Y.hot.json", "Z.hot.json"]
        run("calibrate", "private.json", *hot, "--histogram", "-o", "h.json")
        assert fc.Calibration.read("c.json").threshold == fc.Calibration.read("h.json").threshold
        run("verify", "c.json")
        accounts = json.loads(run("ledger", "show", "X.db", "--json").out)["accounts"]
        assert accounts[0]["spent"] == 4
        assert "trial" in run("ledger", "show", "X.db").out
        other = [
            "plan",
            "--sites",
            3,
            "--points",
            300,
            "--epsilon",
            3,
            "--bins",
            "log:0.01:8:50",
            "-o",
            "other.json",
        ]
        run(*other)
        refused = run(
            "report", "other.json", "X.npy", "--site", "X", "--ledger", "X.db", "--dataset", "trial", code=2
        )
        assert "trial" in refused.err
        assert "ledger" in run("report", "other.json", "X.npy", "--site", "X", code=2).err

    def test_scores_of_a_new_model_draw_on_the_old_budget_once_accepted(self, desk, run):
        run(
            "plan", "--sites", 3, "--points", 300, "--epsilon", 2, "--bins", "uniform:0:80:50", "-o", "p.json"
        )
        run("ledger", "new", "X.db")
        run("ledger", "budget", "X.db", "trial", 4)
        scores = np.random.default_rng(0).exponential(size=300)
        np.save("old.npy", scores)
        np.savetxt("new.csv", 9 * scores, header="score", comments="")
        account = ["--site", "X", "--ledger", "X.db", "--dataset", "trial", "--json"]
        first = fc.Report.from_json(run("report", "p.json", "old.npy", *account).out)
        refused = run("report", "p.json", "new.csv", *account, code=2).err
        assert "have changed" in refused
        assert "ledger accept" in refused
        run("ledger", "accept", "X.db", "trial", "new.csv", "--reason", "model 2")
        second = fc.Report.from_json(run("report", "p.json", "new.csv", *account).out)
        assert second.value > 3 * first.value
        assert json.loads(run("ledger", "show", "X.db", "--json").out)["accounts"][0]["spent"] == 4

    @pytest.mark.parametrize("bins", ["uniform:0:8", "uniform:8:0:50", "cubic:0:8:50", "uniform:a:b:c"])
    def test_bad_bins(self, run, bins):
        assert (
            "--bins" in run("plan", "--sites", 3, "--points", 300, "--epsilon", 1, "--bins", bins, code=2).err
        )
        assert "go together" in run("plan", "--sites", 3, "--points", 300, "--epsilon", 1, code=2).err


class TestBadInput:
    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("missing.csv", None, "missing.csv: no such file"),
            ("empty.csv", b"", "empty.csv: is empty"),
            ("header.csv", b"score\n", "no scores"),
            ("text.csv", b"score\n1.0\nlots\n", "column 'score' must hold numbers, got 'lots' in row 2"),
            ("nan.csv", b"score\n1.0\nnan\n\n2.0\n", "NaN or empty"),
            ("two.csv", b"a,b\n1,2\n", "2 columns (a, b): say which with --column"),
            ("binary.csv", b"\xff\xfe\x00\x01", "binary.csv:"),
            ("junk.parquet", b"PAR1junk", "cannot be read as Parquet"),
            ("junk.npy", b"junk", "cannot be read as .npy"),
            ("scores.doc", b"1", "must end with one of"),
        ],
    )
    def test_score_files(self, desk, run, name, content, words):
        if content is not None:
            (desk / name).write_bytes(content)
        assert words in run("report", "plan.json", name, "--site", "A", "-o", "out.json", code=2).err
        assert not (desk / "out.json").exists()
        assert sorted(path.name for path in desk.glob(".*")) == []

    def test_no_such_column_and_a_directory(self, desk, run):
        assert (
            "no column 'x'; there are score"
            in run("report", "plan.json", "A.csv", "--site", "A", "--column", "x", code=2).err
        )
        assert "is a directory" in run("report", "plan.json", ".", "--site", "A", code=2).err
        assert "directory" in run("report", ".", "A.csv", "--site", "A", code=2).err

    def test_wrong_site_or_size(self, desk, run):
        assert "one of the 3 sites" in run("report", "plan.json", "A.csv", "--site", "Z", code=2).err
        assert (
            "expects 60 scores from site 'B', got 40"
            in run("report", "plan.json", "A.csv", "--site", "B", code=2).err
        )

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
        assert fc.Report.read("one.csv.json").value == math.inf
        np.save("ties.npy", np.arange(100_000) % 3)
        run("report", "open.json", "ties.npy", "--site", "A", "-o", "ties.json")
        assert fc.Report.read("ties.json").value == 2.0

    def test_an_existing_output_is_kept(self, desk, run):
        (desk / "keep.json").write_text("precious")
        assert (
            "exists already"
            in run("report", "plan.json", "A.csv", "--site", "A", "-o", "keep.json", code=2).err
        )
        assert (desk / "keep.json").read_text() == "precious"
        run("report", "plan.json", "A.csv", "--site", "A", "-o", "keep.json", "--force")
        assert fc.Report.read("keep.json").site == "A"

    def test_no_place_to_write(self, desk, run):
        assert "does not exist" in run("plan", "--sites", 3, "--points", 30, "-o", "no/plan.json", code=2).err
        assert "is a directory" in run("plan", "--sites", 3, "--points", 30, "-o", ".", code=2).err
        assert "/proc" in run("plan", "--sites", 3, "--points", 30, "-o", "/proc/plan.json", code=2).err

    def test_a_failure_while_writing_leaves_nothing(self, desk, run, monkeypatch):
        def broken(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(_outputs, "_publish", broken)
        assert "No space left" in run("plan", "--sites", 3, "--points", 30, "-o", "new.json", code=2).err
        assert not (desk / "new.json").exists()
        assert not list(desk.glob(".new.json*"))

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda text: text[:-30], "not a report"),
            (lambda text: text.replace('"n": 40', '"n": 41'), "digest"),
            (lambda text: text.replace('"values": [', '"values": [NaN, '), "NaN is not allowed"),
            (lambda text: text.replace('"values": [', '"values": [1e999, '), "too large"),
            (lambda text: "[]", "object was expected"),
            (lambda text: "x" * 100_000_000, "larger than 64 MB"),
        ],
    )
    def test_broken_reports_are_all_named(self, desk, run, change, words):
        files = reported(run)
        (desk / "A.json").write_text(change((desk / "A.json").read_text()))
        error = run("calibrate", "plan.json", *files, "gone.json", "-o", "c.json", code=2).err
        assert words in error
        assert "gone.json: No such file" in error
        assert not (desk / "c.json").exists()
        out = run("calibrate", "plan.json", *files, "--skip-refused", "-o", "c.json").out
        assert "1 missing: A" in out
        assert "refused: A.json" in out

    def test_tampered_plans_and_calibrations(self, desk, run):
        files = reported(run)
        run("calibrate", "plan.json", *files, "-o", "c.json")
        text = (desk / "c.json").read_text()
        (desk / "c.json").write_text(text.replace('"n_missing": 0', '"n_missing": 1'))
        assert "digest" in run("verify", "c.json", code=2).err
        assert "digest" in run("predict", "c.json", "predictions.csv", code=2).err
        assert "not a calibration" in run("verify", "plan.json", code=2).err

    def test_usage(self, desk, run):
        assert "--site" in run("report", "plan.json", "A.csv", code=2).err
        assert (
            "confidence_level"
            in run("plan", "--sites", 3, "--points", 30, "--confidence-level", 90, code=2).err
        )
        assert "whole number" in run("plan", "--points", "3,x", code=2).err
        assert "--penalty goes with" in run("plan", "--sites", 3, "--points", 30, "--penalty", 1, code=2).err
        assert "--key" in run("plan", "--points", "A=30", "--key", "nonsense", code=2).err
        assert (
            "--score must" in run("plan", "--sites", 3, "--points", 30, "--score", "best", code=2).err or True
        )
        assert (
            "fixes the score"
            in run("report", "plan.json", "A.csv", "--site", "A", "--target", "y", code=2).err
        )
        run("nonsense", code=2)

    def test_an_infinite_threshold_predicts_the_whole_line(self, desk, run):
        run("plan", "--sites", 3, "--points", 2, "-o", "tiny.json")
        (desk / "two.csv").write_text("1\n2\n")
        for name in "XYZ":
            run("report", "tiny.json", "two.csv", "--site", name, "-o", f"{name}.json")
        run("calibrate", "tiny.json", "X.json", "Y.json", "Z.json", "-o", "c.json")
        assert "inf" in run("predict", "c.json", "predictions.csv").out
        assert json.loads(run("predict", "c.json", "predictions.csv", "--json").out)[0]["upper"] == "Infinity"
        run("verify", "c.json")


class TestVerify:
    def forged(self, path, **changes):
        calibration = fc.Calibration.read(path)
        found = calibration.levels[0].model_copy(update=changes)
        return calibration.model_copy(update={"levels": (found,)})

    def test_a_forged_rank_or_threshold_is_found(self, desk, run):
        files = reported(run)
        run("calibrate", "plan.json", *files, "-o", "c.json")
        (desk / "rank.json").write_text(self.forged("c.json", server_rank=1).to_json())
        assert run("verify", "rank.json", code=1).out.endswith("not verified\n")
        (desk / "threshold.json").write_text(self.forged("c.json", threshold=0.1).to_json())
        run("verify", "threshold.json")  # the reports are needed to see it
        with_reports = [x for file in files for x in ("--reports", file)]
        assert run("verify", "threshold.json", *with_reports, code=1).out.endswith("not verified\n")

    def test_an_answer_that_does_not_fit_the_plan(self, desk, run):
        run("calibrate", "plan.json", *reported(run), "-o", "c.json")
        calibration = fc.Calibration.read("c.json")
        first = calibration.answers[0].model_copy(update={"ranks": (40,)})
        wrong = calibration.model_copy(update={"answers": (first, *calibration.answers[1:])})
        (desk / "w.json").write_text(wrong.to_json())
        assert "instead of" in run("verify", "w.json", code=1).out
        lost = calibration.model_copy(update={"n_missing": 2})
        (desk / "l.json").write_text(lost.to_json())
        run("verify", "l.json", code=1)


def process(*arguments, cwd, **options):
    return subprocess.run(
        [sys.executable, "-m", "fedconformal", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        **options,
    )


def test_two_directories_that_share_only_files(desk):
    """The coordinator's story with real processes: only plan.json goes out, only report.json comes back."""
    (desk / "hospital").mkdir()
    (desk / "A.csv").rename(desk / "hospital" / "scores.csv")
    (desk / "hospital" / "plan.json").write_text((desk / "plan.json").read_text())
    done = process(
        "report", "plan.json", "scores.csv", "--site", "A", "-o", "report.json", cwd=desk / "hospital"
    )
    assert done.returncode == 0, done.stderr
    (desk / "hospital" / "report.json").rename(desk / "A.json")
    done = process("calibrate", "plan.json", "A.json", "-o", "calibration.json", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert "1 site answered, 2 missing: B, C" in done.stdout
    missing = process("report", "plan.json", "nothing.csv", "--site", "A", cwd=desk)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == "fedconformal: nothing.csv: no such file\n"


def test_the_demo_tells_the_whole_story(tmp_path):
    done = process("demo", "--directory", str(tmp_path), cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "site-07 stays silent" in done.stdout
    assert "verified" in done.stdout
    calibration = fc.Calibration.read(tmp_path / "calibration.json")
    assert calibration.missing == ("site-07",)
    assert calibration.law.mean() >= 0.9
    assert pl.read_csv(tmp_path / "intervals.csv").height == 72


def test_without_the_extra_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "fedconformal.cli._app", raising=False)
    assert main(["plan"]) == 2
    assert "pip install 'fedconformal[cli]'" in capsys.readouterr().err


def test_interruptions(monkeypatch, capsys):
    from fedconformal.cli import _app, _show

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_app, "show_plan", interrupted)
    assert main(["plan", "--sites", "3", "--points", "30"]) == 130
    assert capsys.readouterr().err == "fedconformal: stopped\n"
    assert _show.number(math.inf) == "infinite"


def test_a_private_answer_from_cases_never_tells_which_case_is_odd(desk, run):
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"y": [None, *rng.normal(size=299)], "yhat": [*rng.normal(size=299), math.nan]})
    frame.write_csv("cases.csv")
    rule = ["--epsilon", 4, "--bins", "uniform:0:8:50", "--score", "absolute"]
    run("plan", "--sites", 3, "--points", 300, *rule, "-o", "private.json")
    run("ledger", "new", "X.db")
    run("ledger", "budget", "X.db", "[trial]", 5)
    account = ["--ledger", "X.db", "--dataset", "[trial]"]
    cases = ["--target", "y", "--prediction", "yhat"]
    run("report", "private.json", "cases.csv", "--site", "X", *cases, *account, "-o", "X.json")
    assert "[trial]" in run("ledger", "show", "X.db").out
    run("ledger", "budget", "X.db", "[trial]", 6, "--reason", "a second plan was agreed")


def test_options_that_would_be_ignored_are_refused(desk, run):
    for options, words in [
        (["--one-hot"], "--one-hot goes with"),
        (["--bounded"], "--bounded goes with"),
        (["--mechanism", "exponential"], "--mechanism goes with"),
        (["--score", "absolute", "--penalty", 1], "penalty"),
        (["--epsilon", 1, "--bins", "uniform:0:1:9", "--local-ranks", "paper"], "local_ranks"),
    ]:
        assert words in run("plan", "--sites", 3, "--points", 300, *options, code=2).err
    assert "must end with .csv or .parquet" in run("predict", *calibrated(run), "-o", "out.npy", code=2).err


def calibrated(run):
    run("calibrate", "plan.json", *reported(run), "-o", "calibration.json")
    return "calibration.json", "predictions.csv"


def test_a_histogram_counts_every_file_once(desk, run):
    run(
        "plan",
        "--sites",
        3,
        "--points",
        300,
        "--epsilon",
        4,
        "--bins",
        "uniform:0:8:50",
        "-o",
        "private.json",
    )
    plan = fc.Plan.read("private.json")
    good = {"plan": plan.digest, "one_hot": [[0] * 49 + [1]]}
    (desk / "h.json").write_text(json.dumps(good))
    assert (
        "same file twice" in run("calibrate", "private.json", "h.json", "h.json", "--histogram", code=2).err
    )
    for one_hot in ([[1]], [[0.5] * 50], [[-1] * 50], "text", [["x"]]):
        (desk / "h.json").write_text(json.dumps({**good, "one_hot": one_hot}))
        assert "not a one-hot vector" in run("calibrate", "private.json", "h.json", "--histogram", code=2).err
    (desk / "h.json").write_text("[" * 100_000)
    run("calibrate", "private.json", "h.json", "--histogram", code=2)


@pytest.mark.parametrize(("seconds", "appears"), [(2.0, True), (0.0, False)])
def test_a_progress_bar_where_people_wait_and_only_there(seconds, appears):
    wait = f"with working('waiting'): time.sleep({seconds})"
    code = f"import time; from fedconformal.cli._show import working\n{wait}"
    arguments = [sys.executable, "-c", code]
    quiet = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert quiet.stdout + quiet.stderr == ""
    shown, side = pty.openpty()
    watched = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=side)
    os.close(side)
    seen = b""
    with contextlib.suppress(OSError):  # how a closed terminal ends on Linux
        while chunk := os.read(shown, 4096):
            seen += chunk
    os.close(shown)
    assert watched.wait() == 0
    assert (b"waiting" in seen) == appears
