"""The Design: who is asked for one group of cases, what they send, and how the server
decides.
"""

import math
from typing import Annotated, Any, Self

from pydantic import Field

from fedconformal.documents import _fields as limits
from fedconformal.documents._base import Part
from fedconformal.documents._fields import (
    Label,
    Many,
    Name,
    Ratio,
    Share,
    SiteCount,
    SiteName,
)
from fedconformal.documents._messages import AnyMessage
from fedconformal.documents._sites import AskedSites, SiteKind


class Advice(Part):
    """Smallest numbers that would suffice for a level that cannot be reached, each
    individually.
    """

    n_points: Annotated[int, Field(ge=1, le=limits.LARGEST_ADVICE)] | None = Field(
        default=None,
        description="smallest size that would suffice if every site had it",
    )
    n_sites: Annotated[int, Field(ge=1, le=limits.LARGEST_ADVICE)] | None = Field(
        default=None,
        description="smallest number of sites of the smallest size that would suffice",
    )
    epsilon: Ratio | None = Field(
        default=None, description="smallest privacy loss that would suffice"
    )


class Level(Part):
    """Decision rule of the server at one confidence level."""

    confidence_level: Share
    votes: Annotated[int, Field(ge=1, le=limits.LARGEST_UNIT + 1)] | None = Field(
        default=None,
        description="votes that the threshold needs; more than there are for +inf",
    )
    advice: Advice | None = Field(
        default=None, description="present if the level cannot be reached"
    )


class Design(AskedSites, Part):
    """Sites that are asked for one group of cases, their message, and the server's
    decision rule.

    One message serves all levels. ``sites`` are runs of sites that are alike, in their
    order; an open design has none: sizes come with the reports.
    """

    group: Label | None = Field(
        default=None, description="the group; left out where there are none"
    )
    promise: Name = Field(description="whose new cases are covered")
    criterion: Name
    delta: Share | None = Field(default=None, description="for criteria that take it")
    max_faulty: SiteCount = Field(
        default=0, description="number of reports that may be arbitrary"
    )
    max_missing: SiteCount | None = Field(
        default=None, description="sites that may be missing"
    )
    sites: Many[SiteKind] | None = Field(
        default=None, description="left out while sizes are unknown"
    )
    names: Many[SiteName] | None = Field(
        default=None,
        max_length=limits.MOST_NAMED,
        description="the only sites that an open design expects",
    )
    expected: int | None = Field(
        default=None, ge=1, le=limits.MOST_SITES, description="sites while open"
    )
    message: AnyMessage
    levels: Many[Level] = Field(min_length=1, max_length=limits.MOST_LEVELS)

    @property
    def is_feasible(self) -> bool:
        """True if every level can be reached."""
        return all(level.advice is None for level in self.levels)

    @property
    def fewest_answers(self) -> int:
        """Number of sites that must answer for any threshold: faulty ones must not be
        half.
        """
        return 2 * self.max_faulty + 1

    @property
    def confidence_levels(self) -> tuple[float, ...]:
        """The confidence levels as floats."""
        return tuple(float(level.confidence_level) for level in self.levels)

    def answered_by(self, sites: tuple[SiteKind, ...], **changes: Any) -> Self:
        """Return the same design for the sites that answered, with other changes."""
        return self.model_copy(
            update={"sites": sites, "names": None, "expected": None, **changes}
        )

    def check(self) -> None:
        """Refuse a design of a plan whose parts do not fit together."""
        levels, names = (
            [level.confidence_level for level in self.levels],
            self.site_names,
        )
        if len(set(levels)) < len(levels):
            raise ValueError("a confidence level occurs twice")
        if self.delta is not None and 2 * self.delta > 1:
            raise ValueError("delta must be at most 0.5")
        if names is not None and len(set(names)) < len(names):
            raise ValueError("a site occurs twice")
        if (self.n_sites or 0) > limits.MOST_SITES:
            raise ValueError(f"a plan has at most {limits.MOST_SITES:,} sites")
        if self.max_faulty and (
            self.n_sites is None or 2 * self.max_faulty >= self.n_sites
        ):
            raise ValueError(
                "max_faulty must be below half the number of sites, which must be known"
            )
        if self.is_open:
            if any(
                level.votes is not None or level.advice is not None
                for level in self.levels
            ):
                raise ValueError(
                    "an open plan has neither votes nor advice: both depend on who"
                    " answers"
                )
            if self.names is not None and self.expected is not None:
                raise ValueError(
                    "an open plan has names or an expected number of sites, not both"
                )
        else:
            self._check_sites()
        self.message.check(self)

    def check_shares(self) -> None:
        """Refuse shares whose sum would take too many digits."""
        common = 1
        for kind in self.kinds:
            common = (
                common
                if kind.share is None
                else math.lcm(common, kind.share.denominator)
            )
            if common >= 10**limits.MOST_DIGITS:
                raise ValueError(
                    "the common denominator of all shares has more than"
                    f" {limits.MOST_DIGITS} digits"
                )

    def _check_sites(self) -> None:
        """Refuse known sites that are not listed in one way, or cannot be
        distinguished.
        """
        if not self.kinds or self.names is not None or self.expected is not None:
            raise ValueError("a plan of known sizes lists its sites, with their names")
        if len({bool(kind.names) for kind in self.kinds}) > 1:
            raise ValueError("either all sites have names or none")
        if any(kind.names and len(kind.names) != kind.count for kind in self.kinds):
            raise ValueError("count and the number of names differ")
        shares = {(kind.n, kind.share) for kind in self.kinds}
        for _, share in shares:
            if share is not None:
                self.check_shares()
                break
        if self.site_names is None and len({kind.n for kind in self.kinds}) < len(
            shares
        ):
            raise ValueError(
                "sites without names must have the same share if they have the same"
                " size"
            )
        if any(level.votes is None for level in self.levels):
            raise ValueError(
                "every level needs a number of votes where sizes are known"
            )
