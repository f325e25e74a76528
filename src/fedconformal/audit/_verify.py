"""Every claim of a calibration, one after the other."""

import math
from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError

from fedconformal._text import count, quoted
from fedconformal.audit._answers import of_answers, of_received
from fedconformal.audit._assumptions import of_assumptions
from fedconformal.audit._claim import Claim
from fedconformal.audit._coverage import coverage
from fedconformal.audit._due import releases
from fedconformal.audit._effort import Effort
from fedconformal.audit._election import of_votes
from fedconformal.audit._finding import Finding
from fedconformal.audit._reports import of_left_out, of_reports, of_whole
from fedconformal.audit._signatures import of_coordinator, of_sites
from fedconformal.documents import Calibration, Report, check_public_key, first_problem


def verify(
    calibration: Calibration,
    reports: Sequence[Report] | None = None,
    *,
    signers: Sequence[str] = (),
    effort: float = 1.0,
) -> list[Finding]:
    """Check everything that a calibration says, as far as it can be recomputed.

    The law is counted anew with code that uses nothing of what made the plan: in whole numbers where the
    federation is small enough, else by sums of binomial probabilities and double-exponential
    integration. Answers, missing sites, assumptions and signatures are compared with the plan. With the
    reports at hand, the thresholds are recomputed from them, and nothing that fits may have been left out.

    Parameters
    ----------
    calibration : Calibration
        Whose claim is to be recounted. Of one group taken out of a calibration, what concerns the whole,
        such as its assumptions and signatures, is not looked at.
    reports : sequence of Report, optional
        What the sites sent.
    signers : sequence of str, optional
        Public keys, of which one must have signed the calibration.
    effort : float
        A recount that would take longer than about a second is given up, and the claim is not counted;
        this is by how much longer it may take.

    Returns
    -------
    list of Finding
        One for each claim, those that hold included.

    Examples
    --------
    >>> import fedconformal as fc
    >>> chosen = fc.plan(n_sites=3, n_points=19)
    >>> reports = [fc.report(chosen, range(19), site=name) for name in "ABC"]
    >>> all(finding.holds for finding in fc.audit.verify(fc.calibrate(chosen, reports), reports))
    True
    """
    for key in signers:
        check_public_key("signers", key)
    if calibration.label is None and (broken := _broken(calibration)) is not None:
        return [broken]
    findings = _groups(calibration, reports, Effort(effort))
    if calibration.label is not None:
        return findings
    return [
        *findings,
        of_received(calibration),
        of_assumptions(calibration),
        *of_coordinator(calibration, signers),
        *of_sites(calibration),
    ]


def _broken(calibration: Calibration) -> Finding | None:
    """What makes this no calibration at all; one that was read from a file is one."""
    content = calibration.model_dump_json(exclude_defaults=True, warnings=False)
    try:
        Calibration.model_validate_json(content)
    except ValidationError as error:
        return Finding("the parts of the calibration fit together", first_problem(error), False)
    return None


def _groups(calibration: Calibration, reports: Sequence[Report] | None, effort: Effort) -> list[Finding]:
    """What is claimed for all points, or group by group."""
    if not calibration.plan.is_grouped:
        findings, together = _alone(calibration, reports, effort), calibration.part.aggregated is not None
        return findings if reports is None or together else [*findings, of_left_out(calibration, reports)]
    findings = []
    if reports is not None:
        findings += [*of_whole(calibration, reports), of_left_out(calibration, reports)]
    for label, found in calibration.by_label.items():
        inside = _alone(found, reports, effort)
        findings += [replace(each, claim=f"{quoted([label])}: {each.claim}") for each in inside]
    return findings


def _alone(calibration: Calibration, reports: Sequence[Report] | None, effort: Effort) -> list[Finding]:
    findings = of_answers(calibration)
    if calibration.is_calibrated:
        for i in range(len(calibration.levels)):
            claim = Claim(calibration, i, effort)
            findings += [coverage(claim), *of_votes(claim)]
        findings += [_monotone(calibration), *_released(calibration)]
    else:
        findings.append(_too_few(calibration))
    return findings if reports is None else findings + of_reports(calibration, reports)


def _released(calibration: Calibration) -> list[Finding]:
    """What private sites send is an edge of the plan's bins, and so is a threshold."""
    if calibration.plan.privacy is None:
        return []
    allowed = {*releases(calibration.plan), math.inf}
    strange = [found.threshold for found in calibration.levels if found.threshold not in allowed]
    found = f"not {strange[0]!r}" if strange else count(len(calibration.levels), "level")
    return [Finding("every threshold is something that a site can release", found, not strange)]


def _too_few(calibration: Calibration) -> Finding:
    fewest, levels = calibration.plan.fewest_answers, calibration.levels
    bare = all(found.threshold == math.inf and found.advice is None for found in levels)
    return Finding(
        "too few answers, so the whole space",
        f"{calibration.n_answers} answered, {fewest} needed",
        calibration.n_answers < fewest and bare,
    )


def _monotone(calibration: Calibration) -> Finding:
    ordered = sorted(calibration.levels, key=lambda found: found.confidence_level)
    thresholds = [found.threshold for found in ordered]
    return Finding(
        "a higher level has no smaller threshold",
        count(len(thresholds), "level"),
        thresholds == sorted(thresholds),
    )
