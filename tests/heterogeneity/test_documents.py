"""What is asked of plans and calibrations: one level, and one group where there are several."""

import numpy as np
import pytest
from checked_calibrations import calibrated

import fedconformal as fc
from fedconformal.documents import Check
from fedconformal.heterogeneity import answer, assess, check, scale, what_if

SIZES = {"adult": {"A": 60, "B": 80}, "child": {"A": 40, "B": 30}}


@pytest.fixture(scope="module")
def grouped():
    """A calibration with groups, children having larger scores."""
    plan = fc.plan(groups=SIZES, confidence_level=0.8)
    rng = np.random.default_rng(0)
    reports = [
        fc.report(
            plan,
            rng.random(SIZES["adult"][site] + SIZES["child"][site]) + 0.0,
            groups=["adult"] * SIZES["adult"][site] + ["child"] * SIZES["child"][site],
            site=site,
        )
        for site in "AB"
    ]
    return fc.calibrate(plan, reports)


def test_a_document_with_groups_is_refused_in_one_line_that_names_them(grouped):
    found = Check(calibration=grouped.digest, site="A", n=5, epsilon=None, covered=(5,))
    for call in (
        lambda: what_if(grouped, {"A": scale(2.0)}),
        lambda: check(grouped, [0.5]),
        lambda: answer(grouped, [0.5], site="A"),
        lambda: assess(grouped, [found]),
    ):
        with pytest.raises(
            ValueError, match=r"has groups, 'adult', 'child': .*calibration\['adult'\]"
        ) as error:
            call()
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"this plan has groups, .* as in plan\['adult'\]"):
        what_if(grouped.plan, {})


def test_one_group_is_checked_answered_and_assessed_like_any_calibration(grouped):
    child, scores = grouped["child"], np.linspace(0, 2, 200)
    found = check(child, scores, site="A")
    assert found.covered == int((scores <= grouped.threshold["child"]).sum())
    made = answer(child, scores, site="A")
    assert made.covered == (found.covered,)
    assert [row.site for row in assess(child, [made]).short] == ["A"]
    with pytest.raises(ValueError, match="A: checks group 'child', and this is group 'adult'"):
        assess(grouped["adult"], [made])


def test_a_level_is_found_by_the_decimal_that_was_written():
    calibration = calibrated(3.0, 1.0, 2.0)
    assert check(calibration, np.arange(5), confidence_level=0.8).covered == 3
    with pytest.raises(ValueError, match=r"one of the calibration's, 0.9, 0.5, 0.8, got 0.81"):
        check(calibration, np.arange(5), confidence_level=0.81)
