"""Groups: one threshold per label, in one round."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.protocol._groups import share_epsilon
from protocol.sending import GROUPS, SITES, SPREAD, altered, answered, drawn
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
            {"confidence_level": 0.7, "criterion": "conditional", "delta": 0.2, "score": "absolute"},
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
                if site in alone.part.asked_names
            ]
            expected = fc.calibrate(alone, reports)
            assert plan[label].to_json() == alone.to_json()
            assert calibration[label].parts == expected.parts
            assert calibration[label].plan == expected.plan
            assert calibration.threshold[label] == expected.threshold
            means = [[law.mean() for law in found.laws] for found in (calibration[label], expected)]
            assert means[0] == means[1]

    def test_a_site_without_points_of_a_group_is_left_out_or_missing(self, plan, data):
        assert plan["young"].site_names == ("A", "B")
        sizes = {**GROUPS, "young": {"A": 90, "B": 60, "C": 70}}
        expecting = fc.plan(groups=sizes, confidence_level=0.8, max_missing=1)
        calibration = fc.calibrate(expecting, answered(expecting, data))
        assert calibration.missing == {"child": (), "old": (), "young": ("C",)}
        assert calibration.n_missing["young"] == 1
        assert calibration.law["young"].n_sites == 2
        assert calibration.law["young"].mean() >= 0.8


class TestCoverage:
    @pytest.mark.nightly
    def test_each_group_has_its_own_exact_law(self):
        """800 runs of three groups at sites with very different mixes; each of the three comparisons
        with a law fails by chance with probability below 1e-7 (Massart), the last one with probability below
        2e-7 (Hoeffding)."""
        plan = fc.plan(groups=GROUPS, confidence_level=0.8, criterion="conditional", delta=0.3)
        rng, runs = np.random.default_rng(8), 800
        coverage = {label: np.empty(runs) for label in GROUPS}
        for i in range(runs):
            found = fc.calibrate(
                plan, answered(plan, {site: drawn(GROUPS, rng, site=site) for site in SITES})
            )
            for label, threshold in found.threshold.items():
                coverage[label][i] = 1 - math.exp(-threshold / SPREAD[label])
        for label, law in found.law.items():
            assert law.cdf(0.8) <= 0.3
            assert kolmogorov_distance(coverage[label], law.cdf) < kolmogorov_limit(runs)
        # Groups are independent of each other, so all of them hold with the product of the probabilities.
        together = np.all([c >= 0.8 for c in coverage.values()], axis=0).mean()
        promised = math.prod(law.sf(0.8) for law in found.law.values())
        assert promised >= 0.7**3
        assert abs(together - promised) < hoeffding_limit(runs)


class TestRefused:
    def test_infeasible_groups_have_an_infinite_threshold_and_advice(self):
        with pytest.warns(fc.InfeasibleWarning, match="Group 'few': No ranks reach the level 0.9"):
            plan = fc.plan(groups={"few": [2, 2], "many": [60, 60]}, confidence_level=0.9, min_group=2)
        with pytest.raises(ValueError, match="Group 'few'"):
            fc.plan(groups={"few": [2, 2]}, confidence_level=0.9, on_infeasible="raise", min_group=2)
        rng = np.random.default_rng(0)
        labels = ["few"] * 2 + ["many"] * 60
        sending = {"groups": labels, "policy": fc.SitePolicy(min_group=2)}
        found = fc.calibrate(plan, [fc.report(plan, rng.random(62), site=s, **sending) for s in "AB"])
        assert found.threshold["few"] == math.inf
        assert found["few"].levels[0].advice == plan["few"].levels[0].advice is not None
        assert found.threshold["many"] < 1

    def test_a_group_nobody_answers_for(self, plan, data):
        only_old = {site: (s[labels == "old"], labels[labels == "old"]) for site, (s, labels) in data.items()}
        found = fc.calibrate(plan, answered(plan, only_old))
        assert [label for label in plan.labels if not found[label].is_calibrated] == ["child", "young"]
        assert found.is_calibrated
        assert found.missing["young"] == ("A", "B")
        assert found.threshold_of(["young"]).tolist() == [math.inf]  # no warning: the plan has this group
        assert {label for label, law in found.law.items() if law is not None} == {"old"}
        assert fc.Calibration.from_json(found.to_json()) == found
        assert all(finding.holds for finding in fc.audit.verify(found))

    def test_one_wrong_group_costs_a_site_that_group_only(self, plan, reports, calibration):
        forged = [altered(reports[0], "old", n=41), *reports[1:]]
        with pytest.raises(fc.RefusedReportsError, match=r"A, group 'old': the plan expects 40 scores"):
            fc.calibrate(plan, forged)
        found = fc.calibrate(plan, forged, on_refused="skip")
        assert found.missing == {"child": (), "old": ("A",), "young": ()}
        assert [refusal.source for refusal in found["old"].refused] == ["A"]
        assert found["young"].parts == calibration["young"].parts

    def test_a_group_of_no_plan_and_no_answer_at_all(self, plan, reports):
        with pytest.raises(
            fc.RefusedReportsError, match="a number for 'zebra', which is no group of the plan"
        ):
            fc.calibrate(plan, [altered(reports[0], "young", label="zebra")])
        with pytest.raises(ValueError, match="0 sites answered"):
            fc.calibrate(plan, [])

    def test_at_the_site(self, plan, data):
        scores, labels = data["A"]
        with pytest.raises(ValueError, match=r"groups of the plan, got 'adult' in 1 of 155 rows"):
            fc.report(plan, scores, site="A", groups=["adult", *labels[1:]])
        with pytest.raises(ValueError, match="one label for each of the 155 scores, got 154"):
            fc.report(plan, scores, site="A", groups=labels[1:])
        lost = np.flatnonzero(labels == "child")[0]
        with pytest.raises(
            ValueError, match="group 'child': the plan expects 25 scores from site 'A', got 24"
        ):
            fc.report(plan, np.delete(scores, lost), site="A", groups=np.delete(labels, lost))
        with pytest.raises(ValueError, match="scores must not be NaN"):
            fc.report(plan, np.where(labels == "old", np.nan, scores), site="A", groups=labels)


class TestPlan:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"groups": {}}, "must map labels to sizes"),
            ({"groups": {"a": {"A": 0}}}, "group 'a': no site has 5 points of it"),
            ({"groups": {"a": [5]}, "sites": ["A", "B"]}, "one size for each of the 2 sites, got 1"),
            ({"groups": {"a": {"Z": 5}}, "sites": ["A"]}, "'Z', which is none of the sites"),
            ({"groups": {1: [5], "1": [5]}}, "each label once"),
            ({"groups": {"a": [5]}, "n_points": [5]}, "n_points does not go with groups"),
            (
                {"groups": {"a": None}, "privacy": fc.Privacy(epsilon=1.0, bins=BINS)},
                "privacy needs n_points",
            ),
            ({"groups": {"a": [5]}, "keys": {"A": "ed25519:" + "0" * 64}}, "keys must hold one public key"),
            (
                {"groups": {"a": [500]}, "privacy": fc.Privacy(epsilon=1.0, bins=BINS, one_hot=True)},
                "one-hot",
            ),
        ],
    )
    def test_mistakes_are_named(self, arguments, words):
        with pytest.raises(ValueError, match=words):
            fc.plan(**arguments, on_infeasible="ignore")


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
        return [fc.report(plan, rng.random(80), site=s, groups=labels, key=key) for s, key in keys.items()]

    def test_labels_cannot_be_exchanged(self, plan, reports):
        assert plan["a"].digest == plan["b"].digest
        first, second = reports[0].parts
        swapped = (second.model_copy(update={"label": "a"}), first.model_copy(update={"label": "b"}))
        with pytest.raises(fc.RefusedReportsError, match="signature is not that of the site's key"):
            fc.calibrate(plan, [reports[0].model_copy(update={"parts": swapped}), reports[1]])

    def test_no_part_passes_for_an_ordinary_signed_report(self, plan, reports, keys):
        public = {site: key.public_key for site, key in keys.items()}
        ordinary = fc.plan(n_points={"A": 40, "B": 40}, confidence_level=0.8, keys=public)
        forged = [
            sent.model_copy(
                update={"plan": ordinary.digest, "parts": (sent["a"].model_copy(update={"label": None}),)}
            )
            for sent in reports
        ]
        with pytest.raises(fc.RefusedReportsError, match="A: the signature is not"):
            fc.calibrate(ordinary, forged)


@given(epsilon=st.decimals("0.01", 100, places=4).map(float), n_labels=st.integers(1, 1000))
def test_parts_of_epsilon_never_add_up_to_more(epsilon, n_labels):
    part = share_epsilon(fc.Privacy(epsilon=epsilon, bins=BINS), n_labels)
    total = n_labels * Fraction(str(part.epsilon))
    assert Fraction(str(epsilon)) * (1 - Fraction(1, 10**10)) < total <= Fraction(str(epsilon))
