"""A promise to each site from plan to verification."""

import math

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.protocol import assumption_sentences


def sent(report):
    return tuple(level.values[0] for level in report.payload.levels)


@pytest.mark.parametrize("options", [{}, {"criterion": "conditional", "delta": 0.1}])
def test_a_promise_to_each_site_from_plan_to_verification(options):
    plan = fc.plan(
        n_points={"A": 60, "B": 80},
        confidence_level=[0.8, 0.9],
        promise="each-site",
        **options,
    )
    assert fc.Plan.from_json(plan.to_json()) == plan
    rng = np.random.default_rng(0)
    reports = [
        fc.report(plan, rng.random(n) * f, site=s)
        for s, n, f in (("A", 60, 1.0), ("B", 80, 9.0))
    ]
    calibration = fc.calibrate(plan, reports)
    assert calibration.thresholds == tuple(
        max(pair) for pair in zip(*map(sent, reports), strict=True)
    )
    assert "sites may differ in any way" in assumption_sentences(calibration)[0]
    assert all(finding.holds for finding in verify(calibration, reports))
    alone = fc.calibrate(plan, reports[:1])
    assert alone.thresholds == sent(reports[0])
    assert alone.missing == ("B",)
    assert all(finding.holds for finding in verify(alone, reports[:1]))
    part = calibration.parts[0]
    levels = tuple(
        level.model_copy(update={"votes": 1}) for level in part.design.levels
    )
    weaker = part.model_copy(
        update={"design": part.design.model_copy(update={"levels": levels})}
    )
    assert not all(
        finding.holds
        for finding in verify(calibration.model_copy(update={"parts": (weaker,)}))
    )


def test_an_open_promise_to_each_site():
    plan = fc.plan(confidence_level=0.9, promise="each-site")
    rng = np.random.default_rng(0)
    reports = [fc.report(plan, rng.random(n), site=str(n)) for n in (20, 50)]
    calibration = fc.calibrate(plan, reports)
    assert calibration.thresholds == max(map(sent, reports))
    assert calibration.law.mean() == pytest.approx(min(19 / 21, 46 / 51))
    too_small = fc.calibrate(plan, [*reports, fc.report(plan, rng.random(5), site="5")])
    assert too_small.threshold == math.inf
    assert too_small.parts[0].design.levels[0].advice.n_points == 9
