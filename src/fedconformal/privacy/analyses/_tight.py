"""Our own analysis: the law of the private threshold itself, and no more noise than it takes."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import ClassVar

import numpy as np

from fedconformal.privacy.analyses._base import ANALYSES, Analysis
from fedconformal.privacy.analyses._search import PrivateChoice, PrivateSearch
from fedconformal.privacy.mechanisms import Mechanism

_RANKS = 12  # server ranks that are tried first
_BETWEEN = 8  # and that are tried again around the best of them


@ANALYSES.register
class Tight(Analysis):
    """The promise follows from a bound on the rank of every release, with no union bound over the sites.

    The noise is as small as the mechanism's privacy allows: neighbours change the errors by amounts in an
    interval of width d (see `fedconformal.privacy.MECHANISMS`), and so the scale is d / epsilon.
    """

    name: ClassVar[str] = "tight"
    default_mechanism: ClassVar[str] = "permute-and-flip"

    def width(self, quantile: Fraction) -> int:
        """The denominator d."""
        return quantile.denominator

    def check(
        self,
        *,
        mechanism: Mechanism,
        n_sizes: int = 1,
        criterion: str | None = None,
        max_faulty: int = 0,
    ) -> None:
        """Everything goes together."""

    def choose(self, search: PrivateSearch) -> PrivateChoice | None:
        """The choice whose expected coverage costs least among those whose promise holds for all data.

        For each server rank the smallest valid quantile is found by bisection; with many sites, first for a
        few ranks spread over all, then for those around the best.
        """
        ranks = _spread(search.ranks.start, search.ranks.stop - 1, _RANKS)
        found = _best_of(search, ranks)
        if not found:
            return None
        while True:
            best = min(found, key=lambda k: (found[k][0], k))
            place = ranks.index(best)
            low, high = ranks[max(place - 1, 0)], ranks[min(place + 1, len(ranks) - 1)]
            between = [k for k in _spread(low, high, _BETWEEN) if k not in ranks]
            if not between:
                return found[best][1]
            found |= _best_of(search, between)
            ranks = sorted({*ranks, *between})

    def has_plan(self, search: PrivateSearch) -> bool:
        """Whether the largest threshold of all keeps the promise."""
        return search.is_valid(Fraction(search.finest - 1, search.finest), search.ranks.stop - 1)


def _best_of(search: PrivateSearch, ranks: Iterable[int]) -> dict[int, tuple[float, PrivateChoice]]:
    """For each rank that has a valid quantile, the smallest one and what it costs."""
    found = {}
    for k in ranks:
        quantile = _smallest_quantile(search, k)
        if quantile is not None:
            mean, cost = search.expected(quantile, k)
            found[k] = (cost, PrivateChoice(quantile, k, mean))
    return found


def _smallest_quantile(search: PrivateSearch, k: int) -> Fraction | None:
    """Smallest multiple of 1/finest from one half on that is valid with this server rank."""
    d = search.finest
    low, high = math.ceil(d / 2) - 1, d - 1
    if not search.is_valid(Fraction(high, d), k):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if search.is_valid(Fraction(middle, d), k) else (middle, high)
    return Fraction(high, d)


def _spread(low: int, high: int, most: int) -> list[int]:
    """All whole numbers in a range, or an even choice of them."""
    return sorted(set(np.linspace(low, high, min(most, high - low + 1)).round().astype(int).tolist()))
