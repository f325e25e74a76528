"""The law of the coverage that a quantile-of-quantiles threshold gives."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _validation
from fedconformal._typing import Floats, Ints
from fedconformal.laws._federation import Federation
from fedconformal.laws._moments import equal_cdf, equal_quantile
from fedconformal.laws._sites import Distortion, OrderStatistics, Shifted, SiteLaw

_MOST_STEPS = 80
_TOLERANCE = 2e-13  # of a quantile's log-odds
_RESOLUTION = 2.0**-53  # two coverages closer than this are the same


class CoverageLaw:
    """Distribution of the coverage given the calibration data, for any federation.

    Each of ``n_sites`` sites sends its ``local_rank``-th smallest of ``n_points`` scores; the server keeps
    the ``server_rank``-th smallest of what it received as the threshold q. With F the cdf of the scores, the
    coverage given the calibration data is C = F(q), and for continuous scores

        P(C <= c) = P(number of sites whose report lies below the c-quantile >= server_rank)

    exactly; ``mean()`` is M of the paper's Theorem 3.2. With ties the true coverage is stochastically larger.
    The methods have the names and habits of scipy.stats.

    Parameters
    ----------
    n_sites : number of sites; may be left out when ``n_points`` or ``local_rank`` is a list.
    n_points : scores per site, one number or one per site.
    local_rank : rank that each site sends, one number or one per site; above ``n_points`` means +inf.
    server_rank : rank that the server keeps; above ``n_sites`` means +inf, hence coverage 1.
    max_faulty : at most this many of the reports are arbitrary. The law is then a lower bound: no behaviour
        of the faulty sites makes the coverage stochastically smaller. Which sites are faulty must not depend
        on the scores of the others.
    distortion : for sites whose scores are not distributed as the test point's: ``h(c) = F_j(F^{-1}(c))``,
        one function for all sites or one per site (None for a site that does not differ).

    Examples
    --------
    >>> law = CoverageLaw(n_sites=5, n_points=10, local_rank=10, server_rank=3)
    >>> print(f"{law.mean():.6f} {law.std():.4f} {law.sf(0.9):.4f}")
    0.925626 0.0416 0.7669
    """

    def __init__(
        self,
        n_sites: int | None = None,
        n_points: Any = None,
        local_rank: Any = None,
        server_rank: Any = None,
        *,
        max_faulty: int = 0,
        distortion: Distortion | Sequence[Distortion | None] | None = None,
    ) -> None:
        sites, counts = _in_blocks(n_sites, n_points, local_rank, distortion)
        rank = _validation.integer("server_rank", server_rank, low=1)
        self._set(
            sites,
            counts,
            rank,
            _validation.integer("max_faulty", max_faulty, low=0, high=int(counts.sum()) - 1),
        )

    @classmethod
    def of_sites(cls, sites: SiteLaw, counts: ArrayLike, *, server_rank: int, max_faulty: int = 0) -> Self:
        """The law for blocks of sites: ``counts[b]`` sites that follow the b-th law of ``sites``."""
        law = cls.__new__(cls)
        law._set(sites, np.asarray(counts, dtype=np.int64), server_rank, max_faulty)
        return law

    def _set(self, sites: SiteLaw, counts: ArrayLike, server_rank: int, max_faulty: int) -> None:
        self.federation = Federation(sites, np.asarray(counts), max_faulty)
        self.server_rank = server_rank

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return self.federation.n_sites

    @property
    def max_faulty(self) -> int:
        """How many reports may be arbitrary."""
        return self.federation.max_faulty

    def __repr__(self) -> str:
        """Name the ranks when all sites are alike, else how many there are."""
        kind = self.federation.equal
        about = f"n_points={kind[1]}, local_rank={kind[2]}, " if kind else ""
        faulty = f", max_faulty={self.max_faulty}" if self.max_faulty else ""
        return f"CoverageLaw(n_sites={self.n_sites}, {about}server_rank={self.server_rank}{faulty})"

    @cached_property
    def _rank(self) -> int:
        return self.server_rank - self.max_faulty

    @cached_property
    def _certain(self) -> float | None:
        """The coverage when it is not random: 0 for a threshold of -inf, 1 for +inf."""
        if self.federation.is_proper(self.server_rank):
            return None
        return 0.0 if self._rank < 1 else 1.0

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
        """P(coverage given the calibration data <= c)."""
        return self._evaluate(c, lambda x: self.federation.cdf(x, np.array([self.server_rank]))[:, 0])

    def sf(self, c: ArrayLike) -> Any:
        """P(coverage given the calibration data > c), precise in its tail for equal sites."""
        kind = self.federation.equal
        if kind is None or self._certain is not None:
            return 1.0 - self.cdf(c)
        m, n, l = kind
        # 1 - C is the coverage with all ranks counted from the other end.
        return self._evaluate(
            c, lambda x: equal_cdf(m, n, n - l + 1, m - self._rank + 1, 1.0 - x), ends=(1.0, 0.0)
        )

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
        """The coverage that is exceeded with probability 1 - q."""
        probability = np.asarray(q, dtype=float)
        flat = probability.ravel()
        valid = (flat >= 0) & (flat <= 1)
        out = np.full(flat.shape, np.nan)
        out[valid] = np.where(flat[valid] == 0, 0.0, 1.0) if self._certain is None else self._certain
        inner = (flat > 0) & (flat < 1)
        if self._certain is None and inner.any():
            out[inner] = self._quantile(flat[inner])
        return out.reshape(probability.shape)[()]

    def _quantile(self, q: Floats) -> Floats:
        if self.federation.equal is not None:
            m, n, l = self.federation.equal
            low = equal_quantile(m, n, l, self._rank, lower=np.minimum(q, 0.5))
            high = equal_quantile(m, n, l, self._rank, upper=np.minimum(1 - q, 0.5))
            return np.where(q <= 0.5, low, high)
        return self._inverted(q)

    def _inverted(self, q: Floats) -> Floats:
        """Solve cdf(c) = q in log-odds, where a law's tails are smooth: the Illinois method."""
        target = special.logit(q)
        low, high = np.zeros(q.shape), np.ones(q.shape)
        at_low, at_high = np.full(q.shape, -np.inf), np.full(q.shape, np.inf)
        before = np.zeros(q.shape, dtype=bool)
        for step in range(_MOST_STEPS):
            width = high - low
            known = np.isfinite(at_low) & np.isfinite(at_high) & (at_high > at_low)
            ends = np.where(known, at_low, 0.0), np.where(known, at_high, 1.0)
            share = -ends[0] / (ends[1] - ends[0])
            # A bisection now and then, so that no shape of the law makes it slow.
            x = low + width * np.where(known & (step % 8 != 7), np.clip(share, 0.0, 1.0), 0.5)
            value = special.logit(np.clip(self.cdf(x), 0.0, 1.0)) - target
            done = np.abs(value) <= _TOLERANCE
            under = (value < 0) & ~done
            low, high = np.where(under | done, x, low), np.where(under, high, x)
            if float((high - low).max()) <= _RESOLUTION:
                break
            # An end that stays a second time is weighted half, so that a step comes from the other side.
            weight = np.where(under == before, 0.5, 1.0)
            at_low, at_high = (
                np.where(under, value, at_low * weight),
                np.where(under, at_high * weight, value),
            )
            before = under
        return high

    def median(self) -> float:
        """The coverage that is exceeded half of the time."""
        return float(self.ppf(0.5))

    def interval(self, confidence: float = 0.9) -> tuple[float, float]:
        """Central interval that holds the coverage with this probability."""
        tail = (1 - _validation.fraction("confidence", confidence)) / 2
        return float(self.ppf(float(tail))), float(self.ppf(float(1 - tail)))

    def rvs(self, size: int | tuple[int, ...] = 1, *, random_state: Any = None) -> Floats:
        """Draw coverages, for simulation.

        Sites are drawn one by one and ranked as the server would rank them, except where they are very many
        or the faulty ones must be chosen at their worst: then the quantile function is used.
        """
        rng = np.random.default_rng(random_state)
        shape = tuple(np.atleast_1d(size).tolist())
        federation = self.federation
        many = federation.n_sites * math.prod(shape) > 10_000_000
        if self._certain is not None or federation.max_faulty or many:
            return np.asarray(self.ppf(rng.random(shape)))
        draws = [
            federation.sites.rvs(b, (*shape, int(count)), rng) for b, count in enumerate(federation.counts)
        ]
        return np.partition(np.concatenate(draws, axis=-1), self.server_rank - 1, axis=-1)[
            ..., self.server_rank - 1
        ]


def _in_blocks(
    n_sites: Any, n_points: Any, local_rank: Any, distortion: Distortion | Sequence[Distortion | None] | None
) -> tuple[SiteLaw, Ints]:
    """Put equal sites together: their law, and how many sites each block has."""
    sizes = _column("n_points", n_points, low=1)
    ranks = _column("local_rank", local_rank, low=0)
    shifts = [distortion] if distortion is None or callable(distortion) else list(distortion)
    lengths = {len(column) for column in (sizes, ranks, shifts) if len(column) > 1}
    if n_sites is not None:
        lengths.add(_validation.integer("n_sites", n_sites, low=1))
    if len(lengths) > 1:
        raise ValueError(
            "n_sites, n_points, local_rank and distortion must agree on the number of sites, "
            f"got {', '.join(map(str, sorted(lengths)))}"
        )
    m = lengths.pop() if lengths else 1
    which = np.arange(len(shifts))
    if max(len(sizes), len(ranks), len(shifts)) == 1:
        kinds, counts = np.array([[sizes[0], ranks[0], 0]]), np.array([m])
    else:
        rows = np.stack([np.broadcast_to(column, m) for column in (sizes, ranks, which)], axis=1)
        kinds, counts = np.unique(rows, axis=0, return_counts=True)
    sites = OrderStatistics(kinds[:, 0], kinds[:, 1])
    if all(shift is None for shift in shifts):
        return sites, counts
    return Shifted(sites, [shifts[i] or _same for i in kinds[:, 2]]), counts


def _column(name: str, value: Any, *, low: int) -> Ints:
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return _validation.integers(name, value, low=low)
    return np.array([_validation.integer(name, value, low=low)])


def _same(c: Floats) -> Floats:
    return c
