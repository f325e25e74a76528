"""Labels of rows: which site and which group a row is from, and whether a label is missing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from fedconformal.documents import Plan, SiteName, unique_labels

_SITE_NAME: TypeAdapter[str] = TypeAdapter(SiteName)


def rows_by_site(sites: Any, n: int) -> dict[str, NDArray[np.intp]]:
    """The rows of each site, sites by name; a site is known by its label as a string.

    Every row belongs to exactly one site, or none does: a missing label is refused.
    """
    if sites is None:
        raise ValueError(
            "sites must give the site of each row of X, got None; "
            "if all rows are from one site, pass the same label for each"
        )
    labels = np.asarray(sites)
    _check_length("sites", labels.shape, n)
    rows = labels.tolist()
    names = {label: _site_name(label) for label in dict.fromkeys(rows)}
    return _rows_of(*np.unique(np.array([names[label] for label in rows]), return_inverse=True))


def group_names(groups: Any, n: int) -> NDArray[np.object_]:
    """The group of each row as documents name it."""
    _check_length("groups", np.shape(groups), n)
    names, which = unique_labels(groups)
    return np.array(names, dtype=object)[which]


def group_sizes(groups: NDArray[np.object_], sites: dict[str, NDArray[np.intp]]) -> dict[str, dict[str, int]]:
    """How many rows of each group each site has, where it has any."""
    sizes: dict[str, dict[str, int]] = {}
    for site, rows in sites.items():
        found, counts = np.unique(groups[rows], return_counts=True)
        for group, count in zip(found.tolist(), counts.tolist(), strict=True):
            sizes.setdefault(group, {})[site] = count
    return sizes


def asked_rows(
    plan: Plan, sites: dict[str, NDArray[np.intp]], groups: NDArray[np.object_] | None
) -> dict[str, NDArray[np.intp]]:
    """The rows that sites answer for: a plan does not ask sites that could never change a threshold."""
    asked = {part.label: set(part.asked_names or ()) for part in plan.parts}
    if groups is None:
        return {
            site: rows
            for site, rows in sites.items()
            if site in asked[site if plan.grouping.by_site else None]
        }
    kept = {site: rows[_is_asked(plan, asked, site, groups[rows])] for site, rows in sites.items()}
    return {site: rows for site, rows in kept.items() if rows.size}


def _is_asked(
    plan: Plan, asked: dict[str | None, set[str]], site: str, labels: NDArray[np.object_]
) -> NDArray[np.bool_]:
    names, which = unique_labels(labels)
    found = [site in asked.get(group, ()) for group in plan.grouping.groups_of(names, site)]
    return np.array(found, dtype=np.bool_)[which]


def is_missing(label: Any) -> bool:
    """Whether a label is None or any library's not-a-number, not-a-time or not-available."""
    return not isinstance(label, str) and str(label) in {"None", "nan", "NaT", "<NA>"}


def _rows_of(names: NDArray[Any], which: NDArray[np.intp]) -> dict[str, NDArray[np.intp]]:
    parts = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    return dict(zip(names.tolist(), parts, strict=True))


def _check_length(argument: str, shape: tuple[int, ...], n: int) -> None:
    if shape != (n,):
        raise ValueError(f"{argument} must hold one label for each of the {n} rows of X, got shape {shape}")


def _site_name(label: Any) -> str:
    try:
        if is_missing(label):
            raise ValueError
        return _SITE_NAME.validate_python(str(label))
    except (ValueError, ValidationError):
        raise ValueError(
            f"sites must hold labels of 1 to 200 printable characters, none missing, got {label!r}"
        ) from None
