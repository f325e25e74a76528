"""The promises on the page: choices that are offered, and the promises side by side for these sites."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from scipy.special import erf, erfinv

from fedconformal import messages
from fedconformal._text import ceiling_percent, count, floor_percent, percent
from fedconformal._typing import Floats
from fedconformal.documents import Plan, merge_kinds
from fedconformal.monitoring import shifted_law
from fedconformal.planning import CRITERIA, PROMISES, Criterion, Promise
from fedconformal.scores import SCORES, from_name
from fedconformal.web._render import has_law, in_cases, in_page_words, times_as_wide
from fedconformal.web.planner._question import USUAL_PROMISE, Grid, Message, PlanQuestion, PrivacyWish
from fedconformal.web.planner._solution import criteria_for, is_possible, make_plan

# -- choices that the page offers: what is registered, and which of it goes together -----------------------


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


# -- the promises side by side: what each says, what it assumes, what it costs for these sites -------------


# Beyond these the distribution for sites that differ takes too long while somebody waits: votes of all sites,
# and these times the sizes that differ.
_MOST_VOTES, _MOST_WORK = 30_000, 500_000


class Card(Message):
    """A promise for these sites."""

    name: str
    title: str
    usual: bool
    feasible: bool
    says: str
    assumes: str
    costs: tuple[str, ...]


def answer_promises(question: PlanQuestion) -> tuple[Card, ...]:
    """Return a card for each promise that is registered, the usual one first.

    Only the sites, the score, the level and delta of the question are taken; all else is as usual for each
    promise.
    """
    same = ("sites", "points", "score", "confidence_level", "delta")
    return _cards(PlanQuestion(**{name: getattr(question, name) for name in same}))


@lru_cache(maxsize=128)
def _cards(question: PlanQuestion) -> tuple[Card, ...]:
    names = sorted(PROMISES, key=lambda name: name != USUAL_PROMISE)
    return tuple(_card(PROMISES[name](), question) for name in names)


def _card(promise: Promise, question: PlanQuestion) -> Card:
    asked = question.model_copy(update={"promise": promise.name})
    criterion = CRITERIA[promise.default_criterion]()
    try:
        plan = make_plan(asked)
        feasible, costs = plan.feasible, tuple(_costs(plan, asked))
    except ValueError as error:
        feasible, costs = False, (in_page_words(str(error)),)
    return Card(
        name=promise.name,
        title=f"{promise.whose[:1].upper()}{promise.whose[1:]}",
        usual=promise.name == USUAL_PROMISE,
        feasible=feasible,
        says=promise.sentence(criterion, question.confidence_level, question.delta),
        assumes=in_page_words(promise.assumed()),
        costs=costs,
    )


def _costs(plan: Plan, question: PlanQuestion) -> Iterator[str]:
    if not plan.feasible:
        yield "Not possible here: every set would hold everything."
        yield from map(in_page_words, plan.problems)
        return
    yield f"Each site sends {count(question.how_many, 'number')}{' at the most' * (question.how_many > 1)}."
    kinds = merge_kinds(plan.designs[0].kinds)
    votes = zip(plan.designs[0].kinds, messages.votes(plan.designs[0], 0) or (), strict=True)
    total = sum(kind.count * sum(own) for kind, own in votes)
    if total > _MOST_VOTES or total * len(kinds) > _MOST_WORK:
        yield "How much its sets cover takes too long to compute here, for this many cases."
        return
    level, mean = question.confidence_level, shifted_law(plan, {}).mean()
    covered = f"its sets cover {ceiling_percent(mean)} of new cases, where {percent(level)} is asked for"
    width = f": for errors on a bell curve, intervals {times_as_wide(mean, level)} as need be"
    yield f"If sites are alike, {covered}{'' if question.has_label_score else width}."
    worst = floor_percent(_worst_coverage(plan))
    yield f"If some sites differ, the site worst off has {worst} of its new cases covered."


def _worst_coverage(plan: Plan) -> float:
    """Return the mean coverage at the worst site if the last third has doubled, half-normal scores."""
    names = list(plan.site_names or [str(i + 1) for i in range(plan.n_sites or 0)])
    first = len(names) - max(1, len(names) // 3)
    at_doubled = shifted_law(plan, dict.fromkeys(names[:first], _half_as_large)).mean()
    if not first:
        return at_doubled
    return min(at_doubled, shifted_law(plan, dict.fromkeys(names[first:], _twice_as_large)).mean())


def _half_as_large(c: Floats) -> Floats:
    share: Floats = erf(2 * erfinv(c))
    return share


def _twice_as_large(c: Floats) -> Floats:
    share: Floats = erf(erfinv(c) / 2)
    return share
