"""Thresholds: everything that turns predictions into sets, whatever the number of
sites.
"""

import math
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from fedconformal._extras import call_higher
from fedconformal._util import Floats
from fedconformal.documents import _fields as limits
from fedconformal.documents._base import Part
from fedconformal.documents._fields import (
    Extended,
    Label,
    Many,
    Share,
    SiteName,
    check_labels,
    unique_labels,
    warn_of_unknown,
)
from fedconformal.documents._grouping import GroupBy, Grouping
from fedconformal.documents._score_rule import ScoreRule


class GroupThresholds(Part):
    """Thresholds of all cases, or of one group of them."""

    group: Label | None = Field(
        default=None, description="the group; left out where there are none"
    )
    site: SiteName | None = Field(
        default=None, description="the only site of the group, if it has one"
    )
    values: Many[Extended] = Field(
        min_length=1, max_length=limits.MOST_LEVELS, description="by level"
    )


class Thresholds(Part):
    """Score, classes, groups, and the threshold of each group and level.

    Nothing in it proves that they are those of a calibration.

    Examples
    --------
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40)}, score="absolute")
    >>> calibration.sets.predict_interval([100.0])
    array([[ 64., 136.]])
    """

    score: ScoreRule | None = Field(
        default=None, description="of all sites, where the plan fixes it"
    )
    classes: (
        Annotated[Many[Label], Field(min_length=2, max_length=limits.MOST_CLASSES)]
        | None
    ) = Field(default=None, description="in the order of the columns of probabilities")
    group_by: Many[GroupBy] = Field(default=(), description="what makes groups")
    levels: Many[Share] = Field(min_length=1, max_length=limits.MOST_LEVELS)
    parts: Many[GroupThresholds] = Field(
        min_length=1, max_length=limits.MOST_GROUPS, description="by group"
    )
    of_answers: bool = Field(
        default=False,
        description="of confidences, from which on cases are answered: no sets",
    )

    def check(self) -> None:
        """Refuse thresholds that no calibration has."""
        check_labels([part.group for part in self.parts])
        if len(set(self.levels)) < len(self.levels):
            raise ValueError("a confidence level occurs twice")
        if self.is_grouped != bool(self.group_by):
            raise ValueError("groups must come with what they are made of")
        for part in self.parts:
            self._check_part(part)

    def _check_part(self, part: GroupThresholds) -> None:
        """Refuse other than one threshold for each level, in their order."""
        if len(part.values) != len(self.levels):
            raise ValueError("there must be a threshold for each level")
        pairs = sorted(zip(self.levels, part.values, strict=True))
        for (_, lower), (_, higher) in pairwise(pairs):
            if lower > higher:
                raise ValueError("a higher level must not have a smaller threshold")
        if (part.site is None) == ("site" in self.group_by):
            raise ValueError("a group has a site where groups are made of sites")

    @property
    def is_grouped(self) -> bool:
        """True if there is a threshold for each group of cases."""
        return self.parts[0].group is not None

    @property
    def confidence_levels(self) -> tuple[float, ...]:
        """The confidence levels as floats."""
        return tuple(map(float, self.levels))

    @property
    def groups(self) -> tuple[str, ...]:
        """Labels of the groups; none if there are no groups."""
        return tuple(part.group for part in self.parts if part.group is not None)

    @cached_property
    def by_group(self) -> dict[str | None, tuple[float, ...]]:
        """Thresholds of each group, under None where there are no groups."""
        return {part.group: part.values for part in self.parts}

    @cached_property
    def grouping(self) -> Grouping:
        """Rule that assigns a case to its group by its label and site."""
        sites = {}
        for part in self.parts:
            if part.group is not None and part.site is not None:
                sites[part.group] = part.site
        return Grouping(self.group_by, sites, self.groups)

    @property
    def common(self) -> tuple[float | None, ...]:
        """Threshold of each level; None where groups have different ones."""
        shared: list[float | None] = []
        for place in range(len(self.levels)):
            values = {part.values[place] for part in self.parts}
            shared.append(values.pop() if len(values) == 1 else None)
        return tuple(shared)

    def threshold_of(self, labels: ArrayLike, *, site: str | None = None) -> Floats:
        """Return the threshold for each case, by its label; see `Calibration`.

        Parameters
        ----------
        labels : array-like
            The label of each case.
        site : str, optional
            The site of all cases, where groups are made of sites and labels.

        Returns
        -------
        array of shape (n,), or (n, n_levels) for several levels
        """
        if not self.is_grouped:
            raise ValueError(
                "this calibration has one threshold for all cases: it has no groups"
            )
        names, which = unique_labels(labels)
        grouping = self.grouping
        warn_of_unknown(names, which, grouping.labels or grouping.groups)
        groups = grouping.groups_of(names, site) if grouping.has_labels else names
        rows = self._rows(groups)[which]
        return rows[:, 0] if len(self.levels) == 1 else rows

    def _rows(self, groups: list[str] | list[str | None]) -> Floats:
        """Return the thresholds of each group, infinite for one that is not there."""
        endless = (math.inf,) * len(self.levels)
        rows = [self.by_group.get(group, endless) for group in groups]
        return np.array(rows, dtype=np.float64).reshape(len(groups), len(endless))

    def predict_interval(
        self,
        prediction: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        site: str | None = None,
        score: Any = None,
    ) -> Floats:
        """Return the prediction intervals of new cases; see `Calibration`.

        Parameters
        ----------
        prediction, groups, site, score
            As for a calibration.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for several levels
        """
        found: Floats = call_higher(
            "protocol.predict_interval",
            self,
            prediction,
            groups=groups,
            site=site,
            score=score,
        )
        return found

    def predict_set(self, probabilities: Any, **options: Any) -> Any:
        """Return the prediction sets of new cases; see `Calibration`.

        Parameters
        ----------
        probabilities : array-like of shape (n, n_classes), or data frame
            As for a calibration.
        **options : classes, groups, site, score, u, as_labels
            As for a calibration.

        Returns
        -------
        bool array of shape (n, n_classes), or with several levels (n, n_classes,
            n_levels)
        """
        return call_higher("protocol.predict_set", self, probabilities, **options)
