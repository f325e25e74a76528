"""What more coverage costs in width: right for bell curves, and said wherever a promise or noise costs."""

import numpy as np
import pytest
from reading import Reader
from scipy import stats

import fedconformal as fc
from fedconformal.web import PlanQuestion, PlanRequest, PrivacyWish, answer_plan, answer_promises
from fedconformal.web._width import times_as_wide, width_ratio, width_sentence


@pytest.mark.parametrize(("covered", "level"), [(0.95, 0.9), (0.99, 0.9), (0.931, 0.8), (0.5, 0.5)])
def test_intervals_of_normal_errors_have_these_widths(covered, level):
    wide, asked = (np.ptp(stats.norm.interval(share)) for share in (covered, level))
    assert width_ratio(covered, level) == pytest.approx(wide / asked)


def test_more_large_errors_make_the_difference_larger():
    wide, asked = (np.ptp(stats.laplace.interval(share)) for share in (0.95, 0.9))
    assert wide / asked > width_ratio(0.95, 0.9)


def test_less_than_the_level_is_never_called_narrower():
    assert width_ratio(0.8999, 0.9) == 1.0


def test_figures_are_rounded_up():
    assert width_ratio(0.95, 0.9) == pytest.approx(1.1916, abs=1e-4)
    assert times_as_wide(0.95, 0.9) == "1.20 times as wide"
    assert "1.20 times as wide as those that cover 90" in width_sentence(0.95, 0.9)


def test_sets_that_cover_everything_have_no_ratio():
    assert times_as_wide(1.0, 0.9) == "many times as wide"


@pytest.mark.parametrize("level", [5e-324, 1e-17, 1e-12, 0.001])
def test_levels_near_zero_have_no_ratio_either(level):
    """A hostile calibration may name any level between 0 and 1."""
    assert times_as_wide(0.9, level) == "many times as wide"


def test_levels_next_to_one_do_not_break_it():
    assert times_as_wide(0.9, 1 - 2**-53) == "1.00 times as wide"
    assert times_as_wide(1.0, 1 - 2**-53) == "1.00 times as wide"


def test_the_planner_says_what_privacy_costs_in_width():
    asked = {"sites": 10, "points": 500, "privacy": PrivacyWish(epsilon=1.0)}
    said = " ".join(answer_plan(PlanRequest(**asked)).cost)
    assert "Privacy makes the sets larger" in said
    assert "times as wide as those that cover 90" in said
    assert "bell curve" not in " ".join(answer_plan(PlanRequest(**asked, score="lac")).cost)


def test_every_feasible_promise_has_its_width_on_its_card():
    cards = answer_promises(PlanQuestion(sites=10, points=100)).cards
    costs = {card.name: " ".join(card.costs) for card in cards if card.feasible}
    assert set(costs) >= {"population", "each-site", "mixture", "new-site"}
    assert all("times as wide as need be" in each for each in costs.values())


def _private(score, tmp_path):
    bins = fc.Bins.uniform(0, 1, 50, bounded=True)
    plan = fc.plan(n_sites=5, n_points=200, score=score, privacy=fc.Privacy(8.0, bins))
    reports = []
    for site in "ABCDE":
        ledger = fc.Ledger.create(tmp_path / f"{site}.db")
        ledger.set_budget("2024", 8)
        scores = np.linspace(0, 0.9, 200)
        reports.append(fc.report(plan, scores, site=site, ledger=ledger, dataset="2024"))
    return fc.calibrate(plan, reports)


def test_the_certificate_says_what_noise_and_bins_cost(tmp_path):
    page = Reader(fc.web.certificate(_private(None, tmp_path))).text
    assert "If errors follow a bell curve, intervals that cover" in page
    assert "The threshold is the upper end of a bin that begins 0.02 below it" in page


def test_a_certificate_of_labels_speaks_of_no_intervals(tmp_path):
    page = Reader(fc.web.certificate(_private("lac", tmp_path))).text
    assert "Noise makes the sets larger" in page
    assert "bell curve" not in page
