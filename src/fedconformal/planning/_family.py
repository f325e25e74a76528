"""Which rank vectors are tried: one common share b for all sites, l_j = ceil(b (n_j + 1)) (paper, A.1)."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal._validation import rank_of

_WORK = 1_000_000  # entries of the rank matrix
_MOST = 16_384  # rank vectors tried at the most
_FEWEST = 64


@dataclass(frozen=True)
class Family:
    """Rank vectors in increasing order of their share."""

    n_points: Ints  # (groups,)
    counts: Ints  # (groups,)
    ranks: Ints  # (vectors, groups)
    shares: tuple[Fraction | None, ...]  # None for ranks that follow no common share

    def __len__(self) -> int:
        """How many rank vectors."""
        return len(self.shares)

    @property
    def n_sites(self) -> int:
        """How many sites."""
        return int(self.counts.sum())

    @property
    def finite_sites(self) -> Ints:
        """For each rank vector, how many sites send a finite number."""
        finite: Ints = ((self.ranks <= self.n_points) * self.counts).sum(axis=1)
        return finite


def fixed(n_points: Ints, counts: Ints, ranks: Ints) -> Family:
    """Just one rank vector."""
    return Family(n_points, counts, ranks[None, :], (None,))


def with_share(n_points: Ints, counts: Ints, share: Fraction) -> Family:
    """Just one share."""
    ranks = np.array([rank_of(share, int(n)) for n in n_points])
    return Family(n_points, counts, ranks[None, :], (share,))


def common_shares(n_points: Ints, counts: Ints, level: Fraction, *, miss: float = 1.0) -> Family:
    """All shares that can matter for a level, or an even choice of them where there are too many.

    Last comes the vector of all maxima, which reaches whatever any vector can. ``miss`` is how rarely the
    coverage may fall below the level, where that is what counts.

    Outside a few standard deviations of the level a share is hopeless: every site, or none, would lie below
    the level's quantile. Inside, the rank vector changes only at multiples of 1 / (n_j + 1).
    """
    low, high = _range(n_points, counts, float(level), miss)
    most = min(_MOST, max(_FEWEST, _WORK // n_points.size))
    sizes = np.unique(n_points)
    first, last = np.maximum(1, np.floor(low * (sizes + 1))), np.minimum(sizes, np.ceil(high * (sizes + 1)))
    if (last - first + 1).sum() <= most:
        shares = {
            Fraction(i, int(n) + 1)
            for n, start, stop in zip(sizes, first, last, strict=True)
            for i in range(int(start), int(stop) + 1)
        }
    else:
        base = math.ceil(most / (high - low))
        shares = {
            Fraction(i, base) for i in range(max(1, math.floor(low * base)), math.ceil(high * base) + 1)
        }
        shares = {share for share in shares if share < 1} | {level}
    ordered = sorted(shares)
    ranks = _ranks(n_points, ordered)
    new = np.r_[True, np.any(np.diff(ranks, axis=0), axis=1)] & (ranks <= n_points).any(axis=1)
    kept: list[Fraction | None] = [share for share, keep in zip(ordered, new, strict=True) if keep]
    ranks = ranks[new]
    if not len(ranks) or (ranks[-1] != n_points).any():
        ranks = np.concatenate([ranks, n_points[None, :]])
        kept.append(Fraction(int(n_points[0]), int(n_points[0]) + 1) if n_points.size == 1 else None)
    return Family(n_points, counts, ranks, tuple(kept))


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


def _ranks(n_points: Ints, shares: list[Fraction]) -> Ints:
    """``ceil(share * (n + 1))`` in exact integers."""
    largest = max(share.numerator for share in shares) * (int(n_points.max()) + 1)
    kind = np.int64 if largest < 2**62 else object
    numerators = np.array([share.numerator for share in shares], dtype=kind)[:, None]
    denominators = np.array([share.denominator for share in shares], dtype=kind)[:, None]
    return np.asarray(-(-numerators * (n_points + 1) // denominators), dtype=np.int64)
