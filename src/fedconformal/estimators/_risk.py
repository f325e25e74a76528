"""Control of a risk in MAPIE's words: ``calibrate(X, y, sites=...)``, then
``predict``.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from fedconformal import _util
from fedconformal.documents import Calibration
from fedconformal.estimators._base import make_generator
from fedconformal.estimators._models import find_class_indices
from fedconformal.privacy import Bins, Privacy
from fedconformal.protocol import (
    SitePolicy,
    calibrate,
    conformalize,
    measure_cases,
    plan,
    prediction_sets,
    report,
    rows_by_site,
    score_of,
)
from fedconformal.scores import LAC, LossScore, MissedLabels, MissedPixels, Score

_NOT_CALIBRATED = (
    "This %(name)s is not calibrated: call calibrate(X, y, sites=...) first"
)
_DRAWING = 3  # the stream of random numbers of scores
_STARTS = 10  # of the tests of answers
_PARTS = 2520  # of a loss: shares of up to ten labels are whole numbers of these


@dataclass(frozen=True)
class _Risk:
    """A risk by its name: whether the target is the largest loss, or the smallest
    performance.
    """

    is_loss: bool
    has_classes: bool = False
    has_answers: bool = False


_RISKS = {
    "recall": _Risk(is_loss=False),
    "false_negative_rate": _Risk(is_loss=True),
    "coverage": _Risk(is_loss=False, has_classes=True),
    "precision": _Risk(is_loss=False, has_answers=True),
    "selective_risk": _Risk(is_loss=True, has_classes=True, has_answers=True),
}


class FederatedRiskController(BaseEstimator):  # type: ignore[misc]
    """Decision threshold that controls a risk, calibrated over sites that share one
    number each.

    On average, or with a certainty, new cases have at most the risk, or at least the
    performance, that is asked for, if the model errs equally at every site, or as
    ``promise`` says. The words are those of MAPIE's controllers, with these
    differences: ``sites`` is new, one controller takes labels and images, which come as
    (n, height, width) and not (n, 1, height, width), what is selected comes as (n, ...,
    n_levels), and precision is that of two classes, not of labels or pixels.

    Parameters
    ----------
    predict_function : callable
        Takes X, returns probabilities, such as the ``predict_proba`` of a fitted model:
        an array (n, n_labels), for recall also (n, n_labels, 2), a list of arrays (n,
        2) as MultiOutputClassifier gives, or images (n, height, width).
    risk : {"recall", "false_negative_rate", "coverage", "precision", "selective_risk"}
        ``"recall"``: share of the true labels, or pixels, of a case that are selected.
        ``"false_negative_rate"``: 1 minus it. ``"coverage"``: share of cases whose
        class is in the set. ``"precision"``: share of the second class among the cases
        that are selected, of two classes, as its probability is at least the parameter.
        ``"selective_risk"``: share of wrong classes among the cases that are answered,
        as the largest probability is at least the parameter. The last two need a
        ``confidence_level``.
    target_level : float or list of floats
        The largest risk, or for recall and coverage the smallest performance.
    confidence_level : float, optional
        Left out, the target holds on average. A number is the certainty with which it
        holds given the calibration data.
    predict_params : array of shape (n_params,), optional
        Candidates for the smallest probability that is selected, as in MAPIE. Sites
        then send the sum of their losses at each, which gives conformal risk control as
        if all cases were in one place, or with ``confidence_level`` the bound of
        Hoeffding and Bentkus. Left out, a site sends one number, and
        ``calibration_.law`` is the exact distribution. For precision and selective risk
        sites send two counts at each, by default at 0, 0.01, ..., 0.99, which are
        tested from ten starts (Learn-then-Test).
    empty : {"refused", "found"}
        Cases without a true label or pixel, which have no recall: refused, as MAPIE
        does, or counted as found completely. The target then holds on average over them
        too, and not for the others alone.
    max_faulty, max_missing, promise, mixture, numbers, curve, privacy : optional
        Options of the plan, with the same defaults; see `fedconformal.plan`. None of
        the last three goes with ``predict_params``.
    rng : None, int or numpy Generator
        Source of the random numbers by which losses become scores, one for each case;
        the system's if None. Do not choose among several: the guarantee is for one
        draw.

    Attributes
    ----------
    calibration_ : Calibration
        Thresholds, their guarantee, the sites; ``calibration_.law`` is the distribution
        of the performance.
    best_predict_param : array of shape (n_levels,), or dict of them by group
        Smallest probability that is selected; -inf where everything is, inf where
        nothing is.

    See Also
    --------
    fedconformal.scores.from_losses : any other monotone loss.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random((300, 4))
    >>> y = (rng.random((300, 4)) < p) | (p == p.max(axis=1, keepdims=True))
    >>> controller = FederatedRiskController(lambda X: X, target_level=0.8, rng=0)
    >>> controller = controller.calibrate(p, y, sites=["A", "B", "C"] * 100)
    >>> controller.predict(p).shape, round(controller.calibration_.law.mean(), 3)
    ((300, 4, 1), 0.803)
    """

    def __init__(
        self,
        predict_function: Callable[[Any], Any] | None = None,
        risk: str = "recall",
        *,
        target_level: Any = 0.9,
        confidence_level: float | None = None,
        predict_params: Any = None,
        empty: str = "refused",
        max_faulty: int = 0,
        max_missing: int | None = None,
        promise: str = "population",
        mixture: Mapping[str, float] | None = None,
        numbers: int | None = None,
        curve: Bins | None = None,
        privacy: Privacy | None = None,
        rng: Any = None,
    ) -> None:
        self.predict_function = predict_function
        self.risk = risk
        self.target_level = target_level
        self.confidence_level = confidence_level
        self.predict_params = predict_params
        self.empty = empty
        self.max_faulty = max_faulty
        self.max_missing = max_missing
        self.promise = promise
        self.mixture = mixture
        self.numbers = numbers
        self.curve = curve
        self.privacy = privacy
        self.rng = rng

    def calibrate(
        self, X: Any, y: Any, *, sites: Any, groups: Any = None, ledgers: Any = None
    ) -> Self:
        """Find the threshold as a federation would: only what each site reports meets.

        Parameters
        ----------
        X : array-like of length n
            Calibration data, which the model was not trained on.
        y : array of shape (n, n_labels), (n, height, width) or (n,), or list of n masks
            1 for the true labels or pixels of each case, 0 for the others; for the
            other risks the class, as a column's number where the model has no
            ``classes_``.
        sites : array-like of shape (n,)
            The site of each case.
        groups : array-like of shape (n,), optional
            The group of each case, for one threshold each.
        ledgers : mapping from site to Ledger, optional
            With ``privacy``, the account of each site.

        Returns
        -------
        self
            With ``calibration_``.
        """
        risk = _RISKS[_util.choice("risk", self.risk, _RISKS)]
        _util.choice("empty", self.empty, ("refused", "found"))
        score, truth = self._read_truth(risk, y)
        prediction, options = (
            self._probabilities(X, score),
            self._plan_options(risk, score),
        )
        truth = self._check_truth(score, truth, prediction)
        self._params: dict[float, float] = {}
        if self.predict_params is not None or risk.has_answers:
            if groups is not None or ledgers is not None:
                raise ValueError(
                    "groups and ledgers must be left out with predict_params"
                )
            read = self._count_answers if risk.has_answers else self._sum_losses
            losses, scores, edges, asked = read(score, truth, prediction)
            options["curve"] = Bins(tuple(edges.tolist()), bounded=True)
            self.calibration_ = self._collect(sites, losses, scores, options | asked)
            return self
        draws = score.draws(make_generator(self.rng, _DRAWING))
        scores = score.score(truth, prediction, **draws)
        self.calibration_ = conformalize(
            scores, sites=sites, groups=groups, ledgers=ledgers, **options
        )
        return self

    fit = calibrate

    def _sum_losses(self, score: Score, truth: Any, prediction: Any) -> tuple[Any, ...]:
        """Return the loss of each case at each parameter, no scores, the settings, and
        a plan's option.
        """
        params = _read_params(self.predict_params)
        edges = 1 - params[::-1]
        if isinstance(score, LossScore):
            self._params = dict(zip(edges.tolist(), params[::-1].tolist(), strict=True))
        losses = measure_cases(score, truth, self._round_down(prediction), edges)
        return losses, None, edges, {"parts": _PARTS}

    def _round_down(self, prediction: Any) -> Any:
        """Return the largest parameter up to each probability, or 0: 1 - p could round
        two to one.
        """
        if not self._params:
            return prediction
        if isinstance(prediction, list | tuple):
            return [self._round_down(image) for image in prediction]
        values, params = (
            _util.plain_array(prediction),
            np.array([0.0, *sorted(self._params.values())]),
        )
        down = params[np.searchsorted(params[1:], values, side="right")]
        return np.where(
            (values >= 0) & (values <= 1), down, values
        )  # others are refused

    def _count_answers(
        self, score: Score, truth: Any, prediction: Any
    ) -> tuple[Any, ...]:
        """Return whether each case is wrong, its confidence, the settings, and a plan's
        option.
        """
        if self.confidence_level is None:
            raise ValueError(
                f"risk {self.risk!r} needs a confidence_level, such as 0.9"
            )
        params = (
            np.linspace(0, 0.99, 100)
            if self.predict_params is None
            else self.predict_params
        )
        found = np.argmax(prediction, axis=1) if _RISKS[self.risk].has_classes else 1
        wrong = (truth != found).astype(float)
        return (
            wrong,
            self._confidence(prediction),
            _read_params(params),
            {"starts": _STARTS},
        )

    def _confidence(self, prediction: Any) -> Any:
        table = _util.float_array("prediction", prediction, ndim=2)
        if not _RISKS[self.risk].has_classes and table.shape[1] != 2:
            raise ValueError(
                f"prediction must have two columns for {self.risk!r}, got"
                f" {table.shape[1]}"
            )
        MissedLabels().set(table, 1.0)  # refuses what is no probability
        return table.max(axis=1) if _RISKS[self.risk].has_classes else table[:, 1]

    def _check_truth(self, score: Score, truth: Any, prediction: Any) -> Any:
        """Return the truth; refuse cases without any, and labels that are no columns of
        the prediction.
        """
        if isinstance(score, LossScore):
            empty = (
                score.losses(truth, prediction, [-1.0])[:, 0] == 0
            )  # although nothing is selected
            if empty.any() and self.empty == "refused":
                raise ValueError(
                    f"y must have a true label, or pixel, in each case; {empty.sum()}"
                    f" of {len(empty)} have none (first: case {empty.argmax()}): leave"
                    " them out, or give empty='found'"
                )
            return truth
        n_classes = _util.float_array("prediction", prediction, ndim=2).shape[1]
        check_consistent_length(truth, prediction)
        if _RISKS[self.risk].has_answers:
            self._confidence(prediction)  # refuses what is no probability
        if self._classes is None:  # else -1 is a class that the model does not know
            rule = (
                f"must hold the numbers of classes, from 0 to {n_classes - 1}, of a"
                " model without classes_"
            )
            _util.all_rows("y", truth, np.isin(truth, np.arange(n_classes)), rule)
        return truth.astype(np.intp)

    @property
    def _classes(self) -> Any:
        return getattr(
            getattr(self.predict_function, "__self__", None), "classes_", None
        )

    def _collect(
        self, sites: Any, losses: Any, scores: Any, options: dict[str, Any]
    ) -> Calibration:
        """Let every site report its losses, and calibrate."""
        rows = rows_by_site(sites, len(losses))
        question = plan(
            n_points={site: len(own) for site, own in rows.items()}, **options
        )
        answers = []
        for site, own in rows.items():
            given = {
                "losses": losses[own],
                "scores": None if scores is None else scores[own],
            }
            answers.append(
                report(question, **given, site=site, policy=SitePolicy.unlimited())
            )
        return calibrate(question, answers)

    @property
    def best_predict_param(self) -> Any:
        """Smallest probability that is selected at each level; with groups, by
        label.
        """
        check_is_fitted(self, msg=_NOT_CALIBRATED)
        has_sets, own = self.calibration_.plan.score is not None, self._params
        by_group = {
            group: np.array(
                [
                    own.get(t, _smallest_selected(t)) if has_sets else t
                    for t in part.thresholds
                ]
            )
            for group, part in self.calibration_.by_group.items()
        }
        return by_group if self.calibration_.plan.is_grouped else by_group[None]

    def predict(self, X: Any, *, groups: Any = None) -> Any:
        """Return what is selected at each level.

        Parameters
        ----------
        X : array-like of length n
            New cases.
        groups : array-like of shape (n,), optional
            With groups, the group of each case.

        Returns
        -------
        bool array of shape (n, n_labels, n_levels) or (n, height, width, n_levels)
            A list of masks if ``predict_function`` returns a list of images. For
            precision and selective risk which cases are selected, or answered, (n,
            n_levels).
        """
        check_is_fitted(self, msg=_NOT_CALIBRATED)
        if self.calibration_.plan.score is None:
            return (
                self._confidence(self._probabilities(X, LAC()))[:, np.newaxis]
                >= self.best_predict_param
            )
        score = score_of(self.calibration_.plan.score)
        prediction = self._round_down(self._probabilities(X, score))
        return prediction_sets(self.calibration_.sets, score, prediction, groups=groups)

    def _plan_options(self, risk: _Risk, score: Score) -> dict[str, Any]:
        same = (
            "max_faulty",
            "max_missing",
            "promise",
            "mixture",
            "numbers",
            "curve",
            "privacy",
        )
        options = {name: getattr(self, name) for name in same}
        options["score"] = None if risk.has_answers else score
        if self.predict_params is not None and self.curve is not None:
            raise ValueError(
                "curve must be left out with predict_params, which are its edges"
            )
        levels = [
            _util.fraction("target_level", level)
            for level in np.ravel(self.target_level).tolist()
        ]
        options["risk" if risk.is_loss else "confidence_level"] = levels
        if self.confidence_level is not None:
            certainty = _util.fraction("confidence_level", self.confidence_level)
            options |= {"criterion": "conditional", "delta": 1 - certainty}
        return options

    def _read_truth(self, risk: _Risk, y: Any) -> tuple[Score, Any]:
        """Return the score, and the truth as it takes it."""
        if risk.has_classes or risk.has_answers:
            labels, classes = column_or_1d(y), self._classes
            return LAC(), (
                labels if classes is None else find_class_indices(labels, classes)
            )
        if isinstance(y, list | tuple) and y and np.ndim(y[0]) > 1:
            return MissedPixels(), y
        truth = _util.plain_array(y)
        if truth.ndim < 2:
            raise ValueError(
                "y must have shape (n, n_labels) or (n, height, width) with risk"
                f" {self.risk!r}, got {truth.shape}"
            )
        return (MissedLabels() if truth.ndim == 2 else MissedPixels()), truth

    def _probabilities(self, X: Any, score: Score) -> Any:
        """Return the predictions as the score takes them."""
        if not callable(self.predict_function):
            given = self.predict_function
            raise TypeError(
                "predict_function must be callable, such as model.predict_proba, got"
                f" {given!r}"
            )
        found: Any = self.predict_function(X)
        if score.takes_images or not isinstance(score, MissedLabels):
            return found
        if (
            isinstance(found, list | tuple) and np.ndim(found[0]) == 2
        ):  # of MultiOutputClassifier
            found = np.stack([np.asarray(label) for label in found], axis=1)
        array = _util.plain_array(found)
        if array.ndim == 3 and array.shape[2] != 2:
            raise ValueError(
                "prediction must be (n, n_labels) or (n, n_labels, 2), got"
                f" {array.shape}"
            )
        return array[..., 1] if array.ndim == 3 else array


def _read_params(params: Any) -> Any:
    """Return the parameters in rising order."""
    values = np.unique(_util.float_array("predict_params", params, ndim=1))
    if (
        len(np.unique(1 - values)) < max(2, len(values))
        or not ((values >= 0) & (values <= 1)).all()
    ):
        raise ValueError(
            "predict_params must hold two or more numbers from 0 to 1, got"
            f" {values.tolist()}"
        )
    return values


def _smallest_selected(threshold: float) -> float:
    """Return the smallest p from 0 to 1 with 1.0 - p <= threshold as floats; beyond, 1
    - threshold.
    """
    if not 0 <= threshold < 1:
        return 1 - threshold
    floats = range(int(np.float64(1).view(np.int64)) + 1)  # in their order
    place = bisect_left(
        floats,
        True,
        key=lambda i: bool(1.0 - np.int64(i).view(np.float64) <= threshold),
    )
    return float(np.int64(place).view(np.float64))
