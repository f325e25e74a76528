"""From a question to a plan and its law; answers are remembered."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from fedconformal.documents import Plan
from fedconformal.laws import CoverageLaw, OrderStatistics, Summary
from fedconformal.laws._sites import Ints, SiteLaw
from fedconformal.planner._questions import PlanQuestion
from fedconformal.planning import Goal, draft_private, plan, solve_private_rank, solve_server_rank
from fedconformal.privacy import Bins, Privacy
from fedconformal.privacy._terms import Terms

_REMEMBERED = 512
_QUICK_POINTS = 2000


@dataclass(frozen=True)
class Solution:
    """Ranks, the law if all sites answer, and the law if the missing ones do not."""

    question: PlanQuestion
    local_ranks: tuple[int, ...]  # one for each distinct size, in increasing order
    server_rank: int | None  # None for an infinite threshold
    all: Summary
    server_rank_left: int | None
    left: Summary
    problems: tuple[str, ...]
    is_draft: bool
    quantile: Fraction | None = None

    @property
    def feasible(self) -> bool:
        """Whether the threshold is finite with the sites that answer."""
        return self.server_rank_left is not None


@lru_cache(maxsize=_REMEMBERED)
def make_plan(question: PlanQuestion) -> Plan:
    """The plan itself."""
    return _plan(question, privacy=_privacy(question))


def _plan(question: PlanQuestion, **options: Any) -> Plan:
    return plan(
        question.n_sites,
        question.points,
        confidence_level=question.confidence_level,
        criterion=question.criterion,
        delta=question.delta,
        max_faulty=question.max_faulty,
        on_infeasible="ignore",
        **options,
    )


def solve(question: PlanQuestion, *, draft: bool = False) -> Solution:
    """The plan's law, or that of a plan which is valid but found at once, where the best takes longer."""
    if not draft or is_quick(question):
        return _solved(question)
    return _drafted(question)


def is_quick(question: PlanQuestion) -> bool:
    """Whether the best plan is found as fast as a draft."""
    alike = len(set(question.sizes)) == 1
    return question.privacy is None and alike and max(question.sizes) <= _QUICK_POINTS


@lru_cache(maxsize=_REMEMBERED)
def _solved(question: PlanQuestion) -> Solution:
    return _from_plan(question, make_plan(question), is_draft=False)


@lru_cache(maxsize=_REMEMBERED)
def _drafted(question: PlanQuestion) -> Solution:
    if question.privacy is None:
        return _from_plan(question, _plan(question, local_ranks="paper"), is_draft=True)
    sizes, counts = _groups(question)
    found = draft_private(sizes, counts, goal_of(question), terms_of(question))
    quantile, rank = found or (Fraction(999, 1000), None)
    aims = np.array([-(-quantile.numerator * int(n) // quantile.denominator) for n in sizes])
    # Which size would do is left to the plan itself.
    return _solution(question, sizes, counts, aims, rank, quantile, (), is_draft=True)


def _from_plan(question: PlanQuestion, made: Plan, *, is_draft: bool) -> Solution:
    sizes, counts = _groups(question)
    level = made.levels[0]
    ranks = {group.n: group.ranks[0] for group in made.groups or ()}
    rank = None if level.advice is not None else level.server_rank
    by_size = np.array([ranks[int(n)] for n in sizes])
    problems = () if is_draft else made.notes
    return _solution(
        question, sizes, counts, by_size, rank, level.exact_quantile, problems, is_draft=is_draft, plan=made
    )


def _solution(
    question: PlanQuestion,
    sizes: Ints,
    counts: Ints,
    ranks: Ints,
    rank: int | None,
    quantile: Fraction | None,
    problems: tuple[str, ...],
    *,
    is_draft: bool,
    plan: Plan | None = None,
) -> Solution:
    law = _law(question, sizes, counts, ranks, rank, quantile)
    rank_left, law_left = rank, law
    if question.missing:
        left = _without_largest(counts, question.missing)
        rank_left = _solve_again(question, sizes, left, ranks, quantile, plan)
        law_left = _law(question, sizes, left, ranks, rank_left, quantile)
    return Solution(
        question,
        tuple(ranks.tolist()),
        rank,
        law,
        rank_left,
        law_left,
        problems,
        is_draft,
        quantile,
    )


def _law(
    question: PlanQuestion,
    sizes: Ints,
    counts: Ints,
    ranks: Ints,
    rank: int | None,
    quantile: Fraction | None,
) -> Summary:
    here = counts > 0
    sites: SiteLaw = OrderStatistics(sizes[here], ranks[here])
    if question.privacy is not None and quantile is not None:
        sites = terms_of(question).sites(sizes[here], quantile)
    kept = int(counts.sum()) + 1 if rank is None else rank
    law = CoverageLaw.of_sites(sites, counts[here], server_rank=kept, max_faulty=question.max_faulty)
    return Summary(law, question.confidence_level)


def _solve_again(
    question: PlanQuestion,
    sizes: Ints,
    counts: Ints,
    ranks: Ints,
    quantile: Fraction | None,
    plan: Plan | None,
) -> int | None:
    """The server's rank for the sites that answered, as ``calibrate`` would find it."""
    here, goal = counts > 0, goal_of(question)
    if question.privacy is not None and quantile is not None:
        return solve_private_rank(sizes[here], counts[here], quantile, goal, terms_of(question))
    share = plan.levels[0].exact_share if plan is not None else None
    rank, advice = solve_server_rank(sizes[here], counts[here], ranks[here], goal, share)
    return None if advice is not None else rank


def _groups(question: PlanQuestion) -> tuple[Ints, Ints]:
    """Distinct sizes in increasing order, and how many sites have each."""
    if isinstance(question.points, int):
        return np.array([question.points]), np.array([question.n_sites])
    return np.unique(np.array(question.points), return_counts=True)


def _without_largest(counts: Ints, missing: int) -> Ints:
    left, kept = missing, counts.copy()
    for i in range(len(kept) - 1, -1, -1):
        out = min(left, int(kept[i]))
        kept[i] -= out
        left -= out
    return kept


def goal_of(question: PlanQuestion) -> Goal:
    """What the search is for."""
    return Goal(
        Fraction(str(question.confidence_level)),
        question.criterion,
        Fraction(str(question.delta)),
        question.max_faulty,
    )


def terms_of(question: PlanQuestion) -> Terms:
    """The terms of a private release."""
    privacy = _privacy(question)
    assert privacy is not None
    fields = privacy.fields()
    return Terms(
        Fraction(str(privacy.epsilon)), len(privacy.bins.edges), fields["mechanism"], fields["analysis"]
    )


def _privacy(question: PlanQuestion) -> Privacy | None:
    wish = question.privacy
    if wish is None:
        return None
    return Privacy(epsilon=wish.epsilon, bins=Bins.uniform(wish.low, wish.high, wish.bins))


def expected_mean(solution: Solution) -> float:
    """Mean coverage to expect: the law's own, or with privacy that of scores spread evenly over the bins."""
    question = solution.question
    if question.privacy is None or solution.quantile is None or solution.server_rank_left is None:
        return solution.left.mean
    sizes, counts = _groups(question)
    left = _without_largest(counts, question.missing)
    here = left > 0
    sites = terms_of(question).sites(sizes[here], solution.quantile, expected=True)
    return CoverageLaw.of_sites(sites, left[here], server_rank=solution.server_rank_left).mean()
