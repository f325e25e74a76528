"""A site's look at its own coverage: what is covered, at which levels, and how it is said."""

import math

import numpy as np
import pytest
from checked_calibrations import calibrated
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.heterogeneity import check


class TestCounting:
    @given(
        st.lists(st.floats(allow_nan=False, min_value=-1e300), min_size=1, max_size=50),
        st.floats(allow_nan=False, min_value=-1e300),
    )
    def test_at_most_the_threshold_is_covered(self, scores, threshold):
        found = check(calibrated(threshold), scores)
        assert found.covered == sum(score <= threshold for score in scores)
        assert found.coverage == found.covered / len(scores)

    def test_ties_infinite_scores_and_infinite_thresholds(self):
        scores = [1.0, 1.0, 2.0, math.nextafter(2.0, 3.0), math.inf]
        assert check(calibrated(2.0), scores).covered == 3
        found = check(calibrated(2.0, math.inf), scores)
        assert found.covered == (3, 5)
        assert found.levels[1].interval == (1.0, 1.0)
        assert found.levels[1].p_value == 1.0
        assert not found.levels[1].falls_short

    def test_the_threshold_is_not_rounded_to_the_scores(self):
        """0.1 in float32 is above 0.1, and would be covered if the threshold were rounded too."""
        assert check(calibrated(0.1), np.array([0.1], dtype=np.float32)).covered == 0

    @pytest.mark.parametrize(
        ("scores", "words"),
        [
            ([], "at least one score"),
            ([1.0, math.nan], "must not be NaN, got 1, the first in row 1"),
            ([-math.inf], "must not be -inf"),
        ],
    )
    def test_scores_that_say_nothing_are_refused(self, scores, words):
        with pytest.raises(ValueError, match=words):
            check(calibrated(1.0), scores)

    def test_one_level_of_several(self):
        calibration = calibrated(3.0, 1.0, 2.0)
        scores = np.arange(5)
        assert check(calibration, scores).covered == (4, 2, 3)
        assert check(calibration, scores, confidence_level=0.8).covered == 3
        with pytest.raises(ValueError, match=r"one of the calibration's, 0.9, 0.5, 0.8, got 0.81"):
            check(calibration, scores, confidence_level=0.81)
        with pytest.raises(ValueError, match="confidence must be"):
            check(calibration, scores, confidence=1.0)

    def test_a_group_that_nobody_answered_for_covers_everything(self):
        plan = fc.plan(groups={"child": None, "adult": None}, sites=["A", "B"])
        report = fc.report(plan, np.arange(30.0), groups=["adult"] * 30, site="A")
        found = check(fc.calibrate(plan, [report])["child"], [1.0, 2.0])
        assert found.covered == 2
        assert "hold everything" in found.sentence()


def test_rounding_does_not_decide():
    """The p-value is 0.05 to the last digit: on the edge nobody is said to fall short."""
    found = check(calibrated(1.0, levels=[0.95]), [2.0])
    assert found.p_value == pytest.approx(0.05, rel=1e-15)
    assert not found.levels[0].falls_short
    assert check(calibrated(1.0, levels=[0.96]), [2.0]).levels[0].falls_short


def test_how_likely_so_low_a_calibration_is():
    """The law of the calibration at the upper end of the interval, rounded up to tenths of a percent."""
    calibration = calibrated(1.0)
    found = check(calibration, [0.0] * 80 + [2.0] * 20)
    end = math.ceil(1000 * found.interval[1]) / 1000
    assert found.low_by_luck == (calibration.law.cdf(end),)
    assert 0 < found.low_by_luck[0] < 1
