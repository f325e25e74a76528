"""From a question to a design and its law; solutions are remembered."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from fedconformal.documents import Plan
from fedconformal.laws import Summary
from fedconformal.planning import Advice, Block, Design, Private, Sites, draft_private
from fedconformal.protocol import plan
from fedconformal.web.planner._choices import criteria_for, goes_together
from fedconformal.web.planner._question import PlanQuestion

_REMEMBERED = 512
_QUICK_POINTS = 10_000
_A_FEW = 3
_DRAFT_DRAWS = 512


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
        For those that answer, solved anew as the server would.
    notes : tuple of str
        What stands in the way, and what would help.
    is_draft : bool
        Whether a better design may be found.

    Examples
    --------
    >>> from fedconformal.web import PlanQuestion, solve
    >>> found = solve(PlanQuestion(sites=10, points=79))
    >>> found.is_feasible, found.planned.server_rank, found.is_draft
    (True, 7, False)
    """

    question: PlanQuestion
    planned: Design
    answered: Design
    notes: tuple[str, ...]
    is_draft: bool

    @property
    def is_feasible(self) -> bool:
        """Whether the threshold is finite with the sites that answer."""
        return self.answered.is_finite

    @cached_property
    def planned_law(self) -> Summary | None:
        """The law if all sites answer, or a bound of it; None where there is none."""
        return _summary(self.planned)

    @cached_property
    def law(self) -> Summary | None:
        """The law for the sites that answer, or a bound of it; None where there is none."""
        return _summary(self.answered)

    @property
    def expected_mean(self) -> float:
        """Mean coverage to expect: with privacy, if scores lie evenly over the bins."""
        return self.answered.expected_law().mean()


def _summary(design: Design) -> Summary | None:
    return Summary(design.law(), float(design.goal.level)) if design.has_law else None


def make_plan(question: PlanQuestion) -> Plan:
    """Return the plan that answers a question.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted; how many sites stay silent is no part of a plan.

    Returns
    -------
    Plan
        As `protocol.plan` makes it; the same question gives the same plan, but for a round that is random.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.web.make_plan(fc.web.PlanQuestion(sites=10, points=79)).server_rank
    7
    """
    found = _made(question)
    return found if found.part.cases is None else _plan(question, numbers=question.how_many)


@lru_cache(maxsize=_REMEMBERED)
def _made(question: PlanQuestion) -> Plan:
    return _plan(question, numbers=question.how_many)


def _plan(question: PlanQuestion, **options: Any) -> Plan:
    return plan(
        question.n_sites,
        question.federation,
        score=question.score,
        confidence_level=question.confidence_level,
        criterion=question.criterion,
        delta=question.delta,
        max_faulty=question.max_faulty,
        promise=question.promise,
        max_missing=question.max_missing,
        privacy=None if question.privacy is None else question.privacy.privacy,
        on_infeasible="ignore",
        **options,
    )


def solve(question: PlanQuestion, *, draft: bool = False) -> Solution:
    """Return the design that answers a question, and its law.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted.
    draft : bool
        Whether a design will do whose promise holds but that may not be the best, where the best takes
        longer.

    Returns
    -------
    Solution
        The best one, or a draft.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.web.solve(fc.web.PlanQuestion(sites=10, points=79)).planned.server_rank
    7
    """
    return _drafted(question) if draft and not is_quick(question) else _solved(question)


def is_quick(question: PlanQuestion) -> bool:
    """Return whether the best design is found as fast as a draft.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted.

    Returns
    -------
    bool
        False where the search may take seconds.
    """
    if question.privacy is not None:
        return False
    if not question.promised.has_law:
        return True
    if question.how_many > 1:
        return False
    if not goes_together(question.promised, question.goal, searched=False):
        return True  # ranks that cannot be given are not searched either
    return question.is_alike and max(question.sizes) <= _QUICK_POINTS


@lru_cache(maxsize=_REMEMBERED)
def _solved(question: PlanQuestion) -> Solution:
    best = _made(question)
    return _solution(question, best.designs[0], best.notes, is_draft=False)


@lru_cache(maxsize=_REMEMBERED)
def _drafted(question: PlanQuestion) -> Solution:
    # Which size would do is left to the best plan.
    return _solution(question, _draft(question), (), is_draft=True)


def _draft(question: PlanQuestion) -> Design:
    """A valid design at once: one number, the paper's ranks, or the first private one that was found."""
    one = question.model_copy(update={"numbers": 1})
    if is_quick(one):
        return _made(one).designs[0]
    if question.privacy is None:
        return _plan(question.model_copy(update={"max_missing": None}), local_ranks="paper").designs[0]
    sending = Private(question.privacy.privacy.release(), draws=_DRAFT_DRAWS)
    if question.promised.pools:
        return draft_private(_by_size(question), question.goal, sending, question.promised)
    return question.promised.choose(_by_size(question), question.goal, sending, None)


def _solution(question: PlanQuestion, planned: Design, notes: tuple[str, ...], *, is_draft: bool) -> Solution:
    left = _without_largest(planned.blocks, question.missing)
    return Solution(question, planned, _for_answers(planned, left), notes, is_draft)


def other_criteria(question: PlanQuestion) -> tuple[PlanQuestion, ...]:
    """Return the same question for every other criterion that it can be asked for.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted.

    Returns
    -------
    tuple of PlanQuestion
        With the same cases, promise, privacy and numbers.
    """
    others = (
        question.model_copy(update={"criterion": each.name})
        for each in criteria_for(question.promised)
        if each != question.goal.criterion
    )
    private, numbers = question.privacy is not None, question.how_many
    return tuple(
        other
        for other in others
        if goes_together(other.promised, other.goal, private=private, numbers=numbers)
    )


def other_numbers(question: PlanQuestion) -> int | None:
    """Return with how many numbers per site a plan is to be compared.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted.

    Returns
    -------
    int or None
        A few where one was asked for, one where several were; None where nothing else can be sent, or where
        the search would take too long.
    """
    if not question.promised.has_law:
        return None
    if question.how_many > 1:
        return 1
    slow = question.max_faulty > 0 and not question.is_alike
    fits = goes_together(question.promised, question.goal, numbers=_A_FEW)
    return _A_FEW if fits and question.privacy is None and not slow else None


def _for_answers(planned: Design, left: list[Block]) -> Design:
    """The design for the sites that are left; where nobody is who was asked, no votes are enough."""
    if not left:
        return replace(planned, server_rank=planned.total_votes + 1, advice=planned.advice or Advice())
    return planned.for_answers(left)


def _by_size(question: PlanQuestion) -> Sites:
    if isinstance(question.points, int):
        return Sites(np.array([question.points]), np.array([question.n_sites]))
    return Sites(*np.unique(np.array(question.points), return_counts=True))


def _without_largest(blocks: tuple[Block, ...], missing: int) -> list[Block]:
    """The sites that were asked and are left when the largest are missing, in increasing order of size."""
    left = []
    for block in sorted(blocks, key=lambda block: -block.n):
        silent = min(missing, block.count)
        missing -= silent
        if block.count > silent and block.ranks:
            left.append(replace(block, count=block.count - silent))
    return left[::-1]
