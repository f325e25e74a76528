"""Groups: one threshold per label, in one round."""

import math

import numpy as np
import pytest

import fedconformal as fc
from protocol.sending import (
    GROUPS,
    SITES,
    SPREAD,
    altered,
    answered,
    check_claims,
    drawn,
)
from support import hoeffding_limit, kolmogorov_distance, kolmogorov_limit

BINS = fc.Bins.uniform(0, 10, 50)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    return {site: drawn(GROUPS, rng, site=site) for site in SITES}


@pytest.fixture(scope="module")
def plan():
    return fc.plan(groups=GROUPS, confidence_level=0.8, max_missing=1)


@pytest.fixture(scope="module")
def reports(plan, data):
    return answered(plan, data)


@pytest.fixture(scope="module")
def calibration(plan, reports):
    return fc.calibrate(plan, reports)


class TestInside:
    """What is inside is what ordinary plans give, label by label."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "arguments",
        [
            {
                "confidence_level": 0.7,
                "criterion": "conditional",
                "delta": 0.2,
                "score": "absolute",
            },
            {"confidence_level": [0.7, 0.8], "numbers": 2},
        ],
    )
    def test_the_same_as_label_by_label(self, data, arguments):
        plan, trusting = fc.plan(groups=GROUPS, **arguments), fc.SitePolicy.unlimited()
        calibration = fc.calibrate(plan, answered(plan, data, policy=trusting))
        for label, by_site in GROUPS.items():
            there = {site: n for site, n in by_site.items() if n}
            alone = fc.plan(n_points=there, **arguments)
            reports = [
                fc.report(alone, scores[labels == label], site=site)
                for site, (scores, labels) in data.items()
                if site in alone.designs[0].asked_names
            ]
            expected = fc.calibrate(alone, reports)
            update = {"group": None}
            assert plan.by_group[label].model_copy(update=update) == alone.designs[0]
            part = calibration.by_group[label]
            assert part.design.model_copy(update=update) == expected.parts[0].design
            assert part.thresholds == expected.thresholds
            for level in alone.confidence_levels:
                assert (
                    calibration[label, level].law.mean() == expected[level].law.mean()
                )

    def test_a_site_without_points_of_a_group_is_left_out_or_missing(self, plan, data):
        assert plan.by_group["young"].site_names == ("A", "B")
        sizes = {**GROUPS, "young": {"A": 90, "B": 60, "C": 70}}
        expecting = fc.plan(groups=sizes, confidence_level=0.8, max_missing=1)
        calibration = fc.calibrate(expecting, answered(expecting, data))
        assert {group: calibration[group].missing for group in sizes} == {
            "child": (),
            "old": (),
            "young": ("C",),
        }
        assert (calibration.missing, calibration["young"].n_missing) == (("C",), 1)
        assert calibration["young"].law.n_sites == 2
        assert calibration["young"].law.mean() >= 0.8


class TestCoverage:
    @pytest.mark.nightly
    def test_each_group_has_its_own_exact_law(self):
        """800 runs of three groups at sites with very different mixes; each of the
        three comparisons with a law fails by chance with probability below 1e-7
        (Massart), the last one with probability below 2e-7 (Hoeffding).
        """
        plan = fc.plan(
            groups=GROUPS, confidence_level=0.8, criterion="conditional", delta=0.3
        )
        rng, runs = np.random.default_rng(8), 800
        coverage = {label: np.empty(runs) for label in GROUPS}
        for i in range(runs):
            found = fc.calibrate(
                plan,
                answered(plan, {site: drawn(GROUPS, rng, site=site) for site in SITES}),
            )
            for label in GROUPS:
                coverage[label][i] = 1 - math.exp(
                    -found[label].threshold / SPREAD[label]
                )
        laws = {label: found[label].law for label in GROUPS}
        for label, law in laws.items():
            assert law.cdf(0.8) <= 0.3
            assert kolmogorov_distance(coverage[label], law.cdf) < kolmogorov_limit(
                runs
            )
        # Groups are independent of each other, so all of them hold with the product of
        # the probabilities.
        together = np.all([c >= 0.8 for c in coverage.values()], axis=0).mean()
        promised = math.prod(law.sf(0.8) for law in laws.values())
        assert promised >= 0.7**3
        assert abs(together - promised) < hoeffding_limit(runs)


class TestRefused:
    def test_infeasible_groups_have_an_infinite_threshold_and_advice(self):
        with pytest.warns(
            fc.InfeasibleWarning,
            match="Group 'few': 99 % coverage on average cannot be",
        ):
            plan = fc.plan(
                groups={"few": [6, 6], "many": [600, 600]}, confidence_level=0.99
            )
        assert (plan.feasible, plan["few"].feasible, plan["many"].feasible) == (
            False,
            False,
            True,
        )
        rng, labels = np.random.default_rng(0), ["few"] * 6 + ["many"] * 600
        found = fc.calibrate(
            plan,
            [fc.report(plan, rng.random(606), site=s, groups=labels) for s in "AB"],
        )
        assert (found["few"].threshold, found["few"].feasible) == (math.inf, False)
        assert found.by_group["few"].design.levels == plan.by_group["few"].levels
        assert found["many"].threshold < 1

    def test_a_group_nobody_answers_for(self, plan, data):
        only_old = {
            site: (s[labels == "old"], labels[labels == "old"])
            for site, (s, labels) in data.items()
        }
        found = fc.calibrate(plan, answered(plan, only_old))
        assert [group for group in plan.groups if not found[group].is_calibrated] == [
            "child",
            "young",
        ]
        assert found.is_calibrated
        assert found["young"].missing == ("A", "B")
        assert found.threshold_of(["young"]).tolist() == [
            math.inf
        ]  # no warning: the plan has this group
        assert {group for group in plan.groups if found[group].law is not None} == {
            "old"
        }
        check_claims(found)

    def test_one_wrong_group_costs_a_site_that_group_only(
        self, plan, reports, calibration
    ):
        forged = [altered(reports[0], "old", n=41), *reports[1:]]
        with pytest.raises(
            fc.RefusedReportsError, match=r"A, group 'old': the plan expects 40 scores"
        ):
            fc.calibrate(plan, forged)
        found = fc.calibrate(plan, forged, on_refused="skip")
        assert {group: found[group].missing for group in GROUPS} == {
            "child": (),
            "old": ("A",),
            "young": (),
        }
        assert [refusal.source for refusal in found.by_group["old"].refused] == ["A"]
        assert found.by_group["young"] == calibration.by_group["young"]

    def test_a_group_of_no_plan_and_no_answer_at_all(self, plan, reports):
        with pytest.raises(
            fc.RefusedReportsError,
            match="a payload for 'zebra', which is not a group of the plan",
        ):
            fc.calibrate(plan, [altered(reports[0], "young", group="zebra")])
        with pytest.raises(ValueError, match="0 sites answered"):
            fc.calibrate(plan, [])

    def test_at_the_site(self, plan, data):
        scores, labels = data["A"]
        with pytest.raises(
            ValueError, match=r"groups of the plan, got 'adult' in 1 of 155 rows"
        ):
            fc.report(plan, scores, site="A", groups=["adult", *labels[1:]])
        with pytest.raises(
            ValueError, match="one label for each of the 155 scores, got 154"
        ):
            fc.report(plan, scores, site="A", groups=labels[1:])
        lost = np.flatnonzero(labels == "child")[0]
        with pytest.raises(
            ValueError,
            match="group 'child': the plan expects 25 scores from site 'A', got 24",
        ):
            fc.report(
                plan, np.delete(scores, lost), site="A", groups=np.delete(labels, lost)
            )
        with pytest.raises(ValueError, match="scores contain NaN"):
            fc.report(
                plan, np.where(labels == "old", np.nan, scores), site="A", groups=labels
            )


class TestPlan:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"groups": {}}, "must map labels to sizes"),
            ({"groups": {"a": {"A": 0}}}, "group 'a': no site has 5 cases of it"),
            (
                {"groups": {"a": [5]}, "n_sites": ["A", "B"]},
                "one size for each of the 2 sites, got 1",
            ),
            (
                {"groups": {"a": {"Z": 5}}, "n_sites": ["A"]},
                "'Z', which is not one of the sites",
            ),
            ({"groups": {1: [5], "1": [5]}}, "each label once"),
            (
                {"groups": {"a": [5]}, "n_points": [5]},
                "n_points must be left out with groups",
            ),
            (
                {"groups": {"a": None}, "privacy": fc.Privacy(epsilon=1.0, bins=BINS)},
                "privacy needs n_points",
            ),
            (
                {"groups": {"a": [5]}, "keys": {"A": "ed25519:" + "0" * 64}},
                "keys must hold one public key",
            ),
            (
                {"groups": {"a": [30]}, "promise": "new-site"},
                "groups must be left out with promise 'new-site'",
            ),
            (
                {"groups": {"a": [30]}, "promise": "mixture"},
                "groups must be left out with promise 'mixture'",
            ),
        ],
    )
    def test_mistakes_are_named(self, arguments, words):
        with pytest.raises(ValueError, match=words):
            fc.plan(**arguments)


class TestSigned:
    @pytest.fixture(scope="class")
    @classmethod
    def keys(cls):
        return {site: fc.SigningKey.new() for site in "AB"}

    @pytest.fixture(scope="class")
    @classmethod
    def plan(cls, keys):
        """Two groups of the same sizes, so that their ordinary plans are the same."""
        return fc.plan(
            groups={"a": {"A": 40, "B": 40}, "b": {"A": 40, "B": 40}},
            confidence_level=0.8,
            keys={site: key.public_key for site, key in keys.items()},
        )

    @pytest.fixture(scope="class")
    @classmethod
    def reports(cls, plan, keys):
        rng, labels = np.random.default_rng(1), ["a"] * 40 + ["b"] * 40
        return [
            fc.report(plan, rng.random(80), site=s, groups=labels, key=key)
            for s, key in keys.items()
        ]

    def test_labels_cannot_be_exchanged(self, plan, reports):
        assert plan["a"].local_ranks == plan["b"].local_ranks
        first, second = reports[0].parts
        swapped = (
            second.model_copy(update={"group": "a"}),
            first.model_copy(update={"group": "b"}),
        )
        with pytest.raises(
            fc.RefusedReportsError, match="signature is not that of the site's key"
        ):
            fc.calibrate(
                plan, [reports[0].model_copy(update={"parts": swapped}), reports[1]]
            )

    def test_no_part_passes_for_an_ordinary_signed_report(self, plan, reports, keys):
        public = {site: key.public_key for site, key in keys.items()}
        ordinary = fc.plan(
            n_points={"A": 40, "B": 40}, confidence_level=0.8, keys=public
        )
        forged = [
            sent.model_copy(
                update={
                    "plan": ordinary.digest,
                    "parts": (sent.by_group["a"].model_copy(update={"group": None}),),
                }
            )
            for sent in reports
        ]
        with pytest.raises(fc.RefusedReportsError, match="A: the signature is not"):
            fc.calibrate(ordinary, forged)
