"""Every claim of a calibration, one after the other: what is forged is found."""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.audit import verify
from protocol.sending import GROUPS, SITES, answered, drawn, federation

SIZES = {"A": 40, "B": 60, "C": 25, "D": 90, "E": 60}
BROKEN = "the parts of the calibration fit together"


def failed(findings):
    return [finding.claim for finding in findings if not finding.holds]


def with_part(calibration, i=0, **changes):
    """A calibration that somebody has changed in one part, without asking whether it fits."""
    parts = list(calibration.parts)
    parts[i] = parts[i].model_copy(update=changes)
    return calibration.model_copy(update={"parts": tuple(parts)})


def with_level(calibration, i=0, **changes):
    levels = tuple(level.model_copy(update=changes) for level in calibration.parts[i].levels)
    return with_part(calibration, i, levels=levels)


CASES = {
    "marginal": (SIZES, {"criterion": "marginal"}),
    "conditional": ({site: 3 * n for site, n in SIZES.items()}, {"criterion": "conditional"}),
    "faulty": (dict.fromkeys("ABCDEFG", 60), {"max_faulty": 2}),
    "uneven and faulty": (SIZES, {"max_faulty": 1, "confidence_level": 0.8}),
    "each site": (SIZES, {"promise": "each-site"}),
    "all sites": ({s: 4 * n for s, n in SIZES.items()}, {"promise": "each-site", "criterion": "conditional"}),
    "maxima": ({"A": 5, "B": 20}, {"confidence_level": 0.96, "criterion": "marginal"}),
    "median": (
        dict.fromkeys([f"{j}" for j in range(101)], 101),
        {"confidence_level": 0.5, "criterion": "marginal"},
    ),
    "large conditional": (dict.fromkeys([f"{j}" for j in range(60)], 20_000), {"criterion": "conditional"}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    sizes, options = CASES[request.param]
    plan = fc.plan(n_points=sizes, **options)
    reports = federation(plan, sizes)
    return fc.calibrate(plan, reports), reports


class TestHonest:
    def test_everything_holds(self, case):
        calibration, reports = case
        assert failed(verify(calibration)) == []
        assert failed(verify(calibration, reports)) == []
        fewer = fc.calibrate(calibration.plan, reports[1:])
        assert failed(verify(fc.Calibration.from_json(fewer.to_json()), reports[:0:-1])) == []

    def test_open_plans(self):
        for options in ({}, {"n_sites": 7}, {"sites": [*SIZES, "F"]}, {"promise": "each-site"}):
            plan = fc.plan(confidence_level=0.8, **options)
            reports = federation(plan, SIZES)
            assert failed(verify(fc.calibrate(plan, reports), reports)) == []


class TestForged:
    def test_fewer_votes(self, case):
        calibration, _ = case
        level = calibration.levels[0]
        assert level.server_rank > 1 + calibration.plan.max_faulty
        forged = with_level(calibration, server_rank=1 + calibration.plan.max_faulty)
        assert any("coverage" in claim or "reach" in claim for claim in failed(verify(forged)))
        assert any("the server kept the plan's rank" in claim for claim in failed(verify(forged)))

    def test_another_threshold_needs_the_reports(self, case):
        calibration, reports = case
        forged = with_level(calibration, threshold=calibration.thresholds[0] / 2)
        assert failed(verify(forged)) == []
        assert failed(verify(calibration, reports[1:])) == ["the reports are those that were calibrated"]
        claims = failed(verify(forged, reports))
        assert len(claims) == len(calibration.levels)
        assert all(": the threshold is " in claim for claim in claims)

    def test_an_answer_with_other_ranks(self, case):
        calibration, _ = case
        first, *others = calibration.answers
        wrong = first.model_copy(update={"ranks": ((1,),) * len(calibration.levels)})
        assert "every answer has the plan's ranks for its size" in failed(
            verify(with_part(calibration, answers=(wrong, *others)))
        )
        strange = first.model_copy(update={"n": first.n + 1})
        found = verify(with_part(calibration, answers=(strange, *others)))
        assert "every answer has the plan's ranks for its size" in failed(found)

    def test_thresholds_that_fall_with_the_level(self):
        plan = fc.plan(n_points=SIZES, confidence_level=[0.9, 0.7])
        calibration = fc.calibrate(plan, federation(plan, SIZES))
        high, low = calibration.levels
        swapped = (
            high.model_copy(update={"threshold": low.threshold}),
            low.model_copy(update={"threshold": high.threshold}),
        )
        assert failed(verify(with_part(calibration, levels=swapped))) == [
            "a higher level has no smaller threshold"
        ]

    def test_reports_that_answer_another_plan(self):
        plan, other = (
            fc.plan(n_points=SIZES, confidence_level=0.9, score=score) for score in (None, "absolute")
        )
        reports = federation(other, SIZES)
        calibration = fc.calibrate(other, reports)
        forged = calibration.model_copy(update={"plan": plan})
        assert failed(verify(forged, reports)) == ["the reports say what the answers say"]


@pytest.fixture(scope="module")
def plan():
    return fc.plan(groups=GROUPS, confidence_level=0.8, local_ranks="paper")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    return {site: drawn(GROUPS, rng, site=site) for site in SITES}


@pytest.fixture(scope="module")
def reports(plan, data):
    return answered(plan, data)


@pytest.fixture(scope="module")
def honest(plan, reports):
    return fc.calibrate(plan, reports)


class TestGroups:
    def test_exchanged_groups_are_found(self):
        plan = fc.plan(groups={"a": [30, 30], "b": [30, 30]}, confidence_level=0.8)
        rng, labels = np.random.default_rng(0), ["a"] * 30 + ["b"] * 30
        reports = [fc.report(plan, rng.random(60), site=s, groups=labels) for s in "AB"]
        honest = fc.calibrate(plan, reports)
        first, second = honest.parts
        swapped = honest.model_copy(
            update={
                "parts": (second.model_copy(update={"label": "a"}), first.model_copy(update={"label": "b"}))
            }
        )
        assert failed(verify(swapped)) == []  # nothing to see without the messages
        assert failed(verify(swapped, reports)) != []

    def test_a_number_that_was_dropped_is_found(self, plan, honest, reports):
        """A coordinator who leaves out one site in one group, after seeing its number."""
        without = reports[0].model_copy(
            update={"parts": tuple(part for part in reports[0].parts if part.label != "old")}
        )
        fewer = fc.calibrate(plan, [without, *reports[1:]])
        forged = honest.model_copy(update={"parts": (honest.parts[0], fewer.parts[1], honest.parts[2])})
        found = [finding.found for finding in verify(forged, reports) if not finding.holds]
        assert found == ["not A in 'old'"]

    def test_an_answer_counted_as_none(self, plan, data, honest):
        only = {site: (s[labels == "old"], labels[labels == "old"]) for site, (s, labels) in data.items()}
        found = fc.calibrate(plan, answered(plan, only))
        assert failed(verify(found)) == []
        forged = with_part(found, 2, answers=honest.parts[2].answers[:1])
        assert failed(verify(forged)) == [BROKEN]
        assert failed(verify(forged["young"])) != []

    def test_a_report_of_another_site_or_plan(self, honest, reports):
        stranger = reports[0].model_copy(update={"site": "Z"})
        received = (honest.reports[0].model_copy(update={"report": stranger.digest}), *honest.reports[1:])
        forged = honest.model_copy(update={"reports": received})
        claims = failed(verify(forged, [stranger, *reports[1:]]))
        assert "every report is of its site and for this plan" in claims
