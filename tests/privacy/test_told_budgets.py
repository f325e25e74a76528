"""What a site says of its privacy budget: if it wants to, the same each time, and as the report has it."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.documents import Budget
from fedconformal.privacy import LedgerError, fingerprint
from fedconformal.protocol import prepare

SCORES = np.linspace(0.0, 1.0, 200)
TELLING = fc.SitePolicy(tell_budget=True)


@pytest.fixture(scope="module")
def plan() -> fc.Plan:
    return _plan(8.0)


def _plan(epsilon: float) -> fc.Plan:
    return fc.plan(n_sites=5, n_points=200, privacy=fc.Privacy(epsilon, fc.Bins.uniform(0, 1.25, 50)))


@pytest.fixture
def ledger(tmp_path: Path) -> fc.Ledger:
    made = fc.Ledger.create(tmp_path / "site.db")
    made.set_budget("2024", 20)
    return made


def _report(plan: fc.Plan, ledger: fc.Ledger, site: str = "A", policy: fc.SitePolicy = TELLING) -> fc.Report:
    return fc.report(plan, SCORES, site=site, ledger=ledger, dataset="2024", policy=policy)


def test_a_site_says_nothing_of_its_budget_unless_its_policy_tells(plan: fc.Plan, ledger: fc.Ledger) -> None:
    silent = _report(plan, ledger, policy=fc.SitePolicy())
    assert silent.budget is None
    assert "budget" not in silent.to_json()


def test_what_was_left_is_told_with_the_report(plan: fc.Plan, ledger: fc.Ledger) -> None:
    told = _report(plan, ledger)
    assert told.budget == Budget(granted=20, left=12)
    assert fc.Report.from_json(told.to_json()) == told


def test_an_answer_that_is_given_again_says_the_same(plan: fc.Plan, ledger: fc.Ledger) -> None:
    """Else the server would hold two different reports of one site, and count none."""
    first = _report(plan, ledger)
    _report(_plan(4.0), ledger)
    ledger.raise_budget("2024", 50, reason="a new board")
    assert _report(plan, ledger) == first
    assert _report(_plan(2.0), ledger).budget == Budget(granted=50, left=36)


def test_an_answer_that_is_drawn_on_an_earlier_charge_says_what_was_left_then(
    plan: fc.Plan, ledger: fc.Ledger
) -> None:
    """A process was killed between the charge and the draw, and others have spent since."""
    asked = {"plan_digest": plan.digest, "site": "A", "data_fingerprint": fingerprint(SCORES)}
    with pytest.raises(KeyboardInterrupt):
        ledger.answer("2024", epsilon=8.0, sample=_interrupted, **asked)
    _report(_plan(4.0), ledger)
    assert _report(plan, ledger).budget == Budget(granted=20, left=12)


def _interrupted() -> str:
    raise KeyboardInterrupt


def test_a_data_owner_reads_that_the_budget_leaves_before_it_does(plan: fc.Plan, ledger: fc.Ledger) -> None:
    asked = {"site": "A", "ledger": ledger, "dataset": "2024"}
    said = "The report says what your data's budget is and what is left of it after this answer."
    assert said in prepare(plan, SCORES, policy=TELLING, **asked).request.sentence
    assert said not in prepare(plan, SCORES, **asked).request.sentence
    exact = prepare(fc.plan(n_sites=5, n_points=200), SCORES, site="A", policy=TELLING)
    assert said not in exact.request.sentence


def test_an_exact_report_has_no_budget() -> None:
    exact = fc.report(fc.plan(n_sites=5, n_points=200), SCORES, site="A", policy=TELLING)
    assert exact.budget is None


def test_the_ledger_knows_what_was_left_after_each_charge(ledger: fc.Ledger, plan: fc.Plan) -> None:
    asked = {"plan_digest": plan.digest, "site": "A", "data_fingerprint": fingerprint(SCORES)}
    with pytest.raises(LedgerError, match="was not charged to data set '2024'"):
        ledger.left_after("2024", **asked)
    _report(plan, ledger)
    assert ledger.left_after("2024", **asked) == (Fraction(20), Fraction(12))
    assert ledger.check() == 3


@pytest.fixture
def reports(plan: fc.Plan, tmp_path: Path) -> list[fc.Report]:
    made = []
    for site in "ABCDE":
        ledger = fc.Ledger.create(tmp_path / f"{site}.db")
        ledger.set_budget("2024", 10)
        made.append(_report(plan, ledger, site, TELLING if site in "AB" else fc.SitePolicy()))
    return made


def test_the_calibration_carries_it(plan: fc.Plan, reports: list[fc.Report]) -> None:
    calibration = fc.calibrate(plan, reports)
    assert [each.budget for each in calibration.reports] == [*[Budget(granted=10, left=2)] * 2, *[None] * 3]


def test_an_auditor_sees_a_budget_that_the_report_does_not_tell(
    plan: fc.Plan, reports: list[fc.Report]
) -> None:
    calibration = fc.calibrate(plan, reports)
    claim = "budgets are what the reports say"
    assert [each.holds for each in verify(calibration, reports) if each.claim == claim] == [True]
    for i, changed in ((0, Budget(granted=10, left=9)), (1, None), (4, Budget(granted=1, left=1))):
        received = list(calibration.reports)
        received[i] = received[i].model_copy(update={"budget": changed})
        edited = calibration.model_copy(update={"reports": tuple(received)})
        assert [each.holds for each in verify(edited, reports) if each.claim == claim] == [False]


def test_an_auditor_sees_a_budget_that_has_not_paid_for_the_answer(
    plan: fc.Plan, reports: list[fc.Report]
) -> None:
    """Without any report at hand: of 10 an answer that costs 8 leaves at most 2."""
    claim = "the budgets that are told have paid for the answer"
    for left, holds in ((2.0, True), (0.0, True), (2.1, False), (10.0, False)):
        told = reports[0].model_copy(update={"budget": Budget(granted=10, left=left)})
        findings = verify(fc.calibrate(plan, [told, *reports[1:]]))
        assert [each.holds for each in findings if each.claim == claim] == [holds]
