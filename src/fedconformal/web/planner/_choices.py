"""What can be chosen, from the registries: criteria and promises, and which of them go together."""

from fractions import Fraction
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from fedconformal._registry import Registry
from fedconformal.planning import CRITERIA, Criterion, Goal, Promise

_ANY_LEVEL = Fraction(9, 10)


class NameIn:
    """Marks text that must be a name of a registry, in a model and in its schema."""

    def __init__(self, registry: Registry[Any]) -> None:
        self._registry = registry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the name against what is registered."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """List the names, as registered when the schema is made."""
        return {**handler(core), "enum": sorted(self._registry)}

    def _checked(self, name: str) -> str:
        self._registry[name]
        return name


def goes_together(
    promise: Promise, goal: Goal, *, private: bool = False, searched: bool = True, numbers: int = 1
) -> bool:
    """Return whether a promise can be given like that.

    Parameters
    ----------
    promise : Promise
        Whose new points are covered.
    goal : Goal
        Level, criterion, delta and max_faulty.
    private : bool
        Whether reports are private.
    searched : bool
        Whether the local ranks are left to planning.
    numbers : int
        How many numbers a site sends at the most.

    Returns
    -------
    bool
        False where the promise refuses it.
    """
    try:
        promise.check(goal, private=private, is_open=False, searched=searched, numbers=numbers)
    except ValueError:
        return False
    return True


def criteria_for(promise: Promise) -> tuple[Criterion, ...]:
    """Return the criteria that go with a promise.

    Parameters
    ----------
    promise : Promise
        Whose new points are covered.

    Returns
    -------
    tuple of Criterion
        The promise's default first, criteria that take delta last.
    """
    known = [CRITERIA[name]() for name in CRITERIA]
    fitting = [each for each in known if goes_together(promise, Goal(_ANY_LEVEL, each))]
    return tuple(sorted(fitting, key=lambda each: (each.name != promise.default_criterion, each.takes_delta)))


def criterion_words(criterion: Criterion, delta: float) -> str:
    """Return a criterion as the page calls it.

    Parameters
    ----------
    criterion : Criterion
        In which sense new cases are covered.
    delta : float
        For criteria that take it.

    Returns
    -------
    str
        Begins with a small letter.
    """
    close = ", and close to it every time" if criterion.trades_up else ""
    return f"{criterion.surety(delta)}{close}"


def allows_faulty(promise: Promise) -> bool:
    """Return whether a promise can be given while some reports may be arbitrary."""
    return goes_together(promise, _usual_goal(promise, max_faulty=1))


def allows_privacy(promise: Promise) -> bool:
    """Return whether a promise can be given with private reports."""
    return goes_together(promise, _usual_goal(promise), private=True)


def allows_numbers(promise: Promise) -> bool:
    """Return whether a promise can be given with several numbers from each site."""
    return goes_together(promise, _usual_goal(promise), numbers=2)


def _usual_goal(promise: Promise, *, max_faulty: int = 0) -> Goal:
    return Goal(_ANY_LEVEL, CRITERIA[promise.default_criterion](), max_faulty=max_faulty)
