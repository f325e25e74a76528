"""New cases by group and by the values of some columns, and the thresholds of each case."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._text import quoted
from fedconformal._typing import Bools, Floats, Ints
from fedconformal._validation import fraction
from fedconformal.documents import (
    MOST_CHECKED,
    MOST_COLUMNS,
    Calibration,
    CalibrationView,
    Plan,
    PlanView,
    group_name,
    unique_labels,
)

Checked = Calibration | CalibrationView
"""A calibration, or one group of it."""


@dataclass(frozen=True, eq=False)
class GroupedCases:
    """Cases by their values in some columns.

    Parameters
    ----------
    by : tuple of str
        The columns.
    values : tuple of tuples of str
        The combinations of values that occur, in alphabetical order.
    which : array of int
        For each case the place of its combination among them.
    """

    by: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    which: Ints

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each group of cases."""
        return tuple(group_name(self.by, values) for values in self.values)

    @property
    def sizes(self) -> Ints:
        """Number of cases in each group."""
        return np.bincount(self.which, minlength=len(self.values))

    def counts(self, inside: Bools) -> Ints:
        """Count the covered cases of each group at each level, from (n, n_levels) booleans."""
        found = np.zeros((len(self.values), inside.shape[1]), dtype=np.int64)
        np.add.at(found, self.which, inside)
        return found

    def of_size(self, fewest: int) -> "tuple[GroupedCases, Bools]":
        """Return the groups with at least this many cases, and a mask of their cases."""
        kept = self.sizes >= fewest
        there, place = kept[self.which], np.cumsum(kept) - 1
        values = tuple(values for values, keep in zip(self.values, kept, strict=True) if keep)
        return GroupedCases(self.by, values, place[self.which[there]]), there


def group_cases(by: Mapping[str, ArrayLike], n: int) -> GroupedCases:
    """Group n cases by their values in these columns: every combination that occurs is a group."""
    if not isinstance(by, Mapping) or not 1 <= len(by) <= MOST_COLUMNS:
        raise ValueError(
            f"by must map 1 to {MOST_COLUMNS} columns to the values of all cases, got {by!r:.80}"
        )
    names: list[list[str]] = []
    code = np.zeros(n, dtype=np.int64)
    for column, given in by.items():
        values, which = unique_labels(given)
        if which.size != n:
            raise ValueError(
                f"by must hold a value for each of the {n} cases, got {which.size} of {column!r}"
            )
        code = code * len(values) + which
        names.append(values)
    codes, which = np.unique(code, return_inverse=True)
    if len(codes) > MOST_CHECKED:
        raise ValueError(
            f"by must make at most {MOST_CHECKED} groups, got {len(codes)} of {', '.join(by)}: make bands of "
            "numbers first"
        )
    places = np.unravel_index(codes, [len(values) for values in names])
    rows = [
        tuple(values[i] for values, i in zip(names, row, strict=True)) for row in zip(*places, strict=True)
    ]
    order = sorted(range(len(rows)), key=rows.__getitem__)
    return GroupedCases(tuple(by), tuple(rows[i] for i in order), np.argsort(order)[which])


def thresholds_of_cases(checked: Checked, n: int, groups: ArrayLike | None, site: str | None) -> Floats:
    """Return the thresholds of each of n cases, (n, n_levels): those of its group, where there are groups."""
    calibration, grouping = checked.whole, checked.whole.plan.grouping
    if checked.group is not None or not calibration.plan.is_grouped:
        if groups is not None:
            raise ValueError("`groups` was given, but all these cases have the same thresholds")
        return np.tile(np.array(checked.selected_parts[0].thresholds), (n, 1))
    if not grouping.has_labels:
        groups = np.full(n, grouping.group_of_site(site), dtype=object)
    elif groups is None:
        raise ValueError(
            "groups must be given: this calibration has a threshold for each "
            f"{'true class' if grouping.by_class else 'group'}"
        )
    found = calibration.threshold_of(groups, site=site).reshape(-1, len(calibration.plan.confidence_levels))
    if len(found) != n:
        raise ValueError(f"groups must hold the group of each of the {n} cases, got {len(found)}")
    return found


def covered_cases(values: NDArray[Any], thresholds: Floats) -> Bools:
    """Return which cases are covered at each level; an infinite threshold covers everything."""
    exact = values.astype(np.result_type(values, np.float64), copy=False)  # else the threshold is rounded
    inside: Bools = (exact[:, np.newaxis] <= thresholds) | np.isposinf(thresholds)
    return inside


def refuse_groups(document: Plan | PlanView | Checked) -> None:
    """Refuse a document with groups of which none is selected, and name them."""
    groups = [design.group for design in document.selected_designs if design.group is not None]
    if groups and document.group is None:
        raise ValueError(
            f"this {document.kind} has groups, {quoted(groups)}: ask about one of them, "
            f"as in {document.kind}[{groups[0]!r}]"
        )


def refuse_levels(checked: Checked) -> None:
    """Refuse a view of some levels where an answer has a count for every level."""
    levels = checked.whole.plan.confidence_levels
    if len(checked.selected_levels) < len(levels):
        raise ValueError(
            f"an answer has a count for each of the {len(levels)} levels: give the calibration, or one group"
        )


def level_index(document: Plan | PlanView | Checked, confidence_level: float | None) -> int:
    """Return the place of a confidence level in a document; the first by default."""
    if confidence_level is None:
        return document.selected_levels[0]
    wanted, levels = fraction("confidence_level", confidence_level), document.selected_designs[0].levels
    for i in document.selected_levels:
        if levels[i].confidence_level == wanted:
            return i
    known = ", ".join(str(float(levels[i].confidence_level)) for i in document.selected_levels)
    raise ValueError(
        f"confidence_level must be one of the {document.kind}'s, {known}, got {confidence_level}"
    )
