"""Who stands out among sites, from their reports: levels, power, and what no such test
can do.

Every simulation test states its runs; with the limits of support.py each fails by
chance with probability at most 1e-7.
"""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal.monitoring import compare
from fedconformal.monitoring._compare import EachOther, ReferenceScores
from support import FALSE_ALARM, hoeffding_limit

ODD = {"site-03": 2.0, "site-07": 0.5, "site-11": 3.0}


def federation(odd, m=20, n=100):
    plan = fc.plan(n_sites=m, n_points=n, confidence_level=0.9, criterion="marginal")
    rng = np.random.default_rng(1)
    data = {f"site-{i:02d}": np.abs(rng.standard_normal(n)) for i in range(m)}
    reports = [
        fc.report(plan, odd.get(name, 1.0) * scores, site=name)
        for name, scores in data.items()
    ]
    return plan, reports, np.abs(rng.standard_normal(500))


def names(sites):
    return [site.site for site in sites]


def test_three_odd_sites_among_twenty():
    plan, reports, own = federation(ODD)
    found = compare(plan, reports, reference=own)
    assert set(names(found.odd)) == set(ODD)
    assert found.p_value < 1e-6
    assert found.yardstick.assumption == "reference scores"
    assert names(found.sites) == sorted(names(found.ordered))
    alone = compare(plan, reports)
    assert set(names(alone.odd)) >= {"site-03", "site-11"}
    assert "stand out" in alone.sentence()
    assert alone.yardstick.assumption == "exponential tail"
    assert compare(*federation({})[:2]).odd == ()
    assert (
        "the estimated power to find one with doubled scores is 1."
        in found.power_sentence()
    )
    few = compare(plan, reports[:4])
    assert few.power < 0.5
    assert few.power_sentence().endswith(", so finding nothing means little.")


@pytest.mark.slow
def test_the_middle_one_of_several_numbers_is_compared():
    """Sites of two sizes, three numbers each; three odd sites are found, and no
    others.
    """
    sizes = {f"site-{i:02d}": 60 + 80 * (i % 2) for i in range(20)}
    plan = fc.plan(n_points=sizes, numbers=3)
    rng = np.random.default_rng(1)
    scores = {
        site: ODD.get(site, 1.0) * np.abs(rng.standard_normal(n))
        for site, n in sizes.items()
    }
    reports = [fc.report(plan, each, site=site) for site, each in scores.items()]
    found = compare(plan, reports, reference=np.abs(rng.standard_normal(2000)))
    assert set(names(found.odd)) == set(ODD)
    for site in found.sites:
        _, middle, _ = plan.local_ranks[plan.site_names.index(site.site)]
        assert site.value == np.sort(scores[site.site])[middle - 1]


def test_sites_that_are_not_asked_do_not_occur():
    """At one of two levels the largest site decides alone; at the other all are
    asked.
    """
    sizes = {"small": 30, "middle": 40, "large": 200}
    plan = fc.plan(n_points=sizes, confidence_level=[0.8, 0.9])
    asked = [
        [
            site
            for site, ranks in zip(sizes, plan[level].local_ranks, strict=True)
            if ranks
        ]
        for level in (0.8, 0.9)
    ]
    assert asked == [["small", "middle", "large"], ["large"]]
    reports = [
        fc.report(plan, np.arange(n) / n, site=site) for site, n in sizes.items()
    ]
    for level, there in zip((0.8, 0.9), asked, strict=True):
        found = compare(
            plan, reports, reference=np.arange(99) / 99, confidence_level=level
        )
        assert set(names(found.sites)) == set(there)
        assert found.left_out == ()


def test_the_numbers_of_one_group_are_compared():
    """In the group of children three sites are odd, among adults none."""
    rng = np.random.default_rng(1)
    sites = [f"site-{i:02d}" for i in range(20)]
    plan = fc.plan(
        groups={"adult": dict.fromkeys(sites, 100), "child": dict.fromkeys(sites, 100)}
    )
    labels = ["adult", "child"] * 100
    factors = {
        site: np.where(np.array(labels) == "child", ODD.get(site, 1.0), 1.0)
        for site in sites
    }
    reports = [
        fc.report(
            plan,
            factors[site] * np.abs(rng.standard_normal(200)),
            groups=labels,
            site=site,
        )
        for site in sites
    ]
    own = np.abs(rng.standard_normal(500))
    child = compare(plan, reports, group="child", reference=own)
    assert set(names(child.odd)) == set(ODD)
    assert compare(plan, reports, group="adult", reference=own).odd == ()
    assert {site.site: site.value for site in child.sites} == {
        r.site: r.by_group["child"].payload.levels[0].values[0] for r in reports
    }


def test_a_number_that_does_not_count_for_a_group_is_named():
    plan = fc.plan(groups={"1": {"A": 30, "B": 40}, "2": {"A": 30, "B": 30}})
    good, wrong = (
        fc.report(plan, np.arange(60.0), groups=[1] * 30 + [2] * 30, site="A"),
        fc.report(plan, np.arange(70.0), groups=[1] * 40 + [2] * 30, site="B"),
    )
    short = wrong.model_copy(
        update={"parts": (wrong.parts[0].model_copy(update={"n": 41}), wrong.parts[1])}
    )
    own = np.arange(50.0)
    assert names(compare(plan, [good, short], group=2, reference=own).sites) == [
        "A",
        "B",
    ]
    found = compare(plan, [good, short], group=1, reference=own)
    assert names(found.sites) == ["A"]
    assert [refusal.source for refusal in found.refused] == ["B"]


def test_a_group_is_chosen_if_and_only_if_there_are_groups():
    plan = fc.plan(groups={"adult": {"A": 30}, "child": {"A": 30}})
    with pytest.raises(
        ValueError,
        match=r"this plan has groups, 'adult', 'child': ask about one of them",
    ):
        compare(plan, [])
    with pytest.raises(
        ValueError, match="group must be one of 'adult', 'child', got 'old'"
    ):
        compare(plan, [], group="old")
    with pytest.raises(
        ValueError, match="group must be left out: the plan has no groups"
    ):
        compare(*federation({})[:2], group="child")


def test_a_site_of_infinite_scores_is_found():
    plan, reports, own = federation({})
    reports[4] = fc.report(plan, np.full(100, np.inf), site=reports[4].site)
    assert names(compare(plan, reports, reference=own).odd) == [reports[4].site]
    for values in (
        reports,
        [fc.report(plan, np.ones(100), site=f"s{i}") for i in range(20)],
    ):
        with pytest.raises(ValueError, match="equal, or infinite"):
            compare(plan, values)


def test_what_cannot_be_compared():
    plan, reports, own = federation({})
    with pytest.raises(ValueError, match="at least 4 sites"):
        compare(plan, reports[:3])
    with pytest.raises(ValueError, match="no site sent a finite report"):
        compare(plan, [], reference=own)
    for wrong in (1.0, 1e-5):
        with pytest.raises(ValueError, match="false_alarm"):
            compare(plan, reports, false_alarm=wrong)
    for wrong in ([], [[1.0]], [1.0, math.nan]):
        with pytest.raises(
            ValueError, match="reference scores must be a flat array of numbers"
        ):
            compare(plan, reports, reference=wrong)
    with pytest.raises(ValueError, match="confidence_level must be one of"):
        compare(plan, reports, confidence_level=0.5)
    private = fc.plan(
        n_sites=5,
        n_points=200,
        confidence_level=0.8,
        privacy=fc.Privacy(epsilon=5.0, bins=fc.Bins.uniform(0, 1, 10)),
    )
    with pytest.raises(ValueError, match="private reports cannot be compared"):
        compare(private, [])
    curves = fc.plan(n_points={"A": 40}, curve=fc.Bins.uniform(0, 1, 10))
    sent = fc.report(curves, own[:40], site="A", policy=fc.SitePolicy(curves="plain"))
    with pytest.raises(ValueError, match="reports of kind 'curve' cannot be compared"):
        compare(curves, [sent], reference=own)


def test_a_site_that_sends_infinity_is_left_out():
    plan = fc.plan(
        n_points={**{f"s{i}": 100 for i in range(6)}, "tiny": 3},
        confidence_level=0.9,
        local_ranks="paper",
    )
    rng = np.random.default_rng(0)
    reports = [
        fc.report(plan, rng.random(3 if s == "tiny" else 100), site=s)
        for s in plan.site_names
    ]
    found = compare(plan, reports)
    assert found.left_out == ("tiny",)
    assert len(found.sites) == 6


def test_drawn_cases_are_compared_as_what_they_are():
    """A case drawn at random is a site of one score: its rank says nothing of the
    others.
    """
    plan = fc.plan(n_sites=12, n_points=50, promise="new-site")
    rng = np.random.default_rng(3)
    reports = [fc.report(plan, rng.random(50), site=str(i)) for i in range(12)]
    found = compare(plan, reports, reference=rng.random(200))
    assert found.odd == ()
    assert {site.n for site in found.sites} == {1}


# -- levels and power ------------------------------------------------------------------

FAMILIES = {
    "half-normal": lambda rng, size: np.abs(rng.standard_normal(size)),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "cauchy": lambda rng, size: np.abs(rng.standard_cauchy(size)),
    "infinite": lambda rng, size: np.where(
        rng.random(size) < 0.135, np.inf, rng.exponential(size=size)
    ),
    "discrete": lambda rng, size: rng.integers(0, 8, size).astype(float),
}


def drawn(family, rng, m, n, l):
    """Reports of m sites alike."""
    scores = FAMILIES[family](rng, (m, n))
    return np.partition(scores, l - 1, axis=1)[:, l - 1]


MANY = [(5, 10), (50, 100), pytest.param(500, 100, marks=pytest.mark.nightly)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("m", "n"), MANY)
def test_with_reference_scores_the_level_holds_whatever_the_distribution(family, m, n):
    """200 federations, each with 200 reference scores of its own; alarms are at most
    Binomial(200, 0.05).
    """
    rng = np.random.default_rng([m, n])
    l, runs, alarms = math.ceil(0.9 * n), 200, 0
    sizes, ranks = np.full(m, n), np.full(m, l)
    for _ in range(runs):
        values = drawn(family, rng, m, n, l)
        _, p = ReferenceScores(FAMILIES[family](rng, 200)).compare(values, sizes, ranks)
        alarms += p.min() <= 0.05
    assert alarms <= stats.binom.isf(FALSE_ALARM, runs, 0.05)


@pytest.mark.parametrize(("m", "n"), MANY)
def test_without_a_reference_the_level_holds_for_exponential_tails(m, n):
    """1,000 federations; the simulated critical value errs by at most a Beta quantile
    of 1e-7.
    """
    rng = np.random.default_rng([m, n, 7])
    l, runs = math.ceil(0.9 * n), 1000
    sizes, ranks = np.full(m, n), np.full(m, l)
    p = [
        EachOther()
        .compare(3 + 2 * drawn("exponential", rng, m, n, l), sizes, ranks)[1]
        .min()
        for _ in range(runs)
    ]
    level = stats.beta.isf(FALSE_ALARM / 2, 500, 9501)
    assert sum(value <= 0.05 for value in p) <= stats.binom.isf(
        FALSE_ALARM / 2, runs, level
    )
    least = stats.beta.ppf(FALSE_ALARM / 2, 500, 9501)
    # The level is not wasted either.
    assert sum(value <= 0.05 for value in p) >= stats.binom.ppf(
        FALSE_ALARM / 2, runs, least
    )


@pytest.mark.nightly
def test_no_test_from_the_reports_alone_is_free_of_assumptions():
    """The proof, in numbers: if all sites follow the mixture, it alarms with at least
    power / e.

    2,000 federations each; both frequencies are within Hoeffding's limit of their
    probabilities.
    """
    rng = np.random.default_rng(4)
    m, n, l, runs = 20, 100, 92, 2000
    sizes, ranks = np.full(m, n), np.full(m, l)

    def alarms(odd):
        found = 0
        for _ in range(runs):
            values = np.where(odd(m), 3.0, 1.0) * drawn("exponential", rng, m, n, l)
            found += EachOther().compare(values, sizes, ranks)[1].min() <= 0.05
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
    ours, p = EachOther().compare(values, sizes, ranks)
    theirs, q = EachOther().compare(a + b * values, sizes, ranks)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(p, q, atol=2e-3)


def test_exact_ranks_among_reference_scores():
    """Against the negative hypergeometric law, counted: where may 2 of 3 new scores
    fall among 4 old ones.
    """
    n, l, old = 3, 2, np.array([10.0, 20.0, 30.0, 40.0])
    placements = list(combinations(range(7), n))
    below = np.array(
        [taken[l - 1] - (l - 1) for taken in placements]
    )  # old scores below the l-th new one
    for k in range(5):
        value = np.array([5.0 + 10 * k])
        low, high = (below <= k).mean(), (below >= k).mean()
        _, p = ReferenceScores(old).compare(value, np.array([n]), np.array([l]))
        assert p[0] == pytest.approx(min(1.0, 2 * min(low, high)), abs=1e-12)


class TestPower:
    """With 2,000 simulated federations the standard error is at most 0.0112; bounds are
    6 of them away.
    """

    n, l = np.full(20, 100), np.full(20, 90)

    def found(self, stick, draw, factor=2.0, runs=300, seed=4):
        """How often one odd site among 20 is named, simulated through the comparison
        itself.
        """
        rng, hits = np.random.default_rng(seed), 0
        for _ in range(runs):
            scores = np.sort(draw(rng, (20, 100)), axis=1)
            values = scores[:, 89]
            values[7] *= factor
            hits += stick.compare(values, self.n, self.l)[1][7] <= 0.05
        return hits / runs

    def test_reference_scores(self):
        reference = np.abs(np.random.default_rng(1).standard_normal(2000))
        stick = ReferenceScores(reference)
        seen = self.found(stick, lambda rng, shape: rng.choice(reference, shape), 1.4)
        assert abs(stick.power(self.n, self.l, 0.05, 1.4) - seen) <= 6 * np.sqrt(
            0.25 / 300
        )

    def test_each_other(self):
        stick = EachOther()
        seen = self.found(stick, lambda rng, shape: rng.exponential(size=shape), 1.5)
        assert abs(stick.power(self.n, self.l, 0.05, 1.5) - seen) <= 6 * np.sqrt(
            0.25 / 300 + 0.25 / 2000
        )


class TestTrainedReference:
    def test_small_reference_scores_are_suspected(self):
        n, l = np.full(8, 100), np.full(8, 90)
        values = np.sort(
            np.abs(np.random.default_rng(2).standard_normal((8, 100))), axis=1
        )[:, 89]
        reference = np.abs(np.random.default_rng(3).standard_normal(500))
        assert ReferenceScores(reference).suspicion(values, n, l) is None
        words = ReferenceScores(0.6 * reference).suspicion(values, n, l)
        assert "trained on the reference cases" in words
        assert ReferenceScores(2.0 * reference).suspicion(values, n, l) is None


def test_what_is_compared_has_the_right_type():
    calibration = fc.conformalize({"A": range(40), "B": range(60)})
    report = fc.report(calibration.plan, range(40), site="A")
    with pytest.raises(
        TypeError,
        match="checks of this calibration, got Report: to compare reports, give",
    ):
        fc.monitoring.compare(calibration, [report])
    with pytest.raises(
        TypeError, match="document must be a Plan or a Calibration, got int"
    ):
        fc.monitoring.compare(3, [report])
