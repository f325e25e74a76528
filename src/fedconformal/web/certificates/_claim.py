"""What a certificate is about: what is claimed for all cases, or for each group of them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from fedconformal import baselines
from fedconformal._text import listed, percent
from fedconformal.audit import Finding
from fedconformal.documents import Calibration, Plan, Threshold
from fedconformal.laws import Summary
from fedconformal.planning import Criterion, Promise


@dataclass(frozen=True, eq=False)
class Claim:
    """What is claimed for all cases, or for one group of them.

    Parameters
    ----------
    calibration : Calibration
        Without groups.
    label : str or None
        The group; None where there are no groups.
    """

    calibration: Calibration
    label: str | None = None

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
        return "" if self.label is None else f"Group “{self.label}”"


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

    @cached_property
    def law(self) -> Summary | None:
        """The law of the coverage, or a bound of it; None where there is none, or too few answered."""
        if self.found.server_rank is None or not self.claim.promise.has_law:
            return None
        return Summary(self.claim.calibration.laws[self.index], self.level)

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
    """

    calibration: Calibration
    findings: Sequence[Finding]

    @property
    def plan(self) -> Plan:
        """The plan that was answered."""
        return self.calibration.plan

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """One claim, or one for each group."""
        if not self.plan.is_grouped:
            return (Claim(self.calibration),)
        return tuple(Claim(found, label) for label, found in self.calibration.by_label.items())

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
        """How many claims the auditor does not know how to count again."""
        return sum(finding.holds is None for finding in self.findings)
