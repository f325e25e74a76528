"""One level of a calibration: who answered with which ranks, and what is promised."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from fedconformal.audit._effort import Effort
from fedconformal.audit._recount import Recount
from fedconformal.documents import Calibration, Plan


class Ballot(NamedTuple):
    """What a site sent at one level."""

    n: int
    ranks: tuple[int, ...]
    votes: tuple[int, ...]

    @property
    def is_single(self) -> bool:
        """Whether it is one number with one vote."""
        return self.votes == (1,)

    @property
    def finite_votes(self) -> int:
        """The votes of its finite numbers: a rank above the size stands for infinity."""
        return sum(vote for rank, vote in zip(self.ranks, self.votes, strict=True) if rank <= self.n)


@dataclass(frozen=True)
class Claim:
    """What is claimed at one level.

    Parameters
    ----------
    calibration : Calibration
        Without groups.
    level : int
        Place of the confidence level.
    effort : Effort
        Where the cost of all recounts is added up.
    """

    calibration: Calibration
    level: int
    effort: Effort

    @property
    def name(self) -> str:
        """How lines about it begin."""
        return f"level {self.confidence_level!r}"

    @property
    def plan(self) -> Plan:
        """The plan that was answered."""
        return self.calibration.plan

    @property
    def confidence_level(self) -> float:
        """The level as the plan has it."""
        return self.plan.confidence_levels[self.level]

    @property
    def goal(self) -> Fraction:
        """The level, exactly as it is written."""
        return Fraction(str(self.confidence_level))

    @property
    def delta(self) -> Fraction:
        """How often the promise may fail, exactly as it is written."""
        return Fraction(str(self.plan.delta or 0))

    @property
    def votes(self) -> int:
        """The votes that were needed."""
        return self.calibration.levels[self.level].server_rank or 0

    @cached_property
    def ballots(self) -> Counter[Ballot]:
        """How many of the sites that answered sent what; those that were not asked here do not occur."""
        part, level = self.calibration.part, self.level
        asked = [answer for answer in part.answers if answer.ranks[level]]
        found = Counter(Ballot(answer.n, answer.ranks[level], answer.votes[level]) for answer in asked)
        for together in part.aggregated or ():
            ranks = together.ranks[level]
            found[Ballot(together.n, ranks, (1,) * len(ranks))] += together.count
        return found

    @property
    def total(self) -> int:
        """All votes, those of infinite numbers included."""
        return sum(count * sum(ballot.votes) for ballot, count in self.ballots.items())

    @property
    def available(self) -> int:
        """The votes of numbers that can be a threshold; what a private site sends is never infinite."""
        if self.plan.privacy is not None:
            return self.total
        return sum(count * ballot.finite_votes for ballot, count in self.ballots.items())

    @property
    def wrong(self) -> int:
        """The most votes that the faulty sites can have together."""
        found, left = 0, self.plan.max_faulty
        for ballot in sorted(self.ballots, key=lambda ballot: -sum(ballot.votes)):
            out = min(left, self.ballots[ballot])
            found, left = found + out * sum(ballot.votes), left - out
        return found

    def recount(self, votes: int | None = None) -> Recount:
        """The law if so many votes were needed; by default, as many as are claimed."""
        return Recount(
            [ballot.n for ballot in self.ballots],
            [ballot.ranks for ballot in self.ballots],
            self.votes if votes is None else votes,
            self.plan.max_faulty,
            weights=[ballot.votes for ballot in self.ballots],
            counts=list(self.ballots.values()),
            effort=self.effort,
        )
