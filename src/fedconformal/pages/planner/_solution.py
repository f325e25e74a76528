"""From a question to a plan, its design and its distribution of the coverage; solutions are remembered."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from fedconformal import messages
from fedconformal.documents import Design, Plan, SiteKind, total_sites
from fedconformal.laws import Summary
from fedconformal.pages._render import has_law
from fedconformal.pages.planner._question import PlanQuestion
from fedconformal.planning import CRITERIA, Criterion
from fedconformal.protocol._plan import make_plan as make_quietly

_A_FEW = 3


@dataclass(frozen=True, eq=False)
class Solution:
    """A design if all sites answer, and the design for the rest if some are missing.

    Parameters
    ----------
    question : PlanQuestion
        The question.
    planned : Design
        For all sites.
    answered : Design or None
        For those that answer, solved again as the server would; None if they are too few.
    notes : tuple of str
        Problems, and what would help.

    Examples
    --------
    >>> solution = solve(PlanQuestion(sites=10, points=79))
    >>> solution.is_feasible, solution.planned.levels[0].votes
    (True, 7)
    """

    question: PlanQuestion
    planned: Design
    answered: Design | None
    notes: tuple[str, ...]

    @cached_property
    def message(self) -> messages.Message:
        """Behaviour of what sites send."""
        return messages.of(self.planned.message)

    @property
    def is_feasible(self) -> bool:
        """True if the threshold is finite with the sites that answer."""
        return self.answered is not None and self.answered.is_feasible

    @property
    def is_bound(self) -> bool:
        """True if distributions bound the coverage from below, rather than being its distributions."""
        return self.message.is_bound(self.planned)

    @cached_property
    def planned_law(self) -> Summary | None:
        """Distribution of the coverage if all sites answer, or a bound of it; None where there is none."""
        return self._summary(self.planned)

    @cached_property
    def law(self) -> Summary | None:
        """Distribution of the coverage for the sites that answer; None where there is none."""
        return None if self.answered is None else self._summary(self.answered)

    def _summary(self, design: Design) -> Summary | None:
        law = messages.law(design, 0)
        return None if law is None else Summary(law, self.question.confidence_level)


def make_plan(question: PlanQuestion) -> Plan:
    """Return the plan that answers a question; a round that is random is drawn each time."""
    remembered = _remembered(question)
    return remembered if remembered.terms.round is None else _plan(question)


@lru_cache(maxsize=512)
def _remembered(question: PlanQuestion) -> Plan:
    return _plan(question)


def _plan(question: PlanQuestion) -> Plan:
    """Make a plan as `fedconformal.plan` does, without a warning: the page shows what cannot be reached."""
    names = question.names
    points = question.points if names is None else dict(zip(names, question.sizes, strict=True))
    facts = {} if question.facts is None else question.facts.given
    return make_quietly(
        n_sites=question.n_sites,
        n_points=points,
        confidence_level=question.confidence_level,
        criterion=question.criterion,
        delta=question.delta,
        max_faulty=question.max_faulty,
        max_missing=question.max_missing,
        promise=question.promise,
        numbers=question.numbers,
        score=question.score,
        curve=None if question.curve is None else question.curve.grid,
        privacy=None if question.privacy is None else question.privacy.privacy,
        terms={"classes": question.classes, **facts},
    )


def solve(question: PlanQuestion) -> Solution:
    """Return the design that answers a question, and its distribution of the coverage."""
    bare = question.without_terms
    return _solve(question) if bare == question else replace(_solve(bare), question=question)


@lru_cache(maxsize=512)
def _solve(question: PlanQuestion) -> Solution:
    made = _remembered(question)
    planned = made.designs[0]
    places, sites = _without_largest(planned.kinds, question.missing)
    answered: Design | None = planned
    if total_sites(sites) < planned.fewest_answers:
        answered = None
    elif question.missing:
        answered = messages.of(planned.message).solve(planned, sites, places)
    return Solution(question, planned, answered, made.notes)


def _without_largest(kinds: Sequence[SiteKind], missing: int) -> tuple[tuple[int, ...], tuple[SiteKind, ...]]:
    """Return the places in the plan, and the sites, of those that remain when the largest are missing."""
    remaining: dict[int, SiteKind] = {}
    for place in sorted(range(len(kinds)), key=lambda i: -kinds[i].n):
        kind = kinds[place]
        absent = min(missing, kind.count)
        missing -= absent
        if kind.count > absent and kind.asked:
            remaining[place] = kind.model_copy(update={"count": kind.count - absent, "names": ()})
    places = tuple(sorted(remaining))
    return places, tuple(remaining[place] for place in places)


def is_possible(question: PlanQuestion) -> bool:
    """Return whether the options of a question go together."""
    try:
        _remembered(question)
    except ValueError:
        return False
    return True


def criteria_for(question: PlanQuestion) -> list[Criterion]:
    """Return the criteria that a question can be asked for: the default first, those with a delta last."""
    usual = question.promised.default_criterion
    known = [CRITERIA[name]() for name in CRITERIA]
    fitting = [it for it in known if is_possible(question.model_copy(update={"criterion": it.name}))]
    return sorted(fitting, key=lambda criterion: (criterion.name != usual, criterion.takes_delta))


def other_numbers(question: PlanQuestion) -> int | None:
    """Return with how many numbers per site a plan is to be compared.

    A few where one was asked for, one where several were; None where nothing else can be sent, or where the
    search would take too long.
    """
    if not has_law(question.promised) or question.privacy is not None or question.curve is not None:
        return None
    if question.how_many > 1:
        return 1
    if question.max_faulty > 0 and not question.is_alike:
        return None
    return _A_FEW if is_possible(question.model_copy(update={"numbers": _A_FEW})) else None
