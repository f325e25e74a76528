"""The votes that were needed: the plan's, or those that its criterion asks of the sites that answered."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fedconformal.audit._claim import Claim
from fedconformal.audit._effort import UncountableError
from fedconformal.audit._finding import Finding
from fedconformal.audit._private import PRIVATE_ERROR, PrivateRecount

_CLEAR = 1e-9  # differences of coverage that no rounding makes
_PRIVATELY_CLEAR = 10 * PRIVATE_ERROR
_BETTER = 1e-6  # so are such relative differences of a squared error


def of_votes(claim: Claim) -> list[Finding]:
    """Whether the votes needed are the plan's if everybody answered, else those that a new search finds.

    Parameters
    ----------
    claim : Claim
        Of a level that has a threshold.

    Returns
    -------
    list of Finding
    """
    planned = claim.plan.levels[claim.level].server_rank
    if planned is not None and claim.calibration.n_answers == claim.plan.part.n_asked:
        name = f"{claim.name}: the server kept the plan's rank"
        return [Finding(name, f"{claim.votes}, planned {planned}", claim.votes == planned)]
    known = _CRITERIA if claim.plan.privacy is None else _PRIVATE_CRITERIA
    count = known.get(claim.plan.promise, {}).get(claim.plan.criterion)
    return [] if count is None else _of_search(claim, count)


def _of_search(claim: Claim, count: "Count") -> list[Finding]:
    """No other number of votes would clearly have been chosen."""
    name = f"{claim.name}: the votes needed are those that the criterion asks for"
    try:
        other = count(claim)
    except UncountableError as error:
        return [Finding(name, str(error), None)]
    found = f"{claim.votes:,}" if other is None else f"{claim.votes:,}, and {other:,} would do better"
    return [Finding(name, found, other is None)]


Count = Callable[[Claim], int | None]
"""Another number of votes that should have been needed, if there is one."""


def _allowed(claim: Claim) -> tuple[int, int]:
    """The fewest votes that faulty sites cannot reach, and the most that they cannot withhold."""
    return claim.wrong + 1, claim.available - claim.wrong


def _fewer(claim: Claim, is_valid: Callable[[int], bool]) -> int | None:
    """Fewer votes that would keep the promise, too: one less, or all where none are said to be enough."""
    first, last = _allowed(claim)
    tried = min(claim.votes - 1, last)
    return tried if tried >= first and is_valid(tried) else None


def _fewest_mean(claim: Claim) -> int | None:
    goal = float(claim.goal)
    return _fewer(claim, lambda votes: claim.recount(votes).moments()[0] > goal + _CLEAR)


def _fewest_reached(claim: Claim) -> int | None:
    delta = float(claim.delta)
    return _fewer(claim, lambda votes: claim.recount(votes).cdf_at(claim.goal) < delta - _CLEAR)


def _closest(claim: Claim) -> int | None:
    """A neighbour whose coverage is clearly closer to the level, or some votes where none are said to do."""
    first, last = _allowed(claim)
    if claim.votes > last:
        return _fewest_mean(claim)
    goal = float(claim.goal)

    def error(votes: int) -> float:
        mean, variance = claim.recount(votes).moments()
        return variance + (mean - goal) ** 2 if mean > goal + _CLEAR else float("inf")

    here = error(claim.votes)
    neighbours = [votes for votes in (claim.votes - 1, claim.votes + 1) if first <= votes <= last]
    return next((votes for votes in neighbours if error(votes) < here * (1 - _BETTER)), None)


def _all_of_them(claim: Claim) -> int | None:
    """The largest report is kept where every site's is finite."""
    return claim.total if claim.available == claim.total != claim.votes else None


def _fewest_private_mean(claim: Claim) -> int | None:
    law, goal = PrivateRecount.of(claim.calibration, claim.level), claim.confidence_level
    if law is None:
        return None
    return _fewer(claim, lambda votes: replace(law, votes=votes).mean() > goal + _PRIVATELY_CLEAR)


def _fewest_private_reached(claim: Claim) -> int | None:
    law, delta = PrivateRecount.of(claim.calibration, claim.level), float(claim.delta)
    at = np.array([claim.confidence_level])
    if law is None:
        return None
    return _fewer(claim, lambda votes: float(replace(law, votes=votes).cdf(at)[0]) < delta - _PRIVATELY_CLEAR)


def _as_planned(claim: Claim) -> int | None:
    """A silent site counts zero: the plan's votes, where the others have as many."""
    planned = claim.plan.levels[claim.level].server_rank or 0
    due = planned if claim.available >= planned else claim.total + 1
    return due if due != claim.votes else None


def _of_one_site_more(claim: Claim) -> int | None:
    """The level as a share of the cases of all sites and of one that is not there."""
    drawn, m = claim.plan.part.cases or 0, sum(claim.ballots.values())
    return _due(claim, math.ceil(drawn * claim.goal * (m + 1)))


def _of_most_sites(claim: Claim) -> int | None:
    """So many that few new sites' own numbers would be larger."""
    eta, m = Fraction(claim.plan.levels[claim.level].eta or 0), sum(claim.ballots.values())
    return _due(claim, math.ceil((m + 1) * (1 - claim.delta * eta)))


def _due(claim: Claim, needed: int) -> int | None:
    due = needed if needed <= claim.available else claim.total + 1
    return due if due != claim.votes else None


_CRITERIA: dict[str, dict[str, Count]] = {
    "mixture": {"marginal": _as_planned},
    "new-site": {
        "marginal": _of_one_site_more,
        "stable": _of_one_site_more,
        "conditional": _of_most_sites,
    },
    "population": {"marginal": _fewest_mean, "stable": _closest, "conditional": _fewest_reached},
    "each-site": {"marginal": _all_of_them, "conditional": _all_of_them},
}

_PRIVATE_CRITERIA: dict[str, dict[str, Count]] = {
    "population": {
        "marginal": _fewest_private_mean,
        "stable": _fewest_private_mean,
        "conditional": _fewest_private_reached,
    },
}
