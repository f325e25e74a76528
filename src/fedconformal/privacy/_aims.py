"""Where a private release aims: how far every bin is from it, in whole numbers.

L_b and R_b count a site's scores in bins below b, and in bins up to b. Neighbours replace one record: if it
goes up, each of L_b and R_b falls by 0 or 1; if it goes down, each rises by 0 or 1. The errors of all bins
then move by amounts in one interval, whose width is all that counts: mechanisms depend on differences of
errors only.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal._typing import Ints

_LARGEST = int(np.iinfo(np.int64).max)
_LARGEST_DENOMINATOR = 2**53


@dataclass(frozen=True)
class Aim(ABC):
    """The quantile at which sites aim, and the errors of bins that miss it.

    Parameters
    ----------
    quantile : Fraction
        In (0, 1), with a denominator of at most 2^53.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.privacy import Aim, Balanced
    >>> isinstance(Balanced(Fraction(9, 10)), Aim), Balanced(Fraction(9, 10)).rank(79)
    (True, 72)
    """

    quantile: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no quantile."""
        check_share("quantile", self.quantile)

    @property
    def slope(self) -> Fraction | None:
        """How the errors rise, where that is free to choose."""
        return None

    def rank(self, n: Any) -> Any:
        """The rank at which sites aim: ``ceil(quantile * n)``, from 1 to n, for whole n or an array of it."""
        a, d = self.quantile.as_integer_ratio()
        return -(-a * n // d)

    @property
    @abstractmethod
    def change(self) -> int:
        """Width of the interval in which all errors move when one record is replaced."""

    @abstractmethod
    def errors(self, below: Ints, at_most: Ints, n: Ints | int) -> Ints:
        """The error of every bin, from L_b, R_b and the number of scores."""

    @abstractmethod
    def gaps(self, n: int, ranks: Ints) -> Ints:
        """By how much bins with R_b < r are worse than some other bin, for every data set and each rank r."""

    def check_size(self, n: int) -> None:
        """Refuse sizes whose errors might not fit in 64 bits."""
        d = max(self.change, self.quantile.denominator)
        if n * d > _LARGEST:
            raise ValueError(f"n * d must be at most {_LARGEST} for an aim in units of 1/d, got n={n}, d={d}")


@dataclass(frozen=True)
class Slopes(Aim):
    """A target rank t with a slope of its own on either side: u above it, v below it.

    The error of bin b is ``max(u (L_b - t + 1), v (t - R_b), 0)``: zero for the bin that holds the t-th
    smallest score, and for no other.

    Privacy: if a record goes up, the first term changes by -u or 0 and the second by 0 or v, so that the
    error changes by an amount in [-u, v]; if it goes down, in [-v, u]. Either interval has width u + v.

    Parameters
    ----------
    quantile : Fraction
        Sites of n scores aim at rank ``t = ceil(quantile * n)``.
    steepness : Fraction
        ``v / (u + v)`` in lowest terms, in (0, 1).

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.privacy import Slopes
    >>> Slopes(Fraction(9, 10), Fraction(9, 10)).quantile
    Fraction(9, 10)
    """

    steepness: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no quantile or no slope."""
        super().__post_init__()
        check_share("slope", self.steepness)

    @property
    def slope(self) -> Fraction:
        """``v / (u + v)``."""
        return self.steepness

    @property
    def change(self) -> int:
        """``u + v``."""
        return self.steepness.denominator

    @property
    def _slopes(self) -> tuple[int, int]:
        v, both = self.steepness.as_integer_ratio()
        return both - v, v

    def errors(self, below: Ints, at_most: Ints, n: Ints | int) -> Ints:
        """``max(u (L_b - t + 1), v (t - R_b), 0)``."""
        (u, v), t = self._slopes, self.rank(n)
        errors: Ints = np.maximum(np.maximum((below - t + 1) * u, (t - at_most) * v), 0)
        return errors

    def gaps(self, n: int, ranks: Ints) -> Ints:
        """``v (t - r + 1)`` up to the target, ``-u (r - t)`` beyond it.

        Proof: up to the target, a bin with R_b < r has an error of at least v (t - r + 1), and the bin that
        holds the t-th smallest score, which is none of them, has none. Beyond it, the bin that holds the r-th
        smallest score has L_b <= r - 1 and R_b >= t, hence an error of at most u (r - t); the others have
        none at the least. The first is attained by r - 1 scores in the first bin and all others in the last,
        and so is the second if there are two bins.
        """
        (u, v), t = self._slopes, self.rank(n)
        gaps: Ints = np.where(ranks <= t, (t - ranks + 1) * v, (t - ranks) * u)
        return gaps


@dataclass(frozen=True)
class Balanced(Aim):
    """The paper's Algorithm 2: for the quantile a/d the error of bin b is ``max(L_b (d - a), G_b a)``.

    G_b = n - R_b is the number of scores above. If a record goes up, the error changes by an amount in
    [-(d-a), a]; if it goes down, in [-a, d-a]. Either interval has width d.

    Parameters
    ----------
    quantile : Fraction
        In [1/2, 1).

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.privacy import Balanced
    >>> Balanced(Fraction(9, 10)).quantile
    Fraction(9, 10)
    """

    def __post_init__(self) -> None:
        """Refuse quantiles below a half."""
        super().__post_init__()
        if self.quantile < Fraction(1, 2):
            raise ValueError(f"quantile must be in [1/2, 1) with balanced errors, got {self.quantile}")

    @property
    def change(self) -> int:
        """The denominator d."""
        return self.quantile.denominator

    def errors(self, below: Ints, at_most: Ints, n: Ints | int) -> Ints:
        """``max(L_b (d - a), G_b a)``."""
        a, d = self.quantile.as_integer_ratio()
        errors: Ints = np.maximum(below * (d - a), (n - at_most) * a)
        return errors

    def gaps(self, n: int, ranks: Ints) -> Ints:
        """``a (n-r+1) - min over r' >= r of max((r'-1)(d-a), (n-r') a)``.

        Proof: a bin with R_b < r has at least n - r + 1 scores above it, hence an error of at least
        a (n-r+1). The bin of the r'-th smallest score, r' >= r, is none of these and has an error of at most
        max((r'-1)(d-a), (n-r') a). The gap is the first minus the smallest of the second.
        """
        a, d = self.quantile.as_integer_ratio()
        every = np.arange(1, n + 1, dtype=np.int64)
        best = np.maximum((every - 1) * (d - a), (n - every) * a)
        least = np.minimum.accumulate(best[::-1])[::-1]
        gaps: Ints = a * (n - ranks + 1) - least[ranks - 1]
        return gaps


def check_share(name: str, value: Fraction) -> Fraction:
    """A fraction strictly between 0 and 1 whose denominator is exact in float64."""
    if not isinstance(value, Fraction):
        raise TypeError(f"{name} must be a Fraction in (0, 1), got {value!r}")
    if not 0 < value < 1:
        raise ValueError(f"{name} must be in (0, 1), got {value}")
    if value.denominator > _LARGEST_DENOMINATOR:
        raise ValueError(f"the denominator of {name} must be at most 2^53, got {value}")
    return value
