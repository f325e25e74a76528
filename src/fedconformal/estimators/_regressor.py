"""Prediction intervals for any regressor."""

from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.utils import column_or_1d

from fedconformal.estimators._base import FederatedConformal
from fedconformal.scores import Absolute, Normalized, QuantileRegression, Score
from fedconformal.scores._base import Floats

Numbers = NDArray[Any]


class FederatedConformalRegressor(RegressorMixin, FederatedConformal):  # type: ignore[misc]
    """Prediction intervals calibrated over sites.

    If, given the model, all calibration rows and the new row have independent and identically distributed
    scores, an interval holds the outcome with mean probability at least ``confidence_level``
    (``criterion="marginal"``); ``calibration_.law`` is the exact law of that probability given the data.

    Parameters
    ----------
    estimator : regressor, or list of two or three of them
        Fitted with ``prefit=True``. What it must predict depends on ``conformity_score``. None is a
        LinearRegression, with ``prefit=False`` only.
    confidence_level : float or list of floats
        Coverage wanted; with several, the intervals have a last axis with one entry for each.
    conformity_score : {"absolute", "normalized", "cqr"} or a `fedconformal.scores` object
        ``"absolute"``: ``predict`` returns (n,). ``"normalized"``: it takes ``return_std=True`` (Gaussian
        processes, BayesianRidge, also at the end of a Pipeline) or returns (n, 2), mean and sigma.
        ``"cqr"``: it returns (n, 2), a lower and an upper quantile, or ``estimator`` is a list [lower, upper]
        or [lower, upper, median]. A score of one's own gets what ``predict`` returns.
    criterion, delta, max_faulty
        See `fedconformal.plan`.
    prefit : bool
        True: use the fitted estimator as it is, and skip ``fit``. False: ``fit`` trains a clone.

    Attributes
    ----------
    estimator_ : the fitted model (or list of models).
    calibration_ : Calibration
        Threshold, exact law, sites; ``plan_`` is its plan.
    thresholds_ : array of shape (n_levels,)
    conformity_score_ : the score in use.
    n_features_in_, feature_names_in_ : as the model has them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1200, 3))
    >>> y = X.sum(axis=1) + rng.normal(size=1200)
    >>> model = LinearRegression().fit(X[:200], y[:200])
    >>> regressor = FederatedConformalRegressor(model, confidence_level=0.9)
    >>> hospitals = np.repeat(["A", "B", "C", "D"], 250)
    >>> points, intervals = regressor.conformalize(X[200:], y[200:], sites=hospitals).predict_interval(X[:5])
    >>> points.shape, intervals.shape, round(regressor.calibration_.law.mean(), 3)
    ((5,), (5, 2, 1), 0.901)
    """

    _SCORES: ClassVar = ("absolute", "normalized", "cqr")
    _KIND: ClassVar = "interval"

    def __init__(
        self,
        estimator: Any = None,
        *,
        confidence_level: Any = 0.9,
        conformity_score: Any = "absolute",
        criterion: Any = "marginal",
        delta: float = 0.1,
        max_faulty: int = 0,
        prefit: bool = True,
    ) -> None:
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.conformity_score = conformity_score
        self.criterion = criterion
        self.delta = delta
        self.max_faulty = max_faulty
        self.prefit = prefit

    def predict(self, X: Any) -> Numbers:
        """Return point predictions, shape (n,).

        They are the mean for ``"normalized"``, and for ``"cqr"`` the median where there is a model for
        it, else the middle of the two quantiles. No calibration is needed.
        """
        model = self._model()
        score = self.conformity_score_ if hasattr(self, "estimator_") else self._checked_score()
        self._check_estimator(model, score)
        if isinstance(score, Normalized) and _takes_return_std(model):
            return np.asarray(model.predict(X))
        return _predict(model, score, X)[0]

    def predict_interval(self, X: Any) -> tuple[Numbers, Floats]:
        """Return point predictions, and closed intervals that hold every y that scores at most the threshold.

        Returns
        -------
        y_pred : array of shape (n,)
        intervals : array of shape (n, 2, n_levels)
            Infinite where the level cannot be reached. An empty one (``"cqr"`` with a very negative
            threshold) is (+inf, -inf), with an EmptySetWarning.
        """
        self._check_calibrated()
        points, prediction = _predict(self.estimator_, self.conformity_score_, X)
        return points, np.asarray(self.conformity_score_.set(prediction, self.thresholds_))

    def _default_estimator(self) -> Any:
        return LinearRegression()

    def _check_estimator(self, estimator: Any, score: Score) -> None:
        if not isinstance(estimator, (list, tuple)):
            return
        if not isinstance(score, QuantileRegression) or len(estimator) not in (2, 3):
            raise ValueError(
                "estimator may be a list only with conformity_score='cqr', [lower, upper] or "
                f"[lower, upper, median]; got {len(estimator)} models with {score}"
            )

    def _row_scores(self, model: Any, score: Score, X: Any, y: Any) -> Floats:
        _, prediction = _predict(model, score, X)
        return score.score(column_or_1d(y), prediction)


def _predict(model: Any, score: Score, X: Any) -> tuple[Numbers, Numbers]:
    """Point predictions, and the predictions that the score takes."""
    if isinstance(score, QuantileRegression):
        return _quantiles(model, X)
    if isinstance(score, Normalized):
        return _mean_and_sigma(model, X)
    prediction = np.asarray(model.predict(X))
    if isinstance(score, Absolute) and prediction.ndim == 2 and prediction.shape[1] == 1:
        prediction = prediction[:, 0]
    return prediction, prediction


def _mean_and_sigma(model: Any, X: Any) -> tuple[Numbers, Numbers]:
    if _takes_return_std(model):
        pairs = np.column_stack(model.predict(X, return_std=True))
    else:
        pairs = _pairs(
            model, X, "'normalized' needs an estimator whose predict takes return_std=True or returns"
        )
    return pairs[:, 0], pairs


def _takes_return_std(model: Any) -> bool:
    # A Pipeline passes the argument on to its last step.
    while hasattr(model, "steps"):
        model = model.steps[-1][1]
    return "return_std" in signature(model.predict).parameters


def _quantiles(model: Any, X: Any) -> tuple[Numbers, Numbers]:
    if not isinstance(model, (list, tuple)):
        pairs = _pairs(model, X, "'cqr' needs a list [lower, upper] or an estimator whose predict returns")
        return pairs.mean(axis=1), pairs
    lower, upper, *median = (column_or_1d(each.predict(X)) for each in model)
    pairs = np.column_stack([lower, upper])
    return median[0] if median else pairs.mean(axis=1), pairs


def _pairs(model: Any, X: Any, need: str) -> Numbers:
    pairs = np.asarray(model.predict(X))
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            f"conformity_score={need} shape (n, 2); {type(model).__name__} returned {pairs.shape}"
        )
    return pairs
