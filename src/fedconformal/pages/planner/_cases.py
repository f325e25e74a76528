"""The number of cases per site that suffices for a coverage in 95 of 100 calibrations."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fedconformal._text import count, percent
from fedconformal.pages.planner._question import MOST_POINTS, PlanQuestion
from fedconformal.pages.planner._solution import solve

_MOST_NUMBERS = 5
_MOST_PRIVATE_SITES, _MOST_PRIVATE_POINTS = 1_000, 10_000
_SPAN = 4  # some numbers are tried up to this many times the answer


class Effort(NamedTuple):
    """Effort of a search.

    ``streak`` numbers in a row must suffice; behind them single numbers are tried, each ``ratio`` times
    further away; after ``tries`` failures the search is given up.
    """

    streak: int
    ratio: float
    tries: int


_QUICK, _LARGE, _SLOW = Effort(100, 1.1, 1000), Effort(20, 1.4, 200), Effort(6, 2.0, 80)
_LARGE_POINTS, _SLOW_POINTS = 2_000, 10_000


class CasesAnswer(NamedTuple):
    """Smallest number of cases per site, how far larger numbers were checked, and both in a sentence."""

    n_points: int | None
    checked_to: int | None
    sentence: str


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


def answer_cases(
    question: PlanQuestion, coverage: float, is_abandoned: Callable[[], bool] = lambda: False
) -> CasesAnswer:
    """Return how many cases every site needs.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted of a federation of sites of equal size.
    coverage : float
        Coverage that 95 of 100 calibrations are to reach.
    is_abandoned : callable
        True if nobody waits any more; asked before each step of the search.

    Returns
    -------
    CasesAnswer
        A number that suffices while one less does not, as do all larger numbers that were tried.

    Raises
    ------
    AbandonedError
        As soon as nobody waits any more.
    ValueError
        If there is no distribution of the coverage, or the search would take too long.

    Examples
    --------
    >>> answer_cases(PlanQuestion(sites=10, points=79), 0.88).sentence
    'You need at least 85 cases per site (checked up to 340).'
    """
    most = MOST_POINTS if question.privacy is None else _MOST_PRIVATE_POINTS
    _check(question, coverage)

    def is_enough(n: int) -> bool:
        if is_abandoned():
            raise AbandonedError
        alike = {"sites": question.n_sites, "points": n, "names": None}
        solution = solve(question.model_copy(update=alike))
        return solution.is_feasible and solution.law is not None and solution.law.low >= coverage

    def effort(n: int) -> Effort:
        if question.privacy is not None or question.how_many > 1 or n > _SLOW_POINTS:
            return _SLOW
        return _QUICK if n <= _LARGE_POINTS else _LARGE

    enough = always_from(is_enough, stop=most, effort=effort)
    if enough is not None:
        n, checked_to = enough
        sentence = f"You need at least {count(n, 'case')} per site (checked up to {checked_to:,})."
        return CasesAnswer(n, checked_to, sentence)
    sentence = f"No number of cases per site up to {most:,} is known to suffice."
    if coverage >= question.confidence_level:
        level = percent(question.confidence_level)
        sentence += f" With more cases the coverage comes closer to {level}, from both sides."
    return CasesAnswer(None, None, sentence)


def _check(question: PlanQuestion, coverage: float) -> None:
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must be between 0 and 1, got {coverage:g}")
    if question.how_many > _MOST_NUMBERS:
        raise ValueError(f"the cases needed are searched for up to {_MOST_NUMBERS} numbers per site")
    if question.privacy is not None and (
        question.n_sites > _MOST_PRIVATE_SITES or max(question.sizes) > _MOST_PRIVATE_POINTS
    ):
        raise ValueError(
            f"with privacy, the cases needed are searched for up to {_MOST_PRIVATE_SITES:,} sites of up to "
            f"{_MOST_PRIVATE_POINTS:,} cases"
        )
    if solve(question).planned_law is None:
        raise ValueError(
            f"promise {question.promise!r} has no distribution of the coverage here to search with"
        )


def always_from(
    is_enough: Callable[[int], bool], *, stop: int, effort: Callable[[int], Effort]
) -> tuple[int, int] | None:
    """Return the number from which on all that were tried are enough, and how far that was tried.

    More is not always better where ranks are whole numbers. From the first number that was found by doubling
    and halving, many numbers in a row are tried, and some further away; behind the last of them that is not
    enough, the search begins again. None means that no number up to ``stop`` was found.

    Examples
    --------
    >>> always_from(lambda n: n in (5, 8) or n > 9, stop=1000, effort=lambda n: Effort(20, 2.0, 500))
    (10, 40)
    """
    start = _first(is_enough, stop)
    tries = 0
    while start is not None and start <= stop and tries < effort(start).tries:
        each_to = min(stop, start + effort(start).streak - 1)
        places = [*range(start, each_to + 1), *_further(each_to, start, stop, effort(start).ratio)]
        wrong = next((i for i, place in enumerate(reversed(places), 1) if not is_enough(place)), None)
        if wrong is None:
            return start, places[-1]
        start, tries = places[-wrong] + 1, tries + wrong
    return None


def _first(is_enough: Callable[[int], bool], stop: int) -> int | None:
    """Find a number that is enough while the one before is not, by doubling and halving."""
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
    """Yield single numbers behind a streak, further and further away."""
    away = max(1, begin - start)
    end = min(stop, _SPAN * start)
    while start + away < end:
        away = int(ratio * away) + 1
        yield min(start + away, end)
