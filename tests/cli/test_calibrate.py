"""``fedconformal calibrate`` and ``verify``: who is missing, what is refused, what a
forger cannot hide.
"""

import json

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import audit
from fedconformal.audit import Finding


def test_a_directory_of_reports(desk, reported, run):
    (desk / "inbox").mkdir()
    for name in reported():
        (desk / name).rename(desk / "inbox" / name)
    run("calibrate", "plan.json", "inbox", "-o", "calibration.json")
    (desk / "inbox" / "plan.json").write_text((desk / "plan.json").read_text())
    out = run(
        "calibrate", "inbox/plan.json", "inbox"
    ).out  # the plan lies among the reports
    assert "3 sites answered" in out
    (desk / "empty").mkdir()
    assert "no .json files" in run("calibrate", "plan.json", "empty", code=2).err


def test_on_what_the_guarantee_rests(reported, run):
    out = run("calibrate", "plan.json", *reported("A", "B"), "-o", "c.json").out
    assert "2 sites answered, 1 missing: C" in out
    rest, unchecked = out.split("Not checked:\n")
    conditions, caveats = rest.split("The promise holds if:\n")[1].split(
        "Good to know:\n"
    )
    calibration = fc.Calibration.read("c.json")
    for kind, said in zip(
        fc.protocol.AssumptionKind, (conditions, caveats, unchecked), strict=True
    ):
        sentences = fc.protocol.assumption_sentences(calibration, kind)
        assert said.splitlines() == [f"  - {sentence}" for sentence in sentences]
    assert "1 site did not answer" in conditions
    assert "not authenticated" in unchecked


def test_a_list_is_indented_where_the_terminal_is_narrow(reported, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = run("calibrate", "plan.json", *reported()).out.splitlines()
    listed = lines[
        lines.index("The promise holds if:") + 1 : lines.index("Good to know:")
    ]
    assert max(map(len, lines)) <= 60
    assert all(line.startswith(("  - ", "    ")) for line in listed)


BROKEN = [
    (lambda text: text[:-30], "not a report"),
    (lambda text: text.replace('"n": 40', '"n": 41'), "digest"),
    (
        lambda text: text.replace('"values": [', '"values": [NaN, '),
        "NaN is not allowed",
    ),
    (lambda text: text.replace('"values": [', '"values": [1e999, '), "too large"),
    (lambda text: "[]", "object was expected"),
    (lambda text: "x" * 10_000_000, "larger than 4 MB"),
]


def test_broken_reports_are_all_named(desk, reported, run):
    files = reported()
    sent = (desk / "A.json").read_text()
    for change, words in BROKEN:
        (desk / "A.json").write_text(change(sent))
        error = run(
            "calibrate", "plan.json", *files, "gone.json", "-o", "c.json", code=2
        ).err
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
    sentence = (
        "90 % coverage on average cannot be guaranteed with 1 site of 2 cases, so the"
        " threshold is"
    )
    assert run("calibrate", "tiny.json", "X.json").out.count(sentence) == 1
    np.savetxt("inf.csv", [np.inf] * 40, header="score", comments="")
    run("plan", "--points", "A=40", "-o", "one.json")
    run("report", "one.json", "inf.csv", "--site", "A", "-o", "A.json")
    assert (
        "The threshold at level 0.9 is infinite, because"
        in run("calibrate", "one.json", "A.json").out
    )


def forged(calibration, *, votes=None, threshold=None):
    """Return the calibration with other votes needed, or another threshold."""
    (part,) = calibration.parts
    (level,) = part.design.levels
    if votes is not None:
        levels = (level.model_copy(update={"votes": votes}),)
        part = part.model_copy(
            update={"design": part.design.model_copy(update={"levels": levels})}
        )
    if threshold is not None:
        part = part.model_copy(update={"thresholds": (threshold,)})
    return calibration.model_copy(update={"parts": (part,)})


@pytest.fixture
def calibrated(desk, reported, run):
    files = reported()
    run("calibrate", "plan.json", *files, "-o", "c.json")
    return fc.Calibration.read("c.json")


def test_a_folder_of_kept_reports_holds_the_plan_too(desk, run, calibrated):
    folder = fc.rounds.Folder(desk / "kept", calibrated.plan)
    for name in "ABC":
        (folder.path / f"report-{name}.json").write_text(
            (desk / f"{name}.json").read_text()
        )
    assert run("verify", "c.json", "--reports", "kept").out.endswith("\nverified\n")


def test_a_forged_rank_or_threshold_is_found(desk, run, calibrated):
    (desk / "rank.json").write_text(forged(calibrated, votes=1).to_json())
    assert run("verify", "rank.json", code=1).out.endswith("\nnot verified\n")
    (desk / "threshold.json").write_text(forged(calibrated, threshold=0.1).to_json())
    run("verify", "threshold.json")  # the reports are needed to see it
    with_reports = [x for name in "ABC" for x in ("--reports", f"{name}.json")]
    assert run("verify", "threshold.json", *with_reports, code=1).out.endswith(
        "\nnot verified\n"
    )


def test_tampered_plans_and_calibrations(desk, run, calibrated):
    text, threshold = (desk / "c.json").read_text(), repr(calibrated.threshold)
    assert text.count(threshold) == 1
    (desk / "c.json").write_text(text.replace(threshold, "0.5"))
    assert "digest" in run("verify", "c.json", code=2).err
    assert "digest" in run("predict", "c.json", "predictions.csv", code=2).err
    assert "not a calibration" in run("verify", "plan.json", code=2).err


def test_findings_for_machines(run, calibrated):
    printed = json.loads(run("verify", "c.json", "--json").out)
    assert printed == {
        "verified": True,
        "findings": [vars(finding) for finding in audit.verify(calibrated)],
    }
    assert set(printed["findings"][0]) == {"claim", "detail", "holds"}


@pytest.mark.parametrize(
    ("verdicts", "last", "code"),
    [
        ((True, True), "verified", 0),
        ((True, None), "not verified: 1 claim could not be recomputed", 1),
        ((None, True, None), "not verified: 2 claims could not be recomputed", 1),
        ((True, None, False), "not verified", 1),
    ],
)
def test_claims_that_were_not_recomputed_are_counted(
    run, calibrated, monkeypatch, verdicts, last, code
):
    findings = [Finding("a claim", "something", verdict) for verdict in verdicts]
    monkeypatch.setattr(audit, "verify", lambda *_, **__: findings)
    out = run("verify", "c.json", code=code).out
    assert out.splitlines()[-1] == last
    assert out.count("  not verified\n") == verdicts.count(None)
    assert json.loads(run("verify", "c.json", "--json", code=code).out)["verified"] is (
        code == 0
    )


class TestAudit:
    """What an earlier review of files found, each as a statement of what must not
    happen again.
    """

    def holds(self, calibration, reports=None):
        again = fc.Calibration.from_json(calibration.to_json())
        return all(finding.holds for finding in audit.verify(again, reports))

    def test_a_finite_threshold_where_most_sites_sent_infinity(self):
        plan = fc.plan(confidence_level=0.9)
        reports = [
            fc.report(plan, np.random.default_rng(n).random(n), site=f"{n}")
            for n in (4, 5, 6, 40)
        ]
        found = fc.calibrate(plan, reports)
        assert not self.holds(forged(found, threshold=0.1, votes=3))
