"""What would reach a wish: another choice for the same cases, more cases, or a larger privacy loss."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from pydantic import Field

from fedconformal._text import count, percent
from fedconformal.planning import CRITERIA
from fedconformal.web.planner._choices import criterion_words
from fedconformal.web.planner._enough import Effort, Enough, always_from
from fedconformal.web.planner._limits import MOST_POINTS, MOST_PRIVATE_WISH_POINTS, MOST_WISH_NUMBERS
from fedconformal.web.planner._question import Message, PlanQuestion, WishRequest
from fedconformal.web.planner._solution import Solution, is_quick, other_criteria, other_numbers, solve

_STEPS = 360  # of epsilon: the numbers with two digits from 0.01 to 100
_QUICK, _SLOW = Effort(streak=100, ratio=1.1, tries=1000), Effort(streak=6, ratio=2.0, tries=80)
_LARGE = Effort(streak=20, ratio=1.4, tries=200)  # of equal sites that take a little longer
_LARGE_POINTS = 2000
_SMOOTH = Effort(streak=3, ratio=4.0, tries=40)  # noise leaves no steps of whole ranks


class _Wish(ABC):
    """What may be wished for."""

    @abstractmethod
    def is_met(self, solution: Solution, value: float) -> bool:
        """Whether a plan gives it."""

    @abstractmethod
    def why_never(self, request: WishRequest) -> str:
        """Why no number of cases may be enough; empty where the wish itself does not say."""


class _RarelyBelow(_Wish):
    def is_met(self, solution: Solution, value: float) -> bool:
        return solution.law is not None and solution.law.low >= value

    def why_never(self, request: WishRequest) -> str:
        if request.value < request.confidence_level:
            return ""
        return (
            f"The level is {percent(request.confidence_level)}: with more cases the coverage comes closer to "
            f"it, from both sides. That 19 of 20 calibrations reach {percent(request.value)} takes a higher "
            "level, or a promise that is surer."
        )


class _ExpectedAtMost(_Wish):
    def is_met(self, solution: Solution, value: float) -> bool:
        if solution.question.promised.is_bound:
            raise ValueError("for this promise there is a lower bound on the coverage, and nothing to expect")
        return solution.expected_mean <= value

    def why_never(self, request: WishRequest) -> str:
        if request.value >= request.confidence_level or request.goal.criterion.takes_delta:
            return ""
        level = percent(request.confidence_level)
        return f"The promise is {level} on average: sets that cover less, on average, would break it."


_WISHES: dict[str, _Wish] = {"low": _RarelyBelow(), "mean": _ExpectedAtMost()}


class WishAnswer(Message):
    """Whether a wish is met, and what would be enough."""

    met: bool = Field(description="whether the plan as it is meets the wish")
    criteria: tuple[str, ...] = Field(
        description="other criteria that meet it with the same cases; empty if the plan does"
    )
    numbers: int | None = Field(
        description="numbers per site that meet it with the same cases; null if the plan does, or none do"
    )
    n_points: int | None = Field(
        description="cases at every site that meet it while one less does not, as do all larger numbers that "
        "were tried"
    )
    each_to: int | None = Field(description="every number of cases from n_points to this one was tried")
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
        return solution.is_feasible and _WISHES[request.wish].is_met(solution, request.value)

    most = MOST_POINTS if question.privacy is None else MOST_PRIVATE_WISH_POINTS
    is_met = met(question)
    criteria = () if is_met else _other_criteria(question, met)
    numbers = None if is_met else _more_numbers(question, met)
    points = always_from(
        lambda n: met(_with_points(question, n)), stop=most, effort=partial(_effort, question)
    )
    epsilon = _enough_epsilon(question, met)
    return WishAnswer(
        met=is_met,
        criteria=criteria,
        numbers=numbers,
        n_points=None if points is None else points.n,
        each_to=None if points is None else points.each_to,
        epsilon=epsilon,
        sentences=(
            "This plan meets it." if is_met else "This plan does not meet it.",
            *_free_sentences(question, criteria, numbers),
            *(_points_sentences(question, points, is_met=is_met) if points else _out_of_reach(request, most)),
            *_epsilon_sentences(question, epsilon),
        ),
    )


def _effort(question: PlanQuestion, n: int) -> Effort:
    if not is_quick(_with_points(question, n)):
        return _SLOW
    return _QUICK if n <= _LARGE_POINTS else _LARGE


# -- what costs no more cases ------------------------------------------------------------------------------


def _other_criteria(question: PlanQuestion, met: Callable[[PlanQuestion], bool]) -> tuple[str, ...]:
    """Criteria that meet the wish with the cases there are."""
    return tuple(other.goal.criterion.name for other in other_criteria(question) if met(other))


def _more_numbers(question: PlanQuestion, met: Callable[[PlanQuestion], bool]) -> int | None:
    """One number more, where that can be sent and meets the wish with the cases there are."""
    more = question.how_many + 1
    can_be_sent = other_numbers(question) is not None and more <= MOST_WISH_NUMBERS
    return more if can_be_sent and met(question.model_copy(update={"numbers": more})) else None


# -- more cases, or a larger privacy loss ------------------------------------------------------------------


def _with_points(question: PlanQuestion, n: int) -> PlanQuestion:
    return question.model_copy(update={"sites": question.n_sites, "points": n, "names": None})


def _enough_epsilon(question: PlanQuestion, met: Callable[[PlanQuestion], bool]) -> float | None:
    """A privacy loss that meets the wish while the next smaller does not; None if reports are not private."""
    privacy = question.privacy
    if privacy is None:
        return None

    def is_enough(step: int) -> bool:
        changed = privacy.model_copy(update={"epsilon": two_digits(step)})
        return met(question.model_copy(update={"privacy": changed}))

    found = always_from(is_enough, stop=_STEPS, effort=lambda step: _SMOOTH)
    return None if found is None else two_digits(found.n)


def two_digits(step: int) -> float:
    """0.01, 0.011, ..., 0.099, 0.1, 0.11, ..., 100, for the steps 0, 1, 2, ..."""
    decade, rest = divmod(step, 90)
    return float(Fraction(10 + rest, 10) * Fraction(10) ** (decade - 2))


def step_of(epsilon: float) -> int:
    """The step of the largest number with two digits that is not above epsilon, at least 1."""
    return max(1, min(_STEPS, sum(two_digits(step) <= epsilon for step in range(_STEPS + 1)) - 1))


# -- in words ----------------------------------------------------------------------------------------------


def _free_sentences(question: PlanQuestion, criteria: tuple[str, ...], numbers: int | None) -> Iterator[str]:
    ways = [f"“{criterion_words(CRITERIA[name](), question.delta)}”" for name in criteria]
    if numbers is not None:
        ways.append(f"{count(numbers, 'number')} per site")
    if ways:
        yield f"With the same cases, this would meet it: {', or '.join(ways)}."


def _out_of_reach(request: WishRequest, most: int) -> Iterator[str]:
    """That more cases do not help, and why, where the wish is beyond what any number of them gives."""
    yield f"No number of cases up to {most:,} at each site was found from which on it is always met."
    yield from filter(None, [_WISHES[request.wish].why_never(request)])


def _points_sentences(question: PlanQuestion, found: Enough, *, is_met: bool) -> Iterator[str]:
    where = "at the site" if question.n_sites == 1 else f"at each of {question.n_sites:,} sites"
    enough, short = f"{count(found.n, 'case')} {where}", found.n - 1
    further = f", and some up to {found.some_to:,}" if found.some_to > found.each_to else ""
    tried = f"each up to {found.each_to:,}{further}"
    is_smaller = is_met and question.is_alike and question.sizes[0] < found.n
    if found.is_first and not is_smaller:
        less = f"; {short:,} {'is' if short == 1 else 'are'} not" if short else ""
        yield f"{enough} {'are' if short else 'is'} enough{less}."
        yield f"So is every larger number that was tried: {tried}."
    else:
        yield (
            f"From {enough} on it is always met, as far as was tried: {tried}; with {short:,} it is not. "
            "Ranks are whole numbers, so more cases are not always better: some smaller numbers meet it too."
        )


def _epsilon_sentences(question: PlanQuestion, epsilon: float | None) -> Iterator[str]:
    if question.privacy is not None:
        yield (
            "With the cases there are, no ε up to 100 was found to meet it."
            if epsilon is None
            else f"With the cases there are, ε = {epsilon:g} is enough; the next smaller one is not."
        )
