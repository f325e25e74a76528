"""An auditor's job: recompute what a calibration claims, by a path of its own."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal.documents import Calibration, Plan, Report
from fedconformal.laws._sites import Floats
from fedconformal.signing import is_signed_by
from fedconformal.verification._recount import MEAN_ERROR, Recount

_PRIVATE_ERROR = 1e-9  # of the recount of a private law


@dataclass(frozen=True)
class Check:
    """One claim, what was found, and whether it holds."""

    name: str
    found: str
    passed: bool

    def as_dict(self) -> dict[str, object]:
        """For machines."""
        return {"check": self.name, "found": self.found, "holds": self.passed}


def verify(calibration: Calibration, reports: Sequence[Report] | None = None) -> list[Check]:
    """Check the coverage that a calibration promises, and whether it fits its plan and its reports.

    The law is counted anew with code that shares nothing with the one that made the plan: in whole numbers
    where the federation is small enough, else by sums of binomial probabilities and double-exponential
    integration. For private reports the bound on a release's rank is the one of the plan, and the law is
    summed anew from it. With the reports at hand the threshold is recomputed from them too.
    """
    checks = [_ranks(calibration), _missing(calibration)]
    for i in range(len(calibration.levels)):
        checks.append(_coverage(calibration, i))
        checks += _planned_rank(calibration, i)
    checks.append(_monotone(calibration))
    if reports is not None:
        checks += _reports(calibration, reports)
    return checks


def _ranks(calibration: Calibration) -> Check:
    plan = calibration.plan
    wrong = []
    for answer in calibration.answers:
        try:
            expected = plan.ranks_for(answer.n, site=answer.site)
        except ValueError as error:
            wrong.append(str(error))
            continue
        if expected != answer.ranks:
            wrong.append(f"{answer.site}: ranks {list(answer.ranks)} instead of {list(expected)}")
    found = wrong[0] if wrong else f"{calibration.n_answers} answers"
    return Check("every answer has the plan's rank for its size", found, not wrong)


def _missing(calibration: Calibration) -> Check:
    plan = calibration.plan
    name = "answers and missing sites make up the plan"
    if plan.site_names is not None and calibration.aggregated is None:
        there = {answer.site for answer in calibration.answers}
        fits = there | set(calibration.missing) == set(plan.site_names) and not there & set(
            calibration.missing
        )
        fits = fits and calibration.n_missing == len(calibration.missing)
    elif plan.n_sites is not None and not plan.is_open:
        fits = calibration.n_answers + calibration.n_missing == plan.n_sites
    else:
        fits = calibration.n_missing == max(0, (plan.n_sites or 0) - calibration.n_answers)
    return Check(name, f"{calibration.n_answers} answered, {calibration.n_missing} missing", fits)


def _coverage(calibration: Calibration, i: int) -> Check:
    """The promise of one level, for the sites that answered."""
    plan, level = calibration.plan, calibration.levels[i]
    goal = Fraction(str(level.confidence_level))
    sizes = [n for (n, _), count in calibration.groups.items() for _ in range(count)]
    finite = sum(count for (n, ranks), count in calibration.groups.items() if ranks[i] <= n)
    if level.server_rank > (len(sizes) if plan.terms is not None else finite):
        holds = level.threshold == math.inf
        return Check(
            f"level {level.confidence_level!r}: no rank, so the whole space", str(level.threshold), holds
        )
    if plan.terms is not None:
        return _private_coverage(calibration, i)
    if plan.target == "each-site":
        return _each_site(calibration, i)
    ranks = [ranks[i] for (_, ranks), count in calibration.groups.items() for _ in range(count)]
    law = Recount(sizes, ranks, level.server_rank, plan.max_faulty)
    if plan.criterion == "conditional":
        return _conditional(law, goal, Fraction(str(plan.delta)))
    name = f"level {level.confidence_level!r}: mean coverage is at least the level"
    if law.countable:
        mean, _ = law.exact_moments()
        return Check(name, f"{float(mean):.12f}, counted in whole numbers", mean >= goal)
    total = sum(sizes)
    if sizes == ranks and level.server_rank == len(sizes) and not plan.max_faulty:
        return Check(
            name, f"{total}/{total + 1}, the largest of all points", Fraction(total, total + 1) >= goal
        )
    if law.half:
        return Check(name, "1/2 by symmetry", goal <= Fraction(1, 2))
    value, _ = law.moments()
    return Check(name, f"{value:.12f}, integrated anew", value > float(goal) + MEAN_ERROR)


def _each_site(calibration: Calibration, i: int) -> Check:
    """The promise to every site by itself: the largest report is kept, and each site's own would do."""
    plan, level = calibration.plan, calibration.levels[i]
    goal = Fraction(str(level.confidence_level))
    largest = level.server_rank == calibration.n_answers
    kinds = [(n, ranks[i], count) for (n, ranks), count in calibration.groups.items()]
    if plan.criterion == "marginal":
        least = min(Fraction(rank, n + 1) for n, rank, _ in kinds)
        name = f"level {level.confidence_level!r}: mean coverage is at least the level for every site"
        found = f"at least {float(least):.12f}, the largest report kept"
        return Check(name, found, largest and least >= goal)
    missed = sum(
        count * float(Recount([n], [rank], 1, 0).cdf(np.array([float(goal)]))[0]) for n, rank, count in kinds
    )
    name = f"level {level.confidence_level!r}: all sites reach it at once with probability 1 - {plan.delta:g}"
    holds = largest and missed <= (plan.delta or 0) + MEAN_ERROR
    return Check(name, f"missed with at most {missed:.12f}, the largest report kept", holds)


def _conditional(law: Recount, level: Fraction, delta: Fraction) -> Check:
    name = f"level {float(level)!r}: coverage reaches it with probability 1 - {float(delta):g}"
    if law.countable_at(level):
        missed = law.exact_cdf(level)
        return Check(name, f"missed with {float(missed):.12f}, counted in whole numbers", missed <= delta)
    value = float(law.cdf(np.array([float(level)]))[0])
    return Check(name, f"missed with {value:.12f}, summed anew", value < float(delta) - MEAN_ERROR)


def _planned_rank(calibration: Calibration, i: int) -> list[Check]:
    """When everybody answered, the server keeps the rank that the plan fixed before."""
    planned, level = calibration.plan.levels[i].server_rank, calibration.levels[i]
    if planned is None or calibration.n_answers != calibration.plan.n_sites:
        return []
    name = f"level {level.confidence_level!r}: the server kept the plan's rank"
    return [Check(name, f"{level.server_rank}, planned {planned}", level.server_rank == planned)]


def _monotone(calibration: Calibration) -> Check:
    ordered = sorted(calibration.levels, key=lambda found: found.confidence_level)
    thresholds = [found.threshold for found in ordered]
    return Check(
        "a higher level has no smaller threshold",
        f"{len(thresholds)} levels",
        thresholds == sorted(thresholds),
    )


# -- private laws ------------------------------------------------------------------------------------------


def _private_coverage(calibration: Calibration, i: int) -> Check:
    """The bound on the law of a private threshold, by plain sums over ranks and counts."""
    plan, level = calibration.plan, calibration.levels[i]
    goal = level.confidence_level
    if plan.criterion == "conditional":
        missed = float(_private_cdf(calibration, i, np.array([goal]))[0])
        name = f"level {goal!r}: coverage reaches it with probability 1 - {plan.delta:g}"
        return Check(name, f"missed with at most {missed:.9f}", missed <= (plan.delta or 0) + _PRIVATE_ERROR)
    mean = 1.0 - _integral(lambda c: _private_cdf(calibration, i, c))
    name = f"level {goal!r}: mean coverage is at least the level, whatever the data"
    return Check(name, f"at least {mean:.9f}", mean >= goal - _PRIVATE_ERROR)


def _private_cdf(calibration: Calibration, i: int, c: Floats) -> Floats:
    """P(C <= c) by adding one site after the other to the law of the count."""
    plan, f = calibration.plan, calibration.plan.max_faulty
    columns, needed = [], calibration.levels[i].server_rank - f
    for (n, _), count in calibration.groups.items():
        columns += [_private_below(plan, i, n, c)] * count
    p = np.sort(np.stack(columns), axis=0)[f:]
    law = np.zeros((needed + 1, c.size))
    law[0] = 1.0
    for row in p:
        top = law[needed] + law[needed - 1] * row
        law[1:needed] = law[1:needed] * (1 - row) + law[: needed - 1] * row
        law[0] *= 1 - row
        law[needed] = top
    cdf: Floats = law[needed]
    return cdf


def _private_below(plan: Plan, i: int, n: int, c: Floats) -> Floats:
    """Probability that a private site lies below c: over how many of its scores do."""
    quantile, terms = plan.levels[i].exact_quantile, plan.terms
    assert quantile is not None
    assert terms is not None
    tail = terms.tail(n, quantile)
    counts = np.arange(n + 1)
    choose = np.array([math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1) for x in counts])
    out = np.empty(c.size)
    for j, value in enumerate(c):
        if not 0 < value < 1:
            out[j] = tail[1] if value <= 0 else 1.0
            continue
        masses = np.exp(choose + counts * math.log(value) + (n - counts) * math.log1p(-value))
        out[j] = float(masses @ tail[1:]) / float(masses.sum())
    return out


def _integral(f: Callable[[Floats], Floats]) -> float:
    """Simpson's rule over [0, 1], on the part where the cdf moves, doubled until it settles."""
    grid = np.linspace(0, 1, 65)
    values = f(grid)
    low = float(grid[max(int(np.argmax(values > 1e-14)) - 1, 0)])
    above = np.flatnonzero(values > 1 - 1e-14)
    high = float(grid[above[0]]) if above.size else 1.0
    base, previous, n = 1.0 - high, math.nan, 64
    while n <= 4096:
        x = np.linspace(low, high, n + 1)
        weights = np.ones(n + 1)
        weights[1:-1:2], weights[2:-1:2] = 4, 2
        total = base + float(weights @ f(x)) * (high - low) / (3 * n)
        if abs(total - previous) < _PRIVATE_ERROR / 10:
            break
        previous, n = total, 2 * n
    return total


# -- reports -----------------------------------------------------------------------------------------------


def _reports(calibration: Calibration, reports: Sequence[Report]) -> list[Check]:
    """The threshold from the reports themselves."""
    by_digest = {report.digest: report for report in reports}
    used = [by_digest.get(answer.report) for answer in calibration.answers]
    there = [report for report in used if report is not None]
    checks = [
        Check(
            "the reports are those that were calibrated",
            f"{len(there)} of {len(used)}",
            len(there) == len(used) > 0,
        )
    ]
    if len(there) < len(used) or not used:
        return checks
    differ = [
        answer.site
        for answer, report in zip(calibration.answers, there, strict=True)
        if (report.plan, report.site, report.n, report.ranks)
        != (calibration.plan.digest, answer.site, answer.n, answer.ranks)
    ]
    found_in = "all of them" if not differ else f"not {', '.join(differ[:5])}"
    checks.append(Check("the reports say what the answers say", found_in, not differ))
    largest = -math.inf
    order = sorted(range(len(calibration.levels)), key=lambda i: calibration.levels[i].confidence_level)
    for i in order:
        found = calibration.levels[i]
        values = sorted(report.values[i] for report in there)
        largest = max(
            largest, values[found.server_rank - 1] if found.server_rank <= len(values) else math.inf
        )
        name = (
            f"level {found.confidence_level!r}: the threshold is report number {found.server_rank} in order"
        )
        checks.append(Check(name, f"{largest!r}", largest == found.threshold))
    keys = {key.site: key.public_key for key in calibration.plan.keys or ()}
    if keys:
        signed = sum(is_signed_by(report, keys[report.site]) for report in there if report.site in keys)
        checks.append(
            Check(
                "every report is signed with its site's key",
                f"{signed} of {len(there)}",
                signed == len(there),
            )
        )
    return checks
