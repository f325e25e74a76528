"""Means over splits, and the rows that are published of every split."""

import hashlib
import json
from typing import Any

import numpy as np

from fedconformal.experiments._store import Rows, mean

SETTING = ("scenario", "dataset", "model", "n_sites", "n_points", "method", "epsilon")
"""What a mean over splits is taken for."""

SPLIT_COLUMNS = (*SETTING, "confidence_level", "split", "n_train", "n_test", "plan", "threshold", "coverage",
                 "length", "fit_seconds")  # fmt: skip
"""What is published of every split."""


def by_split(rows: Rows) -> Rows:
    """The rows of all splits, each number to ten digits: what a small file holds.

    Parameters
    ----------
    rows : list of dict
        What `run` found.

    Returns
    -------
    list of dict
        With `SPLIT_COLUMNS` alone.
    """
    return [
        {c: float(f"{row[c]:.10g}") if isinstance(row[c], float) else row[c] for c in SPLIT_COLUMNS}
        for row in rows
    ]


def summarise(rows: Rows) -> Rows:
    """Means over splits, and the spread of the coverage.

    Parameters
    ----------
    rows : list of dict
        What `run` found.

    Returns
    -------
    list of dict
        One row for each data set, model, federation and method.

    Examples
    --------
    >>> from fedconformal.experiments import summarise
    >>> setting = dict.fromkeys(("scenario", "dataset", "model", "n_sites", "n_points", "method", "epsilon"))
    >>> same = setting | dict.fromkeys(("confidence_level", "n_train", "n_test", "plan"))
    >>> splits = [same | {"coverage": c, "length": 2.0, "fit_seconds": 1.0} for c in (0.875, 0.925)]
    >>> (found,) = summarise(splits)
    >>> found["n_splits"], round(found["coverage"], 4), round(found["coverage_std"], 4)
    (2, 0.9, 0.0354)
    """
    splits: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        splits.setdefault(tuple(row[name] for name in SETTING), []).append(row)
    return [
        {
            **dict(zip(SETTING, key, strict=True)),
            "confidence_level": found[0]["confidence_level"],
            "n_splits": len(found),
            "n_train": found[0]["n_train"],
            "n_test": found[0]["n_test"],
            "plan": found[0]["plan"],
            "coverage": mean(found, "coverage"),
            "coverage_std": float(np.std([row["coverage"] for row in found], ddof=1)) if found[1:] else 0.0,
            "length": mean(found, "length"),
            "fit_seconds": mean(found, "fit_seconds"),
        }
        for key, found in splits.items()
    ]


# -- what a figure was drawn from ----------------------------------------------------------------------------

_NOT_SHOWN = {"fit_seconds", "n_calibration", "n_test", "n_train", "quick", "settings", "version"}


def fingerprint(rows: Rows) -> str:
    """A short name of what rows say, to six digits; a figure keeps it, so that a stale one shows.

    The order of rows, and what no figure shows, make no difference. A table that `by_split` has shortened has
    the same one.

    Parameters
    ----------
    rows : list of dict
        What a study found.

    Returns
    -------
    str
        Of 64 hexadecimal digits.

    Examples
    --------
    >>> fingerprint([{"coverage": 0.9}])[:8] == fingerprint([{"coverage": 0.9000000001}])[:8]
    True
    """
    lines = sorted(
        json.dumps({c: _six_digits(v) for c, v in row.items() if c not in _NOT_SHOWN}, sort_keys=True)
        for row in rows
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _six_digits(value: Any) -> Any:
    # First as published, so that a published table gives the same.
    return f"{float(f'{value:.10g}'):.6g}" if isinstance(value, float) else value


def plans(rows: Rows) -> Rows:
    """The plans that rows were made with, each once.

    Parameters
    ----------
    rows : list of dict
        What a study found.

    Returns
    -------
    list of dict
        A row for each method and plan; none for a study without plans.
    """
    found = dict.fromkeys((row["method"], row["plan"]) for row in rows if row.get("plan") and "method" in row)
    return [{"method": method, "plan": plan} for method, plan in found]
