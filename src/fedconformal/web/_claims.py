"""Claims of a calibration, level by level, for all cases or for one group of them."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import thread_time

from fedconformal import baselines
from fedconformal._text import count, floor_percent, listed, nearest_percent, percent, threshold_text
from fedconformal.documents import Answer, Calibration, Plan, Threshold
from fedconformal.laws import Summary
from fedconformal.planning import Criterion, Promise
from fedconformal.web._picture import law_picture
from fedconformal.web._words import equivalent_pool

MOST_NAMES = 200
"""Sites that are listed by name; of larger federations the rest stays in the calibration."""

_MOST_SECONDS = 0.4  # for all laws of a page
_MOST_NUMBERS = 2000  # of one law
_POINTS = 50  # of a private site take as long as one number
_LARGE = 10**8  # points from which on the numbers of uneven sites take longer
_MOST_EXPECTED = 10_000  # private sites whose coverage is simulated
_BOUNDED = 5  # as long takes a law that is the worst of many


class Budget:
    """Time for the laws of a page, which a hostile calibration must not exceed.

    Parameters
    ----------
    times : float
        How many times longer than a fraction of a second the page may take.
    """

    def __init__(self, times: float = 1.0) -> None:
        self._times = times
        self._end = thread_time() + times * _MOST_SECONDS

    def allows(self, n_numbers: int) -> bool:
        """Return whether there is time for a law of this many different numbers."""
        return n_numbers <= self._times * _MOST_NUMBERS and thread_time() < self._end


@dataclass(frozen=True, eq=False)
class Claim:
    """Claim for all cases, or for one group of them.

    Parameters
    ----------
    calibration : Calibration
        Without groups.
    label : str
        The group; empty where there are no groups.
    budget : Budget
        Time for laws.
    """

    calibration: Calibration
    label: str
    budget: Budget

    @property
    def plan(self) -> Plan:
        """Plan that was answered."""
        return self.calibration.plan

    @cached_property
    def criterion(self) -> Criterion:
        """Criterion of the plan."""
        return self.plan.criterion_object()

    @cached_property
    def promise(self) -> Promise:
        """Promise of the plan."""
        return self.plan.promise_object()

    @property
    def is_bound(self) -> bool:
        """True if the laws bound the coverage from below, rather than being its laws."""
        return self.calibration.designs[0].is_bound

    @cached_property
    def n_points(self) -> int:
        """Calibration cases of all sites that answered."""
        return sum(number * n for (n, _), number in self.calibration.part.kinds.items())

    @cached_property
    def numbers(self) -> tuple[int, int]:
        """Fewest and most numbers that a site sent, for all levels together."""
        drawn = self.plan.part.cases is not None  # the same cases for all levels
        counts = [sum(map(len, ranks[:1] if drawn else ranks)) for _, ranks in self.calibration.part.kinds]
        return min(counts, default=0), max(counts, default=0)

    @cached_property
    def has_votes(self) -> bool:
        """True if votes are counted, rather than sites: larger sites have more, or a site sends several."""
        part = self.calibration.part
        blocks = [block for i in range(len(self.calibration.levels)) for block in part.blocks(i)]
        return any(block.weights not in ((), (1,)) for block in blocks)

    @cached_property
    def levels(self) -> list["LevelClaim"]:
        """Claims at each confidence level."""
        return [LevelClaim(self, i) for i in range(len(self.calibration.levels))]

    @property
    def finite_levels(self) -> str:
        """Levels that have a finite threshold: "80 % and 90 %"; empty if there is none."""
        return listed([percent(each.level) for each in self.levels if each.is_finite])

    @cached_property
    def group(self) -> str:
        """Description of the group, to be read after "the": "class “sick” at the site “north”"."""
        if not self.label:
            return ""
        grouping = self.calibration.published.plan.grouping
        site, label = grouping.parts_of(self.label)
        where = "" if site is None else f"site “{site}”"
        if label is None:
            return where
        group = f"{'class' if grouping.by_class else 'group'} “{label}”"
        return f"{group} at the {where}" if where else group

    @property
    def missing_names(self) -> str:
        """Names of the sites that did not answer, as far as they are known."""
        names = list(self.calibration.missing[:MOST_NAMES])
        more = len(self.calibration.missing) - len(names)
        return f"{listed(names)}{f' and {more:,} more' if more else ''}"

    @property
    def n_not_asked(self) -> int:
        """Number of sites that the plan did not ask, because they could never change the threshold."""
        return sum(block.count for block in self.plan.blocks or () if not any(block.ranks))

    @property
    def names_not_asked(self) -> list[str]:
        """Names of the sites that were not asked."""
        idle = (block for block in self.plan.blocks or () if not any(block.ranks))
        return [name for block in idle for name in block.names or ()][:MOST_NAMES]

    def answer_rows(self, *, votes: bool) -> Iterator[list[str]]:
        """Yield site, cases and ranks of each answer, with its votes where these are counted."""
        drew_cases = self.plan.part.cases is not None
        for answer in self.calibration.answers:
            ranks = f"{len(answer.ranks[0])}" if drew_cases else ranks_text(answer.ranks)
            yield [answer.site, f"{answer.n:,}", ranks, *([self._votes(answer)] if votes else [])]

    def _votes(self, answer: Answer) -> str:
        """Votes of a site at each level: "3 × 2 = 6; 1"."""
        return "; ".join(map(_votes_text, self.plan.part.votes_for(answer.n, site=answer.site)))


def ranks_text(ranks: Sequence[Sequence[int]]) -> str:
    """Return the ranks of each level, levels apart from each other where there are several numbers."""
    apart = "; " if any(len(of_level) > 1 for of_level in ranks) else ", "
    return apart.join(", ".join(f"{rank:,}" for rank in of_level) or "none" for of_level in ranks)


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
    def found(self) -> Threshold:
        """Threshold of the level."""
        return self.claim.calibration.levels[self.index]

    @property
    def level(self) -> float:
        """Coverage that was asked for."""
        return self.found.confidence_level

    @property
    def is_finite(self) -> bool:
        """True if the threshold is finite, so that sets say something."""
        return self.found.threshold < math.inf

    @property
    def is_answered(self) -> bool:
        """True if enough sites answered for any threshold, be it infinite."""
        return self.found.server_rank is not None

    @property
    def promised(self) -> str:
        """The promise as a sentence."""
        claim = self.claim
        group = f" of the {claim.group}" if claim.group else ""
        return claim.promise.sentence(claim.criterion, self.level, claim.plan.delta, group)

    @cached_property
    def law(self) -> Summary | None:
        """Law of the coverage, or a bound of it; None where there is none, or it takes too long."""
        if not self.is_answered or not self.claim.promise.has_law:
            return None
        if not self.claim.budget.allows(self._n_numbers):
            return None
        law = Summary(self.claim.calibration.designs[self.index].law(), self.level)
        try:
            return law if law.is_certain or law.low <= 1 else None
        except ValueError:  # more votes than can be counted
            return None

    @property
    def _n_numbers(self) -> int:
        """Number of different numbers that the law is of, times what makes each of them take longer."""
        blocks, plan = self.claim.calibration.part.blocks(self.index), self.claim.plan
        if plan.privacy is not None:
            return sum(block.n for block in blocks) // _POINTS
        if len(blocks) == 1 and len(blocks[0].ranks) == 1:
            return 1
        numbers = sum(len(block.ranks) ** 2 * (1 + block.n // _LARGE) for block in blocks)
        return numbers * (1 + plan.max_faulty) ** 2 * (_BOUNDED if self.claim.is_bound else 1)

    @cached_property
    def expected_mean(self) -> float | None:
        """Expected coverage of private sets for evenly spread scores, where there is time to compute it."""
        design = self.claim.calibration.designs[self.index]
        small = design.n_sites <= _MOST_EXPECTED and design.n_points <= _MOST_EXPECTED * _POINTS
        if not self.is_finite or self.law is None or not small or self.claim.plan.privacy is None:
            return None
        return design.expected_law().mean() if self.claim.budget.allows(self._n_numbers) else None

    @property
    def bin_width(self) -> float | None:
        """Width of the bin that the threshold ends; None where there are none, or it has no beginning."""
        edges = () if self.claim.plan.privacy is None else self.claim.plan.privacy.edges
        place = bisect_left(edges, self.found.threshold)
        width = edges[place] - edges[place - 1] if 0 < place < len(edges) else math.inf
        return width if width < math.inf else None

    @property
    def needed_every_site(self) -> bool:
        """True if one site less could have made the threshold infinite, where there is time to tell."""
        design = self.claim.calibration.designs[self.index]
        if not self.is_finite or self.law is None or not self.claim.budget.allows(self._n_numbers):
            return False
        return design.n_sites > 1 and not design.survives()

    @cached_property
    def pooled(self) -> Summary | None:
        """Law that all cases in one place would give, where that would satisfy the same promise."""
        if not self.claim.promise.pools or self.claim.n_points == 0:
            return None
        return Summary(baselines.coverage_law(self.claim.n_points, self.level), self.level)

    @property
    def equivalent_pool(self) -> int | None:
        """Number of pooled cases that would vary as much, where pooling can be compared with."""
        if self.law is None or self.pooled is None or not self.is_finite:
            return None
        return equivalent_pool(self.law)

    @property
    def has_picture(self) -> bool:
        """True if there is a law to draw that is not certain."""
        return self.law is not None and not self.law.is_certain

    def picture(self, name: str, width: int) -> str | None:
        """Return the law as SVG."""
        assert self.law is not None
        bound = self.claim.is_bound
        return law_picture(self.law, pooled=self.pooled, is_bound=bound, width=width, name=name)

    @property
    def remedies(self) -> list[str]:
        """Remedies that the advice of an infinite threshold names: "3 cases at every site"."""
        advice = self.found.advice
        if advice is None:
            return []
        return [
            *([f"{count(advice.n_points, 'case')} at every site"] if advice.n_points else []),
            *([f"{count(advice.n_sites, 'site')} of the smallest size"] if advice.n_sites else []),
            *([f"a privacy loss ε of {advice.epsilon:g}"] if advice.epsilon else []),
        ]

    @property
    def where(self) -> str:
        """Group and level, as far as there are several, as the beginning of a sentence: "At 90 %: "."""
        level = f"at {percent(self.level)}" if len(self.claim.levels) > 1 else ""
        place = ", ".join(part for part in (self.claim.group, level) if part)
        return f"{place[:1].upper()}{place[1:]}: " if place else ""

    @property
    def law_row(self) -> list[str]:
        """Place, votes needed and figures of the law, or of the guarantee where there is none."""
        level, claim = percent(self.level), self.claim
        place = [claim.label, level] if claim.label else [level, threshold_text(self.found.threshold)]
        if not self.is_answered:
            return [*place, "too few answers", *["–"] * 4]
        needed, there = self.found.server_rank or 0, claim.calibration.part.n_votes(self.index)
        votes = "none" if needed > there else f"{needed:,} of {there:,}"
        return [*place, votes, *(self._law_figures() if claim.promise.has_law else self._guaranteed())]

    def _law_figures(self) -> list[str]:
        law = self.law
        if law is None:
            return ["–"] * 4
        mean, std = floor_percent(law.mean, digits=2), nearest_percent(law.std, digits=2)
        return [mean, std, floor_percent(law.low, digits=2), floor_percent(law.reached)]

    def _guaranteed(self) -> list[str]:
        guarantee = self.claim.calibration.designs[self.index].guarantee()
        mean, sites = guarantee.mean, guarantee.probability
        return [
            "–" if mean is None else f"{floor_percent(mean, digits=2)} or more",
            "–",
            "–",
            "–" if sites is None else f"at {floor_percent(sites)} of new sites or more",
        ]
