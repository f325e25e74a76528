"""Ranks for sites whose size is not known beforehand: a rule that each applies to its own size."""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from fedconformal._validation import rank_of

MOST_NUMBERS = 20
"""A site sends at most so many numbers for each level."""


@dataclass(frozen=True)
class RankRule:
    """One or a few ranks round ``ceil(share * (n + 1))``, in exact arithmetic.

    Parameters
    ----------
    share : Fraction
        Where the ranks lie: about this share of a site's scores is below them.
    level : Fraction
        The confidence level, which says how far a site's count spreads.
    numbers : int
        How many a site sends; one with fewer scores sends all it has.
    spacing : Fraction or None
        Neighbouring ranks are so many standard deviations of a Binomial(n, level) variable apart, at least 1.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.planning import RankRule
    >>> RankRule(Fraction(9, 10), Fraction(9, 10)).ranks(99)
    (90,)
    """

    share: Fraction
    level: Fraction
    numbers: int = 1
    spacing: Fraction | None = None

    def ranks(self, n: int) -> tuple[int, ...]:
        """The ranks of a site with n scores, in increasing order; n + 1 stands for +inf.

        Parameters
        ----------
        n : int
            How many scores the site has.

        Returns
        -------
        tuple of int
            One rank, or several between 1 and n.
        """
        middle = rank_of(self.share, n)
        if self.spacing is None:
            return (middle,)
        numbers = min(self.numbers, n)
        step = min(self._step(n), (n - 1) // max(numbers - 1, 1)) or 1
        first = min(max(middle - (numbers - 1) * step // 2, 1), n - (numbers - 1) * step)
        return tuple(first + i * step for i in range(numbers))

    def _step(self, n: int) -> int:
        """``spacing * sqrt(n level (1 - level))`` in whole numbers, rounded up from 0.4 on; at least 1.

        Too wide costs less than too narrow: over many sizes this is never less sharp than the nearest number.
        """
        assert self.spacing is not None
        square = 25 * self.spacing**2 * n * self.level * (1 - self.level)
        return max(1, (3 + isqrt(square.numerator // square.denominator)) // 5)


def usual_spacing(numbers: int) -> Fraction | None:
    """The spacing at which so many numbers say most of a level's quantile, roughly.

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
