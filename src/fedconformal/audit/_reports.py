"""What the reports themselves say: whose they are, and which threshold follows from them."""

import math
from collections.abc import Sequence

from fedconformal._text import quoted
from fedconformal.audit._answers import named
from fedconformal.audit._due import due, fitting
from fedconformal.audit._finding import Finding
from fedconformal.documents import Calibration, Report


def of_reports(calibration: Calibration, reports: Sequence[Report]) -> list[Finding]:
    """The threshold from the reports; for the calibration of one group, from what they say of it."""
    label = calibration.label
    if calibration.part.aggregated is not None:
        return [Finding("the reports are those that were calibrated", "the answers came as a sum", None)]
    by_digest = {report.digest: report for report in reports}
    digests = {received.site: received.report for received in calibration.reports}
    used = [by_digest.get(digests.get(answer.site, "")) for answer in calibration.answers]
    there = [report for report in used if report is not None]
    complete = len(there) == len(used)
    found = [Finding("the reports are those that were calibrated", f"{len(there)} of {len(used)}", complete)]
    if not complete:
        return found
    found.append(_fitting(calibration, there, label))
    if found[-1].holds and calibration.is_calibrated:
        found += _thresholds(calibration, there, label)
    return found


def _fitting(calibration: Calibration, reports: Sequence[Report], label: str | None) -> Finding:
    differ = []
    for answer, report in zip(calibration.answers, reports, strict=True):
        part = report.by_label.get(label)
        said = None if part is None else (report.plan, report.site, part.n, part.ranks)
        if said != (calibration.plan.answered_digest, answer.site, answer.n, answer.ranks):
            differ.append(answer.site)
    found = f"not {named(differ)}" if differ else "all of them"
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


def of_whole(calibration: Calibration, reports: Sequence[Report]) -> list[Finding]:
    """Whether the reports at hand are those that counted, of their sites and for this plan."""
    by_digest = {report.digest: report for report in reports}
    there = [(received, by_digest.get(received.report)) for received in calibration.reports]
    found = [(received, report) for received, report in there if report is not None]
    digest = calibration.plan.answered_digest
    fitting_ones = [
        report for received, report in found if (report.site, report.plan) == (received.site, digest)
    ]
    return [
        Finding(
            "the reports are those that counted", f"{len(found)} of {len(there)}", len(found) == len(there)
        ),
        Finding(
            "every report is of its site and for this plan",
            f"{len(fitting_ones)} of {len(found)}",
            len(fitting_ones) == len(found),
        ),
    ]


def of_left_out(calibration: Calibration, reports: Sequence[Report]) -> Finding:
    """Whether something at hand was left out after the fact, or refused although it fits the plan."""
    claim = "everything at hand that fits the plan was counted"
    try:
        whole = fitting(calibration, reports)
    except ImportError as error:
        return Finding(claim, str(error), None)
    groups = calibration.by_label if calibration.plan.is_grouped else {calibration.label: calibration}
    left_out = [
        _place(site, label, calibration)
        for label, found in groups.items()
        for site in sorted(due(found.plan, label, whole).keys() - {answer.site for answer in found.answers})
    ]
    return Finding(claim, f"not {named(left_out)}" if left_out else "all of it", not left_out)


def _place(site: str, label: str | None, calibration: Calibration) -> str:
    """Which number was left out, and why if that is said."""
    refusals = calibration.refused if label is None else calibration.by_label[label].refused
    reasons = [refusal.reason for refusal in refusals if refusal.source == site]
    where = site if label is None else f"{site} in {quoted([label])}"
    return f"{where}, refused as {quoted(reasons[:1])}" if reasons else where
