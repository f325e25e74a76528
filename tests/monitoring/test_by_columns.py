"""Coverage by the values of some columns: at the site, in the answer, at the
coordinator.
"""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from checked_calibrations import calibrated
from scipy import stats

import fedconformal as fc
from fedconformal.documents import Check, CheckedGroup, UnknownGroupWarning
from fedconformal.monitoring import answer, check, compare
from fedconformal.monitoring._answer import prepare_answer
from fedconformal.monitoring._coverage import count_cdf, interval
from fedconformal.privacy import CountNoise

SCORES = np.arange(200) / 100
TRUTH = np.where(np.arange(200) < 120, "sick", "well")
SEX = np.array(["man", "woman"] * 100)


@pytest.fixture
def classes():
    """A calibration by class and site: thresholds 0.9 and 1.5 at A, none for 'well' at
    B.
    """
    sizes = {"sick": {"A": 30, "B": 30}, "well": {"A": 30}}
    plan = fc.plan(
        groups=sizes, group_by=("site", "class"), confidence_level=0.9, score="lac"
    )
    labels = {"A": ["sick"] * 30 + ["well"] * 30, "B": ["sick"] * 30}
    scores = {
        "A": [*np.linspace(0, 0.9, 30), *np.linspace(0, 1, 30)],
        "B": np.linspace(0, 0.5, 30),
    }
    reports = [
        fc.report(plan, scores[site], groups=labels[site], site=site) for site in "AB"
    ]
    return fc.calibrate(plan, reports)


def test_counts_of_every_combination():
    found = check(calibrated(1.3), SCORES, by={"truth": TRUTH, "sex": SEX}, site="A")
    expected = {None: (200, 131)}
    for truth, sex in itertools.product(("sick", "well"), ("man", "woman")):
        mine = (truth == TRUTH) & (sex == SEX)
        expected[f"truth={truth}, sex={sex}"] = (
            mine.sum(),
            (SCORES[mine] <= 1.3).sum(),
        )
    assert {
        row.group: (row.check.n, row.check.covered) for row in found.rows
    } == expected


def test_all_intervals_hold_at_once_and_p_values_are_adjusted():
    found = check(calibrated(1.3, 0.5), SCORES, by={"truth": TRUTH}).rows
    assert len(found) == 6
    for row in found:
        seen = row.check
        each = 1 - Fraction("0.05") / 6
        assert seen.interval == interval(seen.n, seen.covered, each)
        assert seen.p_value == count_cdf(
            seen.n, seen.covered, float(1 - Fraction(str(seen.confidence_level)))
        )
    smallest = min(row.check.p_value for row in found)
    assert min(row.adjusted_p_value for row in found) == pytest.approx(6 * smallest)


def test_nobody_is_named_wrongly_more_often_than_stated():
    """All outcomes of two groups of 12 and 9 cases with coverage exactly the level,
    added up.
    """
    level, wrong, missed = 0.8, 0.0, 0.0
    calibration = calibrated(1.0, levels=[level])
    for first, second in itertools.product(range(13), range(10)):
        chance = stats.binom.pmf(first, 12, level) * stats.binom.pmf(second, 9, level)
        scores = (
            [0.0] * first + [2.0] * (12 - first) + [0.0] * second + [2.0] * (9 - second)
        )
        found = check(calibration, scores, by={"x": ["a"] * 12 + ["b"] * 9})
        wrong += chance * bool(found.short)
        missed += chance * any(
            not low <= level <= high
            for low, high in (r.check.interval for r in found.rows)
        )
    assert 0 < wrong <= 0.05
    assert 0 < missed <= 0.05


def test_a_group_that_all_cases_together_hide():
    scores = np.concatenate(
        [np.full(95, 0.5), np.full(5, 2.0), np.full(8, 0.5), np.full(12, 2.0)]
    )
    kind = ["many"] * 100 + ["few"] * 20
    found = check(calibrated(1.0, levels=[0.85]), scores, by={"kind": kind}, site="va")
    assert [row.name for row in found.short] == ["va, kind=few"]
    assert "falls short at: va, kind=few (level 85 %, p < 0.0001)" in found.sentence()


def test_an_answer_tells_what_the_site_saw():
    calibration, by = calibrated(1.3, 0.5), {"truth": TRUTH}
    made = answer(calibration, SCORES, site="A", by=by)
    assert made.groups == (
        CheckedGroup(values=("sick",), n=120, covered=(120, 51)),
        CheckedGroup(values=("well",), n=80, covered=(11, 0)),
    )
    assert Check.from_json(made.to_json()) == made
    assert (
        compare(calibration, [made]).rows
        == check(calibration, SCORES, by=by, site="A").rows
    )


def test_small_groups_are_left_out_with_their_cases():
    rare = np.where(np.arange(200) < 4, "rare", TRUTH)
    made = answer(calibrated(1.3), SCORES, site="A", by={"truth": rare})
    assert [group.values for group in made.groups] == [("sick",), ("well",)]
    assert made.n == 196
    assert made.covered == (127,)
    prepared = prepare_answer(calibrated(1.3), SCORES, site="A", by={"truth": rare})
    assert prepared.left_out == ("truth=rare",)
    assert "min_group = 5): 'truth=rare'" in prepared.sentence
    assert " 4 cases left out, of groups with fewer" in prepared.sentence
    with pytest.raises(fc.PolicyError, match="min_group = 20 would allow one"):
        answer(
            calibrated(1.3),
            SCORES[:40],
            site="A",
            by={"x": SEX[:40]},
            policy=fc.SitePolicy(min_group=21),
        )


def test_every_count_is_a_number_of_the_policy():
    many = [f"{i % 11}" for i in range(200)]
    with pytest.raises(
        fc.PolicyError,
        match=r"this answer holds 11 counts of your 200 cases.*allows 10",
    ):
        answer(calibrated(1.3), SCORES, site="A", by={"x": many})
    policy = fc.SitePolicy(max_numbers=11)
    assert (
        len(
            answer(
                calibrated(1.3), SCORES, site="A", by={"x": many}, policy=policy
            ).groups
        )
        == 11
    )


class TestPrivate:
    @pytest.fixture
    def terms(self, tmp_path):
        ledger = fc.Ledger.create(tmp_path / "site.db")
        ledger.set_budget("new", 3.0)
        return {"site": "A", "epsilon": 1.0, "ledger": ledger, "dataset": "new"}

    def test_epsilon_is_shared_by_groups_and_levels(self, terms):
        calibration = calibrated(1.3, math.inf, levels=[0.5, 0.9])
        made = answer(calibration, SCORES, by={"truth": TRUTH}, **terms)
        assert [group.covered[1] for group in made.groups] == [120, 80]
        rows = compare(calibration, [made]).rows
        assert [row.group for row in rows] == [
            "truth=sick",
            "truth=sick",
            "truth=well",
            "truth=well",
        ]
        noise, each = CountNoise.of(Fraction("0.5")), 1 - Fraction("0.05") / 4
        first = rows[0].check
        assert first.interval == interval(120, first.covered, each, noise)

    def test_another_question_is_charged_and_the_same_is_not(self, terms):
        ledger, calibration = terms["ledger"], calibrated(1.3)
        first = answer(calibration, SCORES, by={"truth": TRUTH}, **terms)
        assert answer(calibration, SCORES, by={"truth": TRUTH}, **terms) == first
        assert ledger.spent("new") == 1
        answer(calibration, SCORES, by={"sex": SEX}, **terms)
        answer(calibration, SCORES, **terms)
        assert ledger.spent("new") == 3
        with pytest.raises(ValueError, match=r"budget|left"):
            answer(calibration, SCORES, by={"truth": TRUTH[::-1]}, **terms)


class TestCalibrationsWithGroups:
    def test_every_case_has_the_threshold_of_its_class_and_site(self, classes):
        sick, well = classes["A: sick"].threshold, classes["A: well"].threshold
        assert sick != well
        scores, truth = np.linspace(0, 1, 100), np.array(["sick", "well"] * 50)
        found = check(classes, scores, by={"sex": SEX[:100]}, groups=truth, site="A")
        inside = scores <= np.where(truth == "sick", sick, well)
        assert [row.check.covered for row in found.rows] == [
            inside.sum(),
            inside[::2].sum(),
            inside[1::2].sum(),
        ]
        assert found.rows[0].check.threshold is None

    def test_one_answer_for_all_classes(self, classes):
        scores, truth = np.linspace(0, 1, 100), np.array(["sick", "well"] * 50)
        made = answer(classes, scores, groups=truth, site="A")
        assert (made.by, made.group) == (("group",), None)
        sick, well = compare(classes, [made]).rows[1:]
        assert sick.check.covered == (scores[::2] <= classes["A: sick"].threshold).sum()
        assert (
            well.check.covered == (scores[1::2] <= classes["A: well"].threshold).sum()
        )

    def test_a_class_that_the_site_does_not_have_is_covered_by_everything(
        self, classes
    ):
        found = check(
            classes, [0.4, 5.0], by={"t": ["s", "w"]}, groups=["sick", "well"], site="B"
        )
        assert [row.check.covered for row in found.rows] == [2, 1, 1]
        with pytest.warns(UnknownGroupWarning, match="'ill'"):
            check(classes, [5.0], by={"t": ["s"]}, groups=["ill"], site="B")

    def test_sites_alone(self):
        plan = fc.plan(n_points={"A": 30, "B": 30}, group_by="site")
        reports = [
            fc.report(plan, i + np.arange(30), site=site) for i, site in enumerate("AB")
        ]
        found = fc.calibrate(plan, reports)
        made = [answer(found, np.arange(40), site=site) for site in "AB"]
        assert [row.check.covered for row in compare(found, made).rows] == [
            int(found[site].threshold) + 1 for site in "AB"
        ]
        with pytest.raises(ValueError, match="C: is no site of the plan"):
            compare(found, [made[0].model_copy(update={"site": "C"})])


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ({}, "by must map 1 to 5 columns"),
        ({"x": ["a"]}, "by must hold a value for each of the 200 cases, got 1 of"),
        ({"x": range(200)}, "at most 100 groups, got 200 of x: make bands"),
        ({"x": SCORES}, "a label must be text or a whole number, got 0.0"),
    ],
)
def test_columns_that_do_not_fit(by, words):
    with pytest.raises((ValueError, TypeError), match=words):
        check(calibrated(1.0), SCORES, by=by)


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ({"groups": None}, "groups must be given with the columns that make them"),
        ({"by": ["truth", "sex"]}, "one value for each column"),
        ({"n": 199}, "n must be the cases of all groups"),
        ({"covered": [130]}, "covered must be the sum over the groups"),
        (
            {
                "groups": [
                    {"values": ["well"], "n": 80, "covered": [11]},
                    {"values": ["sick"], "n": 120, "covered": [120]},
                ]
            },
            "alphabetical order",
        ),
    ],
)
def test_answers_that_contradict_themselves(update, words):
    content = answer(calibrated(1.3), SCORES, site="A", by={"truth": TRUTH}).model_dump(
        mode="json"
    )
    with pytest.raises(ValueError, match=words):
        Check.model_validate_json(json.dumps({**content, **update})).check()
