"""From predictions to sets, with the thresholds of a calibration."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import quoted
from fedconformal._util import Bools, Floats, Ints, plain_array
from fedconformal.documents import MOST_CLASSES, Calibration, ScoreRule, label_text
from fedconformal.scores import SCORES, IntervalScore, LabelScore, Score, from_name


def predict_interval(
    calibration: Calibration,
    prediction: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    site: str | None = None,
    score: Score | None = None,
) -> Floats:
    """Return the prediction intervals of new cases; the method of a calibration."""
    rule = score_of(calibration.plan.score, score)
    if not isinstance(rule, IntervalScore):
        raise ValueError(f"score {rule.name!r} is of classes: use predict_set")
    sets = prediction_sets(calibration, rule, prediction, groups=groups, site=site)
    return np.asarray(sets[:, :, 0] if sets.shape[2] == 1 else sets)


def predict_set(
    calibration: Calibration,
    probabilities: Any,
    *,
    classes: Any = None,
    groups: ArrayLike | None = None,
    site: str | None = None,
    score: Score | None = None,
    u: Any = None,
    as_labels: bool = False,
) -> Bools | list[Any]:
    """Return the prediction sets of new cases; the method of a calibration."""
    rule = score_of(calibration.plan.score, score)
    if not isinstance(rule, LabelScore):
        raise ValueError(f"score {rule.name!r} is of numbers: use predict_interval")
    table = plain_array(probabilities)
    names, own = named_columns(probabilities, classes), calibration.plan.classes
    if own is not None and (table.ndim != 2 or table.shape[1] != len(own)):
        raise ValueError(
            f"probabilities must have one column for each of the {len(own)} classes of the plan, got "
            f"shape {table.shape}"
        )
    if own is None and classes is not None:
        raise ValueError("classes was given, but the plan does not name its classes")
    places = np.arange(table.shape[-1]) if own is None or names is None else class_places(names, own)
    sets = prediction_sets(calibration, rule, table[:, places], groups=groups, site=site, u=u)
    given = np.asarray(sets, dtype=np.bool_)[:, np.argsort(places)]
    if as_labels:
        return labels_in(given, names or own or range(given.shape[1]))
    return given[:, :, 0] if given.shape[2] == 1 else given


def everything_sentences(calibration: Calibration) -> tuple[str, ...]:
    """Describe thresholds that put a label into every set, whatever the prediction is.

    Parameters
    ----------
    calibration : Calibration
        Of a plan that fixes a score of labels; of others nothing can be said.

    Returns
    -------
    tuple of str
        A sentence for each finite threshold that admits every label, or by class its own label.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import everything_sentences
    >>> calibration = fc.conformalize({"A": [1.0] * 40}, score="lac")
    >>> len(everything_sentences(calibration))
    1
    """
    plan = calibration.plan
    if plan.score is None or plan.score.name not in SCORES:
        return ()
    rule = score_of(plan.score)
    if not isinstance(rule, LabelScore):
        return ()
    n_classes = MOST_CLASSES if plan.classes is None else len(plan.classes)
    sentences = []
    for part in calibration.parts:
        group = part.design.group
        for level, threshold in zip(plan.confidence_levels, part.thresholds, strict=True):
            if threshold < np.inf and rule.admits_all(threshold, n_classes):
                where = "" if group is None else f", group {group!r}"
                by_class = group is not None and plan.grouping.by_class
                what = f"label {group!r} is in every set" if by_class else "every label is in every set"
                sentences.append(
                    f"Level {level:g}{where}: the threshold, {threshold:g}, is as large as a score can be, "
                    f"so {what}."
                )
    return tuple(sentences)


def prediction_sets(
    calibration: Calibration,
    score: Score,
    prediction: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    site: str | None = None,
    u: Any = None,
) -> Floats | Bools:
    """Return the sets of new cases at every level, each with the threshold of its group, site or class.

    Parameters
    ----------
    calibration : Calibration
        With its thresholds.
    score : Score
        The score that was calibrated.
    prediction : array of shape (n,) or (n, n_columns)
        As the score takes it; probabilities in the order of the plan's classes, where it names them.
    groups : array-like of shape (n,), optional
        The label of each case, where groups are made of labels that are known beforehand.
    site : str, optional
        The site of the cases, where each has thresholds of its own.
    u : array of shape (n,) or Generator, optional
        Uniform numbers for a randomized score.

    Returns
    -------
    array of shape (n, 2, n_levels) or (n, n_classes, n_levels)

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import prediction_sets
    >>> calibration = fc.conformalize({"A": range(40)}, score="absolute")
    >>> prediction_sets(calibration, fc.scores.Absolute(), [100.0])[:, :, 0]
    array([[ 64., 136.]])
    """
    _check_arguments(calibration, groups, site)
    if not calibration.plan.grouping.by_class:
        return score.sets(prediction, _thresholds(calibration, groups, site), **score.draws(u))
    if not isinstance(score, LabelScore):
        raise ValueError(f"score must be one of classes for a plan by class, got {score.name!r}")
    by_class = calibration.threshold_of(calibration.plan.classes or (), site=site)
    n_levels = len(calibration.plan.confidence_levels)
    return score.sets_by_class(prediction, by_class.reshape(-1, n_levels), **score.draws(u))


def score_of(rule: ScoreRule | None, given: Score | None = None) -> Score:
    """Return the score that a plan fixes, or else one that is given.

    Parameters
    ----------
    rule : ScoreRule or None
        The plan's.
    given : Score, optional
        Where the plan fixes none.

    Returns
    -------
    Score

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import score_of
    >>> score_of(fc.plan(score="raps").score)
    RAPS(penalty=0.01, k_reg=5, randomized=False)
    """
    if rule is None:
        if given is None:
            raise ValueError("score must be given: the plan fixes none")
        return given
    fixed = from_name(rule.name, **rule.parameters)
    if given is not None and given != fixed:
        raise ValueError(f"score must be the score of the plan, {fixed}, got {given}")
    return fixed


def class_places(names: Sequence[Any], classes: Sequence[str]) -> Ints:
    """Return the place of each class among columns that are named after classes.

    Parameters
    ----------
    names : sequence
        The names of the columns: the classes, or the classes after a beginning that all have in common.
    classes : sequence of str
        The classes in the order that is wanted.

    Returns
    -------
    array of int
        The place of the column of each class.

    Raises
    ------
    ValueError
        If the names are not those of the classes.

    Examples
    --------
    >>> from fedconformal.protocol import class_places
    >>> class_places(["p_sick", "p_well"], ["well", "sick"]).tolist()
    [1, 0]
    """
    given = [label_text(name) for name in names]
    shared = (sum(map(len, given)) - sum(map(len, classes))) // max(len(classes), 1)
    known = [name[shared:] if shared > 0 else name for name in given]
    alike = shared <= 0 or len({name[:shared] for name in given}) == 1
    if alike and len(known) == len(classes) and set(known) == set(classes):
        place_of = {name: place for place, name in enumerate(known)}
        return np.array([place_of[name] for name in classes])
    raise ValueError(
        f"columns must be named after the classes, {quoted(classes)}, in any order, got {quoted(given)}"
    )


def labels_in(sets: Bools, classes: Sequence[Any]) -> list[Any]:
    """Return the labels in each set as lists.

    Parameters
    ----------
    sets : bool array of shape (n, n_classes) or (n, n_classes, n_levels)
        Membership of each label in the set of each case.
    classes : sequence
        The label of each column.

    Returns
    -------
    list of n lists
        The labels of each set, in the order of the columns; with several levels, one such list for each.

    Examples
    --------
    >>> import numpy as np
    >>> labels_in(np.array([[True, False], [True, True], [False, False]]), ["no", "yes"])
    [['no'], ['no', 'yes'], []]
    """
    names = np.asarray(classes, dtype=object).tolist()
    if sets.ndim == 3 and sets.shape[2] > 1:
        return [[labels_in(row[:, i][np.newaxis], names)[0] for i in range(row.shape[1])] for row in sets]
    flat = sets.reshape(len(sets), -1)
    return [[names[place] for place in np.flatnonzero(row)] for row in flat]


def named_columns(prediction: Any, classes: Any) -> list[Any] | None:
    """Return the names of columns of probabilities: those given, or those of a data frame."""
    names = classes if classes is not None else getattr(prediction, "columns", None)
    return None if names is None else np.asarray(list(names), dtype=object).tolist()


def _check_arguments(calibration: Calibration, groups: Any, site: str | None) -> None:
    grouping = calibration.plan.grouping
    if groups is not None and not grouping.by_label:
        what = (
            "with groups by class, which predictions do not need" if grouping.by_class else "without groups"
        )
        raise ValueError(f"`groups` was given, but this model was calibrated {what}")
    if groups is None and grouping.by_label:
        raise ValueError(
            f"groups must give the group of each case: the calibration has {quoted(grouping.labels)}"
        )
    if site is not None and not grouping.by_site:
        raise ValueError(f"site must be left out, got {site!r}: the sites have no thresholds of their own")


def _thresholds(calibration: Calibration, groups: ArrayLike | None, site: str | None) -> Floats:
    """Return the thresholds of all cases, (n_levels,), or those of each, (n, n_levels)."""
    grouping = calibration.plan.grouping
    if groups is not None:
        return calibration.threshold_of(groups, site=site).reshape(len(plain_array(groups)), -1)
    group = grouping.group_of_site(site) if grouping.by_site else None
    return np.array(calibration.by_group[group].thresholds)
