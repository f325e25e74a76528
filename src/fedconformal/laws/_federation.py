"""The reports of a whole federation, as a law: how many votes lie below a given coverage."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws._equal import OUTSIDE, equal_cdf, equal_moments
from fedconformal.laws._faulty import Tally, tally
from fedconformal.laws._integration import from_window, integrate
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
        What the sites of each block send.
    counts : array of shape (blocks,)
        How many sites each block has.
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
        """All sites, faulty ones and those that send +inf included."""
        return int(self.counts.sum())

    @property
    def n_votes(self) -> int:
        """All votes, those of infinite numbers included."""
        return self._given.total

    @property
    def unit(self) -> int:
        """The largest number of votes of which every weight is a multiple."""
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
        """The votes in units of their greatest common divisor, which changes nothing but their size."""
        return Votes(self.counts, self._given.weights // self.unit)

    @cached_property
    def _finite(self) -> Votes:
        """Votes that can lie below some coverage."""
        return Votes(self.counts, np.where(self._infinite, 0, self._votes.weights))

    @cached_property
    def _tally(self) -> Tally:
        return tally(self._votes, self._finite, self.max_faulty)

    def needed(self, ks: ArrayLike) -> Ints:
        """Votes needed, in units of ``unit``."""
        return np.asarray(-(-np.asarray(ks) // self.unit))

    @cached_property
    def equal(self) -> tuple[int, int, int] | None:
        """(sites, points, rank) when the sites that count are alike, exact, and send one number each."""
        if not isinstance(self.sites, OrderStatistics) or self._infinite.shape[1] > 1:
            return None
        votes = self._votes.weights[:, 0]
        heard = ~self._infinite[:, 0] & (self.counts > 0) & (votes > 0)
        # Who sends +inf, or has no vote, matters only if that may be a lie.
        if (votes != 1)[heard | (self.max_faulty > 0)].any():
            return None
        kinds = set(
            zip(
                self.sites.n_points[heard].tolist(),
                self.sites.local_ranks.ravel()[heard].tolist(),
                strict=True,
            )
        )
        if len(kinds) != 1 or min(kinds)[1] < 1:
            return None
        return (self._tally.last - self.max_faulty, *kinds.pop())

    @property
    def alike(self) -> dict[str, Any]:
        """Size, ranks and weights when there is one block of exact sites, for people."""
        if not isinstance(self.sites, OrderStatistics) or self.sites.n_blocks > 1:
            return {}
        said = {"n_points": int(self.sites.n_points[0]), "local_rank": _shown(self.sites.local_ranks[0])}
        weights = self._given.weights[0]
        return said if (weights == 1).all() else {**said, "weights": _shown(weights)}

    def is_proper(self, ks: ArrayLike) -> Bools:
        """Votes needed for which the threshold is neither surely -inf nor surely +inf."""
        needed = self.needed(ks)
        return np.asarray((needed >= self._tally.first) & (needed <= self._tally.last))

    def certain(self, ks: ArrayLike) -> Floats:
        """The coverage where the threshold is surely -inf (0) or surely +inf (1)."""
        return np.where(self.needed(ks) < self._tally.first, 0.0, 1.0)

    def cdf(self, c: Floats, ks: Ints, *, digits: bool = True) -> Floats:
        """P(C <= c) for many coverages and votes needed at once.

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
        """Probabilities of the numbers: shape (len(c), blocks, numbers)."""
        return self.sites.below(c).reshape(c.size, *self._infinite.shape)

    def moments(self, ks: Ints) -> tuple[Floats, Floats]:
        """Mean and variance of the coverage for many votes needed at once.

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

        edges = (self._edges(low, high, self._kinks(low, high, ks)) - low) / width
        area, lever = np.split(integrate(integrand, edges, tolerance=_TOLERANCE), 2)
        mean, variance = from_window(np.asarray(low), np.asarray(high), area, lever)
        return mean, variance

    def _window(self, ks: Ints) -> tuple[float, float]:
        """Where the coverage lies but for a negligible mass, first by bounds, then by looking."""
        ends = np.array([ks.min(), ks.max()])
        low, high = self.sites.bracket(*self._rare(*self.needed(ends).tolist()))
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

    def _rare(self, first: int, last: int) -> tuple[float, float]:
        """How unlikely a number must lie below, or above, so that the votes surely fail, or suffice."""
        honest = min(int(self.counts[self._finite.by_site > 0].sum()), self.n_sites - self.max_faulty)
        enough = self._finite.fewest_sites(first - self._tally.first + 1)
        missing = self._finite.fewest_sites(self._tally.last - last + 1)
        below, above = (
            float(special.betaincinv(sites, honest - sites + 1, OUTSIDE))
            for sites in np.clip([enough, missing], 1, honest)
        )
        return below, above

    def _kinks(self, low: float, high: float, ks: Ints) -> Floats:
        """Where the worst choice of faulty sites changes."""
        return self._tally.kinks(self.needed(ks), self._below, low, min(high, _LAST))

    def _edges(self, low: float, high: float, kinks: Floats) -> Floats:
        """Ends of panels: of the window, of narrow steps, and kinks."""
        edges = np.array([low, high, *kinks[(kinks > low) & (kinks < high)]])
        if isinstance(self.sites, OrderStatistics):
            starts, ends = self.sites.steps(_NARROW * (high - low))
            for i in np.argsort(ends - starts):
                for x in (starts[i], ends[i]):
                    # Sites that are nearly alike share their panels.
                    if low < x < high and np.abs(edges - x).min() > (ends[i] - starts[i]) / 2:
                        edges = np.append(edges, x)
        return np.unique(edges)

    def rvs(self, k: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw the coverage of the smallest number at which the votes reach k, all sites being honest.

        Parameters
        ----------
        k : int
            Votes needed, at most as many as there are.
        size : tuple of int
            Shape of the draws.
        rng : numpy.random.Generator
            Where randomness comes from.

        Returns
        -------
        array of shape ``size``
        """
        draws = [self.sites.rvs(b, (*size, int(count)), rng) for b, count in enumerate(self.counts)]
        numbers = np.concatenate([draw.reshape(*size, -1) for draw in draws], axis=-1)
        weights = np.concatenate(
            [np.tile(row, count) for row, count in zip(self._given.weights, self.counts, strict=True)]
        )
        order = np.argsort(numbers, axis=-1)
        enough = np.cumsum(weights[order], axis=-1) >= k
        return np.take_along_axis(
            numbers, np.take_along_axis(order, enough.argmax(axis=-1)[..., None], -1), -1
        )[..., 0]


def _shown(values: Ints) -> int | tuple[int, ...]:
    """A number, or a tuple of them."""
    return int(values) if values.ndim == 0 else tuple(values.tolist())
