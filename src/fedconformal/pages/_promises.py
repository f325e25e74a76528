"""The promises on the page: choices that are offered, and the promises side by side for
these sites.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from scipy.special import erf, erfinv

from fedconformal import messages
from fedconformal._util import Floats
from fedconformal.documents import Facts, Plan, merge_kinds
from fedconformal.monitoring import shifted_law
from fedconformal.pages._planner import criteria_for, is_possible, make_plan
from fedconformal.pages._question import (
    USUAL_PROMISE,
    Grid,
    PlanQuestion,
    PrivacyOptions,
)
from fedconformal.pages._render import expected_mean, has_law, render
from fedconformal.planning import (
    CRITERIA,
    PROMISES,
    Criterion,
    Promise,
    PromiseScope,
)
from fedconformal.scores import SCORES, LabelScore, from_name

# -- choices that the page offers: what is registered, and which of it goes together ---


def page_choices(folder: Path | None = None) -> dict[str, Any]:
    """Return promises, criteria and scores for the page, each with what goes with it,
    and its folder.
    """
    usual = [criterion.name for criterion in criteria_for(_example(USUAL_PROMISE))]
    has_labels = {}
    for name in SCORES:
        with suppress(ValueError):  # a score whose parameters have no defaults
            has_labels[name] = isinstance(from_name(name), LabelScore)
    return {
        "usual": PROMISES[USUAL_PROMISE](),
        "promises": [
            _promise(name)
            for name in sorted(PROMISES, key=lambda name: name != USUAL_PROMISE)
        ],
        "criteria": [CRITERIA[name]() for name in dict.fromkeys([*usual, *CRITERIA])],
        "delta": float(PlanQuestion.model_fields["delta"].default),
        "scores": has_labels,
        "facts": Facts.model_fields,
        "folder": folder,
    }


def _example(promise: str, **options: Any) -> PlanQuestion:
    """Return a question about a small federation, to try which options go together."""
    return PlanQuestion(sites=20, points=20, promise=promise, **options)


def _promise(name: str) -> dict[str, Any]:
    """Return a promise with the names of its criteria, and of what else goes with
    it.
    """
    options: dict[str, dict[str, Any]] = {
        "faulty": {"max_faulty": 1},
        "numbers": {"numbers": 2},
        "curve": {"curve": Grid(bins=10)},
        "privacy": {"privacy": PrivacyOptions(epsilon=10.0, bins=10)},
        "paper": {"privacy": PrivacyOptions(epsilon=10.0, bins=10, analysis="paper")},
    }
    promise = PROMISES[name]()
    fitting = [
        option
        for option, given in options.items()
        if is_possible(_example(name, **given))
    ]
    criteria = [criterion.name for criterion in criteria_for(_example(name))]
    return {
        "promise": promise,
        "criteria": criteria,
        "fitting": fitting + ["law"] * has_law(promise),
    }


# -- the promises side by side: what each says, what it assumes, what it costs for these


# Beyond these the distribution for sites that differ takes too long while somebody
# waits: votes of all sites, and these times the sizes that differ.
_MOST_VOTES, _MOST_WORK = 30_000, 500_000


@dataclass(frozen=True)
class Card:
    """A promise for these sites: problems where it cannot be given, else its mean
    coverages if affordable.

    With noise, ``mean`` is the coverage to expect if scores lie evenly over the cells.
    """

    scope: PromiseScope
    criterion: Criterion
    numbers: int
    refusal: str = ""
    problems: tuple[str, ...] = ()
    mean: float | None = None
    worst: float | None = None

    @property
    def promise(self) -> Promise:
        """The promise itself."""
        return self.scope.promise


def answer_promises(question: PlanQuestion) -> str:
    """Return a card for each promise that is registered, the usual one first.

    Only the sites, the score, the level, delta and privacy of the question are taken;
    all else is as usual for each promise.
    """
    same = ("sites", "points", "score", "confidence_level", "delta", "privacy")
    asked = PlanQuestion(**{name: getattr(question, name) for name in same})
    return render(
        "_cards.html",
        cards=make_cards(asked),
        question=asked,
        usual=PROMISES[USUAL_PROMISE](),
    )


@lru_cache(maxsize=128)
def make_cards(question: PlanQuestion) -> tuple[Card, ...]:
    """Return a card for each promise that is registered, the usual one first."""
    names = sorted(PROMISES, key=lambda name: name != USUAL_PROMISE)
    return tuple(_card(question.model_copy(update={"promise": name})) for name in names)


def _card(question: PlanQuestion) -> Card:
    card = Card(question.scope, question.chosen_criterion, question.how_many)
    try:
        plan = make_plan(question)
    except ValueError as error:
        return replace(card, refusal=str(error))
    if not plan.feasible:
        return replace(card, problems=tuple(plan.problems))
    design, kinds = plan.designs[0], plan.designs[0].kinds
    if question.privacy is not None:
        numbers = messages.of(design.message).count_numbers(design, kinds[0].n, "A")
        return replace(card, numbers=numbers, mean=expected_mean(design, 0))
    votes = messages.votes(design, 0) or ()
    total = sum(kind.count * sum(own) for kind, own in zip(kinds, votes, strict=True))
    if total > _MOST_VOTES or total * len(merge_kinds(kinds)) > _MOST_WORK:
        return card
    return replace(card, mean=shifted_law(plan, {}).mean(), worst=_worst_coverage(plan))


def _worst_coverage(plan: Plan) -> float:
    """Return the mean coverage at the worst site if the last third has doubled,
    half-normal scores.
    """
    names = list(plan.site_names or [str(i + 1) for i in range(plan.n_sites or 0)])
    first = len(names) - max(1, len(names) // 3)
    halved, doubled = (partial(_distort, factor=factor) for factor in (0.5, 2.0))
    at_doubled = shifted_law(plan, dict.fromkeys(names[:first], halved)).mean()
    if not first:
        return at_doubled
    return min(
        at_doubled, shifted_law(plan, dict.fromkeys(names[first:], doubled)).mean()
    )


def _distort(c: Floats, factor: float) -> Floats:
    """Return the share of half-normal scores below the c-quantile if they are larger by
    a factor.
    """
    share: Floats = erf(erfinv(c) / factor)
    return share
