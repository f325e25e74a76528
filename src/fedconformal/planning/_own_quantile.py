"""How likely a site's number lies above a quantile of its own scores, and ranks for which that is likely."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

from fedconformal.documents import LARGEST_N, MOST_SITES
from fedconformal.planning._advice import smallest
from fedconformal.planning._unlike import usual_threshold

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
