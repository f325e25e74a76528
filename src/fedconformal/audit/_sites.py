"""Who sent what: kinds of sites with their votes, and which of them may be faulty."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

MOST_CHOICES = 1000
"""Ways to choose the faulty sites up to which all are tried."""

Entry = int | Sequence[int]
"""What a site has one or several of."""


class Kind(NamedTuple):
    """Sites of one size that sent the same ranks, in increasing order, with the same votes."""

    n: int
    ranks: tuple[int, ...]
    votes: tuple[int, ...]

    @property
    def all_votes(self) -> int:
        """Votes of all its numbers, infinite ones included."""
        return sum(self.votes)

    @property
    def finite(self) -> "Kind":
        """The same without infinite numbers: these never vote."""
        pairs = [(rank, vote) for rank, vote in zip(self.ranks, self.votes, strict=True) if rank <= self.n]
        return Kind(self.n, tuple(rank for rank, _ in pairs), tuple(vote for _, vote in pairs))

    @property
    def cast(self) -> tuple[int, ...]:
        """Votes when none, one, two, ... of its numbers lie below."""
        return tuple(accumulate(self.votes, initial=0))

    @property
    def turned(self) -> "Kind":
        """The same with ranks counted from above."""
        ranks = tuple(self.n + 1 - rank for rank in reversed(self.ranks))
        return Kind(self.n, ranks, self.votes[::-1])

    def in_units(self, unit: int) -> "Kind":
        """The same with votes counted in a larger unit."""
        return self._replace(votes=tuple(vote // unit for vote in self.votes))


class Honest(NamedTuple):
    """Sites that are counted, with finite numbers only, and the votes that they must reach."""

    kinds: Counter[Kind]
    needed: int

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return sum(self.kinds.values())

    @property
    def n_points(self) -> int:
        """The scores of all sites together."""
        return sum(count * kind.n for kind, count in self.kinds.items())

    @property
    def votes(self) -> int:
        """The votes of all sites."""
        return sum(count * kind.all_votes for kind, count in self.kinds.items())


class Choice(NamedTuple):
    """Sites that are left out, with finite numbers only, and the votes that the others must reach."""

    left_out: tuple[tuple[Kind, int], ...]
    needed: int


@dataclass(frozen=True)
class Sites:
    """All sites that sent a number, by kind.

    Parameters
    ----------
    kinds : mapping from Kind to int
        How many sites of each kind.
    server_rank : int
        Votes that the threshold needs.
    max_faulty : int
        How many sites may be arbitrary.
    """

    kinds: Mapping[Kind, int]
    server_rank: int
    max_faulty: int

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        ranks: Sequence[Entry],
        weights: Sequence[Entry] | None,
        counts: Sequence[int] | None,
        server_rank: int,
        max_faulty: int,
    ) -> "Sites":
        """From one entry for each site, or for so many alike; votes are counted in their largest unit."""
        each = [1] * len(sizes) if weights is None else map(_hashable, weights)
        alike = [1] * len(sizes) if counts is None else counts
        rows = Counter[tuple[int, int | tuple[int, ...], int | tuple[int, ...]]]()
        for n, sent, votes, count in zip(sizes, map(_hashable, ranks), each, alike, strict=True):
            rows[n, sent, votes] += count
        given = Counter[Kind]()
        for row, count in rows.items():
            given[_kind(*row)] += count
        asked = {kind: count for kind, count in given.items() if kind.votes}
        unit = math.gcd(*(vote for kind in asked for vote in kind.votes)) or 1
        kinds = {kind.in_units(unit): count for kind, count in asked.items()}
        return cls(kinds, -(-server_rank // unit), min(max_faulty, sum(kinds.values())))

    @cached_property
    def one_vote_each(self) -> bool:
        """Whether every site has one number and one vote."""
        return all(kind.votes == (1,) for kind in self.kinds)

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return sum(self.kinds.values())

    @cached_property
    def finite(self) -> Counter[Kind]:
        """The sites with finite numbers, without the infinite ones."""
        found = Counter[Kind]()
        for kind, count in self.kinds.items():
            found[kind.finite] += count
        return Counter({kind: count for kind, count in found.items() if kind.votes})

    def largest(self, *, infinite_only: bool = False) -> int:
        """The most votes that the faulty sites can have together, of all numbers or of infinite ones."""
        found, left = 0, self.max_faulty
        held = Counter[int]()
        for kind, count in self.kinds.items():
            held[kind.all_votes - (kind.finite.all_votes if infinite_only else 0)] += count
        for votes in sorted(held, reverse=True):
            out = min(left, held[votes])
            found, left = found + out * votes, left - out
        return found

    @cached_property
    def choices(self) -> list[Choice]:
        """Every choice of faulty sites, or where these are too many, one that is worse than any.

        If everybody is counted, and the votes needed are lowered by the largest that the faulty ones can
        have, no choice makes it more likely that the votes are reached.
        """
        if self.n_choices > MOST_CHOICES:
            return [Choice((), self.server_rank - self.largest())]
        return list(self._every_choice())

    @cached_property
    def n_choices(self) -> int:
        """In how many ways the faulty sites can be chosen, by kind; or some number above the limit."""
        ways = np.zeros(self.max_faulty + 1, dtype=np.int64)
        ways[0] = 1
        for count in self.kinds.values():
            sums = np.concatenate([[0], np.cumsum(ways)])
            last = np.arange(self.max_faulty + 1)
            ways = np.minimum(sums[last + 1] - sums[np.maximum(last - count, 0)], MOST_CHOICES + 1)
            if ways[-1] > MOST_CHOICES:
                break
        return int(ways[-1])

    def _every_choice(self) -> Iterator[Choice]:
        kinds = list(self.kinds.items())
        room = self.n_sites
        partial: list[tuple[tuple[tuple[Kind, int], ...], int]] = [((), self.max_faulty)]
        for kind, count in kinds:
            room -= count
            partial = [
                ((*chosen, (kind, out)) if out else chosen, left - out)
                for chosen, left in partial
                for out in range(max(0, left - room), min(left, count) + 1)
            ]
        for chosen, _ in partial:
            gift = sum(out * kind.all_votes for kind, out in chosen)
            finite = tuple((kind.finite, out) for kind, out in chosen if kind.finite.votes)
            yield Choice(finite, self.server_rank - gift)

    def honest(self, choice: Choice) -> Honest:
        """The sites that are counted under a choice."""
        kept = self.finite.copy()
        for kind, out in choice.left_out:
            kept[kind] -= out
        return Honest(+kept, choice.needed)


def _hashable(entry: Entry) -> int | tuple[int, ...]:
    return tuple(entry) if isinstance(entry, Sequence) else int(entry)


def _kind(n: int, ranks: int | tuple[int, ...], votes: int | tuple[int, ...]) -> Kind:
    """One site; all infinite numbers are one, as are numbers of one rank."""
    sent = (ranks,) if isinstance(ranks, int) else ranks
    each = (votes,) * len(sent) if isinstance(votes, int) else votes
    if n < 1 or any(rank < 1 for rank in sent) or any(vote < 1 for vote in each):
        raise ValueError(f"sizes, ranks and votes must be at least 1, got {n}, {sent} and {each}")
    held = Counter[int]()
    for rank, vote in zip(sent, each, strict=True):
        held[min(rank, n + 1)] += vote
    return Kind(n, tuple(sorted(held)), tuple(held[rank] for rank in sorted(held)))
