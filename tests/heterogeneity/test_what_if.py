"""What-if laws against simulation, and the paper's bounds against the laws.

Every simulation test states its runs; with the limits of support.py each fails by chance with probability
at most 1e-7.
"""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.heterogeneity import contaminated, distortion, examples, location, power, scale, what_if
from fedconformal.laws import heterogeneity_losses
from support import hoeffding_limit, kolmogorov_distance, kolmogorov_limit

SIZES = {"A": 20, "B": 20, "C": 50, "D": 50, "E": 50}
PLAN = fc.plan(n_points=SIZES, confidence_level=0.9, criterion="marginal", local_ranks="paper")
VOTES = {
    "one vote each": PLAN,
    "weights": fc.plan(n_points={"A": 30, "B": 30, "C": 90, "D": 200, "E": 90}),
    "three numbers": fc.plan(n_points=SIZES, numbers=3),
    "three numbers, one site too small for them": fc.plan(n_points={**SIZES, "A": 2}, numbers=3),
}
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


SOME = ("location, mixture", "power below one", "contaminated, test there", "everybody differs")
CASES = [(kind, votes) for votes in VOTES for kind in (SHIFTS if VOTES[votes] is PLAN else SOME)]


def simulated_thresholds(asked, runs, rng):
    """The smallest reported value at which the votes are enough, in so many federations."""
    values, votes = [], []
    for site in asked.sites:
        scores = asked._distribution(site.name).ppf(np.sort(rng.random((runs, site.n)), axis=1))
        padded = np.concatenate([scores, np.full((runs, 1), np.inf)], axis=1)
        values += [padded[:, rank - 1] for rank in site.ranks]
        votes += site.weights
    reports, weights = np.column_stack(values), np.array(votes)
    order = np.argsort(reports, axis=1)
    enough = np.cumsum(weights[order], axis=1) >= asked.server_rank
    place = np.take_along_axis(order, enough.argmax(axis=1)[:, None], axis=1)
    return np.take_along_axis(reports, place, axis=1)[:, 0]


@pytest.mark.parametrize(("kind", "votes"), CASES)
def test_the_law_agrees_with_simulation(kind, votes):
    """4,000 federations for each kind of shift and votes, scores drawn from the sites' own distributions."""
    shifts, base, test = SHIFTS[kind]
    asked = what_if(VOTES[votes], shifts, reference=base)
    law, target, runs = asked.law(test), asked.distribution_of(test), 4000
    coverage = target.cdf(simulated_thresholds(asked, runs, np.random.default_rng(11)))
    assert kolmogorov_distance(coverage, law.cdf) < kolmogorov_limit(runs)
    assert abs(coverage.mean() - law.mean()) < hoeffding_limit(runs)


def test_votes_that_differ_are_among_those_simulated():
    """Else the simulation would not see them."""
    assert len(set(what_if(VOTES["weights"], {}).design.weights.ravel().tolist())) > 1
    assert {len(site.ranks) for site in what_if(VOTES["three numbers"], {}).sites} == {3}
    small = what_if(VOTES["three numbers, one site too small for them"], {})
    assert len({len(site.ranks) for site in small.sites}) > 1


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "votes"), CASES)
def test_the_bounds_are_bounds(kind, votes):
    shifts, base, test = SHIFTS[kind]
    asked = what_if(VOTES[votes], shifts, reference=base)
    proposition, simpler = asked.bounds(test)
    assert asked.law(test).mean() >= proposition - 1e-8
    assert proposition >= simpler - 1e-8


def test_ehm_bounds_the_loss_of_sites_with_one_vote_each():
    """The simpler bound is the one that the laws have for ranks of one dimension."""
    equal = fc.plan(n_points=dict.fromkeys("ABCDE", 40), criterion="marginal")
    asked = what_if(equal, {"A": power(2.0)})
    law = fc.CoverageLaw(
        n_sites=5,
        n_points=40,
        local_rank=equal.local_ranks[0],
        server_rank=equal.server_rank,
        distortion=[lambda c: c**2, None, None, None, None],
    )
    assert asked.bounds() == pytest.approx(equal.law.mean() - np.array(heterogeneity_losses(law.federation)))


def test_a_site_that_is_not_asked_may_still_hold_test_points():
    plan = fc.plan(n_points={"tiny": 5, "large": 1895})
    asked = what_if(plan, {"tiny": scale(2.0)})
    assert [site.ranks for site in asked.sites if site.name == "tiny"] == [()]
    assert asked.law().mean() == pytest.approx(plan.law.mean(), abs=1e-12)
    assert asked.law("tiny").mean() < asked.law("mixture").mean() < plan.law.mean()


def test_sites_that_share_a_shift_are_computed_together():
    """Ten sites share one shift object, and so one column; with an object each they have ten."""
    names = [str(j) for j in range(1, 21)]
    plan = fc.plan(20, 50)
    shared = what_if(plan, dict.fromkeys(names[:10], contaminated(0.2, 3.0)))
    own = what_if(plan, {name: contaminated(0.2, 3.0) for name in names[:10]})
    assert shared.law("1").federation.counts.tolist() == [10, 10]
    assert own.law("1").federation.counts.tolist() == [1] * 10 + [10]
    for test in (None, "1", "mixture"):
        assert shared.law(test).mean() == pytest.approx(own.law(test).mean(), abs=1e-12)


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
