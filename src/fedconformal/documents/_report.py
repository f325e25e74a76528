"""The Report: everything that leaves a site."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedconformal._text import count
from fedconformal.documents._base import Digest, Extended, Part, SiteName
from fedconformal.documents._ceilings import LARGEST_N, MOST_GROUPS, MOST_LEVELS, REPORT, Ceiling
from fedconformal.documents._names import Label, check_labels
from fedconformal.documents._signing import SignedDocument
from fedconformal.documents._views import Many, Ranks, one_or_all
from fedconformal.planning import MOST_NUMBERS


def signed_text(plan_digest: str, report_digest: str) -> str:
    """What a site signs, from digests alone.

    Parameters
    ----------
    plan_digest, report_digest : str
        Of the plan that is answered, and of the report.

    Returns
    -------
    str
        For `is_signature`.

    Examples
    --------
    >>> from fedconformal.documents import signed_text
    >>> signed_text("sha256:12", "sha256:34")
    'sha256:12 sha256:34'
    """
    return f"{plan_digest} {report_digest}"


class Sent(Part):
    """What a site sends for one confidence level."""

    ranks: Ranks = Field(
        description="ranks that were sent, in increasing order; none where none was asked for"
    )
    values: Many[Extended] = Field(max_length=MOST_NUMBERS, description="the scores of these ranks")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.values) != len(self.ranks):
            raise ValueError("ranks and values must have the same length")
        return self


class ReportPart(Part):
    """What a site sends for all its points, or for one group of them."""

    label: Label | None = Field(default=None, description="the group; left out where there are none")
    n: int = Field(ge=1, le=LARGEST_N, description="how many scores the site has here")
    levels: Many[Sent] = Field(
        min_length=1, max_length=MOST_LEVELS, description="one entry for each confidence level"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for sent in self.levels:
            for rank, value in zip(sent.ranks, sent.values, strict=True):
                if not 1 <= rank <= self.n + 1:
                    raise ValueError(f"a rank must lie between 1 and n + 1 = {self.n + 1}")
                if rank > self.n and value != math.inf:
                    raise ValueError("a rank above n has the value Infinity")
        return self

    @property
    def ranks(self) -> tuple[Ranks, ...]:
        """The ranks that were sent, for each level."""
        return tuple(sent.ranks for sent in self.levels)

    @property
    def values(self) -> tuple[tuple[float, ...], ...]:
        """The numbers that were sent, for each level."""
        return tuple(sent.values for sent in self.levels)

    @property
    def value(self) -> Any:
        """The number that was sent; a tuple where there are several for a level, or several levels."""
        return one_or_all([one_or_all(values) for values in self.values])


class Report(SignedDocument):
    """One site's answer to a plan: a few numbers for each confidence level, and for each group.

    Examples
    --------
    >>> import fedconformal as fc
    >>> report = fc.report(fc.plan(n_sites=10, n_points=79), range(79), site="A")
    >>> report
    <Report: 1 number for 79 scores, site 'A'>
    >>> report.value, report.ranks
    (70.0, ((71,),))
    """

    kind: ClassVar[str] = "report"
    ceiling: ClassVar[Ceiling] = REPORT

    format: Literal["fedconformal/report"] = "fedconformal/report"
    version: Literal[1] = 1
    plan: Digest = Field(description="digest of the plan that this answers")
    site: SiteName
    parts: Many[ReportPart] = Field(
        min_length=1, max_length=MOST_GROUPS, description="one, or one for each group by label"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_labels([part.label for part in self.parts])
        return self

    @property
    def signed_text(self) -> str:
        """What a signature is made of: which plan is answered, and by which report."""
        return signed_text(self.plan, self.digest)

    @cached_property
    def by_label(self) -> Mapping[str | None, ReportPart]:
        """The parts by label; the label is None where there are no groups."""
        return {part.label: part for part in self.parts}

    def __getitem__(self, label: str) -> ReportPart:
        """What was sent for one group."""
        return self.by_label[label]

    @property
    def n(self) -> int:
        """How many scores the site has in all."""
        return sum(part.n for part in self.parts)

    @property
    def value(self) -> Any:
        """The number that was sent, or a tuple of them; with groups, by label."""
        return self._each("value")

    @property
    def values(self) -> Any:
        """The numbers that were sent, for each level; with groups, by label."""
        return self._each("values")

    @property
    def ranks(self) -> Any:
        """The ranks that were sent, for each level; with groups, by label."""
        return self._each("ranks")

    def _line(self) -> str:
        numbers = sum(len(sent.values) for part in self.parts for sent in part.levels)
        groups = "" if None in self.by_label else f", from {count(len(self.parts), 'group')}"
        return f"{count(numbers, 'number')} for {count(self.n, 'score')}{groups}, site {self.site!r}"

    def _each(self, what: str) -> Any:
        if None in self.by_label:
            return getattr(self.parts[0], what)
        return {part.label: getattr(part, what) for part in self.parts}
