"""The promise of one level, counted anew for the sites that answered.

The tables below are this room's own: what they do not know is not vouched for.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from fedconformal.audit._ballots import Ballot, ballots
from fedconformal.audit._effort import UncountableError
from fedconformal.audit._finding import Finding
from fedconformal.audit._private import PRIVATE_ERROR, PrivateRecount
from fedconformal.audit._promises import DIFFERING, Differing
from fedconformal.audit._recount import MEAN_ERROR, Recount
from fedconformal.documents import Calibration


@dataclass(frozen=True)
class _Claim:
    """One level of a calibration: who answered with which rank, and what is promised."""

    calibration: Calibration
    level: int

    @property
    def name(self) -> str:
        return f"level {self.confidence_level!r}"

    @property
    def confidence_level(self) -> float:
        return self.calibration.plan.confidence_levels[self.level]

    @property
    def goal(self) -> Fraction:
        return Fraction(str(self.confidence_level))

    @property
    def delta(self) -> Fraction:
        return Fraction(str(self.calibration.plan.delta or 0))

    @property
    def votes(self) -> int:
        return self.calibration.levels[self.level].server_rank or 0

    @cached_property
    def ballots(self) -> Counter[Ballot]:
        """What the sites that answered have sent."""
        return ballots(self.calibration, self.level)

    @property
    def total(self) -> int:
        """All votes, those of infinite numbers included."""
        return sum(count * sum(ballot.votes) for ballot, count in self.ballots.items())

    @property
    def available(self) -> int:
        """The votes of numbers that can be a threshold; what a private site sends is never infinite."""
        if self.calibration.plan.privacy is not None:
            return self.total
        return sum(count * ballot.finite_votes for ballot, count in self.ballots.items())

    @property
    def recount(self) -> Recount:
        sites = list(self.ballots.elements())
        sizes, ranks = [ballot.n for ballot in sites], [ballot.ranks for ballot in sites]
        votes = [ballot.votes for ballot in sites]
        return Recount(sizes, ranks, self.votes, self.calibration.plan.max_faulty, weights=votes)


def coverage(calibration: Calibration, i: int) -> Finding:
    """The promise of one level."""
    claim, plan = _Claim(calibration, i), calibration.plan
    if claim.votes > claim.available:
        threshold = calibration.levels[i].threshold
        return Finding(f"{claim.name}: no rank, so the whole space", str(threshold), threshold == math.inf)
    if plan.privacy is not None:
        return _private(claim)
    if (differing := DIFFERING.get(plan.promise, {}).get(plan.criterion)) is not None:
        return differing(Differing(calibration, i))
    count = _PROMISES.get(plan.promise, {}).get(plan.criterion)
    return _unknown(claim) if count is None else count(claim)


def _unknown(claim: _Claim) -> Finding:
    plan = claim.calibration.plan
    what = f"the promise {plan.promise!r} with the criterion {plan.criterion!r}"
    return Finding(f"{claim.name}: {what} is kept", "this auditor does not know it", None)


# -- exact reports -----------------------------------------------------------------------------------------


def _mean(claim: _Claim) -> Finding:
    """Mean coverage, exactly where that can be had."""
    law, goal = claim.recount, claim.goal
    name = f"{claim.name}: mean coverage is at least the level"
    if law.countable:
        mean, _ = law.exact_moments()
        return Finding(name, f"{float(mean):.12f}, counted in whole numbers", mean >= goal)
    if (n := law.maximum) is not None:
        return Finding(name, f"{n}/{n + 1}, the largest of all points", Fraction(n, n + 1) >= goal)
    if law.half:
        return Finding(name, "1/2 by symmetry", goal <= Fraction(1, 2))
    try:
        value, _ = law.moments()
    except UncountableError as error:
        return Finding(name, str(error), None)
    return Finding(name, f"{value:.12f}, integrated anew", value > float(goal) + MEAN_ERROR)


def _reached(claim: _Claim) -> Finding:
    """The probability that the coverage reaches the level."""
    law, level, delta = claim.recount, claim.goal, claim.delta
    name = f"{claim.name}: coverage reaches it with probability 1 - {float(delta):g}"
    if law.countable_at(level):
        missed = law.exact_cdf(level)
        return Finding(name, f"missed with {float(missed):.12f}, counted in whole numbers", missed <= delta)
    try:
        value = law.cdf_at(level)
    except UncountableError as error:
        return Finding(name, str(error), None)
    return Finding(name, f"missed with {value:.12f}, summed anew", value < float(delta) - MEAN_ERROR)


# -- a promise to every site by itself: the largest report is kept, and each site's own would do ------------


def _mean_of_each(claim: _Claim) -> Finding:
    least = min(Fraction(max(ballot.ranks), ballot.n + 1) for ballot in claim.ballots)
    name = f"{claim.name}: mean coverage is at least the level for every site"
    holds = claim.votes == claim.total and least >= claim.goal
    return Finding(name, f"at least {float(least):.12f}, the largest report kept", holds)


def _all_reached(claim: _Claim) -> Finding:
    at = np.array([float(claim.goal)])
    alone = [(Recount([ballot.n], [max(ballot.ranks)], 1), count) for ballot, count in claim.ballots.items()]
    delta = float(claim.delta)
    name = f"{claim.name}: all sites reach it at once with probability 1 - {delta:g}"
    missed = sum(count * float(law.cdf(at)[0]) for law, count in alone)
    holds = claim.votes == claim.total and missed <= delta + MEAN_ERROR
    return Finding(name, f"missed with at most {missed:.12f}, the largest report kept", holds)


_PROMISES: dict[str, dict[str, Callable[[_Claim], Finding]]] = {
    "population": {"marginal": _mean, "stable": _mean, "conditional": _reached},
    "each-site": {"marginal": _mean_of_each, "conditional": _all_reached},
}


# -- private reports: a bound that holds whatever the data are ---------------------------------------------


def _private(claim: _Claim) -> Finding:
    plan = claim.calibration.plan
    count = _PRIVATE_PROMISES.get(plan.promise, {}).get(plan.criterion)
    if count is None or not all(ballot.is_single for ballot in claim.ballots):
        return _unknown(claim)
    try:
        law = PrivateRecount.of(claim.calibration, claim.level)
    except UncountableError as error:
        return Finding(f"{claim.name}: the promise is kept, whatever the data", str(error), None)
    return _unknown(claim) if law is None else count(claim, law)


def _private_mean(claim: _Claim, law: PrivateRecount) -> Finding:
    mean = law.mean()
    name = f"{claim.name}: mean coverage is at least the level, whatever the data"
    return Finding(name, f"at least {mean:.9f}", mean >= claim.confidence_level - PRIVATE_ERROR)


def _private_reached(claim: _Claim, law: PrivateRecount) -> Finding:
    missed = float(law.cdf(np.array([claim.confidence_level]))[0])
    name = f"{claim.name}: coverage reaches it with probability 1 - {float(claim.delta):g}"
    return Finding(name, f"missed with at most {missed:.9f}", missed <= float(claim.delta) + PRIVATE_ERROR)


_PRIVATE_PROMISES: dict[str, dict[str, Callable[[_Claim, PrivateRecount], Finding]]] = {
    "population": {"marginal": _private_mean, "stable": _private_mean, "conditional": _private_reached},
}
