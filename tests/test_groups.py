"""Groups: one threshold per label, in one round."""

import doctest
import json
import math
import random
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal import groups
from fedconformal.cli import main
from fedconformal.documents import LabelledCalibration, LabelledReport
from fedconformal.privacy import BudgetExceededError
from fuzz_documents import GROUPS, judge, mutated, with_digest
from support import hoeffding_limit, kolmogorov_distance, kolmogorov_limit

SIZES = {
    "old": {"A": 40, "B": 200, "C": 33},
    "young": {"A": 90, "B": 60, "C": 0},
    "child": {"A": 25, "B": 25, "C": 25},
}
SITES = ("A", "B", "C")
SPREAD = {"old": 1.0, "young": 5.0, "child": 0.1}
BINS = fc.Bins.uniform(0, 10, 50)


def drawn(sizes, rng, *, site):
    """Scores and labels of a site, shuffled; groups differ in spread."""
    labels = np.repeat(list(sizes), [by_site.get(site, 0) for by_site in sizes.values()])
    rng.shuffle(labels)
    return rng.exponential([SPREAD.get(label, 1.0) for label in labels]), labels


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    return {site: drawn(SIZES, rng, site=site) for site in SITES}


@pytest.fixture
def plan():
    return groups.plan(SIZES, confidence_level=0.8)


def answered(plan, data, **options):
    return [groups.report(plan, *data[site], site=site, **options) for site in data]


def partly(plan, rng, j, *, who_has_b):
    """Uniform scores of site j: 30 of group a, and 30 of group b at the first sites only."""
    labels = ["a"] * 30 + ["b"] * 30 * (j < who_has_b)
    return groups.report(plan, rng.random(len(labels)), labels, site=f"{j}")


def changed(document, **changes):
    fields = {name: getattr(document, name) for name in type(document).model_fields}
    return type(document)(**{**fields, **changes})


class TestInside:
    """What is inside is what ordinary plans give, label by label, byte for byte."""

    @pytest.mark.parametrize(
        "arguments",
        [
            {"confidence_level": 0.8},
            {"confidence_level": [0.7, 0.8], "criterion": "stable"},
            {"confidence_level": 0.7, "criterion": "conditional", "delta": 0.2, "score": "absolute"},
        ],
    )
    def test_the_same_as_label_by_label(self, data, arguments):
        plan = groups.plan(SIZES, **arguments)
        calibration = groups.calibrate(plan, answered(plan, data))
        for label, by_site in SIZES.items():
            there = {site: n for site, n in by_site.items() if n}
            alone = fc.plan(n_points=there, **arguments)
            reports = [
                fc.report(alone, scores[labels == label], site=site)
                for site, (scores, labels) in data.items()
                if site in there
            ]
            expected = fc.calibrate(alone, reports)
            assert plan.by_label[label].to_json() == alone.to_json()
            assert calibration.by_label[label].to_json() == expected.to_json()
            assert calibration.thresholds[label] == expected.threshold

    def test_open_plans(self, data):
        plan = groups.plan(dict.fromkeys(SIZES), sites=SITES, confidence_level=0.8)
        calibration = groups.calibrate(plan, answered(plan, data))
        alone = fc.plan(sites=SITES, confidence_level=0.8)
        for label in SIZES:
            reports = [
                fc.report(alone, scores[labels == label], site=site)
                for site, (scores, labels) in data.items()
                if (labels == label).any()
            ]
            assert calibration.by_label[label].to_json() == fc.calibrate(alone, reports).to_json()
        assert calibration.missing == {"child": (), "old": (), "young": ("C",)}

    def test_numbers_are_labels_too(self):
        rng = np.random.default_rng(0)
        plan = groups.plan({0: [30, 40], 1: [50, 20]}, confidence_level=0.8)
        assert plan == groups.plan({"1": [50, 20], "0": [30, 40]}, confidence_level=0.8)
        scores, labels = rng.random(80), np.repeat([0, 1], [30, 50])
        sent = groups.report(plan, scores, labels, site="A")
        assert sent == groups.report(plan, scores, labels.astype(str), site="A")
        assert sent == groups.report(plan, scores, labels.tolist(), site="A")

    def test_a_group_may_have_a_plan_of_its_own(self, data):
        own = fc.plan(n_points=SIZES["old"], confidence_level=0.8, criterion="stable")
        plan = groups.plan({**SIZES, "old": own}, confidence_level=0.8)
        assert plan.by_label["old"] == own
        assert plan.by_label["child"].criterion == "marginal"

    def test_a_site_without_points_of_a_group_is_left_out_or_missing(self, plan, data):
        assert plan.by_label["young"].site_names == ("A", "B")
        expecting = groups.plan({**SIZES, "young": {"A": 90, "B": 60, "C": 70}}, confidence_level=0.8)
        calibration = groups.calibrate(expecting, answered(expecting, data))
        assert calibration.missing == {"child": (), "old": (), "young": ("C",)}
        assert calibration.n_missing["young"] == 1
        assert calibration.laws["young"].n_sites == 2
        assert calibration.laws["young"].mean() >= 0.8


class TestCoverage:
    def test_each_group_has_its_own_exact_law(self):
        """1,500 runs of three groups at sites with very different mixes; each of the three comparisons
        with a law fails by chance with probability below 1e-7 (Massart), the last one with probability below
        2e-7 (Hoeffding)."""
        plan = groups.plan(SIZES, confidence_level=0.8, criterion="conditional", delta=0.3)
        rng, runs = np.random.default_rng(8), 1500
        coverage = {label: np.empty(runs) for label in SIZES}
        for i in range(runs):
            data = {site: drawn(SIZES, rng, site=site) for site in SITES}
            found = groups.calibrate(plan, answered(plan, data))
            for label, threshold in found.thresholds.items():
                coverage[label][i] = 1 - math.exp(-threshold / SPREAD[label])
        for label, law in found.laws.items():
            assert law.cdf(0.8) <= 0.3
            assert kolmogorov_distance(coverage[label], law.cdf) < kolmogorov_limit(runs)
        # Groups are independent of each other, so all of them hold with the product of the probabilities.
        together = np.all([c >= 0.8 for c in coverage.values()], axis=0).mean()
        promised = math.prod(law.sf(0.8) for law in found.laws.values())
        assert promised >= 0.7**3
        assert abs(together - promised) < hoeffding_limit(runs)

    def test_one_threshold_for_all_misses_a_group_by_far(self):
        """What groups are for: 400 runs, the spread-out group is covered far below the level without them."""
        rng, runs, sizes = np.random.default_rng(3), 400, {"old": [80] * 4, "young": [20] * 4}
        ordinary, grouped = (
            fc.plan(n_sites=4, n_points=100, confidence_level=0.8),
            groups.plan(sizes, confidence_level=0.8),
        )
        labels = np.repeat(["old", "young"], [80, 20])
        covered = np.empty((runs, 2))
        for i in range(runs):
            scores = [rng.exponential([SPREAD[label] for label in labels]) for _ in range(4)]
            one = fc.calibrate(ordinary, [fc.report(ordinary, s, site=f"{j}") for j, s in enumerate(scores)])
            each = groups.calibrate(
                grouped, [groups.report(grouped, s, labels, site=f"{j}") for j, s in enumerate(scores)]
            )
            covered[i] = [
                1 - math.exp(-t / SPREAD["young"]) for t in (one.threshold, each.thresholds["young"])
            ]
        assert covered[:, 0].mean() < 0.5
        assert covered[:, 1].mean() > 0.8 - hoeffding_limit(runs)

    def test_sites_missing_a_group_keep_its_law(self):
        """600 runs; fails by chance with probability below 1e-7 (Massart)."""
        plan = groups.plan({"a": [30] * 6, "b": [30] * 6}, confidence_level=0.8, criterion="stable")
        rng, runs = np.random.default_rng(4), 600
        coverage = np.empty(runs)
        for i in range(runs):
            found = groups.calibrate(plan, [partly(plan, rng, j, who_has_b=4) for j in range(6)])
            assert found.n_missing == {"a": 0, "b": 2}
            coverage[i] = found.thresholds["b"]
        assert found.laws["b"].mean() >= 0.8
        assert kolmogorov_distance(coverage, found.laws["b"].cdf) < kolmogorov_limit(runs)


class TestNewPoints:
    def test_thresholds_by_label(self, plan, data):
        found = groups.calibrate(plan, answered(plan, data))
        labels = ["young", "old", "young", "child"]
        assert found.threshold_of(labels).tolist() == [found.thresholds[label] for label in labels]
        assert found.threshold_of(np.array(labels)).tolist() == found.threshold_of(labels).tolist()
        assert found.threshold_of([]).shape == (0,)

    def test_a_row_for_several_levels(self, data):
        plan = groups.plan(SIZES, confidence_level=[0.7, 0.8])
        found = groups.calibrate(plan, answered(plan, data))
        rows = found.threshold_of(["old", "young"])
        assert rows.tolist() == [list(found.thresholds["old"]), list(found.thresholds["young"])]

    def test_a_strange_label_is_infinite_and_said_aloud(self, plan, data):
        found = groups.calibrate(plan, answered(plan, data))
        with pytest.warns(groups.UnknownGroupWarning, match=r"2 of 3 points.*'Old', 'old '"):
            thresholds = found.threshold_of(["Old", "old", "old "])
        assert thresholds.tolist() == [math.inf, found.thresholds["old"], math.inf]

    def test_zero_bytes_are_not_lost(self, plan, data):
        found = groups.calibrate(plan, answered(plan, data))
        with pytest.warns(groups.UnknownGroupWarning):
            assert found.threshold_of(["old\0"]).tolist() == [math.inf]

    @pytest.mark.parametrize("labels", [[None], [1.0], [math.nan], [True], [b"old"], np.array([0.5])])
    def test_what_is_no_label_is_refused(self, plan, data, labels):
        found = groups.calibrate(plan, answered(plan, data))
        with pytest.raises(TypeError, match="text or a whole number"):
            found.threshold_of(labels)
        with pytest.raises(ValueError, match="flat array"):
            found.threshold_of([["old"]])


class TestRefused:
    def test_infeasible_groups_have_an_infinite_threshold_and_advice(self):
        with pytest.warns(fc.InfeasibleWarning, match="Group 'few': No ranks reach the level 0.9"):
            plan = groups.plan({"few": [2, 2], "many": [60, 60]}, confidence_level=0.9)
        with pytest.raises(ValueError, match="Group 'few'"):
            groups.plan({"few": [2, 2]}, confidence_level=0.9, on_infeasible="raise")
        rng = np.random.default_rng(0)
        reports = [groups.report(plan, rng.random(62), ["few"] * 2 + ["many"] * 60, site=s) for s in "AB"]
        found = groups.calibrate(plan, reports)
        assert found.thresholds["few"] == math.inf
        assert found.by_label["few"].levels[0].advice == plan.by_label["few"].levels[0].advice is not None
        assert found.thresholds["many"] < 1

    def test_a_group_nobody_answers_for(self, plan, data):
        only_old = {site: (s[labels == "old"], labels[labels == "old"]) for site, (s, labels) in data.items()}
        found = groups.calibrate(plan, answered(plan, only_old))
        assert [part.label for part in found.uncalibrated] == ["child", "young"]
        assert found.missing["young"] == ("A", "B")
        assert found.threshold_of(["young"]).tolist() == [math.inf]  # no warning: the plan has this group
        assert set(found.laws) == {"old"}
        assert groups.GroupCalibration.from_json(found.to_json()) == found
        assert all(check.passed for check in groups.verify(found))

    def test_too_few_answers_against_liars(self):
        plan = groups.plan({"a": [30] * 5, "b": [30] * 5}, confidence_level=0.7, max_faulty=1)
        rng = np.random.default_rng(0)
        reports = [partly(plan, rng, j, who_has_b=2) for j in range(5)]
        found = groups.calibrate(plan, reports)
        (rest,) = found.uncalibrated
        assert (rest.label, rest.answered, rest.n_missing) == ("b", ("0", "1"), 3)

    def test_duplicates(self, plan, data):
        reports = answered(plan, data)
        with pytest.raises(fc.RefusedReportsError, match="A: the same report a second time"):
            groups.calibrate(plan, [*reports, reports[0]])
        found = groups.calibrate(plan, [*reports, reports[0]], on_refused="skip")
        assert found.thresholds == groups.calibrate(plan, reports).thresholds
        other = groups.report(plan, data["A"][0] * 2, data["A"][1], site="A")
        found = groups.calibrate(plan, [*reports, other], on_refused="skip")
        assert all("A" in names for names in found.missing.values())
        assert "2 different reports" in found.refused[0].reason

    def test_order_does_not_matter(self, plan, data):
        reports = answered(plan, data)
        assert groups.calibrate(plan, reports) == groups.calibrate(plan, reports[::-1])

    def test_one_wrong_group_costs_a_site_that_group_only(self, plan, data):
        reports = answered(plan, data)
        inside = reports[0].by_label
        wrong = inside["old"].model_copy(update={"n": 41})
        parts = tuple(
            LabelledReport(label=label, report=wrong if label == "old" else inside[label])
            for label in sorted(inside)
        )
        forged = [changed(reports[0], reports=parts), *reports[1:]]
        with pytest.raises(fc.RefusedReportsError, match=r"A, group 'old': the plan expects 40 scores"):
            groups.calibrate(plan, forged)
        found = groups.calibrate(plan, forged, on_refused="skip")
        assert found.missing == {"child": (), "old": ("A",), "young": ()}
        assert [refusal.source for refusal in found.refused_in["old"]] == ["A"]
        honest = groups.calibrate(plan, reports)
        assert found.by_label["young"] == honest.by_label["young"]

    def test_other_plans_and_other_sites(self, plan, data):
        reports = answered(plan, data)
        other = groups.plan(SIZES, confidence_level=0.7)
        with pytest.raises(fc.RefusedReportsError, match="answers another plan"):
            groups.calibrate(other, reports)
        stranger = changed(
            reports[0],
            site="D",
            reports=tuple(
                LabelledReport(label=label, report=changed(one, site="D"))
                for label, one in reports[0].by_label.items()
            ),
        )
        with pytest.raises(fc.RefusedReportsError, match="site must be one of the 3 sites"):
            groups.calibrate(plan, [stranger])
        with pytest.raises(ValueError, match="0 sites answered"):
            groups.calibrate(plan, [])

    def test_at_the_site(self, plan, data):
        scores, labels = data["A"]
        with pytest.raises(ValueError, match=r"groups of the plan, got 'adult' in 1 of 155 rows"):
            groups.report(plan, scores, ["adult", *labels[1:]], site="A")
        with pytest.raises(ValueError, match="one for each of the 155 scores, got 154"):
            groups.report(plan, scores, labels[1:], site="A")
        lost = np.flatnonzero(labels == "child")[0]
        with pytest.raises(
            ValueError, match="group 'child': the plan expects 25 scores from site 'A', got 24"
        ):
            groups.report(plan, np.delete(scores, lost), np.delete(labels, lost), site="A")
        with pytest.raises(ValueError, match="group 'old': scores must not be NaN"):
            groups.report(plan, np.where(labels == "old", np.nan, scores), labels, site="A")


class TestPlan:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"groups": {}}, "must map labels to sizes"),
            ({"groups": {"a": {"A": 0}}}, "group 'a': no site has points of it"),
            ({"groups": {"a": [0, 0]}}, "group 'a': no site has points of it"),
            ({"groups": {"a": [5]}, "sites": ["A", "B"]}, "one size for each of the 2 sites, got 1"),
            ({"groups": {"a": {"Z": 5}}, "sites": ["A"]}, "'Z', which is none of the sites"),
            ({"groups": {1: [5], "1": [5]}}, "each label once"),
            ({"groups": {"a": [5]}, "shares": {"a": 1}}, "shares go with privacy"),
            (
                {"groups": {"a": None}, "privacy": fc.Privacy(epsilon=1.0, bins=BINS)},
                "privacy needs n_points",
            ),
            ({"groups": {"a": [5]}, "keys": {"A": "ed25519:" + "0" * 64}}, "keys must name exactly"),
            (
                {"groups": {"a": [500]}, "privacy": fc.Privacy(epsilon=1.0, bins=BINS, one_hot=True)},
                "one-hot",
            ),
            (
                {
                    "groups": {"a": [9], "b": fc.plan(n_points=[9], confidence_level=0.5)},
                    "confidence_level": 0.8,
                },
                "same confidence levels",
            ),
        ],
    )
    def test_mistakes_are_named(self, arguments, words):
        given = arguments.pop("groups")
        with pytest.raises(ValueError, match=words):
            groups.plan(given, **arguments)
        arguments["groups"] = given

    @pytest.mark.parametrize(
        "label",
        ["", " ", " a", "a ", "a\n", "\x00", "\x1b[31m", "a\u202eb", "\u2028", "\ud800", "x" * 201, "\u200b"],
    )
    def test_hostile_labels_are_refused(self, label):
        with pytest.raises(ValueError, match="groups: label"):
            groups.plan({label: [30, 30]}, confidence_level=0.8)

    @pytest.mark.parametrize(
        "label", ["é", "65+", "女", "a b", "x" * 200, "0", "-1", "a:b=c,d", "'\"\\", "🦆"]
    )
    def test_other_labels_survive(self, label):
        plan = groups.plan({label: [30, 30]}, confidence_level=0.8)
        again = groups.GroupPlan.from_json(plan.to_json())
        assert again == plan
        sent = groups.report(again, np.arange(30.0), [label] * 30, site="A")
        assert groups.GroupReport.from_json(sent.to_json()) == sent

    def test_the_example(self):
        assert doctest.testmod(groups._plan).failed == 0

    def test_the_order_of_groups_does_not_matter(self):
        backwards = {label: SIZES[label] for label in reversed(SIZES)}
        assert groups.plan(backwards, confidence_level=0.8) == groups.plan(SIZES, confidence_level=0.8)


class TestSigned:
    @pytest.fixture
    def keys(self):
        return {site: fc.SigningKey.new() for site in "AB"}

    @pytest.fixture
    def plan(self, keys):
        """Two groups of the same sizes, so that their ordinary plans are the same."""
        return groups.plan(
            {"a": {"A": 40, "B": 40}, "b": {"A": 40, "B": 40}},
            confidence_level=0.8,
            keys={site: key.public_key for site, key in keys.items()},
        )

    @pytest.fixture
    def reports(self, plan, keys):
        rng = np.random.default_rng(1)
        labels = ["a"] * 40 + ["b"] * 40
        return [groups.report(plan, rng.random(80), labels, site=s, key=key) for s, key in keys.items()]

    def test_signed_messages_count(self, plan, reports):
        found = groups.calibrate(plan, reports)
        assert found.authenticated
        assert any("signed as a whole" in words for words in found.assumptions)
        assert all(check.passed for check in groups.verify(found, reports))

    def test_labels_cannot_be_exchanged(self, plan, reports):
        assert plan.by_label["a"].digest == plan.by_label["b"].digest
        inside = reports[0].by_label
        parts = (
            LabelledReport(label="a", report=inside["b"]),
            LabelledReport(label="b", report=inside["a"]),
        )
        with pytest.raises(fc.RefusedReportsError, match="signature is not that of the site's key"):
            groups.calibrate(plan, [changed(reports[0], reports=parts), reports[1]])

    def test_unsigned_or_signed_by_somebody_else(self, plan, reports):
        with pytest.raises(fc.RefusedReportsError, match="A: not signed"):
            groups.calibrate(plan, [reports[0].model_copy(update={"signature": None}), reports[1]])
        with pytest.raises(fc.RefusedReportsError, match="A: the signature is not"):
            groups.calibrate(plan, [fc.SigningKey.new().sign(reports[0]), reports[1]])

    def test_no_part_passes_for_an_ordinary_signed_report(self, plan, reports, keys):
        public = {site: key.public_key for site, key in keys.items()}
        ordinary = fc.plan(n_points={"A": 40, "B": 40}, confidence_level=0.8, keys=public)
        with pytest.raises(fc.RefusedReportsError):
            fc.calibrate(ordinary, [sent.by_label["a"] for sent in reports])


class TestPrivate:
    LABELS = np.repeat(["a", "b"], 2000)

    @pytest.fixture
    def book(self, tmp_path):
        book = fc.Ledger.create(tmp_path / "ledger.db")
        book.set_budget("D", 5)
        return book

    def plan(self, epsilon=4.0, **options):
        return groups.plan(
            options.pop("groups", {"a": [2000] * 4, "b": [2000] * 4}),
            confidence_level=0.8,
            privacy=fc.Privacy(epsilon=epsilon, bins=BINS),
            on_infeasible="ignore",
            **options,
        )

    def scores(self, seed=0):
        return np.random.default_rng(seed).exponential(np.where(self.LABELS == "a", 0.5, 3.0))

    def test_one_charge_of_the_sum_and_the_same_answer_for_free(self, book):
        plan, scores = self.plan(), self.scores()
        first = groups.report(plan, scores, self.LABELS, site="A", ledger=book, dataset="D")
        assert book.spent("D") == plan.epsilon == 4
        assert [entry.plan for entry in book.entries() if entry.kind == "charge"] == [plan.digest]
        assert groups.report(plan, scores, self.LABELS, site="A", ledger=book, dataset="D") == first
        assert book.spent("D") == 4
        assert groups.GroupReport.from_json(first.to_json()) == first

    def test_above_the_budget_nothing_is_drawn(self, book):
        plan = self.plan(epsilon=5.0, shares={"a": 1, "b": 3})
        groups.report(plan, self.scores(), self.LABELS, site="A", ledger=book, dataset="D")
        before = book.entries()
        with pytest.raises(BudgetExceededError, match=r"spent 5 of its budget 5, so epsilon = 1 is refused"):
            groups.report(self.plan(1.0), self.scores(), self.LABELS, site="A", ledger=book, dataset="D")
        assert book.entries() == before

    def test_the_same_data_may_answer_ordinary_plans_too(self, book):
        plan, scores = self.plan(epsilon=1.0), self.scores()
        ordinary = fc.plan(
            n_sites=4, n_points=4000, confidence_level=0.8, privacy=fc.Privacy(epsilon=1.0, bins=BINS)
        )
        fc.report(ordinary, scores, site="A", ledger=book, dataset="D")
        groups.report(plan, scores, self.LABELS, site="A", ledger=book, dataset="D")
        assert book.spent("D") == 2

    def test_groups_with_the_same_plan_have_their_own_draws(self, book):
        """At 4,000 records and epsilon 2 a draw strays from the quantile by more than a unit with probability
        below 1e-100: the badness there is more than 200 times the scale."""
        plan = self.plan()
        assert plan.by_label["a"].digest == plan.by_label["b"].digest
        sent = groups.report(plan, self.scores(), self.LABELS, site="A", ledger=book, dataset="D")
        assert sent.by_label["a"].value < 2.5 < sent.by_label["b"].value

    def test_what_is_answered_is_what_is_paid_for(self, book):
        plan = self.plan(groups={"a": [2000] * 4, "b": [2000] * 4, "few": [3] * 4}, epsilon=3.0)
        assert not plan.by_label["few"].feasible
        assert plan.problems[0].startswith("Group 'few', with its part of epsilon: No ranks reach")
        assert plan.to_answer == ("a", "b")
        assert plan.epsilon == 2
        labels = np.repeat(["a", "b", "few"], [2000, 2000, 3])
        scores = np.concatenate([self.scores(), np.ones(3)])
        sent = groups.report(plan, scores, labels, site="A", ledger=book, dataset="D")
        assert set(sent.by_label) == {"a", "b"}
        assert book.spent("D") == 2
        half = groups.report(
            plan, scores[labels == "b"], labels[labels == "b"], site="B", ledger=self.other(book), dataset="D"
        )
        assert set(half.by_label) == {"b"}
        assert self.other(book).spent("D") == 1
        with pytest.raises(ValueError, match="spend epsilon for nothing"):
            groups.report(plan, np.ones(3), ["few"] * 3, site="C", ledger=book, dataset="D")

    def other(self, book):
        path = book.path.with_name("other.db")
        if path.exists():
            return fc.Ledger(path)
        made = fc.Ledger.create(path)
        made.set_budget("D", 5)
        return made

    def test_a_wrong_size_or_no_ledger_costs_nothing(self, book):
        plan = self.plan()
        with pytest.raises(ValueError, match="group 'b': the plan expects"):
            groups.report(plan, self.scores()[:-1], self.LABELS[:-1], site="A", ledger=book, dataset="D")
        with pytest.raises(ValueError, match="ledger and dataset are needed"):
            groups.report(plan, self.scores(), self.LABELS, site="A")
        assert book.spent("D") == 0

    def test_a_stored_answer_for_other_groups_is_not_passed_on(self, book):
        plan, scores = self.plan(shares={"a": 1, "b": 1}), self.scores()
        only = self.LABELS == "a"
        groups.report(plan, scores[only], self.LABELS[only], site="A", ledger=book, dataset="D")
        with pytest.raises(ValueError, match="have changed"):
            groups.report(plan, scores, self.LABELS, site="A", ledger=book, dataset="D")
        with pytest.raises(ValueError, match="have changed"):
            groups.report(plan, scores[~only], self.LABELS[~only], site="A", ledger=book, dataset="D")

    @given(
        epsilon=st.decimals("0.01", 100, places=4).map(float),
        weights=st.lists(st.integers(1, 1000), min_size=1, max_size=12),
    )
    def test_parts_never_add_up_to_more(self, epsilon, weights):
        from fedconformal.groups._plan import split

        shares = {f"{i}": weight for i, weight in enumerate(weights)}
        parts = split(fc.Privacy(epsilon=epsilon, bins=BINS), shares, shares)
        total = sum(Fraction(str(part.epsilon)) for part in parts.values())
        assert Fraction(str(epsilon)) * (1 - Fraction(1, 10**10)) < total <= Fraction(str(epsilon))

    def test_the_loss_of_one_record_and_of_one_in_every_group(self):
        """Exact release probabilities of random neighbours: a record costs its group's part, never more."""
        plan = self.plan(groups={"a": [40] * 30, "b": [60] * 30}, epsilon=3.0, shares={"a": 1, "b": 2})
        parts = {label: one.privacy.epsilon for label, one in plan.by_label.items()}
        assert parts == {"a": 1.0, "b": 2.0}
        rng, worst = np.random.default_rng(0), dict.fromkeys(parts, 0.0)
        for _ in range(60):
            for label, n in (("a", 40), ("b", 60)):
                scores = rng.exponential(2.0, size=n)
                other = np.append(scores[1:], rng.exponential(5.0))
                ratio = np.log(fc.privacy.pmf(scores, plan.by_label[label]))
                ratio -= np.log(fc.privacy.pmf(other, plan.by_label[label]))
                worst[label] = max(worst[label], float(np.abs(ratio).max()))
        assert all(worst[label] <= parts[label] + 1e-9 for label in parts)
        assert sum(worst.values()) > max(
            parts.values()
        )  # so the sum, not the maximum, for one in every group

    def test_each_group_is_released_as_if_alone(self):
        """2,000 draws; each group's comparison fails by chance with probability below 1e-7 (Massart)."""
        plan = self.plan(groups={"a": [300] * 9, "b": [400] * 9}, epsilon=1.0, shares={"a": 2, "b": 3})
        assert plan.feasible
        labels, runs = np.repeat(["a", "b"], [300, 400]), 2000
        scores = np.random.default_rng(0).exponential(np.where(labels == "a", 0.5, 3.0))
        sent = [
            groups.report(plan, scores, labels, site="A", ledger=Unpaid(), dataset="D") for _ in range(runs)
        ]
        for label, one in plan.by_label.items():
            values = np.append(BINS.edges[:-1], math.inf)
            draws = np.searchsorted(values, [report.by_label[label].value for report in sent])
            seen = np.cumsum(np.bincount(draws, minlength=values.size)) / runs
            expected = np.cumsum(fc.privacy.pmf(scores[labels == label], one))
            assert np.abs(seen - expected).max() < kolmogorov_limit(runs)


class Unpaid:
    """A ledger that draws anew every time, for counting draws."""

    def answer(self, dataset, *, sample, **_):
        return sample()


class TestAudit:
    def test_a_forged_group_is_found(self, plan, data):
        reports = answered(plan, data)
        honest = groups.calibrate(plan, reports)
        assert all(check.passed for check in groups.verify(honest, reports))
        old = honest.by_label["old"]
        level = old.levels[0].model_copy(update={"threshold": old.threshold / 2})
        forged = changed(
            honest,
            calibrations=tuple(
                LabelledCalibration(
                    label=label, calibration=changed(one, levels=(level,)) if label == "old" else one
                )
                for label, one in honest.by_label.items()
            ),
        )
        failed = [check.name for check in groups.verify(forged, reports) if not check.passed]
        assert len(failed) == 1
        assert failed[0].startswith("'old': level 0.8: the threshold")
        assert any(not check.passed for check in groups.verify(honest, reports[1:]))

    def test_exchanged_groups_are_found(self):
        plan = groups.plan({"a": [30, 30], "b": [30, 30]}, confidence_level=0.8)
        rng = np.random.default_rng(0)
        reports = [groups.report(plan, rng.random(60), ["a"] * 30 + ["b"] * 30, site=s) for s in "AB"]
        honest = groups.calibrate(plan, reports)
        swapped = changed(
            honest,
            calibrations=(
                LabelledCalibration(label="a", calibration=honest.by_label["b"]),
                LabelledCalibration(label="b", calibration=honest.by_label["a"]),
            ),
        )
        assert all(check.passed for check in groups.verify(swapped))  # nothing to see without the messages
        assert any(not check.passed for check in groups.verify(swapped, reports))

    def test_a_number_that_was_dropped_is_found(self, plan, data):
        """A coordinator who leaves out one site in one group, after seeing its number."""
        reports = answered(plan, data)
        honest = groups.calibrate(plan, reports)
        fewer = fc.calibrate(plan.by_label["old"], [sent.by_label["old"] for sent in reports[1:]])
        forged = changed(
            honest,
            calibrations=tuple(
                LabelledCalibration(label=label, calibration=fewer if label == "old" else one)
                for label, one in honest.by_label.items()
            ),
        )
        failed = [check for check in groups.verify(forged, reports) if not check.passed]
        assert [check.found for check in failed] == ["not A in 'old'"]

    def test_an_answer_counted_as_none(self, plan, data):
        only = {site: (s[labels == "old"], labels[labels == "old"]) for site, (s, labels) in data.items()}
        found = groups.calibrate(plan, answered(plan, only))
        parts = tuple(
            part.model_copy(update={"answered": ("A",)}) if part.label == "young" else part
            for part in found.uncalibrated
        )
        assert any(not check.passed for check in groups.verify(changed(found, uncalibrated=parts)))


class TestDocuments:
    def documents(self, plan, data):
        reports = answered(plan, data)
        return [plan, reports[0], groups.calibrate(plan, reports)]

    def test_round_trip(self, plan, data):
        for document in self.documents(plan, data):
            again = type(document).from_json(document.to_json())
            assert again == document
            assert again.digest == document.digest

    def test_nothing_but_a_document_error(self, plan, data):
        """3,000 mutated documents, each for all three readers; ``make fuzz`` runs more."""
        texts = [document.to_json().encode() for document in self.documents(plan, data)]
        generator, outcomes = random.Random(11), []
        for i in range(1000):
            text = mutated(texts[i % 3], generator)
            outcomes += [judge(reader, text, f"number {i}") for reader in GROUPS]
        assert outcomes.count("read") > 0

    @pytest.mark.parametrize(
        "forge",
        [
            lambda c: c["calibrations"].reverse(),
            lambda c: c["calibrations"].pop(),
            lambda c: c["calibrations"].append(c["calibrations"][0]),
            lambda c: c["calibrations"][0].update(label="old"),
            lambda c: c["calibrations"][0].update(calibration=c["calibrations"][1]["calibration"]),
            lambda c: c["answers"].pop(),
            lambda c: c.update(authenticated=True),
            lambda c: c["plan"]["plans"][0].update(label="zebra"),
        ],
    )
    def test_parts_that_do_not_fit_together(self, plan, data, forge):
        content = json.loads(self.documents(plan, data)[2].to_json())
        forge(content)
        with pytest.raises(fc.DocumentError, match="not a group-calibration"):
            groups.GroupCalibration.from_json(json.dumps(with_digest(content)))

    def test_a_report_of_another_site_or_signed_inside(self, plan, data):
        sent = self.documents(plan, data)[1]
        first, *rest = sent.reports
        for wrong in ({"site": "Z"}, {"signature": "ed25519:" + "0" * 128}):
            part = LabelledReport(label=first.label, report=first.report.model_copy(update=wrong))
            with pytest.raises(ValueError, match=r"same site|whole is signed"):
                changed(sent, reports=(part, *rest))


class TestCommands:
    @pytest.fixture
    def desk(self, tmp_path, monkeypatch, data):
        monkeypatch.chdir(tmp_path)
        rows = [f"{label},{site},{n}" for label, by_site in SIZES.items() for site, n in by_site.items()]
        (tmp_path / "sizes.csv").write_text("\n".join(["group,site,n", *rows, ""]))
        for site, (scores, labels) in data.items():
            pl.DataFrame({"score": scores, "age": labels.tolist()}).write_csv(f"{site}.csv")
        (tmp_path / "new.csv").write_text("id,age,prediction\n007,old,50\n008,young,51\n009,child,52\n")
        return tmp_path

    @pytest.fixture
    def run(self, capsys):
        def run(*arguments, code=0):
            capsys.readouterr()
            assert main(["groups", *map(str, arguments)]) == code
            printed = capsys.readouterr()
            if code == 2:
                assert printed.err.startswith("fedconformal: ")
                assert printed.err.count("\n") == 1, printed.err
            return printed

        return run

    def reported(self, run):
        run("plan", "--points", "sizes.csv", "--confidence-level", 0.8, "-o", "plan.json")
        for site in SITES:
            run("report", "plan.json", f"{site}.csv", "--group", "age", "--site", site, "-o", f"{site}.json")
        return [f"{site}.json" for site in SITES]

    def test_the_whole_story(self, desk, run, plan, data):
        files = self.reported(run)
        assert groups.GroupPlan.read("plan.json") == plan
        out = run("calibrate", "plan.json", *files, "-o", "calibration.json").out
        assert "3 sites answered" in out
        found = groups.GroupCalibration.read("calibration.json")
        assert found == groups.calibrate(plan, answered(plan, data))
        run(
            "predict",
            "calibration.json",
            "new.csv",
            "--group",
            "age",
            "--column",
            "prediction",
            "-o",
            "out.csv",
        )
        table = pl.read_csv("out.csv")
        half = ((table["upper"] - table["lower"]) / 2).to_numpy()
        assert half == pytest.approx(
            [found.thresholds[label] for label in ("old", "young", "child")], rel=1e-12
        )
        reports = [x for file in files for x in ("--reports", file)]
        assert run("verify", "calibration.json", *reports).out.endswith("verified\n")
        assert json.loads(run("verify", "calibration.json", "--json").out)["verified"] is True

    def test_what_leaves_is_shown(self, desk, run):
        self.reported(run)
        shown = run(
            "report", "plan.json", "A.csv", "--group", "age", "--site", "A", "-o", "A.json", "--force"
        ).err
        assert "everything that leaves" in shown
        assert (desk / "A.json").read_text().strip() in shown

    def test_json_and_nothing_else(self, desk, run, plan):
        files = self.reported(run)
        made = run("plan", "--points", "sizes.csv", "--confidence-level", 0.8, "--json")
        assert (groups.GroupPlan.from_json(made.out), made.err) == (plan, "")
        sent = run("report", "plan.json", "A.csv", "--group", "age", "--site", "A", "--json")
        assert groups.GroupReport.from_json(sent.out) == groups.GroupReport.read("A.json")
        found = groups.GroupCalibration.from_json(run("calibrate", "plan.json", *files, "--json").out)
        (desk / "c.json").write_text(found.to_json())
        options = ("--group", "age", "--column", "prediction", "--json")
        rows = json.loads(run("predict", "c.json", "new.csv", *options).out)
        assert rows[0]["upper"] - 50 == pytest.approx(found.thresholds["old"])

    def test_sizes_by_hand_and_open_groups(self, desk, run):
        made = run("plan", "--points", "a:A=30,B=40", "--points", "b:c:30,40", "--label", "d", "--json").out
        assert groups.GroupPlan.from_json(made) == groups.plan(
            {"a": {"A": 30, "B": 40}, "b:c": [30, 40], "d": None}
        )

    def test_truth_and_prediction_instead_of_scores(self, desk, run, data):
        run("plan", "--points", "sizes.csv", "--score", "absolute", "-o", "plan.json")
        scores, labels = data["A"]
        frame = pl.DataFrame({"truth": scores, "guess": np.zeros(scores.size), "age": labels.tolist()})
        frame.write_parquet("cases.parquet")
        where = ("--group", "age", "--site", "A", "--json")
        both = run(
            "report", "plan.json", "cases.parquet", "--target", "truth", "--prediction", "guess", *where
        )
        assert both.out == run("report", "plan.json", "A.csv", *where).out

    def test_a_strange_label_among_new_points(self, desk, run):
        files = self.reported(run)
        run("calibrate", "plan.json", *files, "-o", "c.json")
        (desk / "odd.csv").write_text("age,prediction\nold,1\nancient,2\n")
        printed = run("predict", "c.json", "odd.csv", "--group", "age", "--json")
        assert "1 of 2 points" in printed.err
        assert json.loads(printed.out)[1]["upper"] == "Infinity"

    def test_signed_and_private(self, desk, run, data):
        key = fc.SigningKey.new()
        (desk / "A.key").write_bytes(key.to_pem())
        printed = run(
            *("plan", "--points", "old:A=4000", "--points", "young:A=2000", "--key", f"A={key.public_key}"),
            *("--epsilon", 4, "--bins", "uniform:0:10:50", "--share", "old=1", "--share", "young=3"),
            *("--confidence-level", 0.8, "-o", "plan.json"),
        )
        assert "epsilon 4 per site, split: old 1, young 3" in printed.out
        labels = ["old"] * 4000 + ["young"] * 2000
        scores = np.random.default_rng(0).exponential(size=6000)
        pl.DataFrame({"score": scores, "age": labels}).write_csv("A.csv")
        book = fc.Ledger.create("site.db")
        book.set_budget("D", 4)
        report = ("report", "plan.json", "A.csv", "--group", "age", "--site", "A", "--sign-with", "A.key")
        assert "ledger and dataset" in run(*report, code=2).err
        run(*report, "--ledger", "site.db", "--dataset", "D", "-o", "A.json")
        assert book.remaining("D") == 0
        assert groups.calibrate(
            groups.GroupPlan.read("plan.json"), [groups.GroupReport.read("A.json")]
        ).authenticated

    def test_refused_reports(self, desk, run):
        files = self.reported(run)
        (desk / "bad.json").write_text("{}")
        assert "bad.json" in run("calibrate", "plan.json", *files, "bad.json", code=2).err
        out = run("calibrate", "plan.json", *files[:2], "bad.json", "--skip-refused").out
        assert "refused: bad.json" in out
        assert "group 'old': no answer from C" in out

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("plan",), "at least one group"),
            (("plan", "--points", "30"), "LABEL:SIZES"),
            (("plan", "--points", "a:30,x"), "whole number"),
            (("plan", "--points", "a:30,30", "--label", "a"), "each group once"),
            (("plan", "--points", "a:30,30", "--share", "a"), "LABEL=WEIGHT"),
            (("plan", "--points", "a:30,30", "--share", "a=1", "--share", "a=2"), "each group once"),
            (("plan", "--points", "A.csv"), "no column 'group'"),
            (("plan", "--points", "twice.csv"), "stands twice in group 'a'"),
            (("plan", "--points", "half.csv"), "whole numbers"),
            (("plan", "--label", "a\tb"), "groups: label"),
            (("report", "plan.json", "A.csv", "--group", "sex", "--site", "A"), "no column 'sex'"),
            (("report", "plan.json", "A.csv", "--group", "score", "--site", "A"), "must hold numbers"),
            (
                ("report", "plan.json", "holes.csv", "--group", "age", "--site", "A"),
                "empty in 1 rows, first in row 2",
            ),
            (("report", "sizes.csv", "A.csv", "--group", "age", "--site", "A"), "not a group-plan"),
            (
                ("report", "plan.json", "scores.npy", "--group", "column_1", "--site", "A"),
                "text or whole numbers",
            ),
            (("verify", "plan.json"), "not a group-calibration"),
        ],
    )
    def test_mistakes_get_one_line(self, desk, run, arguments, words):
        self.reported(run)
        (desk / "holes.csv").write_text("score,age\n1,old\n2,\n")
        (desk / "twice.csv").write_text("group,site,n\na,A,3\na,A,4\n")
        (desk / "half.csv").write_text("group,site,n\na,A,3.5\n")
        np.save("scores.npy", np.ones(3))
        assert words in run(*arguments, code=2).err
