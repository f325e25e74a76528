"""What a certificate is about: what is claimed for all cases, or for each group of them."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fedconformal import baselines
from fedconformal._text import listed, percent
from fedconformal.audit import Finding
from fedconformal.documents import Calibration, Facts, Plan, Threshold
from fedconformal.heterogeneity import Assessment
from fedconformal.laws import Summary
from fedconformal.planning import Criterion, Promise
from fedconformal.web.certificates._budget import Budget
from fedconformal.web.certificates._groups import group_words

_POINTS = 50  # of a private site take as long as one number
_LARGE = 10**8  # points from which on the numbers of uneven sites take longer
_MOST_EXPECTED = 10_000  # private sites whose coverage is simulated
_BOUNDED = 5  # as long takes a law that is the worst of many


@dataclass(frozen=True, eq=False)
class Claim:
    """What is claimed for all cases, or for one group of them.

    Parameters
    ----------
    calibration : Calibration
        Without groups.
    label : str or None
        The group; None where there are no groups.
    budget : Budget
        Which laws there is time for.
    """

    calibration: Calibration
    label: str | None = None
    budget: Budget = field(default_factory=Budget)

    @property
    def plan(self) -> Plan:
        """The plan that was answered."""
        return self.calibration.plan

    @cached_property
    def criterion(self) -> Criterion:
        """In which sense the level is reached."""
        return self.plan.criterion_object()

    @cached_property
    def promise(self) -> Promise:
        """Whose new cases are covered."""
        return self.plan.promise_object()

    @property
    def is_bound(self) -> bool:
        """Whether the laws bound the coverage from below, rather than being its laws."""
        return self.calibration.designs[0].is_bound

    @cached_property
    def n_points(self) -> int:
        """Calibration cases of all sites that answered."""
        return sum(count * n for (n, _), count in self.calibration.part.kinds.items())

    @cached_property
    def numbers(self) -> tuple[int, int]:
        """The fewest and the most numbers that a site sent, for all levels together."""
        drawn = self.plan.part.cases is not None  # the same cases for all levels
        counts = [sum(map(len, ranks[:1] if drawn else ranks)) for _, ranks in self.calibration.part.kinds]
        return min(counts, default=0), max(counts, default=0)

    @cached_property
    def has_votes(self) -> bool:
        """Whether votes are counted, rather than sites: larger sites have more, or a site sends several."""
        part = self.calibration.part
        blocks = [block for i in range(len(self.calibration.levels)) for block in part.blocks(i)]
        return any(block.weights not in ((), (1,)) for block in blocks)

    @cached_property
    def levels(self) -> tuple["LevelClaim", ...]:
        """What is claimed at each confidence level."""
        return tuple(LevelClaim(self, i) for i in range(len(self.calibration.levels)))

    @property
    def finite_levels(self) -> str:
        """The levels that have a finite threshold, in words; empty if there is none."""
        return listed([percent(each.level) for each in self.levels if each.is_finite])

    @property
    def where(self) -> str:
        """The group, as the beginning of a sentence about it; empty where there are no groups."""
        return f"{self.group[:1].upper()}{self.group[1:]}"

    @property
    def group(self) -> str:
        """The group in words, to be read after "the"; empty where there are no groups."""
        return "" if self.label is None else group_words(self.calibration.published.plan, self.label)


@dataclass(frozen=True, eq=False)
class LevelClaim:
    """What is claimed at one confidence level.

    Parameters
    ----------
    claim : Claim
        What it is a part of.
    index : int
        Which level of the plan it is.
    """

    claim: Claim
    index: int

    @property
    def found(self) -> Threshold:
        """What was found for the level."""
        return self.claim.calibration.levels[self.index]

    @property
    def level(self) -> float:
        """The coverage that was asked for."""
        return self.found.confidence_level

    @property
    def is_finite(self) -> bool:
        """Whether the threshold is finite, so that sets say something."""
        return self.found.threshold < math.inf

    @property
    def is_answered(self) -> bool:
        """Whether enough sites answered for any threshold, be it infinite."""
        return self.found.server_rank is not None

    @cached_property
    def law(self) -> Summary | None:
        """The law of the coverage, or a bound of it; None where there is none, or it takes too long."""
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
        """How many different numbers the law is of, times what makes each of them take longer."""
        blocks, plan = self.claim.calibration.part.blocks(self.index), self.claim.plan
        if plan.privacy is not None:
            return sum(block.n for block in blocks) // _POINTS
        if len(blocks) == 1 and len(blocks[0].ranks) == 1:
            return 1
        numbers = sum(len(block.ranks) ** 2 * (1 + block.n // _LARGE) for block in blocks)
        return numbers * (1 + plan.max_faulty) ** 2 * (_BOUNDED if self.claim.is_bound else 1)

    @cached_property
    def expected_mean(self) -> float | None:
        """What private sets are expected to cover of evenly spread scores, where there is time to tell."""
        design = self.claim.calibration.designs[self.index]
        small = design.n_sites <= _MOST_EXPECTED and design.n_points <= _MOST_EXPECTED * _POINTS
        if not self.is_finite or self.law is None or not small or self.claim.plan.privacy is None:
            return None
        return design.expected_law().mean() if self.claim.budget.allows(self._n_numbers) else None

    @property
    def bin_width(self) -> float | None:
        """How wide the bin is that the threshold ends; None where there are none, or it has no beginning."""
        edges = () if self.claim.plan.privacy is None else self.claim.plan.privacy.edges
        place = bisect_left(edges, self.found.threshold)
        width = edges[place] - edges[place - 1] if 0 < place < len(edges) else math.inf
        return width if width < math.inf else None

    @property
    def is_silence_fatal(self) -> bool:
        """Whether one site less could have made the threshold infinite, where there is time to tell."""
        design = self.claim.calibration.designs[self.index]
        if not self.is_finite or self.law is None or not self.claim.budget.allows(self._n_numbers):
            return False
        return design.n_sites > 1 and not design.survives()

    @cached_property
    def pooled(self) -> Summary | None:
        """The law that all cases in one place would give, where that would keep the same promise."""
        if not self.claim.promise.pools or self.claim.n_points == 0:
            return None
        return Summary(baselines.coverage_law(self.claim.n_points, self.level), self.level)

    @property
    def votes(self) -> str:
        """The votes that the threshold needed, of all that were there; none where that was not enough."""
        needed, there = self.found.server_rank or 0, self.claim.calibration.part.n_votes(self.index)
        return "none" if needed > there else f"{needed:,} of {there:,}"

    @property
    def where(self) -> str:
        """Group and level, as far as there are several, as the beginning of a sentence: "At 90 %: "."""
        several = len(self.claim.levels) > 1
        level = f"at {percent(self.level)}" if several else ""
        place = ", ".join(part for part in (self.claim.where, level) if part)
        return f"{place[:1].upper()}{place[1:]}: " if place else ""


@dataclass(frozen=True, eq=False)
class Certified:
    """A calibration, what it claims, and what an auditor found.

    Parameters
    ----------
    calibration : Calibration
        With groups or without.
    findings : sequence of Finding
        What `audit.verify` said.
    budget : Budget
        Which laws there is time for.
    facts : Facts
        What was told about it, in the plan or afterwards.
    assessment : Assessment or None
        What sites found on later cases.
    """

    calibration: Calibration
    findings: Sequence[Finding]
    budget: Budget = field(default_factory=Budget)
    facts: Facts = field(default_factory=Facts)
    assessment: Assessment | None = None

    @property
    def plan(self) -> Plan:
        """The plan that was answered."""
        return self.calibration.plan

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """One claim, or one for each group."""
        if not self.plan.is_grouped:
            return (Claim(self.calibration, None, self.budget),)
        return tuple(Claim(found, label, self.budget) for label, found in self.calibration.by_label.items())

    @property
    def levels(self) -> Iterator[LevelClaim]:
        """What is claimed at each level, group by group."""
        return (level for claim in self.claims for level in claim.levels)

    @property
    def n_points(self) -> int:
        """Calibration cases of all sites that answered."""
        return sum(claim.n_points for claim in self.claims)

    @property
    def is_bound(self) -> bool:
        """Whether some law bounds the coverage from below, rather than being its law."""
        return any(claim.is_bound for claim in self.claims)

    @property
    def not_counted(self) -> int:
        """How many claims the auditor could not count again."""
        return sum(finding.holds is None for finding in self.findings)
