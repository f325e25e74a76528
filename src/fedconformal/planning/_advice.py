"""The smallest federation of equal sites that would suffice."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from fedconformal.documents import LARGEST_N, MOST_SITES, Advice, SiteKind, total_sites
from fedconformal.planning._candidates import common_share, maxima
from fedconformal.planning._goal import Goal
from fedconformal.planning._search import search


def smallest_federation(sites: Sequence[SiteKind], goal: Goal, share: Fraction | None) -> Advice:
    """Return the size, and the number of sites of the smallest size, that would suffice for a level.

    Parameters
    ----------
    sites : sequence of SiteKind
        The sites, which do not suffice.
    goal : Goal
        The level and its criterion.
    share : Fraction or None
        The share that fixes the ranks, where there is one.
    """
    m, n, f = total_sites(sites), min(kind.n for kind in sites), goal.max_faulty

    def suffices(m: int, n: int) -> bool:
        left = m - (goal.max_missing or 0)
        if left <= 2 * f:
            return False
        equal = (SiteKind(count=left, n=n),)
        return bool(search(maxima(equal) if share is None else common_share(equal, share), goal))

    points = smallest(lambda n: suffices(m, n), start=1, stop=LARGEST_N)
    more = smallest(lambda m: suffices(m, n), start=2 * f + 1, stop=MOST_SITES)
    return Advice(
        n_points=points if points is None or points > n else None,
        n_sites=more if more is None or more > m else None,
    )


def smallest(enough: Callable[[int], bool], *, start: int, stop: int) -> int | None:
    """Return the smallest number from ``start`` to ``stop`` that is enough, if larger numbers are too."""
    low, high = start - 1, start
    while not enough(high):
        if high >= stop:
            return None
        low, high = high, min(2 * high, stop)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
