"""Sites that differ: what-if laws against simulation, the comparison of sites, promises to each site.

Every simulation test states its runs; with the limits of support.py each fails by chance with probability
at most 1e-7.
"""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.heterogeneity import (
    compare_sites,
    contaminated,
    distortion,
    examples,
    location,
    power,
    reference,
    scale,
    what_if,
)
from fedconformal.heterogeneity._compare import _with_each_other, _with_scores
from support import FALSE_ALARM, hoeffding_limit, kolmogorov_distance, kolmogorov_limit

PLAN = fc.plan(n_points={"A": 20, "B": 20, "C": 50, "D": 50, "E": 50}, confidence_level=0.9)
SAMPLE = np.random.default_rng(5).gamma(2.0, size=300)

SHIFTS = {
    "scale up": ({"A": scale(1.7)}, "half-normal", None),
    "scale down, test there": ({"C": scale(0.5)}, "exponential", "C"),
    "location, mixture": ({"B": location(0.6), "D": location(-0.2)}, "normal", "mixture"),
    "power": ({"E": power(2.5)}, "uniform", None),
    "power below one": ({"E": power(0.4), "A": scale(2.0)}, "log-normal", "E"),
    "contaminated": ({"A": contaminated(0.2, 5.0), "B": contaminated(0.2, 5.0)}, "half-normal", None),
    "contaminated, test there": ({"A": contaminated(0.3, 4.0)}, "half-normal", "A"),
    "examples as reference": ({"C": scale(1.5)}, SAMPLE, "mixture"),
    "example scores at a site": ({"D": examples(SAMPLE)}, "exponential", "D"),
    "a distortion": ({"A": distortion(lambda c: c - 0.9 * c * (1 - c))}, "cauchy", None),
    "everybody differs": ({name: scale(1 + 0.2 * i) for i, name in enumerate("ABCDE")}, "cauchy", "mixture"),
}


@pytest.mark.parametrize("kind", SHIFTS)
def test_the_law_agrees_with_simulation(kind):
    """4,000 federations for each kind of shift, scores drawn from the sites' own distributions."""
    shifts, base, test = SHIFTS[kind]
    asked = what_if(PLAN, shifts, reference=base)
    law, target, runs = asked.law(test), asked._target(test), 4000
    rng = np.random.default_rng(11)
    reports = np.empty((runs, len(asked.sites)))
    for j, site in enumerate(asked.sites):
        uniform = np.sort(rng.random((runs, site.n)), axis=1)[:, site.rank - 1]
        reports[:, j] = asked._scores(site.name).ppf(uniform)
    threshold = np.sort(reports, axis=1)[:, asked.server_rank - 1]
    coverage = target.cdf(threshold)
    assert kolmogorov_distance(coverage, law.cdf) < kolmogorov_limit(runs)
    assert abs(coverage.mean() - law.mean()) < hoeffding_limit(runs)


@pytest.mark.parametrize("kind", SHIFTS)
def test_the_bounds_are_bounds(kind):
    shifts, base, test = SHIFTS[kind]
    asked = what_if(PLAN, shifts, reference=base)
    proposition, ehm = asked.bounds(test)
    assert asked.law(test).mean() >= proposition - 1e-8
    assert proposition >= ehm - 1e-8


@pytest.mark.parametrize("name", ["half-normal", "exponential", "normal", "uniform", "log-normal", "cauchy"])
def test_named_references_are_what_they_are_called(name):
    same = {
        "half-normal": stats.halfnorm,
        "exponential": stats.expon,
        "normal": stats.norm,
        "uniform": stats.uniform,
        "log-normal": stats.lognorm(1.0),
        "cauchy": stats.halfcauchy,
    }[name]
    c = np.linspace(0, 1, 41)
    x = np.linspace(-2, 9, 45)
    np.testing.assert_allclose(reference(name).ppf(c), same.ppf(c), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(reference(name).cdf(x), same.cdf(x), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "maker", [scale(2.0), location(0.3), power(3.0), contaminated(0.1, 5.0), examples(SAMPLE)]
)
def test_quantiles_invert_the_cdf(maker):
    shifted = maker(reference("half-normal"))
    c = np.linspace(0.001, 0.999, 101)
    np.testing.assert_allclose(shifted.cdf(shifted.ppf(c)), c, atol=1e-12)


def test_without_a_difference_nothing_changes():
    asked = what_if(PLAN, {})
    assert abs(asked.law().mean() - PLAN.law.mean()) < 1e-12
    assert abs(asked.law("mixture").mean() - PLAN.law.mean()) < 1e-12
    assert abs(asked.bounds()[0] - PLAN.law.mean()) < 1e-8
    equal = fc.plan(n_sites=5, n_points=30, confidence_level=0.9)
    np.testing.assert_allclose(what_if(equal, {}).bounds(), equal.law.mean(), atol=1e-8)
    # If all sites differ in the same way, a point of one of them is covered as promised.
    together = what_if(PLAN, dict.fromkeys("ABCDE", scale(3.0)))
    assert abs(together.law("B").mean() - PLAN.law.mean()) < 1e-9


def test_a_calibration_asks_for_the_sites_that_answered():
    scores = {"A": 20, "B": 20, "C": 50}
    reports = [
        fc.report(PLAN, np.random.default_rng(i).random(n), site=s) for i, (s, n) in enumerate(scores.items())
    ]
    calibration = fc.calibrate(PLAN, reports)
    asked = what_if(calibration, {"A": scale(2.0)})
    assert [site.name for site in asked.sites] == ["A", "B", "C"]
    assert abs(asked.promised.mean() - calibration.law.mean()) < 1e-12


def test_sites_without_names_are_numbered():
    plan = fc.plan(n_sites=4, n_points=30, confidence_level=0.9)
    assert what_if(plan, {"2": scale(2.0)}).law("2").mean() < plan.law.mean()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: what_if(PLAN, {"Z": scale(2.0)}), "shifts must name sites of the plan"),
        (lambda: what_if(PLAN, {"A": scale(2.0)}).law("Z"), "test must be 'mixture' or a site"),
        (lambda: what_if(PLAN, {}, weights={"A": -1.0}), "weights must be finite, not negative"),
        (lambda: what_if(PLAN, {}, weights={"Z": 1.0}), "weights must name sites"),
        (lambda: what_if(PLAN, {}, reference="gauss"), "reference must be one of"),
        (lambda: what_if(PLAN, {}, reference=[1.0, 1.0]), "at least two different"),
        (lambda: what_if(PLAN, {}, confidence_level=0.5), "confidence_level must be one of"),
        (lambda: what_if(fc.plan(confidence_level=0.9), {}), "this plan is open"),
        (lambda: scale(0.0), "scale must be a positive number"),
        (lambda: location(math.inf), "location must lie between"),
        (lambda: contaminated(1.5, 2.0), "contaminated share"),
        (lambda: distortion(lambda c: 1 - c), "a distortion must grow"),
        (lambda: distortion(lambda c: 0.5), "a distortion must grow"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# -- comparing sites ---------------------------------------------------------------------------------------


FAMILIES = {
    "half-normal": lambda rng, size: np.abs(rng.standard_normal(size)),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "cauchy": lambda rng, size: np.abs(rng.standard_cauchy(size)),
    "discrete": lambda rng, size: rng.integers(0, 8, size).astype(float),
}


def drawn(family, rng, m, n, l, factor=1.0):
    """Reports of m sites alike, but for the first one, whose scores are larger by the factor."""
    scores = FAMILIES[family](rng, (m, n))
    scores[0] *= factor
    return np.partition(scores, l - 1, axis=1)[:, l - 1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("m", [5, 50, 500])
@pytest.mark.parametrize("n", [10, 100])
def test_with_reference_scores_the_level_holds_whatever_the_distribution(family, m, n):
    """200 federations, each with 200 reference scores of its own; alarms are at most Binomial(200, 0.05)."""
    rng = np.random.default_rng([m, n])
    l, runs, alarms = math.ceil(0.9 * n), 200, 0
    sizes, ranks = np.full(m, n), np.full(m, l)
    for _ in range(runs):
        values = drawn(family, rng, m, n, l)
        alarms += _with_scores(values, sizes, ranks, FAMILIES[family](rng, 200))[1].min() <= 0.05
    assert alarms <= stats.binom.isf(FALSE_ALARM, runs, 0.05)


@pytest.mark.parametrize("m", [5, 50, 500])
@pytest.mark.parametrize("n", [10, 100])
def test_without_a_reference_the_level_holds_for_exponential_tails(m, n):
    """1,000 federations; the simulated critical value errs by at most a Beta quantile of 1e-7."""
    rng = np.random.default_rng([m, n, 7])
    l, runs = math.ceil(0.9 * n), 1000
    sizes, ranks = np.full(m, n), np.full(m, l)
    p = [
        _with_each_other(3 + 2 * drawn("exponential", rng, m, n, l), sizes, ranks, 0)[1].min()
        for _ in range(runs)
    ]
    level = stats.beta.isf(FALSE_ALARM / 2, 500, 9501)
    assert sum(value <= 0.05 for value in p) <= stats.binom.isf(FALSE_ALARM / 2, runs, level)
    least = stats.beta.ppf(FALSE_ALARM / 2, 500, 9501)
    assert sum(value <= 0.05 for value in p) >= stats.binom.ppf(
        FALSE_ALARM / 2, runs, least
    )  # and is not wasted


@pytest.mark.parametrize("family", ["half-normal", "exponential"])
@pytest.mark.parametrize("with_reference", [False, True])
def test_one_site_with_doubled_scores_among_twenty_is_found(family, with_reference):
    """300 federations of 20 sites with 100 points: a power of 0.9 passes but for a chance below 1e-7."""
    rng = np.random.default_rng(3)
    m, n, l, runs, found = 20, 100, 92, 300, 0
    sizes, ranks = np.full(m, n), np.full(m, l)
    for _ in range(runs):
        values = drawn(family, rng, m, n, l, factor=2.0)
        if with_reference:
            _, p = _with_scores(values, sizes, ranks, FAMILIES[family](rng, 500))
        else:
            _, p = _with_each_other(values, sizes, ranks, 0)
        found += p[0] <= 0.05
    assert found / runs >= 0.8


def test_no_test_from_the_reports_alone_is_free_of_assumptions():
    """The proof, in numbers: if all sites follow the mixture, it alarms with at least power / e.

    2,000 federations each; both frequencies are within Hoeffding's limit of their probabilities.
    """
    rng = np.random.default_rng(4)
    m, n, l, runs = 20, 100, 92, 2000
    sizes, ranks = np.full(m, n), np.full(m, l)

    def alarms(odd):
        found = 0
        for _ in range(runs):
            values = np.where(odd(m), 3.0, 1.0) * drawn("exponential", rng, m, n, l)
            found += _with_each_other(values, sizes, ranks, 0)[1].min() <= 0.05
        return found / runs

    power_of_it = alarms(lambda m: np.arange(m) == 0)
    at_the_mixture = alarms(lambda m: rng.random(m) < 1 / m)
    assert power_of_it > 0.9
    assert at_the_mixture >= power_of_it / math.e - 2 * hoeffding_limit(runs)


@settings(max_examples=25)
@given(st.floats(-50, 50), st.floats(0.01, 100))
def test_position_and_scale_do_not_matter_without_a_reference(a, b):
    values = np.random.default_rng(0).exponential(size=12)
    sizes, ranks = np.full(12, 40), np.full(12, 36)
    ours, p = _with_each_other(values, sizes, ranks, 0)
    theirs, q = _with_each_other(a + b * values, sizes, ranks, 0)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(p, q, atol=2e-3)


def test_exact_ranks_among_reference_scores():
    """Against the negative hypergeometric law, counted: where may 2 of 3 new scores fall among 4 old ones."""
    from itertools import combinations

    n, l, old = 3, 2, np.array([10.0, 20.0, 30.0, 40.0])
    placements = [sorted(set(range(7)) - set(taken))[:0] or taken for taken in combinations(range(7), n)]
    below = np.array([taken[l - 1] - (l - 1) for taken in placements])  # old scores below the l-th new one
    for k in range(5):
        value = np.array([5.0 + 10 * k])
        low, high = (below <= k).mean(), (below >= k).mean()
        _, p = _with_scores(value, np.array([n]), np.array([l]), old)
        assert p[0] == pytest.approx(min(1.0, 2 * min(low, high)), abs=1e-12)


def federation(odd, m=20, n=100):
    plan = fc.plan(n_sites=m, n_points=n, confidence_level=0.9)
    rng = np.random.default_rng(1)
    data = {f"site-{i:02d}": np.abs(rng.standard_normal(n)) for i in range(m)}
    reports = [fc.report(plan, odd.get(name, 1.0) * scores, site=name) for name, scores in data.items()]
    return plan, reports, np.abs(rng.standard_normal(500))


ODD = {"site-03": 2.0, "site-07": 0.5, "site-11": 3.0}


def test_three_odd_sites_among_twenty():
    plan, reports, own = federation(ODD)
    for given_reference in (own, "half-normal", reference("half-normal")):
        found = compare_sites(plan, reports, reference=given_reference)
        assert {finding.site for finding in found.odd} == set(ODD)
        assert found.p_value < 1e-6
    alone = compare_sites(plan, reports)
    assert {finding.site for finding in alone.odd} >= {"site-03", "site-11"}
    assert "stand out" in alone.sentence()
    assert compare_sites(*federation({})[:2]).odd == ()


def test_bounds_see_the_narrow_laws_of_large_sites():
    plan = fc.plan(n_points={"a": 10**6, "b": 10**6}, confidence_level=0.9)
    asked = what_if(plan, {"a": scale(1.003)})
    proposition, ehm = asked.bounds("a")
    assert ehm <= proposition <= asked.law("a").mean() < plan.law.mean()


def test_there_are_no_bounds_for_sites_that_lie():
    plan = fc.plan(n_points=dict.fromkeys("abc", 5), confidence_level=0.6, max_faulty=1)
    with pytest.raises(ValueError, match="honest sites"):
        what_if(plan, {"b": scale(0.4)}).bounds()


@pytest.mark.parametrize("shift", [location(1e6), power(1e-3), scale(1e6), contaminated(0.1, 1e6)])
def test_a_shift_that_all_share_changes_nothing_for_them(shift):
    plan = fc.plan(n_points=dict.fromkeys("abcd", 40), confidence_level=0.9)
    asked = what_if(plan, dict.fromkeys("abcd", shift))
    assert asked.law("a").mean() == pytest.approx(plan.law.mean(), abs=1e-6)


def test_infinite_scores_keep_the_level_and_are_found():
    """200 federations in which an eighth of all scores is infinite; alarms at most Binomial(200, 0.05)."""
    rng = np.random.default_rng(8)
    plan, runs, alarms = fc.plan(n_sites=20, n_points=100, confidence_level=0.9), 200, 0

    def drawn_scores(n):
        return np.where(rng.random(n) < 0.135, np.inf, rng.exponential(size=n))

    for _ in range(runs):
        reports = [fc.report(plan, drawn_scores(100), site=f"s{i}") for i in range(20)]
        alarms += bool(compare_sites(plan, reports, reference=drawn_scores(2000)).odd)
    assert alarms <= stats.binom.isf(FALSE_ALARM, runs, 0.05)
    plan, reports, own = federation({})
    reports[4] = fc.report(plan, np.full(100, np.inf), site=reports[4].site)
    assert [f.site for f in compare_sites(plan, reports, reference=own).odd] == [reports[4].site]
    assert [f.site for f in compare_sites(plan, reports, reference="half-normal").odd] == [reports[4].site]
    with pytest.raises(ValueError, match="equal, or infinite"):
        compare_sites(plan, reports)


def test_reports_that_are_equal_need_a_reference():
    plan = fc.plan(n_sites=20, n_points=100, confidence_level=0.9)
    rng = np.random.default_rng(0)
    reports = [fc.report(plan, np.round(np.abs(rng.standard_normal(100))), site=f"s{i}") for i in range(20)]
    with pytest.raises(ValueError, match="equal, or infinite"):
        compare_sites(plan, reports)
    with pytest.raises(ValueError, match="false_alarm must be at least"):
        compare_sites(*federation({})[:2], false_alarm=1e-5)


def test_reports_that_were_refused_are_named():
    plan, reports, own = federation({})
    other = fc.report(fc.plan(confidence_level=0.5), own, site="elsewhere")
    found = compare_sites(plan, [*reports, other], reference=own)
    assert [refusal.source for refusal in found.refused] == ["elsewhere"]


def test_what_cannot_be_compared():
    plan, reports, _ = federation({})
    with pytest.raises(ValueError, match="at least 4 sites"):
        compare_sites(plan, reports[:3])
    with pytest.raises(ValueError, match="false_alarm"):
        compare_sites(plan, reports, false_alarm=1.0)
    with pytest.raises(ValueError, match="reference scores"):
        compare_sites(plan, reports, reference=[])
    with pytest.raises(ValueError, match="confidence_level must be one of"):
        compare_sites(plan, reports, confidence_level=0.5)
    private = fc.plan(
        n_sites=5,
        n_points=200,
        confidence_level=0.8,
        privacy=fc.Privacy(epsilon=5.0, bins=fc.Bins.uniform(0, 1, 10)),
    )
    with pytest.raises(ValueError, match="private reports cannot be compared"):
        compare_sites(private, [])


def test_a_site_that_sends_infinity_is_left_out():
    plan = fc.plan(
        n_points={**{f"s{i}": 100 for i in range(6)}, "tiny": 3}, confidence_level=0.9, local_ranks="paper"
    )
    rng = np.random.default_rng(0)
    reports = [fc.report(plan, rng.random(3 if s == "tiny" else 100), site=s) for s in plan.site_names]
    found = compare_sites(plan, reports)
    assert found.left_out == ("tiny",)
    assert len(found.sites) == 6


# -- a promise to each site --------------------------------------------------------------------------------


def test_each_site_is_covered_whatever_the_others_are():
    """4,000 federations of three very different sites; the mean coverage of each is at least the level."""
    sizes, runs, rng = {"A": 30, "B": 80, "C": 12}, 4000, np.random.default_rng(2)
    plan = fc.plan(n_points=sizes, confidence_level=0.9, target="each-site")
    ranks = dict(zip(sizes, plan.local_ranks, strict=True))
    assert ranks == {"A": 28, "B": 73, "C": 12}
    draws = {
        "A": (rng.exponential(size=(runs, 30)), stats.expon.cdf),
        "B": (5 + rng.standard_normal((runs, 80)), stats.norm(5).cdf),
        "C": (rng.random((runs, 12)) * 5.5, stats.uniform(0, 5.5).cdf),
    }
    reports = [np.sort(scores, axis=1)[:, ranks[name] - 1] for name, (scores, _) in draws.items()]
    threshold = np.max(reports, axis=0)
    for name, (_, cdf) in draws.items():
        coverage = cdf(threshold)
        assert coverage.mean() >= ranks[name] / (sizes[name] + 1) - hoeffding_limit(runs)
        # The stated bound holds for the whole law of every site: the empirical cdf is not above it.
        for c in (0.7, 0.8, 0.9, 0.95):
            assert (coverage <= c).mean() <= plan.law.cdf(c) + hoeffding_limit(runs)


def test_a_population_plan_breaks_where_the_promise_to_each_site_holds():
    """The reason for the target: one site with larger scores loses its coverage under the usual plan."""
    sizes = dict.fromkeys("ABCDE", 60)
    usual = what_if(fc.plan(n_points=sizes, confidence_level=0.9), {"A": scale(3.0)})
    assert usual.law("A").mean() < 0.87
    each = what_if(fc.plan(n_points=sizes, confidence_level=0.9, target="each-site"), {"A": scale(3.0)})
    assert all(each.law(name).mean() >= 0.9 for name in sizes)


def test_all_sites_at_once_with_the_conditional_criterion():
    """4,000 federations: the share in which every site reaches the level is at least 1 - delta."""
    sizes, runs, rng = [60, 60, 90, 200], 4000, np.random.default_rng(6)
    plan = fc.plan(
        n_points=sizes, confidence_level=0.9, target="each-site", criterion="conditional", delta=0.2
    )
    own = [
        np.sort(rng.random((runs, n)), axis=1)[:, l - 1] for n, l in zip(sizes, plan.local_ranks, strict=True)
    ]
    assert (np.min(own, axis=0) >= 0.9).mean() >= 0.8 - hoeffding_limit(runs)
    for n, l in zip(sizes, plan.local_ranks, strict=True):
        missed = [stats.beta.cdf(0.9, rank, n - rank + 1) for rank in (l, l - 1)]
        each = 0.2 / 4
        assert missed[0] <= each < missed[1]  # no smaller rank would do


@pytest.mark.parametrize("options", [{}, {"criterion": "conditional", "delta": 0.1}])
def test_a_promise_to_each_site_from_plan_to_verification(options):
    plan = fc.plan(n_points={"A": 60, "B": 80}, confidence_level=[0.8, 0.9], target="each-site", **options)
    assert fc.Plan.from_json(plan.to_json()) == plan
    rng = np.random.default_rng(0)
    reports = [fc.report(plan, rng.random(n) * f, site=s) for s, n, f in (("A", 60, 1.0), ("B", 80, 9.0))]
    calibration = fc.calibrate(plan, reports)
    assert calibration.thresholds == tuple(
        max(pair) for pair in zip(*(r.values for r in reports), strict=True)
    )
    assert "sites may differ in any way" in calibration.assumptions[0]
    assert all(check.passed for check in verify(calibration, reports))
    alone = fc.calibrate(plan, reports[:1])
    assert alone.thresholds == reports[0].values
    assert alone.missing == ("B",)
    assert all(check.passed for check in verify(alone, reports[:1]))
    weaker = [level.model_copy(update={"server_rank": 1}) for level in calibration.levels]
    assert not all(check.passed for check in verify(calibration.model_copy(update={"levels": tuple(weaker)})))


def test_an_open_promise_to_each_site():
    plan = fc.plan(confidence_level=0.9, target="each-site")
    rng = np.random.default_rng(0)
    reports = [fc.report(plan, rng.random(n), site=str(n)) for n in (20, 50)]
    calibration = fc.calibrate(plan, reports)
    assert calibration.threshold == max(report.values[0] for report in reports)
    assert calibration.law.mean() == pytest.approx(min(19 / 21, 46 / 51))
    too_small = fc.calibrate(plan, [*reports, fc.report(plan, rng.random(5), site="5")])
    assert too_small.threshold == math.inf
    assert too_small.levels[0].advice.n_points == 9


def test_a_site_that_is_too_small_gets_an_infinite_threshold_and_advice():
    with pytest.warns(fc.InfeasibleWarning, match="9 points at each of 2 sites"):
        plan = fc.plan(n_points=[5, 100], confidence_level=0.9, target="each-site")
    assert plan.law.mean() == 1.0
    options = {"target": "each-site", "criterion": "conditional", "on_infeasible": "ignore"}
    plan = fc.plan(n_points=[5, 100], confidence_level=0.9, **options)
    n = plan.levels[0].advice.n_points
    assert fc.plan(n_points=[n, n], confidence_level=0.9, **options).feasible
    assert not fc.plan(n_points=[n - 1, n - 1], confidence_level=0.9, **options).feasible


@pytest.mark.parametrize(
    "options",
    [
        {"criterion": "stable"},
        {"max_faulty": 1},
        {"local_ranks": "paper"},
        {"n_points": None, "criterion": "conditional"},
        {"privacy": fc.Privacy(epsilon=1.0, bins=fc.Bins.uniform(0, 1, 10))},
        {"target": "everyone"},
    ],
)
def test_what_does_not_go_with_a_promise_to_each_site(options):
    with pytest.raises(ValueError, match=r"each-site|target|population"):
        fc.plan(**{"n_sites": 5, "n_points": 50, "target": "each-site", **options})


# -- on the terminal ---------------------------------------------------------------------------------------


def run(capsys, *arguments):
    from fedconformal.cli import main

    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_whatif_on_the_terminal(tmp_path, capsys):
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    np.savetxt(tmp_path / "scores.csv", SAMPLE, header="score", comments="")
    plan = tmp_path / "plan.json"
    code, out, _ = run(capsys, "whatif", plan, "--shift", "A=scale:1.7", "--json")
    result = json.loads(out)
    asked = what_if(PLAN, {"A": scale(1.7)})
    assert code == 0
    assert result["promised"]["mean"] == PLAN.law.mean()
    assert [row["test"] for row in result["test"]] == [None, "A", "mixture"]
    assert result["test"][1]["mean"] == asked.law("A").mean()
    code, out, _ = run(
        capsys, "whatif", plan, "--shift", f"B=scores:{tmp_path}/scores.csv", "--reference", "exponential"
    )
    assert code == 0
    assert "from site B" in out
    for wrong in ("A=scale:0", "A=scale", "A=walk:1", "scale:1", "Z=scale:2", "A=scale:1:2"):
        code, _, err = run(capsys, "whatif", plan, "--shift", wrong)
        assert code == 2
        assert err.startswith("fedconformal: ")
        assert len(err.splitlines()) == 1


def test_compare_on_the_terminal(tmp_path, capsys):
    plan, reports, own = federation(ODD)
    (tmp_path / "plan.json").write_text(plan.to_json())
    (tmp_path / "reports").mkdir()
    for report in reports:
        (tmp_path / "reports" / f"{report.site}.json").write_text(report.to_json())
    (tmp_path / "reports" / "broken.json").write_text("{}")
    np.savetxt(tmp_path / "own.csv", own, header="score", comments="")
    arguments = ("compare", tmp_path / "plan.json", tmp_path / "reports", "--reference", tmp_path / "own.csv")
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert "3 of 20 sites stand out" in out
    assert "left out" in err
    code, out, _ = run(capsys, *arguments, "--json")
    assert {row["site"] for row in json.loads(out)["sites"] if row["stands_out"]} == set(ODD)
