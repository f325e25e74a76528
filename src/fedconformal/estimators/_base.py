"""What both estimators share: a model, the sites' calibration of it, scikit-learn's conventions."""

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.validation import check_is_fitted

from fedconformal import _validation
from fedconformal.documents import Calibration, Plan
from fedconformal.estimators._sites import split_by_site
from fedconformal.planning import plan
from fedconformal.scores import APS, LAC, RAPS, Absolute, Normalized, QuantileRegression, Score, from_name
from fedconformal.scores._base import Floats
from fedconformal.server import calibrate
from fedconformal.site import report

_IN_DOCUMENTS = (Absolute, Normalized, QuantileRegression, LAC, APS, RAPS)


class FederatedConformal(BaseEstimator):  # type: ignore[misc]
    """A model whose prediction sets are calibrated on scores that stay at their sites.

    ``estimator_`` and ``conformity_score_`` always belong to the calibration, if there is one: ``fit``
    drops the calibration of the model before, and parameters set later count from the next
    ``conformalize`` or ``from_calibration`` on.
    """

    _SCORES: ClassVar[tuple[str, ...]]
    _KIND: ClassVar[str]

    estimator: Any
    confidence_level: Any
    conformity_score: Any
    criterion: Any
    delta: float
    max_faulty: int
    prefit: bool

    @abstractmethod
    def _default_estimator(self) -> Any:
        """What ``estimator=None`` stands for."""

    @abstractmethod
    def _check_estimator(self, estimator: Any, score: Score) -> None:
        """Refuse an estimator, fitted or not, that cannot give what the score takes."""

    @abstractmethod
    def _row_scores(self, model: Any, score: Score, X: Any, y: Any) -> Floats:
        """The score of each row."""

    # -- the workflow ----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Train a clone of ``estimator``, with ``prefit=False``; ``conformalize`` comes next.

        Parameters
        ----------
        X, y : training data, which must not be used for ``conformalize``.
        **fit_params : passed to the estimator's ``fit`` (to each one's, if there are several).
        """
        if self.prefit:
            raise ValueError(
                "fit must be skipped with prefit=True, the estimator being fitted already: call "
                "conformalize, or set prefit=False"
            )
        score = self._checked_score()
        plan(**self._wishes())
        self._check_estimator(self._prototype(), score)
        y = y if y is None else column_or_1d(y, warn=True)
        models = clone(self._prototype())
        for model in models if isinstance(models, (list, tuple)) else [models]:
            model.fit(X, y, **fit_params)
        return self._adopt(models, score)

    def conformalize(self, X: Any, y: Any, *, sites: Any = None) -> Self:
        """Calibrate as a federation would: each site's scores are made into one report, and only these meet.

        Sets ``calibration_``. A level that no ranks reach gives an InfeasibleWarning and sets that hold
        everything.

        Parameters
        ----------
        X, y : calibration data, which the estimator was not trained on.
        sites : the site of each row: one label per row, of any kind, known by ``str(label)``. Sizes may
            differ. The same label for all rows is the usual split conformal prediction.
        """
        score = self._checked_score()
        model = self._model_to_calibrate(score)
        scores = split_by_site(self._row_scores(model, score, X, y), sites)
        chosen = plan(
            n_points={site: len(values) for site, values in scores.items()},
            score=_rule(score),
            **self._wishes(),
        )
        reports = [report(chosen, values, site=site) for site, values in scores.items()]
        return self._set_calibration(model, score, calibrate(chosen, reports))

    def from_calibration(self, calibration: Calibration) -> Self:
        """Use the result of a real federation (files, Flower) instead of ``conformalize``.

        Refused with a ValueError if its plan fixes another score, lacks a ``confidence_level`` of this
        estimator, or promises less than its ``criterion``, ``delta`` and ``max_faulty``. That the sites
        used this very model cannot be checked here.

        Parameters
        ----------
        calibration : for example ``Calibration.read("calibration.json")``.
        """
        if not isinstance(calibration, Calibration):
            raise TypeError(
                "calibration must be a Calibration, as Calibration.read(path) gives, "
                f"got {type(calibration).__name__}"
            )
        score = self._checked_score()
        rule = calibration.plan.score
        if rule is not None and from_name(rule.name, **rule.parameters()) != score:
            raise ValueError(
                f"conformity_score must be the score of the calibration's plan, "
                f"{from_name(rule.name, **rule.parameters())}, got {score}"
            )
        return self._set_calibration(self._model_to_calibrate(score), score, calibration)

    def _set_calibration(self, model: Any, score: Score, calibration: Calibration) -> Self:
        thresholds = _thresholds(plan(**self._wishes()), calibration)
        self._adopt(model, score)
        self.calibration_ = calibration
        self.thresholds_ = thresholds
        return self

    def _adopt(self, model: Any, score: Score) -> Self:
        if hasattr(self, "calibration_"):
            del self.calibration_, self.thresholds_
        self.estimator_ = model
        self.conformity_score_ = score
        return self

    @property
    def plan_(self) -> Plan:
        """The plan that the calibration answers."""
        self._check_calibrated()
        return self.calibration_.plan

    # -- parameters ------------------------------------------------------------------------------------

    def _wishes(self) -> dict[str, Any]:
        names = ("confidence_level", "criterion", "delta", "max_faulty")
        return {name: getattr(self, name) for name in names}

    def _checked_score(self) -> Score:
        given = self.conformity_score
        if isinstance(given, str):
            return from_name(_validation.choice("conformity_score", given, self._SCORES))
        if isinstance(given, type) or not isinstance(given, Score) or given.kind != self._KIND:
            raise ValueError(
                f"conformity_score must be one of {', '.join(map(repr, self._SCORES))} or a score object "
                f"whose kind is {self._KIND!r}, got {given!r}"
            )
        return given

    def _prototype(self) -> Any:
        return self._default_estimator() if self.estimator is None else self.estimator

    # -- the model -------------------------------------------------------------------------------------

    def _model_to_calibrate(self, score: Score) -> Any:
        """The given estimator with prefit=True, the trained one else."""
        model = self._given_model() if self.prefit else self._model()
        self._check_estimator(model, score)
        return model

    def _given_model(self) -> Any:
        _check_fitted(self.estimator)
        return self.estimator

    def _model(self) -> Any:
        """The model that predicts."""
        if hasattr(self, "estimator_"):
            return self.estimator_
        if self.prefit:
            return self._given_model()
        raise NotFittedError(
            f"This {type(self).__name__} is not fitted: call fit, then conformalize, "
            "or give a fitted estimator and prefit=True"
        )

    def _check_calibrated(self) -> None:
        if not hasattr(self, "calibration_"):
            raise NotFittedError(
                f"This {type(self).__name__} is not calibrated: call conformalize(X, y, sites=...) or "
                "from_calibration(calibration) first"
            )

    def _first_model(self) -> Any:
        model = self._model()
        return model[0] if isinstance(model, (list, tuple)) else model

    # -- scikit-learn ----------------------------------------------------------------------------------

    @property
    def n_features_in_(self) -> int:
        """How many features the model was trained with, where it tells."""
        return int(self._first_model().n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the features the model was trained with, where it tells."""
        return self._first_model().feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        """Whether ``predict`` will do; sets need a calibration too."""
        try:
            self._model()
        except NotFittedError:
            return False
        return True

    def __sklearn_clone__(self) -> Self:
        """An uncalibrated estimator with the same parameters; with prefit=True its model stays fitted."""
        new: Self = super().__sklearn_clone__()
        if self.prefit:
            new.estimator = deepcopy(self.estimator)
        return new

    def __sklearn_tags__(self) -> Any:
        """Input as the wrapped estimator takes it."""
        tags = super().__sklearn_tags__()
        inner = self._prototype()
        inner = inner[0] if isinstance(inner, (list, tuple)) and inner else inner
        if hasattr(inner, "__sklearn_tags__"):
            tags.input_tags = get_tags(inner).input_tags
        return tags


def _check_fitted(estimator: Any) -> None:
    """Raise NotFittedError unless fitted; an object that is no scikit-learn estimator is trusted."""
    if estimator is None:
        raise NotFittedError("estimator must be a fitted model with prefit=True, got None")
    for model in estimator if isinstance(estimator, (list, tuple)) else [estimator]:
        if isinstance(model, BaseEstimator):
            check_is_fitted(
                model, msg="estimator must be fitted with prefit=True, and this %(name)s is not: fit it first"
            )


def _rule(score: Score) -> Mapping[str, Any] | None:
    """The score as a plan holds it; None for one that documents do not know."""
    return {"name": score.name, **score.parameters()} if type(score) in _IN_DOCUMENTS else None


def _thresholds(asked: Plan, calibration: Calibration) -> Floats:
    """The threshold of each level that is asked for, or a ValueError if less is promised."""
    found = {level.confidence_level: level.threshold for level in calibration.levels}
    levels = [level.confidence_level for level in asked.levels]
    if not set(levels) <= set(found):
        raise ValueError(
            f"confidence_level must be among those of the calibration, {list(found)}, got {levels}"
        )
    if not _promised(asked, calibration):
        raise ValueError(
            f"the calibration promises less than is asked for: {_promise(calibration.plan)} instead of "
            f"{_promise(asked)}"
        )
    return np.array([found[level] for level in levels])


def _promised(asked: Plan, calibration: Calibration) -> bool:
    given = calibration.plan
    if given.max_faulty < asked.max_faulty:
        return False
    if given.criterion == asked.criterion:
        return (given.delta or 0) <= (asked.delta or 0)
    if asked.criterion != "marginal":
        return False
    if given.criterion == "stable":
        return True
    # Coverage that is large most of the time need not be so on average, which "marginal" asks for.
    means = {
        level.confidence_level: law.mean() for level, law in zip(given.levels, calibration.laws, strict=True)
    }
    return all(means[level.confidence_level] >= level.confidence_level for level in asked.levels)


def _promise(plan: Plan) -> str:
    delta = "" if plan.delta is None else f", delta={plan.delta:g}"
    return f"criterion={plan.criterion!r}{delta}, max_faulty={plan.max_faulty}"
