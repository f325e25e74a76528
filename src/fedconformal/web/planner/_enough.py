"""From which whole number on a wish is always met, as far as was tried."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

_SPAN = 4  # single numbers are tried up to so many times the answer, where the streak ends before


@dataclass(frozen=True)
class Enough:
    """Numbers that are enough, and how far that was tried.

    Attributes
    ----------
    n : int
        The one before is not enough; all larger numbers that were tried are.
    each_to : int
        Every number from ``n`` to this one was tried.
    some_to : int
        Some numbers up to this one were tried.
    is_first : bool
        Whether no smaller number was found to be enough.
    """

    n: int
    each_to: int
    some_to: int
    is_first: bool


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Parameters
    ----------
    streak : int
        So many numbers in a row must be enough.
    ratio : float
        The single numbers that are tried behind them lie so many times further away from one to the next.
    tries : int
        After so many the search is given up.
    """

    streak: int
    ratio: float
    tries: int


def always_from(
    is_enough: Callable[[int], bool], *, stop: int, effort: Callable[[int], Effort]
) -> Enough | None:
    """Return the number from which on all are enough, as far as was tried.

    More is not always better where ranks are whole numbers. From the first number that was found by doubling
    and halving, many numbers in a row are tried, and some further away; behind the last of them that is not
    enough, the search begins again.

    Parameters
    ----------
    is_enough : callable
        Whether a whole number is.
    stop : int
        The largest number to try.
    effort : callable
        How much is tried from a number on.

    Returns
    -------
    Enough or None
        From 1 to ``stop``; None if none was found.

    Examples
    --------
    >>> always_from(lambda n: n in (5, 8) or n > 9, stop=1000, effort=lambda n: Effort(20, 2.0, 500))
    Enough(n=10, each_to=29, some_to=40, is_first=False)
    """
    first = _first(is_enough, stop)
    if first is None:
        return None
    start, tries = first, 0
    while start <= stop and tries < effort(start).tries:
        each_to = min(stop, start + effort(start).streak - 1)
        places = [*range(start, each_to + 1), *_further(each_to, start, stop, effort(start).ratio)]
        wrong = next((i for i, place in enumerate(reversed(places), 1) if not is_enough(place)), None)
        if wrong is None:
            return Enough(start, each_to, places[-1], start == first)
        start, tries = places[-wrong] + 1, tries + wrong
    return None


def _first(is_enough: Callable[[int], bool], stop: int) -> int | None:
    """A number that is enough while the one before is not, found by doubling and halving."""
    low, high = 0, 1
    while not is_enough(high):
        if high == stop:
            return None
        low, high = high, min(2 * high, stop)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _further(begin: int, start: int, stop: int, ratio: float) -> Iterator[int]:
    """Single numbers behind a streak, further and further away."""
    away = max(1, begin - start)
    end = min(stop, _SPAN * start)
    while start + away < end:
        away = int(ratio * away) + 1
        yield min(start + away, end)
