"""The server's side of a round: whose answer is whose, and who is missing."""

import logging
from functools import partial

import pytest
from every_plan import PLANS, SITES, Round, scores_and_labels

import fedconformal as fc
from fedconformal.rounds import CALIBRATE, Failure, ReportCollection, Site, pack_plan

LOG = logging.getLogger("fedconformal.test")
PLAN = fc.plan(n_points={"A": 20, "B": 20, "C": 20}, confidence_level=0.8)
REPORTS = {name: fc.report(PLAN, range(20), site=name) for name in "ABC"}


def collection(**names):
    return ReportCollection(PLAN, names or {"1": "", "2": "", "3": ""}, engine="Test", log=LOG)


def finish(found):
    return found.calibrate(timeout=5, on_refused="skip")


def test_who_fails_or_does_not_answer_is_missing_and_named_in_the_log(caplog):
    found = collection(x="A", y="B", z="C")
    found.receive("x", REPORTS["A"].to_json(indent=None))
    found.fail("y", Failure.SCORES)
    assert finish(found).missing == ("B", "C")
    assert f"B sent no report: {Failure.SCORES.meaning}" in caplog.text
    assert "C did not answer within 5 s" in caplog.text


def test_foreign_codes_are_named_after_the_engine(caplog):
    found = collection(x="A", y="B", z="C")
    for node, code in (("x", 104), ("y", 5), ("z", "BAD")):
        found.fail(node, code)
    assert f"A sent no report: {Failure.BUDGET.meaning}" in caplog.text
    assert "B sent no report: Test's error code 5" in caplog.text
    assert "C sent no report: Test's error code BAD" in caplog.text


def test_a_question_is_answered_once():
    found = collection()
    for node in ("1", "1", None, "9"):
        found.receive(node, REPORTS["A"].to_json(indent=None))
    found.fail("1", 100)
    made = finish(found)
    assert made.n_answers == 1
    assert [refusal.source for refusal in made.refused] == ["unknown node"] * 4


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_gives_the_same_bytes_as_through_files(name, tmp_path):
    given = Round(name, tmp_path)
    found = ReportCollection(given.plan, {site: site for site in SITES}, engine="Test", log=LOG)
    for site in SITES:
        scores = partial(lambda site, plan: scores_and_labels(site), site)
        who = partial(lambda site, plan: Site(site, **given.options[site]), site)
        found.receive(site, CALIBRATE.answer(pack_plan(given.plan), scores, who, log=LOG))
    reports, expected = given.expected()
    assert [report.to_json() for report in found.answers] == [report.to_json() for report in reports]
    assert found.calibrate(timeout=5, on_refused="raise").to_json() == expected.to_json()
