"""What would be enough: points, or a privacy loss, that reach a wish while one less does not."""

from collections.abc import Callable
from fractions import Fraction

from pydantic import Field

from fedconformal._text import count
from fedconformal.web.planner._limits import MOST_POINTS, MOST_PRIVATE_WISH_POINTS
from fedconformal.web.planner._question import Message, PlanQuestion, WishRequest
from fedconformal.web.planner._solution import Solution, solve

_STEPS = 360  # of epsilon: the numbers with two digits from 0.01 to 100


def _is_rarely_below(solution: Solution, value: float) -> bool:
    return solution.law is not None and solution.law.low >= value


def _is_expected_at_most(solution: Solution, value: float) -> bool:
    if solution.question.promised.is_bound:
        raise ValueError("for this promise there is a lower bound on the coverage, and nothing to expect")
    return solution.expected_mean <= value


_IS_MET: dict[str, Callable[[Solution, float], bool]] = {
    "low": _is_rarely_below,
    "mean": _is_expected_at_most,
}


class WishAnswer(Message):
    """Whether a wish is met, and what would be enough."""

    met: bool = Field(description="whether the plan as it is meets the wish")
    n_points: int | None = Field(description="points at every site that meet it while one less does not")
    epsilon: float | None = Field(
        description="two-digit privacy loss that meets it while the next smaller does not"
    )
    sentences: tuple[str, ...]


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


def answer_wish(request: WishRequest, is_abandoned: Callable[[], bool] = lambda: False) -> WishAnswer:
    """Search for the smallest change that reaches a wish, for as long as somebody waits for it.

    Parameters
    ----------
    request : WishRequest
        A question, and the coverage that is wished for.
    is_abandoned : callable
        Whether nobody waits any more; asked before each step of the search.

    Returns
    -------
    WishAnswer
        Whether the plan as it is meets the wish, and what would.

    Raises
    ------
    AbandonedError
        As soon as nobody waits any more.

    Examples
    --------
    >>> import fedconformal as fc
    >>> wish = fc.web.WishRequest(sites=5, points=20, wish="low", value=0.8)
    >>> type(fc.web.answer_wish(wish)).__name__
    'WishAnswer'
    """
    question = request.question

    def met(changed: PlanQuestion) -> bool:
        if is_abandoned():
            raise AbandonedError
        solution = solve(changed)
        return solution.is_feasible and _IS_MET[request.wish](solution, request.value)

    most = MOST_POINTS if question.privacy is None else MOST_PRIVATE_WISH_POINTS
    start = min(max(question.sizes), most)
    points = turning_point(lambda n: met(_with_points(question, n)), start=start, stop=most)
    epsilon, is_met = _enough_epsilon(question, met), met(question)
    return WishAnswer(
        met=is_met,
        n_points=points,
        epsilon=epsilon,
        sentences=_sentences(question, is_met, points, most, epsilon),
    )


def turning_point(is_enough: Callable[[int], bool], *, start: int, stop: int) -> int | None:
    """Return a whole number that is enough while the one before is not.

    Looks from ``start`` in steps that double, then halves. Where not all larger numbers are enough, there may
    be smaller turning points.

    Parameters
    ----------
    is_enough : callable
        Whether a whole number is.
    start : int
        Where to begin.
    stop : int
        The largest number to try.

    Returns
    -------
    int or None
        From 1 to ``stop``; None if none was found.
    """
    found = _below(is_enough, start) if is_enough(start) else _above(is_enough, start, stop)
    if found is None:
        return None
    low, high = found
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _below(is_enough: Callable[[int], bool], start: int) -> tuple[int, int]:
    """Two numbers, the lower not enough (or 0), the higher enough; ``start`` is."""
    high, step = start, max(1, start // 4)
    while high - step > 0 and is_enough(high - step):
        high, step = high - step, 2 * step
    return max(0, high - step), high


def _above(is_enough: Callable[[int], bool], start: int, stop: int) -> tuple[int, int] | None:
    """Two numbers, the lower not enough, the higher enough; ``start`` is not."""
    low, step = start, max(1, start // 4)
    while low < stop:
        high = min(low + step, stop)
        if is_enough(high):
            return low, high
        low, step = high, 2 * step
    return None


def _with_points(question: PlanQuestion, n: int) -> PlanQuestion:
    return question.model_copy(update={"sites": question.n_sites, "points": n})


def _enough_epsilon(question: PlanQuestion, met: Callable[[PlanQuestion], bool]) -> float | None:
    """A privacy loss that meets the wish while the next smaller does not; None if reports are not private."""
    privacy = question.privacy
    if privacy is None:
        return None

    def is_enough(step: int) -> bool:
        changed = privacy.model_copy(update={"epsilon": two_digits(step)})
        return met(question.model_copy(update={"privacy": changed}))

    found = turning_point(is_enough, start=step_of(privacy.epsilon), stop=_STEPS)
    return None if found is None else two_digits(found)


def two_digits(step: int) -> float:
    """0.01, 0.011, ..., 0.099, 0.1, 0.11, ..., 100, for the steps 0, 1, 2, ..."""
    decade, rest = divmod(step, 90)
    return float(Fraction(10 + rest, 10) * Fraction(10) ** (decade - 2))


def step_of(epsilon: float) -> int:
    """The step of the largest number with two digits that is not above epsilon, at least 1."""
    return max(1, min(_STEPS, sum(two_digits(step) <= epsilon for step in range(_STEPS + 1)) - 1))


def _sentences(
    question: PlanQuestion, is_met: bool, points: int | None, most: int, epsilon: float | None
) -> tuple[str, ...]:
    says = ["This plan meets it." if is_met else "This plan does not meet it."]
    sites = count(question.n_sites, "site")
    if points is None:
        says.append(f"No size up to {most:,} at each site was found to meet it.")
    elif points == 1:
        says.append(f"1 case at each of {sites} is enough.")
    else:
        says.append(f"{points:,} cases at each of {sites} are enough; {points - 1:,} are not.")
    if question.privacy is not None:
        says.append(
            "With the cases there are, no ε up to 100 was found to meet it."
            if epsilon is None
            else f"With the cases there are, ε = {epsilon:g} is enough; the next smaller one is not."
        )
    return tuple(says)
