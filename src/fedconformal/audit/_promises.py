"""Promises for sites that differ, counted anew: a known mixture of the sites, and a site that was not there.

Neither has a law of the coverage. What is counted is how much of a bag of scores the votes can stand for.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import comb

import numpy as np

from fedconformal.audit._claim import Claim
from fedconformal.audit._effort import UncountableError
from fedconformal.audit._finding import Finding
from fedconformal.audit._recount import MEAN_ERROR, Recount
from fedconformal.documents import Answer, Calibration

_CHANCE = 1e6  # nanoseconds that the chance of one size takes
_COUNTED = 200  # scores of a site up to which chances are counted in whole numbers


def _sent(claim: Claim) -> Iterator[tuple[Answer, tuple[int, ...], tuple[int, ...]]]:
    """Every answer with its ranks and votes at the level, if it was asked for any."""
    for answer in claim.calibration.answers:
        if answer.ranks[claim.level]:
            yield answer, answer.ranks[claim.level], answer.votes[claim.level]


# -- a known mixture of the sites --------------------------------------------------------------------------


def _mixture(claim: Claim) -> Finding:
    """Mean coverage over the mixture: the smallest share of it that the votes needed can stand for.

    Counting bags needs each site's scores to be exchangeable given those of the other sites.
    """
    name = f"{claim.name}: mean coverage over the mixture is at least the level"
    shares = _shares(claim.calibration)
    if shares is None:
        return Finding(name, "the plan's shares do not add up to 1", False)
    worth = []
    for answer, ranks, votes in _sent(claim):
        share, cast = shares(answer), 0
        for rank, vote in zip(ranks, votes, strict=True):
            cast += vote
            # These votes say that `rank` of the site's n + 1 points, the new one included, are not above.
            worth.append(share * rank / (cast * (answer.n + 1)))
    least = claim.votes * min(worth, default=Fraction(0))
    return Finding(
        name, f"at least {float(least):.12f} if sites are independent of each other", least >= claim.goal
    )


def _shares(calibration: Calibration) -> Callable[[Answer], Fraction] | None:
    """The share of each answer's site; None if those of all sites that were planned are not 1 together."""
    blocks = calibration.plan.blocks or ()
    exact = [Fraction(block.share or 0) for block in blocks]
    if sum(block.count * share for block, share in zip(blocks, exact, strict=True)) != 1:
        return None
    pairs = list(zip(blocks, exact, strict=True))
    by_name = {name: share for block, share in pairs for name in block.names or ()}
    by_size = {block.n: share for block, share in pairs if block.names is None}
    return lambda answer: by_name.get(answer.site, by_size.get(answer.n, Fraction(0)))


# -- a site that was not there -----------------------------------------------------------------------------


def _mean_of_new(claim: Claim) -> Finding:
    """Mean coverage over new sites: of m + 1 bags of r cases the unseen one is any, and so is its case."""
    name = f"{claim.name}: mean coverage over new sites is at least the level"
    drawn = claim.calibration.plan.part.cases
    if drawn is None:
        return Finding(name, "no cases were drawn at random", False)
    too_many = [
        answer.site for answer, ranks, votes in _sent(claim) if not _fair(drawn, answer.n, ranks, votes)
    ]
    if too_many:
        return Finding(name, f"{too_many[0]} has other votes than {drawn} for its cases", False)
    mean = Fraction(claim.votes, drawn * (claim.calibration.n_answers + 1))
    return Finding(name, f"at least {float(mean):.12f}, counted in whole numbers", mean >= claim.goal)


def _fair(drawn: int, n: int, ranks: tuple[int, ...], votes: tuple[int, ...]) -> bool:
    """Whether no case stands for more than its share of a site's votes."""
    sent = min(n, drawn)
    if ranks != tuple(range(1, sent + 1)) or sum(votes) != drawn:
        return False
    return all(sum(votes[: i + 1]) * sent <= drawn * (i + 1) for i in range(sent))


def _most_new(claim: Claim) -> Finding:
    """How many new sites may fall short: those whose own number would rarely lie above the threshold."""
    name = f"{claim.name}: at least {float(1 - claim.delta):g} of new sites reach it"
    eta = claim.calibration.plan.levels[claim.level].eta
    if eta is None:
        return Finding(name, "the plan does not say how likely a site's number is above its quantile", False)
    for n, rank in sorted({(answer.n, ranks[0]) for answer, ranks, _ in _sent(claim)}):
        try:
            claim.effort.spend(_CHANCE, "many sizes of sites")
            if not lies_above(n, rank, claim.goal, Fraction(eta)):
                return Finding(name, f"rank {rank} of {n} is above its quantile too rarely", False)
        except UncountableError as error:
            return Finding(name, str(error), None)
    single = all(votes == (1,) for _, _, votes in _sent(claim))
    missed = (1 - Fraction(claim.votes, claim.calibration.n_answers + 1)) / Fraction(eta)
    found = f"missed by at most {float(missed):.12f} of them, counted in whole numbers"
    return Finding(name, found, single and missed <= claim.delta)


def lies_above(n: int, rank: int, level: Fraction, eta: Fraction) -> bool:
    """Whether fewer than ``rank`` of n scores lie below the level-quantile with a chance of at least eta."""
    if rank > n:
        return True
    if n <= _COUNTED:
        below, whole = level.numerator, level.denominator
        above = whole - below
        ways = sum(comb(n, i) * below**i * above ** (n - i) for i in range(rank))
        return Fraction(ways, whole**n) >= eta
    chance = 1 - float(Recount([n], [rank], 1).cdf(np.array([float(level)]))[0])
    return chance >= float(eta) - MEAN_ERROR


DIFFERING: dict[str, dict[str, Callable[[Claim], Finding]]] = {
    "mixture": {"marginal": _mixture},
    "new-site": {"marginal": _mean_of_new, "stable": _mean_of_new, "conditional": _most_new},
}
"""What this auditor can count, by promise and criterion."""
