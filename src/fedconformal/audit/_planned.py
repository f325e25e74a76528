"""The ranks that a plan asks of a site: looked up, or by its rule where sizes come with the reports."""

import math
from fractions import Fraction
from functools import lru_cache

from fedconformal.audit._promises import lies_above
from fedconformal.documents import Level, Plan

_CLOSE = Fraction(1, 10**9)  # what sites add to a chance, so that rounding never decides


def planned_ranks(plan: Plan, n: int, site: str) -> tuple[tuple[int, ...], ...]:
    """The ranks of a site of n scores, for each level.

    Parameters
    ----------
    plan : Plan
        Without groups.
    n : int
        How many scores the site has.
    site : str
        Its name.

    Returns
    -------
    tuple of tuple of int

    Raises
    ------
    ValueError
        If the plan expects no such site.
    """
    if plan.blocks is not None:
        return plan.ranks_for(n, site=site)
    names = plan.site_names
    if names is not None and site not in names:
        raise ValueError(f"{site} is no site of the plan")
    drawn = plan.part.cases
    if drawn is not None:
        return (tuple(range(1, min(n, drawn) + 1)),) * len(plan.levels)
    return tuple(_above(level, n) if level.eta is not None else _ranks(level, n) for level in plan.levels)


def _above(level: Level, n: int) -> tuple[int, ...]:
    """The smallest rank above its own quantile with the chance that the plan says."""
    return (_first_above(n, Fraction(str(level.confidence_level)), Fraction(level.eta or 0) + _CLOSE),)


@lru_cache(maxsize=4096)
def _first_above(n: int, goal: Fraction, eta: Fraction) -> int:
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if lies_above(n, middle, goal, eta) else (middle, high)
    return high


def _ranks(level: Level, n: int) -> tuple[int, ...]:
    """One rank, the share of n + 1 rounded up; or several round it, as far apart as the plan says."""
    middle = math.ceil(Fraction(level.share or 0) * (n + 1))
    if level.spacing is None:
        return (middle,)
    numbers = min(level.numbers, n)
    gaps = numbers - 1
    step = max(1, min(_apart(level, n), (n - 1) // gaps if gaps else 0))
    first = max(1, middle - gaps * step // 2)
    first = min(first, n - gaps * step)
    return tuple(range(first, first + gaps * step + 1, step))


def _apart(level: Level, n: int) -> int:
    """So many standard deviations of a Binomial(n, level) variable, rounded up if the rest is .4 or more."""
    p = Fraction(str(level.confidence_level))
    square = Fraction(level.spacing or 0) ** 2 * n * p * (1 - p)
    below = math.isqrt(math.floor(square))
    return below + ((below + Fraction(2, 5)) ** 2 <= square)
