"""What a check found, in plain words that say no more than is known."""

import math

import numpy as np
import pytest
from checked_calibrations import calibrated

import fedconformal as fc
from fedconformal.heterogeneity import check
from fedconformal.heterogeneity._sentences import odds


def test_a_shortfall():
    words = check(calibrated(1.0), [0.0] * 171 + [2.0] * 41, site="north").sentence()
    assert "of 212 new cases at north, 171 (80.7 %) fall inside" in words
    assert "between 74.6 % and 85.8 % (95 % confidence)" in words
    assert "by chance in fewer than 1 of 10,000 checks" in words
    assert "differ from those of other sites, or this calibration came out low" in words
    assert "it gives 85.8 % or less with a probability of at most" in words


def test_no_shortfall_is_no_proof():
    words = check(calibrated(1.0), [0.0] * 190 + [2.0] * 22).sentence()
    assert "no proof that it is not" in words
    assert "in 4 of 5 checks if it were 83.9 % or less" in words
    assert "can never show a shortfall" in check(calibrated(1.0), [0.0]).sentence()
    assert "That is at least 50 %." in check(calibrated(0, 1.0), [0.0] * 99).sentence().splitlines()[1]
    assert "hold everything" in check(calibrated(math.inf), [0.0]).sentence()


@pytest.mark.parametrize(
    ("level", "words"), [(0.9, "90 %"), (0.999, "99.9 %"), (0.9999999, "99.99999 %"), (0.05, "5 %")]
)
def test_all_digits_of_a_level_are_said(level, words):
    assert (
        check(calibrated(1.0, levels=[level]), [0.0]).sentence().startswith(f"Level {words}: of 1 new case ")
    )


def test_odds():
    assert odds(1.0) == "by chance in about 100 of 100 checks"
    assert odds(0.02) == "by chance in about 1 of 50 checks"
    assert odds(0.00009) == "by chance in fewer than 1 of 10,000 checks"
    assert odds(0.0) == odds(1e-300) == "by chance in fewer than 1 of 1,000,000 checks"


def test_words_for_a_promise_to_each_site():
    plan = fc.plan(n_points={"A": 60, "B": 60}, confidence_level=0.9, promise="each-site")
    rng = np.random.default_rng(0)
    calibration = fc.calibrate(plan, [fc.report(plan, rng.random(60), site=site) for site in "AB"])
    words = check(calibration, 2 * rng.random(300), site="A").sentence()
    assert "have changed since the calibration, or it came out low for this site" in words
    assert "other sites" not in words
