"""The votes that were needed: the plan's, or those that its promise fixes for the sites that answered.

More votes than needed make a threshold larger, never a promise weaker, so nothing is searched for here: that
the votes claimed are enough is what `coverage` counts.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from fedconformal.audit._claim import Claim
from fedconformal.audit._finding import Finding


def of_votes(claim: Claim) -> list[Finding]:
    """Whether the votes needed are the plan's if everybody answered, else those that its promise fixes.

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
    count = _FIXED.get(claim.plan.promise, {}).get(claim.plan.criterion)
    needed = None if count is None or claim.plan.privacy is not None else count(claim)
    if needed is None:
        return []
    due = needed if needed <= claim.available else claim.total + 1
    name = f"{claim.name}: the votes needed are those that the criterion asks for"
    found = f"{claim.votes:,}" if due == claim.votes else f"{claim.votes:,}, and {due:,} would do better"
    return [Finding(name, found, due == claim.votes)]


def _largest(claim: Claim) -> int | None:
    """The largest report is kept where every site's is finite."""
    return claim.total if claim.available == claim.total else None


def _as_planned(claim: Claim) -> int | None:
    """A silent site counts zero: the plan's votes, where the others have as many."""
    return claim.plan.levels[claim.level].server_rank


def _of_one_site_more(claim: Claim) -> int | None:
    """The level as a share of the cases of all sites and of one that is not there."""
    return math.ceil((claim.plan.part.cases or 0) * claim.goal * (sum(claim.ballots.values()) + 1))


def _of_most_sites(claim: Claim) -> int | None:
    """So many that few new sites' own numbers would be larger."""
    eta = Fraction(claim.plan.levels[claim.level].eta or 0)
    return math.ceil((sum(claim.ballots.values()) + 1) * (1 - claim.delta * eta))


_FIXED: dict[str, dict[str, Callable[[Claim], int | None]]] = {
    "mixture": {"marginal": _as_planned},
    "new-site": {
        "marginal": _of_one_site_more,
        "stable": _of_one_site_more,
        "conditional": _of_most_sites,
    },
    "each-site": {"marginal": _largest, "conditional": _largest},
}
