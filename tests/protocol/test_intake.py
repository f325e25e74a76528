"""Which reports count, and why the others do not."""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.documents import Refusal
from fedconformal.protocol import validate_reports
from protocol.sending import SIZES, altered, federation, sent


@pytest.fixture(scope="module")
def plan():
    return fc.plan(n_points=SIZES, confidence_level=0.9)


@pytest.fixture(scope="module")
def reports(plan):
    return federation(plan, SIZES)


class TestRefusals:
    def test_nothing_is_calibrated_and_every_reason_is_named(self, plan, reports):
        other = fc.plan(n_points=SIZES, confidence_level=0.8)
        wrong = [
            fc.report(other, np.ones(40), site="A"),
            sent(plan, "Z", 40, 1.0, ranks=reports[0].payload.levels[0].ranks),
            altered(reports[1], n=61),
            altered(reports[2], ranks=(1,)),
        ]
        with pytest.raises(fc.RefusedReportsError) as error:
            fc.calibrate(plan, [reports[3], *wrong])
        assert [
            (refusal.source, refusal.reason[:20]) for refusal in error.value.refused
        ] == [
            ("A", "answers another plan"),
            ("Z", "site must be one of "),
            ("B", "the plan expects 60 "),
            ("C", "ranks [1] instead of"),
        ]
        assert "nothing was calibrated, 4 refused" in str(error.value)

    def test_skipped_reports_count_as_missing_and_are_listed(self, plan, reports):
        forged = altered(reports[0], ranks=(1,))
        calibration = fc.calibrate(plan, [forged, *reports[1:]], on_refused="skip")
        assert calibration.missing == ("A",)
        assert calibration.refused[0].source == "A"
        assert calibration == fc.calibrate(plan, reports[1:]).model_copy(
            update={"refused": calibration.refused}
        )

    def test_a_second_copy_is_refused_and_the_first_counts(self, plan, reports):
        with pytest.raises(
            fc.RefusedReportsError, match="A: the same report a second time"
        ):
            fc.calibrate(plan, [*reports, reports[0]])
        kept = fc.calibrate(plan, [*reports, reports[0]], on_refused="skip")
        assert kept.threshold == fc.calibrate(plan, reports).threshold

    def test_two_different_reports_of_a_site_cancel_each_other(self, plan, reports):
        second = altered(reports[0], value=99.0)
        with pytest.raises(fc.RefusedReportsError, match="A: 2 different reports"):
            fc.calibrate(plan, [*reports, second])
        for order in ([second, *reports], [*reports, second]):
            assert fc.calibrate(plan, order, on_refused="skip").missing == ("A",)

    def test_unreadable_reports_are_refusals_too(self, plan, reports):
        broken = Refusal(source="A.json", reason="not a report")
        with pytest.raises(fc.RefusedReportsError, match=r"A\.json: not a report"):
            fc.calibrate(plan, reports, unreadable=[broken])
        assert fc.calibrate(
            plan, reports, unreadable=[broken], on_refused="skip"
        ).refused == (broken,)

    def test_groups_and_no_groups_are_told_apart(self, plan, reports):
        """By the digest alone already; here the digest has been changed too."""
        grouped = fc.plan(groups={"a": None})
        labelled = fc.report(grouped, range(5), site="A", groups=["a"] * 5)
        for asked, report, words in [
            (plan, labelled, "has groups, and the plan has none"),
            (grouped, reports[0], "has no groups, as the plan has"),
        ]:
            forged = report.model_copy(update={"plan": asked.digest})
            assert validate_reports(asked, [forged]).refused[0].reason == words

    def test_another_score_than_the_plan_s_is_refused_and_both_are_named(
        self, reports, plan
    ):
        fixed = fc.plan(n_points=SIZES, confidence_level=0.9, score="aps")
        right = [report.model_copy(update={"plan": fixed.digest}) for report in reports]
        named = [report.model_copy(update={"score": fixed.score}) for report in right]
        assert (
            fc.calibrate(fixed, named).thresholds
            == fc.calibrate(fixed, right).thresholds
        )
        other = right[0].model_copy(update={"score": fc.plan(score="raps").score})
        made = fc.calibrate(fixed, [other, *named[1:]], on_refused="skip")
        assert made.missing == (other.site,)
        assert (
            made.refused[0].reason
            == "has the score raps(k_reg=5, penalty=0.01, randomized=False), and the"
            " plan aps(randomized=False)"
        )

    @pytest.mark.parametrize("turn", [1, -1])
    def test_where_the_plan_fixes_no_score_that_of_more_than_half_counts(
        self, plan, reports, turn
    ):
        """Whatever the order; reports that name none count as before, and the audit
        agrees.
        """
        rules = {name: fc.plan(score=name).score for name in ("lac", "aps", "raps")}

        def calibrate(*names):
            named = [
                report.model_copy(update={"score": rules.get(name)})
                for report, name in zip(reports, names, strict=False)
            ]
            made = fc.calibrate(
                plan, [*named, *reports[len(names) :]][::turn], on_refused="skip"
            )
            everything = [*named, *reports[len(names) :]]
            assert all(finding.holds for finding in fc.audit.verify(made, everything))
            return made

        assert calibrate("lac", "lac", "lac").refused == ()
        made = calibrate("lac", "aps", "lac")
        assert [(each.source, each.reason) for each in made.refused] == [
            (
                reports[1].site,
                "has the score aps(randomized=False), and most reports lac()",
            )
        ]
        for names in (("lac", "aps"), ("lac", "aps", "raps")):
            made = calibrate(*names)
            assert {each.source for each in made.refused} == {
                report.site for report in reports[: len(names)]
            }
            words = (
                "and most reports have none of aps(randomized=False) and lac(), so none"
                " counts"
            )
            assert all(words in each.reason for each in made.refused)

    def test_the_audit_sees_a_report_of_another_score_that_counted(self, plan, reports):
        named = [
            report.model_copy(update={"score": fc.plan(score="lac").score})
            for report in reports
        ]
        named[0] = reports[0].model_copy(update={"score": fc.plan(score="aps").score})
        digests = {report.site: report.digest for report in named}
        honest = fc.calibrate(plan, reports)
        counted = [
            each.model_copy(update={"report": digests[each.site]})
            for each in honest.reports
        ]
        forged = honest.model_copy(update={"reports": tuple(counted)})
        failed = [
            finding.detail
            for finding in fc.audit.verify(forged, named)
            if not finding.holds
        ]
        assert f"not {reports[0].site}" in failed

    def test_a_million_ranks_get_a_short_answer(self, plan, reports):
        payload = reports[0].payload
        many = altered(
            reports[0],
            payload=payload.model_copy(update={"levels": payload.levels * 1000}),
        )
        (refusal,) = validate_reports(plan, [many]).refused
        assert len(refusal.reason) < 100


class TestSignatures:
    @pytest.fixture(scope="class")
    @classmethod
    def keys(cls):
        return {site: fc.SigningKey.new() for site in SIZES}

    @pytest.fixture(scope="class")
    @classmethod
    def plan(cls, keys):
        return fc.plan(
            n_points=SIZES,
            confidence_level=0.9,
            keys={site: key.public_key for site, key in keys.items()},
        )

    @pytest.fixture(scope="class")
    @classmethod
    def reports(cls, plan, keys):
        rng = np.random.default_rng(0)
        return [
            fc.report(plan, rng.random(n), site=site, key=keys[site])
            for site, n in SIZES.items()
        ]

    @pytest.mark.parametrize("site", ["A", "Z"])
    def test_a_report_that_could_not_count_is_not_made(self, plan, keys, site):
        for key in (None, keys["B"]):
            with pytest.raises(
                ValueError, match=r"the plan lists (a|no) public key|key"
            ):
                fc.report(plan, np.ones(SIZES["A"]), site=site, key=key)

    def test_signed_reports_count(self, plan, keys, reports):
        again = [fc.Report.from_json(report.to_json()) for report in reports]
        calibration = fc.calibrate(plan, again)
        assert calibration.authenticated
        assert "not-authenticated" not in calibration.assumptions
        assert (
            fc.report(plan, np.ones(40), site="A", key=keys["A"]).signature is not None
        )

    def test_others_do_not(self, plan, keys, reports):
        wrong = [
            (reports[0].model_copy(update={"signature": None}), "not signed"),
            (keys["B"].sign(reports[0]), "not that of the site's key"),
            (altered(reports[0], value=5.0), "not that of the site's key"),
        ]
        for report, words in wrong:
            with pytest.raises(fc.RefusedReportsError, match=words):
                fc.calibrate(plan, [report, *reports[1:]])
