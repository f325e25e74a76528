"""The parts of a calibration: who answered, what did not count, and the threshold of each level."""

import math
from collections import Counter
from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from fedconformal.documents._base import Digest, Extended, Part, Sentence, SiteName
from fedconformal.documents._ceilings import LARGEST_N, MOST_LEVELS, MOST_SITES
from fedconformal.documents._names import Label
from fedconformal.documents._plan import Plan
from fedconformal.documents._plan_parts import Advice, Probability
from fedconformal.documents._signing import Signature
from fedconformal.documents._views import Many, Ranks, Weights, canonical_weights, votes_of
from fedconformal.planning import Block, merged


class Answer(Part):
    """A site whose numbers counted."""

    site: SiteName
    n: int = Field(ge=1, le=LARGEST_N)
    ranks: Many[Ranks] = Field(max_length=MOST_LEVELS, description="ranks that it sent, for each level")
    weights: Weights = Field(default=None, description="votes of its numbers, as in the plan")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.__dict__["weights"] = canonical_weights(self.ranks, self.weights)
        return self

    @cached_property
    def votes(self) -> tuple[tuple[int, ...], ...]:
        """The votes of each number, for each level."""
        return votes_of(self.ranks, self.weights)


class Aggregate(Part):
    """Sites that answered through secure aggregation: how many, not which."""

    count: int = Field(ge=1, le=MOST_SITES)
    n: int = Field(ge=1, le=LARGEST_N)
    ranks: Many[Ranks] = Field(max_length=MOST_LEVELS)


class Refusal(Part):
    """A report that did not count."""

    source: Sentence = Field(description="site or file that it came from")
    reason: Sentence


class Received(Part):
    """A report that counted, by its digest."""

    site: SiteName
    report: Digest
    signature: Signature | None = Field(
        default=None, description="the site's, of the digest; where the plan lists keys"
    )


class Threshold(Part):
    """What was found for one confidence level."""

    confidence_level: Probability
    server_rank: int | None = Field(
        default=None,
        ge=1,
        description="votes that were needed; more than there are for +inf; left out where too few sites "
        "answered for any threshold",
    )
    threshold: Extended
    advice: Advice | None = None


class CalibrationPart(Part):
    """What was found for all points together, or for one group of them."""

    label: Label | None = Field(default=None, description="the group; left out where there are none")
    levels: Many[Threshold] = Field(min_length=1, max_length=MOST_LEVELS)
    answers: Many[Answer] = Field(default=(), description="sites that answered; none if aggregated")
    aggregated: Many[Aggregate] | None = None
    missing: Many[SiteName] = Field(default=(), description="sites of the plan that did not answer, by name")
    n_missing: int = Field(
        default=0, ge=0, le=MOST_SITES, description="how many sites did not answer, named or not"
    )
    refused: Many[Refusal] = Field(
        default=(), description="numbers for this group that did not count although their report did"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len({answer.site for answer in self.answers}) != len(self.answers):
            raise ValueError("a site answered twice")
        if self.answers and self.aggregated is not None:
            raise ValueError("answers come by name or aggregated")
        if len(self.missing) > self.n_missing:
            raise ValueError("n_missing counts the missing sites, named or not")
        if any(len(ranks) != len(self.levels) for _, ranks in self.kinds):
            raise ValueError("every answer needs ranks for each level")
        if any(not 1 <= rank <= n + 1 for n, each in self.kinds for ranks in each for rank in ranks):
            raise ValueError("a rank must lie between 1 and n + 1")
        if any(found.server_rank is None and found.threshold != math.inf for found in self.levels):
            raise ValueError("without votes the threshold is Infinity")
        return self

    @cached_property
    def kinds(self) -> dict[tuple[int, tuple[Ranks, ...]], int]:
        """How many answers came from sites of each size with each ranks."""
        kinds = Counter((answer.n, answer.ranks) for answer in self.answers)
        for part in self.aggregated or ():
            kinds[(part.n, part.ranks)] += part.count
        return dict(kinds)

    def blocks(self, level: int) -> tuple[Block, ...]:
        """The sites that answered, by size, and the ranks they sent at a level with their votes."""
        answers = [Block(1, answer.n, answer.ranks[level], answer.votes[level]) for answer in self.answers]
        together = [Block(part.count, part.n, part.ranks[level]) for part in self.aggregated or ()]
        return merged([*answers, *together])

    def n_votes(self, level: int) -> int:
        """The votes of all numbers at a level."""
        of_sites = sum(
            len(answer.ranks[level]) if answer.weights is None else sum(answer.votes[level])
            for answer in self.answers
        )
        return of_sites + sum(part.count * len(part.ranks[level]) for part in self.aggregated or ())


def check_answered(plan: Plan, part: CalibrationPart) -> None:
    """Refuse what cannot have come of this plan: of the plan of the group, where there are groups."""
    if [found.confidence_level for found in part.levels] != list(plan.confidence_levels):
        raise ValueError("the levels must be those of the plan")
    m = sum(part.kinds.values())
    if (m < plan.fewest_answers) != any(found.server_rank is None for found in part.levels):
        raise ValueError("server_rank is left out if too few sites answered, and only then")
    if m == 0 and part.label is None:
        raise ValueError("at least one site must have answered")
    _check_aggregate(plan, part)
    for i, found in enumerate(part.levels):
        if found.server_rank is None:
            continue
        votes = part.n_votes(i)
        if not plan.max_faulty < found.server_rank <= votes + 1:
            raise ValueError("server_rank must lie above max_faulty, up to the number of votes plus 1")
        if (found.server_rank > votes) != (found.advice is not None):
            raise ValueError("advice goes with a server_rank that no votes reach, and only with it")
        if found.server_rank > votes and found.threshold != math.inf:
            raise ValueError("a server_rank above the number of votes has the threshold Infinity")


def _check_aggregate(plan: Plan, part: CalibrationPart) -> None:
    """Aggregated answers go with private plans, and no more of them than the plan has."""
    if part.aggregated is None:
        if plan.privacy is not None and plan.privacy.one_hot:
            raise ValueError("the plan asks for aggregated answers")
        return
    if plan.max_faulty:
        raise ValueError("aggregated answers do not go with max_faulty: one site could cast every vote")
    planned: Counter[tuple[int, tuple[Ranks, ...]]] = Counter()
    for block in plan.blocks or ():
        planned[(block.n, block.ranks)] += block.count
    if plan.privacy is None or any(planned[kind] < count for kind, count in part.kinds.items()):
        raise ValueError("aggregated answers must be those of a private plan's sites")
