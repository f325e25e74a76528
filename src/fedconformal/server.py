"""The server's whole job: reports in, one threshold out."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import _checks
from fedconformal.documents import (
    Advice,
    Aggregate,
    Answer,
    Calibration,
    GroupPlan,
    GroupReport,
    Plan,
    Refusal,
    Report,
    Threshold,
)
from fedconformal.planning import Goal, each_site, solve_private_rank, solve_server_rank
from fedconformal.privacy._release import bins_of
from fedconformal.signing import is_signed_by

Kind = tuple[int, tuple[int, ...]]
"""Size and ranks of a site."""

AnyReport = TypeVar("AnyReport", Report, GroupReport)


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
    if plan.privacy is not None and plan.privacy.one_hot:
        raise ValueError(
            "this plan asks for secure aggregation: use calibrate_histogram with the summed vectors"
        )
    accepted, refused = sort_out(plan, reports)
    refused = [*unreadable, *refused]
    if refused and on_refused == "raise":
        raise RefusedReportsError(refused)
    if len(accepted) < plan.fewest_answers:
        raise ValueError(
            f"{len(accepted)} sites answered: at least {plan.fewest_answers} are needed"
            + (f" with max_faulty = {plan.max_faulty}" if plan.max_faulty else "")
        )
    missing, n_missing = missing_sites(plan, accepted)
    return Calibration(
        plan=plan,
        levels=_thresholds(
            plan,
            Counter((report.n, report.ranks) for report in accepted),
            [list(column) for column in zip(*(report.values for report in accepted), strict=True)],
        ),
        answers=tuple(
            Answer(site=report.site, n=report.n, ranks=report.ranks, report=report.digest)
            for report in accepted
        ),
        missing=missing,
        n_missing=n_missing,
        refused=tuple(refused),
        authenticated=plan.keys is not None,
        assumptions=_assumptions(plan, n_missing),
    )


def calibrate_histogram(plan: Plan, histogram: ArrayLike) -> Calibration:
    """Turn the sum of all sites' one-hot vectors into a threshold: the same as from separate reports.

    The server learns how many sites chose each bin, not who chose it. Unless every site answered, all sites
    must have the same size: nobody knows whose vector is missing.

    Parameters
    ----------
    plan : a private plan.
    histogram : whole numbers, one per bin, or one row per level.
    """
    if plan.privacy is None or plan.groups is None:
        raise ValueError("a histogram goes with a private plan")
    if plan.keys is not None:
        raise ValueError("this plan asks for signed reports, and nobody signs a sum")
    sums = np.atleast_2d(np.asarray(histogram))
    shape = (len(plan.levels), len(plan.privacy.edges))
    if sums.dtype.kind not in "iu" or sums.shape != shape or (sums < 0).any():
        raise ValueError(f"histogram must hold counts >= 0 of shape {shape}, got {sums.dtype} {sums.shape}")
    totals, planned = set(sums.sum(axis=1).tolist()), plan.n_sites or 0
    m = totals.pop()
    if totals or not 2 * plan.max_faulty < m <= planned:
        least = 2 * plan.max_faulty + 1
        raise ValueError(f"histogram must count {least} to {planned} sites, the same in every row, got {m}")
    if m == planned:
        groups = [(group.count, group.n, group.ranks) for group in plan.groups]
    elif len({group.n for group in plan.groups}) == 1:
        groups = [(m, plan.groups[0].n, plan.groups[0].ranks)]
    else:
        raise ValueError(f"{planned - m} sites are missing, and the sites' sizes differ: nobody knows whose")
    kinds: Counter[Kind] = Counter()
    for count, n, ranks in groups:
        kinds[(n, ranks)] += count
    values = np.array([bins_of(plan).value(b) for b in range(shape[1])])
    return Calibration(
        plan=plan,
        levels=_thresholds(plan, kinds, [np.repeat(values, row).tolist() for row in sums]),
        answers=(),
        aggregated=tuple(Aggregate(count=count, n=n, ranks=ranks) for count, n, ranks in groups),
        missing=(),
        n_missing=planned - m,
        refused=(),
        authenticated=False,
        assumptions=_assumptions(plan, planned - m),
    )


# -- which reports count -----------------------------------------------------------------------------------


def sort_out(plan: Plan, reports: Iterable[Report]) -> tuple[list[Report], list[Refusal]]:
    """Reports that count, by site, and those that do not, with the reason."""
    keys = public_keys(plan)
    accepted, refused = one_per_site(reports, lambda report: _reason_to_refuse(plan, keys, report))
    accepted, surplus = _within_plan(plan, accepted)
    return accepted, refused + surplus


def one_per_site(
    reports: Iterable[AnyReport], reason_to_refuse: Callable[[AnyReport], str | None]
) -> tuple[list[AnyReport], list[Refusal]]:
    """One report of each site that sent one without fault, and the refusals; contradictions do not count."""
    refused: list[Refusal] = []
    by_site: dict[str, list[AnyReport]] = defaultdict(list)
    for report in reports:
        reason = reason_to_refuse(report)
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
    return accepted, refused


def _reason_to_refuse(plan: Plan, keys: dict[str, str], report: Report) -> str | None:
    if report.plan != plan.digest:
        return another_plan(plan, report)
    try:
        ranks = plan.ranks_for(report.n, site=report.site)
    except ValueError as error:
        return str(error)
    if report.ranks != ranks:
        return f"ranks {_few(report.ranks)} instead of {_few(ranks)}"
    if plan.privacy is not None and not set(report.values) <= _releases(plan):
        return "a value that is no edge of the plan's bins"
    return signature_problem(keys, report) if keys else None


def another_plan(plan: Plan | GroupPlan, report: Report | GroupReport) -> str:
    """Words for a report that carries the digest of another plan."""
    return f"answers another plan ({report.plan[:19]}..., not {plan.digest[:19]}...)"


def public_keys(plan: Plan | GroupPlan) -> dict[str, str]:
    """The public key of each site; none if reports need no signature."""
    return {key.site: key.public_key for key in plan.keys or ()}


def signature_problem(keys: dict[str, str], report: Report | GroupReport) -> str | None:
    """Why the signature of a site that has a key does not do, if it does not."""
    if report.signature is None:
        return "not signed, but the plan asks for signatures"
    if not is_signed_by(report, keys[report.site]):
        return "the signature is not that of the site's key"
    return None


def _few(ranks: tuple[int, ...]) -> str:
    """Ranks for a message: whoever sends a million of them gets no long answer."""
    return f"[{', '.join(str(rank)[:20] for rank in ranks[:8])}{', ...' if len(ranks) > 8 else ''}]"


def missing_sites(plan: Plan, accepted: Sequence[Report]) -> tuple[tuple[str, ...], int]:
    """Sites of the plan that did not answer, by name, and how many there are, named or not."""
    missing = sorted(set(plan.site_names or ()) - {report.site for report in accepted})
    n_missing = len(missing) if plan.site_names is not None else max(0, (plan.n_sites or 0) - len(accepted))
    return tuple(missing), n_missing


def _releases(plan: Plan) -> set[float]:
    """The values that a private site may send."""
    bins = bins_of(plan)
    return {bins.value(b) for b in range(len(bins.edges))}


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


def _thresholds(plan: Plan, kinds: Counter[Kind], values: list[list[float]]) -> tuple[Threshold, ...]:
    """One threshold per level from (size, ranks) of the answers and their values by level.

    A higher level never gets a smaller threshold.
    """
    found = [_threshold(plan, kinds, values[i], i) for i in range(len(plan.levels))]
    largest = -math.inf
    for i in sorted(range(len(found)), key=lambda i: found[i].confidence_level):
        largest = max(largest, found[i].threshold)
        found[i] = found[i].model_copy(update={"threshold": largest})
    return tuple(found)


def _threshold(plan: Plan, kinds: Counter[Kind], values: list[float], i: int) -> Threshold:
    level = plan.levels[i]
    if level.server_rank is not None and len(values) == plan.n_sites:
        rank, advice = level.server_rank, level.advice
    else:
        rank, advice = _solve(plan, kinds, i)
    threshold = sorted(values)[rank - 1] if rank <= len(values) else math.inf
    return Threshold(
        confidence_level=level.confidence_level, server_rank=rank, threshold=threshold, advice=advice
    )


def _solve(plan: Plan, kinds: Counter[Kind], i: int) -> tuple[int, Advice | None]:
    """The server's rank for the sites that answered."""
    level = plan.levels[i]
    goal = Goal(
        Fraction(str(level.confidence_level)),
        plan.criterion,
        Fraction(str(plan.delta or 0.1)),
        plan.max_faulty,
    )
    sizes = np.array([n for n, _ in kinds])
    counts = np.array(list(kinds.values()))
    if plan.target == "each-site":
        return each_site(sizes, counts, np.array([ranks[i] for _, ranks in kinds]), goal)
    quantile = level.exact_quantile
    if plan.terms is not None and quantile is not None:
        rank = solve_private_rank(sizes, counts, quantile, goal, plan.terms)
        return (rank, None) if rank is not None else (int(counts.sum()) + 1, level.advice)
    ranks = np.array([ranks[i] for _, ranks in kinds])
    return solve_server_rank(sizes, counts, ranks, goal, level.exact_share)


def _assumptions(plan: Plan, n_missing: int) -> tuple[str, ...]:
    """What the guarantee rests on, in plain words."""
    if plan.target == "each-site":
        whose = (
            "Given the model, the calibration scores of a site and the score of a new point of that site are "
            "independent and identically distributed, and the model was not trained on the calibration data; "
            "sites may differ in any way. The promise is for points of the sites that answered."
        )
    else:
        whose = (
            "Given the model, the calibration scores of all sites and the score of a new point are "
            "independent and identically distributed, and the model was not trained on the calibration data."
        )
    says = [whose, "With ties among scores the coverage can only be larger than stated."]
    if n_missing:
        who = "1 site did not answer" if n_missing == 1 else f"{n_missing} sites did not answer"
        says.append(f"{who}; whether a site answers does not depend on its scores.")
    if plan.max_faulty:
        says.append(
            f"At most {plan.max_faulty} of the reports are wrong, in whatever way; which sites these are "
            "does not depend on the scores of the others."
        )
    else:
        says.append("Every report was made as the plan says.")
    if plan.privacy is not None:
        says.append(
            f"Each report is {plan.privacy.epsilon:g}-differentially private for the records behind it, if "
            "the site kept its ledger; the guarantee allows for the noise and holds for every data set."
        )
    if plan.keys is None:
        says.append("The reports were not authenticated: whoever could deliver a file could pose as a site.")
    if len(plan.levels) > 1:
        says.append(
            "Each level's guarantee holds by itself; a level whose threshold was below that of a lower level "
            "got the larger one, which can only add coverage."
        )
    return tuple(says)
