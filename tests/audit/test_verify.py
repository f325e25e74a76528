"""Claims of a calibration: what is honest holds, and what was forged is found."""

import math

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.documents import Received, Refusal
from messages.test_toy import Maxima, MaximaData, MaximaPayload
from torture.honest import (
    GRID,
    HONEST,
    KEYS,
    LARGER,
    SIZES,
    answer,
    plain,
    signed,
    signed_groups,
    without,
)

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.InfeasibleWarning")

COORDINATOR = fc.SigningKey.new()
MAKE_UP = "answers and missing sites make up the plan"
ASKED = "what sites send is what the plan asks of them"
LEFT_OUT = "everything at hand that fits the plan was counted"
FORGED = "the calibration is signed with the key that it names"


def failed(findings):
    return [finding.claim for finding in findings if finding.holds is False]


def changed(document, **changes):
    return document.model_copy(update=changes)


def with_part(calibration, place=0, **changes):
    """A calibration that somebody has changed in one part, without asking whether it
    fits.
    """
    parts = list(calibration.parts)
    parts[place] = changed(parts[place], **changes)
    return changed(calibration, parts=tuple(parts))


def with_votes(calibration, votes):
    design = calibration.parts[0].design
    levels = tuple(changed(level, votes=votes(level.votes)) for level in design.levels)
    return with_part(calibration, design=changed(design, levels=levels))


@pytest.mark.parametrize("name", HONEST)
def test_what_is_honest_holds(name):
    calibration, reports = HONEST[name]()
    again = fc.Calibration.from_json(COORDINATOR.sign(calibration).to_json())
    for given in (None, reports, reports[::-1]):
        assert [
            finding for finding in verify(again, given) if finding.holds is not True
        ] == []
    assert failed(verify(calibration, signers=[COORDINATOR.public_key])) == [
        f"the calibration is signed with {COORDINATOR.public_key}"
    ]


@pytest.mark.parametrize("rank", [1, 10, 37])
def test_a_plan_for_one_rank_of_a_site_is_no_calibration(rank):
    plan = fc.plan(n_points={"A": 40, "B": 40}, confidence_level=0.9)
    (design,) = plan.designs
    ranks = changed(
        design.message.levels[0],
        ranks=((rank,), (rank,))[: len(design.kinds)],
        votes=(),
    )
    level = changed(design.levels[0], votes=1, advice=None)
    hostile = changed(
        design, message=changed(design.message, levels=(ranks,)), levels=(level,)
    )
    calibration = fc.calibrate(plan, [fc.report(plan, range(40), site="A")])
    findings = verify(changed(calibration, plan=changed(plan, designs=(hostile,))))
    (finding,) = [finding for finding in findings if finding.claim.startswith("plan, ")]
    assert finding.claim == "plan, level 0.9: mean coverage is at least the level"
    assert finding.holds is False


FINITE = [
    name
    for name in HONEST
    if name not in ("infinite", "mixture, out of reach", "curve, each site")
]


@pytest.mark.parametrize("name", FINITE)
def test_too_few_votes_are_found(name):
    calibration, _ = HONEST[name]()
    forged = with_votes(
        calibration, lambda votes: votes and max(1, votes - max(1, votes // 4))
    )
    found = any(
        "coverage" in claim or "reach" in claim for claim in failed(verify(forged))
    )
    assert found or forged == calibration  # fewer than one vote cannot be needed


class TestThresholds:
    def test_another_threshold_needs_the_reports(self):
        calibration, reports = plain(SIZES, confidence_level=[0.7, 0.9])
        forged = with_part(
            calibration, thresholds=tuple(t / 2 for t in calibration.thresholds)
        )
        assert failed(verify(forged)) == []
        assert failed(verify(forged, reports)) == [
            f"level {level}: the threshold follows from the reports"
            for level in (0.7, 0.9)
        ]
        assert failed(verify(calibration, reports[1:])) == [
            "the reports that counted are at hand"
        ]

    def test_an_infinite_threshold_of_another_level_is_kept(self):
        calibration, reports = plain(SIZES, confidence_level=[0.999, 0.9999])
        assert calibration.thresholds == (math.inf, math.inf)
        assert failed(verify(calibration, reports)) == []

    def test_they_rise_with_the_level_and_are_on_the_grid(self):
        calibration, _ = plain(SIZES, confidence_level=[0.9, 0.7], curve=GRID)
        swapped = with_part(calibration, thresholds=calibration.thresholds[::-1])
        assert failed(verify(swapped)) == ["a higher level has no smaller threshold"]
        between = with_part(calibration, thresholds=(0.99, 0.7))
        assert failed(verify(between)) == ["every threshold is an edge of the grid"]


class TestSites:
    def test_a_missing_site_that_nobody_mentions(self):
        calibration, _ = plain(SIZES, without(SIZES, "E"))
        for changes in (
            {"missing": (), "n_missing": 0},
            {"n_missing": 2},
            {"missing": ("D",)},
        ):
            assert MAKE_UP in failed(verify(with_part(calibration, **changes)))

    @pytest.mark.parametrize(
        "options", [{"n_sites": 5}, {"n_sites": 5, "n_points": 60}]
    )
    def test_more_sites_than_a_plan_has(self, options):
        plan = fc.plan(confidence_level=0.8, **options)
        five = fc.calibrate(plan, answer(plan, dict.fromkeys("ABCDE", 60)))
        names = tuple(f"sybil {i:03}" for i in range(205))
        (kind,) = five.parts[0].design.sites
        design = changed(
            five.parts[0].design, sites=(changed(kind, count=205, names=names),)
        )
        received = tuple(
            Received(site=name, report=f"sha256:{i:064x}")
            for i, name in enumerate(names)
        )
        assert failed(verify(changed(with_part(five, design=design), reports=received)))

    def test_other_ranks_than_the_plans(self):
        calibration, _ = plain(
            SIZES, without(SIZES, "A"), criterion="marginal", confidence_level=0.8
        )
        design = calibration.parts[0].design
        level = design.message.levels[0]
        ranks = tuple(
            (min(own[0] + 1, kind.n),)
            for own, kind in zip(level.ranks, design.kinds, strict=True)
        )
        message = changed(design.message, levels=(changed(level, ranks=ranks),))
        assert ASKED in failed(
            verify(with_part(calibration, design=changed(design, message=message)))
        )

    @pytest.mark.parametrize(
        "name", [name for name in HONEST if "mask" in name or "curve" in name]
    )
    @pytest.mark.parametrize("cut", [slice(0, -1), slice(1, None)])
    def test_other_edges_than_the_plans(self, name, cut):
        """Sums and counts that do not fit the edges are a finding, and no error."""
        calibration, reports = HONEST[name]()
        design = calibration.parts[0].design
        edges = design.message.edges[cut]
        changes = {"edges": edges}
        if getattr(design.message, "offsets", ()):
            offsets = design.message.offsets
            changes["offsets"] = tuple(each[cut] for each in offsets)
        message = changed(design.message, **changes)
        thresholds = tuple(
            value if value in edges else math.inf
            for value in calibration.parts[0].thresholds
        )
        forged = with_part(
            calibration, design=changed(design, message=message), thresholds=thresholds
        )
        assert ASKED in failed(verify(forged))
        assert ASKED in failed(verify(forged, reports))

    def test_a_calibration_that_could_not_be_read(self):
        calibration, _ = plain(SIZES, confidence_level=0.8)
        broken = with_part(calibration, thresholds=())
        assert failed(verify(broken)) == ["the parts of the calibration fit together"]


class TestReports:
    def test_one_that_could_not_be_read_is_not_at_hand(self):
        """It was made in memory, and its masked numbers are none."""
        calibration, reports = HONEST["masked"]()
        (part,) = reports[0].parts
        odd = changed(part.payload, values=part.payload.values[:-3])
        broken = changed(reports[0], parts=(changed(part, payload=odd),))
        received = [
            changed(each, report=broken.digest) if each.site == broken.site else each
            for each in calibration.reports
        ]
        forged = changed(calibration, reports=tuple(received))
        claims = failed(verify(forged, [broken, *reports[1:]]))
        assert "the reports that counted are at hand" in claims

    def test_a_report_that_was_refused_for_no_reason(self):
        plan = fc.plan(n_points=SIZES, confidence_level=0.8)
        reports = answer(plan, SIZES)
        without_e = fc.calibrate(plan, reports[:4])
        assert failed(verify(without_e, reports)) == [LEFT_OUT]
        lie = changed(
            without_e, refused=(Refusal(source="E", reason="cannot be read"),)
        )
        assert failed(verify(lie)) == []
        (finding,) = [each for each in verify(lie, reports) if not each.holds]
        assert (finding.claim, finding.detail) == (
            LEFT_OUT,
            "not E, refused as 'cannot be read'",
        )

    def test_refusals_that_are_right(self):
        plan = fc.plan(n_points=SIZES, confidence_level=0.8)
        reports = [
            *answer(plan, SIZES),
            answer(plan, SIZES, seed=1)[0],
        ]  # two different reports of A
        stray = fc.report(
            fc.plan(1, 20), np.arange(20.0), site="B"
        )  # B has answered another plan, too
        found = fc.calibrate(plan, [*reports, stray], on_refused="skip")
        assert found.missing == ("A",)
        assert failed(verify(found, [*reports, stray])) == []

    def test_numbers_beyond_measure(self):
        """Whatever a site sends, its payload fits or it does not."""
        calibration, reports = plain(SIZES, confidence_level=0.8, curve=GRID)
        part = reports[0].parts[0]
        for counts in ((2**62,) * 12, (-(2**62),) * 12, (0,) * 11):
            hostile = changed(part, payload=changed(part.payload, counts=counts))
            assert failed(
                verify(
                    calibration, [changed(reports[0], parts=(hostile,)), *reports[1:]]
                )
            )

    def test_a_report_of_another_site_or_plan(self):
        calibration, reports = plain(SIZES, confidence_level=0.8, score="aps")
        for changes in (
            {"site": "Z"},
            {"plan": f"sha256:{7:064x}"},
            {"score": fc.plan(score="lac").score},
        ):
            stranger = changed(reports[0], **changes)
            received = (
                changed(calibration.reports[0], report=stranger.digest),
                *calibration.reports[1:],
            )
            forged = changed(calibration, reports=received)
            assert (
                "every report is of its site, for this plan and with its score"
                in failed(verify(forged, [stranger, *reports]))
            )

    def test_a_payload_of_a_group_that_was_left_out(self):
        calibration, reports = signed_groups()
        kept = tuple(part for part in reports[0].parts if part.group != "a")
        fewer = fc.calibrate(
            calibration.plan,
            [KEYS["A"].sign(changed(reports[0], parts=kept)), reports[1]],
        )
        part = changed(fewer.parts[0], refused=(Refusal(source="A", reason="late"),))
        edited = changed(calibration, parts=(part, *calibration.parts[1:]))
        assert failed(verify(edited)) == []
        assert failed(verify(edited, reports)) == [LEFT_OUT]

    def test_exchanged_groups(self):
        plan = fc.plan(groups={"a": [30, 30], "b": [30, 30]}, confidence_level=0.8)
        reports = answer(plan, {site: {"a": 30, "b": 30} for site in "AB"})
        honest = fc.calibrate(plan, reports)
        thresholds = [part.thresholds for part in honest.parts]
        swapped = with_part(
            with_part(honest, 0, thresholds=thresholds[1]), 1, thresholds=thresholds[0]
        )
        assert failed(verify(swapped)) == []
        assert len(failed(verify(swapped, reports))) == 2


class TestSignatures:
    def test_invented_reports_are_not_signed(self):
        calibration, _ = signed()
        for changes in ({"report": f"sha256:{7:064x}"}, {"signature": None}):
            received = tuple(changed(each, **changes) for each in calibration.reports)
            assert failed(verify(changed(calibration, reports=received))) == [
                "every report is signed with its site's key"
            ]

    def test_a_signature_where_nobody_was_asked_for_one(self):
        calibration, _ = plain(SIZES)
        first, *others = calibration.reports
        signature = COORDINATOR.sign(calibration).signature
        edited = changed(
            calibration, reports=(changed(first, signature=signature), *others)
        )
        assert failed(verify(edited)) == [
            "no report is signed, as the plan lists no keys"
        ]

    def test_the_coordinators_signature(self):
        calibration, reports = plain(SIZES)
        stranger = fc.SigningKey.new().public_key
        whole = COORDINATOR.sign(
            changed(calibration, plan=COORDINATOR.sign(calibration.plan))
        )
        assert (
            failed(verify(whole, reports, signers=[stranger, COORDINATOR.public_key]))
            == []
        )
        assert failed(verify(whole, signers=[stranger])) == [
            f"the plan is signed with {stranger}",
            f"the calibration is signed with {stranger}",
        ]
        assert failed(verify(changed(whole, signer=stranger))) == [FORGED]
        with pytest.raises(ValueError, match="signers must be a public key"):
            verify(whole, signers=["nobody"])


class TestUnknown:
    """What this auditor does not know is not verified, and never an error."""

    def test_a_promise_and_a_criterion(self):
        calibration, reports = plain(SIZES, confidence_level=0.8)
        for name in ("promise", "criterion"):
            design = changed(calibration.plan.designs[0], **{name: "mine"})
            forged = changed(
                with_part(
                    calibration,
                    design=changed(calibration.parts[0].design, **{name: "mine"}),
                ),
                plan=changed(calibration.plan, designs=(design,)),
            )
            assert failed(verify(forged)) == []
            finding, *_ = [each for each in verify(forged) if each.holds is None]
            assert finding.detail == "unknown promise or criterion for 'ranks'"
            assert finding.verdict == "not verified"
            assert (
                failed(verify(forged, reports)) != []
            )  # for these answer another plan

    def test_a_message(self):
        fc.documents.register_message(MaximaData, MaximaPayload)
        try:
            calibration, reports = plain(LARGER, confidence_level=0.8)
            design = changed(calibration.parts[0].design, message=MaximaData())
            plan = changed(
                calibration.plan,
                designs=(changed(calibration.plan.designs[0], message=MaximaData()),),
            )
            findings = verify(
                changed(with_part(calibration, design=design), plan=plan), reports
            )
        finally:
            fc.documents.unregister_message(Maxima.name)
        details = {finding.detail for finding in findings if finding.holds is None}
        assert details == {"unknown message", "unknown message 'maxima'"}
