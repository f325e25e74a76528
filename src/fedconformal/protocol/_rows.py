"""Arrays that people hand in: scores, checked; and labels of rows, their sites and groups."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._util import is_missing, plain_array
from fedconformal.documents import Plan, check_site_name, unique_labels

Rows = dict[str, NDArray[np.intp]]
"""The rows of each site, by name."""

Scores = NDArray[np.floating[Any]]


def rows_by_site(sites: Any, n: int) -> Rows:
    """Return the rows of each site by name; a site is known by its label as a string.

    Every row belongs to exactly one site, or none does: a missing label is refused.

    Parameters
    ----------
    sites : array-like of shape (n,)
        The site of each row.
    n : int
        How many rows there are.

    Returns
    -------
    dict
        The places of the rows of each site, sites in alphabetical order.

    Examples
    --------
    >>> {site: rows.tolist() for site, rows in rows_by_site(["B", "A", "B"], 3).items()}
    {'A': [1], 'B': [0, 2]}
    """
    if sites is None:
        raise ValueError(
            "sites must give the site of each row, got None; if all rows are from one site, pass the same "
            "label for each"
        )
    labels = plain_array(sites)
    _check_length("sites", labels.shape, n)
    rows = labels.tolist()
    names = {label: _site_name(label) for label in dict.fromkeys(rows)}
    return _rows_of(*np.unique(np.array([names[label] for label in rows]), return_inverse=True))


def group_names(groups: Any, n: int) -> NDArray[np.object_]:
    """Return the group of each row as documents name it.

    Parameters
    ----------
    groups : array-like of shape (n,)
        The group of each row, text or whole numbers.
    n : int
        How many rows there are.

    Returns
    -------
    array of str
        Of shape (n,).

    Examples
    --------
    >>> group_names([1, 0, 1], 3).tolist()
    ['1', '0', '1']
    """
    _check_length("groups", np.shape(plain_array(groups)), n)
    names, which = unique_labels(groups)
    return np.array(names, dtype=object)[which]


def group_sizes(groups: NDArray[np.object_], sites: Rows) -> dict[str, dict[str, int]]:
    """Count the rows of each group at each site that has any."""
    sizes: dict[str, dict[str, int]] = {}
    for site, rows in sites.items():
        found, counts = np.unique(groups[rows], return_counts=True)
        for group, count in zip(found.tolist(), counts.tolist(), strict=True):
            sizes.setdefault(group, {})[site] = count
    return sizes


def is_asked(plan: Plan, site: str, labels: NDArray[np.object_] | None) -> NDArray[np.bool_]:
    """Return the rows a site answers for: a plan does not ask where no answer could change a threshold.

    One entry for each row with labels, else one for all.
    """
    asked = {design.group: design.asked_names or () for design in plan.designs}
    if labels is None:
        return np.array([site in asked[site if plan.grouping.by_site else None]])
    names, which = unique_labels(labels)
    groups = plan.grouping.groups_of(names, site)
    return np.array([site in asked.get(group, ()) for group in groups], dtype=np.bool_)[which]


def _rows_of(names: NDArray[Any], which: NDArray[np.intp]) -> Rows:
    parts = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    return dict(zip(names.tolist(), parts, strict=True))


def _check_length(argument: str, shape: tuple[int, ...], n: int) -> None:
    if shape != (n,):
        raise ValueError(f"{argument} must hold one label for each of the {n} rows, got shape {shape}")


def _site_name(label: Any) -> str:
    try:
        if is_missing(label):
            raise ValueError
        check_site_name(str(label))
    except ValueError:
        raise ValueError(
            f"sites must hold labels of 1 to 200 printable characters, none missing, got {label!r}"
        ) from None
    return str(label)


# -- scores -------------------------------------------------------------------------------------------------


def flat_numbers(scores: ArrayLike) -> Scores:
    """Return a flat array of at least one number, whatever the numbers are.

    Parameters
    ----------
    scores : array-like
        Integers, booleans or floats.

    Returns
    -------
    array of float
        The same memory where it holds floats already.

    Examples
    --------
    >>> from fedconformal.protocol import flat_numbers
    >>> flat_numbers([1, 2, float("nan")])
    array([ 1.,  2., nan])
    """
    values = plain_array(scores)
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    if values.dtype.kind != "f":
        raise TypeError(f"scores must be numbers, got an array of {values.dtype}")
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"scores must be a flat array with at least one score, got shape {values.shape}")
    return values


def private_numbers(scores: ArrayLike) -> Scores:
    """Return a flat array, NaN where there is no number: a refusal would disclose that one is missing.

    Parameters
    ----------
    scores : array-like
        As for `flat_numbers`; a cell may hold anything else.

    Returns
    -------
    array of float
        Numbers to be counted in bins.

    Examples
    --------
    >>> from fedconformal.protocol import private_numbers
    >>> private_numbers([1.5, "unknown", 2])
    array([1.5, nan, 2. ])
    """
    values = np.asarray(scores)
    if values.dtype.kind in "OUSc":
        values = np.array([_number(cell) for cell in values.flat], dtype=np.float64).reshape(values.shape)
    return flat_numbers(values)


def _number(cell: Any) -> float:
    """Return the number in a cell, NaN if there is none."""
    if isinstance(cell, (complex, np.complexfloating)):
        return float(cell.real) if cell.imag == 0 else math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def flat_scores(scores: ArrayLike) -> Scores:
    """Return a flat array of at least one score, NaN and -inf refused.

    Parameters
    ----------
    scores : array-like
        As for `flat_numbers`.

    Returns
    -------
    array of float
        Scores that can be ranked.

    Examples
    --------
    >>> from fedconformal.protocol import flat_scores
    >>> flat_scores([1, 2, float("inf")])
    array([ 1.,  2., inf])
    """
    values = flat_numbers(scores)
    # A sum is NaN or -inf if anything in it is; looking closer is only needed then.
    with np.errstate(all="ignore"):
        total = values.sum()
    if not total > -math.inf:
        for wrong, name in ((np.isnan(values), "NaN"), (values == -math.inf, "-inf")):
            if wrong.any():
                first = int(np.argmax(wrong))
                raise ValueError(
                    f"scores must not be {name}, got {int(wrong.sum())}, the first in row {first}"
                )
    return values
