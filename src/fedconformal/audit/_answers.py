"""Sites that answered, sites that are missing, and the reports that should have counted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fedconformal._text import count, quoted
from fedconformal.audit._finding import Finding
from fedconformal.audit._messages import MessageAudit, place_of
from fedconformal.documents import (
    Calibration,
    CalibrationPart,
    Design,
    Plan,
    Report,
    ReportPart,
    SiteKind,
    is_signed_by,
    message_kinds,
)


def list_names(names: Iterable[str]) -> str:
    """Return a few names for a table."""
    listing = list(names)
    return ", ".join(listing[:5]) + (", ..." if len(listing) > 5 else "")


def count_missing(planned: Design, answered: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return the sites that were asked and did not answer: their names where the plan has them, and their number.

    Parameters
    ----------
    planned : Design
        The plan's.
    answered : sequence of str
        Names of the sites that answered.

    Returns
    -------
    missing : tuple of str
    n_missing : int
    """
    if planned.asked_names is not None:
        missing = tuple(sorted(set(planned.asked_names) - set(answered)))
        return missing, len(missing)
    return (), max(0, (planned.n_asked or 0) - len(answered))


def check_sites(planned: Design, part: CalibrationPart) -> Finding:
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
    missing, n_missing = count_missing(planned, answered)
    detail = f"{len(answered)} answered, {part.n_missing} missing"
    holds = (part.missing, part.n_missing) == (missing, n_missing)
    if not holds:
        detail += f", expected {n_missing} missing" + (f": {list_names(missing)}" if missing else "")
    if planned.is_open and planned.expected is not None and len(answered) > planned.expected:
        holds, detail = False, f"{detail}, the plan expects {count(planned.expected, 'site')}"
    return Finding("answers and missing sites make up the plan", detail, holds)


def check_design(planned: Design, part: CalibrationPart, audit: MessageAudit | None) -> Finding:
    """Check that the design of the sites that answered is the plan's, but for the votes.

    Parameters
    ----------
    planned : Design
        The plan's.
    part : CalibrationPart
        The part of the calibration that answers it.
    audit : MessageAudit or None
        Rules of the message, where they are known.

    Returns
    -------
    Finding
    """
    claim, design = "what sites send is what the plan asks of them", part.design
    sizes = {name: kind.n for kind in design.kinds for name in kind.names}
    by_kind = defaultdict(list)
    for name in sorted(sizes):
        try:
            place = place_of(planned, sizes[name], name)
        except ValueError as error:
            return Finding(claim, f"{name}: {error}", False)
        by_kind[-1 if place is None else place, sizes[name]].append(name)
    places = [None if place < 0 else place for place, _ in sorted(by_kind)]
    sites = tuple(
        SiteKind(
            count=len(by_kind[key]),
            n=key[1],
            names=tuple(by_kind[key]),
            share=None if place is None else planned.kinds[place].share,
        )
        for key, place in zip(sorted(by_kind), places, strict=True)
    )
    fields = {"sites": sites, "names": None, "expected": None, "levels": design.levels}
    if audit is not None:
        fields["message"] = audit.answered(planned, sites, places) if sites else planned.message
    else:
        fields["message"] = design.message
    expected = planned.model_copy(update=fields)
    differ = [name for name in Design.model_fields if getattr(design, name) != getattr(expected, name)]
    if differ:
        return Finding(claim, f"not the plan's: {', '.join(differ)}", False)
    if audit is None:
        return Finding(claim, f"unknown message {design.message.kind!r}", None)
    return Finding(claim, count(len(sizes), "answer"), True)


def check_refused(part: CalibrationPart) -> Finding:
    """Check that no payload for a group was both counted and refused.

    Parameters
    ----------
    part : CalibrationPart
        A part of the calibration.

    Returns
    -------
    Finding
    """
    both = {refusal.source for refusal in part.refused} & set(part.design.site_names or ())
    detail = f"both: {list_names(sorted(both))}" if both else f"{len(part.refused)} refused"
    return Finding("no payload was both counted and refused", detail, not both)


def check_received(calibration: Calibration) -> Finding:
    """Check that the reports that counted are of the sites that answered.

    Parameters
    ----------
    calibration : Calibration
        The whole.

    Returns
    -------
    Finding
    """
    received = {each.site for each in calibration.reports}
    answered = set(calibration.answered)
    partly = {refusal.source for part in calibration.parts for refusal in part.refused}
    wrong = sorted((answered | partly) ^ received if calibration.plan.is_grouped else (answered ^ received) | partly)
    detail = f"not {list_names(wrong)}" if wrong else count(len(received), "report")
    return Finding("the reports that counted are of the sites that answered", detail, not wrong)


# -- with the reports at hand ------------------------------------------------------------------------------

Fitting = Mapping[str, Report]
"""The only report of each site that fits the plan as a whole."""


def find_fitting(plan: Plan, reports: Sequence[Report], audits: Mapping[str, MessageAudit | None]) -> Fitting:
    """Return the reports that should have counted as a whole; contradictions do not count.

    Parameters
    ----------
    plan : Plan
        The plan.
    reports : sequence of Report
        The reports at hand.
    audits : mapping from str to MessageAudit
        Rules of messages by kind.

    Returns
    -------
    mapping from str to Report
        By site.
    """
    keys = {key.site: key.public_key for key in plan.keys or ()}
    by_site: dict[str, dict[tuple[str, str | None], Report]] = defaultdict(dict)
    for report in reports:
        if _fits(plan, report, audits) and (not keys or is_signed_by(report, keys.get(report.site, ""))):
            by_site[report.site][report.digest, report.signature] = report
    return {site: next(iter(found.values())) for site, found in by_site.items() if len(found) == 1}


def _fits(plan: Plan, report: Report, audits: Mapping[str, MessageAudit | None]) -> bool:
    try:
        report.check()
    except ValueError:
        return False
    if report.plan != plan.digest:
        return False
    if plan.is_grouped:
        known = plan.site_names
        return set(report.by_group) <= set(plan.groups) and (known is None or report.site in known)
    return set(report.by_group) == {None} and _fits_part(plan.designs[0], report.site, report.parts[0], audits)


def _fits_part(
    planned: Design, site: str, part: ReportPart, audits: Mapping[str, MessageAudit | None]
) -> bool:
    audit = audits[planned.message.kind]
    if audit is None or not isinstance(part.payload, message_kinds()[planned.message.kind][1]):
        return False
    try:
        return audit.problem(planned, part.n, site, part.payload) is None
    except ValueError:
        return False


def find_due(planned: Design, reports: Fitting, audits: Mapping[str, MessageAudit | None]) -> set[str]:
    """Return the sites whose payload should have counted for one design.

    Parameters
    ----------
    planned : Design
        The plan's.
    reports : mapping from str to Report
        Reports that fit the plan as a whole.
    audits : mapping from str to MessageAudit
        Rules of messages by kind.

    Returns
    -------
    set of str
    """
    parts = {
        site: report.by_group[planned.group]
        for site, report in reports.items()
        if planned.group in report.by_group
    }
    fit = {site: part for site, part in parts.items() if _fits_part(planned, site, part, audits)}
    if planned.site_names is not None or planned.n_sites is None:
        return set(fit)
    # Of sites without names that are too many of one size, nobody knows which are honest.
    sizes = {site: None if planned.is_open else part.n for site, part in fit.items()}
    room: Counter[int | None] = Counter({None: planned.n_sites} if planned.is_open else {})
    for kind in planned.kinds:
        room[kind.n] += kind.count
    came = Counter(sizes.values())
    return {site for site, size in sizes.items() if came[size] <= room[size]}


def check_left_out(
    calibration: Calibration, reports: Sequence[Report], audits: Mapping[str, MessageAudit | None]
) -> Finding:
    """Check that everything at hand that fits the plan was counted.

    Parameters
    ----------
    calibration : Calibration
        The whole.
    reports : sequence of Report
        The reports at hand.
    audits : mapping from str to MessageAudit
        Rules of messages by kind.

    Returns
    -------
    Finding
    """
    claim, plan = "everything at hand that fits the plan was counted", calibration.plan
    if None in (audits[design.message.kind] for design in plan.designs):
        return Finding(claim, "unknown message", None)
    try:
        whole = find_fitting(plan, reports, audits)
    except ImportError as error:
        return Finding(claim, str(error), None)
    left_out = [
        _describe(site, planned.group, part, calibration)
        for planned, part in zip(plan.designs, calibration.parts, strict=True)
        for site in sorted(find_due(planned, whole, audits) - set(part.design.site_names or ()))
    ]
    return Finding(claim, f"not {list_names(left_out)}" if left_out else "all of it", not left_out)


def _describe(site: str, group: str | None, part: CalibrationPart, calibration: Calibration) -> str:
    refused = part.refused if group is not None else calibration.refused
    reasons = [refusal.reason for refusal in refused if refusal.source == site]
    where = site if group is None else f"{site} in {quoted([group])}"
    return f"{where}, refused as {quoted(reasons[:1])}" if reasons else where


def find_used(
    calibration: Calibration, reports: Sequence[Report]
) -> tuple[list[Finding], dict[str, Report] | None]:
    """Find the reports that counted among those at hand.

    Parameters
    ----------
    calibration : Calibration
        The whole.
    reports : sequence of Report
        The reports at hand.

    Returns
    -------
    findings : list of Finding
        About whether they are there, of their sites, and for this plan.
    used : dict from str to Report or None
        By site; None if they are not all there.
    """
    by_digest = {report.digest: report for report in reports}
    used = {each.site: by_digest[each.report] for each in calibration.reports if each.report in by_digest}
    there, expected = len(used), len(calibration.reports)
    found = Finding("the reports that counted are at hand", f"{there} of {expected}", there == expected)
    if there < expected:
        return [found], None
    digest = calibration.plan.digest
    other = [site for site, report in used.items() if (report.site, report.plan) != (site, digest)]
    detail = f"not {list_names(other)}" if other else f"{there} of {expected}"
    return [found, Finding("every report is of its site and for this plan", detail, not other)], used
