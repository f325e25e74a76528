"""Who stands out among sites, from their reports.

Every simulation test states its runs; with the limits of support.py each fails by chance with probability
at most 1e-7.
"""

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.heterogeneity import compare_sites, reference
from support import FALSE_ALARM

ODD = {"site-03": 2.0, "site-07": 0.5, "site-11": 3.0}


def federation(odd, m=20, n=100):
    plan = fc.plan(n_sites=m, n_points=n, confidence_level=0.9, criterion="marginal")
    rng = np.random.default_rng(1)
    data = {f"site-{i:02d}": np.abs(rng.standard_normal(n)) for i in range(m)}
    reports = [fc.report(plan, odd.get(name, 1.0) * scores, site=name) for name, scores in data.items()]
    return plan, reports, np.abs(rng.standard_normal(500))


def names(sites):
    return [site.site for site in sites]


def test_three_odd_sites_among_twenty():
    plan, reports, own = federation(ODD)
    for given_reference in (own, "half-normal", reference("half-normal")):
        found = compare_sites(plan, reports, reference=given_reference)
        assert set(names(found.odd)) == set(ODD)
        assert found.p_value < 1e-6
    alone = compare_sites(plan, reports)
    assert set(names(alone.odd)) >= {"site-03", "site-11"}
    assert "stand out" in alone.sentence()
    assert compare_sites(*federation({})[:2]).odd == ()


def test_what_was_assumed_and_where_sites_lie_is_said():
    plan, reports, own = federation(ODD)
    with_scores = compare_sites(plan, reports, reference=own)
    assert with_scores.assumption == "reference scores"
    assert with_scores.position_heading == "share of the reference below"
    first = with_scores.ordered[0]
    assert float(with_scores.position_text(first)) == pytest.approx(first.position)
    alone = compare_sites(plan, reports)
    assert (alone.assumption, alone.position_heading) == ("exponential tail", "robust sd from the middle")
    assert alone.position_text(alone.ordered[0]) == f"{alone.ordered[0].position:+.1f}"
    assert compare_sites(plan, reports, reference="half-normal").assumption == "reference distribution"
    assert names(alone.sites) == sorted(names(alone.ordered))


def test_the_middle_one_of_several_numbers_is_compared():
    """Sites of two sizes, three numbers each; three odd sites are found, and no others."""
    sizes = {f"site-{i:02d}": 60 + 80 * (i % 2) for i in range(20)}
    plan = fc.plan(n_points=sizes, numbers=3)
    rng = np.random.default_rng(1)
    scores = {site: ODD.get(site, 1.0) * np.abs(rng.standard_normal(n)) for site, n in sizes.items()}
    reports = [fc.report(plan, each, site=site) for site, each in scores.items()]
    found = compare_sites(plan, reports, reference="half-normal")
    assert set(names(found.odd)) == set(ODD)
    for site in found.sites:
        _, middle, _ = plan.ranks_for(site.n, site=site.site)[0]
        assert site.value == np.sort(scores[site.site])[middle - 1]


@pytest.mark.slow
def test_the_middle_of_several_numbers_keeps_the_level():
    """400 federations of sites that are alike, by five numbers each; alarms at most Binomial(400, 0.1)."""
    sizes = {"a": 40, "b": 80, "c": 120, "d": 80, "e": 200, "f": 40}
    plan, runs, alarms = fc.plan(n_points=sizes, numbers=5), 400, 0
    rng = np.random.default_rng(3)
    for _ in range(runs):
        reports = [fc.report(plan, rng.exponential(size=n), site=site) for site, n in sizes.items()]
        alarms += bool(compare_sites(plan, reports, reference="exponential", false_alarm=0.1).odd)
    assert alarms <= stats.binom.isf(FALSE_ALARM, runs, 0.1)


def test_sites_that_are_not_asked_do_not_occur():
    """At one of two levels the largest site decides alone; at the other all are asked."""
    sizes = {"small": 30, "middle": 40, "large": 200}
    plan = fc.plan(n_points=sizes, confidence_level=[0.8, 0.9])
    asked = [[site for site, n in sizes.items() if plan.ranks_for(n, site=site)[i]] for i in range(2)]
    assert asked == [["small", "middle", "large"], ["large"]]
    reports = [fc.report(plan, np.arange(n) / n, site=site) for site, n in sizes.items()]
    for level, there in zip((0.8, 0.9), asked, strict=True):
        found = compare_sites(plan, reports, reference="uniform", confidence_level=level)
        assert set(names(found.sites)) == set(there)
        assert found.left_out == ()


def test_the_numbers_of_one_group_are_compared():
    """In the group of children three sites are odd, among adults none."""
    rng = np.random.default_rng(1)
    sites = [f"site-{i:02d}" for i in range(20)]
    plan = fc.plan(groups={"adult": dict.fromkeys(sites, 100), "child": dict.fromkeys(sites, 100)})
    labels = ["adult", "child"] * 100
    factors = {site: np.where(np.array(labels) == "child", ODD.get(site, 1.0), 1.0) for site in sites}
    reports = [
        fc.report(plan, factors[site] * np.abs(rng.standard_normal(200)), groups=labels, site=site)
        for site in sites
    ]
    own = np.abs(rng.standard_normal(500))
    assert set(names(compare_sites(plan, reports, group="child", reference=own).odd)) == set(ODD)
    assert compare_sites(plan, reports, group="adult", reference=own).odd == ()
    child = compare_sites(plan, reports, group="child", reference=own)
    assert {site.site: site.value for site in child.sites} == {r.site: r["child"].value for r in reports}


def test_a_number_that_does_not_count_for_a_group_is_named():
    plan = fc.plan(groups={"1": {"A": 30, "B": 40}, "2": {"A": 30, "B": 30}})
    good, wrong = (
        fc.report(plan, np.arange(60.0), groups=[1] * 30 + [2] * 30, site="A"),
        fc.report(plan, np.arange(70.0), groups=[1] * 40 + [2] * 30, site="B"),
    )
    short = wrong.model_copy(update={"parts": (wrong["1"].model_copy(update={"n": 41}), wrong["2"])})
    own = np.arange(50.0)
    assert names(compare_sites(plan, [good, short], group=2, reference=own).sites) == ["A", "B"]
    found = compare_sites(plan, [good, short], group=1, reference=own)
    assert names(found.sites) == ["A"]
    assert [refusal.source for refusal in found.refused] == ["B"]


def test_a_group_is_chosen_if_and_only_if_there_are_groups():
    plan = fc.plan(groups={"adult": {"A": 30}, "child": {"A": 30}})
    with pytest.raises(ValueError, match=r"this plan has groups, 'adult', 'child': ask about one of them"):
        compare_sites(plan, [])
    with pytest.raises(ValueError, match="group must be one of 'adult', 'child', got 'old'"):
        compare_sites(plan, [], group="old")
    with pytest.raises(ValueError, match="group goes with a plan that has groups"):
        compare_sites(*federation({})[:2], group="child")


@pytest.mark.slow
def test_infinite_scores_keep_the_level_and_are_found():
    """200 federations in which an eighth of all scores is infinite; alarms at most Binomial(200, 0.05)."""
    rng = np.random.default_rng(8)
    plan, runs, alarms = fc.plan(n_sites=20, n_points=100, criterion="marginal"), 200, 0

    def drawn_scores(n):
        return np.where(rng.random(n) < 0.135, np.inf, rng.exponential(size=n))

    for _ in range(runs):
        reports = [fc.report(plan, drawn_scores(100), site=f"s{i}") for i in range(20)]
        alarms += bool(compare_sites(plan, reports, reference=drawn_scores(2000)).odd)
    assert alarms <= stats.binom.isf(FALSE_ALARM, runs, 0.05)
    plan, reports, own = federation({})
    reports[4] = fc.report(plan, np.full(100, np.inf), site=reports[4].site)
    assert names(compare_sites(plan, reports, reference=own).odd) == [reports[4].site]
    assert names(compare_sites(plan, reports, reference="half-normal").odd) == [reports[4].site]
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
    plan, reports, own = federation({})
    with pytest.raises(ValueError, match="at least 4 sites"):
        compare_sites(plan, reports[:3])
    with pytest.raises(ValueError, match="no site sent a finite report"):
        compare_sites(plan, [], reference=own)
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


def test_drawn_cases_are_compared_as_what_they_are():
    """A case drawn at random is a site of one score: its rank says nothing of the others."""
    plan = fc.plan(n_sites=12, n_points=50, promise="new-site")
    rng = np.random.default_rng(3)
    reports = [fc.report(plan, rng.random(50), site=str(i)) for i in range(12)]
    found = compare_sites(plan, reports, reference=rng.random(200))
    assert found.odd == ()
    assert {site.n for site in found.sites} == {1}


def test_what_if_sees_drawn_cases_and_mixtures():
    """If sites are alike, one case each is the quantile of m scores: mean k / (m + 1)."""
    drawn = fc.heterogeneity.what_if(fc.plan(n_sites=12, n_points=50, promise="new-site"), {})
    assert drawn.law().mean() == pytest.approx(12 / 13)
    mixed = fc.heterogeneity.what_if(fc.plan(n_sites=12, n_points=50, promise="mixture"), {})
    assert mixed.law().mean() > 0.9
