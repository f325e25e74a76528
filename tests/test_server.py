import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.documents import Refusal
from support import hoeffding_limit

SIZES = {"A": 40, "B": 60, "C": 25, "D": 90, "E": 60}


def federation(plan, sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [fc.report(plan, rng.exponential(size=n), site=site) for site, n in sizes.items()]


@pytest.fixture
def plan():
    return fc.plan(n_points=SIZES, confidence_level=0.9)


@pytest.fixture
def reports(plan):
    return federation(plan, SIZES)


class TestThreshold:
    def test_is_the_kth_smallest_report(self, plan, reports):
        calibration = fc.calibrate(plan, reports)
        assert calibration.threshold == sorted(report.value for report in reports)[plan.server_rank - 1]
        assert calibration.law.mean() == plan.law.mean()
        assert (calibration.missing, calibration.n_missing, calibration.refused) == ((), 0, ())
        assert fc.Calibration.from_json(calibration.to_json()) == calibration

    def test_does_not_depend_on_the_order_of_the_reports(self, plan, reports):
        results = {fc.calibrate(plan, order).digest for order in itertools.permutations(reports)}
        assert len(results) == 1

    @pytest.mark.parametrize("criterion", ["marginal", "stable", "conditional"])
    def test_missing_sites_are_named_and_the_rank_is_solved_anew(self, criterion):
        sizes = {name: 4 * n for name, n in SIZES.items()}
        plan = fc.plan(n_points=sizes, confidence_level=0.9, criterion=criterion)
        calibration = fc.calibrate(plan, federation(plan, sizes)[1:])
        assert calibration.missing == ("A",)
        assert calibration.n_missing == 1
        assert any("does not depend on its scores" in words for words in calibration.assumptions)
        if criterion == "conditional":
            assert calibration.law.cdf(0.9) <= 0.1
        else:
            assert calibration.law.mean() >= 0.9
        assert calibration.law.n_sites == 4

    def test_missing_sites_keep_the_coverage(self):
        """2,000 runs; fails by chance with probability below 1e-7 (Hoeffding)."""
        plan = fc.plan(n_sites=8, n_points=30, confidence_level=0.8)
        rng, runs = np.random.default_rng(4), 2000
        coverage = np.empty(runs)
        for i in range(runs):
            reports = [fc.report(plan, rng.random(30), site=str(j)) for j in range(5)]
            coverage[i] = min(1.0, fc.calibrate(plan, reports).threshold)
        assert coverage.mean() > 0.8 - hoeffding_limit(runs)

    def test_an_open_plan_is_solved_when_the_reports_are_in(self):
        plan = fc.plan(confidence_level=0.9)
        reports = federation(plan, SIZES)
        calibration = fc.calibrate(plan, reports)
        closed = fc.plan(n_points=SIZES, confidence_level=0.9, local_ranks="paper")
        assert calibration.server_rank == closed.server_rank
        assert calibration.law.mean() == closed.law.mean() >= 0.9

    def test_an_open_plan_may_expect_a_number_of_sites(self):
        plan = fc.plan(n_sites=7, confidence_level=0.9)
        assert fc.calibrate(plan, federation(plan, SIZES)).n_missing == 2

    def test_too_few_answers_give_an_infinite_threshold_and_say_what_would_do(self):
        plan = fc.plan(n_sites=5, n_points=2, confidence_level=0.9)
        calibration = fc.calibrate(plan, federation(plan, {"A": 2, "B": 2}))
        assert calibration.threshold == math.inf
        assert calibration.law.mean() == 1.0
        assert calibration.levels[0].advice.n_sites == 5

    def test_infinite_reports_count_as_infinite(self):
        plan = fc.plan(n_points={"A": 5, "B": 90, "C": 80}, confidence_level=0.9, local_ranks="paper")
        reports = federation(plan, {"A": 5, "B": 90, "C": 80})
        assert reports[0].value == math.inf
        assert math.isfinite(fc.calibrate(plan, reports).threshold)

    @given(st.integers(0, 1000))
    def test_thresholds_rise_with_the_level(self, seed):
        plan = fc.plan(n_sites=6, n_points=30, confidence_level=[0.9, 0.6, 0.75])
        high, low, middle = fc.calibrate(plan, federation(plan, dict.fromkeys("ABCDEF", 30), seed)).threshold
        assert low <= middle <= high

    def test_liars_within_the_limit_cannot_lower_the_threshold_below_honest_reports(self):
        plan = fc.plan(n_sites=9, n_points=50, confidence_level=0.9, max_faulty=2)
        honest = federation(plan, dict.fromkeys("ABCDEFG", 50))
        lies = [
            fc.Report(plan=plan.digest, site=site, n=50, ranks=honest[0].ranks, values=(value,))
            for site, value in (("X", -1e300), ("Y", math.inf))
        ]
        calibration = fc.calibrate(plan, honest + lies)
        values = sorted(report.value for report in honest)
        assert values[0] <= calibration.threshold <= values[-1]
        assert calibration.law.mean() >= 0.9


class TestRefusals:
    def test_nothing_is_calibrated_and_every_reason_is_named(self, plan, reports):
        other = fc.plan(n_points=SIZES, confidence_level=0.8)
        wrong = [
            fc.report(other, np.ones(40), site="A"),
            fc.Report(plan=plan.digest, site="Z", n=40, ranks=reports[0].ranks, values=(1.0,)),
            reports[1].model_copy(update={"n": 61}),
            reports[2].model_copy(update={"ranks": (1,)}),
        ]
        with pytest.raises(fc.RefusedReportsError) as error:
            fc.calibrate(plan, [reports[3], *wrong])
        assert [(refusal.source, refusal.reason[:20]) for refusal in error.value.refused] == [
            ("A", "answers another plan"),
            ("Z", "site must be one of "),
            ("B", "the plan expects 60 "),
            ("C", "ranks [1] instead of"),
        ]
        assert "nothing was calibrated, 4 refused" in str(error.value)

    def test_skipped_reports_count_as_missing_and_are_listed(self, plan, reports):
        forged = reports[0].model_copy(update={"ranks": (1,)})
        calibration = fc.calibrate(plan, [forged, *reports[1:]], on_refused="skip")
        assert calibration.missing == ("A",)
        assert calibration.refused[0].source == "A"
        assert calibration == fc.calibrate(plan, reports[1:]).model_copy(
            update={"refused": calibration.refused}
        )

    def test_a_second_copy_is_refused_and_the_first_counts(self, plan, reports):
        with pytest.raises(fc.RefusedReportsError, match="A: the same report a second time"):
            fc.calibrate(plan, [*reports, reports[0]])
        kept = fc.calibrate(plan, [*reports, reports[0]], on_refused="skip")
        assert kept.threshold == fc.calibrate(plan, reports).threshold

    def test_two_different_reports_of_a_site_cancel_each_other(self, plan, reports):
        second = reports[0].model_copy(update={"values": (99.0,)})
        with pytest.raises(fc.RefusedReportsError, match="A: 2 different reports"):
            fc.calibrate(plan, [*reports, second])
        for order in ([second, *reports], [*reports, second]):
            assert fc.calibrate(plan, order, on_refused="skip").missing == ("A",)

    def test_without_names_no_more_sites_count_than_planned(self):
        plan = fc.plan(n_sites=3, n_points=30, confidence_level=0.8)
        reports = federation(plan, dict.fromkeys("ABCD", 30))
        with pytest.raises(fc.RefusedReportsError, match="D: the plan has 3 sites with 30 scores"):
            fc.calibrate(plan, reports[::-1])

    def test_unreadable_reports_are_refusals_too(self, plan, reports):
        broken = Refusal(source="A.json", reason="not a report")
        with pytest.raises(fc.RefusedReportsError, match=r"A\.json: not a report"):
            fc.calibrate(plan, reports, unreadable=[broken])

    def test_no_reports(self, plan):
        with pytest.raises(ValueError, match="0 sites answered: at least 1"):
            fc.calibrate(plan, [])

    def test_too_few_for_the_number_of_liars(self):
        plan = fc.plan(n_sites=9, n_points=50, confidence_level=0.9, max_faulty=2)
        with pytest.raises(ValueError, match="4 sites answered: at least 5 are needed with max_faulty = 2"):
            fc.calibrate(plan, federation(plan, dict.fromkeys("ABCD", 50)))

    def test_arguments(self, plan, reports):
        with pytest.raises(ValueError, match="on_refused must be one of"):
            fc.calibrate(plan, reports, on_refused="ignore")


class TestSignatures:
    @pytest.fixture
    def keys(self):
        return {site: fc.SigningKey.new() for site in SIZES}

    @pytest.fixture
    def plan(self, keys):
        return fc.plan(
            n_points=SIZES, confidence_level=0.9, keys={site: key.public_key for site, key in keys.items()}
        )

    def signed(self, plan, keys):
        return [keys[report.site].sign(report) for report in federation(plan, SIZES)]

    def test_signed_reports_count(self, plan, keys):
        reports = self.signed(plan, keys)
        again = [fc.Report.from_json(report.to_json()) for report in reports]
        calibration = fc.calibrate(plan, again)
        assert calibration.authenticated
        assert not any("not authenticated" in words for words in calibration.assumptions)
        assert fc.report(plan, np.ones(40), site="A", key=keys["A"]).signature is not None

    def test_others_do_not(self, plan, keys):
        reports = self.signed(plan, keys)
        wrong = [
            (reports[0].model_copy(update={"signature": None}), "not signed"),
            (keys["B"].sign(reports[0]), "not that of the site's key"),
            (reports[0].model_copy(update={"values": (5.0,)}), "not that of the site's key"),
        ]
        for report, words in wrong:
            with pytest.raises(fc.RefusedReportsError, match=words):
                fc.calibrate(plan, [report, *reports[1:]])

    def test_without_keys_the_calibration_says_so(self):
        plan = fc.plan(n_points=SIZES, confidence_level=0.9)
        calibration = fc.calibrate(plan, federation(plan, SIZES))
        assert not calibration.authenticated
        assert any("not authenticated" in words for words in calibration.assumptions)

    def test_keys_survive_as_pem_and_stay_out_of_sight(self, keys):
        key = keys["A"]
        assert fc.SigningKey.from_pem(key.to_pem()).public_key == key.public_key
        assert repr(key) == "SigningKey()"
        with pytest.raises(ValueError, match="not a private key"):
            fc.SigningKey.from_pem(b"junk")

    def test_other_kinds_of_keys_are_refused(self):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with pytest.raises(ValueError, match="not an Ed25519 key"):
            fc.SigningKey.from_pem(pem)


class TestCalibrationDocument:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"levels": ()}, "levels must be those of the plan"),
            ({"answers": ()}, "answers"),
        ],
    )
    def test_is_checked(self, plan, reports, changes, words):
        content = fc.calibrate(plan, reports).model_dump()
        with pytest.raises(ValueError, match=words):
            fc.Calibration.model_validate({**content, **changes})

    def test_inconsistent_answers(self, plan, reports):
        calibration = fc.calibrate(plan, reports)
        answer = calibration.answers[0]
        fields = {name: getattr(calibration, name) for name in type(calibration).model_fields}
        for answers, words in [
            ((answer, answer), "answered twice"),
            ((answer.model_copy(update={"ranks": (1, 2)}),), "one rank for each level"),
            ((answer,), "server_rank must lie above max_faulty"),
        ]:
            with pytest.raises(ValueError, match=words):
                fc.Calibration(**{**fields, "answers": answers})

    def test_several_thresholds(self):
        plan = fc.plan(n_sites=6, n_points=30, confidence_level=[0.6, 0.9])
        calibration = fc.calibrate(plan, federation(plan, dict.fromkeys("ABCDEF", 30)))
        assert calibration.threshold == calibration.thresholds
        assert len(calibration.law) == len(calibration.server_rank) == 2


def test_what_is_not_installed_names_the_extra(monkeypatch):
    from fedconformal import _extras

    with pytest.raises(_extras.MissingExtraError, match=r"pip install 'fedconformal\[plots\]'"):
        _extras.need("no_such_package.inside", extra="plots")
