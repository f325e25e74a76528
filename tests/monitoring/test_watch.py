"""Checks of many periods, put together."""

import dataclasses
import datetime
from fractions import Fraction

import numpy as np
import pytest
from checked_calibrations import calibrated

import fedconformal as fc
from fedconformal.documents import Check, CheckedGroup, period_text, read_period
from fedconformal.monitoring import (
    answer,
    compare,
    floor_digits,
    plan_watch,
    watch,
)

RNG = np.random.default_rng(0)
CALIBRATION = fc.conformalize({site: RNG.random(200) for site in "ABC"})


def check(site, period, missed, n=100, calibration=CALIBRATION, epsilon=None):
    return Check(
        calibration=calibration.whole.digest,
        site=site,
        period=period,
        n=n,
        epsilon=None if epsilon is None else Fraction(epsilon),
        covered=(n - missed,) * len(calibration.whole.plan.confidence_levels),
    )


def months(missed, site="A", **options):
    return [
        check(site, f"2027-{i + 1:02}", number, **options)
        for i, number in enumerate(missed)
    ]


def test_periods():
    assert read_period("2028-02")[1] == datetime.date(2028, 2, 29)
    assert period_text(*read_period("2027-03-01/2027-03-31")) == "2027-03"
    assert period_text(*read_period("2027-03-01/2027-03-30")) == "2027-03-01/2027-03-30"
    assert check("A", "2027-03-01/2027-03-31", 5) == check("A", "2027-03", 5)
    for text in (
        "2027",
        "2027-13",
        "2027-02-30/2027-03-01",
        "2027-3",
        "2027-03-02/2027-03-01",
        "٢٠٢٧-٠٣",
    ):
        with pytest.raises(ValueError, match="period"):
            read_period(text)
        with pytest.raises(ValueError, match="period"):
            answer(CALIBRATION, [0.5], site="A", period=text)


def test_a_period_is_another_question_to_the_ledger(tmp_path):
    ledger = fc.Ledger.create(tmp_path / "site.db")
    ledger.set_budget("new", 2.0)
    terms = {"site": "A", "epsilon": 0.5, "ledger": ledger, "dataset": "new"}
    first = answer(CALIBRATION, np.arange(50), period="2027-03", **terms)
    assert answer(CALIBRATION, np.arange(50), period="2027-03", **terms) == first
    assert ledger.spent("new") == 0.5
    answer(CALIBRATION, np.arange(50), period="2027-04", **terms)
    assert ledger.spent("new") == 1


def test_rows_of_a_site_that_drops():
    checks = [*months([10] * 6), *months([10, 9, 30, 31, 29, 30], "B")]
    result = watch(CALIBRATION, checks)
    together, one, other = result.rows
    assert (together.name, one.name, other.name) == ("all sites together", "A", "B")
    assert (one.alarm, other.alarm, other.changed) == (None, "2027-03", "2027-04")
    assert (one.named, other.named) == (False, True)
    assert one.verdict == "no alarm so far"
    assert (
        "At B: below 90 %, alarm since 2027-03 (E ="
        f" {floor_digits(other.evidence)}, alarm at 20; false alarm at this site at"
        " most 1 in 20" in result.sentence()
    )
    assert "something has changed" in result.sentence()
    assert (result.since, result.until, result.due, result.n) == (
        "2027-01",
        "2027-06",
        "2027-07",
        1200,
    )
    assert other.coverage == pytest.approx(1 - 139 / 600)
    assert 0.65 < other.lower < other.coverage
    assert [point.n for point in together.points] == [200] * 6
    assert one.points[0].interval == pytest.approx((0.824, 0.951), abs=0.001)


def test_order_and_missing_periods_do_not_matter():
    checks = [*months([10, 12, 14]), *months([8, 20, 9], "B")]
    assert watch(CALIBRATION, checks[::-1]).rows == watch(CALIBRATION, checks).rows
    fewer = watch(CALIBRATION, [checks[0], checks[2], *checks[3:]])
    assert [point.period for point in fewer.rows[1].points] == ["2027-01", "2027-03"]
    weeks = [
        check("B", f"2027-01-{4 + 7 * i:02}/2027-01-{10 + 7 * i:02}", 3, n=20)
        for i in range(3)
    ]
    assert watch(CALIBRATION, weeks).due == "2027-01-25/2027-01-31"


def test_few_cases_and_many():
    few = watch(CALIBRATION, months([2], n=20))
    assert few.rows[1].verdict == "no alarm so far"
    many = watch(CALIBRATION, months([50], n=5000)).rows[1]
    assert many.lower >= 0.9
    assert many.verdict == "at least 90\N{NO-BREAK SPACE}%"


def test_finding_follows_from_the_evidence_and_never_from_the_number_of_cases():
    """7 of 13 are far too few for the level: a check finds that, and a watch does not
    call the same cases too few.
    """
    once = Check(
        calibration=CALIBRATION.digest, site="A", n=13, epsilon=None, covered=(7,)
    )
    assessment = compare(CALIBRATION, [once])
    assert assessment.rows[0].verdict == "yes"
    assert "A (level 90 %, p = 0.00092)" in assessment.sentence()
    result = watch(CALIBRATION, months([6], n=13))
    row = result.rows[1]
    assert 19.6 <= row.evidence < 20
    assert row.verdict == "no alarm so far"
    assert row.evidence_text == "E = 19.6, alarm at 20"
    assert "is at A: E = 19.6, alarm at 20." in result.sentence()
    for n in (1, 13, 10**6):
        point = dataclasses.replace(row.points[0], n=n)
        other = dataclasses.replace(row, points=(point,))
        assert other.verdict == row.verdict
        alarm = dataclasses.replace(other, evidence=25.0, alarm="2027-01")
        assert alarm.verdict == "below 90\N{NO-BREAK SPACE}%, alarm since 2027-01"
        assert (
            dataclasses.replace(other, lower=0.9).verdict
            == "at least 90\N{NO-BREAK SPACE}%"
        )


def test_evidence_is_rounded_down():
    assert floor_digits(19.9999) == "19.9"
    assert floor_digits(20.0) == "20"
    assert floor_digits(0.0) == "0"
    assert floor_digits(1.2399e300) == "1.23e+300"


def test_answers_with_one_group_count_among_all_cases():
    """Of C one group is left, as the other has fewer than min_group cases."""
    checks = []
    for site, truths in {"A": "ab" * 50, "B": "ab" * 60, "C": "a" * 33 + "bb"}.items():
        scores = np.zeros(len(truths))
        by = {"truth": list(truths)}
        own = answer(CALIBRATION, scores, site=site, by=by, period="2027-01")
        checks.append(own)
    assert [own.n for own in checks] == [100, 120, 33]
    result = watch(CALIBRATION, checks)
    together = result.rows[0]
    assert together.group is None
    assert together.n == together.covered == result.n == 253
    assert sum(row.n for row in result.rows[1:4]) == 253
    assert "253 new cases since" in result.sentence()
    assert "All sites together: at least 90 % (253 cases" in result.sentence()
    assert "leaves groups smaller than its min_group out" in result.sentence()
    assert watch(CALIBRATION, months([6], n=13)).note == ""
    assessment = compare(CALIBRATION, [drop_period(own) for own in checks])
    assert assessment.note == result.note
    local = fc.monitoring.check(CALIBRATION, np.zeros(4), by={"sex": list("fmfm")})
    assert local.note == ""


def drop_period(own):
    return own.model_copy(update={"period": None})


def test_cases_in_noisy_answers_by_group_are_said_not_to_be_pooled():
    by = {"sex": ["f", "m"] * 50}
    exact = answer(CALIBRATION, np.zeros(100), site="A", by=by, period="2027-01")
    noisy = exact.model_copy(update={"site": "B", "epsilon": Fraction(1)})
    result = watch(CALIBRATION, [exact, noisy])
    assert (result.rows[0].n, result.n) == (100, 200)
    assert "100 more in noisy answers by group are not pooled" in result.sentence()


class TestThresholdsOfGroups:
    """The second E compares with the distribution of each threshold."""

    @pytest.mark.parametrize("kind", ["site", "class"])
    def test_a_calibration_that_came_out_low_is_no_change(self, kind):
        """A threshold of 20 cases varies much more than one of 2,000.

        Coverages are as they were calibrated, in 200 runs of 12 periods at an error of
        at most .05: more than 28 of them would be named with a probability below 1e-6.
        """
        named = 0
        for run in range(200):
            calibration, group = uneven_calibration(kind, run)
            rng = np.random.default_rng([run, 1])
            cover = min(1.0, calibration[group].threshold)
            missed = rng.binomial(100, 1 - cover, size=12)
            checks = months(missed.tolist(), "small", calibration=calibration)
            if kind == "class":
                checks = [by_class(own) for own in checks]
            rows = watch(calibration, checks).rows
            named += any(row.changed is not None for row in rows)
        assert named <= 28

    def test_a_change_at_a_large_site_is_found_by_its_own_distribution(self):
        calibration, _ = uneven_calibration("site", 0)
        checks = months([25] * 12, "big", calibration=calibration)
        checks += months([10] * 12, "small", calibration=calibration)
        rows = {row.name: row for row in watch(calibration, checks).rows}
        assert rows["big"].changed is not None
        assert rows["small"].changed is None

    def test_all_sites_have_a_seat(self):
        """One bad site of several with thresholds of their own is found, whichever
        reports first.
        """
        named = dict.fromkeys("ABC", 500)
        plan = fc.plan(n_points=named, group_by="site")
        reports = [fc.report(plan, np.arange(500.0), site=site) for site in named]
        calibration = fc.calibrate(plan, reports)
        checks = months([0] * 12, "A", n=5000, calibration=calibration)
        checks += months([40] * 12, "C", calibration=calibration)
        together = watch(calibration, checks).rows[0]
        assert together.alarm is not None


def uneven_calibration(kind, run):
    """A calibration with one threshold of 2,000 cases and one of 20, and the group of
    the latter.
    """
    sizes = {"big": 2000, "small": 20}
    rng = np.random.default_rng(run)
    if kind == "site":
        plan = fc.plan(n_points=sizes, group_by="site")
        reports = [
            fc.report(plan, rng.random(n), site=site) for site, n in sizes.items()
        ]
        return fc.calibrate(plan, reports), "small"
    groups = {label: {"small": n} for label, n in sizes.items()}
    plan = fc.plan(groups=groups, group_by="class", score="lac")
    labels = np.repeat(list(sizes), list(sizes.values()))
    report = fc.report(plan, rng.random(2020), groups=labels, site="small")
    return fc.calibrate(plan, [report]), "small"


def by_class(own):
    """Nearly all cases are of the class "small", ten of the class "big"."""
    big = CheckedGroup(values=("big",), n=10, covered=(9,))
    small = CheckedGroup(values=("small",), n=own.n, covered=own.covered)
    whole = {"n": own.n + 10, "covered": (own.covered[0] + 9,)}
    groups = {"by": ("truth",), "groups": (big, small)}
    return own.model_copy(update=whole | groups)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ([], "at least one check"),
        ([check("A", None, 5)], "A: has no period"),
        ([check("A", "2027-03", 5)] * 2, "A: periods 2027-03 and 2027-03 overlap"),
        ([check("A", "2027-03", 5), check("A", "2027-03-31/2027-04-02", 5)], "overlap"),
        (
            [check("A", "2027-03", 5, calibration=calibrated(1.5))],
            "checks another calibration",
        ),
    ],
)
def test_refused(checks, message):
    with pytest.raises(ValueError, match=message):
        watch(CALIBRATION, checks)


def test_every_overlap_is_named():
    long = [check("A", "2027-03-01/2027-03-31", 5)]
    short = [check("A", f"2027-03-{day}/2027-03-{day + 1}", 5) for day in (10, 20)]
    with pytest.raises(ValueError, match=r"2 refused.*03-10.*03-20"):
        watch(CALIBRATION, [*short, *long, *months([5], "B")])


def test_last_period_of_the_calendar():
    assert watch(CALIBRATION, [check("A", "9999-12", 5)]).due == "no later period"
    assert (
        watch(CALIBRATION, [check("A", "0001-01-01/9999-12-31", 5)]).due
        == "no later period"
    )


def test_wrong_types():
    with pytest.raises(TypeError, match="checks must be checks"):
        watch(CALIBRATION, [CALIBRATION])
    with pytest.raises(ValueError, match="false_alarm"):
        watch(CALIBRATION, months([5]), false_alarm=0)


def test_private_counts():
    checks = [*months([30] * 6, epsilon=1), *months([10] * 6, "B", epsilon=1)]
    together, one, other = watch(CALIBRATION, checks).rows
    assert one.alarm is not None
    assert other.alarm is None
    exact = watch(CALIBRATION, [*months([30] * 6), *months([10] * 6, "B")]).rows
    assert 1 < one.evidence < exact[1].evidence
    assert one.lower < exact[1].lower
    assert together.points[0].interval is None
    assert one.points[0].interval[0] < exact[1].points[0].interval[0]


def calibrate(promise, sizes=(200, 200, 200), missing=(), **options):
    """Calibrate sites A, B, ... of these sizes, of which some do not answer."""
    named = dict(zip("ABCD", sizes, strict=False))
    plan = fc.plan(n_points=named, promise=promise, **options)
    rng = np.random.default_rng(1)
    scores = {site: rng.random(n) for site, n in named.items() if site not in missing}
    reports = [fc.report(plan, own, site=site) for site, own in scores.items()]
    return fc.calibrate(plan, reports)


def test_a_mixture_is_not_pooled():
    """B misses a quarter and sends nearly all cases; it has a tenth of the new
    cases.
    """
    calibration = calibrate("mixture", mixture={"A": 0.5, "B": 0.1, "C": 0.4})
    few = {"n": 20, "calibration": calibration}
    checks = [*months([1] * 9, **few), *months([1] * 9, "C", **few)]
    checks += months([250] * 9, "B", n=1000, calibration=calibration)
    together, *single = watch(calibration, checks).rows
    assert together.alarm is None
    assert together.change is None
    assert 0.75 < together.lower < together.coverage
    assert together.coverage == pytest.approx(1 - 0.045 - 0.025)
    assert [row.alarm for row in single] == [None, "2027-01", None]
    assert [row.is_mixture for row in (together, *single)] == [True, *[False] * 3]
    result = watch(calibration, checks)
    assert "at the end of each period, when all its reports" in result.bound_sentence
    assert "at the end of" not in watch(CALIBRATION, months([1])).bound_sentence
    bad = [*months([5] * 9, **few), *months([5] * 9, "C", **few)]
    assert watch(calibration, bad).rows[0].alarm is not None


def test_each_site_has_its_own_distribution():
    calibration = calibrate("each-site")
    checks = [
        *months([25] * 9, calibration=calibration),
        *months([10] * 9, "B", calibration=calibration),
    ]
    together, one, other = watch(calibration, checks).rows
    assert one.changed is not None
    assert together.changed is not None
    assert other.change < 1
    assert one.change < one.evidence


def test_nothing_is_promised_to_a_site_that_did_not_answer():
    calibration = calibrate("each-site", (200, 200, 200, 200), missing="D")
    known = months([10] * 9, calibration=calibration)
    together, _, stranger = watch(
        calibration, [*known, *months([50] * 9, "D", calibration=calibration)]
    ).rows
    assert stranger.alarm == "2027-01"
    assert together.alarm is together.changed is None
    assert together.n == 1800


def test_a_new_site_is_watched_individually():
    plan = fc.plan(n_points={f"{i}": 50 for i in range(20)}, promise="new-site")
    reports = [
        fc.report(plan, np.random.default_rng(i).random(50), site=f"{i}")
        for i in range(20)
    ]
    calibration = fc.calibrate(plan, reports)
    rows = watch(calibration, months([40] * 3, calibration=calibration)).rows
    assert [(row.site, row.alarm, row.change) for row in rows] == [
        ("A", "2027-01", None)
    ]


def test_levels_and_groups_of_cases():
    scores = {site: np.random.default_rng(3).random(200) for site in "AB"}
    calibration = fc.conformalize(scores, confidence_level=[0.8, 0.9])
    rng = np.random.default_rng(4)
    checks = [
        answer(
            calibration,
            rng.random(100),
            site=site,
            by={"sex": ["f", "m"] * 50},
            period=f"2027-0{month}",
        )
        for site in "AB"
        for month in (1, 2)
    ]
    result = watch(calibration, checks)
    names = [row.name for row in result.rows]
    assert names[:3] == ["all sites together", "A", "B"]
    assert names[3:6] == ["all sites together, sex=f", "A, sex=f", "B, sex=f"]
    assert len(names) == 2 * 9
    assert result.rows[3].change is None
    assert result.n == 400


def test_a_group_of_a_calibration():
    plan = fc.plan(groups={"adult": {"A": 100, "B": 80}, "child": {"A": 60, "B": 50}})
    rng = np.random.default_rng(0)
    reports = [
        fc.report(
            plan, rng.random(sum(n)), site=site, groups=np.repeat(["adult", "child"], n)
        )
        for site, n in {"A": (100, 60), "B": (80, 50)}.items()
    ]
    child = fc.calibrate(plan, reports)["child"]
    checks = [
        answer(child, rng.random(50), site=site, period="2027-01") for site in "AB"
    ]
    assert [row.n for row in watch(child, checks).rows] == [100, 50, 50]
    with pytest.raises(ValueError, match="ask about one of them"):
        watch(child.whole, checks)


def test_plan_of_a_watch():
    """Ten sites of 20 cases a week: half of the drops within 3 weeks, nine in ten
    within 5 or 6.
    """
    calibration = fc.conformalize(
        {f"{i}": np.random.default_rng(i).random(79) for i in range(10)}
    )
    everywhere, one = plan_watch(calibration, 20)
    assert (everywhere.n_sites, everywhere.coverage) == (10, 0.85)
    assert everywhere.median[0] <= 3 <= everywhere.median[1] + 1
    assert everywhere.nine_in_ten[0] <= 6
    assert one.median[0] > 10
    assert "from 90 % to 85 %" in one.sentence().replace("\xa0", " ")
    assert plan_watch(calibration, 20, 0.7)[1].nine_in_ten[1] <= 5
    assert plan_watch(calibration, 1, 0.89)[1].median == (60, 60)
    mixture = calibrate("mixture")
    assert plan_watch(mixture, 50, 0.7)[0].median[1] < 10
    with pytest.raises(ValueError, match="coverage must be below the level"):
        plan_watch(calibration, 20, 0.95)
