"""A site's whole job: the scores of the planned ranks, or private draws that are paid for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal import privacy
from fedconformal.protocol import private_bins
from support import kolmogorov_limit

OPEN = fc.plan(confidence_level=[0.5, 0.9])
BINS = fc.Bins.uniform(0, 1, 100)
WIDE = fc.Bins.uniform(0, 10, 50)


@given(st.lists(st.floats(allow_nan=False, min_value=-1e300), min_size=1, max_size=60))
def test_the_report_holds_the_score_of_the_planned_rank(scores):
    report = fc.report(OPEN, scores, site="A")
    ordered = [*sorted(scores), math.inf]
    assert report.ranks == OPEN.ranks_for(len(scores))
    assert report.values == tuple((ordered[rank - 1],) for (rank,) in report.ranks)
    assert (report.plan, report.site, report.n) == (OPEN.digest, "A", len(scores))


def test_scores_stay_as_they_were_unless_told_otherwise():
    scores = np.random.default_rng(0).random(1000)
    before = scores.copy()
    first = fc.report(OPEN, scores, site="A")
    assert np.array_equal(scores, before)
    assert fc.report(OPEN, scores, site="A", in_place=True) == first
    assert np.array_equal(np.sort(scores), np.sort(before))


def test_integers_one_score_equal_scores_and_ties():
    for scores, values in [
        ([3, 1, 2], (2.0, math.inf)),
        ([7], (7.0, math.inf)),
        (np.ones(50), (1.0, 1.0)),
        (np.arange(100_000) % 3, (1.0, 2.0)),
        (np.arange(9, dtype=np.float32), (4.0, 8.0)),
    ]:
        assert fc.report(OPEN, scores, site="A").value == values


def test_a_closed_plan_expects_its_sizes_and_names():
    plan = fc.plan(n_points={"A": 20, "B": 30}, confidence_level=0.8)
    with pytest.raises(ValueError, match="expects 20 scores from site 'A', got 19"):
        fc.report(plan, np.ones(19), site="A")
    with pytest.raises(ValueError, match="one of the plan's, 'A', 'B', got 'C'"):
        fc.report(plan, np.ones(20), site="C")


def test_groups_go_with_plans_that_have_some():
    with pytest.raises(ValueError, match="groups go with a plan that has groups"):
        fc.report(OPEN, [1.0], site="A", groups=["a"])
    grouped = fc.plan(groups={"a": None, "b": None})
    with pytest.raises(ValueError, match="groups must give the group of each score: the plan has 'a', 'b'"):
        fc.report(grouped, [1.0], site="A")


# -- private reports ---------------------------------------------------------------------------------------


def private_plan(m, n, epsilon, *, bins=BINS, one_hot=False):
    rule = fc.Privacy(epsilon=epsilon, bins=bins, one_hot=one_hot)
    return fc.plan(n_sites=m, n_points=n, privacy=rule, criterion="marginal", on_infeasible="ignore")


@pytest.fixture(scope="module")
def plan():
    return private_plan(5, 200, 1.0)


@pytest.fixture
def ledger(tmp_path):
    book = fc.Ledger.create(tmp_path / "ledger.db")
    book.set_budget("trial", 2.0)
    return book


class TestPrivate:
    def test_a_private_report_is_charged_and_replayed(self, plan, ledger):
        scores = np.random.default_rng(0).random(200)
        first = fc.report(plan, scores, site="A", ledger=ledger, dataset="trial")
        assert first.value in (*BINS.edges, math.inf)
        assert ledger.spent("trial") == 1
        assert all(
            fc.report(plan, scores, site="A", ledger=ledger, dataset="trial") == first for _ in range(20)
        )
        assert ledger.spent("trial") == 1
        assert fc.Report.from_json(first.to_json()) == first

    def test_not_without_a_ledger_nor_for_an_infeasible_plan(self, plan, ledger):
        with pytest.raises(ValueError, match="ledger and dataset are needed"):
            fc.report(plan, np.ones(200), site="A")
        hopeless = private_plan(5, 50, 0.1)
        with pytest.raises(ValueError, match="spend epsilon for nothing"):
            fc.report(hopeless, np.ones(50), site="A", ledger=ledger, dataset="trial")
        with pytest.raises(ValueError, match="expects sites with 200 scores, got 199"):
            fc.report(plan, np.ones(199), site="A", ledger=ledger, dataset="trial")
        assert ledger.spent("trial") == 0

    @pytest.mark.parametrize("value", [math.nan, math.inf, -5.0])
    def test_odd_scores_are_clipped_and_never_raise(self, plan, ledger, value):
        scores = np.full(200, value)
        assert privacy.pmf(scores, plan).argmax() == (0 if value < 0 else 99)
        fc.report(plan, scores, site="A", ledger=ledger, dataset="trial")

    @pytest.mark.parametrize("bounded", [False, True])
    def test_a_clipped_score_means_infinity_whether_or_not_scores_are_bounded(self, ledger, bounded):
        """Another bin is drawn with a probability below 1e-12."""
        chosen = private_plan(5, 200, 1.9, bins=fc.Bins.uniform(0, 1, 100, bounded=bounded))
        beyond = np.repeat([math.nan, math.inf, 10.0], [100, 50, 50])
        assert privacy.pmf(beyond, chosen)[-1] > 1 - 1e-12
        assert fc.report(chosen, beyond, site="A", ledger=ledger, dataset="trial").value == math.inf
        likeliest = privacy.pmf(np.full(200, 1.0), chosen).argmax()
        assert chosen.bins.value(int(likeliest)) == (1.0 if bounded else math.inf)

    def test_a_plan_for_sums_is_answered_with_vectors_alone(self, ledger):
        summed = private_plan(3, 300, 2.0, one_hot=True)
        with pytest.raises(ValueError, match="only as one-hot vectors"):
            fc.report(summed, np.ones(300), site="A", ledger=ledger, dataset="trial")
        assert ledger.spent("trial") == 0
        (chosen,) = private_bins(summed, np.full(300, 0.55), site="A", ledger=ledger, dataset="trial")
        assert ledger.spent("trial") == 2
        assert 0 <= chosen < 100
        again = private_bins(summed, np.full(300, 0.55), site="A", ledger=ledger, dataset="trial")
        assert again == (chosen,)

    def test_there_are_no_bins_in_a_plan_that_is_not_private(self, ledger):
        with pytest.raises(ValueError, match="not private: there are no bins"):
            private_bins(OPEN, [1.0], site="A", ledger=ledger, dataset="trial")


class Unpaid:
    """A ledger that draws anew every time, for counting draws."""

    def answer(self, dataset, *, sample, **_):
        return sample()


def grouped_plan(epsilon=4.0, *, groups=None, **options):
    return fc.plan(
        groups=groups or {"a": [2000] * 4, "b": [2000] * 4},
        confidence_level=0.8,
        criterion="marginal",
        privacy=fc.Privacy(epsilon=epsilon, bins=WIDE),
        on_infeasible="ignore",
        **options,
    )


@pytest.fixture(scope="module")
def four():
    return grouped_plan()


class TestPrivateGroups:
    LABELS = np.repeat(["a", "b"], 2000)

    @pytest.fixture
    def book(self, tmp_path):
        return self.opened(tmp_path / "ledger.db")

    def opened(self, path):
        book = fc.Ledger.create(path)
        book.set_budget("D", 5)
        return book

    def scores(self, seed=0):
        return np.random.default_rng(seed).exponential(np.where(self.LABELS == "a", 0.5, 3.0))

    def send(self, plan, scores, labels, book, site="A"):
        return fc.report(plan, scores, site=site, groups=labels, ledger=book, dataset="D")

    def test_one_charge_of_the_sum_and_the_same_answer_for_free(self, four, book):
        scores = self.scores()
        first = self.send(four, scores, self.LABELS, book)
        assert book.spent("D") == four.epsilon == 4
        assert [entry.plan for entry in book.entries() if entry.kind == "charge"] == [four.digest]
        assert self.send(four, scores, self.LABELS, book) == first
        assert book.spent("D") == 4
        assert fc.Report.from_json(first.to_json()) == first

    @pytest.mark.slow
    def test_what_is_answered_is_what_is_paid_for(self, book):
        plan = grouped_plan(3.0, groups={"a": [2000] * 4, "b": [2000] * 4, "few": [5] * 4})
        assert not plan["few"].feasible
        assert plan.problems[0].startswith("Group 'few', with its part of epsilon: No ranks reach")
        assert plan.to_answer == ("a", "b")
        assert plan.epsilon == 2
        labels = np.repeat(["a", "b", "few"], [2000, 2000, 5])
        scores = np.concatenate([self.scores(), np.ones(5)])
        sent = self.send(plan, scores, labels, book)
        assert set(sent.by_label) == {"a", "b"}
        assert book.spent("D") == 2
        other = self.opened(book.path.with_name("other.db"))
        half = self.send(plan, scores[labels == "b"], labels[labels == "b"], other, site="B")
        assert set(half.by_label) == {"b"}
        assert other.spent("D") == 1
        with pytest.raises(ValueError, match="spend epsilon for nothing"):
            self.send(plan, np.ones(5), ["few"] * 5, book, site="C")

    def test_a_stored_answer_for_other_groups_is_not_passed_on(self, four, book):
        scores, only = self.scores(), self.LABELS == "a"
        self.send(four, scores[only], self.LABELS[only], book)
        with pytest.raises(ValueError, match="have changed"):
            self.send(four, scores, self.LABELS, book)
        with pytest.raises(ValueError, match="have changed"):
            self.send(four, scores[~only], self.LABELS[~only], book)

    @pytest.mark.nightly
    def test_each_group_is_released_as_if_alone(self):
        """1,000 draws; each group's comparison fails by chance with probability below 1e-7 (Massart)."""
        plan = grouped_plan(1.0, groups={"a": [300] * 9, "b": [400] * 9})
        assert plan.feasible
        labels, runs = np.repeat(["a", "b"], [300, 400]), 1000
        scores = np.random.default_rng(0).exponential(np.where(labels == "a", 0.5, 3.0))
        sent = [self.send(plan, scores, labels, Unpaid()) for _ in range(runs)]
        for label, one in plan.by_label.items():
            values = np.append(WIDE.edges[:-1], math.inf)
            draws = np.searchsorted(values, [report[label].value for report in sent])
            seen = np.cumsum(np.bincount(draws, minlength=values.size)) / runs
            expected = np.cumsum(privacy.pmf(scores[labels == label], one))
            assert np.abs(seen - expected).max() < kolmogorov_limit(runs)
