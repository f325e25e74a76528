"""From predictions to sets, with the thresholds of a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import quoted
from fedconformal._util import Bools, Floats, plain_array
from fedconformal.documents import Thresholds
from fedconformal.protocol._scoring import class_places, read_columns, score_of
from fedconformal.scores import IntervalScore, LabelScore, Score


def predict_interval(
    thresholds: Thresholds,
    prediction: ArrayLike,
    *,
    score: Score | None = None,
    **where: Any,
) -> Floats:
    """Return the prediction intervals of new cases; the method of thresholds."""
    rule = score_of(thresholds.score, score)
    if not isinstance(rule, IntervalScore):
        raise ValueError(f"score {rule.name!r} is not of numbers: use predict_set")
    intervals = prediction_sets(thresholds, rule, prediction, **where)
    if len(thresholds.levels) == 1:
        intervals = intervals[:, :, 0]
    return np.asarray(intervals)


def predict_set(
    thresholds: Thresholds,
    probabilities: Any,
    *,
    classes: Any = None,
    score: Score | None = None,
    as_labels: bool = False,
    **where: Any,
) -> Bools | list[Any]:
    """Return the prediction sets of new cases; the method of thresholds."""
    rule = score_of(thresholds.score, score)
    if isinstance(rule, IntervalScore):
        raise ValueError(f"score {rule.name!r} is of numbers: use predict_interval")
    if rule.takes_images:
        return _predict_masks(thresholds, rule, probabilities, **where)
    own = thresholds.classes
    if own is None and classes is not None:
        raise ValueError("classes was given, but the plan does not name its classes")
    table, names = read_columns("probabilities", probabilities, own, classes)
    places = np.arange(table.shape[-1])
    if own is not None and names is not None:
        places = class_places(names, own)
    in_order = prediction_sets(thresholds, rule, table[:, places], **where)
    sets: Bools = np.asarray(in_order, dtype=np.bool_)[:, np.argsort(places)]
    if as_labels:
        return labels_in(sets, names or own or range(sets.shape[1]))
    if len(thresholds.levels) == 1:
        sets = sets[:, :, 0]
    return sets


def _predict_masks(
    thresholds: Thresholds, score: Score, probabilities: Any, **where: Any
) -> Bools | list[Any]:
    """Return the pixels that are selected in each image."""
    masks: Any = prediction_sets(thresholds, score, probabilities, **where)
    images = list(masks)
    if len(thresholds.levels) == 1:
        images = [mask[..., 0] for mask in images]
    if isinstance(masks, list):
        return images
    return np.stack(images)


def prediction_sets(
    thresholds: Thresholds,
    score: Score,
    prediction: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    site: str | None = None,
    u: Any = None,
) -> Floats | Bools:
    """Return the sets of new cases at every level, each with the threshold of its
    group, site or class.

    Probabilities are in the order of the classes, where these have names; ``u`` are
    uniform numbers, or a source of them, for a randomized score. The shape is (n, 2,
    n_levels) or (n, n_classes, n_levels).

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import prediction_sets
    >>> calibration = fc.conformalize({"A": range(40)}, score="absolute")
    >>> prediction_sets(calibration.sets, fc.scores.Absolute(), [100.0])[:, :, 0]
    array([[ 64., 136.]])
    """
    refuse_answers(thresholds)
    _check_where(thresholds, groups, site)
    drawn = score.draws(u, of_sets=True)
    n_levels = len(thresholds.levels)
    if not thresholds.grouping.by_class:
        own = _own_thresholds(thresholds, groups, site)
        return score.sets(prediction, own, **drawn)
    if not isinstance(score, LabelScore):
        raise ValueError(
            f"score must be one of classes for a plan by class, got {score.name!r}"
        )
    of_classes = thresholds.threshold_of(thresholds.classes or (), site=site)
    by_class = of_classes.reshape(-1, n_levels)
    return score.sets_by_class(prediction, by_class, **drawn)


def _check_where(
    thresholds: Thresholds, groups: ArrayLike | None, site: str | None
) -> None:
    """Refuse groups and a site that do not say which thresholds are meant."""
    grouping = thresholds.grouping
    if groups is not None and grouping.by_class:
        raise ValueError(
            "`groups` was given, but this model was calibrated with groups by class,"
            " which predictions do not need"
        )
    if groups is not None and not grouping.by_label:
        raise ValueError(
            "`groups` was given, but this model was calibrated without groups"
        )
    if groups is None and grouping.by_label:
        raise ValueError(
            "groups must give the group of each case: the calibration has"
            f" {quoted(grouping.labels)}"
        )
    if site is not None and not grouping.by_site:
        raise ValueError(
            f"site must be left out, got {site!r}: the sites have no thresholds of"
            " their own"
        )


def _own_thresholds(
    thresholds: Thresholds, groups: ArrayLike | None, site: str | None
) -> Floats:
    """Return the thresholds of all cases, or a row for each case where they differ."""
    if groups is not None:
        n_cases = len(plain_array(groups))
        return thresholds.threshold_of(groups, site=site).reshape(n_cases, -1)
    group = None
    if thresholds.grouping.by_site:
        group = thresholds.grouping.group_of_site(site)
    return np.array(thresholds.by_group[group])


def refuse_answers(thresholds: Thresholds) -> None:
    """Refuse thresholds of confidences, which make no sets."""
    if thresholds.of_answers:
        raise ValueError(
            "this calibration makes no prediction sets: it says which cases are"
            " answered, those with a confidence of at least the threshold"
        )


def labels_in(sets: Bools, classes: Sequence[Any]) -> list[Any]:
    """Return the labels in each set as lists, in the order of the columns; with several
    levels, one for each.

    Examples
    --------
    >>> import numpy as np
    >>> labels_in(
    ...     np.array([[True, False], [True, True], [False, False]]), ["no", "yes"]
    ... )
    [['no'], ['no', 'yes'], []]
    """
    names = np.asarray(classes, dtype=object).tolist()
    if sets.ndim == 3 and sets.shape[2] > 1:
        by_level = [labels_in(sets[:, :, i], names) for i in range(sets.shape[2])]
        return [list(row) for row in zip(*by_level, strict=True)]
    flat = sets.reshape(len(sets), -1)
    listed = []
    for row in flat:
        listed.append([names[place] for place in np.flatnonzero(row)])
    return listed
