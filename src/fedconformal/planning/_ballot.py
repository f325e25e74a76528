"""Numbers that sites send at one level, with their votes: the object that is searched, solved and judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from fedconformal._typing import Ints
from fedconformal.documents import Advice, Design, RankRule, SiteKind
from fedconformal.laws import CoverageLaw, OrderStatistics
from fedconformal.planning.criteria import CRITERIA, Criterion, Stable

# -- what a design must achieve at one level ---------------------------------------------------------------


USUAL_DELTA = Fraction(1, 10)


@dataclass(frozen=True)
class Goal:
    """A level, and the criterion under which it is to be reached.

    Parameters
    ----------
    level : Fraction
        The coverage that was asked for.
    criterion : Criterion
        Which choices are valid, and which is best.
    delta : Fraction
        Probability of failure that is allowed, for criteria that take it.
    max_faulty : int
        Number of reports that may be arbitrary.
    max_missing : int or None
        Number of sites that may be missing, in any combination, without making the threshold infinite. None:
        one, where that costs next to nothing.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.planning import Goal
    >>> Goal(Fraction(9, 10)).criterion.name
    'stable'
    """

    level: Fraction
    criterion: Criterion = field(default_factory=Stable)
    delta: Fraction = USUAL_DELTA
    max_faulty: int = 0
    max_missing: int | None = None

    @classmethod
    def of(cls, design: Design, place: int) -> Goal:
        """Return the goal of one level of a design."""
        return cls(
            design.levels[place].confidence_level,
            CRITERIA[design.criterion](),
            design.delta or USUAL_DELTA,
            design.max_faulty,
            design.max_missing,
        )


@dataclass(frozen=True)
class Guarantee:
    """Guarantee for the coverage, whatever the scores are.

    Attributes
    ----------
    mean : float or None
        Lower bound of the mean coverage; None where there is none.
    coverage, probability : float or None
        The coverage is at least ``coverage`` with at least this probability, or at this share of new sites;
        None where only the mean is guaranteed.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 100, "B": 50}, promise="mixture")
    >>> plan.guarantee.mean >= 0.9
    True
    """

    mean: float | None = None
    coverage: float | None = None
    probability: float | None = None


@dataclass(frozen=True)
class Ballot:
    """Ranks and votes of sites that are alike, for one confidence level.

    Parameters
    ----------
    sites : tuple of SiteKind
        The sites.
    ranks : tuple of tuple of int
        Ranks that each kind of site sends, in increasing order; n + 1 stands for +inf, none for sites that
        are not asked.
    votes : tuple of tuple of int
        Votes of each number.

    Examples
    --------
    >>> from fedconformal.documents import SiteKind
    >>> from fedconformal.planning import Ballot
    >>> Ballot((SiteKind(count=10, n=79),), ((71,),), ((1,),)).total_votes
    10
    """

    sites: tuple[SiteKind, ...]
    ranks: tuple[tuple[int, ...], ...]
    votes: tuple[tuple[int, ...], ...]

    @classmethod
    def of_ranks(cls, sites: Sequence[SiteKind], ranks: Iterable[tuple[int, ...]]) -> Ballot:
        """Return a ballot in which every number has one vote."""
        listed = tuple(ranks)
        return cls(tuple(sites), listed, tuple((1,) * len(each) for each in listed))

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return sum(kind.count for kind in self.sites)

    @cached_property
    def counts(self) -> Ints:
        """Number of sites of each kind."""
        return counts_of(self.sites)

    @property
    def total_votes(self) -> int:
        """Votes of all sites."""
        return sum(kind.count * sum(votes) for kind, votes in zip(self.sites, self.votes, strict=True))

    @cached_property
    def finite_by_kind(self) -> list[int]:
        """Votes of the finite numbers of one site of each kind."""
        rows = zip(self.sites, self.ranks, self.votes, strict=True)
        return [
            sum(vote for rank, vote in zip(ranks, votes, strict=True) if rank <= kind.n)
            for kind, ranks, votes in rows
        ]

    @property
    def finite_votes(self) -> int:
        """Votes of all finite numbers."""
        return sum(kind.count * votes for kind, votes in zip(self.sites, self.finite_by_kind, strict=True))

    @cached_property
    def arrays(self) -> tuple[Ints, Ints, Ints]:
        """Sizes, ranks and votes; a number that is not sent has the rank n + 1 and no vote."""
        sizes = sizes_of(self.sites)
        return sizes, padded(self.ranks, sizes + 1), padded(self.votes, np.zeros_like(sizes))

    def merged(self) -> Ballot:
        """Return the same ballot with alike sites put together, and without those that are not asked."""
        counts: dict[tuple[SiteKind, tuple[int, ...], tuple[int, ...]], int] = {}
        for kind, ranks, votes in zip(self.sites, self.ranks, self.votes, strict=True):
            if ranks:
                alike = kind.model_copy(update={"names": (), "count": 1}), ranks, votes
                counts[alike] = counts.get(alike, 0) + kind.count
        kinds = tuple(kind.model_copy(update={"count": count}) for (kind, _, _), count in counts.items())
        return Ballot(kinds, tuple(key[1] for key in counts), tuple(key[2] for key in counts))

    def law(self, needed: int, max_faulty: int = 0) -> CoverageLaw:
        """Return the distribution of the coverage if scores of all sites and new cases are alike."""
        sizes, ranks, votes = self.arrays
        return CoverageLaw.of_sites(
            OrderStatistics(sizes, ranks),
            self.counts,
            server_rank=needed,
            max_faulty=max_faulty,
            weights=votes,
        )


@dataclass(frozen=True)
class Solution:
    """A ballot, the votes that the threshold needs, and advice where no votes suffice."""

    ballot: Ballot
    needed: int
    advice: Advice | None = None
    rule: RankRule | None = None

    @property
    def is_finite(self) -> bool:
        """True if the level can be reached."""
        return self.advice is None


def sizes_of(sites: Sequence[SiteKind]) -> Ints:
    """Return the size of each kind of site."""
    return np.array([kind.n for kind in sites], dtype=np.int64)


def counts_of(sites: Sequence[SiteKind]) -> Ints:
    """Return the number of sites of each kind."""
    return np.array([kind.count for kind in sites], dtype=np.int64)


def padded(rows: Iterable[tuple[int, ...]], fill: Ints) -> Ints:
    """Return rows of different lengths as an array, the rest filled with a number for each row."""
    listed = list(rows)
    table = np.repeat(np.asarray(fill)[:, None], max([1, *map(len, listed)]), axis=1)
    for i, row in enumerate(listed):
        table[i, : len(row)] = row
    return table
