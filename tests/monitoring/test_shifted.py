"""The distribution of the coverage under shifts against simulation, and the paper's
bounds against it.

Every simulation test states its runs; with the limits of support.py each fails by
chance with probability at most 1e-7.
"""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.laws._reference import heterogeneity_loss
from fedconformal.monitoring import shifted_law
from support import hoeffding_limit, kolmogorov_distance, kolmogorov_limit

SIZES = {"A": 20, "B": 20, "C": 50, "D": 50, "E": 50}
PLAN = fc.plan(n_points=SIZES, criterion="marginal", local_ranks="paper")
PLANS = {
    "one vote each": PLAN,
    "weights": fc.plan(n_points={"A": 30, "B": 30, "C": 90, "D": 200, "E": 90}),
    "three numbers": fc.plan(n_points=SIZES, numbers=3),
    "three numbers, one site too small for them": fc.plan(
        n_points={**SIZES, "A": 2}, numbers=3
    ),
}
EXPONENTS = {"larger": {"A": 2.5, "B": 1.3}, "both": {"C": 0.4, "D": 2.0, "E": 0.7}}


def powers(exponents):
    """Distortions c ** exponent, by site."""
    return {site: lambda c, e=e: np.asarray(c) ** e for site, e in exponents.items()}


def simulated_coverage(plan, exponents, runs, rng):
    """Coverage in simulated federations: scores on the scale on which those of new
    cases are uniform.
    """
    values, votes, level = [], [], plan.message.levels[0]
    for kind, ranks, weights in zip(
        plan.designs[0].sites, level.ranks, level.all_votes(), strict=True
    ):
        for site in kind.names:
            scores = np.sort(rng.random((runs, kind.n)), axis=1) ** (
                1 / exponents.get(site, 1.0)
            )
            padded = np.concatenate([scores, np.ones((runs, 1))], axis=1)
            values += [padded[:, rank - 1] for rank in ranks]
            votes += weights
    reports, weights = np.column_stack(values), np.array(votes)
    order = np.argsort(reports, axis=1)
    enough = np.cumsum(weights[order], axis=1) >= plan.server_rank
    place = np.take_along_axis(order, enough.argmax(axis=1)[:, None], axis=1)
    return np.take_along_axis(reports, place, axis=1)[:, 0]


@pytest.mark.parametrize("kind", EXPONENTS)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_law_agrees_with_simulation_and_lies_above_the_bounds(plan, kind):
    """4,000 federations for each plan and kind of shift."""
    law, runs = shifted_law(plan, powers(EXPONENTS[kind])), 4000
    coverage = simulated_coverage(
        plan, EXPONENTS[kind], runs, np.random.default_rng(11)
    )
    assert kolmogorov_distance(coverage, law.cdf) < kolmogorov_limit(runs)
    assert abs(coverage.mean() - law.mean()) < hoeffding_limit(runs)
    assert law.mean() >= plan.law.mean() - heterogeneity_loss(law.federation) - 1e-8


def test_votes_that_differ_are_among_those_simulated():
    """Else the simulation would not see them."""
    assert len(set(PLANS["weights"].weights)) > 1
    small = PLANS["three numbers, one site too small for them"]
    assert len({len(ranks) for ranks in small.local_ranks}) > 1


def test_it_is_the_law_that_ranks_and_votes_give():
    """And of cases drawn at random, one from each of 12 sites, the mean is k / (m +
    1).
    """
    plan, shift = PLANS["weights"], powers({"C": 2.0})
    law = fc.CoverageLaw(
        n_points=plan.n_points,
        local_rank=list(plan.local_ranks),
        server_rank=plan.server_rank,
        weights=plan.weights,
        distortion=[shift.get(site) for site in plan.site_names],
    )
    assert shifted_law(plan, shift).mean() == pytest.approx(law.mean(), abs=1e-12)
    drawn = fc.plan(n_sites=12, n_points=50, promise="new-site")
    assert shifted_law(drawn, {}).mean() == pytest.approx(12 / 13)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_without_a_difference_nothing_changes(plan):
    assert shifted_law(plan, {}).mean() == pytest.approx(plan.law.mean(), abs=1e-12)


def test_sites_that_share_a_distortion_are_computed_together():
    names = [str(j) for j in range(1, 21)]
    plan = fc.plan(20, 50)  # sites without names are numbered
    shared = shifted_law(plan, dict.fromkeys(names[:10], np.sqrt))
    own = shifted_law(plan, powers(dict.fromkeys(names[:10], 0.5)))
    assert shared.federation.counts.tolist() == [10, 10]
    assert own.federation.counts.tolist() == [1] * 10 + [10]
    assert shared.mean() == pytest.approx(own.mean(), abs=1e-12)


def test_a_site_that_is_not_asked_does_not_matter():
    plan = fc.plan(n_points={"tiny": 5, "large": 1895})
    assert shifted_law(plan, {"tiny": np.square}).mean() == pytest.approx(
        plan.law.mean(), abs=1e-12
    )


def test_of_a_calibration_the_sites_that_answered_count():
    reports = [
        fc.report(PLAN, np.random.default_rng(SIZES[s]).random(SIZES[s]), site=s)
        for s in "ABC"
    ]
    calibration = fc.calibrate(PLAN, reports)
    assert shifted_law(calibration, {}).mean() == pytest.approx(
        calibration.law.mean(), abs=1e-12
    )
    with pytest.raises(ValueError, match="distortion must name sites"):
        shifted_law(calibration, {"D": np.sqrt})


def test_one_of_several_levels_and_of_several_groups():
    both = fc.plan(
        n_points=dict.fromkeys("ABC", 40),
        confidence_level=[0.8, 0.9],
        criterion="marginal",
    )
    for level in (0.9, 0.8):
        expected = pytest.approx(both[level].law.mean())
        assert shifted_law(both, {}, confidence_level=level).mean() == expected
        assert shifted_law(both[level], {}).mean() == expected
    assert shifted_law(both, {}).mean() == pytest.approx(both[0.8].law.mean())
    adult = fc.plan(groups={"child": {"A": 40, "B": 60}, "adult": {"A": 90, "C": 50}})[
        "adult"
    ]
    assert shifted_law(adult, {"C": np.sqrt}).mean() < adult.law.mean()


def test_what_is_refused():
    privacy = fc.Privacy(epsilon=5.0, bins=fc.Bins.uniform(0, 1, 10))
    for plan, distortion, words in [
        (PLAN, {"Z": np.sqrt}, "distortion must name sites .* got 'Z'"),
        (fc.plan(confidence_level=0.9), {}, "has no sites of known size"),
        (
            fc.plan(5, 200, confidence_level=0.8, privacy=privacy),
            {},
            "private plans are not supported",
        ),
        (
            fc.plan(5, 200, curve=privacy.bins),
            {},
            "plans of kind 'curve' are not supported",
        ),
    ]:
        with pytest.raises(ValueError, match=words):
            shifted_law(plan, distortion)
    with pytest.raises(ValueError, match="confidence_level must be one of"):
        shifted_law(PLAN, {}, confidence_level=0.5)
    with pytest.raises(
        TypeError, match=r"distortion\['A'\] must be a function, got 2.0"
    ):
        shifted_law(PLAN, {"A": 2.0})


def test_a_population_plan_breaks_where_the_promise_to_each_site_holds():
    """The reason for that promise: one site with larger scores loses its coverage under
    the usual plan.
    """
    sizes = dict.fromkeys("ABCDE", 60)
    others = powers(
        dict.fromkeys("BCDE", 0.1)
    )  # new cases come from A, whose scores are larger
    usual, each = (
        fc.plan(n_points=sizes, criterion="marginal", promise=p)
        for p in ("population", "each-site")
    )
    assert shifted_law(usual, others).mean() < 0.87
    assert shifted_law(each, others).mean() >= 0.9
