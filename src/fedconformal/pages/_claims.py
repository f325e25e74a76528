"""Claims of a calibration, level by level, for all cases or for one group of them."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import thread_time

from fedconformal import baselines, messages
from fedconformal._text import floor_percent, listed, nearest_percent, percent
from fedconformal.documents import Calibration, CalibrationPart, Design, Gridded, Level
from fedconformal.laws import Summary
from fedconformal.pages._picture import law_picture
from fedconformal.pages._render import disclosure, expected_mean, has_law
from fedconformal.planning import CRITERIA, PROMISES, Criterion, Promise

_MOST_NAMES = 200  # of larger federations the rest stays in the calibration

_MOST_SECONDS = 2.0  # for all distributions of a page
_MOST_NUMBERS = 2000  # of one distribution
_LARGE = 10**8  # points from which on the numbers of uneven sites take longer
_BOUNDED = 5  # how much longer the worst of many distributions takes
_CELLS = 50  # cells of a grid that take as long as one number
_MOST_CELLS = 1000  # cells of a grid on which the coverage is simulated


class Budget:
    """Time for the distributions of a page, which a hostile calibration must not exceed."""

    def __init__(self) -> None:
        self._end = thread_time() + _MOST_SECONDS

    def allows(self, n_numbers: int) -> bool:
        """Return whether there is time for a distribution of this many different numbers."""
        return n_numbers <= _MOST_NUMBERS and thread_time() < self._end


@dataclass(frozen=True, eq=False)
class Claim:
    """Claim for all cases, or for one group of them.

    Parameters
    ----------
    calibration : Calibration
        The whole.
    part : CalibrationPart
        The part of the group.
    budget : Budget
        Time for distributions.
    """

    calibration: Calibration
    part: CalibrationPart
    budget: Budget

    @property
    def design(self) -> Design:
        """Design for the sites that answered."""
        return self.part.design

    @property
    def planned(self) -> Design:
        """Design of the plan."""
        return self.calibration.plan.by_group[self.design.group]

    @property
    def label(self) -> str:
        """The group; empty where there are no groups."""
        return self.design.group or ""

    @cached_property
    def message(self) -> messages.Message:
        """Behaviour of what sites sent."""
        return messages.of(self.design.message)

    @cached_property
    def criterion(self) -> Criterion:
        """Criterion of the design."""
        return CRITERIA[self.design.criterion]()

    @cached_property
    def promise(self) -> Promise:
        """Promise of the design."""
        return PROMISES[self.design.promise]()

    @property
    def delta(self) -> float | None:
        """Probability of failure that the criterion allows, where it takes one."""
        return None if self.design.delta is None else float(self.design.delta)

    @property
    def is_bound(self) -> bool:
        """True if distributions bound the coverage from below, rather than being its distributions."""
        return self.message.is_bound(self.design)

    @cached_property
    def n_points(self) -> int:
        """Calibration cases of all sites that answered."""
        return sum(kind.count * kind.n for kind in self.design.kinds)

    @property
    def n_answers(self) -> int:
        """Number of sites that answered."""
        return self.design.n_sites or 0

    @cached_property
    def has_votes(self) -> bool:
        """True if votes are counted, rather than sites: larger sites have more, or a site sends several."""
        return any(votes not in ((), (1,)) for level in self.levels for votes in level.votes)

    @cached_property
    def levels(self) -> list["LevelClaim"]:
        """Claims at each confidence level."""
        return [LevelClaim(self, i) for i in range(len(self.design.levels))]

    @cached_property
    def group(self) -> str:
        """Description of the group, to be read after "the": "class “sick” at the site “north”"."""
        if not self.label:
            return ""
        grouping = self.calibration.plan.grouping
        site, label = grouping.parts_of(self.label)
        where = "" if site is None else f"site “{site}”"
        if label is None:
            return where
        group = f"{'class' if grouping.by_class else 'group'} “{label}”"
        return f"{group} at the {where}" if where else group

    @property
    def missing_names(self) -> str:
        """Names of the sites that were asked and did not answer, as far as they are known."""
        return first_names(self.part.missing)

    @property
    def n_not_asked(self) -> int:
        """Number of sites that the plan did not ask, because they could never change the threshold."""
        return sum(kind.count for kind in self.planned.kinds if not kind.asked)

    @property
    def names_not_asked(self) -> str:
        """Names of the sites that were not asked, as far as they are known."""
        return first_names([name for kind in self.planned.kinds if not kind.asked for name in kind.names])

    @cached_property
    def sent(self) -> dict[str, str]:
        """Description of what each site sent, by its message."""
        sizes = {name: kind.n for kind in self.design.kinds for name in kind.names}
        return {site: disclosure(self.design, sizes[site], site) for site in sorted(sizes)}

    def answer_rows(self, *, votes: bool) -> Iterator[list[str]]:
        """Yield site, cases and what it sent, with its votes where these are counted."""
        places = {name: i for i, kind in enumerate(self.design.kinds) for name in kind.names}
        for site, sent in self.sent.items():
            place = places[site]
            cast = "; ".join(_votes_text(level.votes[place]) for level in self.levels) if votes else ""
            yield [site, f"{self.design.kinds[place].n:,}", sent, *([cast] if votes else [])]


def first_names(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return f"{listed(list(names[:_MOST_NAMES]))}{f' and {more:,} more' if more > 0 else ''}"


def _votes_text(votes: Sequence[int]) -> str:
    if len(votes) < 2:
        return f"{sum(votes):,}"
    same = len(set(votes)) == 1
    terms = f"{len(votes)} × {votes[0]:,}" if same else " + ".join(f"{vote:,}" for vote in votes)
    return f"{terms} = {sum(votes):,}"


@dataclass(frozen=True, eq=False)
class LevelClaim:
    """Claim at one confidence level: the level ``index`` of a claim."""

    claim: Claim
    index: int

    @property
    def solved(self) -> Level:
        """Votes needed, and advice where no threshold is finite."""
        return self.claim.design.levels[self.index]

    @property
    def level(self) -> float:
        """Coverage that was asked for."""
        return float(self.solved.confidence_level)

    @property
    def threshold(self) -> float:
        """Threshold of the level."""
        return self.claim.part.thresholds[self.index]

    @property
    def is_finite(self) -> bool:
        """True if the threshold is finite, so that sets are informative."""
        return self.threshold < math.inf

    @property
    def is_answered(self) -> bool:
        """True if enough sites answered for any threshold, be it infinite."""
        return self.solved.votes is not None

    @property
    def promised(self) -> str:
        """The promise as a sentence."""
        claim = self.claim
        group = f" of the {claim.group}" if claim.group else ""
        return claim.promise.sentence(claim.criterion, self.level, claim.delta, group)

    @cached_property
    def votes(self) -> tuple[tuple[int, ...], ...]:
        """Votes of the numbers of each kind of site."""
        return self.claim.message.votes(self.claim.design, self.index) or ()

    @cached_property
    def _law(self) -> tuple[Summary | None, bool]:
        """Distribution of the coverage, and whether there is one that takes too long."""
        if not self.is_answered or not self.claim.budget.allows(self._n_numbers):
            return None, self.is_answered
        law = messages.law(self.claim.design, self.index)
        if law is None:
            return None, False
        summary = Summary(law, self.level)
        try:
            is_valid = summary.is_certain or summary.low <= 1
        except ValueError:  # more votes than can be counted
            is_valid = False
        return summary if is_valid else None, not is_valid

    @property
    def law(self) -> Summary | None:
        """Distribution of the coverage, or a bound of it; None if there is none, or it takes too long."""
        return self._law[0]

    @property
    def is_left_out(self) -> bool:
        """True if there is a distribution that takes too long."""
        return self._law[1]

    @property
    def has_guarantee_alone(self) -> bool:
        """True if there is no distribution, but a guarantee."""
        return self.is_answered and self._law == (None, False)

    @property
    def _n_numbers(self) -> int:
        """Number of different numbers that the distribution is of, times what makes each take longer."""
        claim, design = self.claim, self.claim.design
        if not has_law(claim.promise):
            return 0
        ranks = claim.message.local_ranks(design, self.index)
        if ranks is None:
            sizes = {kind.n for kind in design.kinds} if claim.is_bound else {1}
            return len(sizes) * getattr(design.message, "n_cells", _CELLS) // _CELLS
        rows = {(kind.n, own) for kind, own in zip(design.kinds, ranks, strict=True)}
        if len(rows) == 1 and all(len(own) == 1 for _, own in rows):
            return 1
        numbers = sum(len(own) ** 2 * (1 + n // _LARGE) for n, own in rows)
        return numbers * (1 + design.max_faulty) ** 2 * (_BOUNDED if claim.is_bound else 1)

    @cached_property
    def expected_mean(self) -> float | None:
        """Expected coverage of private sets for evenly spread scores, where there is time to compute it."""
        design = self.claim.design
        is_small = getattr(design.message, "n_cells", 0) <= _MOST_CELLS
        if not self.is_finite or not is_small or not self.claim.budget.allows(self._n_numbers):
            return None
        return expected_mean(design, self.index)

    @property
    def cell_width(self) -> float | None:
        """Width of the cell that the threshold ends; None without a grid, or if it has no beginning."""
        message = self.claim.design.message
        edges = message.edges if isinstance(message, Gridded) else ()
        place = bisect_left(edges, self.threshold)
        width = edges[place] - edges[place - 1] if 0 < place < len(edges) else math.inf
        return width if width < math.inf else None

    @property
    def needed_every_site(self) -> bool:
        """True if one site less could have made the threshold infinite, where there is time to tell."""
        claim, design = self.claim, self.claim.design
        if not self.is_finite or claim.n_answers < 2 or not claim.budget.allows(self._n_numbers):
            return False
        return not claim.message.tolerates(design, self.index, 1)

    @cached_property
    def pooled(self) -> Summary | None:
        """Distribution with all cases in one place, where that would satisfy the same promise."""
        if not self.claim.promise.pools or self.claim.n_points == 0:
            return None
        return Summary(baselines.coverage_law(self.claim.n_points, self.level), self.level)

    @property
    def has_picture(self) -> bool:
        """True if there is a distribution to draw that is not certain."""
        return self.law is not None and not self.law.is_certain

    def picture(self, name: str, width: int) -> str | None:
        """Return the distribution as SVG."""
        assert self.law is not None
        bound = self.claim.is_bound
        return law_picture(self.law, pooled=self.pooled, is_bound=bound, width=width, name=name)

    @property
    def last_edge(self) -> float | None:
        """Score above which scores count as infinite, where they are placed on a grid."""
        message = self.claim.design.message
        return message.edges[message.n_cells - 2] if isinstance(message, Gridded) else None

    @property
    def where(self) -> str:
        """Group and level, as far as there are several, as the beginning of a sentence: "At 90 %: "."""
        level = f"at {percent(self.level)}" if len(self.claim.levels) > 1 else ""
        place = ", ".join(part for part in (self.claim.group, level) if part)
        return f"{place[:1].upper()}{place[1:]}: " if place else ""

    @property
    def law_row(self) -> list[str]:
        """Place, votes needed and figures of the distribution, or of the guarantee where there is none."""
        level, claim = percent(self.level), self.claim
        place = [claim.label, level] if claim.label else [level]
        if not self.is_answered:
            return [*place, "too few answers", *["–"] * 4]
        return [*place, self._needed, *(self._guaranteed() if self.has_guarantee_alone else self._figures())]

    @property
    def _needed(self) -> str:
        """Votes needed, and how many there are where sites cast them."""
        if self.solved.advice is not None:
            return "none"
        needed, kinds = f"{self.solved.votes or 0:,}", self.claim.design.kinds
        if self.claim.message.adds_up:
            return needed
        return f"{needed} of {sum(k.count * sum(v) for k, v in zip(kinds, self.votes, strict=True)):,}"

    def _figures(self) -> list[str]:
        law = self.law
        if law is None:
            return ["–"] * 4
        mean, std = floor_percent(law.mean, digits=2), nearest_percent(law.std, digits=2)
        return [mean, std, floor_percent(law.low), floor_percent(law.reached, digits=0)]

    def _guaranteed(self) -> list[str]:
        guarantee = messages.guarantee(self.claim.design, self.index)
        mean, reached = (
            "–" if bound is None else f"{floor_percent(bound, digits=2)} or more"
            for bound in (guarantee.mean, guarantee.probability)
        )
        return [mean, "–", "–", reached]
