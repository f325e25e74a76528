"""The server's side of a round: whose answer is whose, and who is missing."""

import logging
import sys
from functools import partial
from pathlib import Path

import pytest
from every_plan import PLANS, SITES, Round, scores_and_labels

import fedconformal as fc
from fedconformal.rounds import (
    CALIBRATE,
    CheckCollection,
    Failure,
    Folder,
    ReportCollection,
    Site,
    pack_plan,
)

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


class Nodes(dict):
    """The nodes of a round, which count how often somebody looks at all of them."""

    def __init__(self, *content):
        super().__init__(*content)
        self.looks = 0

    def values(self):
        self.looks += 1
        return super().values()

    def items(self):
        self.looks += 1
        return super().items()

    def __iter__(self):
        self.looks += 1
        return super().__iter__()


def count_steps(function):
    """Return how many steps the interpreter takes in this package."""
    package, steps = str(Path(fc.__file__).parent), 0

    def trace(frame, event, argument):
        nonlocal steps
        if not frame.f_code.co_filename.startswith(package):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.slow
def test_work_grows_with_the_number_of_sites_and_not_faster(tmp_path):
    def round_of(m, folder=None):
        plan = fc.plan(n_sites=m, n_points=20, confidence_level=0.8)
        report = fc.report(plan, range(20), site="s")
        texts = [report.model_copy(update={"site": f"s{i}"}).to_json(indent=None) for i in range(m)]
        nodes = Nodes(dict.fromkeys(range(m), ""))

        def run():
            for part in (texts[: m // 2], texts):  # started again half-way, if there is a folder
                kept = None if folder is None else Folder(folder / str(m), plan)
                found = ReportCollection(plan, nodes, engine="Test", log=LOG, folder=kept)
                nodes.looks = 0
                for node in found.to_ask[: len(part)]:
                    found.receive(node, part[node])
                assert nodes.looks == 0
            finish(found)

        return run

    for folder in (None, tmp_path):
        small, twice, large = (count_steps(round_of(m, folder)) for m in (10, 20, 80))
        assert large <= twice + 1.05 * 6 * (twice - small)  # six times as many sites more


def test_work_on_checks_grows_with_the_number_of_sites_and_not_faster():
    published = fc.calibrate(PLAN, REPORTS.values())
    check = fc.monitoring.answer(published, range(20), site="A")

    def round_of(m):
        texts = [check.model_copy(update={"site": f"s{i}"}).to_json(indent=None) for i in range(m)]
        found = CheckCollection(published, Nodes(dict.fromkeys(range(m), "")), engine="Test", log=LOG)

        def run():
            for node in found.to_ask:
                found.receive(node, texts[node])
            found.assess(timeout=5)

        return run

    small, twice, large = (count_steps(round_of(m)) for m in (10, 20, 80))
    assert large <= twice + 1.05 * 6 * (twice - small)
