"""Votes when some of the sites may send anything: the most likely way to reach the votes needed.

Faulty sites do most harm by sending -inf, so that all their votes are cast. The worst choice of sites is
taken for every coverage individually: P(C <= c) is at most the largest P(votes of the honest sites >= votes
needed less those of the faulty ones).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from scipy.optimize import elementwise

from fedconformal._typing import Floats, Ints
from fedconformal.laws._spectrum import Complex, Frame, departures, framed, power
from fedconformal.laws._tails import honest_counts, vote_tails, worth_adding
from fedconformal.laws._votes import Places, Votes

MOST_CHOICES = 1000
"""Ways to choose the faulty sites up to which all are tried."""

_GRID = 129
_HALVINGS = 40
_ROWS = 32
_HELD = 2**22  # numbers
_GRID_OF_CHOICES = 33
_FEW = 32  # choices whose small tails are worth their digits
_ROUNDING = 1e-13  # tails closer than this may be equal
_RESOLUTION = 1e-12  # of kinks, in units of the window


@dataclass(frozen=True, eq=False)
class Everyone:
    """All sites are counted, and ``gift`` votes are cast besides: a bound for any choice of faulty sites.

    Between ``first`` and ``last`` votes needed the threshold may be a number. With fewer it is -inf if faulty
    sites choose so, with more it is +inf.
    """

    finite: Votes
    gift: int

    @property
    def first(self) -> int:
        """Fewest votes needed that faulty sites cannot cast alone."""
        return self.gift + 1

    @property
    def last(self) -> int:
        """Most votes needed that finite numbers can reach."""
        return self.gift + self.finite.total

    def tails(self, ks: Ints, p: Floats, *, digits: bool) -> Floats:
        """Return P(votes >= k) at its worst, for each row of probabilities and each k; see ``vote_tails``."""
        return vote_tails(ks - self.gift, p, self.finite, digits=digits)

    def kinks(self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float) -> Floats:
        """Return coverages at which another choice becomes the worst, between ``low`` and ``high``.

        They are hints where to break an integral; ``below`` maps coverages to rows of probabilities.
        """
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
        """Return P(votes of the honest sites >= k - votes of the others)."""
        out = np.empty((len(p), ks.size))
        kept, which = np.unique(self._honest(p), axis=0, return_inverse=True)
        for i, counts in enumerate(kept):
            rows = which.ravel() == i
            out[rows] = vote_tails(ks - self.max_faulty, p[rows], self.finite.keeping(counts), digits=digits)
        return out

    def kinks(self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float) -> Floats:
        """Return where the order of the probabilities changes, by bisection."""
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
    """Return the number of ways to choose faulty sites by their blocks, or a number above the limit."""
    ways = [1] + [0] * max_faulty
    for count in counts.tolist():
        sums = [0, *accumulate(ways)]
        ways = [sums[j + 1] - sums[max(0, j - count)] for j in range(max_faulty + 1)]
        if ways[-1] > MOST_CHOICES:
            break
    return ways[-1]


@dataclass(frozen=True, eq=False)
class Choices:
    """All ways to choose faulty sites, by how many of each block, and the worst of them everywhere."""

    votes: Votes
    finite: Votes
    max_faulty: int

    @cached_property
    def _faulty(self) -> Ints:
        """Number of faulty sites of each block, for every choice."""
        choices = list(_choices(self.votes.counts.tolist(), 0, self.max_faulty))
        faulty = np.zeros((len(choices), self.votes.counts.size), dtype=np.int64)
        for row, choice in zip(faulty, choices, strict=True):
            row[list(choice)] = list(choice.values())
        return faulty

    @property
    def first(self) -> int:
        """More votes than any faulty sites have."""
        return self.votes.largest(self.max_faulty) + 1

    @cached_property
    def last(self) -> int:
        """Votes of all finite numbers, and of those that can be finite at faulty sites only."""
        return self.finite.total + int((self._faulty @ (self.votes.by_site - self.finite.by_site)).max())

    def tails(self, ks: Ints, p: Floats, *, digits: bool) -> Floats:
        """Return the largest tail of any choice."""
        if digits and len(self._faulty) <= _FEW and worth_adding(self.finite, len(p), digits=True):
            return np.asarray(np.max(list(self._added(ks, p)), axis=0))
        return np.asarray(self._each(ks, p).max(axis=0))

    def kinks(self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float) -> Floats:
        """Return where the tails of two choices cross, as far as the grid shows it."""
        grid = np.linspace(low, high, _GRID_OF_CHOICES)
        tails = self._each(ks, below(grid))
        worst = tails.argmax(axis=0)
        cell, k = np.nonzero(worst[1:] != worst[:-1])
        before, after = worst[cell, k], worst[cell + 1, k]
        gains = [tails[after, rows, k] - tails[before, rows, k] for rows in (cell, cell + 1)]
        clear = (gains[0] < -_ROUNDING) & (gains[1] > _ROUNDING)
        if not clear.any():
            return np.empty(0)

        def gained(c: Floats, before: Places, after: Places, k: Places) -> Floats:
            tails, rows = self._each(ks, below(c)), np.arange(c.size)
            return np.asarray(tails[after, rows, k] - tails[before, rows, k])

        roots = elementwise.find_root(
            gained,
            (grid[cell[clear]], grid[cell[clear] + 1]),
            args=(before[clear], after[clear], k[clear]),
            tolerances={"xatol": _RESOLUTION * (high - low), "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0},
        )
        return np.asarray(roots.bracket[1])

    def _added(self, ks: Ints, p: Floats) -> Iterator[Floats]:
        for faulty in self._faulty:
            needed = ks - int(faulty @ self.votes.by_site)
            yield vote_tails(needed, p, self.finite.keeping(self.finite.counts - faulty))

    def _each(self, ks: Ints, p: Floats) -> Floats:
        """Return the tails of every choice: shape (choices, rows, ks)."""
        each = self.finite.counts.size * (self.max_faulty + 1) * ks.size * (min(self.finite.total, 2048) + 1)
        parts = np.array_split(p, -(-len(p) // max(1, min(_ROWS, _HELD // each))) or 1)
        return np.concatenate([self._spectral(ks, part) for part in parts], axis=1)

    def _spectral(self, ks: Ints, p: Floats) -> Floats:
        """Return the same by characteristic functions, in which faulty sites cast all their votes."""
        if not len(p):
            return np.empty((len(self._faulty), 0, ks.size))
        frame = framed(p, self.finite, given=self.first - 1, faulty=self.max_faulty)
        factors = self._factors(p, frame)
        weights = np.conj(frame.levels * (frame.turns(-ks[:, None, None] * frame.frequencies) - frame.ends))
        waves = _waves(factors, _lasts(factors, weights), 0, self.max_faulty, np.ones_like(factors[0][0]))
        return frame.completed(np.stack(list(waves)), ks)

    def _factors(self, p: Floats, frame: Frame) -> list[list[Complex]]:
        """Return each block's characteristic functions of the votes with 0, 1, ... of its sites faulty."""
        factors = [[np.ones((len(p), frame.frequencies.size), dtype=complex)]] * self.finite.counts.size
        for count, cast, blocks in self.finite.kinds:
            for b, site in zip(blocks, departures(p[:, blocks], frame.steps(cast)), strict=True):
                given = frame.turns(self.votes.by_site[b] * frame.frequencies)
                honest = range(count, max(count - self.max_faulty, 0) - 1, -1)
                factors[b] = [power(site[None], h) * given ** (count - h) for h in honest]
        return factors


def _lasts(factors: list[list[Complex]], weights: Complex) -> list[list[Complex]]:
    """Return, for each block, the factors from it on times the weights, if the last faulty sites are its.

    Conjugate, and of shape (ks, rows, frequencies): the sum of a product's real parts is then an inner
    product.
    """
    lasts = []
    for block in reversed(factors):
        lasts.append([weights * np.conj(factor) for factor in block])
        weights = lasts[-1][0]
    return lasts[::-1]


def _waves(
    factors: list[list[Complex]], lasts: list[list[Complex]], first: int, left: int, product: Complex
) -> Iterator[Floats]:
    """Yield sums over frequencies, (rows, ks), with ``left`` sites faulty of the blocks from ``first`` on."""
    for b in range(first, len(factors)):
        for a in range(1, min(left, len(factors[b]) - 1) + 1):
            if a == left:
                yield np.einsum("rx,krx->rk", product.view(float), lasts[b][a].view(float))
            else:
                yield from _waves(factors, lasts, b + 1, left - a, product * factors[b][a])
        product = product * factors[b][0]


def _choices(counts: list[int], first: int, left: int) -> Iterator[dict[int, int]]:
    """Yield the number of faulty sites by block, in the order of ``_waves``."""
    if left == 0:
        yield {}
        return
    for b in range(first, len(counts)):
        for a in range(1, min(left, counts[b]) + 1):
            for others in _choices(counts, b + 1, left - a):
                yield {b: a, **others}


Tally = Everyone | OneVoteEach | Choices
"""How the votes of a federation are counted."""


def choose_tally(votes: Votes, finite: Votes, max_faulty: int) -> Tally:
    """Return how to count, from all votes, those of finite numbers, and the number of faulty sites."""
    if max_faulty == 0:
        return Everyone(finite, 0)
    if votes.weights.shape[1] == 1 and (votes.weights == 1).all():
        return OneVoteEach(votes, finite, max_faulty)
    if n_choices(votes.counts, max_faulty) <= MOST_CHOICES:
        return Choices(votes, finite, max_faulty)
    return Everyone(finite, votes.largest(max_faulty))
