"""The promise of one level, counted anew for the sites that answered.

The tables below are this room's own: what they do not know is not vouched for.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fedconformal.audit._claim import Claim
from fedconformal.audit._effort import UncountableError
from fedconformal.audit._finding import Finding
from fedconformal.audit._numbers import COST, Numbers
from fedconformal.audit._private import PRIVATE_ERROR, PrivateRecount
from fedconformal.audit._promises import DIFFERING
from fedconformal.audit._recount import MEAN_ERROR


def coverage(claim: Claim) -> Finding:
    """The promise of one level."""
    plan = claim.plan
    if claim.votes > claim.available:
        threshold = claim.calibration.levels[claim.level].threshold
        return Finding(f"{claim.name}: no rank, so the whole space", str(threshold), threshold == math.inf)
    if plan.privacy is not None:
        return _private(claim)
    if (differing := DIFFERING.get(plan.promise, {}).get(plan.criterion)) is not None:
        return differing(claim)
    count = _PROMISES.get(plan.promise, {}).get(plan.criterion)
    return _unknown(claim) if count is None else count(claim)


def _unknown(claim: Claim) -> Finding:
    plan = claim.calibration.plan
    what = f"the promise {plan.promise!r} with the criterion {plan.criterion!r}"
    return Finding(f"{claim.name}: {what} is kept", "this auditor does not know it", None)


# -- exact reports -----------------------------------------------------------------------------------------


def _mean(claim: Claim) -> Finding:
    """Mean coverage, exactly where that can be had."""
    law, goal = claim.recount(), claim.goal
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


def _reached(claim: Claim) -> Finding:
    """The probability that the coverage reaches the level."""
    law, level, delta = claim.recount(), claim.goal, claim.delta
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


def _mean_of_each(claim: Claim) -> Finding:
    least = min(Fraction(max(ballot.ranks), ballot.n + 1) for ballot in claim.ballots)
    name = f"{claim.name}: mean coverage is at least the level for every site"
    holds = claim.votes == claim.total and least >= claim.goal
    return Finding(name, f"at least {float(least):.12f}, the largest report kept", holds)


def _all_reached(claim: Claim) -> Finding:
    finite = [(ballot, count) for ballot, count in claim.ballots.items() if max(ballot.ranks) <= ballot.n]
    alone = Numbers([ballot.n for ballot, _ in finite], [max(ballot.ranks) for ballot, _ in finite])
    at, delta = float(claim.goal), float(claim.delta)
    name = f"{claim.name}: all sites reach it at once with probability 1 - {delta:g}"
    try:
        claim.effort.spend(COST * len(alone), f"{len(alone):,} different sites")
    except UncountableError as error:
        return Finding(name, str(error), None)
    each = alone.below(np.array([at]), float(claim.goal - Fraction(at)))[:, 0]
    missed = float(np.array([count for _, count in finite]) @ each)
    holds = claim.votes == claim.total and missed <= delta + MEAN_ERROR
    return Finding(name, f"missed with at most {missed:.12f}, the largest report kept", holds)


_PROMISES: dict[str, dict[str, Callable[[Claim], Finding]]] = {
    "population": {"marginal": _mean, "stable": _mean, "conditional": _reached},
    "each-site": {"marginal": _mean_of_each, "conditional": _all_reached},
}


# -- private reports: a bound that holds whatever the data are ---------------------------------------------


def _private(claim: Claim) -> Finding:
    plan = claim.calibration.plan
    count = _PRIVATE_PROMISES.get(plan.promise, {}).get(plan.criterion)
    if count is None or not all(ballot.is_single for ballot in claim.ballots):
        return _unknown(claim)
    try:
        claim.effort.spend(0.0, "several levels")
        law = PrivateRecount.of(claim.calibration, claim.level)
    except UncountableError as error:
        return Finding(f"{claim.name}: the promise is kept, whatever the data", str(error), None)
    return _unknown(claim) if law is None else count(claim, law)


def _private_mean(claim: Claim, law: PrivateRecount) -> Finding:
    mean = law.mean()
    name = f"{claim.name}: mean coverage is at least the level, whatever the data"
    return Finding(name, f"at least {mean:.9f}", mean >= claim.confidence_level - PRIVATE_ERROR)


def _private_reached(claim: Claim, law: PrivateRecount) -> Finding:
    missed = float(law.cdf(np.array([claim.confidence_level]))[0])
    name = f"{claim.name}: coverage reaches it with probability 1 - {float(claim.delta):g}"
    return Finding(name, f"missed with at most {missed:.9f}", missed <= float(claim.delta) + PRIVATE_ERROR)


def _private_mean_of_each(claim: Claim, law: PrivateRecount) -> Finding:
    least = min(alone.mean() for alone, _ in law.alone)
    name = f"{claim.name}: mean coverage is at least the level for every site, whatever the data"
    holds = claim.votes == claim.total and least >= claim.confidence_level - PRIVATE_ERROR
    return Finding(name, f"at least {least:.9f}, the largest report kept", holds)


def _private_all_reached(claim: Claim, law: PrivateRecount) -> Finding:
    at, delta = np.array([claim.confidence_level]), float(claim.delta)
    missed = sum(count * float(alone.cdf(at)[0]) for alone, count in law.alone)
    name = f"{claim.name}: all sites reach it at once with probability 1 - {delta:g}, whatever the data"
    holds = claim.votes == claim.total and missed <= delta + PRIVATE_ERROR
    return Finding(name, f"missed with at most {missed:.9f}, the largest report kept", holds)


_PRIVATE_PROMISES: dict[str, dict[str, Callable[[Claim, PrivateRecount], Finding]]] = {
    "population": {"marginal": _private_mean, "stable": _private_mean, "conditional": _private_reached},
    "each-site": {"marginal": _private_mean_of_each, "conditional": _private_all_reached},
}
