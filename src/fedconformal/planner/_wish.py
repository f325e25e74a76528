"""What would be enough: points, or a privacy loss, that reach a wish while one less does not."""

from collections.abc import Callable
from fractions import Fraction

from pydantic import Field

from fedconformal.pages import _words as words
from fedconformal.planner._questions import (
    MOST_POINTS,
    MOST_PRIVATE_WISH_POINTS,
    Part,
    PlanQuestion,
    WishRequest,
)
from fedconformal.planner._solve import expected_mean, solve

_STEPS = 360  # of epsilon: the numbers with two digits from 0.01 to 100


class WishAnswer(Part):
    """Whether a wish is met, and what would be enough."""

    met: bool = Field(description="whether the plan as it is meets the wish")
    n_points: int | None = Field(description="points at every site that meet it while one less does not")
    epsilon: float | None = Field(
        description="two-digit privacy loss that meets it while the next smaller does not"
    )
    sentences: tuple[str, ...]


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


def grant(request: WishRequest, abandoned: Callable[[], bool] = lambda: False) -> WishAnswer:
    """Search for the smallest change that reaches the wish, for as long as somebody waits for it."""
    question = request.question

    def met(changed: PlanQuestion) -> bool:
        if abandoned():
            raise AbandonedError
        return _is_met(changed, request.wish, request.value)

    most = MOST_POINTS if question.privacy is None else MOST_PRIVATE_WISH_POINTS
    points = edge(lambda n: met(_with_points(question, n)), start=min(max(question.sizes), most), stop=most)
    epsilon = None
    if question.privacy is not None:
        start = _step_of(question.privacy.epsilon)
        found = edge(lambda step: met(_with_epsilon(question, step)), start=start, stop=_STEPS)
        epsilon = None if found is None else _two_digits(found)
    holds = met(question)
    return WishAnswer(
        met=holds,
        n_points=points,
        epsilon=epsilon,
        sentences=_sentences(question, holds, points, most, epsilon),
    )


def _is_met(question: PlanQuestion, wish: str, value: float) -> bool:
    solution = solve(question)
    if not solution.feasible:
        return False
    if wish == "unlucky":
        return solution.left.unlucky >= value
    return expected_mean(solution) <= value


def edge(enough: Callable[[int], bool], *, start: int, stop: int) -> int | None:
    """A whole number from 1 to ``stop`` that is enough while the one before is not; None if none was found.

    Looks from ``start`` in steps that double, then halves. Where not all larger numbers are enough, smaller
    edges may exist.
    """
    low, high = (0, start) if enough(start) else (start, start)
    step = max(1, start // 4)
    if low == 0:
        while high - step > 0 and enough(high - step):
            high, step = high - step, 2 * step
        low = max(0, high - step)
    else:
        while True:
            if high >= stop:
                return None
            high, step = min(high + step, stop), 2 * step
            if enough(high):
                break
            low = high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _with_points(question: PlanQuestion, n: int) -> PlanQuestion:
    return question.model_copy(update={"sites": question.n_sites, "points": n})


def _with_epsilon(question: PlanQuestion, step: int) -> PlanQuestion:
    assert question.privacy is not None
    privacy = question.privacy.model_copy(update={"epsilon": _two_digits(step)})
    return question.model_copy(update={"privacy": privacy})


def _two_digits(step: int) -> float:
    """0.01, 0.011, ..., 0.099, 0.1, 0.11, ..., 100, for the steps 0, 1, 2, ..."""
    decade, rest = divmod(step, 90)
    return float(Fraction(10 + rest, 10) * Fraction(10) ** (decade - 2))


def _step_of(epsilon: float) -> int:
    return max(1, min(_STEPS, sum(_two_digits(step) <= epsilon for step in range(_STEPS + 1)) - 1))


def _sentences(
    question: PlanQuestion, met: bool, points: int | None, most: int, epsilon: float | None
) -> tuple[str, ...]:
    says = ["This plan meets it." if met else "This plan does not meet it."]
    sites = words.count(question.n_sites, "site")
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
