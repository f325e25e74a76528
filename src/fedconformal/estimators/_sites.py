"""Labels of rows: which site a row is from, and whether a label is missing."""

from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from fedconformal.documents._base import SiteName
from fedconformal.scores._base import Floats

_SITE_NAME: TypeAdapter[str] = TypeAdapter(SiteName)


def split_by_site(scores: Floats, sites: Any) -> dict[str, Floats]:
    """The scores of each site, sites by name; a site is known by its label as a string.

    Every score goes to exactly one site, or nothing is split: a missing label is refused.
    """
    if sites is None:
        raise ValueError(
            "sites must give the site of each row of X, got None; "
            "if all rows are from one site, pass the same label for each"
        )
    labels = np.asarray(sites)
    if labels.shape != scores.shape:
        raise ValueError(
            f"sites must hold one label for each of the {len(scores)} rows of X, got shape {labels.shape}"
        )
    rows = labels.tolist()
    names = {label: _site_name(label) for label in dict.fromkeys(rows)}
    found, index = np.unique(np.array([names[label] for label in rows]), return_inverse=True)
    order = np.argsort(index, kind="stable")
    parts = np.split(scores[order], np.cumsum(np.bincount(index))[:-1])
    return dict(zip(found.tolist(), parts, strict=True))


def is_missing(label: Any) -> bool:
    """Whether a label is None or any library's not-a-number, not-a-time or not-available."""
    return not isinstance(label, str) and str(label) in {"None", "nan", "NaT", "<NA>"}


def _site_name(label: Any) -> str:
    try:
        if is_missing(label):
            raise ValueError
        return _SITE_NAME.validate_python(str(label))
    except (ValueError, ValidationError):
        raise ValueError(
            f"sites must hold labels of 1 to 200 printable characters, none missing, got {label!r}"
        ) from None
