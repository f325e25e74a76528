"""Audit of ranks and of cases drawn at random: numbers of sites that have votes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

from scipy import special

from fedconformal.audit._finding import Work
from fedconformal.audit._messages import CONDITIONAL, MEAN, Check, Claim, MessageAudit, Verdict, place_of
from fedconformal.audit._votes import Voters, check_mean, check_missed
from fedconformal.documents import (
    Cases,
    CasesPayload,
    Design,
    Level,
    MessageData,
    Payload,
    RankLevel,
    RankRule,
    Ranks,
    RanksPayload,
    SiteKind,
)

_MARGIN = 1e-9  # that sites add to eta, so that rounding never decides


def reach_votes(ballots: Iterable[tuple[float, int]], needed: int) -> float:
    """Return the smallest number at which the votes of all numbers up to it reach those needed; else +inf."""
    total = 0
    for value, votes in sorted(ballots):
        total += votes
        if total >= needed:
            return value
    return math.inf


def check_each(claim: Claim, sites: Sequence[Voters]) -> Verdict:
    """Check that every site's own number satisfies the criterion; by the union bound with a delta.

    Parameters
    ----------
    claim : Claim
        The level.
    sites : sequence of Voters
        With one number each; the largest of all is the threshold.

    Returns
    -------
    Verdict
    """
    if claim.criterion == MEAN:
        least = min(Fraction(site.ranks[0], site.n + 1) for site in sites)
        return Verdict(least >= claim.level, f"at least {float(least):.12f}")
    missed, exact = 0.0, True
    for site in sites:
        alone = (site._replace(count=1),)
        share = claim.delta / claim.n_sites
        holds, each = check_missed(alone, 1, 0, claim.level, share, claim.work)
        missed, exact = missed + site.count * each, exact and holds
    # Sites may share delta unevenly, if they do so clearly.
    return Verdict(exact or missed < claim.delta * (1 - 1e-9), f"missed with at most {missed:.12f}")


class RanksAudit(MessageAudit):
    """Audit of ranks."""

    @property
    def promises(self) -> Mapping[tuple[str, str], Check]:
        """Checks of the coverage."""
        return {
            ("population", MEAN): self._check_mean,
            ("population", CONDITIONAL): self._check_missed,
            ("each-site", MEAN): self._check_each,
            ("each-site", CONDITIONAL): self._check_each,
            ("mixture", MEAN): self._check_mixture,
            ("new-site", CONDITIONAL): self._check_new_sites,
        }

    def answered(
        self, planned: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> MessageData:
        """Return the plan's ranks and votes for these sites."""
        levels = []
        for level, data in zip(planned.levels, _data(planned).levels, strict=True):
            votes, cast = data.all_votes(), []
            ranks = [_site_ranks(level, data, kind.n, place) for kind, place in zip(sites, places, strict=True)]
            for own, place in zip(ranks, places, strict=True):
                cast.append((1,) * len(own) if place is None else votes[place])
            levels.append(RankLevel.of(tuple(ranks), tuple(cast), data.rule))
        return Ranks(levels=tuple(levels))

    def problem(self, planned: Design, n: int, site: str, payload: Payload) -> str | None:
        """Compare the ranks that were sent with the plan's."""
        place = place_of(planned, n, site)
        levels = zip(planned.levels, _data(planned).levels, strict=True)
        expected = [_site_ranks(level, data, n, place) for level, data in levels]
        if not isinstance(payload, RanksPayload) or [sent.ranks for sent in payload.levels] != expected:
            return "other ranks"
        return None if any(expected) else "the plan does not ask this site"

    def threshold(self, claim: Claim, payloads: Mapping[str, Payload]) -> float:
        """Return the smallest number at which the votes reach those needed."""
        votes = _data(claim.design).levels[claim.place].all_votes()
        ballots = [
            pair
            for kind, cast in zip(claim.design.kinds, votes, strict=True)
            for name in kind.names
            for pair in zip(_sent(payloads[name], claim.place), cast, strict=True)
        ]
        return reach_votes(ballots, claim.votes)

    def most_votes(self, claim: Claim) -> int:
        """Return the votes of all numbers."""
        return sum(site.count * site.total for site in _voters(claim))

    def finite_votes(self, claim: Claim) -> int:
        """Return the votes of all finite numbers."""
        return sum(site.count * site.finite.total for site in _voters(claim))

    def needed_votes(self, claim: Claim, planned: Level) -> int | None:
        """Return all votes, those planned, or the share of new sites in them."""
        if claim.design.promise == "each-site":
            return claim.n_sites
        if claim.design.promise == "mixture":
            return planned.votes
        rule = _data(claim.design).levels[claim.place].rule
        if claim.design.promise == "new-site" and rule is not None and rule.eta is not None:
            return math.ceil((claim.n_sites + 1) * (1 - claim.delta * rule.eta))
        return None

    def check(self, claim: Claim) -> Verdict:
        """Recompute the claim, of ranks that follow the rule if there is one."""
        data = _data(claim.design).levels[claim.place]
        if (data.rule is not None and data.rule.eta is not None) != (claim.design.promise == "new-site"):
            return Verdict(False, "eta belongs to a promise to new sites")
        if data.rule is not None:
            for kind, ranks in zip(claim.design.kinds, data.ranks, strict=True):
                if ranks and ranks != _rule_ranks(data.rule, claim.level, kind.n):
                    return Verdict(False, f"ranks {list(ranks[:8])} of {kind.n:,} scores do not follow the rule")
        return super().check(claim)

    def _check_mean(self, claim: Claim) -> Verdict:
        faulty = claim.design.max_faulty
        holds, mean = check_mean(_voters(claim), claim.votes, faulty, claim.level, claim.work)
        return Verdict(holds, f"{mean:.12f}")

    def _check_missed(self, claim: Claim) -> Verdict:
        faulty = claim.design.max_faulty
        holds, missed = check_missed(_voters(claim), claim.votes, faulty, claim.level, claim.delta, claim.work)
        return Verdict(holds, f"missed with probability {missed:.12g}")

    def _check_each(self, claim: Claim) -> Verdict:
        """Check that the largest report is kept, and that each site's own suffices."""
        sites = _voters(claim)
        if len(sites) < len(claim.design.kinds) or any(site.votes != (1,) for site in sites):
            return Verdict(False, "every site must send one number of one vote")
        if claim.votes < claim.n_sites:
            return Verdict(False, "the largest number must be kept")
        return check_each(claim, sites)

    def _check_mixture(self, claim: Claim) -> Verdict:
        """Compare the votes needed with those of a whole mixture, of which no number has more than its share."""
        worth = []
        data = _data(claim.design).levels[claim.place]
        for kind, ranks, votes in zip(claim.design.kinds, data.ranks, data.all_votes(), strict=True):
            for rank, cast in zip(ranks, accumulate(votes), strict=True):
                # These votes mean that `rank` of the site's n + 1 scores, a new one included, are not above.
                worth.append((kind.share or Fraction(0)) * rank / (cast * (kind.n + 1)))
        least = claim.votes * min(worth, default=Fraction(0))
        return Verdict(least >= claim.level, f"at least {float(least):.12f}")

    def _check_new_sites(self, claim: Claim) -> Verdict:
        """Bound the share of new sites whose own number would rarely exceed the threshold."""
        rule = _data(claim.design).levels[claim.place].rule
        eta = None if rule is None else rule.eta
        sites = _voters(claim)
        if eta is None or any(site.votes != (1,) for site in sites):
            return Verdict(False, "every site must send one number by the rule of an eta")
        for site in sites:
            above = _lies_above(site.n, site.ranks[0], claim.level, eta, claim.work)
            if not above:
                return Verdict(False, f"rank {site.ranks[0]:,} of {site.n:,} is above its quantile too rarely")
        missed = (1 - Fraction(claim.votes, claim.n_sites + 1)) / eta
        return Verdict(missed <= claim.delta, f"missed by at most {float(missed):.12f} of new sites")

def _data(design: Design) -> Ranks:
    assert isinstance(design.message, Ranks)
    return design.message


def _sent(payload: Payload, place: int) -> tuple[float, ...]:
    assert isinstance(payload, RanksPayload)
    return payload.levels[place].values


def _voters(claim: Claim) -> list[Voters]:
    """Return the sites that are asked at a level, with their ranks and votes."""
    data = _data(claim.design).levels[claim.place]
    rows = zip(claim.design.kinds, data.ranks, data.all_votes(), strict=True)
    return [Voters(kind.count, kind.n, ranks, votes) for kind, ranks, votes in rows if ranks]


def _site_ranks(level: Level, data: RankLevel, n: int, place: int | None) -> tuple[int, ...]:
    """Return the ranks of a site: the plan's for its kind, or by the rule of an open plan."""
    if place is not None:
        return data.ranks[place]
    return () if data.rule is None else _rule_ranks(data.rule, level.confidence_level, n)


# -- ranks of sites whose size comes with their report ----------------------------------------------------


def _rule_ranks(rule: RankRule, level: Fraction, n: int) -> tuple[int, ...]:
    """Return the ranks of a site of n scores by a rule."""
    if rule.eta is not None:
        return (_first_above(n, level, float(rule.eta) + _MARGIN),)
    middle = math.ceil((rule.share or 0) * (n + 1))
    if rule.spacing is None:
        return (middle,)
    numbers = min(rule.numbers, n)
    gaps = numbers - 1
    step = max(1, min(_step(rule.spacing, level, n), (n - 1) // gaps if gaps else 0))
    first = min(max(1, middle - gaps * step // 2), n - gaps * step)
    return tuple(range(first, first + gaps * step + 1, step))


def _step(spacing: Fraction, level: Fraction, n: int) -> int:
    """Return so many standard deviations of a Binomial(n, level) variable, rounded up if the rest is 0.4 or more."""
    square = spacing**2 * n * level * (1 - level)
    below = math.isqrt(math.floor(square))
    return below + ((below + Fraction(2, 5)) ** 2 <= square)


@lru_cache(maxsize=4096)
def _first_above(n: int, level: Fraction, chance: float) -> int:
    """Return the smallest rank that lies above the level-quantile with this chance; n + 1 if there is none."""
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        above = float(special.betaincc(middle, n - middle + 1, float(level))) >= chance
        low, high = (low, middle) if above else (middle, high)
    return high


def _lies_above(n: int, rank: int, level: Fraction, eta: Fraction, work: Work) -> bool:
    """Return whether a score of this rank lies above the level-quantile with a chance of at least eta."""
    return rank > n or check_missed((Voters(1, n, (rank,), (1,)),), 1, 0, level, 1 - eta, work)[0]


# -- cases drawn at random ---------------------------------------------------------------------------------


class CasesAudit(MessageAudit):
    """Audit of cases drawn at random."""

    @property
    def promises(self) -> Mapping[tuple[str, str], Check]:
        """Checks of the coverage."""
        return {("new-site", MEAN): self._check_new_sites}

    def answered(
        self, planned: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> MessageData:
        """Return the same message."""
        return planned.message

    def problem(self, planned: Design, n: int, site: str, payload: Payload) -> str | None:
        """Compare the number of cases."""
        place_of(planned, n, site)
        if not isinstance(payload, CasesPayload) or len(payload.values) != min(n, _numbers(planned)):
            return "another number of cases"
        return None if list(payload.values) == sorted(payload.values) else "cases out of order"

    def threshold(self, claim: Claim, payloads: Mapping[str, Payload]) -> float:
        """Return the smallest case at which the votes reach those needed."""
        ballots: list[tuple[float, int]] = []
        for kind in claim.design.kinds:
            drawn = min(kind.n, _numbers(claim.design))
            counted = [_numbers(claim.design) * i // drawn for i in range(drawn + 1)]
            votes = [high - low for low, high in pairwise(counted)]
            for name in kind.names:
                payload = payloads[name]
                assert isinstance(payload, CasesPayload)
                ballots += zip(sorted(payload.values), votes, strict=True)
        return reach_votes(ballots, claim.votes)

    def most_votes(self, claim: Claim) -> int:
        """Return the votes of all sites, which are the same at each."""
        return _numbers(claim.design) * claim.n_sites

    def needed_votes(self, claim: Claim, planned: Level) -> int:
        """Return the level as a share of the cases of all sites and of one more."""
        return math.ceil(_numbers(claim.design) * claim.level * (claim.n_sites + 1))

    def _check_new_sites(self, claim: Claim) -> Verdict:
        """Compare the votes with the cases of all sites and of one more, whose cases are +inf."""
        mean = Fraction(claim.votes, _numbers(claim.design) * (claim.n_sites + 1))
        return Verdict(mean >= claim.level, f"at least {float(mean):.12f}")


def _numbers(design: Design) -> int:
    assert isinstance(design.message, Cases)
    return design.message.numbers
