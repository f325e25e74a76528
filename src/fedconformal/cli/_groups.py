"""Groups on the command line: a column of labels where cases are read, a label where one group is meant."""

from pathlib import Path

from fedconformal._text import quoted
from fedconformal.documents import Calibration, Plan


def column_of_labels(plan: Plan, group: str | None, target: str | None, path: Path) -> str | None:
    """The column with the label of each case that is scored: its group, or its true class."""
    grouping = plan.grouping
    if grouping.by_class and target is not None:
        if group not in (None, target):
            raise ValueError(f"{path}: is by class: --group must be left out, or the truth, got {group!r}")
        return target
    if grouping.by_class and group is None:
        raise ValueError(f"{path}: is by class: say which column holds the true class with --group")
    if group is not None and group == target and grouping.by_label:
        raise ValueError(
            f"--group {group} is the truth, which nobody knows of new cases: predictions could not use these "
            "groups. plan --by-class makes thresholds by true class that can be used"
        )
    return group if grouping.by_class else _checked_column(plan, group, path)


def check_column(plan: Plan, group: str | None, path: Path) -> None:
    """Refuse new cases without their groups where these are needed, and groups where they are not."""
    if plan.grouping.by_class and group is not None:
        raise ValueError(f"{path}: is by class, which nobody knows of new cases: leave out --group {group}")
    if not plan.grouping.by_class:
        _checked_column(plan, group, path)


def check_site(plan: Plan, site: str | None, path: Path) -> None:
    """Refuse cases of no site where sites have thresholds of their own."""
    if plan.grouping.by_site and site is None:
        raise ValueError(f"{path}: has thresholds of each site's own: say which with --site")


def _checked_column(plan: Plan, group: str | None, path: Path) -> str | None:
    if plan.grouping.by_label and group is None:
        raise ValueError(
            f"{path}: has groups ({quoted(plan.grouping.labels)}): say which column holds the group of each "
            "case with --group"
        )
    if not plan.grouping.by_label and group is not None:
        raise ValueError(f"{path}: has no groups: --group {group} does not go with it")
    return group


def check_label(plan: Plan, label: str | None, path: Path) -> None:
    """Refuse a document with groups unless one of them is named, and a name where there are none."""
    if not plan.is_grouped:
        if label is not None:
            raise ValueError(f"{path}: has no groups: --label {label} does not go with it")
        return
    if label is None:
        raise ValueError(f"{path}: has groups ({quoted(plan.labels)}): say which one with --label")
    if label not in plan.labels:
        raise ValueError(f"--label must be a group of {path} ({quoted(plan.labels)}), got {label!r}")


def plan_of(plan: Plan, label: str | None, path: Path) -> Plan:
    """The plan of one group, or the plan itself if it has none."""
    check_label(plan, label, path)
    return plan if label is None else plan[label]


def calibration_of(calibration: Calibration, label: str | None, path: Path) -> Calibration:
    """The calibration of one group, or the calibration itself if it has none."""
    check_label(calibration.plan, label, path)
    if label is None:
        return calibration
    found = calibration[label]
    if not found.is_calibrated:
        raise ValueError(f"{path}: too few sites answered for group {label!r}: its threshold is infinite")
    return found
