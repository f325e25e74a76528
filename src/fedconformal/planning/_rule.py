"""Ranks for sites whose size is not known beforehand: a rule that each applies to its own size."""

import math
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from scipy import special

from fedconformal._validation import rank_of
from fedconformal.documents import LARGEST_N, MOST_SITES, RankRule
from fedconformal.planning._choosing import smallest
from fedconformal.planning._staircase import usual_threshold

# -- ranks whose scores lie above a quantile of the site's own scores with some probability ---------------


_MARGIN = 1e-9  # by which a chance must exceed what is asked for: rounding never decides
_CANDIDATES = 32  # numbers of votes that are compared
_NEAR = 1.02  # a threshold up to this multiple of the lowest is given up for bearing a silent site
_DIGITS = 10**6  # chances are rounded down to so many parts


def chance_above(n: int, rank: int, level: Fraction) -> float:
    """The probability that the score of this rank lies above the level-quantile of the site's scores.

    Parameters
    ----------
    n, rank : int
        Size of the site, and the rank that it sends; n + 1 stands for +inf.
    level : Fraction
        Which quantile.

    Returns
    -------
    float
        ``1 - I(level; rank, n - rank + 1)``.
    """
    return 1.0 if rank > n else float(special.betainc(n - rank + 1, rank, float(1 - level)))


def rank_above(n: int, level: Fraction, eta: Fraction) -> int:
    """The smallest rank whose score lies above the level-quantile with a chance of at least eta.

    Parameters
    ----------
    n : int
        Size of the site.
    level, eta : Fraction
        Which quantile, and which chance.

    Returns
    -------
    int
        n + 1 where no score does.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.planning import rank_above
    >>> rank_above(100, Fraction(9, 10), Fraction(1, 2))
    91
    """
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        enough = chance_above(n, middle, level) >= float(eta) + _MARGIN
        low, high = (low, middle) if enough else (middle, high)
    return high


def is_above(n: int, rank: int, level: Fraction, eta: Fraction) -> bool:
    """Whether a rank keeps the chance, up to rounding."""
    return chance_above(n, rank, level) >= float(eta)


@dataclass(frozen=True)
class Wanted:
    """At least a share 1 - delta of new sites is to be covered at the level, by m sites.

    Parameters
    ----------
    m : int
        Number of sites.
    level, delta : Fraction
        What is wanted.
    max_missing : int or None
        How many of them may stay silent; None: one, where that costs next to nothing.
    """

    m: int
    level: Fraction
    delta: Fraction
    max_missing: int | None = None

    def chance(self, size: int | None = None) -> Fraction | None:
        """The chance that all sites keep, chosen for a declared size; None if no chance below 1 will do.

        It depends on nothing that is found at the sites.

        Parameters
        ----------
        size : int, optional
            The size of every site, where they are alike.

        Returns
        -------
        Fraction or None
            The best by the yardstick of sites that differ.
        """
        silent = self.max_missing or 0
        if self.least(silent) is None:
            return None
        cost, chosen = self._best(silent, size)
        if self.max_missing is None and self.least(1) is not None:
            other, bearing = self._best(1, size)
            return bearing if other <= _NEAR * cost else chosen
        return chosen

    def least(self, n_silent: int) -> Fraction | None:
        """The smallest chance that will do when so many sites stay silent; None if none below 1 does."""
        if self.m - n_silent < 1:
            return None
        least = 1 / ((self.m - n_silent + 1) * self.delta)
        return least if least < 1 else None

    def _best(self, n_silent: int, size: int | None) -> tuple[float, Fraction]:
        """The cheapest number of votes, and the chance that goes with it."""
        least = self.least(n_silent)
        assert least is not None
        n = size or math.ceil(10 / (1 - self.level))
        found = [(math.inf, least)]
        for k in self._candidates():
            wanted = max((1 - Fraction(k, self.m + 1)) / self.delta, least)
            if wanted >= 1 or (rank := rank_above(n, self.level, wanted)) > n:
                continue
            kept = wanted if size is None else _rounded(chance_above(n, rank, self.level), wanted)
            found.append((usual_threshold(n, rank, self.m, votes_needed(self.m, self.delta, kept)), kept))
        return min(found)

    def _candidates(self) -> list[int]:
        first = math.ceil((self.m + 1) * (1 - self.delta))
        return sorted({int(k) for k in np.linspace(first, self.m, _CANDIDATES)} if first <= self.m else set())

    def smallest_n_sites(self, n: int) -> int | None:
        """Sites of this size that would do."""
        finite = Fraction(chance_above(n, n, self.level) - 2 * _MARGIN)
        if finite * self.delta * MOST_SITES < 1:
            return None
        return math.floor(1 / (self.delta * finite)) + (self.max_missing or 0)

    def smallest_n_points(self, eta: Fraction) -> int | None:
        """The size at which so many sites would do with this chance; None if no size will."""
        least = self.least(self.max_missing or 0)
        if least is None:
            return None
        enough = max(least, eta)
        return smallest(lambda n: rank_above(n, self.level, enough) <= n, start=1, stop=LARGEST_N)


def votes_needed(m: int, delta: Fraction, eta: Fraction) -> int:
    """The votes with which at most a share delta of new sites falls below the level.

    Parameters
    ----------
    m : int
        Sites that answered.
    delta, eta : Fraction
        What is wanted, and the chance that every site keeps.

    Returns
    -------
    int
        ``ceil((m + 1) (1 - delta eta))``, which may be above m.
    """
    return math.ceil((m + 1) * (1 - delta * eta))


def _rounded(chance: float, wanted: Fraction) -> Fraction:
    """A chance as a short fraction below it, but no less than is wanted."""
    return max(Fraction(math.floor((chance - 2 * _MARGIN) * _DIGITS), _DIGITS), wanted)


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
