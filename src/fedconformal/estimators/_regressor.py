"""Prediction intervals for any regressor."""

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, is_classifier
from sklearn.linear_model import LinearRegression
from sklearn.utils import column_or_1d

from fedconformal._text import quoted
from fedconformal._util import Floats
from fedconformal.estimators._base import FederatedConformal
from fedconformal.scores import SCORES, IntervalScore, list_scores

Numbers = NDArray[Any]


class FederatedConformalRegressor(RegressorMixin, FederatedConformal[IntervalScore]):  # type: ignore[misc]
    """Prediction intervals calibrated over sites.

    If, given the model, all calibration rows and the new row have independent and identically distributed
    scores, an interval holds the outcome with mean probability at least ``confidence_level``;
    ``calibration_.law`` is the distribution of that probability given the data, or a lower bound of it (with
    ``max_faulty``, ``curve`` or ``privacy``).

    Parameters
    ----------
    estimator : regressor, or list of them
        Fitted with ``prefit=True``. What it must predict depends on ``conformity_score``. None is a
        LinearRegression, with ``prefit=False`` only.
    confidence_level : float or list of floats
        Coverage wanted; with several, the intervals have a last axis with one entry for each.
    conformity_score : {"absolute", "normalized", "cqr"} or scores.IntervalScore, optional
        ``"absolute"``, if left out: ``predict`` returns (n,). ``"normalized"``: it takes ``return_std=True``
        (Gaussian processes, BayesianRidge, also at the end of a Pipeline) or returns (n, 2), mean and sigma.
        ``"cqr"``: it returns (n, 2), a lower and an upper quantile, or ``estimator`` is a list [lower, upper]
        or [lower, upper, points]. A score of one's own gets the columns that it names.
    criterion, delta, max_faulty, max_missing, promise, mixture, numbers, curve, privacy : optional
        Options of the plan, with the same defaults; see `fedconformal.plan`.
    group_by : {"site", "label"} or both, optional
        What groups are made of; see `fedconformal.plan`. With the site, each site has thresholds of its
        own. Left out, a label for each row if ``conformalize`` is given any.
    prefit : bool
        True: use the fitted estimator as it is, and skip ``fit``. False: ``fit`` trains a clone.
    calibration_size : float
        With ``prefit=False``, the share of each site's rows that ``fit`` sets aside for calibration where it
        is given ``sites``.
    rng : None, int or numpy Generator
        Where ``fit`` takes the random numbers from by which rows are set aside.

    Attributes
    ----------
    estimator_ : regressor, or list of them
        The fitted model.
    calibration_ : Calibration
        Thresholds, their guarantee, the sites; ``plan_`` is its plan.
    thresholds_ : array of shape (n_levels,), or dict of them by group
        The threshold of each level.
    conformity_score_ : IntervalScore
        The score in use.
    n_features_in_, feature_names_in_ : int and array
        As the model has them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1200, 3))
    >>> y = X.sum(axis=1) + rng.normal(size=1200)
    >>> model = LinearRegression().fit(X[:200], y[:200])
    >>> regressor = FederatedConformalRegressor(model, confidence_level=0.9, criterion="marginal")
    >>> hospitals = np.repeat(["A", "B", "C", "D"], 250)
    >>> points, intervals = regressor.conformalize(X[200:], y[200:], sites=hospitals).predict_interval(X[:5])
    >>> points.shape, intervals.shape, round(regressor.calibration_.law.mean(), 3)
    ((5,), (5, 2, 1), 0.901)
    """

    _score_class = IntervalScore
    _default_score = "absolute"
    _default_estimator = LinearRegression

    def predict(self, X: Any) -> Numbers:
        """Return point predictions; no calibration is needed.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.

        Returns
        -------
        array of shape (n,)
            The mean for ``"normalized"``. For ``"cqr"`` the prediction of the model for points where there is
            one, else the middle of the two quantiles.
        """
        model = self._model()
        score = self.conformity_score_ if hasattr(self, "estimator_") else self._read_score()
        self._check_estimator(model, score)
        return _point_predictions(model, score, X)

    def predict_interval(self, X: Any, *, groups: Any = None, sites: Any = None) -> tuple[Numbers, Floats]:
        """Return point predictions, and closed intervals that hold every y that scores at most the threshold.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.
        groups : array-like of shape (n,), optional
            With groups, the group of each row; the interval of one that was not calibrated is infinite, with
            an UnknownGroupWarning.
        sites : str or int, or array-like of shape (n,), optional
            Where sites have thresholds of their own, the site of all rows, or of each.

        Returns
        -------
        y_pred : array of shape (n,)
            Point predictions.
        intervals : array of shape (n, 2, n_levels)
            Infinite where the level cannot be reached. An empty one (``"cqr"`` with a very negative
            threshold) is (+inf, -inf), with an EmptySetWarning.
        """
        self._check_calibrated()
        points, prediction = _points_and_prediction(self.estimator_, self.conformity_score_, X)
        intervals: Floats = self._sets(prediction, groups, sites)
        return points, intervals

    def _check_estimator(self, estimator: Any, score: IntervalScore) -> None:
        _check_models(estimator, score)
        for model in estimator if isinstance(estimator, (list, tuple)) else [estimator]:
            if _is_classifier(model):
                raise ValueError(
                    f"estimator must be a regressor, and {type(model).__name__} is a classifier: its sets "
                    "are made by FederatedConformalClassifier"
                )

    def _row_scores(self, model: Any, score: IntervalScore, X: Any, y: Any) -> Floats:
        _, prediction = _points_and_prediction(model, score, X)
        return score.score(column_or_1d(y), prediction)


def _is_classifier(model: Any) -> bool:
    """Return whether a model says so; one that is no scikit-learn estimator may be of the older kind."""
    if hasattr(model, "__sklearn_tags__"):
        return bool(is_classifier(model))
    return getattr(model, "_estimator_type", None) == "classifier"


def _check_models(estimator: Any, score: IntervalScore) -> None:
    """Refuse a list of models that does not give the score's columns."""
    if not isinstance(estimator, (list, tuple)):
        return
    if not score.one_model_per_column:
        able = [name for name in list_scores(IntervalScore) if SCORES[name].one_model_per_column]  # type: ignore[attr-defined]
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


def _point_predictions(model: Any, score: IntervalScore, X: Any) -> Numbers:
    """Return the point predictions alone, which may cost less."""
    if _takes_option(model, score):
        return np.asarray(model.predict(X))
    return _points_and_prediction(model, score, X)[0]


def _points_and_prediction(model: Any, score: IntervalScore, X: Any) -> tuple[Numbers, Floats]:
    """Return point predictions, and the predictions that the score takes."""
    if isinstance(model, (list, tuple)):
        columns = [column_or_1d(column_model.predict(X)) for column_model in model]
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
