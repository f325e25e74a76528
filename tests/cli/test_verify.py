"""``fedconformal verify``: what a forger cannot hide, and what an auditor does not know."""

import json

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import audit
from fedconformal.audit import Finding


def forged(calibration, *, votes=None, threshold=None):
    """Return the calibration with other votes needed, or another threshold."""
    (part,) = calibration.parts
    (level,) = part.design.levels
    if votes is not None:
        levels = (level.model_copy(update={"votes": votes}),)
        part = part.model_copy(update={"design": part.design.model_copy(update={"levels": levels})})
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
        (folder.path / f"report-{name}.json").write_text((desk / f"{name}.json").read_text())
    assert run("verify", "c.json", "--reports", "kept").out.endswith("\nverified\n")


def test_a_forged_rank_or_threshold_is_found(desk, run, calibrated):
    (desk / "rank.json").write_text(forged(calibrated, votes=1).to_json())
    assert run("verify", "rank.json", code=1).out.endswith("\nnot verified\n")
    (desk / "threshold.json").write_text(forged(calibrated, threshold=0.1).to_json())
    run("verify", "threshold.json")  # the reports are needed to see it
    with_reports = [x for name in "ABC" for x in ("--reports", f"{name}.json")]
    assert run("verify", "threshold.json", *with_reports, code=1).out.endswith("\nnot verified\n")


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
        "findings": [finding.as_dict() for finding in audit.verify(calibrated)],
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
def test_claims_that_were_not_recomputed_are_counted(run, calibrated, monkeypatch, verdicts, last, code):
    findings = [Finding("a claim", "something", verdict) for verdict in verdicts]
    monkeypatch.setattr(audit, "verify", lambda *_, **__: findings)
    out = run("verify", "c.json", code=code).out
    assert out.splitlines()[-1] == last
    assert out.count("  not verified\n") == verdicts.count(None)
    assert json.loads(run("verify", "c.json", "--json", code=code).out)["verified"] is (code == 0)


class TestAudit:
    """What an earlier review of files found, each as a statement of what must not happen again."""

    def holds(self, calibration, reports=None):
        again = fc.Calibration.from_json(calibration.to_json())
        return all(finding.holds for finding in audit.verify(again, reports))

    def test_a_finite_threshold_where_most_sites_sent_infinity(self):
        plan = fc.plan(confidence_level=0.9)
        reports = [fc.report(plan, np.random.default_rng(n).random(n), site=f"{n}") for n in (4, 5, 6, 40)]
        found = fc.calibrate(plan, reports)
        assert not self.holds(forged(found, threshold=0.1, votes=3))
