"""What the reports themselves say: whose they are, and which threshold follows from them."""

import math
from collections.abc import Sequence

from fedconformal._text import quoted
from fedconformal.audit._finding import Finding
from fedconformal.documents import Calibration, Report, is_signed_by


def of_reports(calibration: Calibration, reports: Sequence[Report]) -> list[Finding]:
    """The threshold from the reports; for the calibration of one group, from what they say of it."""
    label = calibration.label
    by_digest = {report.digest: report for report in reports}
    digests = {received.site: received.report for received in calibration.reports}
    used = [by_digest.get(digests.get(answer.site, "")) for answer in calibration.answers]
    there = [report for report in used if report is not None]
    complete = len(there) == len(used) > 0
    found = [Finding("the reports are those that were calibrated", f"{len(there)} of {len(used)}", complete)]
    if not complete:
        return found
    found.append(_fitting(calibration, there, label))
    if found[-1].holds:
        found += _thresholds(calibration, there, label)
    return found + (_signed(calibration, there) if label is None else [])


def _fitting(calibration: Calibration, reports: Sequence[Report], label: str | None) -> Finding:
    differ = []
    for answer, report in zip(calibration.answers, reports, strict=True):
        part = report.by_label.get(label)
        said = None if part is None else (report.plan, report.site, part.n, part.ranks)
        if said != (calibration.plan.answered_digest, answer.site, answer.n, answer.ranks):
            differ.append(answer.site)
    found = f"not {', '.join(differ[:5])}" if differ else "all of them"
    return Finding("the reports say what the answers say", found, not differ)


def _thresholds(calibration: Calibration, reports: Sequence[Report], label: str | None) -> list[Finding]:
    findings, largest = [], -math.inf
    order = sorted(range(len(calibration.levels)), key=lambda i: calibration.levels[i].confidence_level)
    for i in order:
        level = calibration.levels[i]
        votes = level.server_rank or 1
        ballots = [
            pair
            for answer, report in zip(calibration.answers, reports, strict=True)
            for pair in zip(report.by_label[label].values[i], answer.votes[i], strict=True)
        ]
        largest = max(largest, _reached(ballots, votes))
        plain = all(answer.votes[i] in ((), (1,)) for answer in calibration.answers)
        where = f"is report number {votes} in order" if plain else f"is where the votes reach {votes}"
        claim = f"level {level.confidence_level!r}: the threshold {where}"
        findings.append(Finding(claim, f"{largest!r}", largest == level.threshold))
    return findings


def _reached(ballots: Sequence[tuple[float, int]], votes: int) -> float:
    """The smallest number at which the votes of all numbers up to it are enough; +inf if they never are."""
    ordered, total = sorted(ballots), 0
    for value, vote in ordered:
        total += vote
        if total >= votes:
            return value
    return math.inf


def _signed(calibration: Calibration, reports: Sequence[Report]) -> list[Finding]:
    keys = {key.site: key.public_key for key in calibration.plan.keys or ()}
    if not keys:
        return []
    signed = sum(is_signed_by(report, keys[report.site]) for report in reports if report.site in keys)
    claim = "every report is signed with its site's key"
    return [Finding(claim, f"{signed} of {len(reports)}", signed == len(reports))]


def of_groups(calibration: Calibration, reports: Sequence[Report]) -> tuple[list[Finding], list[Report]]:
    """Whether the reports are those that were calibrated, whole, from these sites, for this plan, signed."""
    by_digest = {report.digest: report for report in reports}
    there = [(received, by_digest.get(received.report)) for received in calibration.reports]
    found = [(received, report) for received, report in there if report is not None]
    plan = calibration.plan
    fitting = [
        report for received, report in found if (report.site, report.plan) == (received.site, plan.digest)
    ]
    findings = [
        Finding(
            "the reports are those that counted", f"{len(found)} of {len(there)}", len(found) == len(there)
        ),
        Finding(
            "every report is of its site and for this plan",
            f"{len(fitting)} of {len(found)}",
            len(fitting) == len(found),
        ),
        _accounted(calibration, fitting),
        *_signed(calibration, [report for _, report in found]),
    ]
    return findings, [report for _, report in found]


def _accounted(calibration: Calibration, reports: Sequence[Report]) -> Finding:
    """Whether a number was left out of its group after the fact."""
    accounted = {
        part.label: {*(answer.site for answer in part.answers), *(refusal.source for refusal in part.refused)}
        for part in calibration.parts
    }
    dropped = [
        f"{report.site} in {quoted([label])}"
        for report in reports
        for label in report.by_label
        if label is not None and report.site not in accounted.get(label, ())
    ]
    found = f"not {', '.join(dropped[:5])}" if dropped else "all of them"
    return Finding("every number in them was counted or refused", found, not dropped)
