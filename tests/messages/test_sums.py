"""Sums of losses: conformal risk control as if all cases were in one place, and what is
refused.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.laws._curves import bound_tail, solve_sum

PLAIN = fc.SitePolicy(curves="plain")


def falling(rng, n, n_settings, parts):
    """Losses in parts that fall from one setting to the next."""
    return np.sort(rng.integers(0, parts + 1, size=(n, n_settings)), axis=1)[:, ::-1]


def answer(plan, units, parts, **options):
    """Let every site answer; returns the reports."""
    return [
        fc.report(plan, losses=own / parts, site=site, policy=PLAIN, **options)
        for site, own in units.items()
    ]


def pooled_threshold(units, settings, parts, risk):
    """Return the first setting from which on the losses, and the largest once more, are
    small enough.
    """
    losses = [
        [Fraction(int(x), parts) for x in row] for own in units.values() for row in own
    ]
    sums = [sum(column) for column in zip(*losses, strict=True)]
    good = [(total + 1) / (len(losses) + 1) <= risk for total in sums]
    return next((t for i, t in enumerate(settings) if all(good[i:])), math.inf)


def mixed_threshold(units, settings, parts, risk, shares):
    """The same for a mixture: the losses of each site, and the largest once more, with
    its share.
    """
    terms = [
        [
            share
            * (Fraction(int(units[site][:, g].sum()), parts) + 1)
            / (len(units[site]) + 1)
            for g in range(len(settings))
        ]
        for site, share in shares.items()
    ]
    good = [sum(column) <= risk for column in zip(*terms, strict=True)]
    return next((t for i, t in enumerate(settings) if all(good[i:])), math.inf)


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param(100, marks=pytest.mark.slow),
        pytest.param(1000, marks=pytest.mark.nightly),
    ],
)
def test_thresholds_are_those_of_pooled_risk_control(runs):
    """In random federations, half of them mixtures, by exact fractions."""
    rng = np.random.default_rng(runs)
    infinite = 0
    for i in range(runs):
        parts, n_settings = (
            int(rng.choice([1, 2, 7, 12, 1000])),
            int(rng.integers(2, 9)),
        )
        sizes = {str(j): int(rng.integers(1, 30)) for j in range(rng.integers(1, 6))}
        units = {site: falling(rng, n, n_settings, parts) for site, n in sizes.items()}
        settings, risk = (
            np.cumsum(rng.random(n_settings)).tolist(),
            Fraction(int(rng.integers(1, 80)), 100),
        )
        bins = fc.Bins(settings, bounded=True)
        options = {"curve": bins, "parts": parts, "risk": risk}
        if i % 2:
            weights = {site: int(rng.integers(0, 5)) for site in sizes}
            weights["0"] += 1
            plan = fc.plan(
                n_points=sizes, promise="mixture", mixture=weights, **options
            )
            shares = {
                site: Fraction(weight, sum(weights.values()))
                for site, weight in weights.items()
            }
            expected = mixed_threshold(units, settings, parts, risk, shares)
        else:
            plan = fc.plan(n_points=sizes, **options)
            expected = pooled_threshold(units, settings, parts, risk)
        asked = {site: own for site, own in units.items() if not i % 2 or weights[site]}
        reports = answer(plan, asked, parts)
        calibration = fc.calibrate(plan, reports)
        infinite += expected == math.inf
        assert calibration.threshold == expected
        assert all(
            finding.holds for finding in fc.audit.verify(calibration, reports=reports)
        )
    assert 0.1 < infinite / runs < 0.6


pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")


def test_by_hand():
    units = {
        "A": np.array([[2, 1, 0], [2, 0, 0]]),
        "B": np.array([[1, 1, 0], [0, 0, 0]]),
    }
    for risk, expected in (
        (0.5, 2.0),
        (0.4, 2.0),
        (0.3, 3.0),
        (0.2, 3.0),
        (0.1, math.inf),
    ):
        plan = fc.plan(
            n_points={"A": 2, "B": 2},
            curve=fc.Bins([1, 2, 3], bounded=True),
            parts=2,
            risk=risk,
        )
        assert fc.calibrate(plan, answer(plan, units, 2)).threshold == expected
    assert plan.law is None
    promise = "at least {share} of the largest loss is avoided{mean} for {whose}"
    assert fc.messages.claim(plan.designs[0], None) == promise
    assert plan.designs[0].levels[0].advice.n_points == 5


def test_certainty_is_that_of_hoeffding_and_bentkus():
    level, delta = Fraction(9, 10), Fraction(1, 10)
    assert [solve_sum(n, 1000, level, delta) for n in (100, 500, 1000)] == [
        95761,
        463000,
        918000,
    ]
    assert round(bound_tail(500, 30, 0.1), 7) == 0.0027252
    assert solve_sum(10, 1000, level, delta) is None
    for n, total, risk in ((50, 2.5, 0.1), (200, 31, 0.2), (200, 60, 0.2), (7, 0, 0.5)):
        mean = min(total / n, risk)
        kl = (mean * math.log(mean / risk) if mean else 0) + (1 - mean) * math.log(
            (1 - mean) / (1 - risk)
        )
        exact = min(
            math.exp(-n * kl), math.e * stats.binom.cdf(math.ceil(total), n, risk), 1
        )
        assert bound_tail(n, total, risk) == pytest.approx(exact, rel=1e-9)
    plan = fc.plan(
        n_points={"A": 300, "B": 200},
        curve=fc.Bins.uniform(0, 1, 50),
        parts=1000,
        risk=0.1,
        criterion="conditional",
    )
    assert plan.designs[0].levels[0].votes == 463_000
    assert (plan.guarantee.coverage, plan.guarantee.probability) == (0.9, 0.9)


@pytest.mark.slow
def test_certainty_holds_for_unlike_sites():
    """The mean risk of all cases exceeds 0.2 in at most a tenth of 700 runs, up to five
    deviations.
    """
    rng = np.random.default_rng(1)
    settings = np.linspace(0.02, 1, 50)
    plan = fc.plan(
        n_points={"A": 60, "B": 40},
        curve=fc.Bins(settings),
        parts=1000,
        risk=0.2,
        criterion="conditional",
    )
    exceeded = 0
    for _ in range(700):
        units = {}
        for site, n, top in (("A", 60, 1.0), ("B", 40, 0.5)):
            x = top * rng.random(n)
            units[site] = np.maximum(0, 1 - settings / x[:, None])
        t = fc.calibrate(plan, answer(plan, units, 1)).threshold
        ramp = [1 - s + s * math.log(s) if s < 1 else 0.0 for s in (t, 2 * t)]
        exceeded += 0.6 * ramp[0] + 0.4 * ramp[1] > 0.2
    assert exceeded <= 70 + 5 * math.sqrt(700 * 0.09)


def test_a_missing_site_of_a_mixture_counts_as_if_it_had_lost_everything():
    rng = np.random.default_rng(4)
    settings = np.arange(1.0, 9.0)
    plan = fc.plan(
        n_points={"A": 40, "B": 30, "C": 9},
        promise="mixture",
        mixture={"A": 6, "B": 3, "C": 1},
        curve=fc.Bins(settings, bounded=True),
        parts=8,
        risk=0.4,
    )
    units = {
        "A": falling(rng, 40, 8, 8),
        "B": falling(rng, 30, 8, 8),
        "C": np.full((9, 8), 8),
    }
    shares = {"A": Fraction(6, 10), "B": Fraction(3, 10), "C": Fraction(1, 10)}
    reports = answer(plan, {site: units[site] for site in "AB"}, 8)
    calibration = fc.calibrate(plan, reports)
    assert calibration.missing == ("C",)
    assert (
        calibration.threshold
        == mixed_threshold(units, settings, 8, Fraction(4, 10), shares)
        < math.inf
    )
    assert all(
        finding.holds for finding in fc.audit.verify(calibration, reports=reports)
    )


def test_groups_missing_sites_ledgers_and_pages(tmp_path):
    rng = np.random.default_rng(2)
    bins = fc.Bins.uniform(0, 1, 10)
    sizes = {"old": {"A": 30, "B": 20}, "young": {"A": 25, "B": 30}}
    plan = fc.plan(groups=sizes, curve=bins, parts=4, risk=0.3, score="missed-labels")
    ledger = fc.Ledger.create(tmp_path / "site.db")
    policy = fc.SitePolicy(curves="plain", private_only=False)
    units, labels = falling(rng, 55, 10, 4), np.repeat(["old", "young"], [30, 25])
    report = fc.report(
        plan,
        losses=units / 4,
        site="A",
        groups=labels,
        policy=policy,
        ledger=ledger,
        dataset="trial",
    )
    calibration = fc.calibrate(plan, [report])
    for group in ("old", "young"):
        own = {"A": units[labels == group][:, :-1]}
        assert calibration[group].threshold == pooled_threshold(
            own, bins.edges[:-1], 4, Fraction(3, 10)
        )
    assert all(
        finding.holds for finding in fc.audit.verify(calibration, reports=[report])
    )
    page = fc.pages.certificate(calibration)
    assert "the sums of the losses of its 30 cases at 9 settings" in page
    assert fc.Calibration.from_json(calibration.to_json()) == calibration


def test_what_does_not_go_together_is_refused():
    curve = fc.Bins.uniform(0, 1, 4)
    for options, message in (
        ({"curve": None}, "parts goes with curve"),
        ({"parts": 0}, "parts must be between 1 and 1000000, got 0"),
        ({"parts": 2.5}, "parts must be a whole number"),
        (
            {"promise": "each-site"},
            "'population', 'mixture' with sums of losses, got 'each-site'",
        ),
        ({"max_faulty": 1}, "one site can claim every count"),
        ({"curve": None, "privacy": fc.Privacy(1.0, curve)}, "parts goes with curve"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            fc.plan(n_sites=3, n_points=40, **{"curve": curve, "parts": 10, **options})
    plan = fc.plan(n_sites=3, n_points=2, curve=curve, parts=10, risk=0.5)
    good = [[1, 0.5, 0.25, 0]] * 2
    for given, message in (
        ({"scores": [1, 2]}, "this plan takes losses, and no scores"),
        ({"scores": [1, 2], "losses": good}, "this plan takes losses, and no scores"),
        ({"losses": [[1, 0]] * 2}, r"a row for each case and 4 columns, got \(2, 2\)"),
        ({"losses": [good[0], [1, 0.25, 0.5, 0]]}, r"must not rise .* \(first: row 1"),
        (
            {"losses": [good[0], [1, 0.25, np.nan, 0]]},
            r"between 0 and 1; .* \(first: row 1",
        ),
        ({}, "this plan takes losses"),
    ):
        with pytest.raises(ValueError, match=message):
            fc.report(plan, **given, site="A", policy=PLAIN)
    with pytest.raises(ValueError, match="this plan takes scores, and no losses"):
        fc.report(fc.plan(n_sites=3, n_points=2, risk=0.5), losses=good, site="A")
    with pytest.raises(fc.PolicyError, match='curves = "plain" would allow it'):
        fc.report(plan, losses=good, site="A")


def test_a_site_cannot_claim_more_than_its_cases_and_a_server_not_fewer_votes():
    plan = fc.plan(
        n_points={"A": 9, "B": 9}, curve=fc.Bins.uniform(0, 1, 4), parts=10, risk=0.2
    )
    rng = np.random.default_rng(3)
    reports = answer(plan, {site: falling(rng, 9, 4, 10) for site in "AB"}, 10)
    payload = reports[0].parts[0].payload
    assert sum(payload.counts) == 90
    lie = payload.model_copy(update={"counts": (91, 0, 0, 0)})
    forged = reports[0].model_copy(
        update={"parts": (reports[0].parts[0].model_copy(update={"payload": lie}),)}
    )
    with pytest.raises(fc.RefusedReportsError, match="add up to at most 90"):
        fc.calibrate(plan, [forged, reports[1]])
    calibration = fc.calibrate(plan, reports)
    (part,) = calibration.parts
    level = part.design.levels[0]
    assert level.votes == math.ceil(0.8 * 190)
    cheat = part.design.model_copy(
        update={"levels": (level.model_copy(update={"votes": level.votes - 1}),)}
    )
    tampered = calibration.model_copy(
        update={"parts": (part.model_copy(update={"design": cheat}),)}
    )
    assert any(
        finding.holds is False for finding in fc.audit.verify(tampered, reports=reports)
    )
