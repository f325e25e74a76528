"""Counts of answers: few of those given are wrong (Learn-then-Test), and what is
refused.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from mapie.risk_control import BinaryClassificationController
from scipy import stats

import fedconformal as fc
from fedconformal.laws._curves import fewest_answers, first_answered

PLAIN = fc.SitePolicy(curves="plain")
EDGES = fc.Bins.uniform(0, 1, 20)


def plan_answers(**options):
    given = {
        "n_points": {"A": 150, "B": 250},
        "curve": EDGES,
        "starts": 10,
        "risk": 0.2,
        **options,
    }
    return fc.plan(**{"criterion": "conditional", **given})


def answer(plan, confidence, wrong):
    rows = {"A": slice(0, 150), "B": slice(150, 400)}
    return [
        fc.report(plan, confidence[own], losses=wrong[own], site=site, policy=PLAIN)
        for site, own in rows.items()
    ]


def exact_tail(n, k, risk):
    return sum(math.comb(n, i) * risk**i * (1 - risk) ** (n - i) for i in range(k + 1))


def test_the_lowest_edge_by_exact_fractions():
    rng = np.random.default_rng(0)
    found = set()
    for _ in range(300):
        cells, starts = int(rng.integers(2, 12)), int(rng.integers(1, 6))
        answered = rng.integers(0, 12, size=cells)
        wrong = rng.binomial(answered, np.linspace(rng.random() * 0.6, 0, cells))
        risk, delta = (
            Fraction(int(rng.integers(5, 50)), 100),
            Fraction(int(rng.integers(5, 50)), 100),
        )
        good = [
            sum(answered[i:]) > 0
            and exact_tail(int(sum(answered[i:])), int(sum(wrong[i:])), risk)
            <= delta / starts
            for i in range(cells)
        ]
        begins = [
            i * cells // starts - 1
            for i in range(1, starts + 1)
            if i * cells // starts > 0
        ]
        passing = [
            i
            for i in range(cells)
            for start in begins
            if i <= start and all(good[i : start + 1])
        ]
        lowest = first_answered(answered, wrong, risk, delta, starts)
        assert lowest == min(passing, default=None)
        found.add(lowest)
    assert len(found) > 5
    assert [
        fewest_answers(Fraction(95, 100), Fraction(1, 10 * j)) for j in (1, 10)
    ] == [45, 90]


@pytest.mark.slow
def test_wrong_answers_are_as_rare_as_promised():
    """A share of wrong answers above 0.2 is at most as likely as delta, up to five
    deviations, in 1,500 runs.

    The confidence c is uniform, and an answer is wrong with chance 0.8 (1 - c): 0.4 (1
    - t) from t on.
    """
    rng, plan = np.random.default_rng(1), plan_answers(delta=0.1)
    runs, exceeded, none = 1500, 0, 0
    for _ in range(runs):
        c = rng.random(400)
        wrong = (rng.random(400) < 0.8 * (1 - c)).astype(float)
        t = fc.calibrate(plan, answer(plan, c, wrong)).threshold
        exceeded += t < 0.5
        none += t == math.inf
    assert exceeded <= runs * 0.1 + 5 * math.sqrt(runs * 0.09)
    assert none < 0.25 * runs


def test_p_values_are_mapies():
    rng = np.random.default_rng(2)
    q = rng.random(600)
    p, y = np.column_stack([1 - q, q]), (rng.random(600) < q**0.5).astype(int)
    params = np.linspace(0.3, 0.99, 40)
    theirs = BinaryClassificationController(
        lambda X: X, "precision", 0.85, list_predict_params=params
    )
    theirs.calibrate(p, y)
    n, k = (
        (q >= params[:, None]).sum(axis=1),
        ((q >= params[:, None]) & (y == 0)).sum(axis=1),
    )
    exact = stats.binom.cdf(k, n, 0.15)
    # MAPIE rounds n times the risk up, which adds a wrong answer where the product is
    # not exact.
    found = theirs.p_values.ravel()
    assert (exact * (1 - 1e-9) <= found).all()
    assert (found <= stats.binom.cdf(k + 1, n, 0.15) * (1 + 1e-9)).all()
    assert np.isclose(found, exact, rtol=1e-9).mean() > 0.3
    good = exact <= 0.1 / 10
    passing = [
        i
        for i in range(40)
        for s in range(3, 40, 4)
        if i <= s and good[i : s + 1].all()
    ]
    ours = fc.FederatedRiskController(
        lambda X: X,
        "precision",
        target_level=0.85,
        confidence_level=0.9,
        predict_params=params,
    ).calibrate(p, y, sites=np.repeat(["A", "B", "C"], 200))
    assert ours.best_predict_param[0] == params[min(passing)]
    np.testing.assert_array_equal(ours.predict(p)[:, 0], q >= params[min(passing)])
    abstaining = fc.FederatedRiskController(
        lambda X: X, "selective_risk", target_level=[0.3, 0.2], confidence_level=0.9
    ).calibrate(p, y, sites=np.repeat(["A", "B", "C"], 200))
    first, second = abstaining.best_predict_param
    assert first <= second
    np.testing.assert_array_equal(
        abstaining.predict(p), p.max(axis=1)[:, None] >= [first, second]
    )
    with pytest.raises(ValueError, match="risk 'precision' needs a confidence_level"):
        fc.FederatedRiskController(lambda X: X, "precision").calibrate(
            p, y, sites=["A"] * 600
        )


@pytest.fixture
def calibrated():
    rng, plan = np.random.default_rng(3), plan_answers()
    c = rng.random(400)
    wrong = (rng.random(400) < 0.8 * (1 - c)).astype(float)
    reports = answer(plan, c, wrong)
    return plan, reports, fc.calibrate(plan, reports)


def test_what_is_said_and_verified(calibrated):
    plan, reports, calibration = calibrated
    assert 0.3 < calibration.threshold < 1
    assert (calibration.law, calibration.guarantee.probability) == (None, 0.9)
    assert all(
        finding.holds for finding in fc.audit.verify(calibration, reports=reports)
    )
    sentence = fc.protocol.prepare(
        plan, np.zeros(150), losses=np.zeros(150), site="A", policy=PLAIN
    ).sentence
    assert (
        "how many of your 150 cases are answered at 20 settings, and how many of the"
        " answers are wrong" in sentence
    )
    page = " ".join(
        fc.pages.certificate(calibration).replace("\N{NO-BREAK SPACE}", " ").split()
    )
    assert (
        "With 90 % certainty, at least 80 % of the answers are right, among new cases,"
        " if the model" in page
    )
    assert "A case is answered if the model’s confidence is at least q" in page
    assert "Which score the sites used" not in page
    (part,) = calibration.parts
    lower = part.model_copy(update={"thresholds": (EDGES.edges[0],)})
    tampered = calibration.model_copy(update={"parts": (lower,)})
    assert any(
        finding.holds is False for finding in fc.audit.verify(tampered, reports=reports)
    )
    hopeless = answer(plan, np.full(400, 0.9), np.ones(400))
    none = fc.calibrate(plan, hopeless)
    assert none.threshold == math.inf
    assert all(finding.holds for finding in fc.audit.verify(none, reports=hopeless))
    assert "so no case is answered" in fc.pages.certificate(none)
    with pytest.warns(fc.InfeasibleWarning):
        assert (
            plan_answers(n_points={"A": 10, "B": 10})
            .designs[0]
            .levels[0]
            .advice.n_points
            == 11
        )


def test_sets_and_checks_of_them_are_refused(calibrated):
    _, _, calibration = calibrated
    with pytest.raises(ValueError, match="this calibration makes no prediction sets"):
        calibration.predict_set([[0.5, 0.5]], score=fc.scores.LAC())
    with pytest.raises(ValueError, match="this calibration makes no prediction sets"):
        fc.monitoring.check(calibration, [0.5] * 30)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: (c[0] + 100, *c[1:]),
        lambda c: (-1, *c[1:]),
        lambda c: (*c[:-1], c[19] + 1),
        lambda c: c[:20],
    ],
)
def test_impossible_counts_are_refused(calibrated, change):
    plan, reports, _ = calibrated
    part = reports[0].parts[0]
    counts = change(part.payload.counts)
    payload = part.payload.model_copy(update={"counts": counts})
    forged = reports[0].model_copy(
        update={"parts": (part.model_copy(update={"payload": payload}),)}
    )
    with pytest.raises(fc.RefusedReportsError):
        fc.calibrate(plan, [forged, reports[1]])


def test_what_does_not_go_together_is_refused():
    for options, message in (
        (
            {"criterion": "stable"},
            "starts goes with promise 'population' and criterion 'conditional' alone",
        ),
        (
            {"promise": "each-site"},
            "starts goes with promise 'population' and criterion 'conditional' alone",
        ),
        ({"curve": None}, "starts goes with curve"),
        ({"parts": 10}, "parts and starts do not go together"),
        ({"starts": 0}, "starts must be between 1 and 100, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_answers(**options)
    plan = plan_answers()
    for values, losses, message in (
        (np.zeros(150), None, "this plan takes scores, and losses"),
        (None, np.zeros(150), "this plan takes scores, and losses"),
        (
            np.zeros(150),
            np.full(150, 0.5),
            "losses must be 0 or 1 for each of the 150 cases",
        ),
        (
            np.zeros(150),
            np.zeros(149),
            "losses must be 0 or 1 for each of the 150 cases",
        ),
        (np.full(150, np.nan), np.zeros(150), "scores contain NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            fc.report(plan, values, losses=losses, site="A", policy=PLAIN)
    rounding = fc.SitePolicy(curves="plain", round_down_to=3)
    with pytest.raises(ValueError, match="round_down_to must be 0"):
        fc.report(plan, np.zeros(150), losses=np.zeros(150), site="A", policy=rounding)
