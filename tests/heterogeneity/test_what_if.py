"""What-if laws against simulation, and the paper's bounds against the laws.

Every simulation test states its runs; with the limits of support.py each fails by chance with probability
at most 1e-7.
"""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.heterogeneity import contaminated, distortion, examples, location, power, scale, what_if
from support import hoeffding_limit, kolmogorov_distance, kolmogorov_limit

PLAN = fc.plan(
    n_points={"A": 20, "B": 20, "C": 50, "D": 50, "E": 50}, confidence_level=0.9, criterion="marginal"
)
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
    law, target, runs = asked.law(test), asked._distribution_of_tests(test), 4000
    rng = np.random.default_rng(11)
    reports = np.empty((runs, len(asked.sites)))
    for j, site in enumerate(asked.sites):
        [rank] = site.ranks
        uniform = np.sort(rng.random((runs, site.n)), axis=1)[:, rank - 1]
        reports[:, j] = asked._distribution(site.name).ppf(uniform)
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


def test_without_a_difference_nothing_changes():
    asked = what_if(PLAN, {})
    assert abs(asked.promised.mean() - PLAN.law.mean()) < 1e-12
    assert abs(asked.law().mean() - PLAN.law.mean()) < 1e-12
    assert abs(asked.law("mixture").mean() - PLAN.law.mean()) < 1e-12
    assert abs(asked.bounds()[0] - PLAN.law.mean()) < 1e-8
    equal = fc.plan(n_sites=5, n_points=30, confidence_level=0.9, criterion="marginal")
    np.testing.assert_allclose(what_if(equal, {}).bounds(), equal.law.mean(), atol=1e-8)
    # If all sites differ in the same way, a point of one of them is covered as promised.
    together = what_if(PLAN, dict.fromkeys("ABCDE", scale(3.0)))
    assert abs(together.law("B").mean() - PLAN.law.mean()) < 1e-9


def test_the_mixture_is_by_size_unless_shares_are_given():
    shifts = {"A": scale(2.0)}
    by_size = what_if(PLAN, shifts)
    assert by_size.mixture == pytest.approx([20 / 190, 20 / 190, 50 / 190, 50 / 190, 50 / 190])
    only_there = what_if(PLAN, shifts, mixture={"A": 3.0})
    assert only_there.mixture == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert abs(only_there.law("mixture").mean() - by_size.law("A").mean()) < 1e-9


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
    plan = fc.plan(n_sites=4, n_points=30, confidence_level=0.9, criterion="marginal")
    assert what_if(plan, {"2": scale(2.0)}).law("2").mean() < plan.law.mean()


def test_one_of_several_levels():
    sizes = dict.fromkeys("ABC", 40)
    both = fc.plan(n_points=sizes, confidence_level=[0.8, 0.9], criterion="marginal")
    alone = fc.plan(n_points=sizes, confidence_level=0.9, criterion="marginal")
    for level, expected in ((0.9, alone.law.mean()), (None, both.laws[0].mean())):
        assert what_if(both, {}, confidence_level=level).promised.mean() == pytest.approx(expected)


def test_one_group_of_several():
    sizes = {"child": {"A": 40, "B": 60}, "adult": {"A": 90, "C": 50}}
    plan = fc.plan(groups=sizes)
    asked = what_if(plan["adult"], {"C": scale(2.0)})
    assert [(site.name, site.n) for site in asked.sites] == [("A", 90), ("C", 50)]
    assert asked.law("C").mean() < plan["adult"].law.mean()


def test_a_group_that_nobody_answered_for_has_no_coverage():
    plan = fc.plan(groups={"child": None, "adult": None}, sites=["A", "B"])
    report = fc.report(plan, np.arange(30.0), groups=["adult"] * 30, site="A")
    calibration = fc.calibrate(plan, [report])
    with pytest.raises(ValueError, match="too few sites answered"):
        what_if(calibration["child"], {})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: what_if(PLAN, {"Z": scale(2.0)}), "shifts must name sites of the plan"),
        (lambda: what_if(PLAN, {"A": scale(2.0)}).law("Z"), "test must be 'mixture' or a site"),
        (lambda: what_if(PLAN, {}, mixture={"A": -1.0}), "mixture must hold shares .* not negative"),
        (lambda: what_if(PLAN, {}, mixture={"Z": 1.0}), "mixture must name sites"),
        (lambda: what_if(PLAN, {}, reference="gauss"), "reference must be one of"),
        (lambda: what_if(PLAN, {}, reference=[1.0, 1.0]), "at least two different"),
        (lambda: what_if(PLAN, {}, confidence_level=0.5), "confidence_level must be one of"),
        (lambda: what_if(fc.plan(confidence_level=0.9), {}), "this plan is open"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_private_reports_have_a_bound_already():
    privacy = fc.Privacy(epsilon=5.0, bins=fc.Bins.uniform(0, 1, 10))
    plan = fc.plan(n_sites=5, n_points=200, confidence_level=0.8, privacy=privacy)
    with pytest.raises(ValueError, match="exact reports only"):
        what_if(plan, {})


def test_bounds_see_the_narrow_laws_of_large_sites():
    plan = fc.plan(n_points={"a": 10**6, "b": 10**6}, confidence_level=0.9, criterion="marginal")
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


def test_a_population_plan_breaks_where_the_promise_to_each_site_holds():
    """The reason for that promise: one site with larger scores loses its coverage under the usual plan."""
    sizes = dict.fromkeys("ABCDE", 60)
    usual = what_if(fc.plan(n_points=sizes, confidence_level=0.9, criterion="marginal"), {"A": scale(3.0)})
    assert usual.law("A").mean() < 0.87
    each = what_if(fc.plan(n_points=sizes, confidence_level=0.9, promise="each-site"), {"A": scale(3.0)})
    assert all(each.law(name).mean() >= 0.9 for name in sizes)
