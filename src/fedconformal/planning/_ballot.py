"""Numbers that sites send at one level, with their votes: a ballot that is solved, and
candidates for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from fedconformal._util import Floats, Ints, rank_of
from fedconformal.documents import Advice, RankRule, SiteKind, total_sites
from fedconformal.laws import CoverageLaw, OrderStatistics
from fedconformal.planning.criteria import Goal

Sites = tuple[SiteKind, ...]


@dataclass(frozen=True)
class Guarantee:
    """Guarantee for the coverage, whatever the scores are.

    Attributes
    ----------
    mean : float or None
        Lower bound of the mean coverage; None where there is none.
    coverage, probability : float or None
        The coverage is at least ``coverage`` with at least this probability, or at this
        share of new sites; None where only the mean is guaranteed.

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
        Ranks that each kind of site sends, in increasing order; n + 1 stands for +inf,
        none for sites that are not asked.
    votes : tuple of tuple of int
        Votes of each number.

    Examples
    --------
    >>> from fedconformal.documents import SiteKind
    >>> from fedconformal.planning import Ballot
    >>> Ballot((SiteKind(count=10, n=79),), ((71,),), ((1,),)).total_votes
    10
    """

    sites: Sites
    ranks: tuple[tuple[int, ...], ...]
    votes: tuple[tuple[int, ...], ...]

    @classmethod
    def from_ranks(
        cls, sites: Sequence[SiteKind], ranks: Iterable[tuple[int, ...]]
    ) -> Ballot:
        """Return a ballot in which every number has one vote."""
        listed = tuple(ranks)
        return cls(
            tuple(sites), listed, tuple((1,) * len(numbers) for numbers in listed)
        )

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
        return sum(
            kind.count * sum(votes)
            for kind, votes in zip(self.sites, self.votes, strict=True)
        )

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
        return sum(
            kind.count * votes
            for kind, votes in zip(self.sites, self.finite_by_kind, strict=True)
        )

    @cached_property
    def arrays(self) -> tuple[Ints, Ints, Ints]:
        """Sizes, ranks and votes; a number that is not sent has the rank n + 1 and no
        vote.
        """
        sizes = sizes_of(self.sites)
        return sizes, pad(self.ranks, sizes + 1), pad(self.votes, np.zeros_like(sizes))

    def merge(self) -> Ballot:
        """Return the same ballot with alike sites put together, and without those that
        are not asked.
        """
        counts: dict[tuple[SiteKind, tuple[int, ...], tuple[int, ...]], int] = {}
        for kind, ranks, votes in zip(self.sites, self.ranks, self.votes, strict=True):
            if ranks:
                alike = kind.model_copy(update={"names": (), "count": 1}), ranks, votes
                counts[alike] = counts.get(alike, 0) + kind.count
        kinds = tuple(
            kind.model_copy(update={"count": count})
            for (kind, _, _), count in counts.items()
        )
        return Ballot(
            kinds, tuple(key[1] for key in counts), tuple(key[2] for key in counts)
        )

    def law(self, needed: int, max_faulty: int = 0) -> CoverageLaw:
        """Return the distribution of the coverage if scores of all sites and new cases
        are alike.
        """
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
    """A ballot, the votes that the threshold needs, and advice where no votes
    suffice.
    """

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


def pad(rows: Iterable[tuple[int, ...]], fill: Ints) -> Ints:
    """Return rows of different lengths as an array, the rest filled with a number for
    each row.
    """
    listed = list(rows)
    table = np.repeat(np.asarray(fill)[:, None], max([1, *map(len, listed)]), axis=1)
    for i, row in enumerate(listed):
        table[i, : len(row)] = row
    return table


# -- candidates for sites of different sizes, or for several numbers per site ----------

# The ranks of a site lie round the level's own rank, moved by an offset and spaced in
# units of the standard deviation of the site's count of scores below the level's
# quantile. Votes are in proportion to that standard deviation as well: a number
# scatters by 1 / sqrt(n), and a weighted median is sharpest with weights inverse to
# that; with several numbers, votes then count scores, as pooling does.


_OFFSETS = np.linspace(-1.5, 1.5, 61)  # of the middle rank, in standard deviations
_SPACINGS = np.linspace(0.2, 1.4, 17)  # of neighbouring ranks, likewise
_UNITS = np.array(
    [1, 2, 3, 4, 6, 8, 12]
)  # votes of the largest site, which sends one number
_FINEST = 32  # votes of the largest site for each of several numbers, at the most
_VOTES = 300  # votes per number of all blocks together, about
_SHARES = 2048  # common shares of one vote each, over the blocks
_STRETCHED = 5  # numbers from which on the outermost are also placed a step further out


@dataclass(frozen=True, eq=False)
class Candidates:
    """Ranks and votes for the same sites, several times.

    Parameters
    ----------
    n_points, counts : array of shape (blocks,)
        Sizes, and the number of sites of each.
    ranks : array of shape (candidates, blocks, numbers)
        Ranks in increasing order; n + 1 for a number that is infinite, or not sent.
    weights : array of shape (candidates, blocks, numbers)
        Votes of each number of a site; 0 for one that is not sent.
    """

    n_points: Ints
    counts: Ints
    ranks: Ints
    weights: Ints

    def __len__(self) -> int:
        """Return the number of candidates."""
        return len(self.ranks)

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return int(self.counts.sum())

    @property
    def numbers(self) -> int:
        """Numbers that a site sends at the most."""
        return int(self.ranks.shape[2])

    @cached_property
    def is_plain(self) -> bool:
        """True if all sites have one size, one number and one vote: the setting of the
        paper.
        """
        return (
            self.n_points.size == 1
            and self.numbers == 1
            and bool((self.weights == 1).all())
        )

    @cached_property
    def finite(self) -> Ints:
        """Votes of each number, 0 for those that are infinite."""
        return np.asarray(self.weights * (self.ranks <= self.n_points[:, None]))

    @cached_property
    def finite_votes(self) -> Ints:
        """Votes of all finite numbers together."""
        return np.asarray(self.finite.sum(axis=2) @ self.counts)

    def tops(self, row: int) -> Ints:
        """Return the largest finite rank of each block's sites that has a vote; 0 if
        there is none.
        """
        return np.asarray(
            np.where(self.finite[row] > 0, self.ranks[row], 0).max(axis=1)
        )

    def limits(self, max_faulty: int) -> tuple[Ints, Ints]:
        """Return the fewest and most votes that faulty sites can neither cast nor
        withhold.
        """
        sites = np.repeat(
            self.weights.sum(axis=2), np.minimum(self.counts, max_faulty), axis=1
        )
        lies = np.sort(sites, axis=1)[:, ::-1][:, :max_faulty].sum(axis=1)
        return lies + 1, self.finite_votes - lies


def single_candidate(
    n_points: Ints, counts: Ints, ranks: Ints, weights: Ints | None = None
) -> Candidates:
    """Return one candidate with ranks of shape (blocks, numbers), one vote each by
    default.
    """
    votes = np.ones(ranks.shape, dtype=np.int64) if weights is None else weights
    return Candidates(n_points, counts, ranks[None], votes[None])


def common_share(sites: Sequence[SiteKind], share: Fraction) -> Candidates:
    """Return the ranks of one share, one vote each (paper, appendix A.1)."""
    ranks = np.array([[rank_of(share, kind.n)] for kind in sites])
    return single_candidate(sizes_of(sites), counts_of(sites), ranks)


def maxima(sites: Sequence[SiteKind]) -> Candidates:
    """Return the candidate in which each site sends its largest score; no other has a
    larger threshold.
    """
    return single_candidate(sizes_of(sites), counts_of(sites), sizes_of(sites)[:, None])


def equal_sites(sites: Sequence[SiteKind], goal: Goal) -> Candidates:
    """Return every rank that can matter for sites of one size and one number."""
    (low, high), n = share_window(sites, goal), int(sizes_of(sites)[0])
    first, last = max(1, math.floor(low * (n + 1))), min(n, math.ceil(high * (n + 1)))
    ranks = np.unique(np.append(np.arange(first, last + 1), n))[:, None, None]
    return Candidates(sizes_of(sites), counts_of(sites), ranks, np.ones_like(ranks))


def share_window(sites: Sequence[SiteKind], goal: Goal) -> tuple[float, float]:
    """Return the shares at which some site may lie on either side of the level's
    quantile.

    Outside, each site lies on one side but for a probability of miss / (20 m), by
    Bernstein's inequality.
    """
    n, level = sizes_of(sites), float(goal.level)
    miss = float(goal.delta) if goal.criterion.takes_delta else 1.0
    doubt = math.log(20 * total_sites(sites) / miss)
    reach: Floats = doubt / 3 + np.sqrt(
        (doubt / 3) ** 2 + 2 * doubt * n * level * (1 - level)
    )
    low, high = (level * n - reach) / (n + 1), (level * n + reach + 1) / (n + 1)
    return max(float(low.min()), 0.0), min(
        float(high.max()), float((n / (n + 1)).max())
    )


def candidates(sites: Sequence[SiteKind], goal: Goal, numbers: int) -> Candidates:
    """Return the candidates in which sites send exactly this many numbers."""
    if numbers == 1 and sizes_of(sites).size == 1:
        return equal_sites(sites, goal)
    parts = [*_spaced(sites, goal, numbers)]
    if numbers == 1:
        parts.insert(0, _one_vote_each(sites, goal))
    ranks, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    weights = np.where(ranks <= sizes_of(sites)[:, None], weights, 0)
    rows = np.concatenate([ranks, weights], axis=2).reshape(len(ranks), -1)
    kept = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    return Candidates(sizes_of(sites), counts_of(sites), ranks[kept], weights[kept])


def _one_vote_each(sites: Sequence[SiteKind], goal: Goal) -> tuple[Ints, Ints]:
    """Return the paper's ranks, and those of other common shares: all that differ, or
    an even choice.
    """
    n, (low, high) = sizes_of(sites), share_window(sites, goal)
    first, last = (
        np.maximum(1, np.floor(low * (n + 1))),
        np.minimum(n, np.ceil(high * (n + 1))),
    )
    most = max(1, _SHARES // n.size)
    shares = np.linspace(low, high, most)
    if (last - first + 1).clip(0).sum() <= most:
        ends = zip(first, last, n + 1, strict=True)
        shares = np.unique(
            np.concatenate(
                [np.arange(start, stop + 1) / size for start, stop, size in ends]
            )
        )
    ranks = np.clip(np.ceil(shares[:, None] * (n + 1) * (1 - 1e-15)), 1, n + 1).astype(
        np.int64
    )
    ranks = np.concatenate([common_share(sites, goal.level).ranks, ranks[:, :, None]])
    ranks = ranks[(ranks <= n[:, None]).any(axis=(1, 2))]
    return ranks, np.ones_like(ranks)


def _spaced(
    sites: Sequence[SiteKind], goal: Goal, numbers: int
) -> Iterator[tuple[Ints, Ints]]:
    """Yield ranks in equal steps, with votes in proportion to the steps, in one or
    several roundings.
    """
    n, level = sizes_of(sites), float(goal.level)
    spread = np.sqrt(n * level * (1 - level))
    centres = level * (n + 1.0) + _OFFSETS[:, None] * spread
    finest = max(3, min(_FINEST, _VOTES // n.size))
    for spacing in _UNITS / spread.max() if numbers == 1 else _SPACINGS:
        wanted = np.maximum(1, np.rint(spacing * spread)).astype(np.int64)
        votes = np.maximum(1, np.rint(wanted * min(1.0, finest / wanted.max()))).astype(
            np.int64
        )
        for places, shares in _patterns(numbers):
            width = int(places[-1])
            step = np.clip(wanted, 1, np.maximum(1, (n - 1) // max(width, 1)))
            first = np.rint(centres - width / 2 * step).astype(np.int64)
            first = np.clip(first, 1, np.maximum(1, n - width * step))
            ranks = np.minimum(
                first[:, :, None] + places * step[:, None], (n + 1)[:, None]
            )
            yield (
                ranks,
                np.broadcast_to(
                    (votes // np.gcd.reduce(votes))[:, None] * shares, ranks.shape
                ),
            )


def _patterns(numbers: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield places of the numbers, in steps from the first, and votes for the scores
    that they stand for.
    """
    yield np.arange(numbers), np.ones(numbers, dtype=np.int64)
    if numbers >= _STRETCHED:
        yield (
            np.r_[0, np.arange(2, numbers), numbers + 1],
            np.r_[4, 3, np.full(numbers - 4, 2), 3, 4],
        )
