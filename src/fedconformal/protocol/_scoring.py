"""Scores of cases from their truth and prediction, as the question asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._text import quoted
from fedconformal._util import (
    Floats,
    Ints,
    Scores,
    all_rows,
    numbers_or_nan,
    plain_array,
)
from fedconformal.documents import CheckQuestion, Plan, ScoreRule, label_text
from fedconformal.protocol._report import warn_of_empty
from fedconformal.scores import LabelScore, LossScore, Score, from_name


def score_of(rule: ScoreRule | None, given: Score | None = None) -> Score:
    """Return the score that a plan fixes, or else one that is given.

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


def score_cases(
    score: Score,
    truth: ArrayLike,
    prediction: Any,
    *,
    classes: Sequence[str] | None = None,
    edges: Sequence[float] | None = None,
    plan: Plan | CheckQuestion | None = None,
    private: bool = False,
    draw: Callable[..., Any] = lambda *cases: None,
) -> Scores:
    """Return the score of each case from its truth and prediction, or its losses at
    these edges.

    Classes may be given by number, or by name where the plan names them; then columns
    of a data frame are found by name. For a private answer a case without a score gets
    NaN, and no error reveals it. ``draw`` is as for `measure_cases`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.protocol import score_cases
    >>> score_cases(fc.scores.LAC(), ["sick"], [[0.25, 0.75]], classes=["well", "sick"])
    array([0.25])
    """
    if score.takes_images and not private:
        return measure_cases(score, truth, prediction, edges, plan, draw)
    table, outcomes = plain_array(prediction), plain_array(truth)
    if isinstance(score, LossScore) and classes is not None:
        table, outcomes = (
            _in_order("prediction", prediction, classes),
            _in_order("truth", truth, classes),
        )
    if isinstance(score, LabelScore) and classes is not None:
        table, outcomes = (
            _in_order("prediction", prediction, classes),
            class_numbers(truth, classes),
        )
        if not private:
            rule = f"must be classes of the plan, {quoted(classes)}"
            all_rows("truth", plain_array(truth), ~np.isnan(outcomes), rule)
    table = table[:, np.newaxis] if table.ndim == 1 else table
    if private:
        drawn = score.draws(draw(score))
        return score.scores_or_nan(
            numbers_or_nan(outcomes), numbers_or_nan(table), **drawn
        )
    outcomes = score.truth_from(outcomes, argument="truth")
    return measure_cases(
        score, outcomes, score.prediction_from(table), edges, plan, draw
    )


def measure_cases(
    score: Score,
    truth: Any,
    prediction: Any,
    edges: ArrayLike | None = None,
    plan: Plan | CheckQuestion | None = None,
    draw: Callable[..., Any] = lambda *cases: None,
) -> Floats:
    """Return the score of each case, or if edges are given its loss at each: 1 if it is
    missed, or a share.

    Warns for a plan of losses if many cases have nothing to miss. ``draw`` takes score,
    truth and prediction and returns the source of random numbers; for losses nothing is
    drawn.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.protocol.measure_cases(fc.scores.Absolute(), [3.0], [1.0], [1, 2, 3])
    array([[1., 0., 0.]])
    """
    if edges is not None and isinstance(score, LossScore):
        if isinstance(plan, Plan):
            warn_of_empty(
                plan, np.mean(score.losses(truth, prediction, [-1.0]) == 0)
            )  # nothing is selected
        return score.losses(truth, prediction, edges)
    drawn = score.draws(draw(score, truth, prediction)) if score.needs_draws else {}
    values = score.score(truth, prediction, **drawn)
    return (
        values
        if edges is None
        else np.array(values[:, np.newaxis] > np.asarray(edges), dtype=float)
    )


def _in_order(name: str, values: Any, classes: Sequence[str]) -> NDArray[Any]:
    """Return a column for each class, in the order of the classes where columns have
    names.
    """
    table, names = read_columns(name, values, classes)
    return table if names is None else table[:, class_places(names, classes)]


def class_numbers(truth: ArrayLike, classes: Sequence[str]) -> Floats:
    """Return the number of each case's class, given by its name or number; NaN where it
    is neither.

    Examples
    --------
    >>> class_numbers(["sick", "well", "ill"], ["well", "sick"])
    array([ 1.,  0., nan])
    >>> class_numbers([1, 0], ["well", "sick"]), class_numbers([9, 8], ["8", "9"])
    (array([1., 0.]), array([1., 0.]))
    """
    numbers: dict[Any, float] = {
        name: float(place) for place, name in enumerate(classes)
    }
    # Classes that are called by numbers have these alone.
    called = {int(name): place for name, place in numbers.items() if name.isdecimal()}
    numbers |= called or {place: float(place) for place in range(len(classes))}
    values = plain_array(
        truth, dtype=None if hasattr(truth, "dtype") else object
    ).tolist()
    is_label = (isinstance(value, str | int | float) for value in values)
    return np.array(
        [
            numbers.get(value, np.nan) if known else np.nan
            for value, known in zip(values, is_label, strict=True)
        ]
    )


def class_places(names: Sequence[Any], classes: Sequence[str]) -> Ints:
    """Return the place of each class among columns that are named after classes.

    The names are the classes, or the classes after a beginning that all have in common.

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
        f"columns must be named after the classes, {quoted(classes)}, in any order, got"
        f" {quoted(given)}"
    )


def read_columns(
    name: str, probabilities: Any, own: Sequence[str] | None, classes: Any = None
) -> tuple[NDArray[Any], list[Any] | None]:
    """Return probabilities, a column for each class of the plan if it names them, and
    the columns' names.
    """
    table = plain_array(probabilities)
    names = getattr(probabilities, "columns", None) if classes is None else classes
    if own is not None and (table.ndim != 2 or table.shape[1] != len(own)):
        raise ValueError(
            f"{name} must have one column for each of the {len(own)} classes of the"
            f" plan, got shape {table.shape}"
        )
    return table, (
        None if names is None else np.asarray(list(names), dtype=object).tolist()
    )
