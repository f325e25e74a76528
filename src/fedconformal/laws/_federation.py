"""The reports of a whole federation, as a law: how many of them lie below a given coverage."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws._counts import count_tails, honest_counts
from fedconformal.laws._moments import OUTSIDE, equal_cdf, equal_moments, from_window, integrate
from fedconformal.laws._sites import OrderStatistics, SiteLaw

_NOISE = 4e-16  # what rounding leaves of a tail probability of zero
_TOLERANCE = 1e-13  # of integrals over a window scaled to length one


@dataclass(frozen=True, eq=False)
class Federation:
    """Blocks of equal sites, up to ``max_faulty`` of which may send anything.

    Faulty sites do most harm by sending -inf, and the honest ones are then taken to be those most likely to
    lie below: P(C <= c) <= P(count over the m - f honest sites >= k - f).
    """

    sites: SiteLaw
    counts: Ints
    max_faulty: int = 0

    @property
    def n_sites(self) -> int:
        """All sites, faulty ones and those that send +inf included."""
        return int(self.counts.sum())

    @cached_property
    def n_counted(self) -> int:
        """Honest sites that can lie below: any rank above this (plus the faulty ones) gives +inf."""
        infinite = int(self.counts[self.sites.sends_infinity].sum())
        return min(self.n_sites - self.max_faulty, self.n_sites - infinite)

    @cached_property
    def equal(self) -> tuple[int, int, int] | None:
        """(sites, points, rank) when the sites that count are all alike and exact."""
        if not isinstance(self.sites, OrderStatistics):
            return None
        finite = ~self.sites.sends_infinity & (self.counts > 0)
        kinds = {
            (int(n), int(l))
            for n, l in zip(self.sites.n_points[finite], self.sites.local_ranks[finite], strict=True)
        }
        if len(kinds) != 1 or min(kinds)[1] < 1:
            return None
        return (self.n_counted, *kinds.pop())

    def is_proper(self, ks: ArrayLike) -> Bools:
        """Ranks for which the threshold is neither surely -inf nor surely +inf."""
        rank = np.asarray(ks) - self.max_faulty
        return (rank >= 1) & (rank <= self.n_counted)

    def cdf(self, c: Floats, ks: Ints) -> Floats:
        """P(C <= c) for coverages c in [0, 1) and server ranks ks: shape (len(c), len(ks))."""
        ranks = ks - self.max_faulty
        if self.equal is not None and self.is_proper(ks).all():
            return equal_cdf(*self.equal, ranks[None, :], c[:, None])
        p = self.sites.below(c)
        if self.max_faulty == 0:
            return count_tails(ranks, p, self.counts)
        out = np.empty((c.size, ks.size))
        for rows, counts in self._honest(p):
            out[rows] = count_tails(ranks, p[rows], counts)
        return out

    def _honest(self, p: Floats) -> list[tuple[NDArray[np.intp], Ints]]:
        """Nodes that leave out the same sites as faulty, and how many of each block stay."""
        kept, which = np.unique(honest_counts(p, self.counts, self.max_faulty), axis=0, return_inverse=True)
        return [(np.flatnonzero(which.ravel() == i), counts) for i, counts in enumerate(kept)]

    def moments(self, ks: Ints) -> tuple[Floats, Floats]:
        """Mean and variance of the coverage for each server rank."""
        mean = np.where(ks - self.max_faulty < 1, 0.0, 1.0)
        variance = np.zeros(ks.shape)
        proper = self.is_proper(ks)
        if proper.any():
            mean[proper], variance[proper] = self._proper_moments(ks[proper])
        return mean, variance

    def _proper_moments(self, ks: Ints) -> tuple[Floats, Floats]:
        if self.equal is not None:
            m, n, l = self.equal
            return equal_moments(m, n, l, ks - self.max_faulty)
        low, high = self._window(ks)
        width = high - low

        def integrand(u: Floats) -> Floats:
            cdf = self.cdf(low + width * u, ks)
            return np.concatenate([cdf, u[:, None] * cdf], axis=1)

        edges = (np.array([low, *self._kinks(low, high), high]) - low) / width
        area, lever = np.split(integrate(integrand, edges, tolerance=_TOLERANCE), 2)
        mean, variance = from_window(np.asarray(low), np.asarray(high), area, lever)
        return mean, variance

    def _kinks(self, low: float, high: float) -> Floats:
        """Where the worst choice of faulty sites changes, and with it the slope of the cdf."""
        if self.max_faulty == 0 or self.sites.n_blocks == 1:
            return np.empty(0)

        def kept(c: Floats) -> Ints:
            return honest_counts(self.sites.below(c), self.counts, self.max_faulty)

        grid = np.linspace(low, high, 129)
        at_grid = kept(grid)
        change = np.flatnonzero(np.any(at_grid[1:] != at_grid[:-1], axis=1))
        left, right, before = grid[change], grid[change + 1], at_grid[change]
        for _ in range(50 if change.size else 0):
            middle = (left + right) / 2
            same = np.all(kept(middle) == before, axis=1)
            left, right = np.where(same, middle, left), np.where(same, right, middle)
        inside = (right > low) & (right < high)
        return np.unique(right[inside])

    def _window(self, ks: Ints) -> tuple[float, float]:
        """Where the coverage lies but for a negligible mass, first by bounds, then by looking."""
        first, last = int(ks.min()), int(ks.max())
        m, least, most = self.n_counted, first - self.max_faulty, last - self.max_faulty
        v = float(special.betaincinv(least, m - least + 1, OUTSIDE))
        w = float(special.betaincinv(m - most + 1, most, OUTSIDE))
        low, high = self.sites.bracket(v, w)
        for _ in range(12):
            grid = np.linspace(low, high, 17)
            inner = np.clip(grid, 0.0, np.nextafter(1.0, 0.0))
            cdf = self.cdf(inner, np.array([first, last]))
            nothing, all_of_it = cdf[:, 0] <= _NOISE, cdf[:, 1] >= 1 - _NOISE
            i = int(np.argmin(nothing)) - 1 if not nothing.all() else 0
            j = int(np.argmax(all_of_it)) if all_of_it.any() else len(grid) - 1
            previous = high - low
            low, high = float(grid[max(i, 0)]), float(grid[max(j, i + 1, 1)])
            if high - low > previous / 2:
                break
        return low, high
