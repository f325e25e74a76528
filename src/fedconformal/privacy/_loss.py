"""Privacy loss: which epsilon may be asked for, and how much noise it takes.

A mechanism is epsilon-private if replacing one record changes the probability of every release by a factor of
at most ``exp(epsilon)``.
"""

import math
import sys
from fractions import Fraction
from functools import lru_cache

from fedconformal._validation import fraction
from fedconformal.documents import LARGEST_EPSILON


def check_epsilon(epsilon: float | Fraction) -> Fraction:
    """The privacy loss that is promised, exactly: in (0, 100].

    It is read both as the decimal that was written and as the float64 that was meant; the smaller counts.
    """
    written = fraction("epsilon", epsilon, high=LARGEST_EPSILON, closed=True)
    return min(written, Fraction(float(epsilon)))


@lru_cache(maxsize=1024, typed=True)  # a search asks for a few of them again and again
def scale_of(width: int, epsilon: float | Fraction) -> float:
    """``width / epsilon``, rounded up, so that rounding never costs privacy."""
    exact = width / check_epsilon(epsilon)
    if exact > sys.float_info.max:
        raise ValueError(f"epsilon must be at least {width / sys.float_info.max:.3g} here, got {epsilon}")
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def confirm_loss(loss: float, epsilon: float) -> None:
    """Refuse a mechanism whose loss OpenDP puts above what was promised."""
    if not loss <= epsilon:
        raise RuntimeError(
            f"OpenDP puts the privacy loss at {loss}, above epsilon={epsilon}: nothing was released"
        )
