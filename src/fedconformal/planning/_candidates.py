"""Ranks and votes that are tried for sites of different sizes, or for several numbers per site.

The ranks of a site lie round the level's own rank, moved by an offset and spaced in units of the standard
deviation of the site's count of scores below the level's quantile. Votes are in proportion to that standard
deviation as well: a number scatters by 1 / sqrt(n), and a weighted median is sharpest with weights inverse
to that; with several numbers, votes then count scores, as pooling does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal._validation import rank_of
from fedconformal.documents import SiteKind, total_sites
from fedconformal.planning._ballot import Goal, counts_of, sizes_of

_OFFSETS = np.linspace(-1.5, 1.5, 61)  # of the middle rank, in standard deviations
_SPACINGS = np.linspace(0.2, 1.4, 17)  # of neighbouring ranks, likewise
_UNITS = np.array([1, 2, 3, 4, 6, 8, 12])  # votes of the largest site, which sends one number
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
        """Whether all sites have one size, one number and one vote: the setting of the paper."""
        return self.n_points.size == 1 and self.numbers == 1 and bool((self.weights == 1).all())

    @cached_property
    def finite(self) -> Ints:
        """Votes of each number, 0 for those that are infinite."""
        return np.asarray(self.weights * (self.ranks <= self.n_points[:, None]))

    @cached_property
    def finite_votes(self) -> Ints:
        """Votes of all finite numbers together."""
        return np.asarray(self.finite.sum(axis=2) @ self.counts)

    def tops(self, row: int) -> Ints:
        """Return the largest finite rank of each block's sites that has a vote; 0 if there is none."""
        return np.asarray(np.where(self.finite[row] > 0, self.ranks[row], 0).max(axis=1))

    def limits(self, max_faulty: int) -> tuple[Ints, Ints]:
        """Return the fewest and most votes that faulty sites can neither cast nor withhold."""
        sites = np.repeat(self.weights.sum(axis=2), np.minimum(self.counts, max_faulty), axis=1)
        lies = np.sort(sites, axis=1)[:, ::-1][:, :max_faulty].sum(axis=1)
        return lies + 1, self.finite_votes - lies


def heaviest(votes: Ints, n_sites: int) -> int:
    """Return the votes of the sites that have most."""
    return int(np.sort(votes)[::-1][:n_sites].sum())


def given_ranks(n_points: Ints, counts: Ints, ranks: Ints, weights: Ints | None = None) -> Candidates:
    """Return one candidate with ranks of shape (blocks, numbers), one vote each unless weights are given."""
    votes = np.ones(ranks.shape, dtype=np.int64) if weights is None else weights
    return Candidates(n_points, counts, ranks[None], votes[None])


def common_share(sites: Sequence[SiteKind], share: Fraction) -> Candidates:
    """Return the ranks of one share, one vote each (paper, appendix A.1)."""
    ranks = np.array([[rank_of(share, kind.n)] for kind in sites])
    return given_ranks(sizes_of(sites), counts_of(sites), ranks)


def maxima(sites: Sequence[SiteKind]) -> Candidates:
    """Return the candidate in which each site sends its largest score; no other has a larger threshold."""
    return given_ranks(sizes_of(sites), counts_of(sites), sizes_of(sites)[:, None])


def equal_sites(sites: Sequence[SiteKind], goal: Goal) -> Candidates:
    """Return every rank that can matter for sites of one size and one number."""
    (low, high), n = share_window(sites, goal), int(sizes_of(sites)[0])
    first, last = max(1, math.floor(low * (n + 1))), min(n, math.ceil(high * (n + 1)))
    ranks = np.unique(np.append(np.arange(first, last + 1), n))[:, None, None]
    return Candidates(sizes_of(sites), counts_of(sites), ranks, np.ones_like(ranks))


def share_window(sites: Sequence[SiteKind], goal: Goal) -> tuple[float, float]:
    """Return the shares at which some site may lie on either side of the level's quantile.

    Outside, each site lies on one side but for a probability of miss / (20 m), by Bernstein's inequality.
    """
    n, level = sizes_of(sites), float(goal.level)
    miss = float(goal.delta) if goal.criterion.takes_delta else 1.0
    doubt = math.log(20 * total_sites(sites) / miss)
    reach: Floats = doubt / 3 + np.sqrt((doubt / 3) ** 2 + 2 * doubt * n * level * (1 - level))
    low, high = (level * n - reach) / (n + 1), (level * n + reach + 1) / (n + 1)
    return max(float(low.min()), 0.0), min(float(high.max()), float((n / (n + 1)).max()))


def candidates(sites: Sequence[SiteKind], goal: Goal, numbers: int) -> Candidates:
    """Return what is tried where sites send exactly this many numbers."""
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
    """The paper's ranks, and those of other common shares: all that differ, or an even choice."""
    n, (low, high) = sizes_of(sites), share_window(sites, goal)
    first, last = np.maximum(1, np.floor(low * (n + 1))), np.minimum(n, np.ceil(high * (n + 1)))
    most = max(1, _SHARES // n.size)
    shares = np.linspace(low, high, most)
    if (last - first + 1).clip(0).sum() <= most:
        ends = zip(first, last, n + 1, strict=True)
        shares = np.unique(np.concatenate([np.arange(start, stop + 1) / size for start, stop, size in ends]))
    ranks = np.clip(np.ceil(shares[:, None] * (n + 1) * (1 - 1e-15)), 1, n + 1).astype(np.int64)
    ranks = np.concatenate([common_share(sites, goal.level).ranks, ranks[:, :, None]])
    ranks = ranks[(ranks <= n[:, None]).any(axis=(1, 2))]
    return ranks, np.ones_like(ranks)


def _spaced(sites: Sequence[SiteKind], goal: Goal, numbers: int) -> Iterator[tuple[Ints, Ints]]:
    """Ranks in equal steps, with votes in proportion to the steps, in one or several roundings."""
    n, level = sizes_of(sites), float(goal.level)
    spread = np.sqrt(n * level * (1 - level))
    centres = level * (n + 1.0) + _OFFSETS[:, None] * spread
    finest = max(3, min(_FINEST, _VOTES // n.size))
    for spacing in _UNITS / spread.max() if numbers == 1 else _SPACINGS:
        wanted = np.maximum(1, np.rint(spacing * spread)).astype(np.int64)
        votes = np.maximum(1, np.rint(wanted * min(1.0, finest / wanted.max()))).astype(np.int64)
        for places, shares in _patterns(numbers):
            width = int(places[-1])
            step = np.clip(wanted, 1, np.maximum(1, (n - 1) // max(width, 1)))
            first = np.rint(centres - width / 2 * step).astype(np.int64)
            first = np.clip(first, 1, np.maximum(1, n - width * step))
            ranks = np.minimum(first[:, :, None] + places * step[:, None], (n + 1)[:, None])
            yield ranks, np.broadcast_to((votes // np.gcd.reduce(votes))[:, None] * shares, ranks.shape)


def _patterns(numbers: int) -> Iterator[tuple[Ints, Ints]]:
    """Places of the numbers, in steps from the first, and votes for the scores that they stand for."""
    yield np.arange(numbers), np.ones(numbers, dtype=np.int64)
    if numbers >= _STRETCHED:
        yield (
            np.r_[0, np.arange(2, numbers), numbers + 1],
            np.r_[4, 3, np.full(numbers - 4, 2), 3, 4],
        )
