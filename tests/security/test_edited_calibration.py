"""A calibration that somebody edited, digests and all, fails ``verify``.

Three lists say what takes more than the file: what only the reports show, and what nothing shows but the
coordinator's signature. Every other edit is found in the file alone.
"""

import copy
import json

import numpy as np
import pytest
from pydantic import ValidationError
from reading import Reader
from sending import federation

import fedconformal as fc
from fedconformal.audit import verify
from fedconformal.cli import main
from fedconformal.documents import Received, Refusal

SIZES = {"A": 14, "B": 20, "C": 9, "D": 30, "E": 20}
KEYS = {site: fc.SigningKey.new() for site in SIZES}
PUBLIC = {site: key.public_key for site, key in KEYS.items()}
COORDINATOR = fc.SigningKey.new()
FEWER = {site: n for site, n in SIZES.items() if site != "A"}

NEEDS_REPORTS = {
    "parts.*.levels.*.threshold",  # reported values are not in the calibration
    "reports.*.report",  # where nobody signs, a digest is any digest
    "parts.*.levels.*.server_rank",  # where a site is missing, other votes may keep the promise too
    "plan.",  # another plan, whose digest the reports do not carry
}
"""Edits that only the sites' reports show."""

NEEDS_REPORTS_IF_OPEN = NEEDS_REPORTS | {"parts.*.answers.*.n"}
"""The same where the plan does not say how many scores a site has: another size may have the same ranks."""

NEEDS_SIGNATURE = {
    "refused",  # a file that could not be read is not at hand, and a reason is in words
    "parts.*.refused",
    "parts.*.levels.*.advice",  # what would have been enough is no claim about the coverage
}
"""Edits that nothing shows but the coordinator's signature."""


FORGED = "the calibration is signed with the key that it names"


def text_of(calibration):
    """What people read on its certificate."""
    return Reader(fc.web.certificate(calibration)).text


def failed(findings):
    return [finding.claim for finding in findings if finding.holds is False]


def read(content):
    """A document of this content, with a digest that fits; None if it is refused."""
    try:
        return fc.Calibration.model_validate_json(json.dumps(content))
    except ValidationError:
        return None


def signed(plan, sizes, keys=KEYS):
    return [keys[report.site].sign(report) for report in federation(plan, sizes)]


# -- honest calibrations -----------------------------------------------------------------------------------


def one_missing():
    plan = fc.plan(n_points=SIZES)
    stray = fc.report(fc.plan(1, 40), np.arange(40.0), site="E")
    reports = federation(plan, SIZES)[:4]
    return fc.calibrate(plan, [*reports, stray], on_refused="skip"), reports


def with_keys():
    plan = fc.plan(n_points=SIZES, keys=PUBLIC, criterion="conditional", delta=0.3, confidence_level=0.8)
    reports = signed(plan, SIZES)[1:]
    return fc.calibrate(plan, reports), reports


def with_groups():
    sizes = {"a": {"A": 40, "B": 40, "C": 40}, "b": {"A": 40, "B": 40}, "c": {"C": 30}}
    keys = {site: KEYS[site] for site in "ABC"}
    plan = fc.plan(
        groups=sizes, confidence_level=0.8, keys={site: key.public_key for site, key in keys.items()}
    )
    rng, reports = np.random.default_rng(1), []
    for site, key in list(keys.items())[:2]:
        labels = [label for label in "ab" for _ in range(sizes[label].get(site, 0))]
        reports.append(fc.report(plan, rng.random(len(labels)), site=site, groups=labels, key=key))
    return fc.calibrate(plan, reports), reports


def summed():
    privacy = fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 30))
    plan = fc.plan(n_sites=6, n_points=300, max_missing=1, privacy=privacy)
    return fc.calibrate_histogram(plan, 5 * np.eye(30, dtype=int)[27]), None


class Free:
    """A ledger that charges nothing."""

    def answer(self, dataset, *, sample, **_):
        return sample()


def private_and_signed():
    privacy = fc.Privacy(epsilon=10.0, bins=fc.Bins.uniform(0, 1, 8, bounded=True))
    keys = {site: PUBLIC[site] for site in "ABC"}
    plan = fc.plan(n_points=dict.fromkeys("ABC", 60), privacy=privacy, keys=keys, confidence_level=0.6)
    scores = np.random.default_rng(0).random((3, 60))
    reports = [
        fc.report(plan, own, site=site, ledger=Free(), dataset="D", key=KEYS[site])
        for site, own in zip("ABC", scores, strict=True)
    ]
    return fc.calibrate(plan, reports), reports


def by_class():
    plan = fc.plan(
        groups={label: {"A": 20, "B": 20} for label in "01"},
        group_by="class",
        score="lac",
        confidence_level=0.6,
    )
    scores, labels = np.random.default_rng(0).random((2, 40)), np.repeat(["0", "1"], 20)
    reports = [fc.report(plan, own, site=site, groups=labels) for site, own in zip("AB", scores, strict=True)]
    return fc.calibrate(plan, reports), reports


def private_groups():
    privacy = fc.Privacy(epsilon=20.0, bins=fc.Bins.uniform(0, 1, 8))
    sizes = {label: {"A": 60, "B": 60} for label in "ab"}
    plan = fc.plan(groups=sizes, privacy=privacy, confidence_level=0.6)
    labels, scores = np.repeat(["a", "b"], 60), np.random.default_rng(0).random((2, 120))
    reports = [
        fc.report(plan, own, site=site, groups=labels, ledger=Free(), dataset="D")
        for site, own in zip("AB", scores, strict=True)
    ]
    return fc.calibrate(plan, reports), reports


NEW_SITES = {"promise": "new-site", "criterion": "conditional", "delta": 0.3, "confidence_level": 0.6}
TEN = dict.fromkeys("ABCDEFGHIJ", 30)
PLANNED = {
    "all_there": (
        {"n_points": SIZES, "confidence_level": [0.8, 0.9], "numbers": 2, "criterion": "marginal"},
        SIZES,
    ),
    "not_named": (
        {"n_sites": 5, "n_points": 60, "max_faulty": 1, "confidence_level": 0.8},
        dict.fromkeys("ABCD", 60),
    ),
    "of_open_plan": ({"n_sites": 7, "confidence_level": 0.8, "criterion": "marginal"}, SIZES),
    "each_site": ({"n_points": SIZES, "promise": "each-site", "confidence_level": 0.8}, FEWER),
    "endless": ({"n_points": {"A": 3, "B": 4}, "on_infeasible": "ignore"}, {"A": 3, "B": 4}),
    "of_a_mixture": ({"n_points": SIZES, "promise": "mixture", "confidence_level": 0.6}, FEWER),
    "drawn_cases": ({"n_sites": 6, "promise": "new-site", "confidence_level": 0.6, "numbers": 2}, SIZES),
    "new_sites_one_by_one": ({"n_points": TEN, **NEW_SITES}, TEN),
}
"""Options of a plan, and the sizes of the sites that answer it."""

MADE = {
    made.__name__: made
    for made in (one_missing, with_keys, with_groups, by_class, summed, private_and_signed, private_groups)
}
NAMES = (*PLANNED, *MADE)
LONG = {"all_there", "with_keys", "of_a_mixture", "summed", "private_and_signed"}
LONG |= {"by_class", "private_groups", "new_sites_one_by_one"}


def honest(name):
    if name in MADE:
        return MADE[name]()
    options, sizes = PLANNED[name]
    plan = fc.plan(**options)
    reports = federation(plan, sizes)
    return fc.calibrate(plan, reports), reports


@pytest.mark.parametrize("name", NAMES)
def test_what_nobody_edited_is_verified(name):
    calibration, reports = honest(name)
    for each in (calibration, COORDINATOR.sign(calibration)):
        again = fc.Calibration.from_json(each.to_json())
        assert all(finding.holds for finding in verify(again))
        if reports is not None:
            assert all(finding.holds for finding in verify(again, reports))
    assert failed(verify(calibration, signers=[COORDINATOR.public_key])) == [
        f"the calibration is signed with {COORDINATOR.public_key}"
    ]


# -- a sweep over all fields -------------------------------------------------------------------------------


def edits(value, path=()):
    """Every number and word changed, every entry left out or doubled: (path, the value instead)."""
    if isinstance(value, dict):
        for name, inside in value.items():
            if name not in ("format", "version"):
                yield from ((where, {**value, name: new}) for where, new in edits(inside, (*path, name)))
            yield (*path, name), {key: each for key, each in value.items() if key != name}
    elif isinstance(value, list):
        for i, inside in enumerate(value):
            yield from (
                (where, [*value[:i], new, *value[i + 1 :]]) for where, new in edits(inside, (*path, "*"))
            )
            yield path, [*value[:i], *value[i + 1 :]]
            yield path, [*value[: i + 1], copy.deepcopy(inside), *value[i + 1 :]]
        yield path, value[::-1]
    else:
        yield from ((path, new) for new in _others(value))


def _others(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value - 1, value + 1, 2 * value + 3]
    if isinstance(value, float):
        return [value / 2, value + 0.01]
    if value == "Infinity":
        return [1.0]
    return [value[:-1] + ("0" if value[-1] != "0" else "1"), value + "x"]


def matches(path, patterns):
    where = ".".join(path)
    return any(where.startswith(pattern) for pattern in patterns)


def is_as_good(edited, path):
    """Other votes that lead to the same threshold and keep the promise, by the law that made the plan."""
    level, delta = edited.plan.confidence_levels[0], edited.plan.delta
    kept = edited.law.mean() >= level if delta is None else edited.law.cdf(level) <= delta
    return matches(path, {"parts.*.levels.*.server_rank"}) and kept


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if name in LONG else ()) for name in NAMES]
)
def test_every_edit_is_noticed(name):
    calibration, reports = honest(name)
    stamped = COORDINATOR.sign(calibration)
    stamp = {"signature": stamped.signature, "signer": stamped.signer}
    needs_reports = NEEDS_REPORTS_IF_OPEN if calibration.plan.parts[0].blocks is None else NEEDS_REPORTS
    tried = 0
    for path, content in edits(calibration.content()):
        edited = read(content)
        if edited is None or edited.digest == calibration.digest:
            continue  # it is no calibration at all, or the same one
        tried += 1
        pretended = edited.model_copy(update=stamp)
        found = failed(verify(pretended))
        assert FORGED in found, path
        if matches(path, NEEDS_SIGNATURE):
            continue
        alone = [claim for claim in found if claim != FORGED]  # a signature changes no other finding
        if not matches(path, needs_reports):
            assert alone, (path, content)
        elif reports is not None:
            assert failed(verify(edited, reports)) or is_as_good(edited, path), (path, content)
    assert tried > 20


# -- edits that mean something -----------------------------------------------------------------------------


def changed(calibration, **changes):
    return calibration.model_copy(update=changes)


def with_part(calibration, **changes):
    part = calibration.parts[0].model_copy(update=changes)
    return changed(calibration, parts=(part, *calibration.parts[1:]))


def with_level(calibration, **changes):
    first, *others = calibration.parts[0].levels
    return with_part(calibration, levels=(first.model_copy(update=changes), *others))


MAKE_UP = "answers and missing sites make up the plan"
SIGNED = "every report is signed with its site's key"


class TestSignatures:
    def test_invented_reports_are_not_signed(self):
        calibration, _ = with_keys()
        assert calibration.authenticated
        invented = tuple(
            each.model_copy(update={"report": f"sha256:{7:064x}"}) for each in calibration.reports
        )
        for received in (
            invented,
            tuple(each.model_copy(update={"signature": None}) for each in calibration.reports),
        ):
            edited = changed(calibration, reports=received)
            assert not edited.authenticated
            assert failed(verify(edited)) == [SIGNED]
            with pytest.raises(fc.web.NotVerifiedError, match="signed"):
                fc.web.certificate(edited)

    def test_a_signature_where_nobody_was_asked_for_one(self):
        calibration, _ = one_missing()
        signature = COORDINATOR.sign(calibration).signature
        first, *others = calibration.reports
        edited = changed(calibration, reports=(first.model_copy(update={"signature": signature}), *others))
        assert failed(verify(edited)) == ["no report is signed, as the plan lists no keys"]

    def test_the_coordinators_signature_is_checked_wherever_it_is(self):
        calibration, reports = one_missing()
        stranger = fc.SigningKey.new()
        signed_plan = COORDINATOR.sign(calibration.plan)
        whole = COORDINATOR.sign(changed(calibration, plan=signed_plan))
        assert all(finding.holds for finding in verify(whole, reports, signers=[COORDINATOR.public_key]))
        both = [stranger.public_key, COORDINATOR.public_key]
        assert all(finding.holds for finding in verify(whole, reports, signers=both))
        assert failed(verify(whole, signers=[stranger.public_key])) == [
            f"the calibration is signed with {stranger.public_key}",
            f"the plan is signed with {stranger.public_key}",
        ]
        page = fc.web.certificate(whole)
        assert page.count(COORDINATOR.public_key) >= 2
        assert fc.web.certificate(calibration).count(">not signed</td>") == 2
        broken = changed(whole, signer=stranger.public_key)
        assert failed(verify(broken)) == [FORGED]
        of_plan = changed(calibration, plan=signed_plan.model_copy(update={"signer": stranger.public_key}))
        assert failed(verify(of_plan)) == ["the plan is signed with the key that it names"]

    def test_on_the_terminal(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        calibration, _ = one_missing()
        (tmp_path / "c.json").write_text(COORDINATOR.sign(calibration).to_json())
        assert main(["verify", "c.json", "--signer", COORDINATOR.public_key]) == 0
        assert main(["verify", "c.json", "--signer", fc.SigningKey.new().public_key]) == 1
        assert main(["verify", "c.json", "--signer", "nobody"]) == 2
        assert "signers must be a public key" in capsys.readouterr().err


class TestWhoAnswered:
    def test_a_missing_site_that_nobody_mentions(self):
        calibration, _ = one_missing()
        assert calibration.missing == ("E",)
        for changes in ({"missing": (), "n_missing": 0}, {"n_missing": 2}, {"missing": ("D",)}):
            assert MAKE_UP in failed(verify(with_part(calibration, **changes)))

    def test_more_sites_than_an_unnamed_plan_has(self):
        """205 answers to a plan for 5 sites."""
        plan = fc.plan(n_sites=5, n_points=60, confidence_level=0.8)
        five = fc.calibrate(plan, federation(plan, dict.fromkeys("ABCDE", 60)))
        names = [f"sybil {i:03}" for i in range(205)]
        answers = tuple(five.answers[0].model_copy(update={"site": name}) for name in names)
        received = tuple(Received(site=name, report=f"sha256:{i:064x}") for i, name in enumerate(names))
        edited = changed(with_part(five, answers=answers), reports=received)
        assert MAKE_UP in failed(verify(edited))


class TestRefusals:
    LEFT_OUT = "everything at hand that fits the plan was counted"

    def test_a_made_up_refusal_of_a_report_that_is_at_hand(self):
        plan = fc.plan(n_points=SIZES, confidence_level=0.8)
        reports = federation(plan, SIZES)
        without = fc.calibrate(plan, reports[:4])
        lie = changed(without, refused=(Refusal(source="E", reason="cannot be read"),))
        assert failed(verify(lie)) == []
        (finding,) = [each for each in verify(lie, reports) if not each.holds]
        assert (finding.claim, finding.found) == (self.LEFT_OUT, "not E, refused as 'cannot be read'")
        assert failed(verify(without, reports)) == [self.LEFT_OUT]

    def test_refusals_that_are_right(self):
        plan = fc.plan(n_sites=3, n_points=60, confidence_level=0.8)
        too_many = federation(plan, dict.fromkeys("ABCD", 60))
        with pytest.raises(ValueError, match="at least 1 is needed"):
            fc.calibrate(plan, too_many, on_refused="skip")
        named = fc.plan(n_points=SIZES, confidence_level=0.8)
        first = federation(named, SIZES)
        second = federation(named, SIZES, seed=1)[:1]  # another report of the same site: neither counts
        found = fc.calibrate(named, [*first, *second], on_refused="skip")
        assert found.missing == ("A",)
        assert failed(verify(found, [*first, *second])) == []

    def test_a_number_of_a_group_that_was_refused_for_no_reason(self):
        calibration, reports = with_groups()
        plan = calibration.plan
        without = reports[0].model_copy(
            update={"parts": tuple(part for part in reports[0].parts if part.label != "a")}
        )
        fewer = fc.calibrate(plan, [KEYS["A"].sign(without), reports[1]])
        part = fewer.parts[0].model_copy(update={"refused": (Refusal(source="A", reason="late"),)})
        edited = changed(calibration, parts=(part, *calibration.parts[1:]))
        assert failed(verify(edited)) == []
        assert failed(verify(edited, reports)) == [self.LEFT_OUT]


class TestGroupsWithoutAnswers:
    def test_they_are_audited_too(self):
        calibration, reports = with_groups()
        assert not calibration["c"].is_calibrated
        assert all(finding.holds for finding in verify(calibration["c"]))
        assert all(finding.holds for finding in verify(calibration["c"], reports))
        part = calibration.parts[2]
        for changes in ({"missing": (), "n_missing": 0}, {"n_missing": 5}):
            edited = changed(calibration, parts=(*calibration.parts[:2], part.model_copy(update=changes)))
            assert failed(verify(edited)) == [f"'c': {MAKE_UP}"]
            assert failed(verify(edited["c"])) == [MAKE_UP]


class TestThresholds:
    def test_reports_beside_a_sum_are_not_compared(self):
        assert [finding.holds for finding in verify(summed()[0], [])].count(None) == 1

    def test_a_private_one_is_an_edge(self):
        edited = with_level(summed()[0], threshold=0.1234)
        assert failed(verify(edited)) == ["every threshold is something that a site can release"]
