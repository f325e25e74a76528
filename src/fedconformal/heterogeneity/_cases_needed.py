"""How many new cases a check needs to see a shortfall."""

from fedconformal._validation import fraction
from fedconformal.heterogeneity._counting import at_most
from fedconformal.heterogeneity._coverage import POWER

_MOST_CASES = 30_000


def cases_needed(
    confidence_level: float, coverage: float, *, confidence: float = 0.95, power: float = POWER
) -> int:
    """The smallest number of new cases with which a check can notice that the coverage is this low.

    A check of so many cases finds a shortfall with probability at least ``power`` if the coverage is
    ``coverage``, and with probability at most 1 - ``confidence`` if it is at least the level.

    Parameters
    ----------
    confidence_level : float
        The level that was promised.
    coverage : float
        The true coverage that is to be noticed, below the level.
    confidence : float
        Of the check.
    power : float
        How often it is to be noticed, at least.

    Returns
    -------
    int
        How many cases.

    Raises
    ------
    ValueError
        If more than 30,000 would be needed.

    Examples
    --------
    >>> cases_needed(0.9, 0.8)
    78
    """
    level = fraction("confidence_level", confidence_level)
    low = fraction("coverage", coverage, high=float(level))
    alarm = float(1 - fraction("confidence", confidence))
    wanted = float(fraction("power", power))
    critical = -1
    for n in range(1, _MOST_CASES + 1):
        # One more case raises the critical count by one or not at all.
        critical += at_most(n, critical + 1, float(1 - level)) <= alarm
        if critical >= 0 and at_most(n, critical, float(1 - low)) >= wanted:
            return n
    raise ValueError(
        f"coverage must be further below {confidence_level}, got {coverage}: "
        f"more than {_MOST_CASES:,} cases would be needed to notice it"
    )
