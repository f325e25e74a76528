"""The server's side of a round: whose answer is whose, and who is missing."""

import logging
import math
import sys
from fractions import Fraction
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
    return ReportCollection(
        PLAN, names or {"1": "", "2": "", "3": ""}, engine="Test", log=LOG
    )


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


def test_codes_of_an_engine_have_a_meaning(caplog):
    codes = {5: "its time to live is over"}
    found = ReportCollection(
        PLAN, {"x": "A", "y": ""}, engine="Test", log=LOG, codes=codes
    )
    found.fail("x", 5)
    found.fail("y", 6)
    assert caplog.messages[-2:] == [
        "A sent no report: its time to live is over",
        "node y sent no report: Test's error code 6",
    ]


def test_the_log_tells_a_round_in_a_few_lines(caplog, monkeypatch):
    clock = iter([100.0, 101.0, 103.0, 104.0])
    monkeypatch.setattr(
        "fedconformal.rounds._collection.time.monotonic", lambda: next(clock)
    )
    caplog.set_level("INFO", LOG.name)
    found = collection(x="A", y="B", z="C")
    for node, name in (("x", "A"), ("y", "B")):
        found.receive(node, REPORTS[name].to_json(indent=None))
    made = finish(found)
    mean = math.floor(1000 * made.law.mean()) / 10
    assert caplog.messages == [
        "asking 3 sites for a report: A, B, C",
        "C did not answer within 5 s",
        "calibrated on the reports of 2 of 3 sites in 4.0 s",
        (
            f"level 0.8: threshold {made.threshold!r}, coverage at least {mean} % on"
            " average, if the model errs equally at every site"
        ),
    ]


def test_a_long_round_tells_its_progress_every_ten_seconds(caplog, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(
        "fedconformal.rounds._collection.time.monotonic", lambda: seconds[0]
    )
    caplog.set_level("INFO", LOG.name)
    found = ReportCollection(PLAN, dict.fromkeys(range(60), ""), engine="Test", log=LOG)
    for node in range(60):
        seconds[0] += 0.5
        found.receive(node, "nonsense")
    lines = [line for line in caplog.messages if "replied" in line]
    assert lines == [
        "20 of 60 sites replied within 10 s",
        "40 of 60 sites replied within 20 s",
    ]


def test_the_log_does_not_grow_with_the_number_of_sites(caplog):
    caplog.set_level("INFO", LOG.name)
    plan = fc.plan(
        groups={f"g{i:02}": None for i in range(30)}, confidence_level=[0.4, 0.5]
    )
    labels = [f"g{i:02}" for i in range(30)] * 5
    report = fc.report(
        plan, range(150), groups=labels, site="A", policy=fc.SitePolicy.unlimited()
    )
    found = ReportCollection(
        plan, dict.fromkeys(range(100), ""), engine="Test", log=LOG
    )
    for node in range(30):
        found.fail(node, 100)
        found.receive(30 + node, "nonsense")
    found.receive(60, report.to_json(indent=None))
    finish(found)
    assert (
        caplog.messages[0]
        == "asking 100 sites for a report: node 0, node 1, node 2, node 3, node 4, ..."
    )
    for words in (
        "20 more sent no report",
        "29 more did not answer",
        "20 more refused",
    ):
        assert words in caplog.messages
    assert caplog.messages[-1] == "... the others are in the calibration"
    assert len(caplog.messages) == 1 + 3 * 11 + 1 + 11


def test_levels_without_a_decimal_are_told_too(caplog):
    caplog.set_level("INFO", LOG.name)
    found = ReportCollection(
        fc.plan(confidence_level=Fraction(1, 3)), {1: ""}, engine="Test", log=LOG
    )
    found.receive(1, fc.report(found.plan, range(40), site="A").to_json(indent=None))
    assert finish(found).threshold == 13.0
    assert caplog.messages[-1].startswith(
        "level 0.333333: threshold 13.0, coverage at least 34.1 %"
    )


def test_infinite_thresholds_are_said_to_be(caplog):
    caplog.set_level("INFO", LOG.name)
    found = ReportCollection(fc.plan(), {1: ""}, engine="Test", log=LOG)
    found.receive(1, fc.report(found.plan, range(3), site="A").to_json(indent=None))
    finish(found)
    assert (
        caplog.messages[-1]
        == "level 0.9: threshold infinite: every set contains everything"
    )


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
    found = ReportCollection(
        given.plan, {site: site for site in SITES}, engine="Test", log=LOG
    )
    for site in SITES:
        scores = partial(lambda site, plan: scores_and_labels(site), site)
        who = partial(lambda site, plan: Site(site, **given.options[site]), site)
        found.receive(
            site, CALIBRATE.answer(pack_plan(given.plan), scores, who, log=LOG)
        )
    reports, expected = given.expected()
    assert [report.to_json() for report in found.answers] == [
        report.to_json() for report in reports
    ]
    assert (
        found.calibrate(timeout=5, on_refused="raise").to_json() == expected.to_json()
    )


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
        texts = [
            report.model_copy(update={"site": f"s{i}"}).to_json(indent=None)
            for i in range(m)
        ]
        nodes = Nodes(dict.fromkeys(range(m), ""))

        def run():
            for part in (
                texts[: m // 2],
                texts,
            ):  # started again half-way, if there is a folder
                kept = None if folder is None else Folder(folder / str(m), plan)
                found = ReportCollection(
                    plan, nodes, engine="Test", log=LOG, folder=kept
                )
                nodes.looks = 0
                for node in found.to_ask[: len(part)]:
                    found.receive(node, part[node])
                assert nodes.looks == 0
            finish(found)

        return run

    for folder in (None, tmp_path):
        small, twice, large = (count_steps(round_of(m, folder)) for m in (10, 20, 80))
        assert large <= twice + 1.05 * 6 * (
            twice - small
        )  # six times as many sites more


def test_work_on_checks_grows_with_the_number_of_sites_and_not_faster():
    plan = fc.plan(n_sites=3, n_points=20, confidence_level=0.8)
    reports = [fc.report(plan, range(20), site=name) for name in "ABC"]
    published = fc.calibrate(plan, reports)
    check = fc.monitoring.answer(published, range(20), site="A")

    def round_of(m):
        texts = [
            check.model_copy(update={"site": f"s{i}"}).to_json(indent=None)
            for i in range(m)
        ]
        found = CheckCollection(
            published, Nodes(dict.fromkeys(range(m), "")), engine="Test", log=LOG
        )

        def run():
            for node in found.to_ask:
                found.receive(node, texts[node])
            found.assess(timeout=5)

        return run

    small, twice, large = (count_steps(round_of(m)) for m in (10, 20, 80))
    assert large <= twice + 1.05 * 6 * (twice - small)
