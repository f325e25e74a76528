"""Sites that answered, sites that are missing, and the reports that should have counted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fedconformal._text import count, quoted
from fedconformal.audit._base import Finding, MessageAudit, find_place
from fedconformal.audit._curves import BinAudit, CurveAudit
from fedconformal.audit._ranks import CasesAudit, RanksAudit
from fedconformal.documents import (
    Bin,
    Calibration,
    CalibrationPart,
    Cases,
    Curve,
    Design,
    MessageData,
    Plan,
    Ranks,
    Report,
    ReportPart,
    SiteKind,
    is_signed_by,
    message_kinds,
)

_AUDITS: Mapping[type[MessageData], MessageAudit] = {
    Ranks: RanksAudit(),
    Cases: CasesAudit(),
    Curve: CurveAudit(),
    Bin: BinAudit(),
}


def find_audit(design: Design) -> MessageAudit | None:
    """Return the rules of a design's message; None if this auditor does not know them."""
    return _AUDITS.get(type(design.message))


def list_names(names: Iterable[str]) -> str:
    """Return a few names for a table."""
    listing = list(names)
    return ", ".join(listing[:5]) + (", ..." if len(listing) > 5 else "")


def compare_names(claim: str, wrong: Iterable[str], detail: str) -> Finding:
    """Return a finding that holds if no names are wrong, and lists them otherwise."""
    names = sorted(wrong)
    return Finding(claim, f"not {list_names(names)}" if names else detail, not names)


def find_missing(planned: Design, answered: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """Return the sites that were asked and did not answer: their names, if the plan has them, and number."""
    there = set(answered)
    if planned.asked_names is not None:
        missing = tuple(sorted(set(planned.asked_names) - there))
        return missing, len(missing)
    return (), max(0, (planned.n_asked or 0) - len(there))


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
    missing, n_missing = find_missing(planned, answered)
    detail = f"{len(answered)} answered, {part.n_missing} missing"
    holds = (part.missing, part.n_missing) == (missing, n_missing)
    if not holds:
        detail += f", expected {n_missing} missing" + (f": {list_names(missing)}" if missing else "")
    if planned.is_open and planned.expected is not None and len(answered) > planned.expected:
        holds, detail = False, f"{detail}, the plan expects {count(planned.expected, 'site')}"
    return Finding("answers and missing sites make up the plan", detail, holds)


def check_design(planned: Design, part: CalibrationPart) -> Finding:
    """Check that the design of the sites that answered is the plan's, but for the votes needed.

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
    claim, design, audit = "what sites send is what the plan asks of them", part.design, find_audit(planned)
    names = defaultdict(list)
    for kind in design.kinds:
        for name in kind.names:
            try:
                place = find_place(planned, kind.n, name)
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
    fields = {"sites": tuple(sites), "names": None, "expected": None, "levels": design.levels}
    expected = planned.model_copy(update={**fields, "message": message})
    differ = [name for name in Design.model_fields if getattr(design, name) != getattr(expected, name)]
    if differ or audit is not None:
        return compare_names(claim, differ, count(design.n_sites or 0, "answer"))
    return Finding(claim, f"unknown message {design.message.kind!r}", None)


def check_received(calibration: Calibration) -> list[Finding]:
    """Check that the reports that counted are of the sites that answered, and no payload was refused too.

    Parameters
    ----------
    calibration : Calibration
        The calibration.

    Returns
    -------
    list of Finding
    """
    received, answered = {each.site for each in calibration.reports}, set(calibration.answered)
    partly = {refusal.source for part in calibration.parts for refusal in part.refused}
    wrong = (answered | partly) ^ received if calibration.plan.is_grouped else (answered ^ received) | partly
    both = {
        refusal.source
        for part in calibration.parts
        for refusal in part.refused
        if refusal.source in (part.design.site_names or ())
    }
    claim = "the reports that counted are of the sites that answered"
    return [
        compare_names(claim, wrong, count(len(received), "report")),
        compare_names("no payload was both counted and refused", both, f"{len(partly)} refused"),
    ]


# -- with the reports at hand ------------------------------------------------------------------------------


def find_used(
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
    by_digest, digest = {report.digest: report for report in reports}, calibration.plan.digest
    used = {each.site: by_digest[each.report] for each in calibration.reports if each.report in by_digest}
    absent = [each.site for each in calibration.reports if each.site not in used]
    other = [site for site, report in used.items() if (report.site, report.plan) != (site, digest)]
    found = count(len(used), "report")
    findings = [
        compare_names("the reports that counted are at hand", absent, found),
        compare_names("every report is of its site and for this plan", other, found),
    ]
    return findings, None if absent else used


def check_left_out(calibration: Calibration, reports: Sequence[Report]) -> Finding:
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
    claim, plan, left_out = "everything at hand that fits the plan was counted", calibration.plan, []
    if any(find_audit(design) is None for design in plan.designs):
        return Finding(claim, "unknown message", None)
    try:
        whole = _find_fitting(plan, reports)
    except ImportError as error:
        return Finding(claim, str(error), None)
    for planned, part in zip(plan.designs, calibration.parts, strict=True):
        refused = calibration.refused if planned.group is None else part.refused
        for site in _find_due(planned, whole) - set(part.design.site_names or ()):
            where = site if planned.group is None else f"{site} in {quoted([planned.group])}"
            reasons = [refusal.reason for refusal in refused if refusal.source == site]
            left_out.append(f"{where}, refused as {quoted(reasons[:1])}" if reasons else where)
    return compare_names(claim, left_out, "all of it")


def _find_fitting(plan: Plan, reports: Sequence[Report]) -> list[Report]:
    """Return the reports that fit the plan as a whole; of sites with several different ones, none."""
    keys = {key.site: key.public_key for key in plan.keys or ()}
    by_site: dict[str, dict[tuple[str, str | None], Report]] = defaultdict(dict)
    for report in reports:
        if _fits(plan, report) and (not keys or is_signed_by(report, keys.get(report.site, ""))):
            by_site[report.site][report.digest, report.signature] = report
    return [next(iter(found.values())) for found in by_site.values() if len(found) == 1]


def _fits(plan: Plan, report: Report) -> bool:
    """Return whether a report fits the plan as a whole."""
    try:
        report.check()
    except ValueError:
        return False
    if report.plan != plan.digest or not set(report.by_group) <= set(plan.by_group):
        return False
    if plan.is_grouped:
        return plan.site_names is None or report.site in plan.site_names
    return bool(report.parts) and find_problem(plan.designs[0], report.site, report.parts[0]) is None


def find_problem(planned: Design, site: str, part: ReportPart) -> str | None:
    """Return the reason why a site's part of a report does not fit the plan, if it does not."""
    audit = find_audit(planned)
    if audit is None or not isinstance(part.payload, message_kinds()[planned.message.kind][1]):
        return "another message"
    try:
        return audit.problem(planned, part.n, site, part.payload)
    except ValueError as error:
        return str(error)


def _find_due(planned: Design, reports: Sequence[Report]) -> set[str]:
    """Return the sites whose payload should have counted, of reports that fit the plan as a whole."""
    sizes = {}
    for report in reports:
        part = report.by_group.get(planned.group)
        if part is not None and find_problem(planned, report.site, part) is None:
            sizes[report.site] = None if planned.is_open else part.n
    if planned.site_names is not None or planned.n_sites is None:
        return set(sizes)
    # Of sites without names that are too many of one size, nobody knows which are honest.
    room: Counter[int | None] = Counter({None: planned.n_sites} if planned.is_open else {})
    for kind in planned.kinds:
        room[kind.n] += kind.count
    came = Counter(sizes.values())
    return {site for site, size in sizes.items() if came[size] <= room[size]}
