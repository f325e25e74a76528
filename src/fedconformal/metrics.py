"""Coverage and width of prediction sets, over all rows and site by site.

The functions with MAPIE's names take MAPIE's arrays and, where MAPIE accepts these,
return the same numbers. They also take what a guarantee may call for: infinite
intervals, and empty ones, which `fedconformal.scores` gives as (+inf, -inf). Any
interval whose lower end is above its upper end is empty: it covers nothing and its
width is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._util import Bools, Floats, all_rows, number_array, plain_array
from fedconformal.laws._beta import beta_quantile

__all__ = [
    "classification_coverage_score",
    "classification_mean_width_score",
    "coverage_by_site",
    "covered_by_intervals",
    "covered_by_sets",
    "regression_coverage_score",
    "regression_mean_width_score",
]


@dataclass(frozen=True)
class SiteCoverage:
    """Coverage of the sets at one site.

    Attributes
    ----------
    site : str, int or other label
        The site, as given.
    n : int
        Its number of rows.
    covered : int
        Number of rows whose set held the outcome.
    coverage : float
        covered / n.
    low, high : float
        Exact binomial (Clopper-Pearson) confidence interval for the site's coverage
        probability.

    Examples
    --------
    >>> from fedconformal.metrics import coverage_by_site
    >>> [site] = coverage_by_site([True, True, False], ["A", "A", "A"])
    >>> site.site, site.n, site.covered
    ('A', 3, 2)
    """

    site: Any
    n: int
    covered: int
    coverage: float
    low: float
    high: float


def covered_by_intervals(y_true: ArrayLike, y_intervals: ArrayLike) -> Bools:
    """Return whether each closed interval holds its outcome.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, n_levels)
        The outcomes.
    y_intervals : array of shape (n, 2) or (n, 2, n_levels)
        Lower and upper ends, which may be infinite.

    Returns
    -------
    bool array of shape (n,) for intervals of shape (n, 2), else (n, n_levels)

    Examples
    --------
    >>> from fedconformal.metrics import covered_by_intervals
    >>> covered_by_intervals(
    ...     [1.0, 5.0, 9.0], [[0.0, 2.0], [1.0, 3.0], [0.0, float("inf")]]
    ... )
    array([ True, False,  True])
    """
    intervals = _as_intervals(y_intervals)
    outcomes = _as_outcomes(y_true, n=len(intervals), n_levels=intervals.shape[2])
    covered = (intervals[:, 0] <= outcomes) & (outcomes <= intervals[:, 1])
    return covered[:, 0] if np.ndim(y_intervals) == 2 else covered


def covered_by_sets(
    y_true: ArrayLike, y_pred_set: ArrayLike, *, classes: ArrayLike | None = None
) -> Bools:
    """Return whether each label set holds its outcome.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, n_levels)
        The outcomes, as class indices; as labels where ``classes`` is given.
    y_pred_set : bool array of shape (n, n_classes) or (n, n_classes, n_levels)
        Which labels are in the set.
    classes : array of shape (n_classes,), optional
        The label of each column, such as a classifier's ``classes_``.

    Returns
    -------
    bool array of shape (n,) for sets of shape (n, n_classes), else (n, n_levels)

    Examples
    --------
    >>> from fedconformal.metrics import covered_by_sets
    >>> covered_by_sets([0, 1], [[True, False], [True, False]])
    array([ True, False])
    >>> covered_by_sets(
    ...     ["sick", "well"], [[True, False], [True, False]], classes=["sick", "well"]
    ... )
    array([ True, False])
    """
    sets = _as_sets(y_pred_set)
    n, n_classes, n_levels = sets.shape
    if classes is None and plain_array(y_true).dtype.kind in "OUS":
        raise ValueError(
            "y_true must be class indices; for labels, give classes, the label of each"
            " column"
        )
    indices = y_true if classes is None else _as_indices(y_true, classes, n_classes)
    labels = _as_outcomes(indices, n=n, n_levels=n_levels)
    allowed = (labels >= 0) & (labels < n_classes) & (labels == np.floor(labels))
    all_rows(
        "y_true", labels, allowed, f"must be class indices from 0 to {n_classes - 1}"
    )
    covered = np.take_along_axis(sets, labels[:, np.newaxis].astype(np.intp), axis=1)[
        :, 0
    ]
    return covered[:, 0] if np.ndim(y_pred_set) == 2 else covered


def regression_coverage_score(y_true: ArrayLike, y_intervals: ArrayLike) -> Floats:
    """Return the fraction of outcomes that their closed intervals hold.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, n_levels)
        The outcomes.
    y_intervals : array of shape (n, 2) or (n, 2, n_levels)
        Lower and upper ends, which may be infinite.

    Returns
    -------
    array of shape (n_levels,)

    Examples
    --------
    >>> from fedconformal.metrics import regression_coverage_score
    >>> regression_coverage_score([1.0, 5.0], [[0.0, 2.0], [1.0, 3.0]])
    array([0.5])
    """
    covered = covered_by_intervals(y_true, y_intervals)
    return np.asarray(covered.reshape(len(covered), -1).mean(axis=0))


def regression_mean_width_score(y_intervals: ArrayLike) -> Floats:
    """Return the mean width of the intervals.

    Parameters
    ----------
    y_intervals : array of shape (n, 2) or (n, 2, n_levels)
        Lower and upper ends, which may be infinite.

    Returns
    -------
    array of shape (n_levels,)
        inf if any interval is infinite; an empty interval counts with width 0.

    Examples
    --------
    >>> from fedconformal.metrics import regression_mean_width_score
    >>> regression_mean_width_score([[0.0, 2.0], [1.0, 2.0]])
    array([1.5])
    """
    intervals = _as_intervals(y_intervals)
    low, high = intervals[:, 0], intervals[:, 1]
    with np.errstate(over="ignore"):
        # Subtract only where there is something between: inf - inf is nan.
        widths = np.subtract(high, low, out=np.zeros(low.shape), where=high > low)
        return np.asarray(widths.mean(axis=0))


def classification_coverage_score(
    y_true: ArrayLike, y_pred_set: ArrayLike, *, classes: ArrayLike | None = None
) -> Floats:
    """Return the fraction of outcomes that their label sets hold.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, n_levels)
        The outcomes, as class indices; as labels where ``classes`` is given.
    y_pred_set : bool array of shape (n, n_classes) or (n, n_classes, n_levels)
        Which labels are in the set.
    classes : array of shape (n_classes,), optional
        The label of each column, such as a classifier's ``classes_``.

    Returns
    -------
    array of shape (n_levels,)

    Examples
    --------
    >>> from fedconformal.metrics import classification_coverage_score
    >>> classification_coverage_score([0, 1], [[True, False], [True, False]])
    array([0.5])
    """
    covered = covered_by_sets(y_true, y_pred_set, classes=classes)
    return np.asarray(covered.reshape(len(covered), -1).mean(axis=0))


def classification_mean_width_score(y_pred_set: ArrayLike) -> Floats:
    """Return the mean number of labels in the sets.

    Parameters
    ----------
    y_pred_set : bool array of shape (n, n_classes) or (n, n_classes, n_levels)
        Which labels are in the set.

    Returns
    -------
    array of shape (n_levels,)

    Examples
    --------
    >>> from fedconformal.metrics import classification_mean_width_score
    >>> classification_mean_width_score([[True, False], [True, True]])
    array([1.5])
    """
    return np.asarray(_as_sets(y_pred_set).sum(axis=1).mean(axis=0))


def coverage_by_site(
    covered: ArrayLike, sites: ArrayLike, *, confidence: float = 0.95
) -> list[SiteCoverage]:
    """Return the coverage at each site with its exact binomial confidence interval.

    Parameters
    ----------
    covered : bool array of shape (n,)
        Whether each row's set held the outcome, as from `covered_by_intervals`.
    sites : array of shape (n,)
        The site of each row.
    confidence : float
        Each interval holds its site's coverage probability with at least this
        probability, if the site's rows are independent. It is per site, not for all
        sites at once.

    Returns
    -------
    list of SiteCoverage
        One per site, sorted by site, with ``site``, ``n``, ``covered``, ``coverage``,
        ``low`` and ``high``.

    Examples
    --------
    >>> [a, b] = coverage_by_site([True, True, False, True], ["A", "A", "B", "B"])
    >>> a.coverage, round(a.low, 4), a.high
    (1.0, 0.1581, 1.0)
    """
    hits = _as_booleans(covered, "covered", shapes={1: "(n,), one level at a time"})
    labels = plain_array(sites)
    if labels.shape != hits.shape:
        raise ValueError(
            f"sites must have shape {hits.shape} to match covered, got {labels.shape}"
        )
    if labels.dtype.kind == "f":
        all_rows("sites", labels, ~np.isnan(labels), "must not be nan")
    try:
        labels, index = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"sites must be labels of one kind, such as strings: {error}"
        ) from None
    n = np.bincount(index, minlength=len(labels))
    k = np.bincount(index[hits], minlength=len(labels))
    low, high = clopper_pearson(k, n, confidence=confidence)
    columns = (labels, n, k, k / n, low, high)
    return [
        SiteCoverage(*row)
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]


def clopper_pearson(
    successes: ArrayLike, n: ArrayLike, *, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the exact two-sided confidence interval for a binomial probability.

    Parameters
    ----------
    successes : array of integers
        Number of successes, from 0 to n.
    n : array of integers
        Number of independent trials, at least 1.
    confidence : float
        The interval holds the probability with at least this probability, whatever it
        is.

    Returns
    -------
    low, high : arrays
        low is 0 when nothing succeeded, high is 1 when everything did.

    Raises
    ------
    ValueError
        If the counts are impossible or the confidence is not strictly between 0 and 1.

    Examples
    --------
    >>> from fedconformal.metrics import clopper_pearson
    >>> low, high = clopper_pearson(9, 10)
    >>> round(float(low), 3), round(float(high), 3)
    (0.555, 0.997)
    """
    if not 0 < confidence < 1:
        raise ValueError(
            f"confidence must lie strictly between 0 and 1, got {confidence!r}"
        )
    k, trials = np.broadcast_arrays(
        number_array("successes", successes), number_array("n", n)
    )
    whole = (k == np.floor(k)) & (trials == np.floor(trials))
    if not np.all(whole & (k >= 0) & (k <= trials) & (trials >= 1)):
        raise ValueError(
            "successes and n must be integers with 0 <= successes <= n and n >= 1"
        )
    tail = (1 - confidence) / 2
    k = k.astype(np.int64)
    failures = trials.astype(np.int64) - k
    # At k = 0 and k = n one beta distribution is degenerate, so its parameter is
    # replaced and the end set.
    lowest = beta_quantile(np.maximum(k, 1), failures + 1, tail)
    highest = beta_quantile(k + 1, np.maximum(failures, 1), tail, upper=True)
    low = np.where(k == 0, 0.0, lowest)
    high = np.where(failures == 0, 1.0, highest)
    return low, high


def _as_intervals(y_intervals: ArrayLike) -> Floats:
    intervals = number_array("y_intervals", y_intervals).astype(np.float64, copy=False)
    if intervals.ndim not in {2, 3} or intervals.shape[1] != 2:
        raise ValueError(
            "y_intervals must have shape (n, 2) or (n, 2, n_levels), got"
            f" {intervals.shape}"
        )
    all_rows("y_intervals", intervals, ~np.isnan(intervals), "must not hold nan")
    return _add_level(intervals, "y_intervals")


def _as_sets(y_pred_set: ArrayLike) -> Bools:
    shapes = {2: "(n, n_classes)", 3: "(n, n_classes, n_levels)"}
    return _add_level(
        _as_booleans(y_pred_set, "y_pred_set", shapes=shapes), "y_pred_set"
    )


def _as_booleans(values: ArrayLike, argument: str, *, shapes: dict[int, str]) -> Bools:
    array = number_array(argument, values)
    if array.ndim not in shapes:
        raise ValueError(
            f"{argument} must have shape {' or '.join(shapes.values())}, got"
            f" {array.shape}"
        )
    # MAPIE turns any number into a boolean; a list of labels given for a set would
    # pass.
    all_rows(argument, array, (array == 0) | (array == 1), "must be True or False")
    return array.astype(np.bool_, copy=False)


def _add_level(array: NDArray[Any], argument: str) -> NDArray[Any]:
    if len(array) == 0:
        raise ValueError(
            f"{argument} must have at least one row, got shape {array.shape}"
        )
    return array[:, :, np.newaxis] if array.ndim == 2 else array


def _as_indices(
    y_true: ArrayLike, classes: ArrayLike, n_classes: int
) -> NDArray[np.intp]:
    """Return the column of each label."""
    names, labels = plain_array(classes).tolist(), plain_array(y_true)
    if np.ndim(names) != 1 or len(names) != n_classes or len(set(names)) != n_classes:
        raise ValueError(
            f"classes must be the {n_classes} different labels of the columns, got"
            f" {names}"
        )
    place = {name: i for i, name in enumerate(names)}
    flat = [place.get(label, -1) for label in labels.ravel().tolist()]
    indices = np.array(flat, dtype=np.intp).reshape(labels.shape)
    all_rows("y_true", labels, indices >= 0, f"must hold labels of classes, {names}")
    return indices


def _as_outcomes(y_true: ArrayLike, *, n: int, n_levels: int) -> Floats:
    outcomes = number_array("y_true", y_true).astype(np.float64, copy=False)
    if outcomes.shape not in {(n,), (n, 1), (n, n_levels)}:
        raise ValueError(
            f"y_true must have shape ({n},) or ({n}, {n_levels}), got {outcomes.shape}"
        )
    all_rows("y_true", outcomes, ~np.isnan(outcomes), "must not be nan")
    return outcomes.reshape(n, -1)
