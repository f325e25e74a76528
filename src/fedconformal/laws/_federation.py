"""Distribution of the coverage of a whole federation, for many numbers of votes at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws._equal import OUTSIDE, equal_cdf, equal_moments
from fedconformal.laws._faulty import Tally, choose_tally
from fedconformal.laws._integration import integrate, window_moments
from fedconformal.laws._sites import OrderStatistics, SiteLaw
from fedconformal.laws._votes import Votes

_NOISE = 1e-14  # more than rounding leaves of a tail probability of zero, and less than matters
_TOLERANCE = 1e-13  # of integrals over a window scaled to length one
_LAST = float(np.nextafter(1.0, 0.0))  # the largest coverage below 1, where the cdf is continuous
_NARROW = 0.25  # steps narrower than this share of the window get panels of their own


@dataclass(frozen=True, eq=False)
class Federation:
    """Blocks of equal sites with votes, up to ``max_faulty`` of which may send anything.

    The threshold is the smallest reported value at which the votes of all numbers up to it reach those
    needed, so P(C <= c) = P(votes of the numbers below the c-quantile >= votes needed). With faulty sites
    it is a bound.

    Parameters
    ----------
    sites : SiteLaw
        Distribution of what the sites of each block send.
    counts : array of shape (blocks,)
        Number of sites of each block.
    max_faulty : int
        At most this many sites are arbitrary.
    weights : array of shape (blocks,) or (blocks, numbers), optional
        Votes of each number: whole numbers, 1 by default. Where blocks send different numbers of numbers,
        those that are not sent have weight 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import OrderStatistics
    >>> from fedconformal.laws import Federation
    >>> federation = Federation(OrderStatistics(np.array([100]), np.array([92])), np.array([10]))
    >>> federation.cdf(np.array([0.9]), np.array([4])).round(3)
    array([[0.407]])
    """

    sites: SiteLaw
    counts: Ints
    max_faulty: int = 0
    weights: Ints | None = None

    @property
    def n_sites(self) -> int:
        """Number of all sites, including faulty ones and those that send +inf."""
        return int(self.counts.sum())

    @property
    def n_votes(self) -> int:
        """Number of all votes, including those of infinite numbers."""
        return self._given.total

    @property
    def unit(self) -> int:
        """Largest number of votes of which every weight is a multiple."""
        return self._given.unit

    @cached_property
    def _infinite(self) -> Bools:
        """Numbers that are +inf: shape (blocks, numbers)."""
        return np.asarray(self.sites.sends_infinity).reshape(self.counts.size, -1)

    @cached_property
    def _given(self) -> Votes:
        shape = self._infinite.shape
        weights = np.ones(1, dtype=np.int64) if self.weights is None else np.asarray(self.weights)
        return Votes(self.counts, np.broadcast_to(weights.reshape(len(weights), -1), shape))

    @cached_property
    def _votes(self) -> Votes:
        """Votes in units of their greatest common divisor, which changes nothing but their size."""
        return Votes(self.counts, self._given.weights // self.unit)

    @cached_property
    def _finite(self) -> Votes:
        """Votes that can lie below some coverage."""
        return Votes(self.counts, np.where(self._infinite, 0, self._votes.weights))

    @cached_property
    def _tally(self) -> Tally:
        return choose_tally(self._votes, self._finite, self.max_faulty)

    def needed(self, ks: ArrayLike) -> Ints:
        """Return the votes needed in units of ``unit``."""
        return np.asarray(-(-np.asarray(ks) // self.unit))

    @cached_property
    def equal(self) -> tuple[int, int, int] | None:
        """Sites, points and rank when the sites that count are alike, exact, and send one number each."""
        if not isinstance(self.sites, OrderStatistics) or self._infinite.shape[1] > 1:
            return None
        votes = self._votes.weights[:, 0]
        counted = ~self._infinite[:, 0] & (self.counts > 0) & (votes > 0)
        # Sites that send +inf, or have no vote, matter only if that may be a lie.
        if (votes != 1)[counted | (self.max_faulty > 0)].any():
            return None
        columns = self.sites.n_points, self.sites.local_ranks.ravel()
        kinds = {*zip(*(column[counted].tolist() for column in columns), strict=True)}
        if len(kinds) != 1 or min(kinds)[1] < 1:
            return None
        n, rank = kinds.pop()
        return self._tally.last - self.max_faulty, n, rank

    def is_proper(self, ks: ArrayLike) -> Bools:
        """Return whether the threshold is neither surely -inf nor surely +inf, for each number of votes."""
        needed = self.needed(ks)
        return np.asarray((needed >= self._tally.first) & (needed <= self._tally.last))

    def certain(self, ks: ArrayLike) -> Floats:
        """Return the coverage where the threshold is surely -inf (0) or surely +inf (1)."""
        return np.where(self.needed(ks) < self._tally.first, 0.0, 1.0)

    def cdf(self, c: Floats, ks: Ints, *, digits: bool = True) -> Floats:
        """Return P(C <= c) for many coverages and votes needed at once.

        Parameters
        ----------
        c : array
            Coverages in [0, 1).
        ks : array
            Votes needed.
        digits : bool
            Whether small probabilities need a small relative error too, which costs more for many sites;
            else the absolute error is about 1e-15. With many choices of faulty sites whose votes differ it
            is anyway.

        Returns
        -------
        array of shape (len(c), len(ks))
        """
        if self.equal is not None and self.is_proper(ks).all():
            return equal_cdf(*self.equal, self.needed(ks)[None, :] - self.max_faulty, c[:, None])
        return self._tally.tails(self.needed(ks), self._below(c), digits=digits)

    def _below(self, c: Floats) -> Floats:
        """Return the probabilities of the numbers: shape (len(c), blocks, numbers)."""
        return self.sites.below(c).reshape(c.size, *self._infinite.shape)

    def moments(self, ks: Ints) -> tuple[Floats, Floats]:
        """Return mean and variance of the coverage for many votes needed at once.

        Parameters
        ----------
        ks : array
            Votes needed.

        Returns
        -------
        mean, variance : arrays of the shape of ``ks``
        """
        mean, variance = self.certain(ks), np.zeros(ks.shape)
        proper = self.is_proper(ks)
        if proper.any():
            mean[proper], variance[proper] = self._proper_moments(ks[proper])
        return mean, variance

    def _proper_moments(self, ks: Ints) -> tuple[Floats, Floats]:
        if self.equal is not None:
            m, n, l = self.equal
            return equal_moments(m, n, l, self.needed(ks) - self.max_faulty)
        low, high = self._window(ks)
        width = high - low

        def integrand(u: Floats) -> Floats:
            cdf = self.cdf(np.minimum(low + width * u, _LAST), ks, digits=False)
            return np.concatenate([cdf, u[:, None] * cdf], axis=1)

        kinks = self._tally.kinks(self.needed(ks), self._below, low, min(high, _LAST))
        edges = (self._edges(low, high, kinks) - low) / width
        area, lever = np.split(integrate(integrand, edges, tolerance=_TOLERANCE), 2)
        mean, variance = window_moments(np.asarray(low), np.asarray(high), area, lever)
        return mean, variance

    def _window(self, ks: Ints) -> tuple[float, float]:
        """Return where the coverage lies but for a negligible mass, first by bounds, then on grids."""
        ends = np.array([ks.min(), ks.max()])
        low, high = self.sites.bracket(*self._tail_probabilities(*self.needed(ends).tolist()))
        for _ in range(12):
            grid = np.linspace(low, high, 17)
            cdf = self.cdf(np.minimum(grid, _LAST), ends, digits=False)
            nothing, all_of_it = cdf[:, 0] <= _NOISE, cdf[:, 1] >= 1 - _NOISE
            i = int(np.argmin(nothing)) - 1 if not nothing.all() else 0
            j = int(np.argmax(all_of_it)) if all_of_it.any() else len(grid) - 1
            previous = high - low
            low, high = float(grid[max(i, 0)]), float(grid[max(j, i + 1, 1)])
            if high - low > previous / 2:
                break
        return low, high

    def _tail_probabilities(self, first: int, last: int) -> tuple[float, float]:
        """Return how unlikely a number must lie below, or above, for the votes to surely fail, or suffice."""
        honest = min(int(self.counts[self._finite.by_site > 0].sum()), self.n_sites - self.max_faulty)
        enough = self._finite.fewest_sites(first - self._tally.first + 1)
        missing = self._finite.fewest_sites(self._tally.last - last + 1)
        below, above = (
            float(special.betaincinv(sites, honest - sites + 1, OUTSIDE))
            for sites in np.clip([enough, missing], 1, honest)
        )
        return below, above

    def _edges(self, low: float, high: float, kinks: Floats) -> Floats:
        """Return the ends of panels: those of the window and of narrow steps, and kinks."""
        edges = np.array([low, high, *kinks[(kinks > low) & (kinks < high)]])
        if isinstance(self.sites, OrderStatistics):
            starts, ends = self.sites.steps(_NARROW * (high - low))
            for i in np.argsort(ends - starts):
                for x in (starts[i], ends[i]):
                    # Sites that are nearly alike share their panels.
                    if low < x < high and np.abs(edges - x).min() > (ends[i] - starts[i]) / 2:
                        edges = np.append(edges, x)
        return np.unique(edges)
