"""Which choices of ranks and weights are tried.

Sites of one size: every rank that can matter, each site one number and one vote (paper, section 3.2). Sites
of different sizes, or several numbers per site: ranks round a level's own, spaced in proportion to how far a
site's count of scores spreads there, with votes to match.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np

from fedconformal._typing import Bools, Floats, Ints
from fedconformal._validation import rank_of
from fedconformal.planning._shares import Shares

_WORK = 100_000  # entries of the rank matrix
_MOST = 16_384  # rank vectors tried at the most
_FEWEST = 256
_EXACT = 2**25  # fractions with smaller denominators differ by more than the rounding of a float
_OFFSET = 1.5  # of the middle rank from the level's own, in standard deviations, at the most
_SPACING = (0.2, 1.4)  # of neighbouring ranks, likewise
_UNITS = (1, 2, 3, 4, 6, 8, 12)  # votes of the largest site
_FEW = 50  # sizes up to which a finer grid is looked at
_STRETCHED = 5  # numbers from which on the outermost are also tried further out
_VOTES = 300  # of all blocks together, about, where votes count scores
_FINEST_VOTE = 32  # no site has more votes per number than this, where votes count scores


@dataclass(frozen=True, eq=False)
class Family:
    """Rank vectors with the weights of sites.

    Parameters
    ----------
    n_points, counts : array of shape (blocks,)
        Sizes, and how many sites have each.
    ranks : array of shape (vectors, blocks, numbers)
        Ranks in increasing order; n + 1 for a number that is infinite, or not sent.
    weights : array of shape (vectors, blocks, numbers)
        Votes of each number of a site; 0 for one that is not sent.
    shares : Shares
        The share that the ranks of each vector follow, ``ceil(share * (n + 1))``, where they follow one.
    """

    n_points: Ints
    counts: Ints
    ranks: Ints
    weights: Ints
    shares: Shares

    def __len__(self) -> int:
        """How many rank vectors."""
        return len(self.shares)

    @property
    def n_sites(self) -> int:
        """How many sites."""
        return int(self.counts.sum())

    @property
    def numbers(self) -> int:
        """How many numbers a site sends at the most."""
        return int(self.ranks.shape[2])

    @cached_property
    def is_plain(self) -> bool:
        """Whether all sites are of one size and send one number: the paper's setting."""
        return self.n_points.size == 1 and self.numbers == 1 and bool((self.weights == 1).all())

    @cached_property
    def finite_votes(self) -> Ints:
        """For each vector, the votes of all finite numbers together."""
        finite = self.ranks <= self.n_points[:, None]
        found: Ints = (over_numbers(self.weights * finite) * self.counts).sum(axis=1)
        return found

    def heaviest(self, f: int) -> Ints:
        """For each vector, the votes of the f sites that have most."""
        if f == 0:
            return np.zeros(len(self), dtype=np.int64)
        by_site = over_numbers(self.weights)
        order = np.argsort(-by_site, axis=1, kind="stable")
        votes, counts = np.take_along_axis(by_site, order, axis=1), self.counts[order]
        before = np.cumsum(counts, axis=1) - counts
        taken: Ints = (votes * np.clip(f - before, 0, counts)).sum(axis=1)
        return taken


Values = TypeVar("Values", Ints, Floats)


def over_numbers(values: Values) -> Values:
    """Sum what belongs to the numbers of a site, the last axis: most families have only one."""
    return values[..., 0] if values.shape[-1] == 1 else values.sum(axis=-1)


def chosen(family: Family, kept: Bools) -> Family | None:
    """Some vectors of a family; None if there is none."""
    if not kept.any():
        return None
    return Family(
        family.n_points, family.counts, family.ranks[kept], family.weights[kept], family.shares.chosen(kept)
    )


def fixed(n_points: Ints, counts: Ints, ranks: Ints, weights: Ints) -> Family:
    """Just one rank vector with its weights, both (blocks, numbers)."""
    return Family(n_points, counts, ranks[None], weights[None], Shares.none(1))


def with_share(n_points: Ints, counts: Ints, share: Fraction) -> Family:
    """Just one share, one vote each (paper, appendix A.1)."""
    ranks = np.array([rank_of(share, int(n)) for n in n_points])
    return _one_vote_each(n_points, counts, ranks[None, :], Shares.one(share))


def maxima(n_points: Ints, counts: Ints) -> Family:
    """Every site sends its largest score: whatever any ranks reach, these do."""
    return _one_vote_each(n_points, counts, n_points[None, :], _share_of_maxima(n_points))


def _share_of_maxima(n_points: Ints) -> Shares:
    """Sites of one size follow a share then."""
    return Shares.one(Fraction(int(n_points[0]), int(n_points[0]) + 1) if n_points.size == 1 else None)


def alone(n_points: Ints, counts: Ints, block: int, ranks: Ints) -> Family:
    """Only the sites of one block are asked, for each of these ranks."""
    others = np.repeat((n_points + 1)[None, :], ranks.size, axis=0)
    others[:, block] = ranks
    weights = np.zeros(others.shape, dtype=np.int64)
    weights[:, block] = 1
    return Family(n_points, counts, others[:, :, None], weights[:, :, None], Shares.none(ranks.size))


def _one_vote_each(n_points: Ints, counts: Ints, ranks: Ints, shares: Shares) -> Family:
    """Vectors of one rank for each block."""
    return Family(n_points, counts, ranks[:, :, None], np.ones((*ranks.shape, 1), dtype=np.int64), shares)


def common_shares(n_points: Ints, counts: Ints, level: Fraction, *, miss: float = 1.0) -> Family:
    """All shares that can matter for a level, or an even choice where there are too many; one vote each.

    Last comes the vector of all maxima. ``miss`` is how rarely the coverage may fall below the level, where
    that is what counts.

    Outside a few standard deviations of the level a share is hopeless: every site, or none, would lie below
    the level's quantile. Inside, the rank vector changes only at multiples of 1 / (n_j + 1).
    """
    low, high = _range(n_points, counts, float(level), miss)
    most = min(_MOST, max(_FEWEST, _WORK // n_points.size))
    tops, bottoms = _shares_between(low, high, np.unique(n_points), level, most)
    ranks = _ranks(n_points, tops, bottoms)
    new = np.r_[True, np.any(np.diff(ranks, axis=0), axis=1)] & (ranks <= n_points).any(axis=1)
    ranks, kept = ranks[new], Shares(tops[new], bottoms[new])
    if not len(ranks) or (ranks[-1] != n_points).any():
        ranks = np.concatenate([ranks, n_points[None, :]])
        kept = Shares.joined([kept, _share_of_maxima(n_points)])
    return _one_vote_each(n_points, counts, ranks, kept)


def _shares_between(low: float, high: float, sizes: Ints, level: Fraction, most: int) -> tuple[Ints, Ints]:
    """Numerators and denominators of the shares at which some rank changes, or of an even choice; rising."""
    first = np.maximum(1, np.floor(low * (sizes + 1))).astype(np.int64)
    last = np.minimum(sizes, np.ceil(high * (sizes + 1))).astype(np.int64)
    counts = np.maximum(last - first + 1, 0)
    if counts.sum() > most:
        return _even_shares(low, high, level, math.ceil(most / (high - low)))
    bottoms = np.repeat(sizes + 1, counts)
    tops = np.arange(bottoms.size) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    if int(sizes[-1]) < _EXACT:  # fractions that differ differ as floats
        kept = np.unique(tops / bottoms, return_index=True)[1]
    else:
        places = {
            Fraction(*pair): i for i, pair in enumerate(zip(tops.tolist(), bottoms.tolist(), strict=True))
        }
        kept = np.array([places[share] for share in sorted(places)], dtype=np.int64)
    tops, bottoms = tops[kept], bottoms[kept]
    divisor = np.gcd(tops, bottoms)
    return tops // divisor, bottoms // divisor


def _even_shares(low: float, high: float, level: Fraction, base: int) -> tuple[Ints, Ints]:
    """All multiples of 1 / base, and the level."""
    start, stop = max(1, math.floor(low * base)), min(math.ceil(high * base), base - 1)
    tops, bottoms = list(range(start, stop + 1)), [base] * max(0, stop + 1 - start)
    place = max(0, math.ceil(level * base) - start)
    if (level * base).denominator > 1 or not start <= level * base <= stop:
        tops.insert(place, level.numerator)
        bottoms.insert(place, level.denominator)
    kind = np.int64 if level.denominator < 2**62 else object
    return np.array(tops, dtype=kind), np.array(bottoms, dtype=kind)


def weighted(n_points: Ints, counts: Ints, level: Fraction) -> Family:
    """One number per site, with votes in proportion to the square root of its size, in several roundings.

    A site's number scatters by 1 / sqrt(n) round the level, and a weighted median is sharpest with weights
    inverse to that.
    """
    spread = _spread(n_points, float(level))
    middle = _middle(n_points, level)
    ranks = np.clip(np.rint(middle + _offsets(n_points)[:, None] * spread), 1, n_points).astype(np.int64)
    root = np.sqrt(n_points / n_points.max())
    units = np.maximum(1, np.rint(np.array(_UNITS)[:, None] * root)).astype(np.int64)
    return _crossed(n_points, counts, ranks[:, :, None], units)


def spaced(n_points: Ints, counts: Ints, level: Fraction, numbers: int) -> Family:
    """Several numbers per site, spaced in proportion to a site's spread, with votes that count scores.

    Spaced evenly; where there are many, also with the outermost a step further out and votes to match.
    """
    spread, middle = _spread(n_points, float(level)), _middle(n_points, level)
    centres = middle + _offsets(n_points)[:, None] * spread
    finest = max(3, min(_FINEST_VOTE, _VOTES // n_points.size))
    parts = []
    for spacing in np.linspace(*_SPACING, 17 if n_points.size <= _FEW else 9):
        step = np.maximum(1, np.rint(spacing * spread)).astype(np.int64)
        unit = max(1.0, float(step.max()) / finest)
        votes = np.maximum(1, np.rint(step / unit)).astype(np.int64)
        for places, shares in _patterns(numbers):
            ranks = _placed(n_points, centres, step, places)
            parts.append(_crossed(n_points, counts, ranks, votes[None, :], shares))
    return joined(parts)


def _patterns(numbers: int) -> list[tuple[Ints, Ints]]:
    """Where numbers lie, in steps from the first, and votes in proportion to the scores they stand for."""
    even = (np.arange(numbers), np.ones(numbers, dtype=np.int64))
    if numbers < _STRETCHED:
        return [even]
    places = np.r_[0, np.arange(2, numbers), numbers + 1]
    votes = np.full(numbers, 2)
    votes[[0, -1]], votes[[1, -2]] = 4, 3
    return [even, (places, votes)]


def joined(families: list[Family]) -> Family:
    """Families of the same sites and as many numbers, one after the other, without repetitions."""
    first = families[0]
    ranks = np.concatenate([family.ranks for family in families])
    weights = np.concatenate([family.weights for family in families])
    shares = Shares.joined([family.shares for family in families])
    rows = np.concatenate([ranks, weights], axis=1).reshape(len(ranks), -1)
    listed = rows.view((np.void, rows.itemsize * rows.shape[1])).ravel().tolist()
    last = len(listed) - 1
    kept = sorted({row: last - i for i, row in enumerate(reversed(listed))}.values())
    return Family(first.n_points, first.counts, ranks[kept], weights[kept], shares.chosen(kept))


def _crossed(n_points: Ints, counts: Ints, ranks: Ints, weights: Ints, shares: Ints | None = None) -> Family:
    """Every rank vector with every choice of weights for the blocks, these in lowest terms.

    ``shares`` are the votes of a site's numbers relative to each other.
    """
    weights = np.unique(weights // np.gcd.reduce(weights, axis=1, keepdims=True), axis=0)
    v, w = len(ranks), len(weights)
    every = np.repeat(ranks, w, axis=0)
    sent = every <= n_points[None, :, None]
    votes = np.tile(weights, (v, 1))[:, :, None] * (1 if shares is None else shares) * sent
    return Family(n_points, counts, every, votes, Shares.none(v * w))


def _placed(n_points: Ints, centres: Floats, step: Ints, places: Ints) -> Ints:
    """Ranks round each centre that lie between 1 and n; a site with too few scores sends all it has."""
    width = int(places[-1])
    fits = np.where(n_points > width, (n_points - 1) // max(width, 1), 1)
    step = np.maximum(1, np.minimum(step, fits))
    first = np.rint(centres - width / 2 * step).astype(np.int64)
    first = np.clip(first, 1, np.maximum(1, n_points - width * step))
    ranks = first[:, :, None] + places * step[None, :, None]
    return np.where(ranks <= n_points[None, :, None], ranks, n_points[None, :, None] + 1)


def _offsets(n_points: Ints) -> Floats:
    """Offsets of the middle rank that are tried: fewer where every look costs more."""
    return np.linspace(-_OFFSET, _OFFSET, 61 if n_points.size <= _FEW else 21)


def _spread(n_points: Ints, level: float) -> Floats:
    """Standard deviation of the number of a site's scores below the level's quantile."""
    return np.asarray(np.sqrt(n_points * level * (1 - level)))


def _middle(n_points: Ints, level: Fraction) -> Floats:
    return np.asarray(float(level) * (n_points + 1.0))


def _range(n_points: Ints, counts: Ints, level: float, miss: float) -> tuple[float, float]:
    """Shares for which some site may lie on either side of the level's quantile.

    Bernstein's inequality: outside, each site is on one side but for a probability of miss / (20 m).
    """
    doubt = math.log(20 * counts.sum() / miss)
    reach: Floats = doubt / 3 + np.sqrt((doubt / 3) ** 2 + 2 * doubt * n_points * level * (1 - level))
    low = (level * n_points - reach) / (n_points + 1)
    high = (level * n_points + reach + 1) / (n_points + 1)
    top = n_points / (n_points + 1)  # above this share a site sends +inf
    return max(float(low.min()), 0.0), min(float(high.max()), float(top.max()))


def _ranks(n_points: Ints, tops: Ints, bottoms: Ints) -> Ints:
    """``ceil(share * (n + 1))`` in exact integers."""
    largest = int(tops.max(initial=0)) * (int(n_points.max()) + 1)
    kind = np.int64 if largest < 2**62 else object
    return np.asarray(
        -(-tops.astype(kind)[:, None] * (n_points + 1) // bottoms.astype(kind)[:, None]), dtype=np.int64
    )
