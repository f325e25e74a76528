"""Who casts how many votes: blocks of equal sites, each with what its numbers are worth."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedconformal._typing import Floats, Ints

Places = NDArray[np.intp]

_MOST_SITES = 64
_MOST_SUMS = 2**16


@dataclass(frozen=True, eq=False)
class Votes:
    """Independent sites: ``counts[b]`` of block b, whose numbers are worth ``weights[b, 0]``, ... votes.

    The numbers of a site are ordered, so i of them lie below exactly if the first i do: the site then casts
    the sum of its first i weights. Probabilities have the shape (rows, blocks, numbers) and say how likely at
    least 1, 2, ... numbers of a site of the block lie below; rows are laws of their own.
    """

    counts: Ints
    weights: Ints

    @cached_property
    def cast(self) -> Ints:
        """Votes of a site with 1, 2, ... numbers below: shape (blocks, numbers)."""
        return np.cumsum(self.weights, axis=1)

    @cached_property
    def by_site(self) -> Ints:
        """All votes of one site of each block."""
        return self.cast[:, -1]

    @cached_property
    def n_sites(self) -> int:
        """Number of sites."""
        return int(self.counts.sum())

    @cached_property
    def total(self) -> int:
        """All votes of all sites."""
        return int(self.counts @ self.by_site)

    @cached_property
    def unit(self) -> int:
        """The largest number of votes of which every weight is a multiple."""
        return math.gcd(*self.weights.ravel().tolist()) or 1

    @cached_property
    def kinds(self) -> list[tuple[int, Ints, Places]]:
        """Blocks with equal counts and votes: the count, the votes, and which blocks these are."""
        present = np.flatnonzero(self.counts > 0)
        rows = np.concatenate([self.counts[:, None], self.cast], axis=1)[present]
        kinds, which = np.unique(rows, axis=0, return_inverse=True)
        return [(int(kind[0]), kind[1:], present[which.ravel() == i]) for i, kind in enumerate(kinds)]

    @cached_property
    def n_kinds(self) -> int:
        """How many kinds of blocks there are."""
        rows = zip(self.counts.tolist(), self.cast.tolist(), strict=True)
        return len({(count, *cast) for count, cast in rows if count > 0})

    @property
    def one_by_one(self) -> Ints:
        """The block of each site."""
        return np.repeat(np.arange(self.counts.size), self.counts)

    @cached_property
    def sums(self) -> list[Ints] | None:
        """The sums of votes that can occur after each site, one by one; None if there are too many."""
        if self.n_sites > _MOST_SITES:
            return None
        sums = [np.zeros(1, dtype=np.int64)]
        together = _among_all if self.total <= _MOST_SUMS else _among_few
        for casts in self.cast[self.one_by_one].tolist():
            sums.append(together(sums[-1], casts))
            if sums[-1].size > _MOST_SUMS:
                return None
        return sums

    @cached_property
    def n_sums(self) -> int:
        """How many sums there are after each site, together; 0 if there are too many."""
        return sum(sums.size for sums in self.sums or ())

    @cached_property
    def moves(self) -> list[list[slice | Places]] | None:
        """Where each sum before a site is after it, for every number of votes that the site may cast."""
        if self.sums is None:
            return None
        return [
            [_places(after, before + cast) for cast in (0, *self.cast[b].tolist())]
            for b, before, after in zip(self.one_by_one, self.sums[:-1], self.sums[1:], strict=True)
        ]

    def keeping(self, counts: Ints) -> "Votes":
        """The same blocks with other counts."""
        return Votes(counts, self.weights)

    def largest(self, n_sites: int) -> int:
        """The most votes that this many sites can have together."""
        order = np.argsort(-self.by_site)
        counts = self.counts[order]
        before = np.cumsum(counts) - counts
        return int(np.clip(n_sites - before, 0, counts) @ self.by_site[order])

    def fewest_sites(self, votes: int) -> int:
        """How few sites can have this many votes together (one more than there are if all have fewer)."""
        order = np.argsort(-self.by_site)
        held = np.cumsum(self.counts[order] * self.by_site[order])
        i = int(np.searchsorted(held, votes))
        if i == held.size:
            return self.n_sites + 1
        missing, b = votes - int(held[i - 1] if i else 0), order[i]
        return int(self.counts[order[:i]].sum()) + -(-missing // int(self.by_site[b]))

    def mean(self, p: Floats) -> Floats:
        """Expected votes, for each row of probabilities."""
        return np.asarray(np.einsum("rbi,bi,b->r", p, self.weights, self.counts))

    def variance(self, p: Floats) -> Floats:
        """Variance of the votes, for each row of probabilities."""
        squares = np.diff(self.cast.astype(float) ** 2, axis=1, prepend=0)
        first, second = (np.einsum("rbi,bi->rb", p, steps) for steps in (self.weights, squares))
        return np.asarray(np.maximum(second - first**2, 0.0) @ self.counts)


def _among_all(before: Ints, casts: list[int]) -> Ints:
    """The sums after a site that casts none or some of these votes, marked among all there are."""
    there = np.zeros(int(before[-1]) + max(casts) + 1, dtype=bool)
    there[before] = True
    marks = there.copy()
    for cast in casts:
        marks[cast:] |= there[: there.size - cast]
    return np.flatnonzero(marks)


def _among_few(before: Ints, casts: list[int]) -> Ints:
    """The same where there may be far fewer than all."""
    return np.unique(np.add.outer([0, *casts], before))


def _places(among: Ints, values: Ints) -> slice | Places:
    """Where values are in a rising list: as a slice where they follow each other, which is fast."""
    start = int(values[0]) - int(among[0])
    if among[-1] - among[0] == among.size - 1 and values[-1] - values[0] == values.size - 1:
        return slice(start, start + values.size)
    places = np.searchsorted(among, values)
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first == places.size - 1 else places


def masses(p: Floats) -> Floats:
    """Probability of exactly 0, 1, ... numbers below, from that of at least 1, 2, ...: one entry more."""
    at_least = np.ones((*p.shape[:-1], p.shape[-1] + 2))
    at_least[..., 1:-1], at_least[..., -1] = p, 0.0
    exactly: Floats = np.maximum(at_least[..., :-1] - at_least[..., 1:], 0.0)
    return exactly
