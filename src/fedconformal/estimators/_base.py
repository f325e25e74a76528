"""Base class of both estimators: a model, the sites' calibration of it, scikit-learn's
conventions.
"""

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from inspect import signature
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing, column_or_1d, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import _check_method_params, _num_samples, check_is_fitted

from fedconformal import _util, messages
from fedconformal._util import Floats
from fedconformal.documents import Calibration, CalibrationPart, Design, Plan
from fedconformal.laws import MEAN_ERROR
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.privacy import Bins, Privacy
from fedconformal.protocol import (
    InfeasibleWarning,
    conformalize,
    group_names,
    plan,
    prediction_sets,
    read_group_by,
    rows_by_site,
    score_of,
)
from fedconformal.scores import (
    Score,
    explain_no_score,
    from_name,
    is_registered,
    list_scores,
)

# -- rows that `fit` sets aside for calibration ----------------------------------------


_FITTING = 2  # the stream of random numbers by which rows are set aside


def make_generator(rng: Any, stream: int) -> np.random.Generator:
    """Return the source of random numbers; an int gives a fixed one for each stream."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(
        None if rng is None else [stream, _util.integer("rng", rng, low=0)]
    )


def split_rows(
    sites: Any, n: int, *, share: float, rng: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows for training and those for calibration: a share of each site's
    rows, one at least.
    """
    part = float(_util.fraction("calibration_size", share))
    source = make_generator(rng, _FITTING)
    kept = [
        source.permutation(rows)[: max(1, round(part * len(rows)))]
        for rows in rows_by_site(sites, n).values()
    ]
    calibration = np.sort(np.concatenate(kept))
    training = np.setdiff1d(np.arange(n), calibration)
    if training.size == 0:
        raise ValueError(
            f"calibration_size must leave rows for training, got {share} of {n} rows"
        )
    return training, calibration


# -- checks that a calibration from elsewhere promises what an estimator asks for ------


_SHARE_ERROR = 1e-6


def find_levels(
    wanted: Design,
    mixture: Mapping[str, float] | None,
    privacy: Privacy | None,
    calibration: Calibration,
) -> list[int]:
    """Return the places of the wanted levels in a calibration, or refuse one that
    promises less.
    """
    levels = calibration.plan.confidence_levels
    if not set(wanted.confidence_levels) <= set(levels):
        raise ValueError(
            f"confidence_level must be among those of the calibration, {list(levels)}, "
            f"got {list(wanted.confidence_levels)}"
        )
    places = [levels.index(level) for level in wanted.confidence_levels]
    for part in calibration.parts:
        if not all(_is_promised(wanted, part, place) for place in places):
            raise ValueError(
                "the calibration promises less than is asked for:"
                f" {_describe_terms(part.design)} instead of {_describe_terms(wanted)}"
            )
    if mixture is not None:
        planned = None if calibration.plan.is_grouped else calibration.plan.mixture
        shares = {
            site: share / sum(mixture.values()) for site, share in mixture.items()
        }
        if (
            not isinstance(planned, dict)
            or planned.keys() != shares.keys()
            or any(
                abs(shares[site] - float(share)) > _SHARE_ERROR
                for site, share in planned.items()
            )
        ):
            raise ValueError(
                f"mixture must be that of the calibration, got {dict(mixture)!r}"
            )
    if privacy is not None:
        for design in calibration.plan.designs:
            epsilon = messages.of(design.message).epsilon(design)
            if epsilon is None or epsilon > privacy.exact_epsilon:
                actual = (
                    "exact reports"
                    if epsilon is None
                    else f"an epsilon of {float(epsilon):g}"
                )
                raise ValueError(
                    f"privacy asks for an epsilon of {privacy.epsilon:g}, and the"
                    f" calibration has {actual}"
                )
    return places


def _is_promised(wanted: Design, part: CalibrationPart, place: int) -> bool:
    """Return whether one group of a calibration promises as much at one of its
    levels.
    """
    design = part.design
    # If all cases are of one population, a promise to any of the sites is a promise to
    # it.
    is_same = design.promise == wanted.promise
    if design.max_faulty < wanted.max_faulty or not (
        is_same or PROMISES[wanted.promise].pools
    ):
        return False
    if is_same and design.criterion == wanted.criterion:
        return (design.delta or 0) <= (wanted.delta or 0)
    if part.thresholds[place] == math.inf:
        return True
    law, guarantee = messages.law(design, place), messages.guarantee(design, place)
    if law is None:
        return False
    criterion, level = CRITERIA[wanted.criterion](), design.confidence_levels[place]
    if (
        criterion.is_mean
    ):  # where noise bounds the distribution, its mean is bounded more closely
        return bool(guarantee.mean >= level - MEAN_ERROR)
    return criterion.follows_from(
        law, level, None if wanted.delta is None else float(wanted.delta)
    )


def _describe_terms(design: Design) -> str:
    delta = "" if design.delta is None else f", delta={float(design.delta):g}"
    terms = f"promise={design.promise!r}, criterion={design.criterion!r}{delta}"
    return f"{terms}, max_faulty={design.max_faulty}"


S = TypeVar("S", bound=Score)

_PLAN_OPTIONS = frozenset(signature(plan).parameters)


class FederatedConformal(BaseEstimator, Generic[S]):  # type: ignore[misc]
    """A model whose prediction sets are calibrated on scores that stay at their sites.

    ``estimator_`` and ``conformity_score_`` always belong to the calibration, if there
    is one: ``fit`` drops the calibration of the model before, and parameters set later
    count from the next ``conformalize`` or ``from_calibration`` on. After another
    ``confidence_level`` was set, sets are refused until then.
    """

    _score_class: type[S]
    """Class that a score must be an instance of."""
    _default_score: str
    """Name of the score that is meant where none is given."""
    _default_estimator: type
    """Class of the model that ``estimator=None`` stands for."""

    def __init__(
        self,
        estimator: Any = None,
        *,
        confidence_level: Any = 0.9,
        conformity_score: Any = None,
        criterion: Any = None,
        delta: float = 0.1,
        max_faulty: int = 0,
        max_missing: int | None = None,
        promise: str = "population",
        mixture: Mapping[str, float] | None = None,
        numbers: int | None = None,
        curve: Bins | None = None,
        privacy: Privacy | None = None,
        group_by: Any = None,
        prefit: bool = True,
        calibration_size: float = 0.5,
        rng: Any = None,
    ) -> None:
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.conformity_score = conformity_score
        self.criterion = criterion
        self.delta = delta
        self.max_faulty = max_faulty
        self.max_missing = max_missing
        self.promise = promise
        self.mixture = mixture
        self.numbers = numbers
        self.curve = curve
        self.privacy = privacy
        self.group_by = group_by
        self.prefit = prefit
        self.calibration_size = calibration_size
        self.rng = rng

    @abstractmethod
    def _check_estimator(self, estimator: Any, score: S) -> None:
        """Refuse an estimator, fitted or not, that cannot give what the score takes."""

    @abstractmethod
    def _row_scores(self, model: Any, score: S, X: Any, y: Any) -> Floats:
        """Compute the score of each row."""

    def _labels(
        self, groups: Any, y: Any, model: Any
    ) -> tuple[Any, dict[str, Any] | None]:
        """Return the label of each row where there are groups, and the terms of the
        plan.
        """
        by = read_group_by(self.group_by)
        if by is None or "label" in by:
            if by is not None and groups is None:
                raise ValueError(
                    "groups must give the group of each row with"
                    f" group_by={self.group_by!r}"
                )
            return groups, None
        if groups is not None:
            raise ValueError(f"groups must be left out with group_by={self.group_by!r}")
        return self._classes(y, model) if "class" in by else (None, None)

    def _classes(self, y: Any, model: Any) -> tuple[list[str], dict[str, Any]]:
        """Return the true class of each row, and the terms of a plan that names the
        classes.
        """
        raise ValueError(
            "group_by must not be of classes with numbers as outcomes, got"
            f" {self.group_by!r}"
        )

    # -- the workflow ------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sites: Any = None,
        groups: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Train a clone of ``estimator``, with ``prefit=False``; with ``sites``,
        calibrate it too.

        Without ``sites`` all rows are for training, and ``conformalize`` comes next.
        With ``sites`` the share ``calibration_size`` of each site's rows is set aside
        at random, the model is trained on the others, and calibrated on those; with
        ``prefit=True`` all rows are for calibration, as in ``conformalize``. So one
        call does it all in a pipeline or a cross-validation, which pass on ``sites``
        and ``groups``: after ``set_fit_request(sites=True, groups=True)`` where
        metadata routing is enabled.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Training data. Without ``sites`` they must not be used for ``conformalize``.
        y : array-like of shape (n,)
            Their outcomes.
        sites, groups : array-like of shape (n,), optional
            The site, and the group, of each row; see ``conformalize``.
        **fit_params : dict
            Passed to the estimator's ``fit`` (to each one's, if there are several).

        Returns
        -------
        self
            With ``estimator_``, and with ``calibration_`` if ``sites`` were given.
        """
        if self.prefit:
            if sites is None:
                raise ValueError(
                    "fit must be skipped with prefit=True, the estimator being fitted"
                    " already: call conformalize, or set prefit=False"
                )
            return self.conformalize(X, y, sites=sites, groups=groups)
        if sites is None:
            if groups is not None:
                raise ValueError(
                    "`groups` was given without `sites`, so nothing would be calibrated"
                )
            return self._train(X, y, fit_params)
        training, calibration = split_rows(
            sites, _num_samples(X), share=self.calibration_size, rng=self.rng
        )
        params = _check_method_params(X, fit_params, training)
        self._train(_safe_indexing(X, training), _safe_indexing(y, training), params)
        X, y, sites = (_safe_indexing(values, calibration) for values in (X, y, sites))
        groups = None if groups is None else _safe_indexing(groups, calibration)
        return self.conformalize(X, y, sites=sites, groups=groups)

    def _train(self, X: Any, y: Any, fit_params: dict[str, Any]) -> Self:
        score = self._read_score()
        self._make_design(score)
        models = clone(self._prototype())
        self._check_estimator(models, score)
        y = y if y is None else column_or_1d(y, warn=True)
        if get_config()[
            "enable_metadata_routing"
        ]:  # then the model gets what it requests
            fit_params = dict(process_routing(self, "fit", **fit_params).estimator.fit)
        for model in as_list(models):
            model.fit(X, y, **fit_params)
        return self._adopt(models, score)

    def conformalize(
        self,
        X: Any,
        y: Any,
        *,
        sites: Any = None,
        groups: Any = None,
        ledgers: Any = None,
    ) -> Self:
        """Calibrate as a federation would: each site's scores are made into one report,
        and only these meet.

        A level that no ranks reach gives an InfeasibleWarning and sets that hold
        everything.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Calibration data, which the estimator was not trained on.
        y : array-like of shape (n,)
            Their outcomes.
        sites : array-like of shape (n,)
            The site of each row: labels of any kind, known by ``str(label)``. Sizes may
            differ. The same label for all rows is the usual split conformal prediction.
        groups : array-like of shape (n,), optional
            For one threshold for each group of rows, the group of each: text, whole
            numbers or booleans. New rows are then predicted with the label of theirs,
            which must be known before their outcome is.
        ledgers : mapping from site to Ledger, optional
            With ``privacy``, the account of each site that its answer is charged to,
            under the data set ``"calibration"``. Left out, accounts are simulated, each
            with just enough for this call.

        Returns
        -------
        self
            With ``calibration_``.
        """
        if sites is None:
            raise ValueError(
                "sites must give the site of each row of X, got None; if all rows are"
                " from one site, give each the same label"
            )
        score = self._read_score()
        model = self._model_to_calibrate(score)
        labels, terms = self._labels(groups, y, model)
        calibration = conformalize(
            self._row_scores(model, score, X, y),
            sites=sites,
            groups=None if labels is None else _name_booleans(labels),
            ledgers=ledgers,
            terms=terms,
            **self._options(score),
        )
        places = list(range(len(calibration.plan.confidence_levels)))
        return self._set_calibration(model, score, calibration, places)

    def from_calibration(self, calibration: Calibration) -> Self:
        """Use the result of a real federation (files, Flower) instead of
        ``conformalize``.

        The calibration must promise at least what this estimator asks for: the same
        promise and criterion with a ``delta`` that is not larger, or a distribution of
        the coverage from which the criterion follows. For ``criterion=None``,
        ``"stable"`` and ``"marginal"``, whose promise is the mean coverage, that is any
        distribution whose mean is at least the level. A promise to each site is one for
        the population too. That the sites used this very model cannot be checked here.

        Parameters
        ----------
        calibration : Calibration
            For example ``Calibration.read("calibration.json")``; with groups, new rows
            are predicted with the labels of theirs.

        Returns
        -------
        self
            With ``calibration_``.

        Raises
        ------
        ValueError
            If its plan fixes another score, lacks a ``confidence_level`` of this
            estimator, or promises less than its ``promise``, ``criterion``, ``delta``
            and ``max_faulty``.
        """
        if not isinstance(calibration, Calibration):
            raise TypeError(
                "calibration must be a Calibration, as Calibration.read(path) gives, "
                f"got {type(calibration).__name__}"
            )
        score = self._score_of_plan(calibration.plan)
        if (
            self.group_by is not None
            and read_group_by(self.group_by) != calibration.plan.group_by
        ):
            raise ValueError(
                "group_by must be that of the calibration's plan,"
                f" {calibration.plan.group_by}, got {self.group_by!r}"
            )
        model = self._model_to_calibrate(score)
        places = find_levels(
            self._make_design(score), self.mixture, self.privacy, calibration
        )
        return self._set_calibration(model, score, calibration, places)

    def _set_calibration(
        self, model: Any, score: S, calibration: Calibration, places: list[int]
    ) -> Self:
        self._adopt(model, score)
        self.calibration_ = calibration
        self._level_places, self._calibrated_level = (
            places,
            deepcopy(self.confidence_level),
        )
        return self

    def _adopt(self, model: Any, score: S) -> Self:
        if hasattr(self, "calibration_"):
            del self.calibration_, self._level_places, self._calibrated_level
        self.estimator_ = model
        self.conformity_score_ = score
        return self

    @property
    def plan_(self) -> Plan:
        """The plan that the calibration answers."""
        self._check_calibrated()
        return self.calibration_.plan

    @property
    def thresholds_(self) -> Any:
        """The threshold of each level, shape (n_levels,); with groups, by label."""
        self._check_calibrated()
        by_group = {
            group: np.array(part.thresholds)[self._level_places]
            for group, part in self.calibration_.by_group.items()
        }
        return by_group if self.plan_.is_grouped else by_group[None]

    def _sets(self, prediction: Any, groups: Any, sites: Any, u: Any = None) -> Any:
        """Return the sets of new rows at the levels that are asked for, (n, ...,
        n_levels).
        """
        if not np.array_equal(self.confidence_level, self._calibrated_level):
            raise ValueError(
                f"confidence_level was changed to {self.confidence_level} after a"
                f" calibration at {self._calibrated_level}: call conformalize or"
                " from_calibration again"
            )
        n = len(prediction)
        labels = None if groups is None else group_names(_name_booleans(groups), n)
        rows_of: dict[Any, Any] = {None: np.arange(n)}
        if self.plan_.grouping.by_site:
            rows_of = rows_by_site(
                (
                    np.repeat(sites, n)
                    if np.ndim(sites) == 0 and sites is not None
                    else sites
                ),
                n,
            )
        elif sites is not None:
            raise ValueError(
                "sites must be left out: the sites have no thresholds of their own"
            )
        parts = [
            prediction_sets(
                self.calibration_.sets,
                self.conformity_score_,
                prediction[rows],
                groups=None if labels is None else labels[rows],
                site=site,
                u=None if u is None else u[rows],
            )[:, :, self._level_places]
            for site, rows in rows_of.items()
        ]
        return np.concatenate(parts)[np.argsort(np.concatenate(list(rows_of.values())))]

    # -- parameters --------------------------------------------------------------------

    def _options(self, score: S) -> dict[str, Any]:
        """Return the options of the plan: parameters of the same name, and a score that
        sites can make.
        """
        options = self.get_params(deep=False)
        own = {name: value for name, value in options.items() if name in _PLAN_OPTIONS}
        return {**own, "score": score if is_registered(score) else None}

    def _make_design(self, score: S) -> Design:
        """Check the options of the plan, and return them as the design of the smallest
        federation.
        """
        faulty = _util.integer("max_faulty", self.max_faulty, low=0)
        options = {**self._options(score), "mixture": None, "group_by": None}
        with warnings.catch_warnings(action="ignore", category=InfeasibleWarning):
            return plan(2 * faulty + 1, 1, **options).designs[0]

    def _score_of_plan(self, plan: Plan) -> S:
        """Return the score of a plan, which must be that of this estimator. A name
        stands for the usual score of this name too, as plans have it.
        """
        score, name = self._read_score(), self.conformity_score
        if plan.score is None or (fixed := score_of(plan.score)) == score:
            return score
        if isinstance(name, str) and fixed == from_name(name):
            usual: S = fixed  # type: ignore[assignment]
            return usual
        raise ValueError(
            f"conformity_score must be the score of the calibration's plan, {fixed},"
            f" got {score}"
        )

    def _named_score(self, name: str) -> S:
        """Return the score that a name stands for."""
        score: S = from_name(name)  # type: ignore[assignment]
        return score

    def _read_score(self) -> S:
        score, names = self.conformity_score, list_scores(self._score_class)
        score = self._default_score if score is None else score
        if isinstance(score, str):
            score = self._named_score(_util.choice("conformity_score", score, names))
        if not isinstance(score, self._score_class):
            raise ValueError(
                f"conformity_score must be one of {', '.join(map(repr, names))} or an"
                f" instance of scores.{self._score_class.__name__}, got"
                f" {score!r}{explain_no_score(score)}"
            )
        return score

    def _prototype(self) -> Any:
        return self._default_estimator() if self.estimator is None else self.estimator

    # -- the model ---------------------------------------------------------------------

    def _model_to_calibrate(self, score: S) -> Any:
        """Return the given estimator with prefit=True, else the trained one."""
        model = self._given_model() if self.prefit else self._model()
        self._check_estimator(model, score)
        return model

    def _given_model(self) -> Any:
        """Return the given estimator, fitted; an object that is no scikit-learn
        estimator is trusted.
        """
        if self.estimator is None:
            raise NotFittedError(
                "estimator must be a fitted model with prefit=True, got None"
            )
        for model in as_list(self.estimator):
            if isinstance(model, BaseEstimator):
                message = (
                    "estimator must be fitted with prefit=True, and this %(name)s is"
                    " not: fit it first"
                )
                check_is_fitted(model, msg=message)
        return self.estimator

    def _model(self) -> Any:
        """Return the model that predicts."""
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
                f"This {type(self).__name__} is not calibrated: call conformalize(X, y,"
                " sites=...) or from_calibration(calibration) first"
            )

    # -- scikit-learn ------------------------------------------------------------------

    @property
    def n_features_in_(self) -> int:
        """Number of features that the model was trained with, where it has that."""
        return int(as_list(self._model())[0].n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the features that the model was trained with, where it has them."""
        return as_list(self._model())[0].feature_names_in_

    def get_metadata_routing(self) -> Any:
        """Return what ``fit`` takes for itself, ``sites`` and ``groups``, and passes on
        to the estimator.

        Returns
        -------
        MetadataRouter
            As scikit-learn's metadata routing asks for it.
        """
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        passed = MethodMapping().add(caller="fit", callee="fit")
        return router.add(
            estimator=as_list(self._prototype())[0], method_mapping=passed
        )

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._promise_html()}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._promise_html()
        return bundle

    def _promise_html(self) -> str:
        """Describe what the calibration promises, once there is one."""
        return (
            (self.calibration_._repr_html_() or "")
            if hasattr(self, "calibration_")
            else ""
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether ``predict`` can be called; sets need a calibration too."""
        try:
            self._model()
        except NotFittedError:
            return False
        return True

    def __sklearn_clone__(self) -> Self:
        """Return an uncalibrated copy with the same parameters; with prefit=True its
        model stays fitted.
        """
        new: Self = super().__sklearn_clone__()
        if self.prefit:
            new.estimator = deepcopy(self.estimator)
        return new

    def __sklearn_tags__(self) -> Any:
        """Input as the wrapped estimator takes it."""
        tags = super().__sklearn_tags__()
        inner = as_list(self._prototype())[0]
        if hasattr(inner, "__sklearn_tags__"):
            tags.input_tags = get_tags(inner).input_tags
        return tags


def as_list(models: Any) -> list[Any]:
    """Return several models, or the only one, as a list."""
    return list(models) if isinstance(models, (list, tuple)) else [models]


def _name_booleans(groups: Any) -> Any:
    """Return groups that are all True or False as text, and others as they are."""
    values = _util.plain_array(groups, dtype=object).tolist()
    return (
        [str(value) for value in values]
        if all(isinstance(value, bool) for value in values)
        else groups
    )
