"""``fedconformal calibrate``: who is missing, what is refused."""

import io
import json
import sys

import pytest

import fedconformal as fc


def test_a_directory_of_reports(desk, reported, run):
    (desk / "inbox").mkdir()
    for name in reported():
        (desk / name).rename(desk / "inbox" / name)
    run("calibrate", "plan.json", "inbox", "-o", "calibration.json")
    (desk / "inbox" / "plan.json").write_text((desk / "plan.json").read_text())
    out = run("calibrate", "inbox/plan.json", "inbox").out  # the plan lies among the reports
    assert "3 sites answered" in out
    (desk / "empty").mkdir()
    assert "no .json files" in run("calibrate", "plan.json", "empty", code=2).err


def test_on_what_the_guarantee_rests(reported, run):
    out = run("calibrate", "plan.json", *reported("A", "B"), "-o", "c.json").out
    assert "2 sites answered, 1 missing: C" in out
    rest, unchecked = out.split("Not checked:\n")
    conditions, caveats = rest.split("The promise holds if:\n")[1].split("Good to know:\n")
    calibration = fc.Calibration.read("c.json")
    for bearing, said in zip(fc.protocol.Bearing, (conditions, caveats, unchecked), strict=True):
        sentences = fc.protocol.assumption_sentences(calibration, bearing)
        assert said.splitlines() == [f"  - {sentence}" for sentence in sentences]
    assert "1 site did not answer" in conditions
    assert "not authenticated" in unchecked


def test_a_list_is_indented_where_the_terminal_is_narrow(reported, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = run("calibrate", "plan.json", *reported()).out.splitlines()
    listed = lines[lines.index("The promise holds if:") + 1 : lines.index("Good to know:")]
    assert max(map(len, lines)) <= 60
    assert all(line.startswith(("  - ", "    ")) for line in listed)


BROKEN = [
    (lambda text: text[:-30], "not a report"),
    (lambda text: text.replace('"n": 40', '"n": 41'), "digest"),
    (lambda text: text.replace('"values": [', '"values": [NaN, '), "NaN is not allowed"),
    (lambda text: text.replace('"values": [', '"values": [1e999, '), "too large"),
    (lambda text: "[]", "object was expected"),
    (lambda text: "x" * 10_000_000, "larger than 4 MB"),
]


def test_broken_reports_are_all_named(desk, reported, run):
    files = reported()
    sent = (desk / "A.json").read_text()
    for change, words in BROKEN:
        (desk / "A.json").write_text(change(sent))
        error = run("calibrate", "plan.json", *files, "gone.json", "-o", "c.json", code=2).err
        assert words in error
        assert "gone.json: No such file" in error
        assert not (desk / "c.json").exists()
    out = run("calibrate", "plan.json", *files, "--skip-refused", "-o", "c.json").out
    assert "1 missing: A" in out
    assert "refused: A.json" in out


class TestHistogram:
    @pytest.fixture
    def private(self, desk, run):
        rule = ["--epsilon", 4, "--bins", "uniform:0:8:50"]
        run("plan", "--sites", 3, "--points", 300, *rule, "-o", "private.json")
        return {"plan": fc.Plan.read("private.json").digest, "one_hot": [[0] * 49 + [1]]}

    def test_what_is_no_vector(self, desk, run, private):
        order = ["calibrate", "private.json", "h.json", "--histogram"]
        for one_hot in ([[1]], [[0.5] * 50], [[-1] * 50], "text", [["x"]]):
            (desk / "h.json").write_text(json.dumps({**private, "one_hot": one_hot}))
            assert "not a one-hot vector" in run(*order, code=2).err
        (desk / "h.json").write_text(json.dumps({**private, "plan": "another"}))
        assert "answers another plan" in run(*order, code=2).err
        (desk / "h.json").write_text("[" * 100_000)
        run(*order, code=2)
        assert "same file twice" in run(*order, "h.json", code=2).err

    def test_standard_input_is_no_larger_than_a_file_may_be(self, desk, run, private, monkeypatch):
        given = io.BytesIO(json.dumps(private).encode() + b" " * 100_000)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
        said = run("calibrate", "private.json", "-", "--histogram", code=2).err
        assert "larger than any of this shape" in said
        assert given.tell() < 100_000

    def test_only_for_private_plans_without_groups(self, reported, run):
        files = reported()
        words = "--histogram goes with a private plan without groups"
        assert words in run("calibrate", "plan.json", *files, "--histogram", code=2).err
        run("plan", "--group", "a", "--group", "b", "-o", "groups.json")
        assert words in run("calibrate", "groups.json", *files, "--histogram", code=2).err
