"""What holds for the coverage of every site when each is promised its own."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats
from fedconformal.laws._coverage import CoverageLaw
from fedconformal.laws._federation import Federation
from fedconformal.laws._sites import OrderStatistics


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
