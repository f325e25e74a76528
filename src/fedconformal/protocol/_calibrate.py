"""The server's whole job: reports in, thresholds out."""

import math
from collections.abc import Iterable
from typing import Literal

from fedconformal import _util
from fedconformal._text import count
from fedconformal.documents import (
    Calibration,
    CalibrationPart,
    Design,
    Level,
    Plan,
    Received,
    Refusal,
    Report,
    SiteKind,
)
from fedconformal.messages import of
from fedconformal.protocol._intake import Answers, Intake, RefusedReportsError, validate_reports
from fedconformal.protocol._notes import assumption_codes
from fedconformal.protocol._report import check_current


def calibrate(
    plan: Plan,
    reports: Iterable[Report],
    *,
    on_refused: Literal["raise", "skip"] = "raise",
    unreadable: Iterable[Refusal] = (),
) -> Calibration:
    """Combine reports into a threshold with its guarantee, for all cases or for each group.

    Every report is checked against the plan: its digest, the site and its signature, no second report of a
    site, the payload as planned. The votes are then solved again for the sites that answered. The order of
    the reports does not matter.

    Parameters
    ----------
    plan : Plan
        The plan that was answered.
    reports : iterable of Report
        One per site; sites that are not there count as missing.
    on_refused : {"raise", "skip"}
        Raise a RefusedReportsError that names every refused report, or skip it: the site then counts as
        missing, and the calibration lists the refusal.
    unreadable : iterable of Refusal
        Refusals from before, of reports that could not even be read.

    Returns
    -------
    Calibration
        Thresholds, who answered, and the assumptions of the guarantee.

    Raises
    ------
    RefusedReportsError
        If reports were refused and ``on_refused="raise"``.
    ValueError
        If too few sites answered for any threshold.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> rng = np.random.default_rng(0)
    >>> plan = fc.plan(n_sites=5, n_points=50, confidence_level=0.9)
    >>> reports = [fc.report(plan, rng.random(50), site=name) for name in "ABCDE"]
    >>> round(fc.calibrate(plan, reports).threshold, 2)
    0.92
    """
    _util.choice("on_refused", on_refused, ("raise", "skip"))
    check_current(plan, "calibrated")
    intake = validate_reports(plan, reports, unreadable=unreadable)
    if on_refused == "raise" and intake.all_refused:
        raise RefusedReportsError(intake.all_refused)
    _check_enough(plan, intake)
    parts = tuple(
        _part(plan.by_group[group], answers, intake.refused_in[group])
        for group, answers in intake.answers.items()
    )
    received = tuple(
        Received(
            site=report.site,
            report=report.digest,
            signature=None if plan.keys is None else report.signature,
        )
        for report in intake.reports
    )
    return Calibration(
        plan=plan,
        parts=parts,
        reports=received,
        refused=intake.refused,
        assumptions=assumption_codes(plan, max(part.n_missing for part in parts)),
    )


def _check_enough(plan: Plan, intake: Intake) -> None:
    """Refuse to calibrate on too few answers; with groups, one answer for any of them suffices."""
    needed = 1 if plan.is_grouped else plan.designs[0].fewest_answers
    if len(intake.reports) >= needed:
        return
    faulty = "" if plan.is_grouped or not plan.max_faulty else f" with max_faulty = {plan.max_faulty}"
    verb = "is" if needed == 1 else "are"
    raise ValueError(
        f"{count(len(intake.reports), 'site')} answered: at least {needed} {verb} needed{faulty}"
    )


def _part(design: Design, answers: Answers, refused: tuple[Refusal, ...]) -> CalibrationPart:
    """Return the thresholds of one design, and who answered."""
    missing = tuple(sorted(set(design.asked_names or ()) - answers.keys()))
    solved, thresholds = _solve(design, answers)
    unnamed = max(0, (design.n_asked or 0) - len(answers))
    return CalibrationPart(
        design=solved,
        thresholds=thresholds,
        missing=missing,
        n_missing=unnamed if design.site_names is None else len(missing),
        refused=refused,
    )


def _solve(design: Design, answers: Answers) -> tuple[Design, tuple[float, ...]]:
    """Solve the votes for the sites that answered, and find the thresholds."""
    sites, places = _answered_sites(design, answers)
    if len(answers) < design.fewest_answers:
        levels = tuple(Level(confidence_level=level.confidence_level) for level in design.levels)
        solved = of(design.message).solve(design, sites, places) if sites else design
        return solved.answered_by(sites, levels=levels), (math.inf,) * len(levels)
    message = of(design.message)
    solved = message.solve(design, sites, places)
    return solved, message.combine(solved, answers)


def _answered_sites(design: Design, answers: Answers) -> tuple[tuple[SiteKind, ...], tuple[int | None, ...]]:
    """Return the sites that answered, by kind in the plan's order, and the place of each kind in the plan."""
    names: dict[tuple[int, int | None], list[str]] = {}
    for site in sorted(answers):
        n = answers[site].n
        names.setdefault((n, design.find_kind(n, site=site)), []).append(site)
    order = sorted(names, key=lambda key: (-1 if key[1] is None else key[1], key[0]))
    kinds = tuple(
        SiteKind(
            count=len(names[n, place]),
            n=n,
            names=tuple(names[n, place]),
            share=None if place is None else design.kinds[place].share,
        )
        for n, place in order
    )
    return kinds, tuple(place for _, place in order)
