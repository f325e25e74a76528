"""Ranks for sites whose size is not known beforehand: a rule that each applies to its own size."""

from fractions import Fraction
from math import isqrt

from fedconformal._validation import rank_of
from fedconformal.documents import RankRule
from fedconformal.planning._own_quantile import rank_above


def ranks_of_rule(rule: RankRule, level: Fraction, n: int) -> tuple[int, ...]:
    """Return the ranks that a site of n scores sends by a rule, in increasing order; n + 1 stands for +inf.

    Parameters
    ----------
    rule : RankRule
        The rule, which all sites follow.
    level : Fraction
        The confidence level.
    n : int
        Number of scores of the site; one with fewer scores than numbers sends all it has.

    Returns
    -------
    tuple of int
        One rank, or several between 1 and n.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.documents import RankRule
    >>> from fedconformal.planning import ranks_of_rule
    >>> ranks_of_rule(RankRule(share=Fraction(9, 10)), Fraction(9, 10), 99)
    (90,)
    """
    if rule.eta is not None:
        return (rank_above(n, level, rule.eta),)
    assert rule.share is not None
    middle = rank_of(rule.share, n)
    if rule.spacing is None:
        return (middle,)
    numbers = min(rule.numbers, n)
    step = min(_step(rule.spacing, level, n), (n - 1) // max(numbers - 1, 1)) or 1
    first = min(max(middle - (numbers - 1) * step // 2, 1), n - (numbers - 1) * step)
    return tuple(first + i * step for i in range(numbers))


def _step(spacing: Fraction, level: Fraction, n: int) -> int:
    """Return ``spacing * sqrt(n level (1 - level))`` as a whole number, rounded up from 0.4 on; at least 1.

    Too wide costs less than too narrow: over many sizes this is never worse than the nearest number.
    """
    square = 25 * spacing**2 * n * level * (1 - level)
    return max(1, (3 + isqrt(square.numerator // square.denominator)) // 5)


def usual_spacing(numbers: int) -> Fraction | None:
    """Return the spacing at which this many numbers tell most about a level's quantile, roughly.

    Parameters
    ----------
    numbers : int
        How many numbers a site sends.

    Returns
    -------
    Fraction or None
        In standard deviations of a site's count; None for one number.

    Examples
    --------
    >>> from fedconformal.planning import usual_spacing
    >>> usual_spacing(1), usual_spacing(3)
    (None, Fraction(29, 33))
    """
    return None if numbers == 1 else Fraction(29, 10 * numbers + 3)
