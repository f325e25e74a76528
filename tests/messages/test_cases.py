"""Cases drawn at random; the promise to a new site itself is tested in planning."""

import math

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.documents import Advice, CasesPayload, DocumentError, SiteKind
from fedconformal.messages import Answer, draw_ranks, of
from messages.sent import answer_all, change, check, names
from planning.plans import quiet


def planned(n_sites=20, n_points=50, **options):
    return quiet(n_sites=n_sites, n_points=n_points, promise="new-site", **options)


def test_one_draw_serves_all_levels():
    plan = planned(numbers=3, confidence_level=[0.8, 0.9])
    scores = {site: np.arange(50) + 100 * i for i, site in enumerate(names(20))}
    reports = answer_all(plan, scores)
    drawn = draw_ranks(plan.terms.round, names(20)[4], 50, 3)
    assert reports[4].payload.values == tuple(400.0 + rank - 1 for rank in drawn)
    sent = sorted(value for report in reports for value in report.payload.values)
    assert fc.calibrate(plan, reports).thresholds == (
        sent[50],
        sent[56],
    )  # 0.8 * 63 and 0.9 * 63, rounded up


def test_a_small_site_counts_as_much_as_any():
    plan = planned(None, [2] * 5 + [50] * 15, numbers=5)
    votes = of(plan.message).votes(plan.designs[0], 0)
    assert votes == ((2, 3), (1,) * 5)
    assert plan.server_rank == math.ceil(0.9 * 5 * 21)


def test_what_leaves_is_said():
    plan = planned(numbers=3)
    message, design = of(plan.message), plan.designs[0]
    assert message.discloses(design, 50, "A") == "3 of your 50 scores, drawn at random"
    assert (message.epsilon(design), message.adds_up, message.is_bound(design)) == (
        None,
        False,
        True,
    )
    assert (plan.law, plan.local_ranks, plan.guarantee.probability) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((1.0, 2.0), "2 cases instead of 3"),
        ((1.0, 3.0, 2.0), "cases that are not in increasing order"),
    ],
)
def test_reports_that_cannot_be(values, words):
    plan = planned(numbers=3)
    message, design = of(plan.message), plan.designs[0]
    assert (
        message.problem(design, Answer("A", 50, CasesPayload(values=values))) == words
    )
    assert (
        message.problem(design, Answer("A", 50, CasesPayload(values=(1.0, 1.0, 2.0))))
        is None
    )


@pytest.mark.parametrize("missing", range(20))
def test_a_plan_knows_what_it_tolerates(missing):
    plan = planned(numbers=2)
    message, design = of(plan.message), plan.designs[0]
    there = SiteKind(count=20 - missing, n=50, names=tuple(names(20 - missing)))
    solved = message.solve(design, (there,), [0])
    assert (
        (solved.levels[0].advice is None)
        == message.tolerates(design, 0, missing)
        == (missing <= 11)
    )
    check(solved)


def test_what_cannot_be_tolerated_is_not_planned():
    assert planned(10, max_missing=1).feasible
    assert planned(10, max_missing=2).designs[0].levels[0].advice == Advice(n_sites=11)
    assert planned(10, max_missing=2).guarantee.mean == 1.0


def test_hostile_designs():
    plan = planned(numbers=2)
    check(plan.designs[0])
    with pytest.raises(ValueError, match="too few for a promise to a new site"):
        check(change(plan, level={"votes": plan.server_rank - 1}))
    for votes in (41, 42):
        with pytest.raises(
            ValueError, match="votes must be at most the number of votes plus 1"
        ):
            check(change(plan, level={"votes": votes}))
    with pytest.raises(
        ValueError, match="max_faulty must be 0 with promise 'new-site'"
    ):
        check(change(plan, max_faulty=1))
    rounded = plan.model_copy(
        update={"terms": plan.terms.model_copy(update={"round": "spring"})}
    )
    with pytest.raises(
        DocumentError, match="needs a random round of 32 hexadecimal digits"
    ):
        fc.Plan.from_json(rounded.to_json())
