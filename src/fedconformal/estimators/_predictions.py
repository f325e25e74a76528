"""Predictions of a regressor in the form that an interval score takes."""

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from fedconformal._text import quoted
from fedconformal._typing import Floats
from fedconformal.scores import SCORES, IntervalScore, names_of

Numbers = NDArray[Any]


def check_models(estimator: Any, score: IntervalScore) -> None:
    """Refuse a list of models that does not give the score's columns."""
    if not isinstance(estimator, (list, tuple)):
        return
    if not score.one_model_per_column:
        able = [name for name in names_of(IntervalScore) if SCORES[name].one_model_per_column]  # type: ignore[attr-defined]
        raise ValueError(
            f"estimator may be a list only with conformity_score={quoted(able)}; "
            f"got {len(estimator)} models with {score}"
        )
    if len(estimator) - len(score.columns) not in (0, 1):
        columns = ", ".join(score.columns)
        raise ValueError(
            f"estimator must be a list [{columns}] or [{columns}, points] with {score}, "
            f"got {len(estimator)} models"
        )


def point_predictions(model: Any, score: IntervalScore, X: Any) -> Numbers:
    """Return the point predictions alone, which may cost less."""
    if _takes_option(model, score):
        return np.asarray(model.predict(X))
    return points_and_prediction(model, score, X)[0]


def points_and_prediction(model: Any, score: IntervalScore, X: Any) -> tuple[Numbers, Floats]:
    """Return point predictions, and the predictions that the score takes."""
    if isinstance(model, (list, tuple)):
        columns = [column_or_1d(each.predict(X)) for each in model]
        prediction = _prediction(model, score, np.column_stack(columns[: len(score.columns)]))
        extra = columns[len(score.columns) :]
        return extra[0] if extra else score.points(prediction), prediction
    if _takes_option(model, score):
        table = np.column_stack(model.predict(X, **{str(score.predict_option): True}))
    else:
        table = np.asarray(model.predict(X))
    prediction = _prediction(model, score, table)
    return score.points(prediction), prediction


def _prediction(model: Any, score: IntervalScore, table: Numbers) -> Floats:
    """Return the columns of the score, or refuse what the model returned instead."""
    columns = table[:, np.newaxis] if table.ndim == 1 else table
    if columns.ndim != 2 or columns.shape[1] != len(score.columns):
        option = "" if score.predict_option is None else f", or predict with {score.predict_option}=True"
        models = f", or a list of models [{', '.join(score.columns)}]" if score.one_model_per_column else ""
        raise ValueError(
            f"conformity_score={score.name!r} needs {score.column_help()}{option}{models}; "
            f"{type(model).__name__} returned shape {table.shape}"
        )
    return score.prediction_from(columns)


def _takes_option(model: Any, score: IntervalScore) -> bool:
    """Return whether predict has the option that makes it return all columns of the score."""
    if score.predict_option is None or isinstance(model, (list, tuple)):
        return False
    # A Pipeline passes the argument on to its last step.
    while hasattr(model, "steps"):
        model = model.steps[-1][1]
    return score.predict_option in signature(model.predict).parameters
