"""The server's whole job: reports in, thresholds out."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal import privacy
from protocol.sending import SIZES, altered, federation, sent

BINS = fc.Bins.uniform(0, 1, 100)


@pytest.fixture(scope="module")
def plan():
    return fc.plan(n_points=SIZES, confidence_level=0.9, max_missing=1)


@pytest.fixture(scope="module")
def reports(plan):
    return federation(plan, SIZES)


class TestThreshold:
    def test_is_the_kth_smallest_report_where_each_has_one_vote(self):
        plan = fc.plan(n_sites=5, n_points=60, confidence_level=0.9)
        reports = federation(plan, dict.fromkeys("ABCDE", 60))
        found = fc.calibrate(plan, reports)
        assert found.threshold == sorted(report.value for report in reports)[plan.server_rank - 1]

    def test_does_not_depend_on_the_order_of_the_reports(self, plan, reports):
        results = {fc.calibrate(plan, order).digest for order in itertools.permutations(reports)}
        assert len(results) == 1

    @pytest.mark.parametrize("criterion", ["stable", "conditional"])
    def test_missing_sites_are_named_and_the_votes_are_solved_anew(self, criterion):
        sizes = {name: 4 * n for name, n in SIZES.items()}
        plan = fc.plan(n_points=sizes, confidence_level=0.9, criterion=criterion, max_missing=1)
        calibration = fc.calibrate(plan, federation(plan, sizes)[1:])
        assert calibration.missing == ("A",)
        assert calibration.n_missing == 1
        assert "silence" in calibration.assumptions
        if criterion == "conditional":
            assert calibration.law.cdf(0.9) <= 0.1
        else:
            assert calibration.law.mean() >= 0.9
        assert calibration.law.n_sites == 4

    @pytest.mark.parametrize("criterion", ["marginal", "conditional"])
    def test_an_open_plan_is_solved_when_the_reports_are_in(self, criterion):
        sizes = {name: 2 * n for name, n in SIZES.items()}
        plan = fc.plan(confidence_level=0.9, criterion=criterion)
        calibration = fc.calibrate(plan, federation(plan, sizes))
        closed = fc.plan(n_points=sizes, confidence_level=0.9, local_ranks="paper", criterion=criterion)
        assert calibration.server_rank == closed.server_rank
        assert calibration.law.mean() == closed.law.mean() >= 0.9

    def test_too_few_answers_give_an_infinite_threshold_and_say_what_would_do(self):
        plan = fc.plan(n_sites=5, n_points=2, confidence_level=0.9)
        calibration = fc.calibrate(plan, federation(plan, {"A": 2, "B": 2}))
        assert calibration.threshold == math.inf
        assert calibration.law.mean() == 1.0
        assert calibration.levels[0].advice.n_sites == 5

    @pytest.mark.slow
    @given(st.integers(0, 1000))
    def test_thresholds_rise_with_the_level(self, seed):
        high, low, middle = fc.calibrate(
            THREE_LEVELS, federation(THREE_LEVELS, dict.fromkeys("ABCDEF", 30), seed)
        ).threshold
        assert low <= middle <= high

    def test_faulty_sites_within_the_limit_cannot_lower_the_threshold_below_honest_reports(self):
        plan = fc.plan(n_sites=9, n_points=50, confidence_level=0.9, max_faulty=2)
        honest = federation(plan, dict.fromkeys("ABCDEFG", 50))
        lies = [sent(plan, "X", 50, -1e300), sent(plan, "Y", 50, math.inf)]
        calibration = fc.calibrate(plan, honest + lies)
        values = sorted(report.value for report in honest)
        assert values[0] <= calibration.threshold <= values[-1]
        assert calibration.law.mean() >= 0.9


THREE_LEVELS = fc.plan(n_sites=6, n_points=30, confidence_level=[0.9, 0.6, 0.75])


class TestArguments:
    def test_too_few_for_the_number_of_faulty_sites(self):
        plan = fc.plan(n_sites=9, n_points=50, confidence_level=0.9, max_faulty=2)
        with pytest.raises(ValueError, match="4 sites answered: at least 5 are needed with max_faulty = 2"):
            fc.calibrate(plan, federation(plan, dict.fromkeys("ABCD", 50)))


# -- private reports ---------------------------------------------------------------------------------------


def private_plan(m, n, **options):
    return fc.plan(n_sites=m, n_points=n, privacy=fc.Privacy(epsilon=2.0, bins=BINS, **options))


@pytest.fixture(scope="module")
def six():
    return private_plan(6, 300)


@pytest.fixture(scope="module")
def three():
    return private_plan(3, 300)


@pytest.fixture(scope="module")
def releases(six, tmp_path_factory):
    folder, rng, made = tmp_path_factory.mktemp("ledgers"), np.random.default_rng(4), []
    for site in "ABCDEF":
        book = fc.Ledger.create(folder / f"{site}.db")
        book.set_budget("trial", 10)
        made.append(fc.report(six, rng.random(300), site=site, ledger=book, dataset="trial"))
    return made


class TestPrivate:
    def test_missing_sites_are_solved_anew(self, six, releases):
        whole, part = fc.calibrate(six, releases), fc.calibrate(six, releases[:4])
        assert whole.law.mean() == six.law.mean()
        assert part.n_missing == 2
        assert part.law.mean() >= 0.9
        assert any("2-differentially private" in words for words in fc.protocol.assumption_sentences(part))
        assert fc.Calibration.from_json(part.to_json()) == part

    @pytest.mark.slow
    def test_bounded_bins_promise_nothing_that_missing_values_break(self):
        """A fifth of all values is missing: a finite threshold covers four fifths of new cases at most."""
        rule = fc.Privacy(epsilon=5.0, bins=fc.Bins.uniform(0, 1, 100, bounded=True))
        plan = fc.plan(n_sites=8, n_points=500, privacy=rule)
        assert plan.law.mean() == pytest.approx(0.900187, abs=1e-6)
        one_more = fc.Privacy(epsilon=5.0, bins=fc.Bins.uniform(0, 1, 101))
        assert plan.law.mean() == fc.plan(n_sites=8, n_points=500, privacy=one_more).law.mean()
        mass = privacy.pmf(np.append(np.linspace(0, 1, 400), np.full(100, np.nan)), plan)
        is_finite = stats.binom.sf(plan.server_rank - 1, 8, np.clip(mass[:-1].sum(), 0, 1))
        assert 1 - 0.2 * is_finite >= plan.law.mean()
        calibration = fc.calibrate_histogram(plan, 8 * np.eye(101, dtype=int)[99])
        assert calibration.threshold == 1.0
        assert all(finding.holds for finding in fc.audit.verify(calibration))
        assert fc.calibrate_histogram(plan, 8 * np.eye(101, dtype=int)[100]).threshold == math.inf

    def test_a_value_that_is_no_edge_is_refused(self, six, releases):
        with pytest.raises(fc.RefusedReportsError, match="no edge"):
            fc.calibrate(six, [altered(releases[0], value=0.12345), *releases[1:]])

    def test_the_sum_of_one_hot_vectors_gives_the_same_threshold(self, six, releases):
        edges = [*BINS.edges[:-1], math.inf]
        vectors = [privacy.one_hot((edges.index(report.value),), six) for report in releases]
        for n in (6, 4):
            by_sum, by_site = fc.calibrate_histogram(six, sum(vectors[:n])), fc.calibrate(six, releases[:n])
            assert by_sum.threshold == by_site.threshold
            assert by_sum.law.mean() == pytest.approx(by_site.law.mean())
            assert (by_sum.n_answers, by_sum.n_missing, by_sum.answers) == (n, 6 - n, ())
            assert fc.Calibration.from_json(by_sum.to_json()) == by_sum

    def test_a_plan_can_demand_it(self):
        with pytest.raises(ValueError, match="secure aggregation"):
            fc.calibrate(private_plan(3, 300, one_hot=True), [])

    def test_signatures_and_sums_do_not_go_together(self):
        keys = {name: fc.SigningKey.new().public_key for name in "ABC"}
        plan = fc.plan(
            n_points=dict.fromkeys("ABC", 300), keys=keys, privacy=fc.Privacy(epsilon=2.0, bins=BINS)
        )
        with pytest.raises(ValueError, match="nobody signs a sum"):
            fc.calibrate_histogram(plan, 3 * np.eye(100, dtype=int)[90])

    @pytest.mark.parametrize(
        ("histogram", "words"),
        [
            (np.zeros(100, dtype=int), "must count 1 to 3 sites"),
            (np.full(100, 1), "must count 1 to 3 sites"),
            (np.zeros(99, dtype=int), "shape"),
            (np.full(100, 0.01), "counts"),
            (-np.eye(100, dtype=int)[0], "counts"),
        ],
    )
    def test_a_histogram_must_fit_the_plan(self, three, histogram, words):
        with pytest.raises(ValueError, match=words):
            fc.calibrate_histogram(three, histogram)

    def test_uneven_sites_must_all_answer(self):
        plan = fc.plan(n_points=[300, 400, 400], privacy=fc.Privacy(epsilon=2.0, bins=BINS))
        ones = np.eye(100, dtype=int)
        assert fc.calibrate_histogram(plan, ones[90] + ones[91] + ones[95]).law.mean() >= 0.9
        with pytest.raises(ValueError, match="sizes differ"):
            fc.calibrate_histogram(plan, ones[90] + ones[91])
        with pytest.raises(ValueError, match="private plan"):
            fc.calibrate_histogram(fc.plan(n_sites=2, n_points=30), ones[0])
