"""Which of the reports at hand should have counted: the server's intake, once more."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from fedconformal.audit._planned import planned_ranks
from fedconformal.documents import Calibration, Plan, Report, ReportPart, is_signed_by

Fitting = Mapping[str, Report]
"""The only report of each site that fits the plan as a whole."""


def fitting(calibration: Calibration, reports: Sequence[Report]) -> Fitting:
    """The reports that fit the plan as a whole, one of each site; contradictions do not count.

    Parameters
    ----------
    calibration : Calibration
        The whole, or that of one group.
    reports : sequence of Report
        At hand.

    Returns
    -------
    mapping from site to Report
    """
    plan = calibration.plan
    keys = {key.site: key.public_key for key in plan.keys or ()}
    by_site: dict[str, dict[str, Report]] = defaultdict(dict)
    for report in reports:
        if _fits(calibration, report) and (not keys or is_signed_by(report, keys.get(report.site, ""))):
            by_site[report.site][report.digest] = report
    return {site: next(iter(found.values())) for site, found in by_site.items() if len(found) == 1}


def _fits(calibration: Calibration, report: Report) -> bool:
    plan, labels = calibration.plan, set(report.by_label)
    if report.plan != plan.answered_digest:
        return False
    if calibration.label is not None:
        return calibration.label in labels
    if plan.is_grouped:
        known = plan.site_names
        return labels <= set(plan.labels) and (known is None or report.site in known)
    return labels == {None} and _fits_part(plan, report.site, report.parts[0])


def due(plan: Plan, label: str | None, reports: Fitting) -> dict[str, ReportPart]:
    """What should have counted for all points, or for one group of them.

    Parameters
    ----------
    plan : Plan
        Without groups, or that of the group.
    label : str or None
        The group.
    reports : mapping from site to Report
        Those that fit the plan as a whole.

    Returns
    -------
    mapping from site to ReportPart
    """
    parts = {site: report.by_label[label] for site, report in reports.items() if label in report.by_label}
    fit = {site: part for site, part in parts.items() if _fits_part(plan, site, part)}
    crowded = set(_crowded(plan, fit))
    return {site: part for site, part in fit.items() if _size(plan, part) not in crowded}


def _fits_part(plan: Plan, site: str, part: ReportPart) -> bool:
    try:
        ranks = planned_ranks(plan, part.n, site)
    except ValueError:
        return False
    if not any(ranks) or part.ranks != ranks:
        return False
    return plan.privacy is None or {value for values in part.values for value in values} <= releases(plan)


def releases(plan: Plan) -> set[float]:
    """What a private site can send: the right edges of all bins but the last, which means Infinity.

    Parameters
    ----------
    plan : Plan
        A private one.

    Returns
    -------
    set of float
    """
    assert plan.privacy is not None
    edges = plan.privacy.edges if plan.privacy.bounded else plan.privacy.edges[:-1]
    return {*edges, math.inf}


def _size(plan: Plan, part: ReportPart) -> int | None:
    """What tells sites without names apart: their size, where the plan knows sizes."""
    return None if plan.blocks is None else part.n


def _crowded(plan: Plan, parts: Mapping[str, ReportPart]) -> Iterator[int | None]:
    """Sizes of which more sites without names came than the plan has: nobody knows which are honest."""
    if plan.site_names is not None or plan.n_sites is None:
        return
    room: Counter[int | None] = Counter()
    for block in plan.blocks or ():
        room[block.n] += block.count
    if plan.blocks is None:
        room[None] = plan.n_sites
    came = Counter(_size(plan, part) for part in parts.values())
    yield from (size for size, number in came.items() if number > room[size])
