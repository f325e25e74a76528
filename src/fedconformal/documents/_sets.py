"""From predictions to sets, with the thresholds of a calibration."""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import quoted
from fedconformal._typing import Bools, Floats, Ints
from fedconformal._validation import plain_array
from fedconformal.documents._ceilings import MOST_CLASSES
from fedconformal.documents._names import label_text
from fedconformal.documents._plan import Plan
from fedconformal.documents._plan_parts import ScoreRule
from fedconformal.scores import SCORES, LabelScore, Score, from_name


class Calibrated(Protocol):
    """What sets need of a calibration."""

    @property
    def plan(self) -> Plan:
        """The plan that was answered."""

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The thresholds, one per level."""

    def threshold_of(self, labels: ArrayLike, *, site: str | None = None) -> Floats:
        """The threshold for each point, by its label."""

    def __getitem__(self, label: str) -> Self:
        """The calibration of one group."""


def everything_sentences(calibration: "Calibrated") -> tuple[str, ...]:
    """What is in every set because of a finite threshold that admits it, whatever the prediction is.

    Parameters
    ----------
    calibration : Calibration
        Of a plan that fixes a score of labels; of others nothing can be said.

    Returns
    -------
    tuple of str
        A sentence for each threshold that admits every label, or by class its own label.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.documents import everything_sentences
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
    told = []
    for label in plan.labels or (None,):
        alone = calibration if label is None else calibration[label]
        for level, threshold in zip(plan.confidence_levels, alone.thresholds, strict=True):
            if threshold < np.inf and rule.admits_all(threshold, n_classes):
                told.append(_everything(plan, label, level, threshold))
    return tuple(told)


def _everything(plan: Plan, label: str | None, level: float, threshold: float) -> str:
    where = "" if label is None else f", group {label!r}"
    what = f"label {label!r} is in every set"
    if label is None or not plan.grouping.by_class:
        what = "every label is in every set"
    return f"Level {level:g}{where}: the threshold, {threshold:g}, is as large as a score can be, so {what}."


def prediction_sets(
    calibration: Calibrated,
    score: Score,
    prediction: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    site: str | None = None,
    u: Any = None,
) -> Floats | Bools:
    """The sets of new points at every level, each with the threshold of its group, site or class.

    Parameters
    ----------
    calibration : Calibration
        With its thresholds.
    score : Score
        By which they were found.
    prediction : array of shape (n,) or (n, n_columns)
        As the score takes it; probabilities in the order of the plan's classes, where it names them.
    groups : array-like of shape (n,), optional
        The label of each point, where groups are made of labels that are known beforehand.
    site : str, optional
        The site that the points are from, where each has thresholds of its own.
    u : array of shape (n,) or Generator, optional
        Where a randomized score takes its uniform numbers from.

    Returns
    -------
    array of shape (n, 2, n_levels) or (n, n_classes, n_levels)

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.documents import prediction_sets
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


def label_sets(
    calibration: Calibrated,
    score: LabelScore,
    probabilities: Any,
    *,
    classes: Any = None,
    groups: ArrayLike | None = None,
    site: str | None = None,
    u: Any = None,
) -> tuple[Bools, Sequence[Any]]:
    """The label sets of new points, and what their columns stand for; columns as those of the probabilities.

    Columns that are named after the plan's classes are found by name, in whatever order they come.
    """
    table = plain_array(probabilities)
    names, own = named_columns(probabilities, classes), calibration.plan.classes
    if own is not None and (table.ndim != 2 or table.shape[1] != len(own)):
        raise ValueError(
            f"probabilities must have one column for each of the {len(own)} classes of the plan, got "
            f"shape {table.shape}"
        )
    if own is None and classes is not None:
        raise ValueError("classes go with a plan that names its classes, and this one does not")
    places = np.arange(table.shape[-1]) if own is None or names is None else class_places(names, own)
    sets = prediction_sets(calibration, score, table[:, places], groups=groups, site=site, u=u)
    given = np.asarray(sets, dtype=np.bool_)[:, np.argsort(places)]
    return given, names or own or range(given.shape[1])


def score_of(rule: ScoreRule | None, given: Score | None = None) -> Score:
    """The score that a plan fixes, or else one that is given.

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
    >>> from fedconformal.documents import score_of
    >>> score_of(fc.plan(score="raps").score)
    RAPS(penalty=0.01, k_reg=5, randomized=False)
    """
    if rule is None:
        if given is None:
            raise ValueError("score must be given: the plan fixes none")
        return given
    found = from_name(rule.name, **rule.parameters)
    if given is not None and given != found:
        raise ValueError(f"score must be the score of the plan, {found}, got {given}")
    return found


def class_places(names: Sequence[Any], classes: Sequence[str]) -> Ints:
    """Where each class is among columns that are named after classes, so that none is taken for another.

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
    >>> from fedconformal.documents import class_places
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
    """The labels that are in each set, where people want lists rather than columns.

    Parameters
    ----------
    sets : bool array of shape (n, n_classes) or (n, n_classes, n_levels)
        Which labels are in the set of each point.
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
    """The names of columns of probabilities: those given, or those of a data frame.

    Parameters
    ----------
    prediction : array-like or data frame
        The probabilities.
    classes : iterable, optional
        The names, if given.

    Returns
    -------
    list or None
    """
    found = classes if classes is not None else getattr(prediction, "columns", None)
    return None if found is None else np.asarray(list(found), dtype=object).tolist()


def _check_arguments(calibration: Calibrated, groups: Any, site: str | None) -> None:
    grouping = calibration.plan.grouping
    if groups is not None and not grouping.by_label:
        why = "sets by class need none" if grouping.by_class else "this one has none"
        raise ValueError(f"groups go with a calibration that has groups by label: {why}")
    if groups is None and grouping.by_label:
        raise ValueError(
            f"groups must give the group of each point: the calibration has {quoted(grouping.labels)}"
        )
    if site is not None and not grouping.by_site:
        raise ValueError(f"site must be left out, got {site!r}: the sites have no thresholds of their own")


def _thresholds(calibration: Calibrated, groups: ArrayLike | None, site: str | None) -> Floats:
    """The thresholds of all points, (n_levels,), or those of each, (n, n_levels)."""
    grouping = calibration.plan.grouping
    if groups is not None:
        return calibration.threshold_of(groups, site=site).reshape(len(plain_array(groups)), -1)
    alone = calibration[grouping.group_of_site(site)] if grouping.by_site else calibration
    return np.array(alone.thresholds)
