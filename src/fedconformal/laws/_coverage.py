"""Distribution of the coverage that a quantile-of-quantiles threshold gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Sized
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _util
from fedconformal._util import Floats, Ints
from fedconformal.laws._federation import Federation
from fedconformal.laws._sites import (
    Distortion,
    OrderStatistics,
    Shifted,
    SiteLaw,
    equal_cdf,
    equal_quantile,
)

Distortions = Distortion | Sequence[Distortion | None] | None

_SMALL = 1e-5  # probabilities below it need the digits of the cdf
_TOLERANCE = 2e-13  # of a quantile's log-odds
_LARGEST_ODDS = 800.0  # beyond the log-odds of every float between 0 and 1


class CoverageLaw:
    """Distribution of the coverage given the calibration data, for any federation.

    Each of ``n_sites`` sites sends its ``local_rank``-th smallest of ``n_points``
    scores, or those of several ranks; every number has a weight in votes. The threshold
    q is the smallest reported value at which the votes of all numbers up to it reach
    ``server_rank``. With one number and one vote per site that is the
    ``server_rank``-th smallest report, the paper's quantile of quantiles. With F the
    cdf of the scores, the coverage given the calibration data is C = F(q), and for
    continuous scores

        P(C <= c) = P(votes of the numbers below the c-quantile >= server_rank)

    exactly; ``mean()`` is M of the paper's Theorem 3.2. With ties the true coverage is
    stochastically larger. The methods have the names and habits of scipy.stats.

    Parameters
    ----------
    n_sites : int, optional
        Number of sites; may be left out when one of the others is a list with an entry
        per site.
    n_points : int or list of int
        Scores per site.
    local_rank : int, list of int, or list of tuples of int
        Rank that each site sends. Several ranks per site are nested, one increasing
        tuple for each: ``[(88, 92)] * 10``; sites may send different numbers of them. A
        rank above ``n_points`` means +inf. A bare tuple beside a list of sizes is
        refused.
    server_rank : int
        Votes needed; more than there are means +inf, hence coverage 1.
    weights : int, list of int, or list of tuples of int, optional
        Votes of each number of a site, positive whole numbers: one for all numbers of a
        site, or one for each; 1 by default.
    max_faulty : int
        At most this many of the sites are arbitrary. The distribution is then a lower
        bound: no behaviour of the faulty sites makes the coverage stochastically
        smaller. Which sites are faulty must not depend on the scores of the others.
    distortion : callable or list of callables, optional
        For sites whose scores are not distributed as the test point's: ``h(c) =
        F_j(F^{-1}(c))``, one function for all sites or one per site (None for a site
        that does not differ).

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

    >>> law = CoverageLaw(
    ...     n_points=[100] * 10, local_rank=[(88, 92)] * 10, server_rank=12
    ... )
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
        votes = 1 if weights is None else weights
        sites, counts, votes = group_sites(
            n_sites, n_points, local_rank, votes, distortion
        )
        self.server_rank = _util.integer("server_rank", server_rank, low=1)
        faulty = _util.integer(
            "max_faulty", max_faulty, low=0, high=int(counts.sum()) - 1
        )
        self.federation = Federation(sites, counts, faulty, votes)

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
        """Return the distribution for blocks of sites.

        Parameters
        ----------
        sites : SiteLaw
            What the sites of each block send.
        counts : array_like
            Number of sites of each block.
        server_rank, max_faulty : int
            As for ``CoverageLaw``.
        weights : array_like of shape (blocks,) or (blocks, numbers), optional
            Votes of each number, 1 by default; 0 for a number that a block does not
            send.

        Returns
        -------
        CoverageLaw
        """
        votes = None if weights is None else np.asarray(weights, dtype=np.int64)
        law = cls.__new__(cls)
        law.federation = Federation(
            sites, np.asarray(counts, dtype=np.int64), max_faulty, votes
        )
        law.server_rank = server_rank
        return law

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return self.federation.n_sites

    @property
    def max_faulty(self) -> int:
        """Number of sites that may be arbitrary."""
        return self.federation.max_faulty

    def __repr__(self) -> str:
        """Name sizes, ranks and weights when all sites are alike, else the number of
        sites.
        """
        parts, sites = [f"n_sites={self.n_sites}"], self.federation.sites
        if isinstance(sites, OrderStatistics) and sites.n_points.size == 1:
            parts += [
                f"n_points={sites.n_points[0]}",
                f"local_rank={_squeeze(sites.local_ranks[0])}",
            ]
            weights = self.federation.weights
            if weights is not None and (weights != 1).any():
                parts.append(f"weights={_squeeze(weights[0])}")
        parts.append(f"server_rank={self.server_rank}")
        if self.max_faulty:
            parts.append(f"max_faulty={self.max_faulty}")
        return f"CoverageLaw({', '.join(parts)})"

    @cached_property
    def _certain(self) -> float | None:
        """Coverage when it is not random: 0 for a threshold of -inf, 1 for +inf."""
        if self.federation.is_proper(self.server_rank):
            return None
        return float(self.federation.certain(self.server_rank))

    @cached_property
    def _moments(self) -> tuple[float, float]:
        mean, variance = self.federation.moments(np.array([self.server_rank]))
        return float(mean[0]), float(variance[0])

    def mean(self) -> float:
        """Return the marginal coverage: M of the paper's Theorem 3.2, to an absolute
        error below 1e-12.
        """
        return self._moments[0]

    def var(self) -> float:
        """Return the variance of the coverage given the calibration data."""
        return self._moments[1]

    def std(self) -> float:
        """Return the standard deviation of the coverage given the calibration data."""
        return float(np.sqrt(self.var()))

    def cdf(self, c: ArrayLike) -> Any:
        """Return P(coverage given the calibration data <= c).

        Parameters
        ----------
        c : array_like
            Coverages.

        Returns
        -------
        float or array
            Small probabilities keep their digits, except with many choices of faulty
            sites.
        """
        return self._evaluate(c, self._cdf)

    def _cdf(self, c: Floats, *, digits: bool = True) -> Floats:
        return self.federation.cdf(c, np.array([self.server_rank]), digits=digits)[:, 0]

    def sf(self, c: ArrayLike) -> Any:
        """Return P(coverage given the calibration data > c).

        Parameters
        ----------
        c : array_like
            Coverages.

        Returns
        -------
        float or array
            For equal sites that send one number, small probabilities have a small
            relative error too.
        """
        equal = self.federation.equal
        if equal is None or self._certain is not None:
            return 1.0 - self.cdf(c)
        return self._evaluate(
            c, lambda x: equal_cdf(*equal, self._rank, x, upper=True), ends=(1.0, 0.0)
        )

    def _evaluate(
        self,
        c: ArrayLike,
        inside: Callable[[Floats], Floats],
        *,
        ends: tuple[float, float] = (0.0, 1.0),
    ) -> Any:
        """Return values ``inside`` [0, 1), and the two ``ends`` below and above it."""
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
        """Return the coverage that is exceeded with probability 1 - q.

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
        out[valid] = (
            np.where(flat[valid] == 0, 0.0, 1.0)
            if self._certain is None
            else self._certain
        )
        inner = (flat > 0) & (flat < 1)
        if self._certain is None and inner.any():
            out[inner] = self._quantile(flat[inner])
        return out.reshape(probability.shape)[()]

    @property
    def _rank(self) -> int:
        """Server rank among honest sites, where all are equal."""
        return int(self.federation.needed(self.server_rank)) - self.max_faulty

    def _quantile(self, q: Floats) -> Floats:
        if self.federation.equal is not None:
            m, n, l = self.federation.equal
            low = equal_quantile(m, n, l, self._rank, np.minimum(q, 0.5), upper=False)
            high = equal_quantile(
                m, n, l, self._rank, np.minimum(1 - q, 0.5), upper=True
            )
            return np.where(q <= 0.5, low, high)
        small = bool((q < _SMALL).any())
        from scipy.optimize import elementwise  # costs 20 MB, and few calls need it

        def excess(
            c: Floats, target: Floats
        ) -> Floats:  # in log-odds, where the tails are smooth
            odds = special.logit(
                self._evaluate(c, lambda x: self._cdf(x, digits=small))
            )
            return np.asarray(np.clip(odds, -_LARGEST_ODDS, _LARGEST_ODDS) - target)

        ends = np.zeros(q.shape), np.ones(q.shape)
        tolerances = {
            "xatol": 2.0**-52,  # neighbours near 1 are closer than that
            "xrtol": 0.0,
            "fatol": _TOLERANCE,
            "frtol": 0.0,
        }
        roots = elementwise.find_root(
            excess, ends, args=(special.logit(q),), tolerances=tolerances
        )
        # Where the cdf jumps, the quantile is where it has reached q.
        return np.asarray(
            np.where(np.abs(roots.f_x) <= _TOLERANCE, roots.x, roots.bracket[1])
        )

    def median(self) -> float:
        """Return the coverage that is exceeded half of the time."""
        return float(self.ppf(0.5))

    def interval(self, confidence: float = 0.9) -> tuple[float, float]:
        """Return the central interval that contains the coverage with this probability.

        Parameters
        ----------
        confidence : float
            A probability.

        Returns
        -------
        low, high : float
        """
        tail = (1 - _util.fraction("confidence", confidence)) / 2
        return float(self.ppf(float(tail))), float(self.ppf(float(1 - tail)))


def _squeeze(values: Ints) -> int | tuple[int, ...]:
    return int(values) if values.ndim == 0 else tuple(values.tolist())


class EachSiteLaw(CoverageLaw):
    """Bounds for the coverage of each site individually, from (size, rank) of the
    sites.

    The server keeps the largest report, so a site's coverage is at least that of its
    own threshold, a Beta(l, n - l + 1) variable. Every method gives the worst value of
    any site: ``mean`` and ``ppf`` the smallest, ``cdf`` and ``std`` the largest. Sites
    of one size and rank share one exact distribution.

    Parameters
    ----------
    kinds : iterable of (int, int)
        Size and rank of the sites.
    laws : sequence of CoverageLaw, optional
        Bounds on the coverage of the sites' own reports, where these are not scores of
        that rank.

    Examples
    --------
    >>> from fedconformal.laws import EachSiteLaw
    >>> law = EachSiteLaw([(100, 92), (40, 38)])
    >>> round(law.mean(), 4)
    0.9109
    """

    def __init__(
        self,
        kinds: Iterable[tuple[int, int]],
        laws: Sequence[CoverageLaw] | None = None,
    ) -> None:
        self.kinds = sorted(set(kinds))
        sizes, ranks = np.array(self.kinds).T
        self.federation = Federation(
            OrderStatistics(sizes, ranks), np.ones(len(sizes), dtype=np.int64)
        )
        self.server_rank = 1
        exact = (CoverageLaw(1, n, rank, 1) for n, rank in self.kinds)
        self._laws = list(exact if laws is None else laws)

    def __repr__(self) -> str:
        """Name size and rank of each kind of site."""
        return f"EachSiteLaw({self.kinds})"

    def mean(self) -> float:
        """Return the smallest mean coverage of any site."""
        return min(law.mean() for law in self._laws)

    def var(self) -> float:
        """Return the largest variance of the bound of any site."""
        return max(law.var() for law in self._laws)

    def cdf(self, c: ArrayLike) -> Any:
        """Return an upper bound of P(coverage given the calibration data <= c) at every
        site.
        """
        return np.max([law.cdf(c) for law in self._laws], axis=0)[()]

    def sf(self, c: ArrayLike) -> Any:
        """Return a lower bound of P(coverage given the calibration data > c) at every
        site.
        """
        return np.min([law.sf(c) for law in self._laws], axis=0)[()]

    def ppf(self, q: ArrayLike) -> Any:
        """Return what the coverage of every site is at least with probability 1 - q."""
        return np.min([law.ppf(q) for law in self._laws], axis=0)[()]


# -- arguments of a coverage law, read site by site and put into blocks of equal sites -


_MOST_VOTES = 2**53


def group_sites(
    n_sites: Any, n_points: Any, local_rank: Any, weights: Any, distortion: Distortions
) -> tuple[SiteLaw, Ints, Ints]:
    """Return equal sites as blocks: their distribution, the number of sites, the votes
    of their numbers.

    The arguments are those of ``CoverageLaw``. A number that a site does not send is
    +inf with weight 0.
    """
    sizes = _read_flat("n_points", n_points, low=1)
    ranks, votes = (
        _read_nested("local_rank", local_rank, low=0),
        _read_nested("weights", weights, low=1),
    )
    shifts = (
        [distortion] if distortion is None or callable(distortion) else list(distortion)
    )
    names = "n_points", "local_rank", "weights", "distortion"
    columns: tuple[Sized, ...] = sizes, ranks, votes, shifts
    lengths = {
        name: len(entries)
        for name, entries in zip(names, columns, strict=True)
        if len(entries) > 1
    }
    if n_sites is not None:
        lengths["n_sites"] = _util.integer("n_sites", n_sites, low=1)
    _check_lengths(lengths, local_rank, flat=all(len(own) == 1 for own in ranks))
    _check_nesting(len(sizes), n_points, local_rank)
    for j, own in enumerate(ranks):
        if any(low >= high for low, high in pairwise(own)):
            raise ValueError(f"local_rank[{j}] must be strictly increasing, got {own}")
    kinds: Counter[tuple[int, ...]] = Counter()
    width, rows = max(map(len, ranks)), max(map(len, columns))
    spread = (
        list(c) * rows if len(c) == 1 else c
        for c in (sizes, ranks, votes, range(len(shifts)))
    )
    for j, (n, own, cast, shift) in enumerate(zip(*spread, strict=True)):
        if len(cast) not in (1, len(own)):
            raise ValueError(
                f"weights[{j}] must be one number or one for each of the site's"
                f" {len(own)} ranks, got {cast}"
            )
        absent, each = width - len(own), cast * len(own) if len(cast) == 1 else cast
        sent = [min(rank, n + 1) for rank in own] + [n + 1] * absent
        kinds[n, *sent, *each, *[0] * absent, shift] += 1
    blocks = sorted(kinds)
    counts = (
        [kinds[block] for block in blocks]
        if rows > 1
        else [max(lengths.values(), default=1)]
    )
    total = sum(
        count * sum(block[width + 1 : -1])
        for count, block in zip(counts, blocks, strict=True)
    )
    if total > _MOST_VOTES:
        raise ValueError(f"weights must add up to at most {_MOST_VOTES}, got {total}")
    table, places = np.array(blocks), slice(1, width + 1) if width > 1 else 1
    weights = table[:, width + 1 : -1] if width > 1 else table[:, 2]
    sites = OrderStatistics(table[:, 0], table[:, places])
    if all(shift is None for shift in shifts):
        return sites, np.array(counts), weights
    return (
        Shifted(sites, [shifts[block[-1]] or np.asarray for block in blocks]),
        np.array(counts),
        weights,
    )


def _read_flat(name: str, value: Any, *, low: int) -> list[int]:
    """Read one whole number, or one for each site."""
    if _is_list(value):
        return list(_util.integers(name, value, low=low).tolist())
    return [_util.integer(name, value, low=low)]


def _read_nested(name: str, value: Any, *, low: int) -> list[tuple[int, ...]]:
    """Read the same, or several for each site: a tuple for each."""
    items = list(value) if _is_list(value) else [value]
    if not any(_is_list(item) for item in items):
        return [(entry,) for entry in _read_flat(name, value, low=low)]
    return [
        tuple(_read_flat(f"{name}[{j}]", item, low=low)) for j, item in enumerate(items)
    ]


def _is_list(value: Any) -> bool:
    return (
        isinstance(value, Iterable)
        and not isinstance(value, (str, bytes))
        and getattr(value, "ndim", 1) > 0
    )


def _check_lengths(lengths: dict[str, int], local_rank: Any, *, flat: bool) -> None:
    """Refuse lists that do not agree on the number of sites."""
    if len(set(lengths.values())) <= 1:
        return
    others = {length for name, length in lengths.items() if name != "local_rank"}
    if flat and "local_rank" in lengths and len(others) == 1:
        m, ranks = (
            others.pop(),
            ", ".join(map(str, list(local_rank)[:3])) + ", ..." * (len(local_rank) > 3),
        )
        raise ValueError(
            f"local_rank must agree with the number of sites, {m}, got"
            f" {len(local_rank)} ranks (several ranks at each site are nested:"
            f" [({ranks})] * {m})"
        )
    listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
    raise ValueError(
        "n_sites, n_points, local_rank, weights and distortion must agree on the"
        f" sites, got {listed}"
    )


def _check_nesting(m: int, n_points: Any, local_rank: Any) -> None:
    """Refuse a bare tuple beside a list of sizes: it may mean several ranks of each
    site, or one of each.
    """
    bare = (
        isinstance(local_rank, tuple)
        and len(local_rank) > 1
        and not any(map(_is_list, local_rank))
    )
    if bare and _is_list(n_points) and not isinstance(n_points, tuple):
        raise ValueError(
            "local_rank must be a list beside a list of sizes: one rank for each site,"
            f" or nested, [{local_rank}] * {m}; got the tuple {local_rank}"
        )
