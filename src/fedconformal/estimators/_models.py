"""Prediction intervals for any regressor, prediction sets for any classifier with
probabilities.
"""

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if

from fedconformal._text import quoted, warn
from fedconformal._util import Floats, is_missing
from fedconformal.estimators._base import FederatedConformal, as_list, make_generator
from fedconformal.protocol import class_places, labels_in
from fedconformal.scores import SCORES, IntervalScore, LabelScore, list_scores

Numbers = NDArray[Any]

_SCORING, _PREDICTING = 0, 1
"""Streams of random numbers; `fit` has one of its own."""


class FederatedConformalRegressor(RegressorMixin, FederatedConformal[IntervalScore]):  # type: ignore[misc]
    """Prediction intervals calibrated over sites.

    If, given the model, all calibration rows and the new row have independent and
    identically distributed scores, an interval holds the outcome with mean probability
    at least ``confidence_level``; ``calibration_.law`` is the distribution of that
    probability given the data, or a lower bound of it (with ``max_faulty``, ``curve``
    or ``privacy``).

    Parameters
    ----------
    estimator : regressor, or list of them
        Fitted with ``prefit=True``. What it must predict depends on
        ``conformity_score``. None is a LinearRegression, with ``prefit=False`` only.
    confidence_level : float or list of floats
        Coverage wanted; with several, the intervals have a last axis with one entry for
        each.
    conformity_score : {"absolute", "normalized", "cqr"} or IntervalScore, optional
        ``"absolute"``, if left out: ``predict`` returns (n,). ``"normalized"``: it
        takes ``return_std=True`` (Gaussian processes, BayesianRidge, also at the end of
        a Pipeline) or returns (n, 2), mean and sigma. ``"cqr"``: it returns (n, 2), a
        lower and an upper quantile, or ``estimator`` is a list [lower, upper] or
        [lower, upper, points]. A score of one's own gets the columns that it names.
    criterion, delta, max_faulty, max_missing, promise, mixture : optional
        Options of the plan, with the same defaults; see `fedconformal.plan`.
    numbers, curve, privacy : optional
        What each site sends; see `fedconformal.plan`.
    group_by : {"site", "label"} or both, optional
        What groups are made of; see `fedconformal.plan`. With the site, each site has
        thresholds of its own. Left out, a label for each row if ``conformalize`` is
        given any.
    prefit : bool
        True: use the fitted estimator as it is, and skip ``fit``. False: ``fit`` trains
        a clone.
    calibration_size : float
        With ``prefit=False``, the share of each site's rows that ``fit`` sets aside for
        calibration where it is given ``sites``.
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
    >>> regressor = FederatedConformalRegressor(
    ...     model, confidence_level=0.9, criterion="marginal"
    ... )
    >>> hospitals = np.repeat(["A", "B", "C", "D"], 250)
    >>> points, intervals = regressor.conformalize(
    ...     X[200:], y[200:], sites=hospitals
    ... ).predict_interval(X[:5])
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
            The mean for ``"normalized"``. For ``"cqr"`` the prediction of the model for
            points where there is one, else the middle of the two quantiles.
        """
        model = self._model()
        score = (
            self.conformity_score_
            if hasattr(self, "estimator_")
            else self._read_score()
        )
        self._check_estimator(model, score)
        if _takes_option(model, score):  # without it, points alone may cost less
            return np.asarray(model.predict(X))
        return _points_and_prediction(model, score, X)[0]

    def predict_interval(
        self, X: Any, *, groups: Any = None, sites: Any = None
    ) -> tuple[Numbers, Floats]:
        """Return point predictions, and closed intervals that hold every y that scores
        at most the threshold.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.
        groups : array-like of shape (n,), optional
            With groups, the group of each row; the interval of one that was not
            calibrated is infinite, with an UnknownGroupWarning.
        sites : str or int, or array-like of shape (n,), optional
            Where sites have thresholds of their own, the site of all rows, or of each.

        Returns
        -------
        y_pred : array of shape (n,)
            Point predictions.
        intervals : array of shape (n, 2, n_levels)
            Infinite where the level cannot be reached. An empty one (``"cqr"`` with a
            very negative threshold) is (+inf, -inf), with an EmptySetWarning.
        """
        self._check_calibrated()
        points, prediction = _points_and_prediction(
            self.estimator_, self.conformity_score_, X
        )
        intervals: Floats = self._sets(prediction, groups, sites)
        return points, intervals

    def _check_estimator(self, estimator: Any, score: IntervalScore) -> None:
        if isinstance(estimator, (list, tuple)) and not score.one_model_per_column:
            able = [
                name
                for name in list_scores(IntervalScore)
                if SCORES[name].one_model_per_column  # type: ignore[attr-defined]
            ]
            raise ValueError(
                f"estimator may be a list only with conformity_score={quoted(able)}; "
                f"got {len(estimator)} models with {score}"
            )
        if isinstance(estimator, (list, tuple)) and len(estimator) - len(
            score.columns
        ) not in (0, 1):
            columns = ", ".join(score.columns)
            raise ValueError(
                f"estimator must be a list [{columns}] or [{columns}, points] with"
                f" {score}, got {len(estimator)} models"
            )
        for model in as_list(estimator):
            # One that is no scikit-learn estimator may be of the older kind.
            old = getattr(model, "_estimator_type", None) == "classifier"
            if is_classifier(model) if hasattr(model, "__sklearn_tags__") else old:
                raise ValueError(
                    f"estimator must be a regressor, and {type(model).__name__} is a"
                    " classifier: its sets are made by FederatedConformalClassifier"
                )

    def _row_scores(self, model: Any, score: IntervalScore, X: Any, y: Any) -> Floats:
        _, prediction = _points_and_prediction(model, score, X)
        return score.score(column_or_1d(y), prediction)


def _points_and_prediction(
    model: Any, score: IntervalScore, X: Any
) -> tuple[Numbers, Floats]:
    """Return point predictions, and the predictions that the score takes."""
    n_columns, points = len(score.columns), None
    if isinstance(model, (list, tuple)):
        columns = [column_or_1d(column_model.predict(X)) for column_model in model]
        table = np.column_stack(columns[:n_columns])
        points = columns[n_columns] if len(columns) > n_columns else None
    elif _takes_option(model, score):
        table = np.column_stack(model.predict(X, **{str(score.predict_option): True}))
    else:
        table = np.asarray(model.predict(X))
    matrix = table[:, np.newaxis] if table.ndim == 1 else table
    if matrix.ndim != 2 or matrix.shape[1] != n_columns:
        option = (
            ""
            if score.predict_option is None
            else f", or predict with {score.predict_option}=True"
        )
        models = (
            f", or a list of models [{', '.join(score.columns)}]"
            if score.one_model_per_column
            else ""
        )
        raise ValueError(
            f"conformity_score={score.name!r} needs"
            f" {score.column_help()}{option}{models}; {type(model).__name__} returned"
            f" shape {table.shape}"
        )
    prediction = score.prediction_from(matrix)
    return score.points(prediction) if points is None else points, prediction


def _takes_option(model: Any, score: IntervalScore) -> bool:
    """Return whether predict has the option that makes it return all columns of the
    score.
    """
    if score.predict_option is None or isinstance(model, (list, tuple)):
        return False
    # A Pipeline passes the argument on to its last step.
    while hasattr(model, "steps"):
        model = model.steps[-1][1]
    return score.predict_option in signature(model.predict).parameters


def _has_probabilities(self: "FederatedConformalClassifier") -> bool:
    inner = self._model() if self.__sklearn_is_fitted__() else self._prototype()
    return hasattr(inner, "predict_proba")


class FederatedConformalClassifier(ClassifierMixin, FederatedConformal[LabelScore]):  # type: ignore[misc]
    """Prediction sets of labels calibrated over sites.

    If, given the model, all calibration rows and the new row have independent and
    identically distributed scores, a set holds the label with mean probability at least
    ``confidence_level``; ``calibration_.law`` is the distribution of that probability
    given the data, or a lower bound of it (with ``max_faulty``, ``curve`` or
    ``privacy``).

    Parameters
    ----------
    estimator : classifier with predict_proba
        Fitted with ``prefit=True``. None is a LogisticRegression, with ``prefit=False``
        only.
    confidence_level : float or list of floats
        Coverage wanted; with several, the sets have a last axis with one entry for
        each.
    conformity_score : {"lac", "aps", "raps"} or scores.LabelScore, optional
        ``"lac"`` if left out. The names ``"aps"`` and ``"raps"`` stand for randomized
        scores, one uniform number for each row when it calibrates and one when it is
        predicted: else sets hold twice as many labels or more. ``scores.APS()`` is not
        randomized.
    criterion, delta, max_faulty, max_missing, promise, mixture : optional
        Options of the plan, with the same defaults; see `fedconformal.plan`.
    numbers, curve, privacy : optional
        What each site sends; see `fedconformal.plan`.
    group_by : {"class", "site", "label"} or a pair of the site and another, optional
        What groups are made of; see `fedconformal.plan`. ``"class"``: a threshold for
        each true class, so that every class is covered, whatever the mix. With the
        site, each site has thresholds of its own. Left out, a label for each row if
        ``conformalize`` is given any.
    prefit : bool
        True: use the fitted estimator as it is, and skip ``fit``. False: ``fit`` trains
        a clone.
    calibration_size : float
        With ``prefit=False``, the share of each site's rows that ``fit`` sets aside for
        calibration where it is given ``sites``.
    rng : None, int or numpy Generator
        Where a randomized score takes its uniform numbers from, one per row, in
        ``conformalize`` and in ``predict_set``, and ``fit`` those by which rows are set
        aside. An int gives the same numbers in every call, by the row's position, and
        different ones for each method.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    classes_ : array of shape (n_classes,)
        The labels, in the order of the sets' second axis.
    calibration_ : Calibration
        Thresholds, their guarantee, the sites; ``plan_`` is its plan.
    thresholds_ : array of shape (n_levels,), or dict of them by group
        The threshold of each level.
    conformity_score_ : LabelScore
        The score in use.
    n_features_in_, feature_names_in_ : int and array
        As the model has them.

    Notes
    -----
    A calibration label that the model has never seen scores +inf, with a warning: no
    set of known labels holds it. Coverage can then not exceed the share of known
    labels. If no label is known, that is an error.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X[::2], y[::2])
    >>> classifier = FederatedConformalClassifier(model, confidence_level=0.8)
    >>> classifier = classifier.conformalize(
    ...     X[1::2], y[1::2], sites=["A", "B", "C"] * 25
    ... )
    >>> labels, sets = classifier.predict_set(X[:5])
    >>> labels.shape, sets.shape
    ((5,), (5, 3, 1))
    """

    _score_class = LabelScore
    _default_score = "lac"
    _default_estimator = LogisticRegression

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the sets' second axis."""
        return np.asarray(self._model().classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the model's label for each row; no calibration is needed.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.

        Returns
        -------
        array of shape (n,)
            Labels.
        """
        return np.asarray(self._model().predict(X))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the model's class probabilities.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.

        Returns
        -------
        array of shape (n, n_classes)
            Columns in the order of ``classes_``.
        """
        return np.asarray(self._model().predict_proba(X))

    def predict_set(
        self, X: Any, *, groups: Any = None, sites: Any = None, as_labels: bool = False
    ) -> tuple[NDArray[Any], Any]:
        """Return the model's labels, and which labels score at most the threshold.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.
        groups : array-like of shape (n,), optional
            With groups, the group of each row; the set of one that was not calibrated
            holds all labels, with an UnknownGroupWarning.
        sites : str or int, or array-like of shape (n,), optional
            Where sites have thresholds of their own, the site of all rows, or of each.
        as_labels : bool
            Whether each set is a list of its labels.

        Returns
        -------
        y_pred : array of shape (n,)
            The model's labels.
        sets : bool array of shape (n, n_classes, n_levels), or list of n lists
            Columns in the order of ``classes_``. All labels where the level cannot be
            reached; a row without a true entry is an empty set. With ``as_labels``, the
            labels of each row's set, in the order of ``classes_``; with several levels,
            one such list for each.
        """
        self._check_calibrated()
        probabilities = np.asarray(self.estimator_.predict_proba(X))
        draws = self._draws(self.conformity_score_, len(probabilities), _PREDICTING)
        places = np.arange(len(self.classes_))
        if (
            self.plan_.classes is not None
        ):  # whose columns are in another order, perhaps
            places = class_places(_class_names(self.classes_), self.plan_.classes)
        sets = self._sets(probabilities[:, places], groups, sites, draws.get("u"))[
            :, np.argsort(places)
        ]
        return self.predict(X), (
            labels_in(sets, self.classes_.tolist()) if as_labels else sets
        )

    def _check_estimator(self, estimator: Any, score: LabelScore) -> None:
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"estimator must have predict_proba, and {type(estimator).__name__}"
                " has not"
            )
        if caution := score.caution(len(getattr(estimator, "classes_", ()))):
            warn(caution)

    def _named_score(self, name: str) -> LabelScore:
        """Return the score of a name, randomized where it can be."""
        return super()._named_score(name).with_draws()

    def _row_scores(self, model: Any, score: LabelScore, X: Any, y: Any) -> Floats:
        probabilities = np.asarray(model.predict_proba(X))
        places = find_class_indices(column_or_1d(y), model.classes_)
        draws = self._draws(score, len(probabilities), _SCORING)
        scores = score.score(np.maximum(places, 0), probabilities, **draws)
        scores[places < 0] = np.inf
        return scores

    def _labels(
        self, groups: Any, y: Any, model: Any
    ) -> tuple[Any, dict[str, Any] | None]:
        if groups is not None and list(map(str, groups)) == list(
            map(str, column_or_1d(y).tolist())
        ):
            raise ValueError(
                "groups must be known before the truth is, and these are y itself:"
                " group_by='class' makes thresholds by true class"
            )
        return super()._labels(groups, y, model)

    def _classes(self, y: Any, model: Any) -> tuple[list[str], dict[str, Any]]:
        labels, names = _class_names(column_or_1d(y)), _class_names(model.classes_)
        if unknown := [label for label in labels if label not in set(names)]:
            raise ValueError(
                "y must hold classes of the classifier with"
                f" group_by={self.group_by!r}, got {quoted(sorted(set(unknown)))} in"
                f" {len(unknown)} of {len(labels)} rows"
            )
        return labels, {"classes": names}

    def _draws(self, score: LabelScore, n: int, stream: int) -> dict[str, Any]:
        """Draw the random numbers of a randomized score; the calibration's are
        independent of the sets'.
        """
        if not score.needs_draws:
            return {}
        return score.draws(make_generator(self.rng, stream).random(n))


def _class_names(classes: Any) -> list[str]:
    """Return classes as plans name them: text, or what is shown of anything else."""
    return [str(label) for label in np.asarray(classes).tolist()]


def find_class_indices(y: NDArray[Any], classes: Any) -> NDArray[np.intp]:
    """Return the class index of each label; -1, with a warning, for those the
    classifier does not know.
    """
    index = {label: i for i, label in enumerate(np.asarray(classes).tolist())}
    labels = y.tolist()
    places = np.array([index.get(label, -1) for label in labels], dtype=np.intp)
    unknown = [label for label, place in zip(labels, places, strict=True) if place < 0]
    if any(is_missing(label) for label in unknown):
        raise ValueError("y must not hold missing labels (None, NaN)")
    if len(unknown) == len(labels):
        raise ValueError(
            f"y must hold classes of the classifier, {quoted(_class_names(classes))};"
            f" none of the {len(labels)} rows does (first: {unknown[0]!r})"
        )
    if unknown:
        warn(
            f"{len(unknown)} of {len(labels)} calibration labels are not among the"
            f" classifier's classes, the first is {unknown[0]!r}. They score +inf; no"
            " set holds them, whatever the threshold."
        )
    return places
