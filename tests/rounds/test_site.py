"""A site's answer in a round: a report or a fixed code, and nothing else."""

import logging

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import rounds
from fedconformal.rounds import Failure, Site

LOG = logging.getLogger("fedconformal.test")
PLAN = fc.plan(n_sites=3, n_points=20, confidence_level=0.8)
PACKED = rounds.pack_plan(PLAN)
SCORES = np.arange(20.0)
SECRET = "patient 4711"
BINS = fc.Bins.uniform(0, 20, 20)


def answer(packed=PACKED, scores=lambda plan: SCORES, site=lambda plan: Site("A"), **options):
    return rounds.CALIBRATE.answer(packed, scores, site, log=LOG, **options)


def test_the_report_is_that_of_files_and_the_log_shows_all_of_it(caplog):
    caplog.set_level("INFO", LOG.name)
    made = answer()
    assert rounds.unpack_report(made) == fc.report(PLAN, SCORES, site="A")
    assert f"this is everything that leaves the site: {made}" in caplog.text


def secret(*_):
    raise RuntimeError(SECRET)


@pytest.mark.parametrize(
    ("options", "failure"),
    [
        ({"packed": b"nonsense"}, Failure.PLAN),
        ({"scores": secret}, Failure.SCORES),
        ({"site": secret}, Failure.REPORT),
        ({"scores": lambda plan: SCORES[:5]}, Failure.REPORT),
        ({"packed": rounds.pack_plan(fc.plan(n_sites=3, n_points=20, curve=BINS))}, Failure.POLICY),
        ({"site": lambda plan: Site("two\nlines")}, Failure.REPORT),
    ],
)
def test_whatever_goes_wrong_only_a_code_leaves(options, failure, caplog):
    assert answer(**options) is failure
    assert failure.meaning in caplog.text
    assert (SECRET in caplog.text) == (secret in options.values())


def test_groups_come_as_a_pair_of_scores_and_labels():
    plan = fc.plan(groups={"child": [8], "adult": [12]}, confidence_level=0.5)
    labels = ["child"] * 8 + ["adult"] * 12
    packed = rounds.pack_plan(plan)
    made = answer(packed, lambda plan: (SCORES, labels))
    assert rounds.unpack_report(made) == fc.report(plan, SCORES, groups=labels, site="A")
    assert answer(packed) is Failure.SCORES
    assert answer(scores=lambda plan: (SCORES, labels)) == answer()  # labels that nobody asked for stay
    few = rounds.pack_plan(fc.plan(confidence_level=0.5))
    pair = (0.25, 0.75)  # two scores, and no labels
    assert rounds.unpack_report(answer(few, lambda plan: pair)).n == 2


def test_a_private_answer_is_charged_and_an_empty_budget_is_a_code(tmp_path):
    plan = fc.plan(n_sites=3, n_points=300, confidence_level=0.8, privacy=fc.Privacy(5.0, BINS))
    book, scores = fc.Ledger.create(tmp_path / "ledger"), np.linspace(0, 20, 300)
    book.set_budget("mine", 5.0)
    mine = {"packed": rounds.pack_plan(plan), "site": lambda plan: Site("A", None, book, "mine")}
    first = answer(scores=lambda plan: scores, **mine)
    assert answer(scores=lambda plan: scores, **mine) == first
    before = book.entries()
    assert answer(scores=lambda plan: 2 * scores, model="new", **mine) is Failure.BUDGET
    assert book.spent("mine") == 5
    assert book.entries() == before  # a question that is refused leaves nothing behind
    book.raise_budget("mine", 20.0, reason="two more models")
    assert answer(scores=lambda plan: 2 * scores, **mine) is Failure.BUDGET
    assert answer(scores=lambda plan: 2 * scores, model="new", **mine) != first
    assert answer(scores=lambda plan: scores, model="old", **mine) == first
    assert [entry.reason for entry in book.entries() if entry.kind == "data"] == [
        "scores under the model new"
    ]
    assert book.spent("mine") == 10
