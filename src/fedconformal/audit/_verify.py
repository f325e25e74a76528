"""Verification of everything that a calibration claims."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedconformal._text import count, quoted
from fedconformal.audit._answers import (
    check_design,
    check_left_out,
    check_received,
    check_refused,
    check_sites,
    count_missing,
    find_used,
    list_names,
)
from fedconformal.audit._curves import BinAudit, CurveAudit
from fedconformal.audit._finding import Finding, NotVerifiableError, Work
from fedconformal.audit._messages import Claim, MessageAudit
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
    MessageData,
    Plan,
    Ranks,
    Report,
    check_public_key,
    is_signature,
    signed_text,
)

SIGNED_REPORTS = "every report is signed with its site's key"
"""The claim of a finding, by which it is found among others."""

_AUDITS: Mapping[type[MessageData], MessageAudit] = {
    Ranks: RanksAudit(),
    Cases: CasesAudit(),
    Curve: CurveAudit(),
    Bin: BinAudit(),
}

_ASSUMED = {
    "population": "alike",
    "each-site": "each-site-alike",
    "mixture": "known-mixture",
    "new-site": "sites-exchangeable",
}
"""Assumptions of the promises."""


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
    broken = _check_structure(calibration)
    if broken is not None:
        return [broken]
    plan, work, used, findings = calibration.plan, Work(), None, []
    audits = {design.message.kind: _AUDITS.get(type(design.message)) for design in plan.designs}
    if reports is not None:
        found, used = find_used(calibration, reports)
        findings += [*found, check_left_out(calibration, reports, audits)]
    for planned, part in zip(plan.designs, calibration.parts, strict=True):
        inside = [
            check_sites(planned, part),
            check_design(planned, part, audits[planned.message.kind]),
            *([] if planned.group is None else [check_refused(part)]),
            *_check_levels(planned, part, work),
            *_check_thresholds(part),
            *([] if used is None else _recompute(planned, part, used, work)),
        ]
        prefix = "" if planned.group is None else f"{quoted([planned.group])}: "
        findings += [replace(finding, claim=f"{prefix}{finding.claim}") for finding in inside]
    return [
        *findings,
        check_received(calibration),
        _check_assumptions(calibration),
        *_check_author("plan", plan, signers if plan.signature is not None else ()),
        *_check_author("calibration", calibration, signers),
        *_check_site_signatures(calibration),
    ]


def _check_structure(calibration: Calibration) -> Finding | None:
    """Return a finding if the calibration is not one that could be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Calibration.from_json(calibration.to_json(indent=None))
    except (ValueError, TypeError) as error:
        return Finding("the parts of the calibration fit together", str(error), False)
    return None


# -- levels ------------------------------------------------------------------------------------------------


def _check_levels(planned: Design, part: CalibrationPart, work: Work) -> list[Finding]:
    """Check votes and coverage of each level, for the sites that answered and for those planned."""
    audit, design, findings = _AUDITS.get(type(planned.message)), part.design, []
    complete = not planned.is_open and len(design.site_names or ()) == planned.n_asked
    if planned.promise == "mixture":
        total = sum(kind.count * (kind.share or 0) for kind in planned.kinds)
        findings.append(Finding("the shares of the mixture add up to 1", f"{float(total):g}", total == 1))
    for place, level in enumerate(design.levels):
        name = f"level {float(level.confidence_level):g}"
        if level.votes is None:
            detail = f"{len(design.site_names or ())} answered, {design.fewest_answers} needed"
            findings.append(Finding(f"{name}: too few answers, so the threshold is infinite", detail, True))
        elif audit is None:
            unknown = f"unknown message {design.message.kind!r}"
            findings.append(Finding(f"{name}: the coverage is as promised", unknown, None))
        else:
            claim, goal = Claim(design, place, work), planned.levels[place]
            findings.append(_check_claim(audit, claim, part.thresholds[place], name))
            findings += _check_votes(audit, claim, goal, complete=complete, name=name)
        if audit is not None and not planned.is_open and not (complete and level == planned.levels[place]):
            claim = Claim(planned, place, work)
            findings.append(_check_claim(audit, claim, None, f"plan, {name}"))
    return findings


def _check_claim(audit: MessageAudit, claim: Claim, threshold: float | None, name: str) -> Finding:
    """Recompute the coverage at one level, or check that it cannot be reached."""
    level = claim.design.levels[claim.place]
    try:
        most, finite = audit.most_votes(claim), audit.finite_votes(claim)
        if level.advice is not None:
            detail = f"{claim.votes:,} votes needed, there are {most:,}"
            return Finding(f"{name}: the level cannot be reached", detail, claim.votes == most + 1)
        if finite is not None and claim.votes > finite:
            detail = f"{claim.votes:,} votes needed, there are {finite:,}"
            infinite = threshold in (None, math.inf) and claim.votes <= most
            return Finding(f"{name}: no votes, so the threshold is infinite", detail, infinite)
        verdict = audit.check(claim)
    except NotVerifiableError as error:
        return Finding(f"{name}: {audit.describe(claim)}", str(error), None)
    return Finding(f"{name}: {audit.describe(claim)}", verdict.detail, verdict.holds)


def _check_votes(audit: MessageAudit, claim: Claim, goal: Level, *, complete: bool, name: str) -> list[Finding]:
    """Check that the votes are the plan's if all sites answered, else those that the promise fixes.

    More votes than needed make a threshold larger and no promise weaker; whether votes suffice is checked
    elsewhere. A level that could not be reached as planned may be reached by the sites that answered.
    """
    needed, finite, unreachable = (
        audit.needed_votes(claim, goal),
        audit.finite_votes(claim),
        audit.most_votes(claim) + 1,
    )
    if complete and goal.advice is None:
        allowed, what = {goal.votes or 0}, "the plan's"
    elif needed is not None:
        reached = finite is None or needed <= finite
        allowed, what = {needed if reached else unreachable}, "those that the promise needs"
        allowed |= set() if goal.advice is None else {unreachable}
    else:
        return []
    expected = " or ".join(f"{votes:,}" for votes in sorted(allowed))
    detail = f"{claim.votes:,}, expected {expected}"
    return [Finding(f"{name}: the votes are {what}", detail, claim.votes in allowed)]


def _check_thresholds(part: CalibrationPart) -> list[Finding]:
    """Check the order of the thresholds, and that they are on the grid if there is one."""
    levels = [level.confidence_level for level in part.design.levels]
    ordered = [threshold for _, threshold in sorted(zip(levels, part.thresholds, strict=True))]
    findings = [
        Finding(
            "a higher level has no smaller threshold", count(len(levels), "level"), ordered == sorted(ordered)
        )
    ]
    if isinstance(message := part.design.message, Gridded):
        edges = {message.edge(cell) for cell in range(message.n_cells)}
        other = [repr(threshold) for threshold in part.thresholds if threshold not in edges]
        detail = f"not {list_names(other)}" if other else count(len(levels), "level")
        findings.append(Finding("every threshold is an edge of the grid", detail, not other))
    return findings


def _recompute(
    planned: Design, part: CalibrationPart, used: Mapping[str, Report], work: Work
) -> list[Finding]:
    """Recompute the thresholds from the reports that counted."""
    claim, audit, design = "the reports contain what was counted", _AUDITS.get(type(planned.message)), part.design
    if audit is None:
        return [Finding(claim, f"unknown message {design.message.kind!r}", None)]
    sizes = {name: kind.n for kind in design.kinds for name in kind.names}
    sent = {site: used[site].by_group[design.group] for site in sizes if design.group in used[site].by_group}
    wrong = [site for site in sizes if site not in sent or sent[site].n != sizes[site]]
    for site in sizes.keys() - set(wrong):
        try:
            problem = audit.problem(planned, sizes[site], site, sent[site].payload)
        except ValueError as error:
            problem = str(error)
        wrong += [] if problem is None else [site]
    findings = [Finding(claim, f"not {list_names(sorted(wrong))}" if wrong else "all of it", not wrong)]
    if wrong or any(level.votes is None for level in design.levels):
        return findings
    payloads, largest = {site: each.payload for site, each in sent.items()}, -math.inf
    for place in sorted(range(len(design.levels)), key=lambda i: design.levels[i].confidence_level):
        level = design.levels[place]
        own = math.inf if level.advice is not None else audit.threshold(Claim(design, place, work), payloads)
        largest = max(largest, own)
        name = f"level {float(level.confidence_level):g}: the threshold follows from the reports"
        findings.append(Finding(name, repr(largest), largest == part.thresholds[place]))
    return findings


# -- assumptions and signatures ----------------------------------------------------------------------------


def _check_assumptions(calibration: Calibration) -> Finding:
    """Check that the assumptions are those that follow from the plan and from the missing sites."""
    given, expected = calibration.assumptions, _list_assumptions(calibration)
    details = [
        *([f"not {list_names(extra)}"] if (extra := [code for code in given if code not in expected]) else []),
        *([f"without {list_names(lost)}"] if (lost := [code for code in expected if code not in given]) else []),
    ]
    known = all(design.promise in _ASSUMED for design in calibration.plan.designs)
    holds = given == expected if known else None
    detail = "; ".join(details) or (count(len(given), "assumption") if given == expected else "in another order")
    return Finding("the assumptions are those that the plan and the answers imply", detail, holds)


def _list_assumptions(calibration: Calibration) -> tuple[str, ...]:
    """Return the codes that apply; a promise that is unknown has a code that is unknown too."""
    plan = calibration.plan
    grouped_by = plan.group_by or ("label",) * plan.is_grouped
    pairs = zip(plan.designs, calibration.parts, strict=True)
    missing = any(count_missing(planned, part.design.site_names or ())[1] for planned, part in pairs)
    private = any(getattr(design.message, "epsilon", None) is not None for design in plan.designs)
    faulty = any(design.max_faulty for design in plan.designs)
    others = {
        "labels-first": "label" in grouped_by,
        "true-classes": "class" in grouped_by,
        "own-site": "site" in grouped_by,
        "ties": True,
        "silence": missing or plan.is_grouped,
        "faulty": faulty,
        "as-planned": not faulty,
        "private": private,
        "signed-whole": plan.is_grouped and plan.keys is not None,
        "not-authenticated": plan.keys is None,
        "several-levels": len(plan.designs[0].levels) > 1,
    }
    first = dict.fromkeys(_ASSUMED.get(design.promise, design.promise) for design in plan.designs)
    return (*first, *(code for code, applies in others.items() if applies))


def _check_author(name: str, document: Plan | Calibration, signers: Sequence[str]) -> list[Finding]:
    """Check the signature that a document carries, and that it is one of certain keys."""
    findings = []
    if document.signature is not None or document.signer is not None:
        claim = f"the {name} is signed with the key that it names"
        try:
            findings.append(Finding(claim, document.signer or "no key", document.is_signed))
        except ImportError as error:
            findings.append(Finding(claim, str(error), None))
    if signers:
        wanted = signers[0] if len(signers) == 1 else f"one of {len(signers)} keys"
        claim, detail = f"the {name} is signed with {wanted}", document.signer or "no signature"
        findings.append(Finding(claim, detail, document.signer in signers))
    return findings


def _check_site_signatures(calibration: Calibration) -> list[Finding]:
    """Check the signatures of the reports that counted, which are of the digests of plan and report."""
    keys = {key.site: key.public_key for key in calibration.plan.keys or ()}
    if not keys:
        signed = [each.site for each in calibration.reports if each.signature is not None]
        claim = "no report is signed, as the plan lists no keys"
        return [Finding(claim, f"not {list_names(signed)}", False)] if signed else []
    digest, reports = calibration.plan.digest, calibration.reports
    try:
        unsigned = [
            each.site
            for each in reports
            if each.site not in keys
            or not is_signature(each.signature, signed_text(digest, each.report), keys[each.site])
        ]
    except ImportError as error:
        return [Finding(SIGNED_REPORTS, str(error), None)]
    detail = f"{len(reports) - len(unsigned)} of {len(reports)}"
    detail += f", not {list_names(unsigned)}" if unsigned else ""
    return [Finding(SIGNED_REPORTS, detail, bool(reports) and not unsigned)]
