"""``fedconformal calibrate``: who is missing, what is refused."""

import numpy as np

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
    for kind, said in zip(fc.protocol.AssumptionKind, (conditions, caveats, unchecked), strict=True):
        sentences = fc.protocol.assumption_sentences(calibration, kind)
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


def test_missing_and_not_asked_are_different(desk, run):
    run("plan", "--points", "big=12000,other=11000,small=40", "-o", "p.json")
    np.savetxt("big.csv", np.arange(12000), header="score", comments="")
    run("report", "p.json", "big.csv", "--site", "big", "-o", "big.json")
    out = run("calibrate", "p.json", "big.json").out
    assert "1 site answered, 1 missing: other\n" in out
    assert "1 site not asked: small\n" in out


def test_an_infinite_threshold_is_one_sentence(desk, run):
    (desk / "two.csv").write_text("1\n2\n")
    run("plan", "--sites", 3, "--points", 2, "-o", "tiny.json")
    run("report", "tiny.json", "two.csv", "--site", "X", "-o", "X.json")
    sentence = "90 % coverage (stable) cannot be guaranteed with 1 site of 2 cases, so the threshold is"
    assert run("calibrate", "tiny.json", "X.json").out.count(sentence) == 1
    np.savetxt("inf.csv", [np.inf] * 40, header="score", comments="")
    run("plan", "--points", "A=40", "-o", "one.json")
    run("report", "one.json", "inf.csv", "--site", "A", "-o", "A.json")
    assert "The threshold at level 0.9 is infinite, because" in run("calibrate", "one.json", "A.json").out
