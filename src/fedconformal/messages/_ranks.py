"""Ranks: every site sends its scores of one or a few ranks, which have votes."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from fedconformal._text import count
from fedconformal.documents import (
    Design,
    Payload,
    RankLevel,
    RankRule,
    Ranks,
    RanksPayload,
    Sent,
    SiteKind,
    merge_kinds,
)
from fedconformal.laws import CoverageLaw
from fedconformal.messages._base import (
    MESSAGES,
    Answer,
    Choice,
    DesignRequest,
    Message,
    smallest_with_votes,
)
from fedconformal.planning import (
    PROMISES,
    Ballot,
    Goal,
    Guarantee,
    Promise,
    Solution,
    ranks_of_rule,
)

_MOST_LISTED = 6  # ranks in a summary
_REMEMBERED = 1000  # kinds of sites up to which a choice is remembered


@MESSAGES.register
class RanksMessage(Message):
    """Scores of fixed ranks, to the last digit.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=10, n_points=79)
    >>> fc.messages.of(plan.message).discloses(plan.designs[0], 79, "A")
    '1 of your 79 scores (the 71st smallest)'
    """

    name: ClassVar[str] = "ranks"
    promises: ClassVar[tuple[str, ...]] = (
        "population",
        "mixture",
        "each-site",
        "new-site",
    )

    def choose(self, request: DesignRequest) -> Choice:
        """Search ranks and votes for each level, or give a rule for sites of unknown
        size.
        """
        numbers = request.numbers or request.promise.default_numbers
        levels, ranks, is_open = [], [], request.sites is None
        for goal in request.goals:
            share = goal.level if request.uses_paper_ranks else None
            request.promise.check_goal(
                goal, is_open=is_open, is_searched=share is None, numbers=numbers
            )
            if request.sites is None:
                ranks.append(
                    RankLevel(
                        rule=request.promise.open_rule(
                            goal, numbers, share, request.n_sites
                        )
                    )
                )
                levels.append(goal.make_level(None))
                continue
            merged = merge_kinds(request.sites)
            choose = _choose if len(merged) <= _REMEMBERED else _choose.__wrapped__
            solution = choose(request.promise, merged, goal, numbers, share)
            ranks.append(_expand(solution, request.sites))
            levels.append(goal.make_level(solution.needed, solution.advice))
        sites = request.sites and tuple(
            (
                kind
                if any(level.ranks[i] for level in ranks)
                else kind.model_copy(update={"asked": False})
            )
            for i, kind in enumerate(request.sites)
        )
        return Choice(Ranks(levels=tuple(ranks)), tuple(levels), sites)

    def check(self, design: Design) -> None:
        """Refuse ranks and votes that cannot keep the promise."""
        promise = PROMISES[design.promise]()
        for place, chosen in enumerate(_data(design).levels):
            goal = Goal.from_design(design, place)
            numbers = (
                max([1, *map(len, chosen.ranks)])
                if chosen.rule is None
                else chosen.rule.numbers
            )
            promise.check_goal(goal, is_open=design.is_open, numbers=numbers)
            if design.is_open:
                _check_share(chosen.rule, goal)
                continue
            # With sites that are not asked, as some promises are to every site.
            solution = _solution(design, place, merged=False)
            total = solution.ballot.total_votes
            if solution.needed > total + 1 or (solution.needed > total) != (
                solution.advice is not None
            ):
                raise ValueError(
                    "votes must be at most the number of votes plus 1, which means +inf"
                )
            if solution.needed <= design.max_faulty:
                raise ValueError("votes must be above max_faulty")
            rule = chosen.rule
            if rule is not None and rule.share is not None:
                followed = tuple(
                    ranks_of_rule(rule, goal.level, kind.n) for kind in design.kinds
                )
                if chosen.ranks != followed:
                    raise ValueError("the ranks do not follow from the share")
            if rule is not None:
                _check_share(rule, goal)
            promise.check_solution(solution, goal)

    def breaks_promise(self, design: Design, place: int, most_work: int) -> bool:
        """Return whether the promise is missed by the distribution of the votes."""
        promise, goal = PROMISES[design.promise](), Goal.from_design(design, place)
        return promise.breaks_promise(_solution(design, place), goal, most_work)

    def ranks_for(
        self, design: Design, n: int, site: str | None
    ) -> tuple[tuple[int, ...], ...]:
        """Return the ranks that a site of n scores sends, for each level; n + 1 stands
        for +inf.

        Parameters
        ----------
        design : Design
            The design.
        n : int
            Number of scores of the site.
        site : str or None
            Its name, by which it is found where the plan names sites; else it is found
            by its size.

        Returns
        -------
        tuple of tuple of int

        Raises
        ------
        ValueError
            If the plan expects no such site.
        """
        place = design.find_kind(n, site=site)
        if place is not None:
            return tuple(level.ranks[place] for level in _data(design).levels)
        return tuple(_ranks_by_rule(design, i, n) for i in range(len(design.levels)))

    def count_numbers(self, design: Design, n: int, site: str) -> int:
        """Count different scores, as levels may share one."""
        ranks = self.ranks_for(design, n, site)
        if not any(ranks):
            return 0
        return max(
            1, len(_different(ranks, n))
        )  # the size leaves even where no score does

    def discloses(self, design: Design, n: int, site: str) -> str:
        """Name the ranks."""
        sent = _different(self.ranks_for(design, n, site), n)
        if not sent:
            return f"none of your {count(n, 'score')}"
        which = ", ".join(map(_ordinal, sent[:5])) + (", ..." if len(sent) > 5 else "")
        return f"{len(sent):,} of your {count(n, 'score')} (the {which} smallest)"

    def summarize(self, design: Design, place: int) -> str:
        """Name the ranks, their range where sites differ, or the rule of an open
        design.
        """
        level = _data(design).levels[place]
        if design.is_open:
            assert level.rule is not None
            return _summarize_rule(level.rule, design.levels[place].confidence_level)
        different = sorted({ranks for ranks in level.ranks if ranks})
        if not different:
            return "nothing"
        if len(different) == 1 and len(different[0]) <= _MOST_LISTED:
            return (
                f"{'rank' if len(different[0]) == 1 else 'ranks'}"
                f" {', '.join(map(str, different[0]))}"
            )
        low, high = different[0][0], max(ranks[-1] for ranks in different)
        fewest, most = min(map(len, different)), max(map(len, different))
        numbers = (
            f", {'' if fewest == most else 'up to '}{most} each" if most > 1 else ""
        )
        return f"ranks {low}-{high}{numbers}"

    def prepare(
        self,
        design: Design,
        scores: Any,
        *,
        site: str,
        round_id: str | None,
        options: Mapping[str, Any],
    ) -> Callable[[], Payload]:
        """Select the scores in one linear-time pass."""
        ranks = self.ranks_for(design, scores.size, site)

        def answer() -> RanksPayload:
            different, in_place = (
                _different(ranks, scores.size),
                bool(options.get("in_place")),
            )
            selected = select_ranks(scores, different, in_place=in_place)
            values = (
                tuple(selected.get(rank, math.inf) for rank in each) for each in ranks
            )
            sent = zip(ranks, values, strict=True)
            return RanksPayload(
                levels=tuple(Sent(ranks=each, values=own) for each, own in sent)
            )

        return answer

    def problem(self, design: Design, answer: Answer) -> str | None:
        """Compare the ranks with those of the plan."""
        ranks = self.ranks_for(design, answer.n, answer.site)
        if not any(ranks):
            return "the plan does not ask this site"
        sent = tuple(level.ranks for level in answer.payload.levels)
        return None if sent == ranks else f"ranks {_few(sent)} instead of {_few(ranks)}"

    def solve(
        self, design: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> Design:
        """Keep the ranks, and solve the votes again."""
        promise = PROMISES[design.promise]()
        levels, ranks = [], []
        for place, planned in enumerate(_data(design).levels):
            goal = Goal.from_design(design, place)
            votes = planned.all_votes()
            own = [
                _ranks_by_rule(design, place, kind.n) if i is None else planned.ranks[i]
                for kind, i in zip(sites, places, strict=True)
            ]
            cast = [
                (1,) * len(each) if i is None else votes[i]
                for each, i in zip(own, places, strict=True)
            ]
            answered = Ballot(sites, tuple(own), tuple(cast))
            ranks.append(RankLevel.of(answered.ranks, answered.votes, planned.rule))
            solution = _solve(promise, design, place, answered, goal)
            levels.append(goal.make_level(solution.needed, solution.advice))
        return design.answered_by(
            sites, message=Ranks(levels=tuple(ranks)), levels=tuple(levels)
        )

    def combine(
        self, design: Design, answers: Mapping[str, Answer]
    ) -> tuple[float, ...]:
        """Return the smallest number at which the votes reach those needed, for each
        level.
        """
        thresholds = []
        for place, level in enumerate(design.levels):
            votes = _data(design).levels[place].all_votes()
            ballots = [
                pair
                for kind, cast in zip(design.kinds, votes, strict=True)
                for name in kind.names
                for pair in zip(
                    answers[name].payload.levels[place].values, cast, strict=True
                )
            ]
            thresholds.append(smallest_with_votes(ballots, level.votes or 1))
        return tuple(thresholds)

    def law(self, design: Design, place: int) -> CoverageLaw | None:
        """Return the distribution that the promise has for these votes."""
        return PROMISES[design.promise]().law(
            _solution(design, place), Goal.from_design(design, place)
        )

    def guarantee(self, design: Design, place: int) -> Guarantee:
        """Return the guarantee that the promise has for these votes."""
        return PROMISES[design.promise]().guarantee(
            _solution(design, place), Goal.from_design(design, place)
        )

    def is_bound(self, design: Design) -> bool:
        """Return whether faulty sites are tolerated, or the promise has bounds only."""
        return design.max_faulty > 0 or PROMISES[design.promise].is_bound

    def tolerates(self, design: Design, place: int, n_missing: int) -> bool:
        """Return whether the promise has a finite threshold without any of these
        sites.
        """
        goal = Goal.from_design(design, place)
        return PROMISES[design.promise]().tolerates(
            _solution(design, place), goal, n_missing
        )

    def local_ranks(
        self, design: Design, place: int
    ) -> tuple[tuple[int, ...], ...] | None:
        """Return the ranks of each kind of site."""
        return None if design.is_open else _data(design).levels[place].ranks

    def votes(self, design: Design, place: int) -> tuple[tuple[int, ...], ...] | None:
        """Return the votes of each number of each kind of site."""
        return None if design.is_open else _data(design).levels[place].all_votes()


def _data(design: Design) -> Ranks:
    assert isinstance(design.message, Ranks)
    return design.message


@lru_cache(maxsize=64)
def _choose(
    promise: Promise,
    sites: tuple[SiteKind, ...],
    goal: Goal,
    numbers: int,
    share: Fraction | None,
) -> Solution:
    """Remember a choice: simulations and cross-validation ask for the same sizes
    again.
    """
    return promise.choose(sites, goal, numbers, share)


def _expand(solution: Solution, sites: tuple[SiteKind, ...]) -> RankLevel:
    """Give every run of sites the ranks and votes of its size."""
    ballot = solution.ballot
    rows = zip(ballot.sites, ballot.ranks, ballot.votes, strict=True)
    known = {(kind.n, kind.share): (ranks, votes) for kind, ranks, votes in rows}
    ranks, votes = zip(*(known[kind.n, kind.share] for kind in sites), strict=True)
    return RankLevel.of(ranks, votes, solution.rule)


def _solution(design: Design, place: int, *, merged: bool = True) -> Solution:
    """Return one level of a design of known sizes, by default with alike sites put
    together.
    """
    level, sent = design.levels[place], _data(design).levels[place]
    ballot = Ballot(design.kinds, sent.ranks, sent.all_votes())
    if merged and not PROMISES[design.promise].takes_mixture:
        ballot = ballot.merge()
    return Solution(ballot, level.votes or 1, level.advice, sent.rule)


def _solve(
    promise: Promise, design: Design, place: int, answered: Ballot, goal: Goal
) -> Solution:
    """Solve the votes again, unless all sites that were asked have answered."""
    merged = answered.merge()
    if design.is_open:
        return promise.solve(
            Solution(merged, 1, None, _data(design).levels[place].rule), merged, goal
        )
    planned = _solution(design, place)
    there, asked = (
        set(zip(each.sites, each.ranks, each.votes, strict=True))
        for each in (merged, planned.ballot.merge())
    )
    return planned if there == asked else promise.solve(planned, merged, goal)


def _check_share(rule: RankRule | None, goal: Goal) -> None:
    if rule is not None and rule.share not in (None, goal.level):
        raise ValueError("the share of a site's ranks must be the level")


def _ranks_by_rule(design: Design, place: int, n: int) -> tuple[int, ...]:
    rule = _data(design).levels[place].rule
    assert rule is not None
    return ranks_of_rule(rule, design.levels[place].confidence_level, n)


def _summarize_rule(rule: RankRule, level: Fraction) -> str:
    if rule.eta is not None:
        chance = f"probability at least {rule.eta}"
        return (
            f"the smallest rank above its own {float(level):g}-quantile with {chance}"
        )
    middle = f"ceil({rule.share} (n + 1))"
    return (
        f"rank {middle}"
        if rule.numbers == 1
        else f"{rule.numbers} ranks around {middle}"
    )


def _different(ranks: Sequence[Sequence[int]], n: int) -> list[int]:
    return sorted({rank for each in ranks for rank in each if rank <= n})


def select_ranks(scores: Any, ranks: list[int], *, in_place: bool) -> dict[int, float]:
    """Return the scores of these ranks, which must be at most the number of scores."""
    if not ranks:
        return {}
    # Floats are ordered after selection only at these places, which is all that is
    # needed.
    values = scores if in_place else scores.copy()
    values.partition([rank - 1 for rank in ranks])
    return {rank: float(values[rank - 1]) for rank in ranks}


def _few(ranks: Sequence[Sequence[int]]) -> str:
    """Write ranks for a message: whoever sends a million of them gets no long
    answer.
    """
    flat = [rank for each in ranks for rank in each]
    shown = [str(rank)[:20] for rank in flat[:8]]
    if len(flat) > len(shown):
        shown.append("...")
    return f"[{', '.join(shown)}]"


def _ordinal(number: int) -> str:
    ending = (
        "th"
        if number // 10 % 10 == 1
        else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number:,}{ending}"
