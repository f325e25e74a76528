"""Curves in plans and ledgers that somebody has tampered with, or answered twice."""

import hashlib
import json
import time
from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.documents import CurvePayload, Report, ReportPart

GRID = fc.Bins.uniform(0, 1, 20, bounded=True)
MODEL = {"model": "sha256:" + "a" * 64}


def edited(plan, place=0, *, level=None, **message):
    """Return the plan with other fields of one design's message, or of its first
    level.
    """
    design = plan.designs[place]
    first = design.levels[0].model_copy(update=level or {})
    changes = {
        "message": design.message.model_copy(update=message),
        "levels": (first, *design.levels[1:]),
    }
    designs = [*plan.designs]
    designs[place] = design.model_copy(update=changes)
    return plan.model_copy(update={"designs": tuple(designs)})


@pytest.fixture
def account(tmp_path):
    ledger = fc.Ledger.create(tmp_path / "ledger.db")
    ledger.set_budget("D", 10)
    return {"ledger": ledger, "dataset": "D"}


def test_a_stored_answer_is_not_given_for_another_number_of_scores(account):
    plan = fc.plan(n_points=[400, 8000], privacy=fc.Privacy(1.0, GRID), terms=MODEL)
    fc.report(plan, np.linspace(0, 1, 400), site="B", **account)
    with pytest.raises(ValueError, match="drawn from other scores or groups"):
        fc.report(plan, np.linspace(0, 1, 8000), site="B", **account)


def test_a_stored_answer_is_not_given_for_other_labels(account):
    groups = {"a": {"A": 300}, "b": {"A": 300}}
    plan = fc.plan(groups=groups, privacy=fc.Privacy(4.0, GRID))
    scores, labels = np.linspace(0, 1, 600), np.repeat(["a", "b"], 300)
    fc.report(plan, scores, groups=labels, site="A", **account)
    with pytest.raises(ValueError, match="drawn from other scores or groups"):
        fc.report(plan, scores, groups=labels[::-1], site="A", **account)


def test_a_stored_answer_is_not_given_for_a_corrected_column(account):
    """The wrong column's threshold would cover 5 % and verify at 90 %."""
    plan = fc.plan(n_points=[400, 400], privacy=fc.Privacy(1.0, GRID), terms=MODEL)
    right, wrong = np.linspace(0, 1, 400), np.linspace(0, 0.05, 400)
    fc.report(plan, wrong, site="B", **account)
    with pytest.raises(ValueError, match="drawn from other scores or groups"):
        fc.report(plan, right, site="B", **account)
    again = fc.plan(n_points=[400, 400], privacy=fc.Privacy(2.0, GRID), terms=MODEL)
    assert fc.report(again, right, site="B", **account)
    assert account["ledger"].spent("D") == 3


def test_what_is_kept_of_the_scores_cannot_be_guessed_without_the_ledger(account):
    plan = fc.plan(n_points=[400, 400], privacy=fc.Privacy(1.0, GRID), terms=MODEL)
    counts = []
    for name in ("E", "F"):
        account["ledger"].set_budget(name, 1)
        scores = np.linspace(0, 1, 400)
        scores[200] += (name == "F") * 1e-9
        fc.report(plan, scores, site=name, ledger=account["ledger"], dataset=name)
        (entry,) = (e for e in account["ledger"].entries(name) if e.kind == "answer")
        counts.append(json.loads(entry.answer)["counts"])
    assert counts[0] == counts[1]
    cells = fc.messages.of(plan.message).count_cells(
        plan.designs[0], np.linspace(0, 1, 400)
    )
    text = json.dumps([plan.digest, [[None, cells.tolist()]]])
    assert account["ledger"].keyed_hash(text) == counts[0]
    assert hashlib.sha256(text.encode()).hexdigest() != counts[0]


def test_counts_that_noise_cannot_make_of_the_scores_are_refused():
    plan = fc.plan(n_points={"A": 400, "B": 8000}, privacy=fc.Privacy(1.0, GRID))
    reports = [
        Report(
            plan=plan.digest,
            site=site,
            parts=(ReportPart(n=n, payload=CurvePayload(counts=counts)),),
        )
        for site, n, counts in (
            ("A", 400, (20,) * 20 + (0,)),
            ("B", 8000, (20,) * 20 + (0,)),
        )
    ]
    with pytest.raises(
        fc.RefusedReportsError, match="which noise cannot make of 8,000 scores"
    ):
        fc.calibrate(plan, reports)


@pytest.mark.parametrize(
    "plan",
    [
        edited(
            fc.plan(5, 200, privacy=fc.Privacy(2.0, GRID)), offsets=((2**30,) * 20,)
        ),
        edited(
            fc.plan(5, 200, privacy=fc.Privacy(2.0, GRID)),
            offsets=((2**30,) + (0,) * 19,),
        ),
        edited(
            fc.plan(1, 10**9, privacy=fc.Privacy(2.0, GRID)), epsilon=Fraction(1, 10**5)
        ),
    ],
    ids=["all offsets", "one offset", "epsilon"],
)
def test_huge_offsets_and_noise_cost_neither_memory_nor_time(plan):
    """Measured in time of the processor, of which honest plans take a hundredth."""
    start = time.process_time()
    with pytest.raises(ValueError, match=r"too few|too long|too wide"):
        fc.report(plan, np.zeros(200), site="A", ledger=None, dataset=None)
    assert time.process_time() - start < 10


def test_groups_have_one_grid_and_one_epsilon():
    groups = {"a": {"A": 300}, "b": {"A": 300}}
    plan = fc.plan(groups=groups, privacy=fc.Privacy(4.0, GRID))
    with pytest.raises(
        ValueError, match="all groups must have the same grid and epsilon"
    ):
        edited(plan, 1, epsilon=None, offsets=()).check()
    with pytest.raises(
        ValueError, match="all groups must have the same grid and epsilon"
    ):
        edited(plan, 1, epsilon=Fraction(3)).check()


def test_more_votes_than_needed_are_kept():
    sizes = {"A": 40, "B": 50}
    plan = fc.plan(n_points=sizes, curve=GRID)
    plan = edited(plan, level={"votes": 88})
    policy = fc.SitePolicy(curves="plain")
    reports = [
        fc.report(plan, np.linspace(0, 1, n), site=site, policy=policy)
        for site, n in sizes.items()
    ]
    calibration = fc.calibrate(plan, reports)
    assert calibration.server_rank == 88
    assert all(finding.holds for finding in fc.audit.verify(calibration, reports))
    with pytest.raises(ValueError, match="more than there are scores"):
        fc.report(
            edited(plan, level={"votes": 91}),
            np.linspace(0, 1, 40),
            site="A",
            policy=policy,
        )


def test_a_site_without_a_share_is_not_asked():
    sizes = {"A": 100, "B": 200, "C": 300}
    plan = fc.plan(
        n_points=sizes, promise="mixture", mixture={"A": 0, "B": 1, "C": 2}, curve=GRID
    )
    policy = fc.SitePolicy(curves="plain")
    with pytest.raises(ValueError, match="does not ask site 'A'"):
        fc.report(plan, np.linspace(0, 1, 100), site="A", policy=policy)
    reports = [
        fc.report(plan, np.linspace(0, 1, sizes[site]), site=site, policy=policy)
        for site in "BC"
    ]
    calibration = fc.calibrate(plan, reports)
    assert (calibration.missing, calibration.not_asked) == ((), ("A",))
    assert all(finding.holds for finding in fc.audit.verify(calibration, reports))


def test_own_counts_and_units_belong_to_their_promises():
    each = fc.plan(
        n_points=[2000] * 2, promise="each-site", privacy=fc.Privacy(2.0, GRID)
    )
    alike = fc.plan(n_points=[200] * 2, curve=GRID)
    for plan in (
        edited(each, own=()),
        edited(alike, unit=100),
        edited(alike, own=((90, 90),)),
    ):
        with pytest.raises(ValueError, match="own counts"):
            fc.messages.check_plan(plan)


def test_an_unknown_promise_is_a_value_error():
    plan = fc.plan(n_points=[200] * 2, curve=GRID)
    strange = plan.model_copy(
        update={"designs": (plan.designs[0].model_copy(update={"promise": "odd"}),)}
    )
    with pytest.raises(ValueError, match="promise 'odd' does not go with curves"):
        _ = strange.law
