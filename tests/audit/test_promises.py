"""Promises for sites that differ, recounted: what holds is found to hold, and what was changed is found."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.audit._claim import Claim
from fedconformal.audit._effort import Effort
from fedconformal.audit._promises import _fair, _mixture, _most_new, lies_above

SIZES = {"A": 60, "B": 40, "C": 90}
MIXED = fc.plan(n_points=SIZES, promise="mixture", mixture={"A": 0.3, "B": 0.6, "C": 0.1})
BY_SIZE = fc.plan(n_points=[60, 40, 90, 40], promise="mixture")
DRAWN = fc.plan(n_points=[30] * 12 + [2], promise="new-site", numbers=3, confidence_level=[0.8, 0.9])
RANKED = fc.plan(n_points=[50, 80] * 10, promise="new-site", criterion="conditional")


def calibrated(plan, n_silent=0):
    rng = np.random.default_rng(0)
    names = plan.site_names or [str(i) for i in range(plan.n_sites)]
    sizes = list(plan.n_points)
    reports = [
        fc.report(plan, rng.random(n), site=name, policy=fc.SitePolicy.unlimited())
        for name, n in zip(names, sizes, strict=True)
    ]
    return fc.calibrate(plan, reports[n_silent:]), reports[n_silent:]


def lowered(calibration, by, level=0):
    """The same with so many votes fewer."""
    levels = list(calibration.parts[0].levels)
    levels[level] = levels[level].model_copy(update={"server_rank": levels[level].server_rank - by})
    part = calibration.parts[0].model_copy(update={"levels": tuple(levels)})
    return calibration.model_copy(update={"parts": (part,)})


def finding(calibration, words):
    (found,) = [each for each in verify(calibration) if words in each.claim]
    return found


@pytest.mark.parametrize("plan", [MIXED, BY_SIZE, DRAWN, RANKED])
def test_what_was_made_here_holds(plan):
    calibration, reports = calibrated(plan)
    found = verify(calibration, reports)
    assert [each for each in found if each.holds is not True] == []


@pytest.mark.parametrize("plan", [DRAWN, RANKED])
@pytest.mark.parametrize("n_silent", [1, 19])
def test_votes_are_those_of_the_sites_that_answered(plan, n_silent):
    calibration, reports = calibrated(plan, min(n_silent, plan.n_sites - 1))
    assert [each for each in verify(calibration, reports) if each.holds is not True] == []


@pytest.mark.parametrize("sizes", [None, "known"])
@pytest.mark.parametrize("criterion", ["marginal", "conditional"])
def test_open_plans_are_recounted(sizes, criterion):
    wishes = {"n_points": list(range(20, 40))} if sizes else {"n_sites": 20}
    plan = fc.plan(promise="new-site", criterion=criterion, **wishes)
    reports = [fc.report(plan, np.arange(20 + i) * 1.0, site=str(i)) for i in range(20)]
    assert [each for each in verify(fc.calibrate(plan, reports), reports) if each.holds is not True] == []


def test_an_infinite_threshold_is_no_claim():
    calibration, reports = calibrated(MIXED, 1)
    assert calibration.threshold == np.inf
    assert all(each.holds for each in verify(calibration, reports))


@pytest.mark.parametrize(
    ("plan", "words", "spare"),
    [
        (MIXED, "mean coverage over the mixture", 2),
        (BY_SIZE, "mean coverage over the mixture", 1),
        (DRAWN, "level 0.8: mean coverage over new sites", 1),
        (RANKED, "of new sites reach it", 1),
    ],
)
def test_votes_that_are_too_few_are_found(plan, words, spare):
    calibration, _ = calibrated(plan)
    assert finding(calibration, words).holds is True
    assert finding(lowered(calibration, spare), words).holds is False


def test_the_guarantee_is_the_one_that_is_recounted():
    for plan in (MIXED, BY_SIZE):
        calibration, _ = calibrated(plan)
        found = _mixture(Claim(calibration, 0, Effort())).found
        assert float(found.split()[2].rstrip(",")) == pytest.approx(calibration.guarantee.mean, abs=1e-11)


def test_a_chance_that_is_not_kept_is_found():
    calibration, _ = calibrated(RANKED)
    part = calibration.plan.parts[0]
    level = part.levels[0].model_copy(update={"eta": "9/10"})
    plan = calibration.plan.model_copy(update={"parts": (part.model_copy(update={"levels": (level,)}),)})
    claim = Claim(calibration.model_copy(update={"plan": plan}), 0, Effort())
    assert _most_new(claim).holds is False


def test_shares_that_are_not_the_whole_are_found():
    calibration, _ = calibrated(MIXED)
    part = calibration.plan.parts[0]
    first = part.blocks[0].model_copy(update={"share": "9/10"})
    blocks = (first, *part.blocks[1:])
    plan = calibration.plan.model_copy(update={"parts": (part.model_copy(update={"blocks": blocks}),)})
    claim = Claim(calibration.model_copy(update={"plan": plan}), 0, Effort())
    assert _mixture(claim).holds is False


def test_votes_of_drawn_cases_must_be_fair():
    assert _fair(3, 30, (1, 2, 3), (1, 1, 1))
    assert _fair(3, 2, (1, 2), (1, 2))
    assert not _fair(3, 2, (1, 2), (2, 1))
    assert not _fair(3, 30, (1, 2), (1, 2))
    assert not _fair(3, 30, (1, 2, 3), (1, 1, 2))


@pytest.mark.parametrize("n", [5, 50, 5_000])
def test_the_chance_is_counted_anew(n):
    level = Fraction(9, 10)
    for rank in {1, n // 2, round(0.9 * n), n}:
        chance = stats.binom.cdf(rank - 1, n, 0.9)
        if 1e-6 < chance < 1 - 1e-6:
            assert lies_above(n, rank, level, Fraction(chance - 1e-8))
            assert not lies_above(n, rank, level, Fraction(chance + 1e-8))
    assert lies_above(n, n + 1, level, Fraction(999, 1000))
