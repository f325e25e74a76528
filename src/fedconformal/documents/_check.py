"""The Check: how many new cases a site finds inside the published sets."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from fedconformal.documents._base import Digest, Document, Many, Part, Ratio, SiteName
from fedconformal.documents._limits import (
    CHECK,
    LARGEST_EPSILON,
    MOST_CHECKED,
    MOST_COLUMNS,
    MOST_LEVELS,
    SMALLEST_EPSILON,
    SizeLimit,
)
from fedconformal.documents._names import Label

LARGEST_CHECK = 10**7
"""No site checks more new cases than this."""


class CheckedGroup(Part):
    """The new cases that have the same values in some columns: how many, and how many are covered."""

    values: Many[Label] = Field(
        min_length=1, max_length=MOST_COLUMNS, description="one for each column of `by`"
    )
    n: int = Field(ge=1, le=LARGEST_CHECK, description="how many new cases have these values")
    covered: Many[int] = Field(
        min_length=1,
        max_length=MOST_LEVELS,
        description="covered cases for each level; with noise if epsilon is not null",
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
    return ", ".join(f"{column}={value}" for column, value in zip(by, values, strict=True))


class Check(Document):
    """One site's answer to a calibration: of n new cases, how many are covered at each level.

    With ``by`` it says the same of the cases with each combination of values in some columns. Combinations
    with too few cases are left out altogether, so n is the cases of the groups that are there.

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
    limit: ClassVar[SizeLimit] = CHECK

    format: Literal["fedconformal/check"] = "fedconformal/check"
    version: Literal[1] = 1
    calibration: Digest = Field(description="digest of the calibration that was checked")
    group: Label | None = Field(default=None, description="the group that was checked, where there are some")
    site: SiteName
    n: int = Field(ge=1, le=LARGEST_CHECK, description="how many new cases the site has")
    epsilon: Ratio | None = Field(
        description="privacy loss, shared evenly by the levels with a finite threshold; null if exact",
    )
    covered: Many[int] = Field(
        min_length=1,
        max_length=MOST_LEVELS,
        description="covered cases for each level; with noise if epsilon is not null",
    )
    by: Many[Label] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_COLUMNS,
        description="columns whose values make the groups",
    )
    groups: Many[CheckedGroup] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_CHECKED,
        description="the cases by their values in these columns, in alphabetical order",
    )

    def _line(self) -> str:
        covered = " and ".join(f"{each:,}" for each in self.covered)
        noise = "" if self.epsilon is None else f", with noise of epsilon {float(self.epsilon):g}"
        return f"{covered} of {self.n:,} new cases covered{noise}, site {self.site!r}"

    def check(self) -> None:
        """Refuse content that does not fit together, whoever wrote it."""
        _check_counts(self.covered, self.n)
        if self.epsilon is not None and not SMALLEST_EPSILON <= self.epsilon <= LARGEST_EPSILON:
            raise ValueError(f"epsilon must be between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g}")
        if (self.by is None) != (self.groups is None):
            raise ValueError("groups must be given with the columns that make them, by")
        if self.by is not None and self.groups is not None:
            self._check_groups(self.by, self.groups)

    def _check_groups(self, by: Sequence[str], groups: Sequence[CheckedGroup]) -> None:
        values = [group.values for group in groups]
        for group in groups:
            _check_counts(group.covered, group.n)
        if len(set(by)) < len(by) or any(len(each) != len(by) for each in values):
            raise ValueError("groups have one value for each column of by, which are different")
        if values != sorted(set(values)):
            raise ValueError("groups must be different, in alphabetical order")
        if any(len(group.covered) != len(self.covered) for group in groups):
            raise ValueError("every group must have a count for each level")
        if sum(group.n for group in groups) != self.n:
            raise ValueError("n must be the cases of all groups")
        sums = tuple(map(sum, zip(*(group.covered for group in groups), strict=True)))
        if self.covered != sums:
            raise ValueError("covered must be the sum over the groups")


def _check_counts(covered: Sequence[int], n: int) -> None:
    if any(not 0 <= count <= n for count in covered):
        raise ValueError(f"a number of covered cases must lie between 0 and n = {n}")
