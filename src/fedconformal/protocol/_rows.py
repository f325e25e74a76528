"""Labels of rows: their sites and groups."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._util import is_missing, plain_array
from fedconformal.documents import check_site_name, unique_labels


def rows_by_site(sites: Any, n: int) -> dict[str, NDArray[np.intp]]:
    """Return the rows of each site by name; a site is known by its label as a string.

    Every row belongs to exactly one site, or none does: a missing label is refused.

    Examples
    --------
    >>> {site: rows.tolist() for site, rows in rows_by_site(["B", "A", "B"], 3).items()}
    {'A': [1], 'B': [0, 2]}
    """
    if sites is None:
        raise ValueError(
            "sites must give the site of each row, got None; if all rows are from one"
            " site, pass the same label for each"
        )
    labels = plain_array(sites)
    _check_length("sites", labels.shape, n)
    for label in dict.fromkeys(labels.tolist()):
        try:
            if is_missing(label):
                raise ValueError
            check_site_name(str(label))
        except ValueError:
            raise ValueError(
                "sites must hold labels of 1 to 200 printable characters, none"
                f" missing, got {label!r}"
            ) from None
    names, which = np.unique(
        np.array([str(label) for label in labels.tolist()]), return_inverse=True
    )
    parts = np.split(
        np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1]
    )
    return dict(zip(names.tolist(), parts, strict=True))


def group_names(groups: Any, n: int) -> NDArray[np.object_]:
    """Return the group of each row as documents name it.

    Examples
    --------
    >>> group_names([1, 0, 1], 3).tolist()
    ['1', '0', '1']
    """
    _check_length("groups", np.shape(plain_array(groups)), n)
    names, which = unique_labels(groups)
    return np.array(names, dtype=object)[which]


def _check_length(argument: str, shape: tuple[int, ...], n: int) -> None:
    if shape != (n,):
        raise ValueError(
            f"{argument} must hold one label for each of the {n} rows, got shape"
            f" {shape}"
        )
