"""A plan as the page shows it: numbers for a template that has the sentences."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from fedconformal import baselines, messages
from fedconformal.documents import Design, SiteKind
from fedconformal.laws import Summary
from fedconformal.pages._picture import law_picture
from fedconformal.pages._render import disclosure, equivalent_pool, expected_mean, render
from fedconformal.pages.planner._promises import criterion_words
from fedconformal.pages.planner._question import PlanQuestion
from fedconformal.pages.planner._solution import Solution, criteria_for, other_numbers, solve
from fedconformal.planning import Guarantee


def answer_plan(question: PlanQuestion, *, compare: bool = True, width: int = 720) -> str:
    """Return what the page shows of a plan.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted.
    compare : bool
        True for a row with what another number of numbers per site would give, which takes longer.
    width : int
        Width of the picture, in pixels.

    Returns
    -------
    str
        Three elements of the page: the answer, the commands and a summary.

    Examples
    --------
    >>> "Each site sends 1 of its 79 scores" in answer_plan(PlanQuestion(sites=10, points=79))
    True
    """
    return render("_plan.html", it=PlanView(solve(question), compare, width))


@dataclass(frozen=True, eq=False)
class PlanView:
    """Values of a plan on the page: its solution, and what it is compared with."""

    solution: Solution
    compare: bool
    width: int

    @property
    def question(self) -> PlanQuestion:
        """Question that is answered."""
        return self.solution.question

    @property
    def _answered(self) -> Design:
        assert self.solution.answered is not None
        return self.solution.answered

    # -- what it costs -------------------------------------------------------------------------------------

    @cached_property
    def kinds(self) -> list[SiteKind]:
        """Sites that are asked, the smallest first."""
        return sorted((kind for kind in self.solution.planned.kinds if kind.asked), key=lambda kind: kind.n)

    @property
    def counts(self) -> set[int]:
        """Numbers that a site sends, for each kind of site."""
        message, design = self.solution.message, self.solution.planned
        return {message.count_numbers(design, kind.n, _name(kind)) for kind in self.kinds} or {1}

    @cached_property
    def epsilon(self) -> float | None:
        """Privacy loss of a report; None without noise."""
        epsilon = self.solution.message.epsilon(self.solution.planned)
        return None if epsilon is None else float(epsilon)

    @cached_property
    def expected(self) -> float | None:
        """Expected coverage of private sets for evenly spread scores; None for others."""
        answered = self.solution.answered
        return None if answered is None or not answered.is_feasible else expected_mean(answered, 0)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Guarantee, where there is no distribution."""
        guarantee: Guarantee = messages.guarantee(self._answered, 0)
        return guarantee

    # -- the comparison ------------------------------------------------------------------------------------

    @cached_property
    def pooled(self) -> Summary | None:
        """Distribution with all cases in one place, where that would satisfy the same promise."""
        return self._alone(self.question.n_points) if self.question.promised.pools else None

    @property
    def largest_alone(self) -> Summary:
        """Distribution with the cases of the largest site."""
        return self._alone(max(self.question.sizes))

    def _alone(self, n_points: int) -> Summary:
        level = self.question.confidence_level
        return Summary(baselines.coverage_law(n_points, level), level)

    @cached_property
    def other(self) -> Solution | None:
        """Solution with another number of numbers per site, where it is to be compared with and has a law."""
        numbers = other_numbers(self.question) if self.compare and self.solution.is_feasible else None
        if numbers is None:
            return None
        other = solve(self.question.model_copy(update={"numbers": numbers}))
        return None if other.law is None else other

    @property
    def equivalent_pool(self) -> int | None:
        """Number of pooled cases that would vary as much; None where the coverage does not vary."""
        return None if self.solution.law is None else equivalent_pool(self.solution.law)

    @property
    def spread_ratio(self) -> float:
        """Root mean squared distance from the level, divided by that of pooling all cases."""
        assert self.solution.law is not None
        assert self.pooled is not None
        laws = self.solution.law, self.pooled
        ours, theirs = (math.hypot(law.std, law.mean - law.confidence_level) for law in laws)
        return ours / theirs

    @property
    def picture(self) -> str | None:
        """The distribution as SVG."""
        solution = self.solution
        assert solution.law is not None
        return law_picture(solution.law, pooled=self.pooled, is_bound=solution.is_bound, width=self.width)

    # -- what stands in the way, and how it works ----------------------------------------------------------

    @property
    def alternatives(self) -> Iterator[str]:
        """Criteria that have a finite threshold with the same cases, where the chosen one has none."""
        question = self.question
        for criterion in [] if self.solution.planned.is_feasible else criteria_for(question):
            other = question.model_copy(update={"criterion": criterion.name})
            if criterion != question.chosen_criterion and solve(other).is_feasible:
                yield criterion_words(criterion, question.delta)

    def sent(self, kind: SiteKind) -> str:
        """Return what a site of this kind sends, as its message describes it."""
        return disclosure(self.solution.planned, kind.n, _name(kind))

    def votes(self, kind: SiteKind) -> tuple[int, ...]:
        """Return the votes of a site of this kind; empty where none are cast."""
        votes = messages.votes(self.solution.planned, 0)
        return () if votes is None else votes[self.solution.planned.kinds.index(kind)]

    @property
    def needed(self) -> int:
        """Votes needed, or cases that the counts must show."""
        return self._answered.levels[0].votes or 0

    @property
    def n_points(self) -> int:
        """Cases of the sites that answer."""
        return sum(kind.count * kind.n for kind in self._answered.kinds)

    @property
    def tally(self) -> tuple[int, int]:
        """Numbers that the server receives, and their votes."""
        votes = messages.votes(self._answered, 0) or ()
        numbers = [
            own for kind, own in zip(self._answered.kinds, votes, strict=True) for _ in range(kind.count)
        ]
        return sum(map(len, numbers)), sum(map(sum, numbers))

    @property
    def report_command(self) -> str:
        """Command by which the first site that is asked answers."""
        first = next((_name(kind) for kind in self.solution.planned.kinds if kind.asked), "A")
        return self.question.report_command(first)


def _name(kind: SiteKind) -> str:
    """Return the name of a site of this kind, where it has one."""
    return kind.names[0] if kind.names else "A"
