"""Every claim of a calibration, one after the other."""

from collections.abc import Sequence
from dataclasses import replace

from fedconformal._text import count, quoted
from fedconformal.audit._coverage import coverage
from fedconformal.audit._finding import Finding
from fedconformal.audit._reports import of_groups, of_reports
from fedconformal.documents import Calibration, Plan, Report


def verify(calibration: Calibration, reports: Sequence[Report] | None = None) -> list[Finding]:
    """Check the coverage that a calibration promises, and whether it fits its plan and its reports.

    The law is counted anew with code that shares nothing with the one that made the plan: in whole numbers
    where the federation is small enough, else by sums of binomial probabilities and double-exponential
    integration. With the reports at hand their digests and signatures are checked, and the thresholds are
    recomputed from them.

    Parameters
    ----------
    calibration : Calibration
        Whose claim is to be recounted.
    reports : sequence of Report, optional
        What the sites sent.

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
    if calibration.plan.is_grouped:
        return _verify_groups(calibration, reports)
    findings = _verify_alone(calibration)
    if reports is not None:
        findings += of_reports(calibration, reports)
    return findings


def _verify_alone(calibration: Calibration) -> list[Finding]:
    findings = [_ranks(calibration), _missing(calibration)]
    for i in range(len(calibration.levels)):
        findings.append(coverage(calibration, i))
        findings += _planned_rank(calibration, i)
    findings.append(_monotone(calibration))
    return findings


def _verify_groups(calibration: Calibration, reports: Sequence[Report] | None) -> list[Finding]:
    findings, counted = ([], None) if reports is None else of_groups(calibration, reports)
    for label, found in calibration.by_label.items():
        if not found.is_calibrated:
            inside = [_too_few(found)]
        else:
            inside = _verify_alone(found)
            if counted is not None:
                inside += of_reports(found, counted)
        findings += [replace(each, claim=f"{quoted([label])}: {each.claim}") for each in inside]
    return findings


def _too_few(calibration: Calibration) -> Finding:
    fewest = calibration.plan.fewest_answers
    return Finding(
        "too few answers, so the whole space",
        f"{calibration.n_answers} answered, {fewest} needed",
        calibration.n_answers < fewest,
    )


def _ranks(calibration: Calibration) -> Finding:
    plan = calibration.plan
    wrong = []
    for answer in calibration.answers:
        try:
            expected = plan.ranks_for(answer.n, site=answer.site)
        except ValueError as error:
            wrong.append(str(error))
            continue
        votes = plan.part.votes_for(answer.n, site=answer.site)
        if expected != answer.ranks:
            wrong.append(f"{answer.site}: ranks {list(answer.ranks)} instead of {list(expected)}")
        elif votes != answer.votes:
            wrong.append(f"{answer.site}: votes {list(answer.votes)} instead of {list(votes)}")
    found = wrong[0] if wrong else f"{calibration.n_answers} answers"
    return Finding("every answer has the plan's ranks for its size", found, not wrong)


def _missing(calibration: Calibration) -> Finding:
    plan = calibration.plan
    found = f"{calibration.n_answers} answered, {calibration.n_missing} missing"
    return Finding("answers and missing sites make up the plan", found, _makes_up(plan, calibration))


def _makes_up(plan: Plan, calibration: Calibration) -> bool:
    names = plan.part.asked_names
    if names is not None and calibration.part.aggregated is None:
        there, missing = {answer.site for answer in calibration.answers}, set(calibration.missing)
        whole = there | missing == set(names) and not there & missing
        return whole and calibration.n_missing == len(calibration.missing)
    if plan.n_sites is not None and not plan.is_open:
        return bool(calibration.n_answers + calibration.n_missing == plan.part.n_asked)
    return bool(calibration.n_missing == max(0, (plan.n_sites or 0) - calibration.n_answers))


def _planned_rank(calibration: Calibration, i: int) -> list[Finding]:
    """When everybody answered, the server needs the votes that the plan fixed before."""
    planned, level = calibration.plan.levels[i].server_rank, calibration.levels[i]
    if planned is None or calibration.n_answers != calibration.plan.part.n_asked:
        return []
    claim = f"level {level.confidence_level!r}: the server kept the plan's rank"
    return [Finding(claim, f"{level.server_rank}, planned {planned}", level.server_rank == planned)]


def _monotone(calibration: Calibration) -> Finding:
    ordered = sorted(calibration.levels, key=lambda found: found.confidence_level)
    thresholds = [found.threshold for found in ordered]
    return Finding(
        "a higher level has no smaller threshold",
        count(len(thresholds), "level"),
        thresholds == sorted(thresholds),
    )
