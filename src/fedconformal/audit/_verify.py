"""Verification of everything that a calibration claims: levels, sites, reports,
signatures.
"""

import base64
import math
import struct
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fedconformal._text import count, quoted
from fedconformal.audit._base import (
    Claim,
    Finding,
    MessageAudit,
    NotVerifiableError,
    Work,
)
from fedconformal.audit._curves import BinAudit, CurveAudit
from fedconformal.audit._ranks import CasesAudit, RanksAudit
from fedconformal.documents import (
    Bin,
    Calibration,
    CalibrationPart,
    Cases,
    Curve,
    Design,
    Gridded,
    Level,
    MaskedPayload,
    MessageData,
    Plan,
    Ranks,
    Report,
    ReportPart,
    ScoreRule,
    SiteKind,
    check_public_key,
    is_signature,
    is_signed_by,
    payload_class,
    signed_text,
)

_ASSUMED = {
    "population": "alike",
    "each-site": "each-site-alike",
    "mixture": "known-mixture",
    "new-site": "sites-exchangeable",
}
"""Codes of the assumptions of the promises."""


_AUDITS: Mapping[type[MessageData], MessageAudit] = {
    Ranks: RanksAudit(),
    Cases: CasesAudit(),
    Curve: CurveAudit(),
    Bin: BinAudit(),
}
"""Rules of the messages that this auditor knows."""


def verify(
    calibration: Calibration,
    reports: Sequence[Report] | None = None,
    *,
    signers: Sequence[str] = (),
) -> list[Finding]:
    """Check everything that a calibration claims, as far as it can be recomputed.

    The coverage is recomputed by code that shares nothing with the code that made the
    plan. Answers, missing sites, assumptions and signatures are compared with the plan.
    With the reports at hand, the thresholds are recomputed from them, and nothing that
    fits the plan may have been left out.

    Parameters
    ----------
    calibration : Calibration
        The calibration.
    reports : sequence of Report, optional
        Reports of the sites.
    signers : sequence of str, optional
        Public keys, one of which must have signed the calibration.

    Returns
    -------
    list of Finding
        One for each claim, also for those that hold. A claim is not verified if its
        promise, criterion or message is unknown, or if recomputing it would take more
        than ``MOST_OPERATIONS``.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=19)
    >>> reports = [fc.report(plan, range(19), site=name) for name in "ABC"]
    >>> all(
    ...     finding.holds
    ...     for finding in fc.audit.verify(fc.calibrate(plan, reports), reports)
    ... )
    True
    """
    for key in signers:
        check_public_key("signers", key)
    try:
        with warnings.catch_warnings(action="ignore"):
            Calibration.from_json(calibration.to_json(indent=None))
    except (ValueError, TypeError) as error:
        return [Finding("the parts of the calibration fit together", str(error), False)]
    plan, work, used = calibration.plan, Work(), None
    findings: list[Finding] = []
    if reports is not None:
        findings, used = _find_used(calibration, reports)
        findings.append(_check_left_out(calibration, reports))
    for planned, part in zip(plan.designs, calibration.parts, strict=True):
        as_planned = _check_design(planned, part)
        inside = [
            _check_sites(planned, part),
            as_planned,
            *_check_levels(planned, part, work),
            *_check_thresholds(part),
        ]
        if as_planned.holds is not False:  # else numbers may not fit the message
            inside += _check_sum(part, used, work) if part.sums else ()
            inside += [] if used is None else _recompute(planned, part, used, work)
        findings += _name_group(planned, inside)
    return [
        *findings,
        *_check_received(calibration),
        _check_assumptions(calibration),
        *_check_author("plan", plan, () if plan.signature is None else signers),
        *_check_author("calibration", calibration, signers),
        *_check_signatures(calibration),
    ]


# -- levels ----------------------------------------------------------------------------


def _name_group(planned: Design, findings: Iterable[Finding]) -> list[Finding]:
    """Put the group of a design before its claims."""
    group = "" if planned.group is None else f"{quoted([planned.group])}: "
    return [replace(finding, claim=group + finding.claim) for finding in findings]


def _check_plan(
    planned: Design, places: Iterable[int], work: Work
) -> Iterator[Finding]:
    """Check the coverage at some levels as it was planned, where sizes are known."""
    if planned.promise == "mixture":
        total = sum(kind.count * (kind.share or 0) for kind in planned.kinds)
        yield Finding(
            "the shares of the mixture add up to 1", f"{float(total):g}", total == 1
        )
    for place in () if planned.is_open else places:
        yield _check_claim(Claim(planned, place, work), math.inf, "plan, ")


def _check_levels(
    planned: Design, part: CalibrationPart, work: Work
) -> Iterator[Finding]:
    """Check coverage and votes of each level, for the sites that answered and for those
    planned.
    """
    audit, design, differ = _find_audit(planned), part.design, []
    complete = not planned.is_open and design.n_sites == planned.n_asked
    for place, (level, goal) in enumerate(
        zip(design.levels, planned.levels, strict=True)
    ):
        claim = Claim(design, place, work)
        if level.votes is None:
            detail = f"{design.n_sites} answered, {design.fewest_answers} needed"
            too_few = f"{claim.name}: too few answers, so the threshold is infinite"
            yield Finding(too_few, detail, level.advice is None)
        else:
            yield _check_claim(claim, part.thresholds[place])
            yield from (
                []
                if audit is None
                else _check_votes(audit, claim, goal, complete=complete)
            )
        if audit is not None and not (complete and level == goal):
            differ.append(place)
    yield from _check_plan(planned, differ, work)


def _check_claim(claim: Claim, threshold: float, prefix: str = "") -> Finding:
    """Recompute the coverage at one level, or check that it cannot be reached."""
    audit, name = _find_audit(claim.design), f"{prefix}{claim.name}"
    if audit is None:
        unknown = f"unknown message {claim.message.kind!r}"
        return Finding(f"{name}: {claim.describe()}", unknown, None)
    most, finite = audit.most_votes(claim), audit.finite_votes(claim)
    if claim.design.levels[claim.place].advice is not None:
        detail = f"{claim.votes:,} votes needed, there are {most:,}"
        return Finding(
            f"{name}: the level cannot be reached", detail, claim.votes == most + 1
        )
    if finite is not None and claim.votes > finite:
        detail = f"{claim.votes:,} votes needed, there are {finite:,}"
        holds = threshold == math.inf and claim.votes <= most
        return Finding(
            f"{name}: too few finite numbers, so the threshold is infinite",
            detail,
            holds,
        )
    try:
        holds, detail = audit.check(claim)
    except NotVerifiableError as error:
        return Finding(f"{name}: {claim.describe()}", str(error), None)
    return Finding(f"{name}: {claim.describe()}", detail, holds)


def _check_votes(
    audit: MessageAudit, claim: Claim, goal: Level, *, complete: bool
) -> list[Finding]:
    """Check that the votes are the plan's if all sites answered, else those that the
    promise fixes.

    More votes than needed make a threshold larger and no promise weaker; whether votes
    suffice is checked elsewhere. A level that could not be reached as planned may be
    reached by the sites that answered.
    """
    needed, unreachable = audit.needed_votes(claim, goal), audit.most_votes(claim) + 1
    if complete and goal.advice is None:
        allowed, what = {goal.votes or 0}, "the plan's"
    elif needed is not None:
        finite = audit.finite_votes(claim)
        allowed, what = (
            {needed if finite is None or needed <= finite else unreachable},
            "those needed",
        )
        allowed |= set() if goal.advice is None else {unreachable}
    else:
        return []
    expected = " or ".join(f"{votes:,}" for votes in sorted(allowed))
    detail = f"{claim.votes:,}, expected {expected}"
    return [
        Finding(f"{claim.name}: the votes are {what}", detail, claim.votes in allowed)
    ]


def _check_thresholds(part: CalibrationPart) -> Iterator[Finding]:
    """Check the order of the thresholds, and that they are on the grid if there is
    one.
    """
    levels = [level.confidence_level for level in part.design.levels]
    ordered = [
        threshold for _, threshold in sorted(zip(levels, part.thresholds, strict=True))
    ]
    detail, rising = count(len(levels), "level"), ordered == sorted(ordered)
    yield Finding("a higher level has no smaller threshold", detail, rising)
    if isinstance(message := part.design.message, Gridded):
        edges = {message.edge(cell) for cell in range(message.n_cells)}
        other = [
            repr(threshold) for threshold in part.thresholds if threshold not in edges
        ]
        yield _compare_names("every threshold is an edge of the grid", other, detail)


def _recompute(
    planned: Design, part: CalibrationPart, used: Mapping[str, Report], work: Work
) -> Iterator[Finding]:
    """Recompute the thresholds from the reports that counted."""
    contained, audit, design = (
        "the reports contain what was counted",
        _find_audit(planned),
        part.design,
    )
    if audit is None:
        yield Finding(contained, f"unknown message {design.message.kind!r}", None)
        return
    sizes = {name: kind.n for kind in design.kinds for name in kind.names}
    sent = {site: used[site].by_group.get(design.group) for site in sizes}
    wrong = [
        site
        for site, own in sent.items()
        if own is None
        or own.n != sizes[site]
        or _find_problem(planned, site, own) is not None
    ]
    yield _compare_names(contained, wrong, "all of it")
    if not wrong and not planned.message.is_masked:
        payloads = {site: own.payload for site, own in sent.items() if own is not None}
        yield from _follow(
            part, work, "reports", lambda claim: audit.threshold(claim, payloads)
        )


def _check_sum(
    part: CalibrationPart, used: Mapping[str, Report] | None, work: Work
) -> Iterator[Finding]:
    """Recompute the thresholds of a masked plan from the sum over all sites, and that
    from the reports.
    """
    design, audit, claim = (
        part.design,
        _find_audit(part.design),
        "the sum is one over all sites",
    )
    if audit is None:
        yield Finding(claim, f"unknown message {design.message.kind!r}", None)
        return
    problem = audit.sum_problem(design, part.sums)
    yield Finding(claim, problem or count(len(part.sums), "number"), problem is None)
    if used is not None:
        sent = [
            used[site].by_group.get(design.group) for site in design.site_names or ()
        ]
        rows = [
            base64.b64decode(own.payload.values)
            for own in sent
            if own is not None and isinstance(own.payload, MaskedPayload)
        ]
        follows = len(rows) == len(sent) and {len(row) for row in rows} == {
            8 * len(part.sums)
        }
        if follows:
            columns = zip(
                *(struct.unpack(f"<{len(part.sums)}Q", row) for row in rows),
                strict=True,
            )
            follows = [sum(each) % 2**64 for each in columns] == [
                each % 2**64 for each in part.sums
            ]
        yield Finding(
            "the sum follows from the reports", count(len(part.sums), "number"), follows
        )
    yield from _follow(
        part, work, "sum", lambda claim: audit.threshold_of_sum(claim, part.sums)
    )


def _follow(
    part: CalibrationPart, work: Work, source: str, recompute: Callable[[Claim], float]
) -> Iterator[Finding]:
    """Compare the thresholds with those recomputed, of which a higher level has no
    smaller one.
    """
    largest = -math.inf
    for place, level in sorted(
        enumerate(part.design.levels), key=lambda pair: pair[1].confidence_level
    ):
        if level.votes is not None:
            claim = Claim(part.design, place, work)
            largest = max(
                largest, recompute(claim) if level.advice is None else math.inf
            )
            follows = f"{claim.name}: the threshold follows from the {source}"
            yield Finding(follows, repr(largest), largest == part.thresholds[place])


# -- assumptions and signatures --------------------------------------------------------


def _check_assumptions(calibration: Calibration) -> Finding:
    """Check that the assumptions are those that follow from the plan and from the
    missing sites.

    A promise that is unknown has a code that is unknown too.
    """
    plan = calibration.plan
    grouped_by = plan.group_by or ("label",) * plan.is_grouped
    pairs = zip(plan.designs, calibration.parts, strict=True)
    missing = any(
        _find_missing(planned, part.design.site_names or ())[1]
        for planned, part in pairs
    )
    faulty = any(design.max_faulty for design in plan.designs)
    messages = [design.message for design in plan.designs]
    private = any(getattr(message, "epsilon", None) is not None for message in messages)
    bearers = any(getattr(message, "bearers", ()) for message in messages)
    losses = any(
        getattr(message, name, None)
        for message in messages
        for name in ("parts", "starts")
    )
    applies = {
        **{
            _ASSUMED.get(design.promise, design.promise): True
            for design in plan.designs
        },
        "labels-first": "label" in grouped_by,
        "true-classes": "class" in grouped_by,
        "own-site": "site" in grouped_by,
        "ties": not losses,
        "silence": missing or plan.is_grouped,
        "faulty": faulty,
        "as-planned": not faulty,
        "private": private and not bearers,
        "private-sum": private and bearers,
        "masked": any(message.is_masked for message in messages),
        "signed-whole": plan.is_grouped and plan.keys is not None,
        "not-authenticated": plan.keys is None,
        "several-levels": len(plan.designs[0].levels) > 1,
    }
    expected = tuple(code for code, here in applies.items() if here)
    holds = calibration.assumptions == expected
    known = all(design.promise in _ASSUMED for design in plan.designs)
    detail = (
        count(len(expected), "assumption")
        if holds
        else f"expected {', '.join(expected)}"
    )
    claim = "the assumptions are those that the plan and the answers imply"
    return Finding(claim, detail, holds if known else None)


def _check_author(
    name: str, document: Plan | Calibration, signers: Sequence[str]
) -> Iterator[Finding]:
    """Check the signature that a document carries, and that it is one of certain
    keys.
    """
    signer = document.signer or "no key"
    if document.signature is not None or document.signer is not None:
        claim = f"the {name} is signed with the key that it names"
        try:
            yield Finding(claim, signer, document.is_signed)
        except ImportError as error:
            yield Finding(claim, str(error), None)
    if signers:
        wanted = signers[0] if len(signers) == 1 else f"one of {len(signers)} keys"
        yield Finding(f"the {name} is signed with {wanted}", signer, signer in signers)


def _check_signatures(calibration: Calibration) -> list[Finding]:
    """Check the signatures of the reports that counted, which are of the digests of
    plan and report.
    """
    keys = {key.site: key.public_key for key in calibration.plan.keys or ()}
    digest, reports = calibration.plan.digest, calibration.reports
    if not keys:
        signed = [each.site for each in reports if each.signature is not None]
        claim = "no report is signed, as the plan lists no keys"
        return [_compare_names(claim, signed, "")] if signed else []
    claim = "every report is signed with its site's key"
    try:
        unsigned = [
            each.site
            for each in reports
            if each.site not in keys
            or not is_signature(
                each.signature, signed_text(digest, each.report), keys[each.site]
            )
        ]
    except ImportError as error:
        return [Finding(claim, str(error), None)]
    return [_compare_names(claim, unsigned, f"{len(reports)} of {len(reports)}")]


# -- sites -----------------------------------------------------------------------------


def _find_audit(design: Design) -> MessageAudit | None:
    """Return the rules of a design's message; None if this auditor does not know
    them.
    """
    return _AUDITS.get(type(design.message))


def _find_place(planned: Design, n: int, site: str) -> int | None:
    """Return the place of a site's kind in a plan that asks it; None while the plan is
    open.

    Raises
    ------
    ValueError
        If the plan does not ask this site.
    """
    place = planned.find_kind(n, site=site)
    if place is not None and not planned.kinds[place].asked:
        raise ValueError("the plan does not ask this site")
    return place


def _list_names(names: Iterable[str]) -> str:
    """Return a few names for a table."""
    listing = list(names)
    return ", ".join(listing[:5]) + (", ..." if len(listing) > 5 else "")


def _compare_names(claim: str, wrong: Iterable[str], detail: str) -> Finding:
    """Return a finding that holds if no names are wrong, and lists them otherwise."""
    names = sorted(wrong)
    return Finding(claim, f"not {_list_names(names)}" if names else detail, not names)


def _find_missing(
    planned: Design, answered: Iterable[str]
) -> tuple[tuple[str, ...], int]:
    """Return the sites that were asked and did not answer: their names, if the plan has
    them, and number.
    """
    there = set(answered)
    if planned.asked_names is not None:
        missing = tuple(sorted(set(planned.asked_names) - there))
        return missing, len(missing)
    return (), max(0, (planned.n_asked or 0) - len(there))


def _check_sites(planned: Design, part: CalibrationPart) -> Finding:
    """Check that answers and missing sites make up the plan.

    Parameters
    ----------
    planned : Design
        The plan's.
    part : CalibrationPart
        The part of the calibration that answers it.

    Returns
    -------
    Finding
    """
    answered = part.design.site_names or ()
    missing, n_missing = _find_missing(planned, answered)
    detail = f"{len(answered)} answered, {part.n_missing} missing"
    holds = (part.missing, part.n_missing) == (missing, n_missing)
    if not holds:
        detail += f", expected {n_missing} missing" + (
            f": {_list_names(missing)}" if missing else ""
        )
    if (
        planned.is_open
        and planned.expected is not None
        and len(answered) > planned.expected
    ):
        holds, detail = (
            False,
            f"{detail}, the plan expects {count(planned.expected, 'site')}",
        )
    return Finding("answers and missing sites make up the plan", detail, holds)


def _check_design(planned: Design, part: CalibrationPart) -> Finding:
    """Check that the design of the sites that answered is the plan's, but for the votes
    needed.

    Parameters
    ----------
    planned : Design
        The plan's.
    part : CalibrationPart
        The part of the calibration that answers it.

    Returns
    -------
    Finding
    """
    claim, design, audit = (
        "what sites send is what the plan asks of them",
        part.design,
        _find_audit(planned),
    )
    names = defaultdict(list)
    for kind in design.kinds:
        for name in kind.names:
            try:
                place = _find_place(planned, kind.n, name)
            except ValueError as error:
                return Finding(claim, f"{name}: {error}", False)
            names[-1 if place is None else place, kind.n].append(name)
    sites, places = [], []
    for place, n in sorted(names):
        own = tuple(sorted(names[place, n]))
        share = None if place < 0 else planned.kinds[place].share
        sites.append(SiteKind(count=len(own), n=n, names=own, share=share))
        places.append(None if place < 0 else place)
    message = design.message if audit is None else planned.message
    if audit is not None and sites:
        message = audit.answered(planned, sites, places)
    expected = planned.answered_by(tuple(sites), levels=design.levels, message=message)
    differ = [
        name
        for name in Design.model_fields
        if getattr(design, name) != getattr(expected, name)
    ]
    if differ or audit is not None:
        return _compare_names(claim, differ, count(design.n_sites or 0, "answer"))
    return Finding(claim, f"unknown message {design.message.kind!r}", None)


def _check_received(calibration: Calibration) -> list[Finding]:
    """Check that the reports that counted are of the sites that answered, and no
    payload was refused too.

    Parameters
    ----------
    calibration : Calibration
        The calibration.

    Returns
    -------
    list of Finding
    """
    received, answered = (
        {each.site for each in calibration.reports},
        set(calibration.answered),
    )
    refused = [
        {refusal.source for refusal in part.refused} for part in calibration.parts
    ]
    counted = [set(part.design.site_names or ()) for part in calibration.parts]
    partly, both = (
        set[str]().union(*refused),
        set[str]().union(*map(set.intersection, refused, counted)),
    )
    wrong = (
        (answered | partly) ^ received
        if calibration.plan.is_grouped
        else (answered ^ received) | partly
    )
    claim = "the reports that counted are of the sites that answered"
    return [
        _compare_names(claim, wrong, count(len(received), "report")),
        _compare_names(
            "no payload was both counted and refused", both, f"{len(partly)} refused"
        ),
    ]


# -- with the reports at hand ----------------------------------------------------------


def _find_used(
    calibration: Calibration, reports: Sequence[Report]
) -> tuple[list[Finding], dict[str, Report] | None]:
    """Find the reports that counted among those at hand.

    Parameters
    ----------
    calibration : Calibration
        The calibration.
    reports : sequence of Report
        The reports at hand.

    Returns
    -------
    findings : list of Finding
        That they are there, of their sites, and for this plan.
    used : dict from str to Report or None
        By site; None if they are not all there.
    """
    by_digest, digest = (
        {report.digest: report for report in reports if _is_valid(report)},
        calibration.plan.digest,
    )
    used = {
        each.site: by_digest[each.report]
        for each in calibration.reports
        if each.report in by_digest
    }
    absent = [each.site for each in calibration.reports if each.site not in used]
    usual = _find_score(calibration.plan, used.values())
    other = [
        site
        for site, report in used.items()
        if (report.site, report.plan) != (site, digest)
        or report.score not in (None, usual)
    ]
    found = count(len(used), "report")
    findings = [
        _compare_names("the reports that counted are at hand", absent, found),
        _compare_names(
            "every report is of its site, for this plan and with its score",
            other,
            found,
        ),
    ]
    return findings, None if absent else used


def _check_left_out(calibration: Calibration, reports: Sequence[Report]) -> Finding:
    """Check that everything at hand that fits the plan was counted.

    Parameters
    ----------
    calibration : Calibration
        The calibration.
    reports : sequence of Report
        The reports at hand.

    Returns
    -------
    Finding
    """
    claim, plan, left_out = (
        "everything at hand that fits the plan was counted",
        calibration.plan,
        [],
    )
    if any(_find_audit(design) is None for design in plan.designs):
        return Finding(claim, "unknown message", None)
    try:
        whole = _find_fitting(plan, reports)
    except ImportError as error:
        return Finding(claim, str(error), None)
    for planned, part in zip(plan.designs, calibration.parts, strict=True):
        refused = calibration.refused if planned.group is None else part.refused
        for site in _find_due(planned, whole) - set(part.design.site_names or ()):
            where = (
                site
                if planned.group is None
                else f"{site} in {quoted([planned.group])}"
            )
            reasons = [refusal.reason for refusal in refused if refusal.source == site]
            left_out.append(
                f"{where}, refused as {quoted(reasons[:1])}" if reasons else where
            )
    return _compare_names(claim, left_out, "all of it")


def _find_fitting(plan: Plan, reports: Sequence[Report]) -> list[Report]:
    """Return the reports that fit the plan as a whole; of sites with several different
    ones, none.
    """
    keys = {key.site: key.public_key for key in plan.keys or ()}
    different = {
        (report.site, report.digest, report.signature): report
        for report in reports
        if _fits(plan, report)
        and (not keys or is_signed_by(report, keys.get(report.site, "")))
    }
    times = Counter(report.site for report in different.values())
    alone = [report for report in different.values() if times[report.site] == 1]
    usual = _find_score(plan, alone)
    return [report for report in alone if report.score in (None, usual)]


def _find_score(plan: Plan, reports: Iterable[Report]) -> ScoreRule | None:
    """Return the score that reports may name: the plan's, or that of most of those that
    name one.
    """
    if plan.score is not None:
        return plan.score
    named, usual, lead = (
        [report.score for report in reports if report.score is not None],
        None,
        0,
    )
    for score in named:  # whatever most of them name is in the lead at the end
        usual = score if lead == 0 else usual
        lead += 1 if score == usual else -1
    return usual if 2 * sum(score == usual for score in named) > len(named) else None


def _is_valid(report: Report) -> bool:
    """Return whether the parts of a report fit together, as in one that was read."""
    try:
        report.check()
    except ValueError:
        return False
    return True


def _fits(plan: Plan, report: Report) -> bool:
    """Return whether a report fits the plan as a whole."""
    if not _is_valid(report):
        return False
    if report.plan != plan.digest or (
        plan.score and report.score not in (None, plan.score)
    ):
        return False
    if not set(report.by_group) <= set(plan.by_group):
        return False
    if plan.is_grouped:
        return plan.site_names is None or report.site in plan.site_names
    return (
        bool(report.parts)
        and _find_problem(plan.designs[0], report.site, report.parts[0]) is None
    )


def _find_problem(planned: Design, site: str, part: ReportPart) -> str | None:
    """Return the reason why a site's part of a report does not fit the plan, if it does
    not.
    """
    audit = _find_audit(planned)
    if audit is None or not isinstance(part.payload, payload_class(planned.message)):
        return "another message"
    try:
        place = _find_place(planned, part.n, site)
        if isinstance(part.payload, MaskedPayload):
            length = planned.message.vector_length(len(planned.levels))
            return (
                None
                if part.payload.n_numbers == length
                else "another number of masked numbers"
            )
        return audit.problem(planned, part.n, place, part.payload)
    except ValueError as error:
        return str(error)


def _find_due(planned: Design, reports: Sequence[Report]) -> set[str]:
    """Return the sites whose payload should have counted, of reports that fit the plan
    as a whole.
    """
    sizes = {}
    for report in reports:
        part = report.by_group.get(planned.group)
        if part is not None and _find_problem(planned, report.site, part) is None:
            sizes[report.site] = None if planned.is_open else part.n
    if planned.site_names is not None or planned.n_sites is None:
        return set(sizes)
    # Of sites without names that are too many of one size, nobody knows which are
    # honest.
    room: Counter[int | None] = Counter(
        {None: planned.n_sites} if planned.is_open else {}
    )
    for kind in planned.kinds:
        room[kind.n] += kind.count
    came = Counter(sizes.values())
    return {site for site, size in sizes.items() if came[size] <= room[size]}
