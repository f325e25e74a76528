"""Documents that leave a site: the Report, which answers a plan, and the Check of new
cases.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from fedconformal._text import count
from fedconformal.documents import _fields as limits
from fedconformal.documents._base import Part, SizeLimit
from fedconformal.documents._fields import (
    Digest,
    Label,
    Many,
    Period,
    Ratio,
    SiteName,
    Size,
    check_epsilon,
    check_labels,
)
from fedconformal.documents._messages import AnyPayload, MaskedNumbers, MaskedPayload
from fedconformal.documents._score_rule import ScoreRule
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

    group: Label | None = Field(
        default=None, description="the group; left out where there are none"
    )
    n: Size = Field(description="number of scores of the site here")
    payload: AnyPayload


@lru_cache(maxsize=16)
def _share(text: str) -> ScoreRule:
    """Return one score for all reports that name it, of which there may be 100,000."""
    return ScoreRule.model_validate_json(text)


SharedScore = Annotated[
    ScoreRule, AfterValidator(lambda score: _share(score.model_dump_json()))
]
LedgerSeal = Annotated[
    str, Field(pattern=r"^[1-9][0-9]{0,17}:[0-9a-f]{64}$", max_length=83)
]


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
    limit: ClassVar[SizeLimit] = SizeLimit(
        64 * 2**10, 200_000, ("group", "counts", "values"), 4 * 2**20
    )

    format: Literal["fedconformal/report"] = "fedconformal/report"
    version: Literal[1] = 1
    plan: Annotated[Digest, AfterValidator(sys.intern)] = Field(
        description="digest of the plan that this answers"
    )
    site: SiteName
    parts: Many[ReportPart] = Field(
        min_length=1, max_length=limits.MOST_GROUPS, description="one per group"
    )
    score: SharedScore | None = Field(
        default=None,
        description="of these numbers, where the site knows it: that of the plan",
    )
    ledger_seal: LedgerSeal | None = Field(
        default=None, description="number and seal of the entry in the site's ledger"
    )

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it."""
        check_labels([part.group for part in self.parts])
        for part in self.parts:
            part.payload.check(part.n)

    @property
    def signed_text(self) -> str:
        """Text of which a signature is made: digests of the plan and of the report."""
        return signed_text(self.plan, self.digest)

    @property
    def by_group(self) -> Mapping[str | None, ReportPart]:
        """The parts by group, under None where there are no groups."""
        if (
            len(self.parts) == 1
        ):  # as of 100,000 reports, which are not to take more memory than they must
            return {self.parts[0].group: self.parts[0]}
        return self._by_group

    @cached_property
    def _by_group(self) -> Mapping[str | None, ReportPart]:
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
        groups = (
            "" if None in self.by_group else f", from {count(len(self.parts), 'group')}"
        )
        return (
            f"{count(numbers, 'number')} for {count(self.n, 'score')}{groups}, site"
            f" {self.site!r}"
        )


Checked = Annotated[int, Field(ge=1, le=limits.LARGEST_N)]
Covered = Annotated[Many[int], Field(min_length=1, max_length=limits.MOST_LEVELS)]


class CheckedGroup(Part):
    """The new cases that have the same values in some columns: how many, and how many
    are covered.
    """

    values: Many[Label] = Field(
        min_length=1, max_length=limits.MOST_COLUMNS, description="by column"
    )
    n: Checked = Field(description="how many new cases have these values")
    covered: Covered = Field(
        description="covered cases for each level; with noise if epsilon is not null"
    )


def group_name(by: Sequence[str], values: Sequence[str]) -> str:
    """Name the cases with these values in these columns: "truth=sick, sex=woman".

    Parameters
    ----------
    by, values : sequence of str
        The columns, and the value in each.

    Returns
    -------
    str

    Examples
    --------
    >>> from fedconformal.documents import group_name
    >>> group_name(["truth", "sex"], ["sick", "woman"])
    'truth=sick, sex=woman'
    """
    return ", ".join(
        f"{column}={value}" for column, value in zip(by, values, strict=True)
    )


class Check(SignedDocument):
    """One site's answer to a calibration: of n new cases, how many are covered at each
    level.

    With ``by`` it says the same of the cases with each combination of values in some
    columns. Combinations with too few cases are left out altogether, so n is the cases
    of the groups that are there. A masked check has neither n nor covered: both can be
    read from the sum over all sites alone.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> scores = np.random.default_rng(0).random((2, 200))
    >>> calibration = fc.conformalize({"A": scores[0]})
    >>> fc.monitoring.answer(calibration, scores[1], site="A")
    <Check: 188 of 200 new cases covered, site 'A'>
    """

    kind: ClassVar[str] = "check"
    limit: ClassVar[SizeLimit] = SizeLimit(64 * 2**10, 20_000, ("groups",), 2**20)

    format: Literal["fedconformal/check"] = "fedconformal/check"
    version: Literal[1] = 1
    calibration: Digest = Field(
        description="digest of the calibration that was checked"
    )
    group: Label | None = Field(
        default=None, description="the group that was checked, where there are some"
    )
    site: SiteName
    period: Period | None = Field(
        default=None,
        description=(
            "when the cases arose: a month, or first and last day; of a row of checks"
        ),
    )
    n: Checked | None = Field(
        description="how many new cases the site has; null if masked"
    )
    epsilon: Ratio | None = Field(
        description="privacy loss of all finite levels together; null if exact"
    )
    covered: Covered | None = Field(
        description=(
            "covered cases for each level; with noise if epsilon is not null; null if"
            " masked"
        )
    )
    masked: MaskedNumbers | None = Field(
        default=None,
        description=(
            "n and covered, masked so that only sums over all sites can be read"
        ),
    )
    by: (
        Annotated[Many[Label], Field(min_length=1, max_length=limits.MOST_COLUMNS)]
        | None
    ) = Field(default=None, description="columns whose values make the groups")
    groups: (
        Annotated[
            Many[CheckedGroup], Field(min_length=1, max_length=limits.MOST_CHECKED)
        ]
        | None
    ) = Field(
        default=None,
        description="the cases by their values in these columns, in alphabetical order",
    )

    @property
    def counts(self) -> tuple[int, tuple[int, ...]]:
        """Number of new cases, and of covered ones for each level; an error if they are
        masked.
        """
        if self.n is None or self.covered is None:
            raise ValueError(
                f"{self.site}: this check is masked, and only the sum over all sites"
                " can be read"
            )
        return self.n, self.covered

    def _line(self) -> str:
        when = "" if self.period is None else f", {self.period}"
        if self.masked is not None:
            return f"masked counts, site {self.site!r}{when}"
        n, counts = self.counts
        covered = " and ".join(f"{each:,}" for each in counts)
        noise = (
            ""
            if self.epsilon is None
            else f", with noise of epsilon {float(self.epsilon):g}"
        )
        return f"{covered} of {n:,} new cases covered{noise}, site {self.site!r}{when}"

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it."""
        if self.masked is not None:
            given = [self.n, self.covered, self.epsilon, self.by, self.groups]
            if any(each is not None for each in given):
                raise ValueError("a masked check has no other numbers, and no groups")
            MaskedPayload(values=self.masked).check(0)
            return
        for n, counts in (
            self.counts,
            *((group.n, group.covered) for group in self.groups or ()),
        ):
            if any(not 0 <= covered <= n for covered in counts):
                raise ValueError(
                    f"a number of covered cases must lie between 0 and n = {n}"
                )
        check_epsilon(self.epsilon)
        if (self.by is None) != (self.groups is None):
            raise ValueError("groups must be given with the columns that make them, by")
        if self.by is not None and self.groups is not None:
            self._check_groups(self.by, self.groups)

    def _check_groups(self, by: Sequence[str], groups: Sequence[CheckedGroup]) -> None:
        values = [group.values for group in groups]
        if len(set(by)) < len(by) or any(len(each) != len(by) for each in values):
            raise ValueError(
                "groups have one value for each column of by, which are different"
            )
        if values != sorted(set(values)):
            raise ValueError("groups must be different, in alphabetical order")
        n, covered = self.counts
        if any(len(group.covered) != len(covered) for group in groups):
            raise ValueError("every group must have a count for each level")
        if sum(group.n for group in groups) != n:
            raise ValueError("n must be the cases of all groups")
        sums = tuple(map(sum, zip(*(group.covered for group in groups), strict=True)))
        if covered != sums:
            raise ValueError("covered must be the sum over the groups")
