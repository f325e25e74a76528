"""What to expect of private reports if the scores' distribution over the bins were known: no bound.

A site's counts are multinomial, and its release follows from the counts by the mechanism's own law. Where
there are few histograms all of them are gone through; else some are drawn, with a fixed seed, and the error
is stated.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints
from fedconformal.laws import Federation
from fedconformal.privacy._aims import Aim
from fedconformal.privacy._release import PrivateRelease
from fedconformal.privacy._released import Tabulated

_MOST_CELLS = 4_000  # bins of all histograms up to which every histogram is gone through
_DRAWN_CELLS = 2_000_000  # bins of all histograms that are drawn, at the most
_CHEAP_CELLS = 300_000  # that are drawn in any case, unless that is too many histograms
_BLOCK = 32_768  # bins of histograms that stay in the processor's cache
_SMALL = 2**31 - 1  # errors up to this are whole numbers of 32 bits
_ERROR = 0.0005  # the standard error of a site's coverage that is aimed at
_SEED = 20230711
_STEP = 1e-4  # of a numerical derivative

FEWEST_DRAWS = 512
"""Histograms that are drawn at the least, for each size of site."""
MOST_DRAWS = 32_768
"""Histograms that are drawn at the most."""

_IN_TAIL = 16  # draws that should lie beyond the release that is kept


def draws_for(k: int, m: int) -> int:
    """How many draws it takes to see the k-th smallest of m releases.

    Parameters
    ----------
    k : int
        The rank that is kept.
    m : int
        How many releases there are.

    Returns
    -------
    int
        So many that a few lie beyond it on either side.

    Examples
    --------
    >>> from fedconformal.privacy import draws_for
    >>> draws_for(5, 10) > 0
    True
    """
    return -(-_IN_TAIL * m // max(min(k, m - k + 1), 1))


def ranks_seen(draws: int, m: int) -> range:
    """The ranks for which so many draws are enough, in the sense of `draws_for`.

    Parameters
    ----------
    draws : int
        How many histograms are drawn.
    m : int
        How many releases there are.

    Returns
    -------
    range
        From some rank to the same from above; empty if there are none.

    Examples
    --------
    >>> from fedconformal.privacy import ranks_seen
    >>> 5 in ranks_seen(10_000, 10)
    True
    """
    first = max(-(-_IN_TAIL * m // draws), 1)
    return range(first, m - first + 2)


@dataclass(frozen=True, eq=False)
class ExpectedCoverage:
    """The law of the coverage to expect, over the bins.

    Parameters
    ----------
    coverage : array of float
        The coverage of a threshold at each bin's right edge.
    chance : array of float
        How likely each bin becomes the threshold.
    error : float
        Standard error of ``mean``; 0 where nothing was simulated.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.privacy import ExpectedCoverage
    >>> expected = ExpectedCoverage(coverage=np.array([0.75, 1.0]), chance=np.array([0.25, 0.75]))
    >>> float(expected.mean())
    0.9375
    """

    coverage: Floats
    chance: Floats
    error: float = 0.0

    def mean(self) -> float:
        """Mean coverage.

        Returns
        -------
        float
            With a standard error of ``error``.
        """
        return min(float(self.coverage @ self.chance), 1.0)

    def std(self) -> float:
        """Standard deviation of the coverage.

        Returns
        -------
        float
            Of the coverage given the calibration data.
        """
        return math.sqrt(max(float(self.chance @ (self.coverage - self.mean()) ** 2), 0.0))


@dataclass(frozen=True, eq=False)
class Releases:
    """Histograms of a site with what their releases depend on; drawn or gone through once for many aims.

    Parameters
    ----------
    n : int
        How many scores the site has.
    masses : array of float
        The share of scores in each bin.
    release : PrivateRelease
        What the site does; its aim may still be open.
    rng : int
        The seed of the draws. What was chosen by some draws must be judged by others.
    most : int
        How many histograms are drawn at the most.
    fewest : int
        How many are drawn at the least, unless that is more than at the most.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.privacy import even
    >>> from fedconformal.privacy import Releases
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10))
    >>> (release,) = fc.plan(n_sites=5, n_points=100, privacy=privacy).releases
    >>> law = Releases(100, even(10), release).law(release)
    >>> round(float(law.sum()), 6)
    1.0
    """

    n: int
    masses: Floats
    release: PrivateRelease
    rng: int = 0
    most: int = MOST_DRAWS
    fewest: int = FEWEST_DRAWS

    @cached_property
    def is_exact(self) -> bool:
        """Whether every histogram is gone through."""
        bins = np.count_nonzero(self.masses)
        return math.comb(self.n + bins - 1, bins - 1) * self.masses.size <= _MOST_CELLS

    @cached_property
    def _counts(self) -> Ints:
        if not self.is_exact:
            return self._rng(0).multinomial(self.n, self.masses, size=self.n_draws)
        used = np.flatnonzero(self.masses)
        counts = np.zeros((math.comb(self.n + used.size - 1, used.size - 1), self.masses.size), np.int64)
        counts[:, used] = _histograms(self.n, used.size)
        return counts

    @property
    def n_draws(self) -> int:
        """How many histograms are drawn: more where the coverage of a site's release spreads more."""
        noise = (math.log(self.masses.size) + 2) / float(self.release.epsilon) / self.n
        wanted = ((0.3 / math.sqrt(self.n) + noise + float(self.masses.max()) / 2) / _ERROR) ** 2
        most = min(self.most, max(_DRAWN_CELLS // self.masses.size, FEWEST_DRAWS))
        return int(min(max(wanted, self.fewest, _CHEAP_CELLS // self.masses.size), most))

    @cached_property
    def _chances(self) -> Floats:
        """The probability of each histogram."""
        if not self.is_exact:
            return np.full(len(self._counts), 1 / len(self._counts))
        logs = special.gammaln(self.n + 1) + special.xlogy(self._counts, self.masses).sum(axis=1)
        return np.asarray(np.exp(logs - special.gammaln(self._counts + 1.0).sum(axis=1)))

    @cached_property
    def _ends(self) -> tuple[Ints, Ints]:
        """Scores below each bin and up to it; in 32 bits, which are looked through in half the time."""
        at_most = np.cumsum(self._counts, axis=1)
        kind: Any = np.int32 if self.n <= _SMALL else np.int64
        return (at_most - self._counts).astype(kind), at_most.astype(kind)

    @cached_property
    def _noise(self) -> Floats:
        # The same noise for every aim: what differs between two aims is then not luck.
        return self.release.mechanism.noise(self._rng(1), self._counts.shape)

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([_SEED, self.rng, stream])

    def law(self, release: PrivateRelease) -> Floats:
        """How likely each bin is released: shape (bins,)."""
        if self.is_exact:
            return self._chances @ release.pmf(self._counts)
        assert release.aim is not None
        aim, scale = release.aim, release.scale  # exact arithmetic: once, not for each block
        drawn = np.concatenate([self._drawn(aim, scale, rows) for rows in self._blocks])
        return np.bincount(drawn, minlength=self.masses.size) / len(drawn)

    def _drawn(self, aim: Aim, scale: float, rows: slice) -> Ints:
        """The bins that are released for some of the histograms."""
        below, at_most = (each[rows] for each in self._ends)
        if 2 * self.n * max(aim.change, aim.quantile.denominator) > _SMALL:
            below, at_most = below.astype(np.int64), at_most.astype(np.int64)
        errors = aim.errors(below, at_most, self.n)
        bins: Ints = np.argmax(self._noise[rows] - errors / scale, axis=1)
        return bins

    @property
    def _blocks(self) -> list[slice]:
        step = max(1, _BLOCK // self.masses.size)
        return [slice(start, start + step) for start in range(0, len(self._counts), step)]

    def variance(self, law: Floats, of: Floats) -> float:
        """How uncertain the mean of a function of the released bin is."""
        if self.is_exact:
            return 0.0
        return max(float(law @ of**2 - (law @ of) ** 2), 0.0) / len(self._counts)


def even(n_bins: int) -> Floats:
    """The masses of scores that lie evenly over the bins.

    Parameters
    ----------
    n_bins : int
        How many bins there are.

    Returns
    -------
    array of float
        All alike.

    Examples
    --------
    >>> from fedconformal.privacy import even
    >>> even(4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    return np.full(n_bins, 1 / n_bins)


def expected_coverage(
    releases: Sequence[Releases],
    release: PrivateRelease,
    counts: Ints,
    server_rank: int,
    *,
    with_error: bool = True,
) -> ExpectedCoverage:
    """The coverage to expect when the server keeps one of the sites' releases.

    Parameters
    ----------
    releases : sequence of Releases
        For the sites of each block.
    release : PrivateRelease
        What each site does.
    counts : array of int
        How many sites each block has.
    server_rank : int
        The rank of the release that is kept; more than there are sites for +inf.
    with_error : bool
        Whether its error is wanted, which takes a while; 0 if not.

    Returns
    -------
    ExpectedCoverage
        Over the bins.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> from fedconformal.privacy import Releases, even
    >>> from fedconformal.privacy import expected_coverage
    >>> privacy = fc.Privacy(8.0, fc.Bins.uniform(0, 1, 10))
    >>> (release,) = fc.plan(n_sites=5, n_points=100, privacy=privacy).releases
    >>> releases = [Releases(100, even(10), release)]
    >>> 0 < expected_coverage(releases, release, np.array([5]), 3).mean() < 1
    True
    """
    coverage = np.minimum(np.cumsum(releases[0].masses), 1.0)
    coverage[-1] = 1.0
    if server_rank > counts.sum():
        return ExpectedCoverage(coverage, np.eye(coverage.size)[-1])
    laws = [each.law(release) for each in releases]
    below = np.minimum(np.cumsum(np.stack(laws, axis=1), axis=0), 1.0)
    at_most = _kept(below, counts, server_rank)
    at_most[-1] = 1.0
    variance = sum(
        each.variance(law, _influence(below, block, coverage, counts, server_rank))
        for block, (each, law) in enumerate(zip(releases, laws, strict=True))
        if with_error and not each.is_exact
    )
    return ExpectedCoverage(coverage, np.diff(at_most, prepend=0.0), math.sqrt(variance))


def _kept(below: Floats, counts: Ints, k: int) -> Floats:
    """How likely the k-th smallest release lies in each bin or a lower one."""
    federation = Federation(Tabulated(below), counts)
    found: Floats = federation.cdf(np.zeros(len(below)), np.array([k]), digits=False)[:, 0]
    return found


def _influence(below: Floats, block: int, coverage: Floats, counts: Ints, k: int) -> Floats:
    """By how much a release in each bin moves the mean coverage, to first order."""
    moved = np.zeros_like(below)
    moved[:, block] = _STEP
    up, down = np.minimum(below + moved, 1.0), np.maximum(below - moved, 0.0)
    rises = (_kept(up, counts, k) - _kept(down, counts, k)) / (up - down)[:, block]
    lost = np.append(np.diff(coverage) * rises[:-1], 0.0)
    return -np.cumsum(lost[::-1])[::-1]


def _histograms(n: int, n_bins: int) -> Ints:
    """All ways to put n scores into bins."""
    if n_bins == 1:
        return np.array([[n]])
    return np.concatenate(
        [np.insert(_histograms(n - first, n_bins - 1), 0, first, axis=1) for first in range(n + 1)]
    )
