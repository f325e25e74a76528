"""What a coordinator learns from the sites' answers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from checked_calibrations import calibrated

import fedconformal as fc
from fedconformal.documents import Check
from fedconformal.monitoring import answer, check, compare
from fedconformal.monitoring._coverage import count_cdf, interval
from fedconformal.privacy import CountNoise
from support import FALSE_ALARM

SURE = Fraction("0.95")


def answered(calibration, counts, n=212, epsilon=None):
    return [
        Check(
            calibration=calibration.digest,
            site=site,
            n=n,
            epsilon=epsilon,
            covered=covered,
        )
        for site, covered in counts.items()
    ]


def test_who_falls_short():
    """182 of 212 have p-value 0.033: short for a site alone, not for one of several."""
    calibration = calibrated(1.0)
    result = compare(
        calibration, answered(calibration, {"A": (195,), "B": (160,), "C": (182,)})
    )
    assert [row.site for row in result.short] == ["B"]
    assert (
        "falls short at: B (level 90 %, p < 0.0001) (family-wise error 5 %)."
        in result.sentence()
    )
    pair = compare(calibration, answered(calibration, {"A": (195,), "C": (182,)}))
    assert (
        "No significant shortfall at any site (family-wise error 5 %)."
        in pair.sentence()
    )
    assert [row.verdict for row in pair.rows] == ["too few cases to tell"] * 2
    assert [row.verdict for row in result.rows] == [
        "too few cases to tell",
        "yes",
        "too few cases to tell",
    ]
    assert pair.rows[1].check.falls_short
    alone = compare(calibration, answered(calibration, {"C": (182,)}))
    assert [row.site for row in alone.short] == ["C"]


def test_an_exact_answer_says_what_the_site_saw():
    calibration, scores = calibrated(1.5, 0.5), np.arange(200) / 100
    seen = check(calibration, scores)
    rows = compare(calibration, [answer(calibration, scores, site="A")]).rows
    assert tuple(row.check for row in rows) == seen.levels


def test_noise_is_shared_by_finite_levels():
    calibration = calibrated(1.0, math.inf, 0.5)
    rows = compare(
        calibration,
        answered(calibration, {"A": (190, 212, 100)}, epsilon=Fraction("0.4")),
    ).rows
    noise = CountNoise.of(Fraction("0.2"))
    assert rows[0].check.interval == interval(212, 190, SURE, noise)
    assert rows[2].check.p_value == count_cdf(
        212, 100, float(1 - Fraction("0.8")), noise
    )
    assert rows[1].check.interval == (1.0, 1.0)


def test_answers_that_do_not_fit_are_all_named():
    calibration, other = calibrated(1.0, math.inf), calibrated(2.0, math.inf)
    wrong = [
        *answered(other, {"A": (1, 212)}),
        *answered(calibration, {"B": (1, 2, 3), "C": (1, 211), "D": (1, 212)}),
        *answered(calibration, {"D": (1, 212)}),
    ]
    with pytest.raises(
        ValueError,
        match=(
            r"4 refused: A: checks another.*B: has 3 counts.*C: reports.*D: answered 2"
        ),
    ):
        compare(calibration, wrong)
    with pytest.raises(ValueError, match="at least one"):
        compare(calibration, [])


def test_a_private_answer_still_finds_a_site_that_differs(tmp_path):
    """A site with 10 % coverage of 200 cases: missed with probability below
    FALSE_ALARM.
    """
    ledger = fc.Ledger.create(tmp_path / "site.db")
    ledger.set_budget("new", 2.0)
    calibration, scores = calibrated(0.19), np.arange(200) / 100
    made = answer(
        calibration, scores, site="odd", epsilon=1.0, ledger=ledger, dataset="new"
    )
    unnoticed = CountNoise.of(1.0).cdf(
        20 - 100
    )  # so much noise that half of the cases seem covered
    assert unnoticed < FALSE_ALARM
    assert [row.site for row in compare(calibration, [made]).short] == ["odd"]
