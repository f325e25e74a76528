"""What would have been enough where no votes are: the smallest size and number of sites, once more."""

import math
from collections.abc import Callable
from fractions import Fraction

from fedconformal.audit._claim import Claim
from fedconformal.audit._effort import UncountableError
from fedconformal.audit._finding import Finding
from fedconformal.audit._recount import Recount
from fedconformal.documents import LARGEST_N, Advice

_MOST_SITES = 10_000  # that are tried where none are said to be enough
_CLEAR = 1e-9  # differences of coverage that no rounding makes


def of_advice(claim: Claim) -> list[Finding]:
    """Whether the advice is the plan's if everybody answered, else what the sites that answered would need.

    Parameters
    ----------
    claim : Claim
        Of a level that has a threshold, perhaps an infinite one.

    Returns
    -------
    list of Finding
        Empty where there is no advice.
    """
    given = claim.calibration.levels[claim.level].advice
    if given is None:
        return []
    name = f"{claim.name}: what would have been enough"
    try:
        wrong = _wrong(claim, given)
    except UncountableError as error:
        return [Finding(name, str(error), None)]
    return [Finding(name, wrong or _words(given), wrong is None)]


def _words(advice: Advice) -> str:
    said = advice.model_dump(exclude_none=True)
    return ", ".join(f"{name} {value:,}" for name, value in said.items()) or "nothing that was looked for"


def _wrong(claim: Claim, given: Advice) -> str | None:
    """What is wrong with the advice, if something is."""
    planned = claim.plan.levels[claim.level].advice
    if claim.calibration.n_answers == claim.plan.part.n_asked and claim.plan.blocks is not None:
        return None if given == planned else f"{_words(given)}, and not as planned"
    if claim.plan.privacy is not None:
        return None if given == (planned or Advice()) else f"{_words(given)}, and not as planned"
    count = _PROMISES.get(claim.plan.promise)
    return None if count is None else count(claim, given)


Enough = Callable[[int], float]
"""By how much a number is enough: positive if it is."""


def _of_population(claim: Claim, given: Advice) -> str | None:
    m, n = sum(claim.ballots.values()), min(ballot.n for ballot in claim.ballots)
    if given.epsilon is not None:
        return "epsilon, where nothing is private"
    # With a share, larger sites need not do better, as ranks are rounded up: what is left out may be right.
    most = LARGEST_N if claim.plan.levels[claim.level].share is None else None
    points = _smallest("n_points", given.n_points, n, most, lambda points: _margin(claim, m, points))
    return points or _smallest(
        "n_sites", given.n_sites, m, _MOST_SITES, lambda sites: _margin(claim, sites, n)
    )


def _of_each_site(claim: Claim, given: Advice) -> str | None:
    if given.epsilon is not None or given.n_sites is not None:
        return "the size of the sites is all that matters"
    level, share = float(claim.goal), float(claim.delta) / max(1, sum(claim.ballots.values()))
    rare = claim.plan.delta is not None

    def enough(points: int) -> float:
        return share - level**points if rare else float(Fraction(points, points + 1) - claim.goal)

    return _smallest("n_points", given.n_points, 0, LARGEST_N, enough)


def _of_mixture(claim: Claim, given: Advice) -> str | None:
    """The size that would do for the shares that answered."""
    if given.epsilon is not None or given.n_sites is not None:
        return "the size of the sites is all that matters"
    shares = [claim.plan.part.share_for(answer.n, site=answer.site) for answer in claim.calibration.answers]
    there = sum((share for share in shares if share is not None), Fraction(0))
    due = math.ceil(claim.goal / (there - claim.goal)) if there > claim.goal else None
    return None if given.n_points == due else f"n_points should be {due}"


def _of_new_site(claim: Claim, given: Advice) -> str | None:
    """How many sites would do; or of which size, where every site by itself matters."""
    if given.epsilon is not None:
        return "epsilon, where nothing is private"
    silent, m = claim.plan.part.max_missing or 0, sum(claim.ballots.values())
    eta = claim.plan.levels[claim.level].eta
    if eta is None:
        due = math.ceil(claim.goal / (1 - claim.goal)) + silent
        return None if (given.n_points, given.n_sites) == (None, due) else f"it takes {due} sites"
    n, level = min(ballot.n for ballot in claim.ballots), float(claim.goal)
    least = 1 / float(claim.delta)

    def large(points: int) -> float:
        wanted = max(least / (m - silent + 1), float(Fraction(eta))) if m > silent else math.inf
        return -math.inf if wanted >= 1 else (1 - level**points) - wanted

    def many(sites: int) -> float:
        return (1 - level**n) * (sites - silent + 1) - least

    wrong = _smallest("n_points", given.n_points, n, LARGEST_N, large)
    return wrong or _smallest("n_sites", given.n_sites, m, _MOST_SITES, many)


_PROMISES: dict[str, Callable[[Claim, Advice], str | None]] = {
    "mixture": _of_mixture,
    "new-site": _of_new_site,
    "population": _of_population,
    "each-site": _of_each_site,
}


def _smallest(name: str, value: int | None, present: int, most: int | None, enough: Enough) -> str | None:
    """Why a value is not the smallest that is enough, if it is not; None says that not even the most is."""
    if value is None:
        helps = most is not None and (present == 0 or enough(present) < -_CLEAR) and enough(most) > _CLEAR
        return f"no {name}, and some would do" if helps else None
    if value <= present or enough(value) < -_CLEAR:
        return f"{name} {value:,} is not enough"
    return f"{name} {value - 1:,} would do" if value > 1 and enough(value - 1) > _CLEAR else None


def _margin(claim: Claim, m: int, n: int) -> float:
    """By how much m sites of n points keep the promise with the largest threshold that they can have."""
    faulty, share = claim.plan.max_faulty, claim.plan.levels[claim.level].exact_share
    left = m - (claim.plan.part.max_missing or 0)
    rank = n if share is None else math.ceil(share * (n + 1))
    if left <= 2 * faulty or rank > n:
        return -math.inf
    law = Recount([n], [rank], left - faulty, faulty, counts=[left], effort=claim.effort)
    if claim.plan.delta is not None:
        return float(claim.delta) - law.cdf_at(claim.goal)
    if (points := law.maximum) is not None:
        return float(Fraction(points, points + 1) - claim.goal)
    return law.moments()[0] - float(claim.goal)
