"""What a site sends back after a check, exact or private, and what that costs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from checked_calibrations import calibrated

import fedconformal as fc
from fedconformal.documents import Check
from fedconformal.monitoring import _answer, answer
from fedconformal.privacy import LedgerError

SCORES = np.arange(200) / 100
EPSILON = 5
"""Of reports: one of these scores is +inf with probability 3e-8, and with it the
threshold.
"""


@pytest.fixture
def ledger(tmp_path):
    book = fc.Ledger.create(tmp_path / "site.db")
    book.set_budget("new", 2.0)
    return book


@pytest.fixture
def terms(ledger):
    return {"site": "A", "epsilon": 0.5, "ledger": ledger, "dataset": "new"}


def test_exact():
    made = answer(calibrated(1.5, math.inf, levels=[0.5, 0.9]), SCORES, site="A")
    assert (made.n, made.epsilon, made.covered) == (200, None, (151, 200))
    assert Check.from_json(made.to_json()) == made


def test_charged_once_and_replayed(ledger, terms):
    calibration = calibrated(1.5)
    first = answer(calibration, SCORES, **terms)
    assert first.epsilon == 0.5
    assert ledger.spent("new") == Fraction("0.5")
    for _ in range(5):
        assert answer(calibration, SCORES, **terms) == first
    with pytest.raises(LedgerError, match="have changed"):
        answer(calibration, SCORES[:50], **terms)
    assert ledger.spent("new") == Fraction("0.5")
    assert Check.from_json(first.to_json()) == first


def test_charged_before_it_is_drawn(ledger, terms, monkeypatch):
    def prepared(count, n, epsilon):
        def failing():
            raise RuntimeError("power cut")

        return failing

    monkeypatch.setattr(_answer, "prepare_count", prepared)
    with pytest.raises(RuntimeError, match="power cut"):
        answer(calibrated(1.5), SCORES, **terms)
    assert ledger.spent("new") == Fraction("0.5")


def test_levels_share_epsilon_and_an_infinite_threshold_needs_none(terms, monkeypatch):
    shares = []

    def prepared(count, n, epsilon):
        shares.append((count, n, epsilon))
        return lambda: count

    monkeypatch.setattr(_answer, "prepare_count", prepared)
    calibration = calibrated(1.5, math.inf, 0.5, levels=[0.8, 0.9, 0.5])
    made = answer(calibration, [*SCORES, math.nan], **{**terms, "epsilon": 0.3})
    assert shares == [(151, 201, Fraction("0.15")), (51, 201, Fraction("0.15"))]
    assert made.covered == (151, 201, 51)


def test_what_cannot_be_answered_costs_nothing(ledger, terms):
    finite = calibrated(1.5)
    for calibration, changes, words in [
        (calibrated(math.inf), {}, "every threshold is infinite"),
        (finite, {"site": "a\nb"}, "must be visible"),
        (finite, {"epsilon": 1e-7}, "epsilon"),
        (finite, {"epsilon": 101.0}, "epsilon"),
        (finite, {"epsilon": 3.0}, "budget"),
        (finite, {"dataset": "unknown"}, "no budget"),
        (finite, {"ledger": None}, "needs ledger and dataset"),
        (
            finite,
            {"epsilon": None},
            "exact numbers would leave, but a ledger was given",
        ),
    ]:
        with pytest.raises(ValueError, match=words):
            answer(calibration, SCORES, **{**terms, **changes})
    assert ledger.spent("new") == 0


def test_every_group_is_a_question_of_its_own(ledger, terms):
    plan = fc.plan(groups={"adult": {"A": 100}, "child": {"A": 100}})
    calibration = fc.calibrate(
        plan, [fc.report(plan, SCORES, groups=["adult", "child"] * 100, site="A")]
    )
    made = {
        group: answer(calibration[group], SCORES[:50], **terms) for group in plan.groups
    }
    assert ledger.spent("new") == 1
    assert {group: check.group for group, check in made.items()} == {
        "adult": "adult",
        "child": "child",
    }
    assert answer(calibration["child"], SCORES[:50], **terms) == made["child"]
    assert ledger.spent("new") == 1


def test_another_epsilon_for_the_same_calibration_is_refused(terms):
    answer(calibrated(1.5), SCORES, **terms)
    with pytest.raises(ValueError, match="another epsilon"):
        answer(calibrated(1.5), SCORES, **{**terms, "epsilon": 0.6})


@pytest.mark.parametrize(
    "wishes", [{"n_sites": 3, "n_points": 200}, {"groups": {"all": [200] * 3}}]
)
def test_data_that_were_charged_for_the_calibration_are_not_new(ledger, terms, wishes):
    ledger.raise_budget("new", 2 * EPSILON, reason="for the report")
    privacy = fc.Privacy(EPSILON, bins=fc.Bins.uniform(0, 2, 20))
    plan, labels = (
        fc.plan(**wishes, privacy=privacy),
        ["all"] * 200 if "groups" in wishes else None,
    )
    reports = [
        fc.report(plan, SCORES, groups=labels, site="A", ledger=ledger, dataset="new")
    ]
    reports += [reports[0].model_copy(update={"site": site}) for site in "BC"]
    calibration = fc.calibrate(plan, reports)
    calibration = calibration["all"] if "groups" in wishes else calibration
    with pytest.raises(ValueError, match="dataset 'new' was used for this calibration"):
        answer(calibration, SCORES, **terms)
    assert ledger.spent("new") == EPSILON


def test_no_score_is_refused_once_filled_in():
    filled = _answer._fill_missing([1, math.nan, math.inf, -math.inf])
    assert filled.tolist() == [1.0, math.inf, math.inf, -np.finfo(float).max]
