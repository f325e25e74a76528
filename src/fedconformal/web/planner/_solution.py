"""From a question to a plan, its design and its law; solutions are remembered."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from fedconformal.documents import Plan
from fedconformal.laws import Summary
from fedconformal.planning import Advice, Block, Design
from fedconformal.protocol import plan
from fedconformal.web.planner._choices import criteria_for, goes_together
from fedconformal.web.planner._question import PlanQuestion

_A_FEW = 3


@dataclass(frozen=True, eq=False)
class Solution:
    """A design if all sites answer, and what is left of it if some do not.

    Parameters
    ----------
    question : PlanQuestion
        What was asked.
    planned : Design
        For all sites.
    answered : Design
        For those that answer, solved again as the server would.
    notes : tuple of str
        What stands in the way, and what would help.

    Examples
    --------
    >>> found = solve(PlanQuestion(sites=10, points=79))
    >>> found.is_feasible, found.planned.server_rank
    (True, 7)
    """

    question: PlanQuestion
    planned: Design
    answered: Design
    notes: tuple[str, ...]

    @property
    def is_feasible(self) -> bool:
        """True if the threshold is finite with the sites that answer."""
        return self.answered.is_finite

    @cached_property
    def planned_law(self) -> Summary | None:
        """The law if all sites answer, or a bound of it; None where there is none."""
        return _summary(self.planned)

    @cached_property
    def law(self) -> Summary | None:
        """The law for the sites that answer, or a bound of it; None where there is none."""
        return _summary(self.answered)


def _summary(design: Design) -> Summary | None:
    return Summary(design.law(), float(design.goal.level)) if design.has_law else None


def make_plan(question: PlanQuestion) -> Plan:
    """Return the plan that answers a question; a round that is random is drawn each time."""
    remembered = _remembered(question)
    return remembered if remembered.part.cases is None else _plan(question)


@lru_cache(maxsize=512)
def _remembered(question: PlanQuestion) -> Plan:
    return _plan(question)


def _plan(question: PlanQuestion) -> Plan:
    names = question.names
    return plan(
        question.n_sites,
        question.points if names is None else dict(zip(names, question.sizes, strict=True)),
        score=question.score,
        confidence_level=question.confidence_level,
        criterion=question.criterion,
        delta=question.delta,
        max_faulty=question.max_faulty,
        promise=question.promise,
        max_missing=question.max_missing,
        numbers=question.how_many,
        privacy=None if question.privacy is None else question.privacy.privacy,
        on_infeasible="ignore",
    )


@lru_cache(maxsize=512)
def solve(question: PlanQuestion) -> Solution:
    """Return the design that answers a question, and its law."""
    made = _remembered(question)
    planned = made.designs[0]
    left = _without_largest(planned.blocks, question.missing)
    if left:
        answered = planned.for_answers(left)
    else:  # nobody is left who was asked, and no votes are enough
        answered = replace(planned, server_rank=planned.total_votes + 1, advice=planned.advice or Advice())
    return Solution(question, planned, answered, made.notes)


def _without_largest(blocks: tuple[Block, ...], missing: int) -> list[Block]:
    """The sites that were asked and are left when the largest are missing, in increasing order of size."""
    left = []
    for block in sorted(blocks, key=lambda block: -block.n):
        silent = min(missing, block.count)
        missing -= silent
        if block.count > silent and block.ranks:
            left.append(replace(block, count=block.count - silent))
    return left[::-1]


def other_criteria(question: PlanQuestion) -> list[PlanQuestion]:
    """Return the same question for every other criterion that it can be asked for."""
    others = [
        question.model_copy(update={"criterion": criterion.name})
        for criterion in criteria_for(question.promised)
        if criterion != question.goal.criterion
    ]
    private, numbers = question.privacy is not None, question.how_many
    return [q for q in others if goes_together(q.promised, q.goal, private=private, numbers=numbers)]


def other_numbers(question: PlanQuestion) -> int | None:
    """Return with how many numbers per site a plan is to be compared.

    A few where one was asked for, one where several were; None where nothing else can be sent, or where the
    search would take too long.
    """
    if not question.promised.has_law:
        return None
    if question.how_many > 1:
        return 1
    slow = question.max_faulty > 0 and not question.is_alike
    fits = goes_together(question.promised, question.goal, numbers=_A_FEW)
    return _A_FEW if fits and question.privacy is None and not slow else None
