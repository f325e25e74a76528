"""Scores of losses over engines: computed at the site, with draws that no round can choose."""

import numpy as np
import polars as pl
import pytest

import fedconformal as fc
from fedconformal import rounds
from fedconformal.rounds._site import CheckRequest, ReportRequest

LABELS = ("heart", "lung", "skin")


def some_cases(n=200):
    rng = np.random.default_rng(0)
    p = rng.random((n, 3))
    return rng.random((n, 3)) < p, p


def plan_of(round_id, **options):
    return fc.plan(
        n_points={"A": 200}, risk=0.3, terms={"round": round_id}, **{"score": "missed-labels", **options}
    )


def request_of(plan):
    return ReportRequest(rounds.pack_plan(plan))


@pytest.mark.parametrize("kept_in", ["ledger", "policy"])
def test_no_round_draws_again(tmp_path, kept_in):
    truth, p = some_cases()
    secret = {"policy": fc.SitePolicy(secret="a secret of sixteen")}
    if kept_in == "ledger":
        secret = {"ledger": fc.Ledger.create(tmp_path / "site.db"), "dataset": "trial"}
    site, computed = rounds.Site("A", **secret), {"truth": truth, "prediction": p}
    first, second = (request_of(plan_of(name)).read_cases(site, computed).scores for name in ("r1", "r2"))
    np.testing.assert_array_equal(first, second)
    anybody = [request_of(plan_of("r1")).read_cases(rounds.Site("A"), computed).scores for _ in range(2)]
    assert (anybody[0] != anybody[1]).any()
    report = fc.report(plan_of("r1"), first, site="A", score="missed-labels")
    calibration = fc.calibrate(plan_of("r1"), [report])
    request = CheckRequest(rounds.pack_calibration(calibration))
    assert (request.read_cases(site, computed).scores != first).any()


def test_columns_are_found_by_name():
    truth, p = some_cases()
    plan = fc.plan(n_points={"A": 200}, risk=0.3, score="missed-labels", terms={"classes": LABELS})
    site = rounds.Site("A", policy=fc.SitePolicy(secret="a secret of sixteen"))
    plain = request_of(plan).read_cases(site, {"truth": truth, "prediction": p}).scores
    tables = {
        "truth": pl.DataFrame(truth[:, ::-1].astype(int), schema=[f"true_{name}" for name in LABELS[::-1]]),
        "prediction": pl.DataFrame(p[:, [1, 0, 2]], schema=["p_lung", "p_heart", "p_skin"]),
    }
    np.testing.assert_array_equal(request_of(plan).read_cases(site, tables).scores, plain)


def test_images_of_several_shapes_are_scored_at_the_site():
    rng = np.random.default_rng(1)
    images = [rng.random((4, i)) for i in range(2, 202)]
    masks = [rng.random(image.shape) < image for image in images]
    site = rounds.Site("A", policy=fc.SitePolicy(secret="a secret of sixteen"))
    cases = request_of(plan_of("r1", score="missed-pixels")).read_cases(
        site, {"truth": masks, "prediction": images}
    )
    source = fc.protocol.draw_source(
        fc.scores.MissedPixels(), site="A", policy=site.policy, ledger=None, dataset=None
    )
    np.testing.assert_array_equal(cases.scores, fc.scores.MissedPixels().score(masks, images, u=source))


def test_answers_cannot_be_checked():
    options = {"curve": fc.Bins.uniform(0, 1, 10), "starts": 1, "criterion": "conditional", "score": None}
    plan = plan_of("r1", **options)
    policy = fc.SitePolicy(curves="plain")
    report = fc.report(plan, np.full(200, 0.95), losses=np.zeros(200), site="A", policy=policy)
    with pytest.raises(ValueError, match="this calibration makes no prediction sets"):
        rounds.pack_calibration(fc.calibrate(plan, [report]))
