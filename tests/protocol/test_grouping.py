"""Groups by true class and by site: one round, thresholds that each class and each site
can rely on.
"""

import math

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.protocol import InfeasibleWarning
from protocol.sending import check_claims

MIX = {"A": (60, 140), "B": (120, 40), "C": (30, 30)}
"""Sick and well cases at each site."""
SIZES = {
    "sick": {site: sick for site, (sick, _) in MIX.items()},
    "well": {site: well for site, (_, well) in MIX.items()},
}
LEAN = {"sick": 0.3, "well": 1.5}
"""How far the model leans to the right class, in log odds, on average."""
PRIVACY = fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 20))


def cases(site, rng, shift=0.0):
    """Chances of being sick and well, and the truth; given the class alike at all
    sites, or shifted.
    """
    truth = np.repeat(["sick", "well"], MIX[site])
    x = (
        rng.normal(size=truth.size)
        + np.where(truth == "sick", LEAN["sick"], -LEAN["well"])
        + shift
    )
    chance = 1 / (1 + np.exp(-x))
    return np.column_stack([chance, 1 - chance]), truth


def scored(probabilities, truth):
    return fc.scores.LAC().score((truth == "well").astype(int), probabilities)


def reported(plan, data, **options):
    return [
        fc.report(plan, scored(*found), groups=found[1], site=site, **options)
        for site, found in data.items()
    ]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    return {site: cases(site, rng) for site in MIX}


class TestByClass:
    def test_the_same_as_class_by_class(self, data):
        plan = fc.plan(groups=SIZES, group_by="class", score="lac", numbers=2)
        calibration = fc.calibrate(plan, reported(plan, data))
        for label, sizes in SIZES.items():
            alone = fc.plan(n_points=sizes, numbers=2)
            reports = [
                fc.report(alone, scored(p, truth)[truth == label], site=site)
                for site, (p, truth) in data.items()
                if site in alone.designs[0].asked_names
            ]
            assert (
                calibration[label].threshold == fc.calibrate(alone, reports).threshold
            )
        check_claims(calibration, reported(plan, data))
        assert "true-classes" in calibration.assumptions
        assert "labels-first" not in calibration.assumptions


class TestBySite:
    def test_each_site_has_what_it_would_have_alone(self, data):
        plan = fc.plan(
            n_points={site: sum(n) for site, n in MIX.items()}, group_by="site"
        )
        found = fc.calibrate(
            plan, [fc.report(plan, scored(*data[site]), site=site) for site in MIX]
        )
        for site in MIX:
            values = np.sort(scored(*data[site]))
            rank = math.ceil(0.9 * (values.size + 1))
            assert found[site].threshold == values[rank - 1]
            assert found[site].law.mean() == pytest.approx(rank / (values.size + 1))
        assert "own-site" in found.assumptions

    def test_each_class_at_each_site(self, data):
        plan = fc.plan(groups=SIZES, group_by=("site", "class"), score="lac")
        reports = reported(plan, data)
        assert [list(report.by_group) for report in reports] == [
            [f"{site}: sick", f"{site}: well"] for site in MIX
        ]
        found = fc.calibrate(plan, reports)
        for site, (p, truth) in data.items():
            for label in SIZES:
                values = np.sort(scored(p, truth)[truth == label])
                assert (
                    found[f"{site}: {label}"].threshold
                    == values[math.ceil(0.9 * (values.size + 1)) - 1]
                )
        check_claims(found, reports)

    def test_nobody_answers_for_another_site(self, data):
        plan = fc.plan(groups=SIZES, group_by=("site", "class"), score="lac")
        with pytest.raises(
            ValueError, match="site must be one of the plan's, 'A', 'B', 'C', got 'D'"
        ):
            fc.report(plan, scored(*data["A"]), groups=data["A"][1], site="D")
        own, other = reported(plan, data)[:2]
        posing = own.model_copy(update={"parts": other.parts})
        with pytest.raises(
            fc.RefusedReportsError, match="site must be one of the plan's, 'B', got 'A'"
        ):
            fc.calibrate(plan, [posing])

    def test_every_group_has_epsilon_in_full(self):
        """A record is in one group, so that it pays for one."""
        sizes = {"sick": {"A": 4000, "B": 3000}, "well": {"A": 3500, "B": 5000}}
        crossed = fc.plan(groups=sizes, group_by=("site", "class"), privacy=PRIVACY)
        alone = fc.plan(
            n_points={"A": 4000, "B": 3000}, group_by="site", privacy=PRIVACY
        )
        for plan in (crossed, alone):
            assert {design.message.epsilon for design in plan.designs} == {2}

    def test_sites_need_no_labels(self):
        plan = fc.plan(n_points={"A": 30, "B": 40}, group_by="site")
        with pytest.raises(ValueError, match="this plan has no groups by label"):
            fc.report(plan, np.zeros(30), groups=["A"] * 30, site="A")


class TestRare:
    def test_a_class_that_a_site_lacks_is_said(self):
        sizes = {"sick": {"A": 40, "B": 30}, "well": {"A": 60, "B": 3}}
        plan = fc.plan(groups=sizes, group_by=("site", "class"), score="lac")
        assert plan.groups == ("A: sick", "A: well", "B: sick")
        (note,) = plan.notes
        assert (
            note
            == "Site 'B' has too few cases of 'well', or none, for a threshold of its"
            " own: there, every set contains 'well'."
        )
        assert (
            "threshold is infinite"
            in fc.plan(groups=sizes, group_by=("site", "label")).notes[0]
        )
        assert (
            fc.plan(groups=sizes, group_by="class", score="lac").grouping.absent == ()
        )

    def test_what_would_be_enough_is_said(self):
        sizes = {
            "sick": {"A": 60, "B": 6, "C": 80},
            "well": {"A": 80, "B": 60, "C": 60},
        }
        with pytest.warns(
            InfeasibleWarning, match=r"9 cases per site, or to leave out B\."
        ):
            fc.plan(groups=sizes, group_by="class", promise="each-site")
        with pytest.warns(InfeasibleWarning, match=r"with 1 site of 6 cases") as caught:
            alone = fc.plan(n_points={"A": 6, "B": 60}, group_by="site")
        assert alone.problems == (str(caught[0].message),)
        assert alone.problems[0].startswith(
            "Group 'A': 90 % coverage on average cannot be guaranteed with"
        )
        assert alone.problems[0].endswith("You need 9 cases per site.")
        kept = {**sizes, "sick": {"A": 60, "C": 80}}
        assert fc.plan(groups=kept, group_by="class", promise="each-site").feasible


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"group_by": "sites", "groups": SIZES},
            "group_by must be one of 'site', 'class', 'label'",
        ),
        (
            {"group_by": ("class", "label"), "groups": SIZES},
            r"group_by must be one of label, class, site",
        ),
        (
            {"group_by": "class"},
            "groups must map labels to sizes unless group_by is 'site', got None",
        ),
        (
            {"group_by": "site", "groups": SIZES},
            "groups must be left out with group_by 'site'",
        ),
        (
            {"group_by": "site", "n_points": [30, 40]},
            "group_by 'site' needs the names of the sites",
        ),
        (
            {"group_by": ("site", "label"), "groups": {"a": [30, 40]}},
            "group 'a': group_by 'site' needs the names",
        ),
        (
            {"group_by": "class", "groups": SIZES, "score": "absolute"},
            r"score must be one of classes \(lac, aps",
        ),
        (
            {"group_by": "class", "groups": SIZES, "terms": {"classes": ["sick"]}},
            "classes must be the labels of groups",
        ),
        (
            {"group_by": "class", "groups": SIZES, "terms": {"classes": "sick"}},
            "classes must be a list of names",
        ),
        (
            {"group_by": ("site", "class"), "groups": {**SIZES, "none": {"A": 0}}},
            "group 'none': no site has 5",
        ),
    ],
)
def test_mistakes_are_named(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        fc.plan(**arguments)
    assert "\n" not in str(caught.value)
