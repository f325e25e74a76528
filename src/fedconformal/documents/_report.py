"""The Report: everything that leaves a site."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field

from fedconformal._text import count
from fedconformal.documents._base import Digest, Many, Part, SiteName
from fedconformal.documents._consistency import check_report
from fedconformal.documents._limits import LARGEST_N, MOST_GROUPS, REPORT, SizeLimit
from fedconformal.documents._messages import AnyPayload
from fedconformal.documents._names import Label
from fedconformal.documents._signing import SignedDocument


def signed_text(plan_digest: str, report_digest: str) -> str:
    """Return the text that a site signs.

    Parameters
    ----------
    plan_digest, report_digest : str
        Digests of the plan that is answered, and of the report.

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


class ReportPart(Part):
    """Answer of a site for all its cases, or for one group of them."""

    group: Label | None = Field(default=None, description="the group; left out where there are none")
    n: int = Field(ge=1, le=LARGEST_N, description="number of scores of the site here")
    payload: AnyPayload


class Report(SignedDocument):
    """One site's answer to a plan: a payload for each group of cases.

    Examples
    --------
    >>> import fedconformal as fc
    >>> report = fc.report(fc.plan(n_sites=10, n_points=79), range(79), site="A")
    >>> report
    <Report: 1 number for 79 scores, site 'A'>
    >>> report.payload.levels[0].values
    (70.0,)
    """

    kind: ClassVar[str] = "report"
    limit: ClassVar[SizeLimit] = REPORT

    format: Literal["fedconformal/report"] = "fedconformal/report"
    version: Literal[1] = 1
    plan: Digest = Field(description="digest of the plan that this answers")
    site: SiteName
    parts: Many[ReportPart] = Field(
        min_length=1, max_length=MOST_GROUPS, description="one, or one for each group"
    )

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it."""
        check_report(self)

    @property
    def signed_text(self) -> str:
        """Text of which a signature is made: digests of the plan and of the report."""
        return signed_text(self.plan, self.digest)

    @cached_property
    def by_group(self) -> Mapping[str | None, ReportPart]:
        """The parts by group, under None where there are no groups."""
        return {part.group: part for part in self.parts}

    @property
    def n(self) -> int:
        """Number of scores of the site, in all groups."""
        return sum(part.n for part in self.parts)

    @property
    def payload(self) -> Any:
        """Payload that was sent, where there are no groups."""
        if None in self.by_group:
            return self.parts[0].payload
        raise ValueError("this report has groups: see by_group")

    def _line(self) -> str:
        numbers = sum(part.payload.n_numbers for part in self.parts)
        groups = "" if None in self.by_group else f", from {count(len(self.parts), 'group')}"
        return f"{count(numbers, 'number')} for {count(self.n, 'score')}{groups}, site {self.site!r}"
