"""The Calibration: the threshold, and everything needed to believe in it."""

import math
from collections import Counter
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedconformal.documents._base import Digest, Document, Extended, Part, SiteName
from fedconformal.documents._plan import Advice, Plan, Probability
from fedconformal.documents._views import coverage_laws, one_or_all
from fedconformal.laws import CoverageLaw


class Answer(Part):
    """A site whose report counted."""

    site: SiteName
    n: int = Field(ge=1)
    ranks: tuple[int, ...]
    report: Digest = Field(description="digest of the report")


class Aggregate(Part):
    """Sites that answered through secure aggregation: how many, not which."""

    count: int = Field(ge=1)
    n: int = Field(ge=1)
    ranks: tuple[int, ...]


class Refusal(Part):
    """A report that did not count."""

    source: str = Field(description="site or file that it came from")
    reason: str


class Threshold(Part):
    """What was found for one confidence level."""

    confidence_level: Probability
    server_rank: int = Field(ge=1, description="rank kept; one more than there are answers for +inf")
    threshold: Extended
    advice: Advice | None


class Calibration(Document):
    """The server's result: prediction sets are {y : score(x, y) <= threshold}."""

    kind: ClassVar[str] = "calibration"

    format: Literal["fedconformal/calibration"] = "fedconformal/calibration"
    version: Literal[1] = 1
    plan: Plan
    levels: tuple[Threshold, ...]
    answers: tuple[Answer, ...] = Field(description="sites that answered by name; empty if aggregated")
    aggregated: tuple[Aggregate, ...] | None = None
    missing: tuple[SiteName, ...] = Field(description="sites of the plan that did not answer, by name")
    n_missing: int = Field(ge=0, description="how many sites did not answer, named or not")
    refused: tuple[Refusal, ...]
    authenticated: bool = Field(description="whether every report was signed with its site's key")
    assumptions: tuple[str, ...] = Field(description="what the guarantee rests on")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if [found.confidence_level for found in self.levels] != [
            level.confidence_level for level in self.plan.levels
        ]:
            raise ValueError("the levels must be those of the plan")
        if any(len(answer.ranks) != len(self.levels) for answer in self.answers):
            raise ValueError("every answer needs one rank for each level")
        if len({answer.site for answer in self.answers}) != len(self.answers):
            raise ValueError("a site answered twice")
        if bool(self.answers) == (self.aggregated is not None):
            raise ValueError("answers come by name or aggregated")
        self._check_aggregate()
        m = sum(self.groups.values())
        if any(not self.plan.max_faulty < found.server_rank <= m + 1 for found in self.levels):
            raise ValueError("server_rank must lie above max_faulty, up to the number of answers plus 1")
        if 2 * self.plan.max_faulty >= m:
            raise ValueError("max_faulty must be below half the number of answers")
        if any(found.server_rank > m and found.threshold != math.inf for found in self.levels):
            raise ValueError("a server_rank above the number of answers has the threshold Infinity")
        if any(not 1 <= rank <= n + 1 for n, ranks in self.groups for rank in ranks):
            raise ValueError("a rank must lie between 1 and n + 1")
        if self.authenticated and self.plan.keys is None:
            raise ValueError("without keys in the plan nothing was authenticated")
        if len(self.missing) > self.n_missing:
            raise ValueError("n_missing counts the missing sites, named or not")
        return self

    def _check_aggregate(self) -> None:
        """Aggregated answers go with private plans, and no more of them than the plan has."""
        if self.aggregated is None:
            if self.plan.privacy is not None and self.plan.privacy.one_hot:
                raise ValueError("the plan asks for aggregated answers")
            return
        planned: Counter[tuple[int, tuple[int, ...]]] = Counter()
        for group in self.plan.groups or ():
            planned[(group.n, group.ranks)] += group.count
        if self.plan.privacy is None or any(planned[kind] < count for kind, count in self.groups.items()):
            raise ValueError("aggregated answers must be those of a private plan's sites")

    @property
    def groups(self) -> dict[tuple[int, tuple[int, ...]], int]:
        """How many answers came from sites of each size with each ranks."""
        groups = Counter((answer.n, answer.ranks) for answer in self.answers)
        for part in self.aggregated or ():
            groups[(part.n, part.ranks)] += part.count
        return dict(groups)

    @property
    def n_answers(self) -> int:
        """How many sites answered."""
        return sum(self.groups.values())

    @property
    def threshold(self) -> Any:
        """The threshold, or a tuple of them, one per level in the plan's order."""
        return one_or_all([found.threshold for found in self.levels])

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The thresholds, one per level in the plan's order."""
        return tuple(found.threshold for found in self.levels)

    @property
    def server_rank(self) -> Any:
        """The rank that was kept, or a tuple of them."""
        return one_or_all([found.server_rank for found in self.levels])

    @cached_property
    def laws(self) -> tuple[CoverageLaw, ...]:
        """The law of the coverage for each level, for the sites that answered."""
        return coverage_laws(
            [(count, n, ranks) for (n, ranks), count in self.groups.items()],
            [found.server_rank for found in self.levels],
            self.plan,
        )

    @property
    def law(self) -> Any:
        """The law of the coverage for the sites that answered, or a tuple of them."""
        return one_or_all(list(self.laws))
