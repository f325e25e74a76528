"""A message of one's own: from plan to prediction, through files and a round, with the
package as it is.
"""

import logging
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.cli import main
from fedconformal.documents import (
    DocumentError,
    MessageData,
    Payload,
    message_kinds,
    register_message,
    unregister_message,
)
from fedconformal.messages import MESSAGES, Choice, Message, of
from fedconformal.pages import certificate
from fedconformal.planning import PROMISES, Goal, Guarantee
from fedconformal.planning.promises import Population
from fedconformal.rounds import (
    CALIBRATE,
    ReportCollection,
    Site,
    pack_plan,
    unpack_plan,
)
from messages.sent import calibrate

SIZES = {"A": 40, "B": 60, "C": 50}


class MaximaData(MessageData):
    """Every site sends its largest score, and the server keeps their mean."""

    kind: ClassVar[str] = "maxima"


class MaximaPayload(Payload):
    kind: ClassVar[str] = "maxima"
    largest: float


class Maxima(Message):
    name: ClassVar[str] = "maxima"

    def choose(self, request):
        levels = tuple(goal.make_level(request.n_sites) for goal in request.goals)
        return Choice(MaximaData(), levels, request.sites)

    def check(self, design):
        if any(level.votes is None for level in design.levels):
            raise ValueError("maxima need sizes")

    def count_numbers(self, design, n, site):
        return 1

    def discloses(self, design, n, site):
        return f"the largest of your {n} scores"

    def prepare(self, design, scores, *, site, round_id, options):
        return lambda: MaximaPayload(largest=float(scores.max()))

    def problem(self, design, answer):
        return None if answer.payload.largest >= 0 else "a maximum below 0"

    def solve(self, design, sites, places):
        levels = tuple(goal.make_level(len(sites)) for goal in Goal.all_of(design))
        return design.model_copy(update={"sites": sites, "levels": levels})

    def combine(self, design, answers):
        mean = sum(each.payload.largest for each in answers.values()) / len(answers)
        return (mean,) * len(design.levels)

    def law(self, design, place):
        return None

    def guarantee(self, design, place):
        return Guarantee()

    def tolerates(self, design, place, n_missing):
        return n_missing < design.n_sites


class Hopeful(Population):
    """A promise that asks for the message, and rests on nothing that is known here."""

    name: ClassVar[str] = "hopeful"
    assumption: ClassVar[str] = "hope"

    def message(self, goal):
        return "maxima"

    def assumed(self):
        return "We hope."


@pytest.fixture
def plan():
    """A plan with both registered for the time of a test."""
    register_message(MaximaData, MaximaPayload)
    MESSAGES.register(Maxima)
    PROMISES.register(Hopeful)
    yield fc.plan(
        n_points=SIZES, promise="hopeful", confidence_level=[0.8, 0.9], score="absolute"
    )
    PROMISES.unregister("hopeful")
    MESSAGES.unregister("maxima")
    unregister_message("maxima")


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    return {site: rng.random(n) for site, n in SIZES.items()}


@pytest.fixture
def found(plan, scores):
    return calibrate(plan, scores, policy=None)


def test_plan(plan):
    assert plan.message == MaximaData()
    assert isinstance(of(plan.message), Maxima)
    assert (plan[0.9].law, plan[0.9].guarantee, plan[0.9].local_ranks) == (
        None,
        Guarantee(),
        None,
    )
    assert plan.feasible
    assert plan.notes == ()
    assert "promise hopeful" in repr(plan)


def test_report(plan, scores):
    prepared = fc.protocol.prepare(plan, scores["A"], site="A")
    assert (
        prepared.sentence
        == "This plan asks for the largest of your 40 scores, and for their number."
    )
    assert prepared.numbers == {None: 1}
    report = prepared.report()
    assert report.payload == MaximaPayload(largest=scores["A"].max())
    assert report.n == 40
    with pytest.raises(fc.PolicyError, match="max_numbers = 1 would allow it"):
        fc.report(plan, scores["A"], site="A", policy=fc.SitePolicy(max_numbers=0))


def test_calibrate(plan, scores, found):
    mean = np.mean([own.max() for own in scores.values()])
    assert found.thresholds == pytest.approx((mean, mean))
    assert found[0.9].law is None
    assert found[0.9].guarantee == Guarantee()
    assert found.assumptions[0] == "hope"
    assert fc.protocol.assumption_sentences(found)[0] == "We hope."
    fewer = calibrate(plan, {site: scores[site] for site in "AB"}, policy=None)
    assert (fewer.missing, fewer.thresholds[0]) == (
        ("C",),
        (scores["A"].max() + scores["B"].max()) / 2,
    )
    bad = fc.report(plan, [-1.0] * 40, site="A")
    with pytest.raises(fc.RefusedReportsError, match="a maximum below 0"):
        fc.calibrate(plan, [bad])


def test_predict(found):
    intervals = found.predict_interval([1.0, 2.0])
    assert intervals[:, 1] - intervals[:, 0] == pytest.approx(
        np.full((2, 2), 2 * found.thresholds[0])
    )


def test_files(plan, scores, found, tmp_path):
    report = fc.report(plan, scores["A"], site="A")
    for document in (plan, report, found):
        file = tmp_path / f"{document.kind}.json"
        file.write_text(document.to_json())
        assert type(document).read(file) == document
    assert '"kind": "maxima"' in plan.to_json()
    fc.messages.check_plan(fc.Plan.read(tmp_path / "plan.json"))
    unregister_message("maxima")
    with pytest.raises(DocumentError, match=r"kind must be one of .*, got 'maxima'"):
        fc.Plan.read(tmp_path / "plan.json")
    register_message(MaximaData, MaximaPayload)


def test_signed_reports(plan, scores):
    key = fc.SigningKey.new()
    signed = fc.report(plan, scores["A"], site="A", key=key)
    assert fc.documents.is_signed_by(
        fc.Report.from_json(signed.to_json()), key.public_key
    )


def test_a_round(plan, scores):
    log = logging.getLogger("toy")
    packed = pack_plan(plan)
    assert unpack_plan(packed) == plan
    collection = ReportCollection(
        plan, {name: name for name in SIZES}, engine="toy", log=log
    )
    for name, own in scores.items():
        cases = {"scores": own, "score": "absolute"}
        sent = CALIBRATE.answer(
            packed,
            lambda _, cases=cases: cases,
            lambda _, name=name: Site(name),
            log=log,
        )
        collection.receive(name, sent)
    reports = [
        fc.report(plan, own, site=site, score="absolute")
        for site, own in scores.items()
    ]
    assert collection.calibrate(timeout=1.0, on_refused="raise") == fc.calibrate(
        plan, reports
    )


def test_the_auditor_verifies_what_it_can(plan, scores, found):
    findings = verify(
        found, [fc.report(plan, own, site=site) for site, own in scores.items()]
    )
    assert {finding.holds for finding in findings} == {True, None}
    unknown = [finding for finding in findings if finding.holds is None]
    assert any("unknown message 'maxima'" in finding.detail for finding in unknown)
    assert sum("promise 'hopeful' holds" in finding.claim for finding in unknown) == 2


def test_the_certificate_says_what_was_not_verified(found):
    page = certificate(found, allow_unverified=True)
    assert "could not be verified" in page
    assert "We hope." in page
    assert "the largest of its 40 scores" in page


def test_on_a_terminal(plan, scores, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(plan.to_json())
    for site, own in scores.items():
        Path("scores.csv").write_text("score\n" + "\n".join(map(repr, own.tolist())))
        assert (
            main(
                [
                    "report",
                    "plan.json",
                    "scores.csv",
                    "--site",
                    site,
                    "-y",
                    "-o",
                    f"{site}.json",
                ]
            )
            == 0
        )
        assert f"the largest of your {SIZES[site]} scores" in capsys.readouterr().err
    assert (
        main(
            [
                "calibrate",
                "plan.json",
                "A.json",
                "B.json",
                "C.json",
                "-o",
                "calibration.json",
            ]
        )
        == 0
    )
    assert "not known" in "".join(capsys.readouterr())
    reports = ["--reports", "A.json", "--reports", "B.json", "--reports", "C.json"]
    assert main(["verify", "calibration.json", *reports]) == 1
    assert "not verified" in "".join(capsys.readouterr()).lower()
    assert main(["certificate", "calibration.json", "-o", "page.html"]) == 1
    assert (
        main(
            ["certificate", "calibration.json", "-o", "page.html", "--allow-unverified"]
        )
        == 0
    )
    assert "We hope." in Path("page.html").read_text()


def test_a_kind_is_registered_once(plan):
    class Other(Payload):
        kind: ClassVar[str] = "maxima"

    register_message(MaximaData, MaximaPayload)
    with pytest.raises(ValueError, match="message 'maxima' is already registered"):
        register_message(MaximaData, Other)
    assert message_kinds()["maxima"] == (MaximaData, MaximaPayload)


def test_nothing_is_left_behind():
    assert "maxima" not in MESSAGES
    assert "maxima" not in message_kinds()
    assert "hopeful" not in PROMISES
