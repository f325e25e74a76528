"""Choices that the page offers: what is registered, and which of it goes together."""

from fractions import Fraction
from typing import Any

from fedconformal._text import percent
from fedconformal.planning import CRITERIA, PROMISES, Criterion, Goal, Promise
from fedconformal.scores import SCORES, from_name
from fedconformal.web._words import in_cases
from fedconformal.web.planner._question import USUAL_PROMISE, PlanQuestion

_ANY_LEVEL = Fraction(9, 10)


def goes_together(promise: Promise, goal: Goal, *, private: bool = False, numbers: int = 1) -> bool:
    """Return whether a promise can be given like that."""
    try:
        promise.check(goal, private=private, is_open=False, numbers=numbers)
    except ValueError:
        return False
    return True


def criteria_for(promise: Promise) -> list[Criterion]:
    """Return the criteria that go with a promise: its default first, criteria that take delta last."""
    known = [CRITERIA[name]() for name in CRITERIA]
    fitting = [each for each in known if goes_together(promise, Goal(_ANY_LEVEL, each))]
    return sorted(fitting, key=lambda each: (each.name != promise.default_criterion, each.takes_delta))


def criterion_words(criterion: Criterion, delta: float) -> str:
    """Return a criterion as the page calls it, beginning with a small letter."""
    close = ", and close to it every time" if criterion.trades_up else ""
    return f"{criterion.surety(delta)}{close}"


def page_choices() -> dict[str, Any]:
    """Return promises, criteria and scores for the page, each with what goes with it."""
    ordered = [each.name for each in criteria_for(PROMISES[USUAL_PROMISE]())]
    return {
        "usual": PROMISES[USUAL_PROMISE](),
        "promises": [_promise(name) for name in sorted(PROMISES, key=lambda name: name != USUAL_PROMISE)],
        "criteria": [_criterion(name) for name in (*ordered, *(n for n in CRITERIA if n not in ordered))],
        "scores": [(name, words) for name in SCORES if (words := _score_words(name))],
    }


def _promise(name: str) -> dict[str, Any]:
    promise = PROMISES[name]()
    criterion = CRITERIA[promise.default_criterion]()
    goal = Goal(_ANY_LEVEL, criterion)
    return {
        "promise": promise,
        "assumed": in_cases(promise.assumed()),
        "criteria": " ".join(each.name for each in criteria_for(promise)),
        "faulty": goes_together(promise, Goal(_ANY_LEVEL, criterion, max_faulty=1)),
        "numbers": goes_together(promise, goal, numbers=2),
        "privacy": goes_together(promise, goal, private=True),
    }


def _criterion(name: str) -> dict[str, Any]:
    """Name and words of a criterion; where these hold a certainty, the words before and after it."""
    criterion, delta = CRITERIA[name](), float(PlanQuestion.model_fields["delta"].default)
    words = criterion_words(criterion, delta)
    if not criterion.takes_delta:
        return {"name": name, "words": words, "certainty": None}
    before, _, after = words.partition(percent(1 - delta))
    return {"name": name, "words": before, "certainty": f"{100 * (1 - delta):g}", "after": after}


def _score_words(name: str) -> str:
    """Return the inputs of a score; empty where its parameters have no defaults."""
    try:
        score = from_name(name)
    except ValueError:
        return ""
    return score.column_help().partition(", in the order")[0]
