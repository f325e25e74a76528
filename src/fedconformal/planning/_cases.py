"""Random cases: every site sends one or a few of its scores, drawn at random, whatever their rank."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from fedconformal.laws import OrderStatistics
from fedconformal.planning._design import Advice, Block, Design, Promise, Sending, Sites, padded
from fedconformal.planning._goal import Goal


@dataclass(frozen=True)
class Cases(Sending):
    """Sites send cases drawn at random without replacement, the same for all levels.

    The ranks of a block are those among the cases that were drawn. A site that has fewer than that sends all,
    and its votes are spread over them such that it has as many as any other.

    Parameters
    ----------
    numbers : int
        How many each site sends; every site has so many votes.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.plan(n_sites=40, n_points=9, promise="new-site").designs[0].sending
    Cases(numbers=1)
    """

    numbers: int = 1

    def block(self, count: int, n: int) -> Block:
        """Sites of n scores.

        Parameters
        ----------
        count, n : int
            How many sites, and their size.

        Returns
        -------
        Block
            With the ranks 1, 2, ... of what is drawn. The votes up to the i-th of n < ``numbers`` cases are
            ``numbers * i / n``, rounded down.
        """
        drawn = min(n, self.numbers)
        counted = [self.numbers * i // drawn for i in range(drawn + 1)]
        votes = tuple(high - low for low, high in pairwise(counted))
        return Block(count, n, tuple(range(1, drawn + 1)), votes)

    def site_law(self, blocks: tuple[Block, ...]) -> OrderStatistics:
        """If all sites are alike, drawn cases are as good as a site that has no others."""
        drawn = np.array([min(block.n, self.numbers) for block in blocks])
        return OrderStatistics(drawn, padded((block.ranks for block in blocks), drawn + 1))

    def choose(self, sites: Sites, goal: Goal, share: Fraction | None, promise: Promise) -> Design:
        """The same for all sites, whatever their size."""
        rows = zip(sites.counts.tolist(), sites.n_points.tolist(), strict=True)
        blocks = tuple(self.block(count, n) for count, n in rows)
        design = Design(goal, promise, self, blocks, 1)
        votes, advice = self.votes(design)
        if advice is None and not self.survives(design, goal.max_missing or 0):
            votes, advice = design.total_votes + 1, self._advice(goal)
        return Design(goal, promise, self, blocks, votes, advice=advice)

    def votes(self, design: Design) -> tuple[int, Advice | None]:
        """The level as a share of the cases of all sites and of one more, whose cases are +inf."""
        needed = self._needed(design.goal, design.n_sites)
        if needed <= self.numbers * design.n_sites:
            return needed, None
        return design.total_votes + 1, self._advice(design.goal)

    def survives(self, design: Design, n_silent: int) -> bool:
        """Whether enough sites are left."""
        left = design.n_sites - n_silent
        return left > 0 and self._needed(design.goal, left) <= self.numbers * left

    def _needed(self, goal: Goal, m: int) -> int:
        return math.ceil(self.numbers * goal.level * (m + 1))

    def _advice(self, goal: Goal) -> Advice:
        """So many sites that one unseen does not matter."""
        return Advice(n_sites=math.ceil(goal.level / (1 - goal.level)) + (goal.max_missing or 0))
