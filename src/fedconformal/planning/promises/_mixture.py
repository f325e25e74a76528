"""A promise for a known mixture of independent sites, whose distributions may differ in any way.

Site j, of n_j scores, sends those of the ranks l_j1 < l_j2 < ..., and a new point comes from it with
probability w_j. Number i has votes in proportion to w_j (l_ji - l_j,i-1) / (n_j + 1), so the votes of all
numbers up to t are in proportion to a count that never exceeds what the sites' scores, and one unseen point
of each, would give. A threshold at which they reach the level covers the mixture with that mean probability
if each site's scores, with that of the unseen point, are exchangeable given the scores of the other sites.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np

from fedconformal.planning._design import Advice, Block, Design, Guarantee, Sending, Sites
from fedconformal.planning._exact import Exact
from fedconformal.planning._goal import Goal
from fedconformal.planning._staircase import ranks_by_size
from fedconformal.planning.criteria import CRITERIA
from fedconformal.planning.promises._base import PROMISES, Promise

_MOST_VOTES = 2**20  # of one number, as documents hold them
_LARGEST_DENOMINATOR = 10**40


@PROMISES.register
class Mixture(Promise):
    """New points that come with known shares from independent sites, which may differ in any way.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 50}, promise="mixture", mixture={"A": 1, "B": 3})
    >>> {site: str(share) for site, share in plan.mixture.items()}
    {'A': '1/4', 'B': '3/4'}
    """

    name: ClassVar[str] = "mixture"
    default_criterion: ClassVar[str] = "marginal"
    default_numbers: ClassVar[int] = 5
    takes_mixture: ClassVar[bool] = True
    has_law: ClassVar[bool] = False
    is_bound: ClassVar[bool] = True
    allows_groups: ClassVar[bool] = False
    assumption: ClassVar[str] = "known-mixture"
    whose: ClassVar[str] = "the new cases of these sites, mixed as the plan says"
    serves: ClassVar[str] = "the cases of these sites together, mixed with known shares"
    condition: ClassVar[str] = "for this mixture of the sites"
    bears_differing_sites: ClassVar[bool] = True
    among: ClassVar[str] = " in the mixture"
    pools: ClassVar[bool] = False
    bearing: ClassVar[str] = "it counts zero here, whatever its cases are like"

    def check(
        self, goal: Goal, *, private: bool, is_open: bool, searched: bool = True, numbers: int = 1
    ) -> None:
        """Refuse what the counting of a mixture cannot serve."""
        if not goal.criterion.is_mean or goal.criterion.trades_up:
            allowed = [name for name in CRITERIA if CRITERIA[name].is_mean and not CRITERIA[name].trades_up]
            raise ValueError(
                f"criterion must be {' or '.join(allowed)} with promise 'mixture', got "
                f"{goal.criterion.name!r}"
            )
        if goal.max_faulty:
            raise ValueError(
                f"max_faulty must be 0 with promise 'mixture', got {goal.max_faulty}: a wrong report breaks "
                "the promise to its own site's share"
            )
        if not searched:
            raise ValueError("local_ranks does not go with promise 'mixture': its ranks are searched")
        if private:
            raise ValueError("privacy does not go with promise 'mixture'")
        if is_open:
            raise ValueError(
                "promise 'mixture' needs n_points: the votes of a site depend on how many scores it has"
            )

    def check_design(self, design: Design) -> None:
        """Shares of all sites, together 1, and votes that never count more than there is."""
        shares = [(block.count, block.share) for block in design.blocks]
        if any(share is None or share < 0 for _, share in shares):
            raise ValueError("for a promise to a mixture every site has a share")
        if _common((share or Fraction(0) for _, share in shares), _LARGEST_DENOMINATOR) is None:
            raise ValueError("the shares of a mixture must have a common denominator of at most 10^40")
        if sum(count * (share or 0) for count, share in shares) != 1:
            raise ValueError("the shares of a mixture must add up to 1")
        if any(block.ranks and not block.share for block in design.blocks):
            raise ValueError("a site without a share of the mixture is not asked")
        if design.is_finite and (design.server_rank or 0) < design.goal.level * _unit(design.blocks):
            raise ValueError("the votes needed are too few for a promise to this mixture")

    # -- ranks and votes -------------------------------------------------------------------------------

    def choose(self, sites: Sites, goal: Goal, sending: Sending, share: Fraction | None) -> Design:
        """Steps that follow the sites' counts, and votes that count the mixture."""
        assert isinstance(sending, Exact)
        mixed = _Mixed.of(sites)
        searched = Design(goal, self, sending, mixed.blocks(mixed.ranks(goal, sending.numbers), goal))
        silent = goal.max_missing or 0
        for blocks in (searched.blocks, mixed.blocks(mixed.highest(searched.blocks), goal)):
            design = replace(searched, blocks=blocks)
            votes, advice = self.votes(design)
            design = replace(design, server_rank=votes, advice=advice)
            if advice is None and self.survives(design, silent):
                return design
        return replace(design, server_rank=design.total_votes + 1, advice=_advice(design, silent))

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The level in units of the votes; one more than there are where the sites are too small."""
        needed = math.ceil(design.goal.level * _unit(design.blocks))
        if _finite(design.blocks) >= needed > 0:
            return needed, None
        return design.total_votes + 1, _advice(design, design.goal.max_missing or 0)

    def answered(self, design: Design, blocks: tuple[Block, ...]) -> tuple[int, Advice | None]:
        """The votes that were planned: a silent site counts zero, and the shares stay as they are."""
        if design.advice is None and design.server_rank is not None and _finite(blocks) >= design.server_rank:
            return design.server_rank, None
        there = replace(design, blocks=blocks)
        return there.total_votes + 1, _advice(there, 0)

    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether the votes of the others are enough, if the sites with most votes stay silent."""
        left, lost = n_silent, 0
        for block in sorted(design.blocks, key=lambda block: -block.finite_votes):
            lost += min(left, block.count) * block.finite_votes
            left -= min(left, block.count)
        return _finite(design.blocks) - lost >= (design.server_rank or 1)

    def guarantee(self, design: Design) -> Guarantee:
        """The votes needed, as a share of the mixture."""
        if not design.is_finite:
            return Guarantee(1.0)
        return Guarantee(float(Fraction(design.server_rank or 0) / _unit(design.blocks)))

    # -- words -----------------------------------------------------------------------------------------

    def options(self) -> str:
        """For a mixture."""
        return "for a known mixture of the sites"

    def assumed(self) -> str:
        """The shares are known, and each site's scores are exchangeable given the other sites."""
        return (
            "A new point comes from each site with the share that the plan says. Given the model and the "
            "scores of the other sites, the calibration scores of a site and the score of a new point of "
            "that site are exchangeable, as they are if sites are independent of each other, and the model "
            "was not trained on the calibration data; the distributions of the sites may differ in any way. "
            "A site that did not answer counts as if none of its points were covered."
        )

    def shortfall(self, where: str) -> str:
        """The cases have changed, the site is one that is covered less, or the calibration came out low."""
        return (
            f"cases {where} are harder than those of other sites, or have changed since the calibration: the "
            "promise is for the mixture of all sites, and for no single one of them"
        )


@dataclass(frozen=True)
class _Mixed:
    """Sites with their shares: how many, their size, and the share of each."""

    rows: tuple[tuple[int, int, Fraction], ...]

    @classmethod
    def of(cls, sites: Sites) -> "_Mixed":
        counts, sizes = sites.counts.tolist(), sites.n_points.tolist()
        whole = sum(count * (n + 1) for count, n in zip(counts, sizes, strict=True))
        shares = sites.shares or tuple(Fraction(n + 1, whole) for n in sizes)
        return cls(tuple(zip(counts, sizes, shares, strict=True)))

    def ranks(self, goal: Goal, numbers: int) -> dict[int, tuple[int, ...]]:
        """The ranks of each size that has a share."""
        together: dict[int, Fraction] = {}
        for count, n, share in self.rows:
            if share:
                together[n] = together.get(n, Fraction(0)) + count * share
        if len(self.rows) == 1 and self.rows[0][0] == 1:
            numbers = 1  # one site by itself needs its own rank and no other
        sizes = np.array(sorted(together))
        return ranks_by_size(sizes, np.array([float(together[n]) for n in sizes]), goal.level, numbers)

    def highest(self, blocks: Iterable[Block]) -> dict[int, tuple[int, ...]]:
        """The same ranks with the largest score in the place of the last."""
        return {block.n: (*block.ranks[:-1], block.n) for block in blocks if block.ranks}

    def blocks(self, ranks: dict[int, tuple[int, ...]], goal: Goal) -> tuple[Block, ...]:
        """The sites with votes in whole numbers, rounded down where the exact ones would be too large."""
        unit = self._unit(ranks)
        return tuple(
            _block(count, n, share, ranks[n] if share else (), unit) for count, n, share in self.rows
        )

    def _unit(self, ranks: dict[int, tuple[int, ...]]) -> int:
        """Votes of the whole mixture: such that all are whole numbers, or as many as documents can hold."""
        asked = [(n, share) for _, n, share in self.rows if share]
        steps = {n: max(high - low for low, high in pairwise((0, *ranks[n]))) for n in {n for n, _ in asked}}
        most = min(int(_MOST_VOTES * (n + 1) / (share * steps[n])) for n, share in asked)
        return _common((share / (n + 1) for n, share in asked), most) or most


def _common(fractions: Iterable[Fraction], most: int) -> int | None:
    """The common denominator of fractions; None if it is larger than that."""
    found = 1
    for denominator in {fraction.denominator for fraction in fractions}:
        found = math.lcm(found, denominator)
        if found > most:
            return None
    return found


def _block(count: int, n: int, share: Fraction, ranks: tuple[int, ...], unit: int) -> Block:
    """Sites that send these ranks; a number whose votes would be rounded to none is not sent."""
    counted = [unit * share.numerator * rank // (share.denominator * (n + 1)) for rank in ranks]
    votes = [high - low for low, high in pairwise((0, *counted))]
    sent = [(rank, vote) for rank, vote in zip(ranks, votes, strict=True) if vote]
    return Block(count, n, tuple(rank for rank, _ in sent), tuple(vote for _, vote in sent), share)


def _unit(blocks: Iterable[Block]) -> Fraction:
    """The fewest votes for which the whole mixture can stand, so that no number has more than its share."""
    return max(
        (
            Fraction(votes * (block.n + 1), 1) / (block.share * rank)
            for block in blocks
            if block.share
            for rank, votes in zip(block.ranks, accumulate(block.weights), strict=True)
        ),
        default=Fraction(0),
    )


def _finite(blocks: Iterable[Block]) -> int:
    """The votes of all finite numbers."""
    return sum(block.count * block.finite_votes for block in blocks)


def _advice(design: Design, n_silent: int) -> Advice:
    """The size that would do if every site had it, for the shares that are left when some stay silent."""
    left, out, level = Fraction(0), n_silent, design.goal.level
    for block in sorted(design.blocks, key=lambda block: -(block.share or 0)):
        left += max(block.count - out, 0) * (block.share or 0)
        out = max(out - block.count, 0)
    return Advice(n_points=math.ceil(level / (left - level)) if left > level else None)
