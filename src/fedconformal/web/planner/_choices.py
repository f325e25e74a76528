"""Choices that the page offers: what is registered, and which of it goes together."""

from typing import Any

from fedconformal._text import percent
from fedconformal.planning import CRITERIA, PROMISES, Criterion
from fedconformal.scores import SCORES, from_name
from fedconformal.web._words import has_law, in_cases
from fedconformal.web.planner._question import USUAL_PROMISE, Grid, PlanQuestion, PrivacyWish
from fedconformal.web.planner._solution import criteria_for, is_possible


def criterion_words(criterion: Criterion, delta: float) -> str:
    """Return a criterion as the page calls it, beginning with a small letter."""
    close = ", and close to it every time" if criterion.trades_up else ""
    return f"{criterion.surety(delta)}{close}"


def page_choices() -> dict[str, Any]:
    """Return promises, criteria and scores for the page, each with what goes with it."""
    ordered = [each.name for each in criteria_for(_example(USUAL_PROMISE))]
    return {
        "usual": PROMISES[USUAL_PROMISE](),
        "promises": [_promise(name) for name in sorted(PROMISES, key=lambda name: name != USUAL_PROMISE)],
        "criteria": [_criterion(name) for name in (*ordered, *(n for n in CRITERIA if n not in ordered))],
        "scores": [(name, words) for name in SCORES if (words := _score_words(name))],
    }


def _example(promise: str, **options: Any) -> PlanQuestion:
    """Return a question about a small federation, to try which options go together."""
    return PlanQuestion(sites=20, points=20, promise=promise, **options)


def _promise(name: str) -> dict[str, Any]:
    promise = PROMISES[name]()
    return {
        "promise": promise,
        "assumed": in_cases(promise.assumed()),
        "criteria": " ".join(each.name for each in criteria_for(_example(name))),
        "faulty": is_possible(_example(name, max_faulty=1)),
        "numbers": is_possible(_example(name, numbers=2)),
        "curve": is_possible(_example(name, curve=Grid(bins=10))),
        "privacy": is_possible(_example(name, privacy=PrivacyWish(epsilon=10.0, bins=10))),
        "paper": is_possible(_example(name, privacy=PrivacyWish(epsilon=10.0, bins=10, analysis="paper"))),
        "law": has_law(promise),
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
