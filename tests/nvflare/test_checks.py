"""Checks over FLARE: what sites see of a calibration on new cases, and what they let
out of it.
"""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import monitoring

pytest.importorskip("nvflare", reason="the extra [nvflare] is not installed")

from flare_engine import JOB, LocalFlare, Scores

from fedconformal.nvflare import ConformalController, ConformalExecutor, Failure, check

SITES = ("A", "B", "C")
OLD = {name: np.random.default_rng(i).random(60) for i, name in enumerate(SITES)}
NEW = {name: np.random.default_rng(10 + i).random(40) for i, name in enumerate(SITES)}
PLAN = fc.plan(n_points=dict.fromkeys(SITES, 60), confidence_level=[0.8, 0.9])
PUBLISHED = fc.calibrate(
    PLAN, [fc.report(PLAN, OLD[name], site=name) for name in SITES]
)


def kinds(scores):
    return np.where(scores < 0.5, "child", "adult")


class Both(Scores):
    """Old cases to calibrate on, new ones to check; with the kind of each."""

    def __init__(self, name):
        super().__init__((OLD[name], kinds(OLD[name])))
        self.new = NEW[name]

    def check_scores(self, plan, model, fl_ctx):
        return self.new, kinds(self.new)


@pytest.fixture
def federation(tmp_path):
    return LocalFlare(tmp_path, {name: Both(name) for name in SITES})


def ask(federation, calibration=PUBLISHED, **options):
    controller = ConformalController(PLAN)
    controller.set_communicator(federation)
    return check(controller, calibration, federation.fl_ctx, **options)


def test_the_same_assessment_as_from_files(federation):
    answers = [monitoring.answer(PUBLISHED, NEW[name], site=name) for name in SITES]
    assert ask(federation) == monitoring.compare(PUBLISHED, answers)
    assert all(len(result) <= 2048 for result in federation.results.values())


def test_a_job_checks_what_it_made_and_writes_it_down(federation):
    assert federation.run(ConformalController(PLAN, check=True)) == []
    results = federation.home / "server" / JOB
    lines = (results / "check.txt").read_text().splitlines()
    assert len(lines) == 7
    covered = np.mean(NEW["A"] <= PUBLISHED.thresholds[0])
    assert lines[0] == f"A: {covered:.3f} of 40 new cases covered at level 0.8"
    assert lines[-1].startswith("No significant shortfall at any site")
    assert (results / "calibration.json").read_text() == PUBLISHED.to_json() + "\n"


def test_a_calibration_with_groups_is_checked_group_by_group(federation):
    plan = fc.plan(
        groups={"child": None, "adult": None}, n_sites=list(SITES), confidence_level=0.8
    )
    assert federation.run(ConformalController(plan, check=True)) == []
    lines = (federation.home / "server" / JOB / "check.txt").read_text().splitlines()
    children = int((kinds(NEW["B"]) == "child").sum())
    assert any(
        line.startswith("B, child: ") and f" of {children} new cases" in line
        for line in lines
    )
    whole = fc.Calibration.read(federation.home / "server" / JOB / "calibration.json")
    with pytest.raises(
        ValueError, match=r"one group of it, as in calibration\['adult'\]"
    ):
        ask(federation, whole)


def test_a_site_whose_policy_names_the_coordinator_answers_its_signature_alone(
    federation, caplog
):
    key = fc.SigningKey.new()
    (federation.local("A") / "policy.toml").write_text(
        f'coordinator = "{key.public_key}"\n'
    )
    (federation.local("A") / "fedconformal.toml").write_text('policy = "policy.toml"\n')
    assert {row.site for row in ask(federation).rows} == {"B", "C"}
    found = ask(federation, key=key)
    assert found == monitoring.compare(
        PUBLISHED,
        [monitoring.answer(PUBLISHED, NEW[name], site=name) for name in SITES],
    )


def test_the_site_decides_that_its_answer_is_private_and_pays_once(federation):
    local = federation.local("A")
    book = fc.Ledger.create(local / "book")
    book.set_budget("new", 2.0)
    (local / "fedconformal.toml").write_text(
        'ledger = "book"\ncheck_dataset = "new"\ncheck_epsilon = 2.0\n'
    )
    first = ask(federation)
    assert first == ask(federation)
    assert {row.site: row.epsilon for row in first.rows} == {
        "A": 2.0,
        "B": None,
        "C": None,
    }
    assert book.spent("new") == 2


def test_sites_without_new_cases_send_a_code_and_the_calibration_stays(
    federation, caplog
):
    federation.sites = {name: Scores(OLD[name]) for name in SITES}
    assert federation.run(ConformalController(PLAN, check=True)) == []
    results = federation.home / "server" / JOB
    assert (
        (results / "check.txt")
        .read_text()
        .startswith("not checked: 0 sites sent a check that counts")
    )
    assert (results / "calibration.json").exists()
    assert f"A sent no check: {Failure.SCORES.meaning}" in caplog.text
    assert (
        "check_scores must be"
        in (federation.home / "A" / "fedconformal-log").read_text()
    )


def test_a_function_of_the_site_s_own(federation, monkeypatch, tmp_path):
    (tmp_path / "hospital_checks.py").write_text(
        "def scores(plan, model, fl_ctx):\n    return [0.0] * 39 + [9.0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    federation.sites["B"] = ConformalExecutor()
    (federation.local("B") / "fedconformal.toml").write_text(
        'check_scores = "hospital_checks:scores"\n'
    )
    found = ask(federation, sites=["B"])
    assert {(row.site, row.check.coverage) for row in found.rows} == {("B", 39 / 40)}
