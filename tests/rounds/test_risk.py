"""Scores of losses over engines: computed at the site, with draws that no round can
choose.
"""

import logging
import warnings

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
        n_points={"A": 200},
        risk=0.3,
        terms={"round": round_id},
        **{"score": "missed-labels", **options},
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
    first, second = (
        request_of(plan_of(name)).read_cases(site, computed).scores
        for name in ("r1", "r2")
    )
    np.testing.assert_array_equal(first, second)
    anybody = [
        request_of(plan_of("r1")).read_cases(rounds.Site("A"), computed).scores
        for _ in range(2)
    ]
    assert (anybody[0] != anybody[1]).any()
    report = fc.report(plan_of("r1"), first, site="A", score="missed-labels")
    calibration = fc.calibrate(plan_of("r1"), [report])
    request = CheckRequest(rounds.pack_calibration(calibration))
    assert (request.read_cases(site, computed).scores != first).any()


def test_columns_are_found_by_name():
    truth, p = some_cases()
    plan = fc.plan(
        n_points={"A": 200}, risk=0.3, score="missed-labels", terms={"classes": LABELS}
    )
    site = rounds.Site("A", policy=fc.SitePolicy(secret="a secret of sixteen"))
    plain = request_of(plan).read_cases(site, {"truth": truth, "prediction": p}).scores
    tables = {
        "truth": pl.DataFrame(
            truth[:, ::-1].astype(int), schema=[f"true_{name}" for name in LABELS[::-1]]
        ),
        "prediction": pl.DataFrame(
            p[:, [1, 0, 2]], schema=["p_lung", "p_heart", "p_skin"]
        ),
    }
    np.testing.assert_array_equal(
        request_of(plan).read_cases(site, tables).scores, plain
    )


def test_images_of_several_shapes_are_scored_at_the_site():
    rng = np.random.default_rng(1)
    images = [rng.random((4, i)) for i in range(2, 202)]
    masks = [rng.random(image.shape) < image for image in images]
    site = rounds.Site("A", policy=fc.SitePolicy(secret="a secret of sixteen"))
    cases = request_of(plan_of("r1", score="missed-pixels")).read_cases(
        site, {"truth": masks, "prediction": images}
    )
    source = fc.protocol.draw_source(
        fc.scores.MissedPixels(),
        site="A",
        policy=site.policy,
        ledger=None,
        dataset=None,
    )
    np.testing.assert_array_equal(
        cases.scores, fc.scores.MissedPixels().score(masks, images, u=source)
    )


def test_answers_cannot_be_checked():
    options = {
        "curve": fc.Bins.uniform(0, 1, 10),
        "starts": 1,
        "criterion": "conditional",
        "score": None,
    }
    plan = plan_of("r1", **options)
    policy = fc.SitePolicy(curves="plain")
    report = fc.report(
        plan, np.full(200, 0.95), losses=np.zeros(200), site="A", policy=policy
    )
    with pytest.raises(ValueError, match="this calibration makes no prediction sets"):
        rounds.pack_calibration(fc.calibrate(plan, [report]))


# -- sums of losses, and answers -------------------------------------------------------

EDGES = fc.Bins.uniform(0, 1, 10)
PLAIN = fc.SitePolicy(curves="plain")


def ask(plan, computed, log, policy=PLAIN):
    """Let the site answer as an engine does; returns the text that leaves, or the code
    of a failure.
    """
    site = rounds.Site("A", policy=policy)
    return rounds.CALIBRATE.answer(
        rounds.pack_plan(plan), lambda plan: computed, lambda plan: site, log=log
    )


@pytest.fixture
def log(caplog):
    caplog.set_level("INFO")
    return logging.getLogger("site")


def test_losses_give_the_bytes_of_a_report_from_them(log, caplog):
    truth, p = some_cases()
    losses = fc.scores.MissedLabels().losses(truth, p, EDGES.edges)
    plan = fc.plan(n_points={"A": 200}, curve=EDGES, parts=60, risk=0.3)
    expected = fc.report(plan, losses=losses, site="A", policy=PLAIN).to_json(
        indent=None
    )
    assert ask(plan, {"losses": losses}, log) == expected
    assert (
        "the sums of the losses of your 200 cases at 9 settings, and for their number"
        in caplog.text
    )
    named = plan_of("r1", curve=EDGES, parts=60)
    expected = fc.report(
        named, losses=losses, site="A", policy=PLAIN, score="missed-labels"
    )
    for computed in (
        {"truth": truth, "prediction": p},
        {"losses": losses, "score": "missed-labels"},
    ):
        assert ask(named, computed, log) == expected.to_json(indent=None)
    calibration = fc.calibrate(named, [expected])
    request = CheckRequest(
        rounds.pack_calibration(calibration)
    )  # a check counts scores
    scores = request.read_cases(
        rounds.Site("A"), {"truth": truth, "prediction": p}
    ).scores
    assert scores.shape == (200,)


def test_a_loss_of_other_scores_is_1_for_a_case_that_is_missed(log):
    y = np.random.default_rng(1).random(200)
    plan = plan_of("r1", curve=EDGES, parts=1, score="absolute")
    losses = (y[:, None] > np.array(EDGES.edges)).astype(float)
    expected = fc.report(plan, losses=losses, site="A", policy=PLAIN, score="absolute")
    assert ask(
        plan, {"truth": y, "prediction": np.zeros(200)}, log
    ) == expected.to_json(indent=None)


def test_answers_give_the_bytes_of_a_report_from_them(log, caplog):
    confidence = np.random.default_rng(2).random(200)
    wrong = (confidence < 0.2).astype(float)
    plan = fc.plan(
        n_points={"A": 200}, curve=EDGES, starts=5, risk=0.3, criterion="conditional"
    )
    expected = fc.report(
        plan, confidence, losses=wrong, site="A", policy=PLAIN
    ).to_json(indent=None)
    assert ask(plan, {"scores": confidence, "losses": wrong}, log) == expected
    assert "how many of your 200 cases are answered at 10 settings" in caplog.text


def test_what_a_plan_of_losses_does_not_take(log, caplog):
    truth, p = some_cases()
    losses = fc.scores.MissedLabels().losses(truth, p, EDGES.edges)
    plan, named = (
        plan_of("r1", curve=EDGES, parts=60, score=score)
        for score in (None, "missed-labels")
    )
    for asked, computed, failure, reason in (
        (plan, p[:, 0], rounds.Failure.REPORT, "this plan takes losses, and no scores"),
        (
            named,
            {"losses": losses},
            rounds.Failure.SCORES,
            "nothing says that these scores are it",
        ),
        (
            plan_of("r1"),
            {"losses": losses, "score": "missed-labels"},
            rounds.Failure.REPORT,
            "no losses",
        ),
        (
            plan,
            {"losses": losses, "wrong": 1},
            rounds.Failure.SCORES,
            "must return scores, or a mapping",
        ),
    ):
        caplog.clear()
        assert ask(asked, computed, log) is failure
        assert reason in caplog.text
    assert (
        ask(plan, {"losses": losses}, log, policy=fc.SitePolicy())
        is rounds.Failure.POLICY
    )


def test_a_plan_with_other_settings_in_one_group_is_refused():
    groups = {"a": {"A": 90}, "b": {"A": 90}}
    plan = fc.plan(
        groups=groups, curve=EDGES, parts=60, risk=0.3, score="missed-labels"
    )
    first, second = plan.designs
    for change in ({"edges": (*EDGES.edges[:-1], 2.0)}, {"parts": 30}, {"parts": None}):
        other = second.model_copy(
            update={"message": second.message.model_copy(update=change)}
        )
        hostile = plan.model_copy(update={"designs": (first, other)})
        with pytest.raises(
            ValueError, match="must ask for the same ones in every group"
        ):
            fc.protocol.loss_curve(hostile)


# -- draws -----------------------------------------------------------------------------

SECRET = fc.SitePolicy(secret="a secret of sixteen")


def calibration_of(plan, scores):
    return fc.calibrate(plan, [fc.report(plan, scores, site="A", score=plan.score)])


def check_scores(calibration, site, truth, p, *, period=None):
    key = fc.SigningKey.new()
    request = CheckRequest(rounds.pack_calibration(calibration, key=key, period=period))
    return request.read_cases(site, {"truth": truth, "prediction": p}).scores


@pytest.mark.parametrize("kept_in", ["ledger", "policy"])
def test_a_check_draws_once_for_each_period_whatever_the_model(tmp_path, kept_in):
    truth, p = some_cases()
    secret = {"policy": SECRET}
    if kept_in == "ledger":
        secret = {"ledger": fc.Ledger.create(tmp_path / "site.db"), "dataset": "later"}
    site, scores = (
        rounds.Site("A", **secret),
        fc.scores.MissedLabels().score(truth, p, u=[0.5] * 200),
    )
    first, second = (calibration_of(plan_of(name), scores) for name in ("r1", "r2"))
    drawn = check_scores(first, site, truth, p)
    np.testing.assert_array_equal(
        check_scores(second, site, truth.astype(int), p), drawn
    )
    perturbed = p * (1 - 1e-12)
    np.testing.assert_allclose(
        check_scores(first, site, truth, perturbed), drawn, atol=1e-9
    )
    periods = [
        check_scores(first, site, truth, p, period=month)
        for month in ("2027-01", "2027-02")
    ]
    assert (periods[0] != periods[1]).sum() > 10
    assert (periods[0] != drawn).sum() > 10
    reported = (
        request_of(plan_of("r1"))
        .read_cases(site, {"truth": truth, "prediction": p})
        .scores
    )
    assert (reported != drawn).any()


def test_private_checks_draw_by_the_place_of_a_case_whatever_the_others_are(tmp_path):
    truth, p = some_cases()
    site = rounds.Site(
        "A",
        ledger=fc.Ledger.create(tmp_path / "site.db"),
        dataset="later",
        check_epsilon=1.0,
    )
    calibration = calibration_of(
        plan_of("r1"), fc.scores.MissedLabels().score(truth, p, u=[0.5] * 200)
    )
    later = np.where(np.arange(200)[:, None] == 199, ~truth, truth)
    drawn = check_scores(calibration, site, truth, p)
    np.testing.assert_array_equal(
        check_scores(calibration, site, later, p)[:199], drawn[:199]
    )


def test_a_site_without_a_secret_is_warned_where_it_draws():
    truth, p = some_cases()
    text = (
        "'missed-labels' is drawn at random, and again in each round, .* fedconformal"
        " policy new"
    )
    with pytest.warns(UserWarning, match=text):
        scores = (
            request_of(plan_of("r1"))
            .read_cases(rounds.Site("A"), {"truth": truth, "prediction": p})
            .scores
        )
    with pytest.warns(UserWarning, match=text):
        check_scores(calibration_of(plan_of("r1"), scores), rounds.Site("A"), truth, p)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for policy, plan, computed in (
            (SECRET, plan_of("r1"), {"truth": truth, "prediction": p}),
            (
                PLAIN,
                plan_of("r1", curve=EDGES, parts=60),
                {"truth": truth, "prediction": p},
            ),
            (PLAIN, plan_of("r1"), {"scores": scores, "score": "missed-labels"}),
            (
                PLAIN,
                plan_of("r1", score="absolute"),
                {"truth": p[:, 0], "prediction": p[:, 1]},
            ),
        ):
            request_of(plan).read_cases(rounds.Site("A", policy=policy), computed)
