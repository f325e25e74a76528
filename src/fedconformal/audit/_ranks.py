"""Audit of ranks and of cases drawn at random: numbers of sites that have votes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, ClassVar

from scipy import special

from fedconformal.audit._base import (
    CONDITIONAL,
    MEAN,
    Claim,
    MessageAudit,
    NotVerifiableError,
    Verdict,
)
from fedconformal.audit._votes import Voters, bound_coverage, check_mean, check_missed
from fedconformal.documents import (
    Design,
    Level,
    MessageData,
    RankLevel,
    RankRule,
    Ranks,
    SiteKind,
)

_MARGIN = 1e-9  # that sites add to eta, so that rounding never decides


def reach_votes(ballots: Iterable[tuple[float, int]], needed: int) -> float:
    """Return the smallest number at which the votes of all numbers up to it reach those
    needed; else +inf.
    """
    total = 0
    for value, votes in sorted(ballots):
        total += votes
        if total >= needed:
            return value
    return math.inf


def check_each(claim: Claim, sites: Sequence[Voters]) -> Verdict:
    """Check that every site's own number satisfies the criterion, by the union bound if
    there is a delta.

    Parameters
    ----------
    claim : Claim
        The level.
    sites : sequence of Voters
        With one number each, the largest of which is the threshold.

    Returns
    -------
    Verdict
    """
    if claim.votes < claim.n_sites:
        return False, "the largest number of all sites must be kept"
    if claim.criterion == MEAN:
        least = min(Fraction(site.ranks[0], site.n + 1) for site in sites)
        return least >= claim.level, f"at least {float(least):.12f}"
    each = [
        check_missed(
            (site._replace(number=1),),
            1,
            0,
            claim.level,
            claim.delta / claim.n_sites,
            claim.work,
        )
        for site in sites
    ]
    missed = min(
        1.0,
        sum(site.number * alone for site, (_, alone) in zip(sites, each, strict=True)),
    )
    # Sites may share delta unevenly, as long as rounding does not decide.
    holds = all(holds for holds, _ in each) or missed < claim.delta * (1 - 1e-9)
    return holds, f"missed with probability {missed:.12g} at most"


def _find_eta(claim: Claim) -> Fraction:
    rule = claim.message.levels[claim.place].rule
    return Fraction(0) if rule is None or rule.eta is None else rule.eta


def _list_voters(claim: Claim) -> list[Voters]:
    """Return the sites that are asked at a level, with their ranks and votes."""
    data = claim.message.levels[claim.place]
    rows = zip(claim.design.kinds, data.ranks, data.all_votes(), strict=True)
    return [
        Voters(kind.count, kind.n, ranks, votes) for kind, ranks, votes in rows if ranks
    ]


def _check_population(claim: Claim) -> Verdict:
    """Check the mean coverage, or the probability to miss the level."""
    sites = (_list_voters(claim), claim.votes, claim.design.max_faulty, claim.level)
    try:
        if claim.criterion == MEAN:
            holds, mean = check_mean(*sites, claim.work)
            return holds, f"{mean:.12f}"
        holds, missed = check_missed(*sites, claim.delta, claim.work)
        return holds, f"missed with probability {missed:.12g}"
    except NotVerifiableError:
        bounded, detail = bound_coverage(*sites, claim.delta, claim.work.spare)
        if bounded is None:
            raise
        return bounded, detail


def _check_mixture(claim: Claim) -> Verdict:
    """Compare the votes needed with those of a whole mixture, of which no number has
    more than its share.
    """
    data, worth = claim.message.levels[claim.place], []
    for kind, ranks, votes in zip(
        claim.design.kinds, data.ranks, data.all_votes(), strict=True
    ):
        for rank, cast in zip(ranks, accumulate(votes), strict=True):
            # These votes mean that `rank` of the site's n + 1 scores, a new one
            # included, are not above.
            worth.append((kind.share or Fraction(0)) * rank / (cast * (kind.n + 1)))
    least = claim.votes * min(worth, default=Fraction(0))
    return least >= claim.level, f"at least {float(least):.12f}"


def _check_new_sites(claim: Claim) -> Verdict:
    """Bound the share of new sites whose own number would exceed the threshold although
    they fall short.
    """
    eta = _find_eta(claim)
    for site in _list_voters(claim):
        if not check_missed(
            (site._replace(number=1),), 1, 0, claim.level, 1 - eta, claim.work
        )[0]:
            return (
                False,
                (
                    f"rank {site.ranks[0]:,} of {site.n:,} is above its quantile too"
                    " rarely"
                ),
            )
    missed = (1 - Fraction(claim.votes, claim.n_sites + 1)) / eta
    return missed <= claim.delta, f"missed by at most {float(missed):.12f} of new sites"


class RanksAudit(MessageAudit):
    """Audit of ranks."""

    checks: ClassVar = {
        ("population", MEAN): _check_population,
        ("population", CONDITIONAL): _check_population,
        ("each-site", MEAN): lambda claim: check_each(claim, _list_voters(claim)),
        ("each-site", CONDITIONAL): lambda claim: check_each(
            claim, _list_voters(claim)
        ),
        ("mixture", MEAN): _check_mixture,
        ("new-site", CONDITIONAL): _check_new_sites,
    }

    def answered(
        self, planned: Design, sites: Sequence[SiteKind], places: Sequence[int | None]
    ) -> MessageData:
        """Return the plan's ranks and votes for these sites."""
        message: Any = planned.message
        levels = []
        for i, data in enumerate(message.levels):
            pairs, all_votes = zip(sites, places, strict=True), data.all_votes()
            ranks = tuple(
                _find_ranks(planned, i, kind.n, place) for kind, place in pairs
            )
            open_votes = ((1,) * len(own) for own in ranks)
            votes = (all_votes[place] for place in places if place is not None)
            levels.append(
                RankLevel.of(
                    ranks, tuple(open_votes if planned.is_open else votes), data.rule
                )
            )
        return Ranks(levels=tuple(levels))

    def problem(
        self, planned: Design, n: int, place: int | None, payload: Any
    ) -> str | None:
        """Compare the ranks that were sent with the plan's."""
        expected = [
            _find_ranks(planned, i, n, place) for i in range(len(planned.levels))
        ]
        if [sent.ranks for sent in payload.levels] != expected:
            return "other ranks"
        return None if any(expected) else "the plan does not ask this site"

    def threshold(self, claim: Claim, payloads: Mapping[str, Any]) -> float:
        """Return the smallest number at which the votes reach those needed."""
        votes = claim.message.levels[claim.place].all_votes()
        ballots = [
            pair
            for kind, cast in zip(claim.design.kinds, votes, strict=True)
            for name in kind.names
            for pair in zip(
                payloads[name].levels[claim.place].values, cast, strict=True
            )
        ]
        return reach_votes(ballots, claim.votes)

    def most_votes(self, claim: Claim) -> int:
        """Return the votes of all numbers."""
        return sum(site.number * site.total for site in _list_voters(claim))

    def finite_votes(self, claim: Claim) -> int:
        """Return the votes of all finite numbers."""
        return sum(site.number * site.finite.total for site in _list_voters(claim))

    def needed_votes(self, claim: Claim, planned: Level) -> int | None:
        """Return all votes, the planned ones, or those that few new sites' own numbers
        exceed.
        """
        promise, eta = claim.design.promise, _find_eta(claim)
        if promise == "new-site":
            return math.ceil((claim.n_sites + 1) * (1 - claim.delta * eta))
        return {"each-site": claim.n_sites, "mixture": planned.votes}.get(promise)

    def check(self, claim: Claim) -> Verdict:
        """Recompute the coverage, of ranks that follow their rule if there is one."""
        data = claim.message.levels[claim.place]
        if bool(_find_eta(claim)) != (claim.design.promise == "new-site"):
            return False, "eta belongs to a promise to new sites"
        single = claim.design.promise in ("each-site", "new-site")
        if single and any(votes != (1,) for votes in data.all_votes()):
            return False, "every site must send one number of one vote"
        for kind, ranks in zip(claim.design.kinds, data.ranks, strict=True):
            if (
                data.rule is not None
                and ranks
                and ranks != _apply_rule(data.rule, claim.level, kind.n)
            ):
                return (
                    False,
                    (
                        f"ranks {list(ranks[:8])} of {kind.n:,} scores do not follow"
                        " the rule"
                    ),
                )
        return super().check(claim)


# -- ranks of sites --------------------------------------------------------------------


def _find_ranks(
    planned: Design, level: int, n: int, place: int | None
) -> tuple[int, ...]:
    """Return the ranks of a site of n scores: the plan's for its kind, or by the rule
    of an open plan.
    """
    message: Any = planned.message
    data: RankLevel = message.levels[level]
    if place is not None or data.rule is None:
        return data.ranks[place or 0]
    return _apply_rule(data.rule, planned.levels[level].confidence_level, n)


def _apply_rule(rule: RankRule, level: Fraction, n: int) -> tuple[int, ...]:
    """Return the ranks of a site of n scores by a rule."""
    if rule.eta is not None:
        return (_find_above(n, level, float(rule.eta) + _MARGIN),)
    middle = math.ceil((rule.share or 0) * (n + 1))
    if rule.spacing is None:
        return (middle,)
    gaps = min(rule.numbers, n) - 1
    step = max(
        1, min(_round_step(rule.spacing, level, n), (n - 1) // gaps if gaps else 0)
    )
    first = min(max(1, middle - gaps * step // 2), n - gaps * step)
    return tuple(range(first, first + gaps * step + 1, step))


def _round_step(spacing: Fraction, level: Fraction, n: int) -> int:
    """Return ``spacing * sqrt(n level (1 - level))``, rounded up if the rest is 0.4 or
    more.
    """
    square = spacing**2 * n * level * (1 - level)
    below = math.isqrt(math.floor(square))
    return below + ((below + Fraction(2, 5)) ** 2 <= square)


@lru_cache(maxsize=4096)
def _find_above(n: int, level: Fraction, chance: float) -> int:
    """Return the smallest rank above the level-quantile with this chance; n + 1 if
    there is none.
    """
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        above = float(special.betaincc(middle, n - middle + 1, float(level))) >= chance
        low, high = (low, middle) if above else (middle, high)
    return high


# -- cases drawn at random -------------------------------------------------------------


def _check_cases(claim: Claim) -> Verdict:
    mean = Fraction(claim.votes, claim.message.numbers * (claim.n_sites + 1))
    return mean >= claim.level, f"at least {float(mean):.12f}"


class CasesAudit(MessageAudit):
    """Audit of cases drawn at random."""

    checks: ClassVar = {("new-site", MEAN): _check_cases}

    def problem(
        self, planned: Design, n: int, place: int | None, payload: Any
    ) -> str | None:
        """Compare the number of cases."""
        message: Any = planned.message
        if len(payload.values) != min(n, message.numbers):
            return "another number of cases"
        return (
            None
            if list(payload.values) == sorted(payload.values)
            else "cases out of order"
        )

    def threshold(self, claim: Claim, payloads: Mapping[str, Any]) -> float:
        """Return the smallest case at which the votes reach those needed."""
        ballots: list[tuple[float, int]] = []
        numbers = claim.message.numbers
        for kind in claim.design.kinds:
            drawn = min(kind.n, numbers)
            votes = [
                high - low
                for low, high in pairwise(
                    numbers * i // drawn for i in range(drawn + 1)
                )
            ]
            for name in kind.names:
                ballots += zip(payloads[name].values, votes, strict=True)
        return reach_votes(ballots, claim.votes)

    def most_votes(self, claim: Claim) -> int:
        """Return the votes of all sites, which are the same at each."""
        return int(claim.message.numbers * claim.n_sites)

    def needed_votes(self, claim: Claim, planned: Level) -> int:
        """Return the level as a share of the cases of all sites and of one more, whose
        cases are +inf.
        """
        needed: Fraction = claim.message.numbers * claim.level * (claim.n_sites + 1)
        return math.ceil(needed)
