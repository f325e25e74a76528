"""Plans of the planner: solved, described for the page, and searched for the cases that
they need.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from fedconformal import baselines, messages
from fedconformal.documents import Design, Plan, SiteKind, total_sites
from fedconformal.laws import Summary
from fedconformal.monitoring import plan_watch
from fedconformal.pages._question import MOST_POINTS, PlanQuestion
from fedconformal.pages._render import disclosure, expected_mean, has_law, render
from fedconformal.planning import CRITERIA, Criterion, Guarantee
from fedconformal.protocol._plan import make_plan as make_quietly

_A_FEW = 3
_SAME = {  # what `plan` calls as a question does
    *("promise", "criterion", "delta", "confidence_level"),
    *("max_faulty", "max_missing", "numbers", "score"),
}
USUAL_CASES = 50  # of a site and period, while nobody watches


class Solution:
    """A design if all sites answer, and the design for the rest if some are missing.

    Parameters
    ----------
    question : PlanQuestion
        The question; what no solution depends on may be left out.

    Attributes
    ----------
    planned : Design
        For all sites.
    answered : Design or None
        For those that answer, solved again as the server would; None if they are too
        few.
    notes : tuple of str
        Problems, and what would help.
    message : Message
        Behaviour of what sites send.
    is_feasible : bool
        True if the threshold is finite with the sites that answer.
    is_bound : bool
        True if distributions bound the coverage from below, rather than being its
        distributions.
    planned_law, law : Summary or None
        Distribution of the coverage for all sites, and for those that answer; None
        where there is none.
    pooled : Summary or None
        Distribution with all cases in one place, where that would satisfy the same
        promise.

    Examples
    --------
    >>> solution = solve(PlanQuestion(sites=10, points=79))
    >>> solution.is_feasible, solution.planned.levels[0].votes
    (True, 7)
    """

    def __init__(self, question: PlanQuestion) -> None:
        made = _remembered(question)
        self.question, self.planned, self.notes = question, made.designs[0], made.notes
        self.message = messages.of(self.planned.message)
        self.answered = self._without_missing()
        self.is_feasible = self.answered is not None and self.answered.is_feasible
        self.is_bound = self.message.is_bound(self.planned)
        self.planned_law, self.law = (
            self._summary(self.planned),
            self._summary(self.answered),
        )
        self.pooled = self.alone(question.n_points) if question.promised.pools else None

    def _without_missing(self) -> Design | None:
        """Return the design for the sites that remain when the largest are missing, if
        they suffice.
        """
        missing = self.question.missing
        remaining: dict[int, SiteKind] = {}
        for place, kind in sorted(
            enumerate(self.planned.kinds), key=lambda item: -item[1].n
        ):
            absent = min(missing, kind.count)
            missing -= absent
            if kind.count > absent and kind.asked:
                remaining[place] = kind.model_copy(
                    update={"count": kind.count - absent, "names": ()}
                )
        places = sorted(remaining)
        sites = tuple(remaining[place] for place in places)
        if total_sites(sites) < self.planned.fewest_answers:
            return None
        return (
            self.message.solve(self.planned, sites, places)
            if self.question.missing
            else self.planned
        )

    def _summary(self, design: Design | None) -> Summary | None:
        law = None if design is None else messages.law(design, 0)
        return None if law is None else Summary(law, self.question.confidence_level)

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee for the sites that answer, where there is no distribution."""
        assert self.answered is not None
        guarantee: Guarantee = messages.guarantee(self.answered, 0)
        return guarantee

    @property
    def expected(self) -> float | None:
        """Expected coverage of private sets for evenly spread scores; None for
        others.
        """
        return (
            expected_mean(self.answered, 0)
            if self.answered is not None and self.is_feasible
            else None
        )

    def alone(self, n_points: int) -> Summary:
        """Return the distribution with this many cases in one place."""
        level = self.question.confidence_level
        return Summary(baselines.coverage_law(n_points, level), level)

    @property
    def equivalent_pool(self) -> int:
        """Number of pooled cases whose coverage would vary as much.

        A Beta distribution of mean p from N pooled cases has the variance p (1 - p) /
        (N + 2).
        """
        assert self.law is not None
        return max(1, round(self.law.mean * (1 - self.law.mean) / self.law.std**2) - 2)

    @property
    def spread_ratio(self) -> float:
        """Root mean squared distance from the level, divided by that of pooling all
        cases.
        """
        assert self.law is not None
        assert self.pooled is not None
        laws = self.law, self.pooled
        ours, theirs = (
            math.hypot(law.std, law.mean - law.confidence_level) for law in laws
        )
        return ours / theirs

    @property
    def alternatives(self) -> list[Criterion]:
        """Criteria that have a finite threshold with the same cases, where the chosen
        one has none.
        """
        question = self.question
        others = [] if self.planned.is_feasible else criteria_for(question)
        return [
            criterion
            for criterion in others
            if criterion != question.chosen_criterion
            and solve(
                question.model_copy(update={"criterion": criterion.name})
            ).is_feasible
        ]

    @property
    def counts(self) -> set[int]:
        """Numbers that a site sends, for each kind of site that is asked."""
        kinds = [kind for kind in self.planned.kinds if kind.asked]
        return {
            self.message.count_numbers(self.planned, kind.n, _name(kind))
            for kind in kinds
        } or {1}

    def sent(self, kind: SiteKind) -> str:
        """Return what a site of this kind sends, as its message describes it."""
        return disclosure(self.planned, kind.n, _name(kind))

    def votes(self, kind: SiteKind) -> tuple[int, ...]:
        """Return the votes of a site of this kind; empty where none are cast."""
        votes = messages.votes(self.planned, 0)
        return () if votes is None else votes[self.planned.kinds.index(kind)]

    @property
    def n_points(self) -> int:
        """Cases of the sites that answer."""
        return (
            sum(kind.count * kind.n for kind in self.answered.kinds)
            if self.answered is not None
            else 0
        )

    @property
    def tally(self) -> tuple[int, int]:
        """Numbers that the server receives, and their votes."""
        assert self.answered is not None
        votes = messages.votes(self.answered, 0) or ()
        rows = [
            (kind.count, own)
            for kind, own in zip(self.answered.kinds, votes, strict=True)
        ]
        return sum(count * len(own) for count, own in rows), sum(
            count * sum(own) for count, own in rows
        )


def _name(kind: SiteKind) -> str:
    """Return the name of a site of this kind, where it has one."""
    return kind.names[0] if kind.names else "A"


def make_plan(question: PlanQuestion) -> Plan:
    """Return the plan that answers a question; a round that is random is drawn each
    time.
    """
    remembered = _remembered(question)
    return remembered if remembered.terms.round is None else _plan(question)


def _plan(question: PlanQuestion) -> Plan:
    """Make a plan as `fedconformal.plan` does, without a warning: the page shows what
    cannot be reached.
    """
    names = question.names
    points = (
        question.points
        if names is None
        else dict(zip(names, question.sizes, strict=True))
    )
    facts = {} if question.facts is None else question.facts.given
    return make_quietly(
        **question.model_dump(include=_SAME),
        n_sites=question.n_sites,
        n_points=points,
        curve=None if question.curve is None else question.curve.grid,
        privacy=None if question.privacy is None else question.privacy.privacy,
        keys=question.public_keys,
        terms={"classes": question.classes, **facts},
    )


_remembered = lru_cache(maxsize=512)(_plan)


def solve(question: PlanQuestion) -> Solution:
    """Return the design that answers a question, and its distribution of the
    coverage.
    """
    return _solve(question.without_terms)


_solve = lru_cache(maxsize=512)(Solution)


def is_possible(question: PlanQuestion) -> bool:
    """Return whether the options of a question go together."""
    try:
        _remembered(question)
    except ValueError:
        return False
    return True


def criteria_for(question: PlanQuestion) -> list[Criterion]:
    """Return the criteria that a question can be asked for: the default first, those
    with a delta last.
    """
    usual = question.promised.default_criterion
    known = [CRITERIA[name]() for name in CRITERIA]
    fitting = [
        it
        for it in known
        if is_possible(question.model_copy(update={"criterion": it.name}))
    ]
    return sorted(
        fitting, key=lambda criterion: (criterion.name != usual, criterion.takes_delta)
    )


# -- a plan as the page shows it -------------------------------------------------------


def answer_plan(
    question: PlanQuestion, *, compare: bool = True, width: int = 720
) -> str:
    """Return what the page shows of a plan: the answer, the commands and a summary.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted.
    compare : bool
        True for what takes longer: a row with another number of numbers per site, and
        how soon a drop would be found.
    width : int
        Width of the picture, in pixels.

    Examples
    --------
    >>> "Each site sends 1 of its 79 scores" in answer_plan(
    ...     PlanQuestion(sites=10, points=79)
    ... )
    True
    """
    solution = solve(question)
    other = _find_other(solution) if compare else None
    watched = compare and solution.planned.is_feasible
    watch_plan = (
        [it.sentence() for it in plan_watch(make_plan(question), USUAL_CASES)]
        if watched
        else []
    )
    return render(
        "_plan.html",
        question=question,
        solution=solution,
        other=other,
        watch_plan=watch_plan,
        site=next((_name(kind) for kind in solution.planned.kinds if kind.asked), "A"),
        picture_width=width,
    )


def _find_other(solution: Solution) -> Solution | None:
    """Return the solution with another number of numbers per site, if it has a
    distribution to compare.

    That is a few where one was asked for, one where several were; None where nothing
    else can be sent, or where the search would take too long.
    """
    question = solution.question
    numbers = 1 if question.how_many > 1 else _A_FEW
    exact = question.privacy is None and question.curve is None
    if not (solution.is_feasible and has_law(question.promised) and exact):
        return None
    if numbers > 1 and question.max_faulty > 0 and not question.is_alike:
        return None
    asked = question.model_copy(update={"numbers": numbers})
    other = solve(asked) if numbers == 1 or is_possible(asked) else None
    return other if other is not None and other.law is not None else None


# -- the cases per site that suffice for a coverage in 95 of 100 calibrations ----------


_MOST_NUMBERS = 5
_MOST_PRIVATE_SITES, _MOST_PRIVATE_POINTS = 1_000, 10_000
_SPAN = 4  # some numbers are tried up to this many times the answer


class Effort(NamedTuple):
    """Effort of a search.

    ``streak`` numbers in a row must suffice; behind them single numbers are tried, each
    ``ratio`` times further away; after ``tries`` failures the search is given up.
    """

    streak: int
    ratio: float
    tries: int


_QUICK, _LARGE, _SLOW = Effort(100, 1.1, 1000), Effort(20, 1.4, 200), Effort(6, 2.0, 80)
_LARGE_POINTS, _SLOW_POINTS = 2_000, 10_000


def answer_cases(question: PlanQuestion, coverage: float) -> str:
    """Return the sentence that says how many cases every site needs.

    Parameters
    ----------
    question : PlanQuestion
        What is wanted of a federation of sites of equal size.
    coverage : float
        Coverage that 95 of 100 calibrations are to reach.

    Raises
    ------
    ValueError
        If there is no distribution of the coverage, or the search would take too long.

    Examples
    --------
    >>> answer_cases(PlanQuestion(sites=10, points=79), 0.88)
    'You need at least 85 cases per site (checked up to 340).'
    """
    enough = cases_needed(question, coverage)
    return render(
        "_cases.html",
        enough=enough,
        most=_most(question),
        coverage=coverage,
        question=question,
    )


def cases_needed(question: PlanQuestion, coverage: float) -> tuple[int, int] | None:
    """Return a number of cases that suffices while one less does not, and how far
    larger ones were tried.
    """
    _check(question, coverage)

    def is_enough(n: int) -> bool:
        alike = {"sites": question.n_sites, "points": n, "names": None}
        solution = solve(question.model_copy(update=alike))
        return (
            solution.is_feasible
            and solution.law is not None
            and solution.law.low >= coverage
        )

    def effort(n: int) -> Effort:
        if question.privacy is not None or question.how_many > 1 or n > _SLOW_POINTS:
            return _SLOW
        return _QUICK if n <= _LARGE_POINTS else _LARGE

    return always_from(is_enough, stop=_most(question), effort=effort)


def _most(question: PlanQuestion) -> int:
    return MOST_POINTS if question.privacy is None else _MOST_PRIVATE_POINTS


def _check(question: PlanQuestion, coverage: float) -> None:
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must be between 0 and 1, got {coverage:g}")
    if question.how_many > _MOST_NUMBERS:
        raise ValueError(
            f"the cases needed are searched for up to {_MOST_NUMBERS} numbers per site"
        )
    if question.privacy is not None and (
        question.n_sites > _MOST_PRIVATE_SITES
        or max(question.sizes) > _MOST_PRIVATE_POINTS
    ):
        raise ValueError(
            "with privacy, the cases needed are searched for up to"
            f" {_MOST_PRIVATE_SITES:,} sites of up to {_MOST_PRIVATE_POINTS:,} cases"
        )
    if solve(question).planned_law is None:
        raise ValueError(
            f"promise {question.promise!r} has no distribution of the coverage here to"
            " search with"
        )


def always_from(
    is_enough: Callable[[int], bool], *, stop: int, effort: Callable[[int], Effort]
) -> tuple[int, int] | None:
    """Return the number from which on all that were tried are enough, and how far that
    was tried.

    More is not always better where ranks are whole numbers. From the first number that
    was found by doubling and halving, many numbers in a row are tried, and some further
    away; behind the last of them that is not enough, the search begins again. None
    means that no number up to ``stop`` was found.

    Examples
    --------
    >>> always_from(
    ...     lambda n: n in (5, 8) or n > 9,
    ...     stop=1000,
    ...     effort=lambda n: Effort(20, 2.0, 500),
    ... )
    (10, 40)
    """
    start = _first(is_enough, stop)
    tries = 0
    while start is not None and start <= stop and tries < effort(start).tries:
        each_to = min(stop, start + effort(start).streak - 1)
        places = [
            *range(start, each_to + 1),
            *_further(each_to, start, stop, effort(start).ratio),
        ]
        wrong = next(
            (i for i, place in enumerate(reversed(places), 1) if not is_enough(place)),
            None,
        )
        if wrong is None:
            return start, places[-1]
        start, tries = places[-wrong] + 1, tries + wrong
    return None


def _first(is_enough: Callable[[int], bool], stop: int) -> int | None:
    """Find a number that is enough while the one before is not, by doubling and
    halving.
    """
    low, high = 0, 1
    while not is_enough(high):
        if high == stop:
            return None
        low, high = high, min(2 * high, stop)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _further(begin: int, start: int, stop: int, ratio: float) -> Iterator[int]:
    """Yield single numbers behind a streak, further and further away."""
    away = max(1, begin - start)
    end = min(stop, _SPAN * start)
    while start + away < end:
        away = int(ratio * away) + 1
        yield min(start + away, end)
