"""Cases: every site sends the scores of one or a few of its cases, drawn at random.

Which cases are drawn is given by SHA-256 of the plan's random round id and the site's
name: a site that answers twice sends the same cases, a new round draws new ones, and
nobody chooses them.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from fedconformal._text import count
from fedconformal.documents import (
    Advice,
    Cases,
    CasesPayload,
    Design,
    Payload,
    SiteKind,
    total_sites,
)
from fedconformal.messages._base import (
    MESSAGES,
    Answer,
    Choice,
    DesignRequest,
    Message,
    smallest_with_votes,
)
from fedconformal.messages._ranks import select_ranks
from fedconformal.planning import PROMISES, Goal, Guarantee

_PURPOSE = "fedconformal/cases"
_WHOLE = 2**256


@MESSAGES.register
class CasesMessage(Message):
    """Scores of cases drawn at random without replacement, the same for all levels.

    A site that has fewer cases sends all, and its votes are spread over them such that
    it has as many votes as any other.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=40, n_points=9, promise="new-site", numbers=2)
    >>> fc.messages.of(plan.message).discloses(plan.designs[0], 9, "A")
    '2 of your 9 scores, drawn at random'
    """

    name: ClassVar[str] = "cases"
    promises: ClassVar[tuple[str, ...]] = ("new-site",)

    def choose(self, request: DesignRequest) -> Choice:
        """Ask every site for the same number of cases, whatever its size."""
        numbers = request.numbers or request.promise.default_numbers
        is_open, levels = request.sites is None, []
        for goal in request.goals:
            request.promise.check_goal(
                goal,
                is_open=is_open,
                is_searched=not request.uses_paper_ranks,
                numbers=numbers,
            )
            m = total_sites(request.sites or ())
            needed, advice = (None, None) if is_open else _solve(goal, numbers, m)
            if (
                needed is not None
                and advice is None
                and not _suffices(goal, numbers, m - (goal.max_missing or 0))
            ):
                needed, advice = numbers * m + 1, _advice(goal)
            levels.append(goal.make_level(needed, advice))
        return Choice(Cases(numbers=numbers), tuple(levels), request.sites)

    def check(self, design: Design) -> None:
        """Refuse too few votes."""
        numbers, m = _numbers(design), total_sites(design.kinds)
        for place, level in enumerate(design.levels):
            goal = Goal.from_design(design, place)
            PROMISES[design.promise]().check_goal(
                goal, is_open=design.is_open, numbers=numbers
            )
            if level.votes is None:
                continue
            if (level.votes > numbers * m) != (
                level.advice is not None
            ) or level.votes > numbers * m + 1:
                raise ValueError(
                    "votes must be at most the number of votes plus 1, which means +inf"
                )
            if level.votes < _solve(goal, numbers, m)[0]:
                raise ValueError(
                    "the votes needed are too few for a promise to a new site"
                )

    def count_numbers(self, design: Design, n: int, site: str) -> int:
        """Count the cases that are drawn."""
        design.find_kind(n, site=site)
        return min(_numbers(design), n)

    def discloses(self, design: Design, n: int, site: str) -> str:
        """Name the number of cases that are drawn."""
        return (
            f"{self.count_numbers(design, n, site):,} of your {count(n, 'score')},"
            " drawn at random"
        )

    def summarize(self, design: Design, place: int) -> str:
        """Name the number of cases."""
        return count(_numbers(design), "random case")

    def prepare(
        self,
        design: Design,
        scores: Any,
        *,
        site: str,
        round_id: str | None,
        options: Mapping[str, Any],
    ) -> Callable[[], Payload]:
        """Find which cases are drawn, and select their scores."""
        assert round_id is not None
        ranks = list(
            draw_ranks(
                round_id,
                site,
                scores.size,
                self.count_numbers(design, scores.size, site),
            )
        )

        def answer() -> CasesPayload:
            selected = select_ranks(
                scores, ranks, in_place=bool(options.get("in_place"))
            )
            return CasesPayload(values=tuple(selected[rank] for rank in ranks))

        return answer

    def problem(self, design: Design, answer: Answer) -> str | None:
        """Compare the number of cases, and their order."""
        values, wanted = (
            answer.payload.values,
            self.count_numbers(design, answer.n, answer.site),
        )
        if len(values) != wanted:
            return f"{count(len(values), 'case')} instead of {wanted}"
        return (
            None
            if list(values) == sorted(values)
            else "cases that are not in increasing order"
        )

    def solve(
        self, design: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> Design:
        """Solve the votes for the number of sites that answered."""
        numbers, m = _numbers(design), total_sites(sites)
        levels = tuple(
            goal.make_level(*_solve(goal, numbers, m)) for goal in Goal.all_of(design)
        )
        return design.answered_by(sites, levels=levels)

    def combine(
        self, design: Design, answers: Mapping[str, Answer]
    ) -> tuple[float, ...]:
        """Return the smallest number at which the votes reach those needed, for each
        level.
        """
        ballots = [
            pair
            for kind in design.kinds
            for name in kind.names
            for pair in zip(
                answers[name].payload.values,
                _votes(_numbers(design), kind.n),
                strict=True,
            )
        ]
        return tuple(
            smallest_with_votes(ballots, level.votes or 1) for level in design.levels
        )

    def law(self, design: Design, place: int) -> None:
        """Return None: the coverage at new sites has no known distribution."""
        return

    def guarantee(self, design: Design, place: int) -> Guarantee:
        """Return the mean over new sites."""
        level = design.levels[place]
        if level.advice is not None:
            return Guarantee(1.0, 1.0, 1.0)
        return Guarantee(
            (level.votes or 0) / (_numbers(design) * (total_sites(design.kinds) + 1))
        )

    def is_bound(self, design: Design) -> bool:
        """Return True: the mean is a bound."""
        return True

    def tolerates(self, design: Design, place: int, n_missing: int) -> bool:
        """Return whether enough sites are left."""
        left = total_sites(design.kinds) - n_missing
        return _suffices(Goal.from_design(design, place), _numbers(design), left)

    def votes(self, design: Design, place: int) -> tuple[tuple[int, ...], ...] | None:
        """Return the votes of the cases of each kind of site, in increasing order of
        their scores.
        """
        numbers = _numbers(design)
        return (
            None
            if design.is_open
            else tuple(_votes(numbers, kind.n) for kind in design.kinds)
        )


def _numbers(design: Design) -> int:
    assert isinstance(design.message, Cases)
    return design.message.numbers


def _votes(numbers: int, n: int) -> tuple[int, ...]:
    """Return the votes of a site's cases; the first i of n < ``numbers`` have ``numbers
    * i // n``.
    """
    drawn = min(n, numbers)
    counted = [numbers * i // drawn for i in range(drawn + 1)]
    return tuple(high - low for low, high in pairwise(counted))


def _needed(goal: Goal, numbers: int, m: int) -> int:
    """Return the level as a share of the cases of all sites and of one more, whose
    cases are +inf.
    """
    return math.ceil(numbers * goal.level * (m + 1))


def _suffices(goal: Goal, numbers: int, m: int) -> bool:
    return m > 0 and _needed(goal, numbers, m) <= numbers * m


def _solve(goal: Goal, numbers: int, m: int) -> tuple[int, Advice | None]:
    if _suffices(goal, numbers, m):
        return _needed(goal, numbers, m), None
    return numbers * m + 1, _advice(goal)


def _advice(goal: Goal) -> Advice:
    """Return the number of sites at which one unseen site does not matter."""
    return Advice(
        n_sites=math.ceil(goal.level / (1 - goal.level)) + (goal.max_missing or 0)
    )


def draw_ranks(round_id: str, site: str, n: int, how_many: int) -> tuple[int, ...]:
    """Draw ranks without replacement.

    Parameters
    ----------
    round_id, site : str
        The plan's round, and the site's name.
    n, how_many : int
        Number of scores of the site, and of those that are drawn.

    Returns
    -------
    tuple of int
        In increasing order, from 1 to n.

    Examples
    --------
    >>> from fedconformal.messages import draw_ranks
    >>> draw_ranks("0" * 32, "A", 5, 5)
    (1, 2, 3, 4, 5)
    """
    moved: dict[
        int, int
    ] = {}  # the places of a shuffled deck that are not where they were
    drawn, numbers = [], _random_numbers(round_id, site)
    for i in range(min(how_many, n)):
        j = i + _below(n - i, numbers)
        drawn.append(moved.get(j, j) + 1)
        moved[j] = moved.get(i, i)
    return tuple(sorted(drawn))


def _random_numbers(round_id: str, site: str) -> Iterator[int]:
    """Endless random numbers of 256 bits."""
    key = hashlib.sha256("\0".join((_PURPOSE, round_id, site)).encode()).digest()
    counter = 0
    while True:
        yield int.from_bytes(
            hashlib.sha256(key + counter.to_bytes(8, "big")).digest(), "big"
        )
        counter += 1


def _below(limit: int, numbers: Iterator[int]) -> int:
    """Draw a uniform number below a limit; a draw from the incomplete last stretch is
    repeated.
    """
    fair = _WHOLE - _WHOLE % limit
    return next(number for number in numbers if number < fair) % limit
