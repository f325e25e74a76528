"""A site's look at its own coverage: what is covered, at which levels, and how it is
said.
"""

import math

import numpy as np
import pytest
from checked_calibrations import calibrated
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal.documents import Check
from fedconformal.monitoring import answer, cases_needed, check, compare


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
        """0.1 in float32 is above 0.1, and would be covered if the threshold were
        rounded too.
        """
        assert check(calibrated(0.1), np.array([0.1], dtype=np.float32)).covered == 0

    def test_one_level_of_several(self):
        calibration = calibrated(3.0, 1.0, 2.0)
        scores = np.arange(5)
        assert check(calibration, scores).covered == (4, 2, 3)
        assert check(calibration, scores, confidence_level=0.8).covered == 3
        assert check(calibration[0.8], scores).covered == 3
        with pytest.raises(ValueError, match="a count for each of the 3 levels"):
            answer(calibration[0.8], scores, site="A")
        with pytest.raises(
            ValueError, match=r"one of the calibration's, 0.9, 0.5, 0.8, got 0.81"
        ):
            check(calibration, scores, confidence_level=0.81)
        with pytest.raises(ValueError, match="confidence must be"):
            check(calibration, scores, confidence=1.0)

    def test_a_group_that_nobody_answered_for_covers_everything(self):
        plan = fc.plan(groups={"child": None, "adult": None}, n_sites=["A", "B"])
        report = fc.report(plan, np.arange(30.0), groups=["adult"] * 30, site="A")
        found = check(fc.calibrate(plan, [report])["child"], [1.0, 2.0])
        assert found.covered == 2
        assert "hold everything" in found.sentence()


def test_rounding_does_not_decide():
    """The p-value is 0.05 to the last digit: on the edge nobody is said to fall
    short.
    """
    found = check(calibrated(1.0, levels=[0.95]), [2.0])
    assert found.p_value == pytest.approx(0.05, rel=1e-15)
    assert not found.levels[0].falls_short
    assert check(calibrated(1.0, levels=[0.96]), [2.0]).levels[0].falls_short


def test_how_likely_so_low_a_calibration_is():
    """The law of the calibration at the upper end of the interval, rounded up to tenths
    of a percent.
    """
    calibration = calibrated(1.0)
    found = check(calibration, [0.0] * 80 + [2.0] * 20)
    end = math.ceil(1000 * found.interval[1]) / 1000
    assert found.low_by_luck == (calibration.law.cdf(end),)
    assert 0 < found.low_by_luck[0] < 1


# -- in words --------------------------------------------------------------------------


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
    assert (
        "With 212 cases this check has 80 % power to detect a coverage of 83.9 % or"
        " less." in words
    )
    assert (
        "With 1 case no check can detect a shortfall."
        in check(calibrated(1.0), [0.0]).sentence()
    )
    assert (
        "That is at least 50 %."
        in check(calibrated(0, 1.0), [0.0] * 99).sentence().splitlines()[1]
    )
    assert "hold everything" in check(calibrated(math.inf), [0.0]).sentence()


@pytest.mark.parametrize(("level", "words"), [(0.9999999, "99.99999 %"), (0.05, "5 %")])
def test_all_digits_of_a_level_are_said(level, words):
    assert (
        check(calibrated(1.0, levels=[level]), [0.0])
        .sentence()
        .startswith(f"Level {words}: of 1 new case ")
    )


def test_words_for_a_promise_to_each_site():
    plan = fc.plan(
        n_points={"A": 60, "B": 60}, confidence_level=0.9, promise="each-site"
    )
    rng = np.random.default_rng(0)
    calibration = fc.calibrate(
        plan, [fc.report(plan, rng.random(60), site=site) for site in "AB"]
    )
    words = check(calibration, 2 * rng.random(300), site="A").sentence()
    assert (
        "have changed since the calibration, or it came out low for this site" in words
    )
    assert "other sites" not in words


BINS = fc.Bins.uniform(0, 1, 50)


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({"curve": BINS}, True),
        ({"privacy": fc.Privacy(5.0, BINS)}, True),
        ({"privacy": fc.Privacy(20.0, BINS, analysis="paper")}, False),
        ({"promise": "mixture"}, False),
        ({"promise": "mixture", "curve": BINS}, False),
        ({"promise": "new-site"}, False),
    ],
    ids=[
        "curve",
        "private curve",
        "private bin",
        "mixture",
        "mixture of curves",
        "new site",
    ],
)
def test_every_kind_of_message_is_checked(options, known):
    """How probable a low calibration is, is said where the distribution of the coverage
    is known.
    """
    rng = np.random.default_rng(0)
    calibration = fc.conformalize([rng.random(300) for _ in range(12)], **options)
    found = check(calibration, 2 * rng.random(300))
    assert found.covered < 200
    assert (found.low_by_luck[0] is not None) == known
    words = found.sentence()
    assert ("or less with a probability of at most" in words) == known
    assert ("It may be that cases here" in words) != known
    assert words.endswith(".")
    assert answer(calibration, [0.0] * 9, site="1").covered == (9,)


# -- groups ----------------------------------------------------------------------------

SIZES = {"adult": {"A": 60, "B": 80}, "child": {"A": 40, "B": 30}}


@pytest.fixture(scope="module")
def grouped():
    """A calibration with groups, children having larger scores."""
    plan = fc.plan(groups=SIZES, confidence_level=0.8)
    rng = np.random.default_rng(0)
    reports = [
        fc.report(
            plan,
            rng.random(SIZES["adult"][site] + SIZES["child"][site]),
            groups=["adult"] * SIZES["adult"][site] + ["child"] * SIZES["child"][site],
            site=site,
        )
        for site in "AB"
    ]
    return fc.calibrate(plan, reports)


def test_a_document_with_groups_is_refused_in_one_line_that_names_them(grouped):
    found = Check(calibration=grouped.digest, site="A", n=5, epsilon=None, covered=(5,))
    for call in (
        lambda: check(grouped, [0.5]),
        lambda: answer(grouped, [0.5], site="A"),
        lambda: compare(grouped, [found]),
    ):
        with pytest.raises(
            ValueError, match=r"has groups, 'adult', 'child': .*calibration\['adult'\]"
        ) as error:
            call()
        assert "\n" not in str(error.value)


def test_one_group_is_checked_answered_and_assessed_like_any_calibration(grouped):
    child, scores = grouped["child"], np.linspace(0, 2, 200)
    found = check(child, scores, site="A")
    assert found.covered == int((scores <= grouped["child"].threshold).sum())
    made = answer(child, scores, site="A")
    assert (made.covered, made.group, made.calibration) == (
        (found.covered,),
        "child",
        grouped.digest,
    )
    assert [row.site for row in compare(child, [made]).short] == ["A"]
    with pytest.raises(
        ValueError, match="A: checks group 'child', and this is group 'adult'"
    ):
        compare(grouped["adult"], [made])


# -- how many cases --------------------------------------------------------------------


@pytest.mark.parametrize(("level", "low"), [(0.9, 0.8), (0.5, 0.2)])
def test_cases_needed_is_the_smallest_number(level, low):
    def enough(n):
        p = stats.binom.cdf(np.arange(n + 1), n, level)
        critical = int(np.searchsorted(p, 0.05, side="right")) - 1
        return critical >= 0 and stats.binom.cdf(critical, n, low) >= 0.8

    assert cases_needed(level, low) == next(n for n in range(1, 10_000) if enough(n))


@pytest.mark.slow
def test_differences_too_small_to_find_are_refused():
    with pytest.raises(ValueError, match="more than 30,000 cases"):
        cases_needed(0.9, 0.8999)
    with pytest.raises(ValueError, match="coverage must be"):
        cases_needed(0.9, 0.9)


def test_scores_of_losses_are_described_as_what_they_are():
    """Of a loss of 0.2 in each case, a score exceeds the threshold in one of five,
    whatever the sets hold.
    """
    rng = np.random.default_rng(0)
    calibration = fc.conformalize(
        {"A": rng.uniform(0.1, 1, 400)}, score="missed-labels", risk=0.2
    )
    words = fc.monitoring.check(
        calibration, np.repeat([0.5, 0.95], [170, 30]), site="A"
    ).sentence()
    assert words.startswith(
        "Level 80 %: of 200 new cases at A, 170 (85.0 %) have scores up to the"
        " threshold, which scores exceed as often as the mean share that is missed, so"
        " the mean share that is found at A is between"
    )
    assert "this check has 80 % power to detect a share found of" in words
    few = fc.monitoring.check(
        calibration, np.repeat([0.5, 0.95], [100, 100]), site="A"
    ).sentence()
    assert "evidence of a share found below 80 %. Either cases at A differ" in few
    assert "inside" not in words + few
    assert "coverage" not in words + few
