"""The worst choice of faulty sites whose votes differ: all of them are tried."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal.laws._roots import rising_roots
from fedconformal.laws._spectrum import Complex, Frame, departures, framed, power
from fedconformal.laws._tails import vote_tails, worth_adding
from fedconformal.laws._votes import Places, Votes

_ROWS = 32
_HELD = 2**22  # numbers
_GRID = 33
_FEW = 32  # choices whose small tails are worth their digits
_ROUNDING = 1e-13  # tails closer than this may be equal
_RESOLUTION = 1e-12  # of kinks, in units of the window


@dataclass(frozen=True, eq=False)
class Choices:
    """All ways to choose faulty sites, by how many of each block, and the worst of them everywhere."""

    votes: Votes
    finite: Votes
    max_faulty: int

    @cached_property
    def _faulty(self) -> Ints:
        """Every choice: how many sites of each block are faulty."""
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
        """The largest tail of any choice."""
        if digits and len(self._faulty) <= _FEW and worth_adding(self.finite, len(p), digits=True):
            return np.asarray(np.max(list(self._added(ks, p)), axis=0))
        return np.asarray(self._each(ks, p).max(axis=0))

    def kinks(self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float) -> Floats:
        """Where the tails of two choices cross, as far as the grid shows it."""
        grid = np.linspace(low, high, _GRID)
        tails = self._each(ks, below(grid))
        worst = tails.argmax(axis=0)
        cell, k = np.nonzero(worst[1:] != worst[:-1])
        before, after = worst[cell, k], worst[cell + 1, k]

        def gained(tails: Floats, rows: Places, of: slice | Places = slice(None)) -> Floats:
            return np.asarray(tails[after[of], rows, k[of]] - tails[before[of], rows, k[of]])

        clear = np.flatnonzero((gained(tails, cell) < -_ROUNDING) & (gained(tails, cell + 1) > _ROUNDING))
        return rising_roots(
            lambda c: gained(self._each(ks, below(c)), np.arange(c.size), clear),
            grid[cell[clear]],
            grid[cell[clear] + 1],
            resolution=_RESOLUTION * (high - low),
        )

    def _added(self, ks: Ints, p: Floats) -> Iterator[Floats]:
        for faulty in self._faulty:
            needed = ks - int(faulty @ self.votes.by_site)
            yield vote_tails(needed, p, self.finite.keeping(self.finite.counts - faulty))

    def _each(self, ks: Ints, p: Floats) -> Floats:
        """Tails of every choice: shape (choices, rows, ks)."""
        each = self.finite.counts.size * (self.max_faulty + 1) * ks.size * (min(self.finite.total, 2048) + 1)
        parts = np.array_split(p, -(-len(p) // max(1, min(_ROWS, _HELD // each))) or 1)
        return np.concatenate([self._spectral(ks, part) for part in parts], axis=1)

    def _spectral(self, ks: Ints, p: Floats) -> Floats:
        """The same by characteristic functions, in which faulty sites cast their votes for certain."""
        if not len(p):
            return np.empty((len(self._faulty), 0, ks.size))
        frame = framed(p, self.finite, given=self.first - 1, faulty=self.max_faulty)
        factors = self._factors(p, frame)
        weights = np.conj(frame.levels * (frame.turns(-ks[:, None, None] * frame.frequencies) - frame.ends))
        waves = _waves(factors, _lasts(factors, weights), 0, self.max_faulty, np.ones_like(factors[0][0]))
        return frame.completed(np.stack(list(waves)), ks)

    def _factors(self, p: Floats, frame: Frame) -> list[list[Complex]]:
        """For each block, the characteristic function of its sites' votes with 0, 1, ... of them faulty."""
        factors = [[np.ones((len(p), frame.frequencies.size), dtype=complex)]] * self.finite.counts.size
        for count, cast, blocks in self.finite.kinds:
            for b, site in zip(blocks, departures(p[:, blocks], frame.steps(cast)), strict=True):
                given = frame.turns(self.votes.by_site[b] * frame.frequencies)
                honest = range(count, max(count - self.max_faulty, 0) - 1, -1)
                factors[b] = [power(site[None], h) * given ** (count - h) for h in honest]
        return factors


def _lasts(factors: list[list[Complex]], weights: Complex) -> list[list[Complex]]:
    """For each block, the factors from it on times the weights of frequencies, if the last faulty are its.

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
    """Sums over frequencies, (rows, ks), with ``left`` sites faulty of the blocks from ``first`` on."""
    for b in range(first, len(factors)):
        for a in range(1, min(left, len(factors[b]) - 1) + 1):
            if a == left:
                yield np.einsum("rx,krx->rk", product.view(float), lasts[b][a].view(float))
            else:
                yield from _waves(factors, lasts, b + 1, left - a, product * factors[b][a])
        product = product * factors[b][0]


def _choices(counts: list[int], first: int, left: int) -> Iterator[dict[int, int]]:
    """How many sites of which blocks are faulty, in the order of ``_waves``."""
    if left == 0:
        yield {}
        return
    for b in range(first, len(counts)):
        for a in range(1, min(left, counts[b]) + 1):
            for others in _choices(counts, b + 1, left - a):
                yield {b: a, **others}
