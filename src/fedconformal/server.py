"""The server's whole job: reports in, one threshold out."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Literal

import numpy as np

from fedconformal import _checks
from fedconformal.documents import Answer, Calibration, Plan, Refusal, Report, Threshold
from fedconformal.planning import Goal, solve_server_rank
from fedconformal.signing import is_signed_by


class RefusedReportsError(ValueError):
    """Reports that do not answer the plan; ``refused`` lists them with their reasons."""

    def __init__(self, refused: Sequence[Refusal]) -> None:
        self.refused = tuple(refused)
        listed = "; ".join(f"{refusal.source}: {refusal.reason}" for refusal in refused)
        super().__init__(f"nothing was calibrated, {len(refused)} refused: {listed}")


def calibrate(
    plan: Plan,
    reports: Iterable[Report],
    *,
    on_refused: Literal["raise", "skip"] = "raise",
    unreadable: Iterable[Refusal] = (),
) -> Calibration:
    """Turn reports into a threshold with its law.

    Every report is checked against the plan: its digest, the site and its signature, no second report of a
    site, size and rank as planned. The server's rank is then solved anew for the sites that answered.
    The order of the reports does not matter.

    Parameters
    ----------
    plan : the plan that was answered.
    reports : one report per site; sites that are not there count as missing.
    on_refused : ``"raise"`` a RefusedReportsError that names every report that was refused, or ``"skip"``
        them: they then count as missing, and the calibration says so.
    unreadable : refusals from before, of reports that could not even be read.
    """
    _checks.choice("on_refused", on_refused, ("raise", "skip"))
    accepted, refused = _sort_out(plan, list(reports))
    refused = [*unreadable, *refused]
    if refused and on_refused == "raise":
        raise RefusedReportsError(refused)
    if len(accepted) <= 2 * plan.max_faulty:
        raise ValueError(
            f"{len(accepted)} sites answered: at least {2 * plan.max_faulty + 1} are needed"
            + (f" with max_faulty = {plan.max_faulty}" if plan.max_faulty else "")
        )
    missing = sorted(set(plan.site_names or ()) - {report.site for report in accepted})
    n_missing = len(missing) if plan.site_names is not None else max(0, (plan.n_sites or 0) - len(accepted))
    return Calibration(
        plan=plan,
        levels=_thresholds(plan, accepted),
        answers=tuple(
            Answer(site=report.site, n=report.n, ranks=report.ranks, report=report.digest)
            for report in accepted
        ),
        missing=tuple(missing),
        n_missing=n_missing,
        refused=tuple(refused),
        authenticated=plan.keys is not None,
        assumptions=_assumptions(plan, n_missing),
    )


# -- which reports count -----------------------------------------------------------------------------------


def _sort_out(plan: Plan, reports: list[Report]) -> tuple[list[Report], list[Refusal]]:
    """Reports that count, by site, and those that do not, with the reason."""
    refused: list[Refusal] = []
    by_site: dict[str, list[Report]] = defaultdict(list)
    keys = {key.site: key.public_key for key in plan.keys or ()}
    for report in reports:
        reason = _reason_to_refuse(plan, keys, report)
        if reason is None:
            by_site[report.site].append(report)
        else:
            refused.append(Refusal(source=report.site, reason=reason))
    accepted = []
    for site in sorted(by_site):
        first, *others = by_site[site]
        if all(other == first for other in others):
            accepted.append(first)
            refused += [Refusal(source=site, reason="the same report a second time") for _ in others]
        else:
            reason = f"{len(others) + 1} different reports from this site: none of them counts"
            refused.append(Refusal(source=site, reason=reason))
    accepted, surplus = _within_plan(plan, accepted)
    return accepted, refused + surplus


def _reason_to_refuse(plan: Plan, keys: dict[str, str], report: Report) -> str | None:
    if report.plan != plan.digest:
        return f"answers another plan ({report.plan[:19]}..., not {plan.digest[:19]}...)"
    try:
        ranks = plan.ranks_for(report.n, site=report.site)
    except ValueError as error:
        return str(error)
    if report.ranks != ranks:
        return f"ranks {list(report.ranks)} instead of {list(ranks)}"
    if keys and report.signature is None:
        return "not signed, but the plan asks for signatures"
    if keys and not is_signed_by(report, keys[report.site]):
        return "the signature is not that of the site's key"
    return None


def _within_plan(plan: Plan, reports: list[Report]) -> tuple[list[Report], list[Refusal]]:
    """Without names, no more sites of a size count than the plan has; the first by name do."""
    if plan.groups is None or plan.site_names is not None:
        return reports, []
    room: Counter[int] = Counter()
    for group in plan.groups:
        room[group.n] += group.count
    planned = dict(room)
    accepted, refused = [], []
    for report in reports:
        room[report.n] -= 1
        if room[report.n] >= 0:
            accepted.append(report)
        else:
            reason = f"the plan has {planned[report.n]} sites with {report.n} scores, and this is one more"
            refused.append(Refusal(source=report.site, reason=reason))
    return accepted, refused


# -- the threshold -----------------------------------------------------------------------------------------


def _thresholds(plan: Plan, reports: list[Report]) -> tuple[Threshold, ...]:
    """One threshold per level; a higher level never gets a smaller one."""
    found = [_threshold(plan, reports, i) for i in range(len(plan.levels))]
    largest = -math.inf
    for i in sorted(range(len(found)), key=lambda i: found[i].confidence_level):
        largest = max(largest, found[i].threshold)
        found[i] = found[i].model_copy(update={"threshold": largest})
    return tuple(found)


def _threshold(plan: Plan, reports: list[Report], i: int) -> Threshold:
    level = plan.levels[i]
    if level.server_rank is not None and len(reports) == plan.n_sites:
        rank, advice = level.server_rank, level.advice
    else:
        kinds = Counter((report.n, report.ranks[i]) for report in reports)
        goal = Goal(
            Fraction(str(level.confidence_level)),
            plan.criterion,
            Fraction(str(plan.delta or 0.1)),
            plan.max_faulty,
        )
        sizes, ranks = (np.array(column) for column in zip(*kinds, strict=True))
        rank, advice = solve_server_rank(sizes, np.array(list(kinds.values())), ranks, goal)
    values = sorted(report.values[i] for report in reports)
    threshold = values[rank - 1] if rank <= len(values) else math.inf
    return Threshold(
        confidence_level=level.confidence_level, server_rank=rank, threshold=threshold, advice=advice
    )


def _assumptions(plan: Plan, n_missing: int) -> tuple[str, ...]:
    """What the guarantee rests on, in plain words."""
    says = [
        "Given the model, the calibration scores of all sites and the score of a new point are independent "
        "and identically distributed, and the model was not trained on the calibration data.",
        "With ties among scores the coverage can only be larger than stated.",
    ]
    if n_missing:
        says.append(
            f"{n_missing} sites did not answer; whether a site answers does not depend on its scores."
        )
    if plan.max_faulty:
        says.append(f"At most {plan.max_faulty} of the reports are wrong, in whatever way.")
    else:
        says.append("Every report was made as the plan says.")
    if plan.keys is None:
        says.append("The reports were not authenticated: whoever could deliver a file could pose as a site.")
    if len(plan.levels) > 1:
        says.append(
            "Each level's guarantee holds by itself; a level whose threshold was below that of a lower level "
            "got the larger one, which can only add coverage."
        )
    return tuple(says)
