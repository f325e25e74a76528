"""The planner's controls for promises and criteria, one for each that is registered.

A promise's control says what goes with it, so that the page can offer that and no more.
"""

from decimal import Decimal

from fedconformal._text import percent
from fedconformal.planning import CRITERIA, PROMISES, Criterion, Promise
from fedconformal.scores import SCORES, Score, from_name
from fedconformal.web._cases import in_cases
from fedconformal.web._html import Markup, join, tag
from fedconformal.web.planner import (
    USUAL,
    PlanQuestion,
    allows_faulty,
    allows_numbers,
    allows_privacy,
    criteria_for,
    criterion_words,
)

_DELTA = float(PlanQuestion.model_fields["delta"].default)


def promise_controls() -> Markup:
    """Return a radio button for each promise, the usual one first.

    Returns
    -------
    Markup
        HTML.
    """
    names = sorted(PROMISES, key=lambda name: name != USUAL)
    return join([_promise(PROMISES[name]()) for name in names])


def criterion_controls() -> Markup:
    """Return a radio button for each criterion, in the order of the usual promise.

    Returns
    -------
    Markup
        HTML.
    """
    ordered = [each.name for each in criteria_for(PROMISES[USUAL]())]
    rest = [name for name in CRITERIA if name not in ordered]
    return join([_criterion(CRITERIA[name]()) for name in (*ordered, *rest)])


def score_controls() -> Markup:
    """Return an option for each score that needs no parameters.

    Returns
    -------
    Markup
        HTML.
    """
    usable = [name for name in SCORES if _has_defaults(name)]
    return join([tag("option", _score_words(from_name(name)), value=name) for name in usable])


def _has_defaults(name: str) -> bool:
    try:
        from_name(name)
    except ValueError:
        return False
    return True


def _score_words(score: Score) -> str:
    return f"{score.name}: {score.column_help().partition(', in the order')[0]}"


def _promise(promise: Promise) -> Markup:
    fitting = criteria_for(promise)
    data = {
        "data_criterion": promise.default_criterion,
        "data_criteria": " ".join(criterion.name for criterion in fitting),
        "data_faulty": _yes(allows_faulty(promise)),
        "data_numbers": _yes(allows_numbers(promise)),
        "data_privacy": _yes(allows_privacy(promise)),
        "data_usual": str(promise.default_numbers),
        "data_law": _yes(promise.has_law),
        "data_bound": _yes(promise.is_bound),
    }
    button = _radio("promise", promise.name, checked=promise.name == USUAL, **data)
    return tag("label", button, tag("span", _sentence_case(promise.whose)), title=in_cases(promise.assumed()))


def _criterion(criterion: Criterion) -> Markup:
    checked = criterion.name == PROMISES[USUAL].default_criterion
    button = _radio("criterion", criterion.name, checked=checked)
    return tag("label", button, tag("span", *_criterion_words(criterion)))


def _criterion_words(criterion: Criterion) -> tuple[str, ...]:
    """How sure the promise is; where somebody may say how sure, a field in the place of the figure."""
    words = _sentence_case(criterion_words(criterion, _DELTA))
    if criterion.takes_delta:
        certainty = float(1 - Decimal(str(_DELTA)))
        before, _, after = words.partition(percent(certainty))
        return before, _certainty(criterion, f"{100 * certainty:g}"), after
    return (words,)


def _certainty(criterion: Criterion, value: str) -> Markup:
    field = tag(
        "input",
        type="number",
        id=f"certainty-{criterion.name}",
        inputmode="decimal",
        min="50",
        max="99.99",
        step="any",
        value=value,
        aria_label="Certainty in %",
    )
    return tag("span", field, " %", class_="inline")


def _radio(name: str, value: str, *, checked: bool, **data: str) -> Markup:
    state = {"checked": ""} if checked else {}
    return tag("input", type="radio", name=name, value=value, **data, **state)


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def _yes(value: bool) -> str:
    return "yes" if value else "no"
