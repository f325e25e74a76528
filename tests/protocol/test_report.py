"""A site's whole job: the scores of the planned ranks, or private counts that are paid
for.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.messages import of

OPEN = fc.plan(confidence_level=[0.5, 0.9])
BINS = fc.Bins.uniform(0, 1, 100)


def values(report):
    return tuple(level.values for level in report.payload.levels)


@given(st.lists(st.floats(allow_nan=False, min_value=-1e300), min_size=1, max_size=60))
def test_the_report_holds_the_score_of_the_planned_rank(scores):
    report = fc.report(OPEN, scores, site="A")
    ordered = [*sorted(scores), math.inf]
    ranks = of(OPEN.message).ranks_for(OPEN.designs[0], len(scores), "A")
    assert tuple(level.ranks for level in report.payload.levels) == ranks
    assert values(report) == tuple((ordered[rank - 1],) for (rank,) in ranks)
    assert (report.plan, report.site, report.n) == (OPEN.digest, "A", len(scores))


def test_scores_stay_as_they_were_unless_told_otherwise():
    scores = np.random.default_rng(0).random(1000)
    before = scores.copy()
    first = fc.report(OPEN, scores, site="A")
    assert np.array_equal(scores, before)
    assert fc.report(OPEN, scores, site="A", in_place=True) == first
    assert not np.array_equal(scores, before)
    assert np.array_equal(np.sort(scores), np.sort(before))


def test_integers_one_score_equal_scores_and_ties():
    for scores, expected in [
        ([3, 1, 2], (2.0, math.inf)),
        ([7], (7.0, math.inf)),
        (np.ones(50), (1.0, 1.0)),
        (np.arange(100_000) % 3, (1.0, 2.0)),
        (np.arange(9, dtype=np.float32), (4.0, 8.0)),
    ]:
        assert values(fc.report(OPEN, scores, site="A")) == tuple(
            (value,) for value in expected
        )


def test_cases_are_drawn_by_the_round_and_the_site():
    plan = fc.plan(n_sites=12, promise="new-site", numbers=3)
    scores = np.random.default_rng(0).random(200)
    sent = {site: fc.report(plan, scores, site=site).payload.values for site in "AB"}
    assert (
        sent["A"] == fc.report(plan, scores[::-1], site="A").payload.values != sent["B"]
    )
    ordered, ranks = (
        np.sort(scores),
        fc.messages.draw_ranks(plan.terms.round, "A", 200, 3),
    )
    assert sent["A"] == tuple(ordered[rank - 1] for rank in ranks)


def test_a_closed_plan_expects_its_sizes_and_names():
    plan = fc.plan(n_points={"A": 20, "B": 30}, confidence_level=0.8)
    with pytest.raises(ValueError, match="expects 20 scores from site 'A', got 19"):
        fc.report(plan, np.ones(19), site="A")
    with pytest.raises(ValueError, match="one of the plan's, 'A', 'B', got 'C'"):
        fc.report(plan, np.ones(20), site="C")


def test_groups_go_with_plans_that_have_some():
    with pytest.raises(
        ValueError, match="groups was given, but this plan has no groups"
    ):
        fc.report(OPEN, [1.0], site="A", groups=["a"])
    grouped = fc.plan(groups={"a": None, "b": None})
    with pytest.raises(
        ValueError,
        match="groups must give the group of each score: the plan has 'a', 'b'",
    ):
        fc.report(grouped, [1.0], site="A")


# -- private reports -------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    book = fc.Ledger.create(tmp_path / "ledger.db")
    book.set_budget("D", 12)
    return book


class TestPrivate:
    CURVE, PAPER = (
        fc.plan(n_sites=5, n_points=200, privacy=privacy)
        for privacy in (fc.Privacy(1.0, BINS), fc.Privacy(10.0, BINS, analysis="paper"))
    )

    @pytest.mark.parametrize(
        ("plan", "epsilon"), [(CURVE, 1), (PAPER, 10)], ids=["curve", "paper"]
    )
    def test_a_report_is_charged_once_and_then_repeated(self, plan, epsilon, ledger):
        scores = np.random.default_rng(0).random(200)
        first = fc.report(plan, scores, site="A", ledger=ledger, dataset="D")
        assert ledger.spent("D") == epsilon
        for _ in range(20):
            assert (
                fc.report(plan, scores, site="A", ledger=ledger, dataset="D") == first
            )
        assert ledger.spent("D") == epsilon
        assert fc.Report.from_json(first.to_json()) == first
        assert first.payload.kind == plan.message.kind

    def test_noise_differs_between_ledgers(self, tmp_path):
        sent = set()
        for i in range(2):
            book = fc.Ledger.create(tmp_path / str(i))
            book.set_budget("D", 1)
            sent.add(
                fc.report(
                    self.CURVE, np.zeros(200), site="A", ledger=book, dataset="D"
                ).payload.counts
            )
        assert len(sent) == 2

    def test_not_without_a_ledger_nor_for_a_plan_that_cannot_be_reached(self, ledger):
        with pytest.raises(ValueError, match="ledger and dataset are needed"):
            fc.report(self.CURVE, np.ones(200), site="A")
        with pytest.warns(fc.InfeasibleWarning):
            hopeless = fc.plan(n_sites=5, n_points=20, privacy=fc.Privacy(0.01, BINS))
        account = {"ledger": ledger, "dataset": "D"}
        with pytest.raises(ValueError, match="spend epsilon for nothing"):
            fc.report(hopeless, np.ones(20), site="A", **account)
        with pytest.raises(ValueError, match="expects sites with 200 scores, got 199"):
            fc.report(self.CURVE, np.ones(199), site="A", **account)
        assert ledger.spent("D") == 0

    @pytest.mark.parametrize("plan", [CURVE, PAPER], ids=["curve", "paper"])
    @pytest.mark.parametrize("value", [math.nan, math.inf, -5.0, None, "secret"])
    def test_odd_scores_are_clipped_and_never_raise(self, plan, ledger, value):
        fc.report(plan, [value] * 200, site="A", ledger=ledger, dataset="D")

    @pytest.mark.parametrize("bounded", [False, True])
    def test_a_clipped_score_means_infinity_whether_or_not_scores_are_bounded(
        self, ledger, bounded
    ):
        """The noise of a count exceeds 100 with a probability below 1e-12."""
        bins = fc.Bins.uniform(0, 1, 100, bounded=bounded)
        chosen = fc.plan(n_sites=5, n_points=200, privacy=fc.Privacy(3.0, bins))
        beyond = np.repeat([math.nan, math.inf, 10.0], [100, 50, 50])
        counts = fc.report(
            chosen, beyond, site="A", ledger=ledger, dataset="D"
        ).payload.counts
        assert (int(np.argmax(counts)), len(counts)) == (99 + bounded, 100 + bounded)


class TestPrivateGroups:
    LABELS = np.repeat(["a", "b"], 2000)
    PLAN = fc.plan(
        groups={"a": [2000] * 4, "b": [2000] * 4},
        confidence_level=0.8,
        privacy=fc.Privacy(4.0, fc.Bins.uniform(0, 10, 50)),
    )

    def scores(self, seed=0):
        return np.random.default_rng(seed).exponential(
            np.where(self.LABELS == "a", 0.5, 3.0)
        )

    def send(self, plan, scores, labels, book, site="A"):
        return fc.report(
            plan, scores, site=site, groups=labels, ledger=book, dataset="D"
        )

    def test_one_charge_for_all_groups_and_the_same_answer_for_free(self, ledger):
        """A record is in one group: it pays the epsilon of that group."""
        scores = self.scores()
        first = self.send(self.PLAN, scores, self.LABELS, ledger)
        assert ledger.spent("D") == 4
        assert [entry.plan for entry in ledger.entries() if entry.kind == "charge"] == [
            self.PLAN.digest
        ]
        assert self.send(self.PLAN, scores, self.LABELS, ledger) == first
        assert ledger.spent("D") == 4
        assert fc.Report.from_json(first.to_json()) == first

    def test_a_group_that_cannot_be_reached_is_not_answered_for(self, ledger):
        with pytest.warns(fc.InfeasibleWarning, match="Group 'few': 80 % coverage"):
            plan = fc.plan(
                groups={"a": [2000] * 4, "few": [5] * 4},
                confidence_level=0.8,
                privacy=fc.Privacy(0.5, fc.Bins.uniform(0, 10, 50)),
            )
        labels = np.repeat(["a", "few"], [2000, 5])
        assert list(self.send(plan, np.ones(2005), labels, ledger).by_group) == ["a"]
        assert ledger.spent("D") == 0.5
        with pytest.raises(ValueError, match="spend epsilon for nothing"):
            self.send(plan, np.ones(5), ["few"] * 5, ledger, site="C")

    def test_a_stored_answer_for_other_groups_is_not_passed_on(self, ledger):
        scores, only = self.scores(), self.LABELS == "a"
        self.send(self.PLAN, scores[only], self.LABELS[only], ledger)
        for rows in (slice(None), ~only):
            with pytest.raises(ValueError, match="have changed"):
                self.send(self.PLAN, scores[rows], self.LABELS[rows], ledger)


def test_a_report_names_the_score_if_it_is_told():
    plan = fc.plan(
        n_sites=3, n_points=20, score=fc.scores.RAPS(penalty=0.1), confidence_level=0.5
    )
    made = fc.report(plan, range(20), site="A", score=fc.scores.RAPS(penalty=0.1))
    assert made.score == plan.score
    assert fc.Report.from_json(made.to_json()) == made
    assert fc.report(plan, range(20), site="A", score=plan.score) == made
    assert fc.report(plan, range(20), site="A").score is None
    with pytest.raises(
        ValueError,
        match=r"that of the plan, raps\(.*penalty=0.1.*\), got raps\(.*=0.01",
    ):
        fc.report(plan, range(20), site="A", score="raps")
    named = fc.report(
        fc.plan(n_sites=3, n_points=20), range(20), site="A", score="raps"
    )
    assert named.score == fc.plan(score="raps").score
