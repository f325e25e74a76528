"""Part of a calibration that a site needs for prediction sets, whatever the number of
sites.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self, cast

from numpy.typing import ArrayLike
from pydantic import Field

from fedconformal import protocol
from fedconformal._util import Floats
from fedconformal.documents import Calibration, Part, ScoreRule
from fedconformal.documents import _fields as limits
from fedconformal.documents._fields import Digest, Extended, Label, Many, SiteName
from fedconformal.documents._plan import GroupBy, Grouping


class GroupThresholds(Part):
    """Thresholds of all cases, or of one group of them, by level."""

    group: Label | None = None
    site: SiteName | None = Field(
        default=None, description="the only site of the group, if it has one"
    )
    thresholds: Many[Extended] = Field(min_length=1, max_length=limits.MOST_LEVELS)

    @property
    def design(self) -> Self:
        """The part itself, in the place of its design."""
        return self


class Thresholds(Part):
    """Thresholds of a calibration, with its methods for prediction sets.

    They are as the server sent them: nothing here proves that they are those of the
    calibration with this digest. Attributes of a plan are those that the methods need.
    """

    calibration: Digest
    score: ScoreRule | None = None
    classes: Many[Label] | None = None
    group_by: Many[GroupBy] = ()
    confidence_levels: Many[float] = Field(min_length=1, max_length=limits.MOST_LEVELS)
    parts: Many[GroupThresholds] = Field(min_length=1, max_length=limits.MOST_GROUPS)

    @classmethod
    def of(cls, calibration: Calibration) -> Self:
        """Return the thresholds of a calibration."""
        plan = calibration.plan
        parts = [
            GroupThresholds(
                group=part.design.group,
                site=plan.grouping.sites.get(part.design.group or ""),
                thresholds=part.thresholds,
            )
            for part in calibration.parts
        ]
        return cls(
            calibration=calibration.digest,
            score=plan.score,
            classes=plan.classes,
            group_by=plan.grouping.by,
            confidence_levels=plan.confidence_levels,
            parts=tuple(parts),
        )

    @property
    def plan(self) -> Self:
        """The thresholds themselves, in the place of the plan."""
        return self

    @property
    def is_grouped(self) -> bool:
        """True if there are groups."""
        return self.parts[0].group is not None

    @cached_property
    def by_group(self) -> dict[str | None, GroupThresholds]:
        """The part of each group, under None where there are no groups."""
        return {part.group: part for part in self.parts}

    @cached_property
    def grouping(self) -> Grouping:
        """Map from the label and the site of a case to its group."""
        groups = tuple(part.group for part in self.parts if part.group is not None)
        sites = {
            part.group: part.site for part in self.parts if part.group and part.site
        }
        return Grouping(self.group_by, sites, groups)

    def threshold_of(self, labels: ArrayLike, *, site: str | None = None) -> Floats:
        """Return the threshold for each case, by its label, as a calibration does."""
        return Calibration.threshold_of(cast(Calibration, self), labels, site=site)

    def predict_set(self, probabilities: Any, **options: Any) -> Any:
        """Return prediction sets from class probabilities, as a calibration does."""
        return protocol.predict_set(cast(Calibration, self), probabilities, **options)

    def predict_interval(self, prediction: ArrayLike, **options: Any) -> Floats:
        """Return prediction intervals, as a calibration does."""
        return protocol.predict_interval(cast(Calibration, self), prediction, **options)
