"""Votes when some of the sites may send anything: the most likely way to reach the votes needed.

Faulty sites do most harm by sending -inf, so that all their votes are cast. Which sites these are is taken
at its worst for every coverage by itself: P(C <= c) is at most the largest P(votes of the honest sites >=
votes needed less those of the faulty ones).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal.laws._choices import Choices
from fedconformal.laws._counts import honest_counts
from fedconformal.laws._tails import vote_tails
from fedconformal.laws._votes import Votes

MOST_CHOICES = 1000
"""Ways to choose the faulty sites up to which all are tried."""

_GRID = 129
_HALVINGS = 40


class Tally(Protocol):
    """Votes of a federation: between ``first`` and ``last`` votes needed the threshold may be a number.

    With fewer it is -inf if faulty sites want it, with more it is +inf.
    """

    @property
    def first(self) -> int:
        """The fewest votes needed that faulty sites cannot cast alone."""
        ...

    @property
    def last(self) -> int:
        """The most votes needed that can be reached by finite numbers."""
        ...

    def tails(self, ks: Ints, p: Floats, *, digits: bool) -> Floats:
        """P(votes >= k), at its worst, for each row of probabilities and each k (see ``vote_tails``)."""
        ...

    def kinks(self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float) -> Floats:
        """Where another choice of faulty sites becomes the worst: hints where to break an integral.

        ``below`` maps coverages to rows of probabilities; only those from ``low`` to ``high`` matter.
        """
        ...


def tally(votes: Votes, finite: Votes, max_faulty: int) -> Tally:
    """How votes are counted, from all votes, those of finite numbers, and how many sites may be faulty."""
    if max_faulty == 0:
        return Everyone(finite, 0)
    if votes.weights.shape[1] == 1 and (votes.weights == 1).all():
        return OneVoteEach(votes, finite, max_faulty)
    if n_choices(votes.counts, max_faulty) <= MOST_CHOICES:
        return Choices(votes, finite, max_faulty)
    return Everyone(finite, votes.largest(max_faulty))


@dataclass(frozen=True, eq=False)
class Everyone:
    """All sites are counted, and ``gift`` votes are cast besides: a bound whichever sites are faulty."""

    finite: Votes
    gift: int

    @property
    def first(self) -> int:
        """One vote more than the gift."""
        return self.gift + 1

    @property
    def last(self) -> int:
        """All votes of finite numbers, and the gift."""
        return self.gift + self.finite.total

    def tails(self, ks: Ints, p: Floats, *, digits: bool) -> Floats:
        """P(votes + gift >= k)."""
        return vote_tails(ks - self.gift, p, self.finite, digits=digits)

    def kinks(self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float) -> Floats:
        """There is no choice."""
        return np.empty(0)


@dataclass(frozen=True, eq=False)
class OneVoteEach:
    """One number and one vote for all: at worst those least likely to lie below are faulty."""

    votes: Votes
    finite: Votes
    max_faulty: int

    @property
    def first(self) -> int:
        """More votes than the faulty sites have."""
        return self.max_faulty + 1

    @property
    def last(self) -> int:
        """Votes of all sites with finite numbers, and of faulty ones without."""
        return min(self.votes.total, self.finite.total + self.max_faulty)

    def tails(self, ks: Ints, p: Floats, *, digits: bool) -> Floats:
        """P(votes of the honest sites >= k - votes of the others)."""
        out = np.empty((len(p), ks.size))
        kept, which = np.unique(self._honest(p), axis=0, return_inverse=True)
        for i, counts in enumerate(kept):
            rows = which.ravel() == i
            out[rows] = vote_tails(ks - self.max_faulty, p[rows], self.finite.keeping(counts), digits=digits)
        return out

    def kinks(self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float) -> Floats:
        """Where the order of the probabilities changes, by bisection."""
        grid = np.linspace(low, high, _GRID)
        at_grid = self._honest(below(grid))
        change = np.flatnonzero(np.any(at_grid[1:] != at_grid[:-1], axis=1))
        left, right, before = grid[change], grid[change + 1], at_grid[change]
        for _ in range(_HALVINGS if change.size else 0):
            middle = (left + right) / 2
            same = np.all(self._honest(below(middle)) == before, axis=1)
            left, right = np.where(same, middle, left), np.where(same, right, middle)
        return right

    def _honest(self, p: Floats) -> Ints:
        return honest_counts(p[..., 0], self.votes.counts, self.max_faulty)


def n_choices(counts: Ints, max_faulty: int) -> int:
    """In how many ways faulty sites can be chosen, by their blocks; or some number above the limit."""
    ways = [1] + [0] * max_faulty
    for count in counts.tolist():
        sums = [0, *accumulate(ways)]
        ways = [sums[j + 1] - sums[max(0, j - count)] for j in range(max_faulty + 1)]
        if ways[-1] > MOST_CHOICES:
            break
    return ways[-1]
