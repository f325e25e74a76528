"""Exact reports: every site sends the score of a rank."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._typing import Ints
from fedconformal.laws import OrderStatistics
from fedconformal.planning._advice import smallest_n_points, smallest_n_sites
from fedconformal.planning._design import Advice, Block, Design, Promise, Sending, Sites
from fedconformal.planning._family import common_shares, fixed, with_share
from fedconformal.planning._goal import Goal
from fedconformal.planning._search import search


@dataclass(frozen=True)
class Exact(Sending):
    """Sites send scores of theirs, to the last digit."""

    def site_law(self, blocks: tuple[Block, ...]) -> OrderStatistics:
        """Order statistics of uniform variables, on the scale of coverage."""
        return OrderStatistics(_sizes(blocks), _ranks(blocks))

    def choose(self, sites: Sites, goal: Goal, share: Fraction | None, promise: Promise) -> Design:
        """Search one common share for all sites together with the votes, unless the share is given."""
        if share is None:
            rarity = goal.criterion.rarity(goal)
            family = common_shares(sites.n_points, sites.counts, goal.level, miss=rarity)
        else:
            family = with_share(sites.n_points, sites.counts, share)
        best = search(family, goal)
        if best is None:
            votes, advice = _unreachable(sites, goal, share)
            return Design(goal, promise, self, blocks_of(sites, family.ranks[-1]), votes, share, advice)
        blocks = blocks_of(sites, family.ranks[best.vector])
        return Design(goal, promise, self, blocks, best.server_rank, family.shares[best.vector])

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The smallest valid number; advice keeps to the share that the ranks follow."""
        sites = Sites(_sizes(design.blocks), design.counts)
        best = search(fixed(sites.n_points, sites.counts, _ranks(design.blocks)), design.goal)
        return _unreachable(sites, design.goal, design.share) if best is None else (best.server_rank, None)


def blocks_of(sites: Sites, ranks: Ints) -> tuple[Block, ...]:
    """Blocks of sites that send one rank each."""
    rows = zip(sites.counts.tolist(), sites.n_points.tolist(), ranks.tolist(), strict=True)
    return tuple(Block(count, n, (rank,)) for count, n, rank in rows)


def _unreachable(sites: Sites, goal: Goal, share: Fraction | None) -> tuple[int, Advice]:
    """One vote more than there are, and the smallest federations that would do."""
    m, n = sites.n_sites, int(sites.n_points.min())
    points, more = smallest_n_points(m, goal, share), smallest_n_sites(n, goal, share)
    return m + 1, Advice(
        n_points=points if points is None or points > n else None,
        n_sites=more if more is None or more > m else None,
    )


def _sizes(blocks: tuple[Block, ...]) -> Ints:
    return np.array([block.n for block in blocks])


def _ranks(blocks: tuple[Block, ...]) -> Ints:
    return np.array([block.ranks[0] for block in blocks])
