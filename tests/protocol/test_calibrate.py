"""The server's whole job: reports in, thresholds out."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from protocol.sending import SIZES, check_claims, federation, sent

BINS = fc.Bins.uniform(0, 1, 100)
PLAIN = fc.SitePolicy(curves="plain")
THREE_LEVELS = fc.plan(n_sites=6, n_points=30, confidence_level=[0.9, 0.6, 0.75])


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
        values = sorted(report.payload.levels[0].values for report in reports)
        assert (fc.calibrate(plan, reports).threshold,) == values[plan.server_rank - 1]

    def test_does_not_depend_on_the_order_of_the_reports(self, plan, reports):
        results = {
            fc.calibrate(plan, order).digest
            for order in itertools.permutations(reports)
        }
        assert len(results) == 1

    @pytest.mark.parametrize("criterion", ["stable", "conditional"])
    def test_missing_sites_are_named_and_the_votes_are_solved_again(self, criterion):
        sizes = {name: 4 * n for name, n in SIZES.items()}
        plan = fc.plan(
            n_points=sizes, confidence_level=0.9, criterion=criterion, max_missing=1
        )
        calibration = fc.calibrate(plan, federation(plan, sizes)[1:])
        assert calibration.missing == ("A",)
        assert calibration.n_missing == 1
        assert "silence" in calibration.assumptions
        if criterion == "conditional":
            assert calibration.law.cdf(0.9) <= 0.1
        else:
            assert calibration.law.mean() >= 0.9
        assert calibration.law.n_sites == 4
        check_claims(calibration)

    @pytest.mark.parametrize("criterion", ["marginal", "conditional"])
    def test_an_open_plan_is_solved_when_the_reports_are_in(self, criterion):
        sizes = {name: 2 * n for name, n in SIZES.items()}
        plan = fc.plan(confidence_level=0.9, criterion=criterion)
        calibration = fc.calibrate(plan, federation(plan, sizes))
        closed = fc.plan(
            n_points=sizes,
            confidence_level=0.9,
            local_ranks="paper",
            criterion=criterion,
        )
        assert calibration.server_rank == closed.server_rank
        assert calibration.law.mean() == closed.law.mean() >= 0.9
        check_claims(calibration)

    def test_too_few_answers_give_an_infinite_threshold_and_say_what_would_suffice(
        self,
    ):
        plan = fc.plan(n_sites=5, n_points=2, confidence_level=0.9)
        calibration = fc.calibrate(plan, federation(plan, {"A": 2, "B": 2}))
        assert (calibration.threshold, calibration.feasible) == (math.inf, False)
        assert calibration.law.mean() == 1.0
        assert calibration.parts[0].design.levels[0].advice.n_sites == 5

    @pytest.mark.slow
    @given(st.integers(0, 1000))
    def test_thresholds_rise_with_the_level(self, seed):
        high, low, middle = fc.calibrate(
            THREE_LEVELS, federation(THREE_LEVELS, dict.fromkeys("ABCDEF", 30), seed)
        ).thresholds
        assert low <= middle <= high

    def test_faulty_sites_within_the_limit_cannot_lower_the_threshold(
        self,
    ):
        plan = fc.plan(n_sites=9, n_points=50, confidence_level=0.9, max_faulty=2)
        honest = federation(plan, dict.fromkeys("ABCDEFG", 50))
        lies = [sent(plan, "X", 50, -1e300), sent(plan, "Y", 50, math.inf)]
        calibration = fc.calibrate(plan, honest + lies)
        values = sorted(report.payload.levels[0].values[0] for report in honest)
        assert values[0] <= calibration.threshold <= values[-1]
        assert calibration.law.mean() >= 0.9

    def test_too_few_for_the_number_of_faulty_sites(self):
        plan = fc.plan(n_sites=9, n_points=50, confidence_level=0.9, max_faulty=2)
        with pytest.raises(
            ValueError,
            match="4 sites answered: at least 5 are needed with max_faulty = 2",
        ):
            fc.calibrate(plan, federation(plan, dict.fromkeys("ABCD", 50)))


class TestCurves:
    """Exact ones give the pooled order statistic, rounded up to the grid."""

    @pytest.mark.parametrize("n_points", [SIZES, None])
    @pytest.mark.parametrize("levels", [0.9, [0.9, 0.5]])
    def test_the_pooled_score_rounded_up(self, n_points, levels):
        rng = np.random.default_rng(1)
        scores = {site: rng.random(n) for site, n in SIZES.items()}
        plan = fc.plan(
            n_points=n_points, confidence_level=levels, criterion="marginal", curve=BINS
        )
        reports = [
            fc.report(plan, own, site=site, policy=PLAIN)
            for site, own in scores.items()
        ]
        found, pooled = (
            fc.calibrate(plan, reports),
            np.sort(np.concatenate(list(scores.values()))),
        )
        for level in plan.confidence_levels:
            rank = math.ceil(level * (pooled.size + 1))
            assert (
                found[level].threshold
                == BINS.edges[np.searchsorted(BINS.edges, pooled[rank - 1])]
            )
            assert found[level].law.mean() == pytest.approx(rank / (pooled.size + 1))
        check_claims(found, reports)

    @pytest.mark.parametrize(
        ("promise", "is_open"),
        [("mixture", False), ("each-site", False), ("each-site", True)],
    )
    def test_other_promises(self, promise, is_open):
        rng = np.random.default_rng(2)
        scores = {"A": rng.random(60) / 2, "B": rng.random(80)}
        sizes = {site: own.size for site, own in scores.items()}
        plan = fc.plan(n_points=None if is_open else sizes, promise=promise, curve=BINS)
        reports = [
            fc.report(plan, own, site=site, policy=PLAIN)
            for site, own in scores.items()
        ]
        found = fc.calibrate(plan, reports)
        covered = {
            site: np.sum(own <= found.threshold) / (own.size + 1)
            for site, own in scores.items()
        }
        if promise == "each-site":
            assert min(covered.values()) >= 0.9
        else:
            assert (
                sum(float(plan.mixture[site]) * covered[site] for site in sizes) >= 0.9
            )
        check_claims(found, reports)

    @pytest.mark.parametrize(
        ("counts", "words"),
        [
            ((1,) * 99, "99 counts instead of 100"),
            ((-1, *(0,) * 99), "at least 0 and add up to at most 40"),
            ((41, *(0,) * 99), "at least 0 and add up to at most 40"),
        ],
    )
    def test_what_cannot_be_counts_is_refused(self, counts, words):
        plan = fc.plan(n_sites=3, n_points=40, curve=BINS)
        report = fc.report(plan, np.zeros(40), site="A", policy=PLAIN)
        payload = report.payload.model_copy(update={"counts": counts})
        part = report.parts[0].model_copy(update={"payload": payload})
        with pytest.raises(fc.RefusedReportsError, match=words):
            fc.calibrate(plan, [report.model_copy(update={"parts": (part,)})])


class TestPrivate:
    SITES = {site: np.random.default_rng(ord(site)).random(300) for site in "ABCDEF"}  # noqa: RUF012

    @pytest.mark.parametrize(
        "privacy", [fc.Privacy(2.0, BINS), fc.Privacy(10.0, BINS, analysis="paper")]
    )
    def test_missing_sites_are_solved_again(self, privacy):
        plan, rng = (
            fc.plan(n_sites=6, n_points=300, privacy=privacy),
            np.random.default_rng(0),
        )
        whole = fc.privacy.simulate(plan, self.SITES, rng)
        part = fc.privacy.simulate(plan, dict(list(self.SITES.items())[:4]), rng)
        assert whole.guarantee == plan.guarantee
        assert part.n_missing == 2
        for found in (whole, part):
            assert found.guarantee.mean >= 0.9
            assert found.threshold in BINS.edges[:-1] or found.threshold == math.inf
            assert "private" in found.assumptions
            check_claims(found)
        sentences = " ".join(fc.protocol.assumption_sentences(part))
        assert f"{privacy.epsilon:g}-differentially private" in sentences

    def test_scores_above_the_grid_make_the_threshold_infinite(self):
        """A fifth of all values is missing: a finite threshold covers four fifths of
        new cases at most.
        """
        bounded = fc.Privacy(5.0, fc.Bins.uniform(0, 1, 100, bounded=True))
        plan, rng = (
            fc.plan(n_sites=6, n_points=300, privacy=bounded),
            np.random.default_rng(0),
        )
        lost = {
            site: np.where(np.arange(300) % 5, own, np.nan)
            for site, own in self.SITES.items()
        }
        assert fc.privacy.simulate(plan, lost, rng).threshold == math.inf
        ones = dict.fromkeys(self.SITES, np.ones(300))
        assert fc.privacy.simulate(plan, ones, rng).threshold == 1.0

    @pytest.mark.parametrize(
        ("cells", "words"),
        [((100,), "not one of 100"), ((1, 2), "2 cells instead of 1")],
    )
    def test_a_cell_that_does_not_exist_is_refused(self, cells, words):
        plan = fc.plan(
            n_sites=6, n_points=300, privacy=fc.Privacy(10.0, BINS, analysis="paper")
        )
        part = fc.documents.ReportPart(
            n=300, payload=fc.documents.BinPayload(cells=cells)
        )
        with pytest.raises(fc.RefusedReportsError, match=words):
            fc.calibrate(plan, [fc.Report(plan=plan.digest, site="A", parts=(part,))])

    def test_nor_does_the_payload_of_another_message_count(self):
        plan = fc.plan(n_sites=6, n_points=300, privacy=fc.Privacy(2.0, BINS))
        with pytest.raises(
            fc.RefusedReportsError, match="a payload of kind 'ranks' instead of 'curve'"
        ):
            fc.calibrate(plan, [sent(plan, "A", 300, 0.5, ranks=(270,))])

    def test_one_level_that_cannot_be_reached_leaves_the_others(self, tmp_path):
        with pytest.warns(fc.InfeasibleWarning, match=r"99.99 % coverage"):
            plan = fc.plan(
                n_sites=6,
                n_points=300,
                confidence_level=[0.9, 0.9999],
                privacy=fc.Privacy(2.0, BINS),
            )
        book = fc.Ledger.create(tmp_path / "ledger")
        book.set_budget("D", 2)
        fc.report(plan, self.SITES["A"], site="A", ledger=book, dataset="D")
        found = fc.privacy.simulate(plan, self.SITES, np.random.default_rng(0))
        assert found[0.9].threshold < found[0.9999].threshold == math.inf
        check_claims(found)
