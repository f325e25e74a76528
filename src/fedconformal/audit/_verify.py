"""Verification of everything that a calibration claims."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fedconformal._text import count, quoted
from fedconformal.audit._answers import (
    check_design,
    check_left_out,
    check_received,
    check_sites,
    compare_names,
    find_audit,
    find_missing,
    find_problem,
    find_used,
)
from fedconformal.audit._base import Claim, Finding, MessageAudit, NotVerifiableError, Work
from fedconformal.documents import (
    Calibration,
    CalibrationPart,
    Design,
    Gridded,
    Level,
    Plan,
    Report,
    check_public_key,
    is_signature,
    signed_text,
)

SIGNED_REPORTS = "every report is signed with its site's key"
"""The claim of a finding, by which it is found among others."""

_ASSUMED = {
    "population": "alike",
    "each-site": "each-site-alike",
    "mixture": "known-mixture",
    "new-site": "sites-exchangeable",
}
"""Codes of the assumptions of the promises."""


def verify(
    calibration: Calibration, reports: Sequence[Report] | None = None, *, signers: Sequence[str] = ()
) -> list[Finding]:
    """Check everything that a calibration claims, as far as it can be recomputed.

    The coverage is recomputed by code that shares nothing with the code that made the plan. Answers, missing
    sites, assumptions and signatures are compared with the plan. With the reports at hand, the thresholds are
    recomputed from them, and nothing that fits the plan may have been left out.

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
        One for each claim, also for those that hold. A claim is not verified if its promise, criterion or
        message is unknown, or if recomputing it would take more than ``MOST_OPERATIONS``.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=3, n_points=19)
    >>> reports = [fc.report(plan, range(19), site=name) for name in "ABC"]
    >>> all(finding.holds for finding in fc.audit.verify(fc.calibrate(plan, reports), reports))
    True
    """
    for key in signers:
        check_public_key("signers", key)
    if (broken := _check_structure(calibration)) is not None:
        return [broken]
    plan, work, used = calibration.plan, Work(), None
    findings: list[Finding] = []
    if reports is not None:
        findings, used = find_used(calibration, reports)
        findings.append(check_left_out(calibration, reports))
    for planned, part in zip(plan.designs, calibration.parts, strict=True):
        inside = [
            check_sites(planned, part),
            check_design(planned, part),
            *_check_levels(planned, part, work),
            *_check_thresholds(part),
            *([] if used is None else _recompute(planned, part, used, work)),
        ]
        group = "" if planned.group is None else f"{quoted([planned.group])}: "
        findings += [replace(finding, claim=group + finding.claim) for finding in inside]
    return [
        *findings,
        *check_received(calibration),
        _check_assumptions(calibration),
        *_check_author("plan", plan, () if plan.signature is None else signers),
        *_check_author("calibration", calibration, signers),
        *_check_signatures(calibration),
    ]


def _check_structure(calibration: Calibration) -> Finding | None:
    """Return a finding if the calibration could not be read from a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Calibration.from_json(calibration.to_json(indent=None))
    except (ValueError, TypeError) as error:
        return Finding("the parts of the calibration fit together", str(error), False)
    return None


# -- levels ------------------------------------------------------------------------------------------------


def _check_levels(planned: Design, part: CalibrationPart, work: Work) -> Iterator[Finding]:
    """Check coverage and votes of each level, for the sites that answered and for those planned."""
    audit, design = find_audit(planned), part.design
    complete = not planned.is_open and design.n_sites == planned.n_asked
    if planned.promise == "mixture":
        total = sum(kind.count * (kind.share or 0) for kind in planned.kinds)
        yield Finding("the shares of the mixture add up to 1", f"{float(total):g}", total == 1)
    for place, (level, goal) in enumerate(zip(design.levels, planned.levels, strict=True)):
        name = f"level {float(level.confidence_level):.12g}"
        if level.votes is None:
            detail = f"{design.n_sites} answered, {design.fewest_answers} needed"
            yield Finding(
                f"{name}: too few answers, so the threshold is infinite", detail, level.advice is None
            )
        elif audit is None:
            unknown = f"unknown message {design.message.kind!r}"
            yield Finding(f"{name}: {Claim(design, place, work).describe()}", unknown, None)
        else:
            claim = Claim(design, place, work)
            yield _check_claim(audit, claim, part.thresholds[place], name)
            yield from _check_votes(audit, claim, goal, name, complete=complete)
        if audit is not None and not planned.is_open and not (complete and level == goal):
            yield _check_claim(audit, Claim(planned, place, work), math.inf, f"plan, {name}")


def _check_claim(audit: MessageAudit, claim: Claim, threshold: float, name: str) -> Finding:
    """Recompute the coverage at one level, or check that it cannot be reached."""
    most, finite = audit.most_votes(claim), audit.finite_votes(claim)
    if claim.design.levels[claim.place].advice is not None:
        detail = f"{claim.votes:,} votes needed, there are {most:,}"
        return Finding(f"{name}: the level cannot be reached", detail, claim.votes == most + 1)
    if finite is not None and claim.votes > finite:
        detail = f"{claim.votes:,} votes needed, there are {finite:,}"
        holds = threshold == math.inf and claim.votes <= most
        return Finding(f"{name}: too few finite numbers, so the threshold is infinite", detail, holds)
    try:
        holds, detail = audit.check(claim)
    except NotVerifiableError as error:
        return Finding(f"{name}: {claim.describe()}", str(error), None)
    return Finding(f"{name}: {claim.describe()}", detail, holds)


def _check_votes(
    audit: MessageAudit, claim: Claim, goal: Level, name: str, *, complete: bool
) -> list[Finding]:
    """Check that the votes are the plan's if all sites answered, else those that the promise fixes.

    More votes than needed make a threshold larger and no promise weaker; whether votes suffice is checked
    elsewhere. A level that could not be reached as planned may be reached by the sites that answered.
    """
    needed, unreachable = audit.needed_votes(claim, goal), audit.most_votes(claim) + 1
    if complete and goal.advice is None:
        allowed, what = {goal.votes or 0}, "the plan's"
    elif needed is not None:
        finite = audit.finite_votes(claim)
        allowed, what = {needed if finite is None or needed <= finite else unreachable}, "those needed"
        allowed |= set() if goal.advice is None else {unreachable}
    else:
        return []
    expected = " or ".join(f"{votes:,}" for votes in sorted(allowed))
    detail = f"{claim.votes:,}, expected {expected}"
    return [Finding(f"{name}: the votes are {what}", detail, claim.votes in allowed)]


def _check_thresholds(part: CalibrationPart) -> Iterator[Finding]:
    """Check the order of the thresholds, and that they are on the grid if there is one."""
    levels = [level.confidence_level for level in part.design.levels]
    ordered = [threshold for _, threshold in sorted(zip(levels, part.thresholds, strict=True))]
    detail, rising = count(len(levels), "level"), ordered == sorted(ordered)
    yield Finding("a higher level has no smaller threshold", detail, rising)
    if isinstance(message := part.design.message, Gridded):
        edges = {message.edge(cell) for cell in range(message.n_cells)}
        other = [repr(threshold) for threshold in part.thresholds if threshold not in edges]
        yield compare_names("every threshold is an edge of the grid", other, detail)


def _recompute(
    planned: Design, part: CalibrationPart, used: Mapping[str, Report], work: Work
) -> Iterator[Finding]:
    """Recompute the thresholds from the reports that counted."""
    claim, audit, design = "the reports contain what was counted", find_audit(planned), part.design
    if audit is None:
        yield Finding(claim, f"unknown message {design.message.kind!r}", None)
        return
    sizes = {name: kind.n for kind in design.kinds for name in kind.names}
    sent = {site: used[site].by_group.get(design.group) for site in sizes}
    wrong = [
        site
        for site, own in sent.items()
        if own is None or own.n != sizes[site] or find_problem(planned, site, own) is not None
    ]
    yield compare_names(claim, wrong, "all of it")
    if wrong or any(level.votes is None for level in design.levels):
        return
    payloads, largest = {site: own.payload for site, own in sent.items() if own is not None}, -math.inf
    for place in sorted(range(len(design.levels)), key=lambda i: design.levels[i].confidence_level):
        level = design.levels[place]
        own_threshold = math.inf
        if level.advice is None:
            own_threshold = audit.threshold(Claim(design, place, work), payloads)
        largest = max(largest, own_threshold)
        name = f"level {float(level.confidence_level):.12g}: the threshold follows from the reports"
        yield Finding(name, repr(largest), largest == part.thresholds[place])


# -- assumptions and signatures ----------------------------------------------------------------------------


def _check_assumptions(calibration: Calibration) -> Finding:
    """Check that the assumptions are those that follow from the plan and from the missing sites.

    A promise that is unknown has a code that is unknown too.
    """
    plan = calibration.plan
    grouped_by = plan.group_by or ("label",) * plan.is_grouped
    pairs = zip(plan.designs, calibration.parts, strict=True)
    missing = any(find_missing(planned, part.design.site_names or ())[1] for planned, part in pairs)
    faulty = any(design.max_faulty for design in plan.designs)
    applies = {
        **{_ASSUMED.get(design.promise, design.promise): True for design in plan.designs},
        "labels-first": "label" in grouped_by,
        "true-classes": "class" in grouped_by,
        "own-site": "site" in grouped_by,
        "ties": True,
        "silence": missing or plan.is_grouped,
        "faulty": faulty,
        "as-planned": not faulty,
        "private": any(getattr(design.message, "epsilon", None) is not None for design in plan.designs),
        "signed-whole": plan.is_grouped and plan.keys is not None,
        "not-authenticated": plan.keys is None,
        "several-levels": len(plan.designs[0].levels) > 1,
    }
    expected = tuple(code for code, here in applies.items() if here)
    holds = calibration.assumptions == expected
    known = all(design.promise in _ASSUMED for design in plan.designs)
    detail = count(len(expected), "assumption") if holds else f"expected {', '.join(expected)}"
    claim = "the assumptions are those that the plan and the answers imply"
    return Finding(claim, detail, holds if known else None)


def _check_author(name: str, document: Plan | Calibration, signers: Sequence[str]) -> Iterator[Finding]:
    """Check the signature that a document carries, and that it is one of certain keys."""
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
    """Check the signatures of the reports that counted, which are of the digests of plan and report."""
    keys = {key.site: key.public_key for key in calibration.plan.keys or ()}
    digest, reports = calibration.plan.digest, calibration.reports
    if not keys:
        signed = [each.site for each in reports if each.signature is not None]
        return [compare_names("no report is signed, as the plan lists no keys", signed, "")] if signed else []
    try:
        unsigned = [
            each.site
            for each in reports
            if each.site not in keys
            or not is_signature(each.signature, signed_text(digest, each.report), keys[each.site])
        ]
    except ImportError as error:
        return [Finding(SIGNED_REPORTS, str(error), None)]
    return [compare_names(SIGNED_REPORTS, unsigned, f"{len(reports)} of {len(reports)}")]
