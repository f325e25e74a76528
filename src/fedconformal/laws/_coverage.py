"""The law of the coverage that a quantile-of-quantiles threshold gives."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _validation
from fedconformal._typing import Floats
from fedconformal.laws._arguments import Distortions, in_blocks
from fedconformal.laws._equal import equal_quantile, equal_sf
from fedconformal.laws._federation import Federation
from fedconformal.laws._integration import rising_roots
from fedconformal.laws._sites import OrderStatistics, SiteLaw

_SMALL = 1e-5  # probabilities below it need the digits of the cdf
_TOLERANCE = 2e-13  # of a quantile's log-odds


class CoverageLaw:
    """Distribution of the coverage given the calibration data, for any federation.

    Each of ``n_sites`` sites sends its ``local_rank``-th smallest of ``n_points`` scores, or those of
    several ranks; every number has a weight in votes. The threshold q is the smallest reported value at
    which the votes of all numbers up to it reach ``server_rank``. With one number and one vote per site
    that is the ``server_rank``-th smallest report, the paper's quantile of quantiles. With F the cdf of the
    scores, the coverage given the calibration data is C = F(q), and for continuous scores

        P(C <= c) = P(votes of the numbers below the c-quantile >= server_rank)

    exactly; ``mean()`` is M of the paper's Theorem 3.2. With ties the true coverage is stochastically larger.
    The methods have the names and habits of scipy.stats.

    Parameters
    ----------
    n_sites : int, optional
        Number of sites; may be left out when one of the others is a list with an entry per site.
    n_points : int or list of int
        Scores per site.
    local_rank : int, list of int, or list of tuples of int
        Rank that each site sends. Several ranks per site are nested, one increasing tuple for each:
        ``[(88, 92)] * 10``; sites may send different numbers of them. A rank above ``n_points`` means +inf.
        A bare tuple beside a list of sizes is refused.
    server_rank : int
        Votes needed; more than there are means +inf, hence coverage 1.
    weights : int, list of int, or list of tuples of int, optional
        Votes of each number of a site, positive whole numbers: one for all numbers of a site, or one for
        each; 1 by default.
    max_faulty : int
        At most this many of the sites are arbitrary. The law is then a lower bound: no behaviour of the
        faulty sites makes the coverage stochastically smaller. Which sites are faulty must not depend on
        the scores of the others.
    distortion : callable or list of callables, optional
        For sites whose scores are not distributed as the test point's: ``h(c) = F_j(F^{-1}(c))``, one
        function for all sites or one per site (None for a site that does not differ).

    Raises
    ------
    TypeError, ValueError
        In one line that names the argument, its value and what is allowed.

    Examples
    --------
    >>> law = CoverageLaw(n_sites=5, n_points=10, local_rank=10, server_rank=3)
    >>> print(f"{law.mean():.6f} {law.std():.4f} {law.sf(0.9):.4f}")
    0.925626 0.0416 0.7669

    Two numbers from each of ten sites:

    >>> law = CoverageLaw(n_points=[100] * 10, local_rank=[(88, 92)] * 10, server_rank=12)
    >>> print(f"{law.mean():.4f} {law.std():.4f}")
    0.9009 0.0103
    """

    def __init__(
        self,
        n_sites: int | None = None,
        n_points: Any = None,
        local_rank: Any = None,
        server_rank: Any = None,
        *,
        weights: Any = None,
        max_faulty: int = 0,
        distortion: Distortions = None,
    ) -> None:
        blocks = in_blocks(n_sites, n_points, local_rank, 1 if weights is None else weights, distortion)
        rank = _validation.integer("server_rank", server_rank, low=1)
        last = int(blocks.counts.sum()) - 1
        faulty = _validation.integer("max_faulty", max_faulty, low=0, high=last)
        self._set(Federation(blocks.sites, blocks.counts, faulty, blocks.weights), rank)

    @classmethod
    def of_sites(
        cls,
        sites: SiteLaw,
        counts: ArrayLike,
        *,
        server_rank: int,
        max_faulty: int = 0,
        weights: ArrayLike | None = None,
    ) -> Self:
        """The law for blocks of sites.

        Parameters
        ----------
        sites : SiteLaw
            What the sites of each block send.
        counts : array_like
            How many sites each block has.
        server_rank, max_faulty : int
            As for ``CoverageLaw``.
        weights : array_like of shape (blocks,) or (blocks, numbers), optional
            Votes of each number, 1 by default; 0 for a number that a block does not send.

        Returns
        -------
        CoverageLaw
        """
        votes = None if weights is None else np.asarray(weights, dtype=np.int64)
        law = cls.__new__(cls)
        law._set(Federation(sites, np.asarray(counts, dtype=np.int64), max_faulty, votes), server_rank)
        return law

    def _set(self, federation: Federation, server_rank: int) -> None:
        self.federation = federation
        self.server_rank = server_rank

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return self.federation.n_sites

    @property
    def max_faulty(self) -> int:
        """How many sites may be arbitrary."""
        return self.federation.max_faulty

    def __repr__(self) -> str:
        """Name sizes, ranks and weights when all sites are alike, else how many sites there are."""
        about = "".join(f"{name}={value}, " for name, value in self.federation.alike.items())
        faulty = f", max_faulty={self.max_faulty}" if self.max_faulty else ""
        return f"CoverageLaw(n_sites={self.n_sites}, {about}server_rank={self.server_rank}{faulty})"

    @cached_property
    def _certain(self) -> float | None:
        """The coverage when it is not random: 0 for a threshold of -inf, 1 for +inf."""
        if self.federation.is_proper(self.server_rank):
            return None
        return float(self.federation.certain(self.server_rank))

    @cached_property
    def _moments(self) -> tuple[float, float]:
        mean, variance = self.federation.moments(np.array([self.server_rank]))
        return float(mean[0]), float(variance[0])

    def mean(self) -> float:
        """Marginal coverage: M of the paper's Theorem 3.2, to an absolute error below 1e-12."""
        return self._moments[0]

    def var(self) -> float:
        """Variance of the coverage given the calibration data."""
        return self._moments[1]

    def std(self) -> float:
        """Standard deviation of the coverage given the calibration data."""
        return float(np.sqrt(self.var()))

    def cdf(self, c: ArrayLike) -> Any:
        """P(coverage given the calibration data <= c).

        Parameters
        ----------
        c : array_like
            Coverages.

        Returns
        -------
        float or array
            Small probabilities keep their digits, except with many choices of faulty sites.
        """
        return self._evaluate(c, self._cdf)

    def _cdf(self, c: Floats, *, digits: bool = True) -> Floats:
        return self.federation.cdf(c, np.array([self.server_rank]), digits=digits)[:, 0]

    def sf(self, c: ArrayLike) -> Any:
        """P(coverage given the calibration data > c).

        Parameters
        ----------
        c : array_like
            Coverages.

        Returns
        -------
        float or array
            For equal sites that send one number, small probabilities have a small relative error too.
        """
        equal = self.federation.equal
        if equal is None or self._certain is not None:
            return 1.0 - self.cdf(c)
        return self._evaluate(c, lambda x: equal_sf(*equal, self._rank, x), ends=(1.0, 0.0))

    def _evaluate(
        self, c: ArrayLike, inside: Callable[[Floats], Floats], *, ends: tuple[float, float] = (0.0, 1.0)
    ) -> Any:
        """Values ``inside`` [0, 1), and the two ``ends`` below and above it."""
        x = np.asarray(c, dtype=float)
        flat = x.ravel()
        out = np.where(np.isnan(flat), np.nan, np.where(flat >= 1, ends[1], ends[0]))
        proper = (flat >= 0) & (flat < 1)
        if self._certain is None:
            out[proper] = inside(flat[proper])
        else:
            out[proper] = ends[0] if self._certain == 1.0 else ends[1]
        return out.reshape(x.shape)[()]

    def ppf(self, q: ArrayLike) -> Any:
        """The coverage that is exceeded with probability 1 - q.

        Parameters
        ----------
        q : array_like
            Probabilities.

        Returns
        -------
        float or array
        """
        probability = np.asarray(q, dtype=float)
        flat = probability.ravel()
        valid = (flat >= 0) & (flat <= 1)
        out = np.full(flat.shape, np.nan)
        out[valid] = np.where(flat[valid] == 0, 0.0, 1.0) if self._certain is None else self._certain
        inner = (flat > 0) & (flat < 1)
        if self._certain is None and inner.any():
            out[inner] = self._quantile(flat[inner])
        return out.reshape(probability.shape)[()]

    @property
    def _rank(self) -> int:
        """The server rank among honest sites, where all are equal."""
        return int(self.federation.needed(self.server_rank)) - self.max_faulty

    def _quantile(self, q: Floats) -> Floats:
        if self.federation.equal is not None:
            m, n, l = self.federation.equal
            low = equal_quantile(m, n, l, self._rank, lower=np.minimum(q, 0.5))
            high = equal_quantile(m, n, l, self._rank, upper=np.minimum(1 - q, 0.5))
            return np.where(q <= 0.5, low, high)
        return self._inverted(q)

    def _inverted(self, q: Floats) -> Floats:
        """Solve cdf(c) = q in log-odds, where a law's tails are smooth."""
        target, small = special.logit(q), bool((q < _SMALL).any())

        def excess(c: Floats) -> Floats:
            return np.asarray(special.logit(self._evaluate(c, lambda x: self._cdf(x, digits=small))) - target)

        return rising_roots(excess, np.zeros(q.shape), np.ones(q.shape), close=_TOLERANCE)

    def median(self) -> float:
        """The coverage that is exceeded half of the time."""
        return float(self.ppf(0.5))

    def interval(self, confidence: float = 0.9) -> tuple[float, float]:
        """Central interval that holds the coverage with this probability.

        Parameters
        ----------
        confidence : float
            A probability.

        Returns
        -------
        low, high : float
        """
        tail = (1 - _validation.fraction("confidence", confidence)) / 2
        return float(self.ppf(float(tail))), float(self.ppf(float(1 - tail)))

    def rvs(self, size: int | tuple[int, ...] = 1, *, rng: Any = None) -> Floats:
        """Draw coverages, for simulation.

        Sites are drawn one by one and their votes counted as the server would, except where they are very
        many or the faulty ones must be chosen at their worst: then the quantile function is used.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the draws.
        rng : None, int or numpy Generator
            Where randomness comes from.

        Returns
        -------
        array of shape ``size``
        """
        source = np.random.default_rng(rng)
        shape = tuple(np.atleast_1d(size).tolist())
        federation = self.federation
        many = federation.n_sites * math.prod(shape) > 10_000_000
        if self._certain is not None or federation.max_faulty or many:
            return np.asarray(self.ppf(source.random(shape)))
        return federation.rvs(self.server_rank, shape, source)


# -- what holds for the coverage of every site when each is promised its own -------------------------------


class EachSiteLaw(CoverageLaw):
    """Bounds for the coverage of each site by itself, from (size, rank) of the sites.

    The server keeps the largest report, so a site's coverage is at least that of its own threshold, a
    Beta(l, n - l + 1) variable. Every method gives the worst value of any site: ``mean`` and ``ppf`` the
    smallest, ``cdf`` and ``std`` the largest. Sites of one size and rank share one exact law.

    Parameters
    ----------
    kinds : iterable of (int, int)
        Size and rank of the sites.
    laws : sequence of CoverageLaw, optional
        Bounds on the coverage of the sites' own reports, where these are not scores of that rank.

    Examples
    --------
    >>> from fedconformal.laws import EachSiteLaw
    >>> law = EachSiteLaw([(100, 92), (40, 38)])
    >>> round(law.mean(), 4)
    0.9109
    """

    def __init__(self, kinds: Iterable[tuple[int, int]], laws: Sequence[CoverageLaw] | None = None) -> None:
        self.kinds = sorted(set(kinds))
        sizes, ranks = np.array(self.kinds).T
        self._set(Federation(OrderStatistics(sizes, ranks), np.ones(len(sizes), dtype=np.int64)), 1)
        exact = (CoverageLaw(1, n, rank, 1) for n, rank in self.kinds)
        self._laws = list(exact if laws is None else laws)

    def __repr__(self) -> str:
        """Size and rank of each kind of site."""
        return f"EachSiteLaw({self.kinds})"

    def mean(self) -> float:
        """The smallest mean coverage of any site."""
        return min(law.mean() for law in self._laws)

    def var(self) -> float:
        """The largest variance of the bound of any site."""
        return max(law.var() for law in self._laws)

    def cdf(self, c: ArrayLike) -> Any:
        """For every site, P(coverage given the calibration data <= c) is at most this."""
        return np.max([law.cdf(c) for law in self._laws], axis=0)[()]

    def sf(self, c: ArrayLike) -> Any:
        """For every site, P(coverage given the calibration data > c) is at least this."""
        return np.min([law.sf(c) for law in self._laws], axis=0)[()]

    def ppf(self, q: ArrayLike) -> Any:
        """For every site, coverage is at least this with probability 1 - q."""
        return np.min([law.ppf(q) for law in self._laws], axis=0)[()]

    def rvs(self, size: int | tuple[int, ...] = 1, *, rng: Any = None) -> Floats:
        """Draw from the worst case: the smallest of all sites' quantiles at one uniform draw."""
        shape = tuple(np.atleast_1d(size).tolist())
        return np.asarray(self.ppf(np.random.default_rng(rng).random(shape)))
