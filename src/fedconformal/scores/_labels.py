"""Scores of labels: from the probability of the label, or summed from the most probable label down."""

import math
import numbers
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import ceiling_percent, percent
from fedconformal._util import Bools, Floats
from fedconformal.scores._base import Draws
from fedconformal.scores._label import MAX_SUM_ERROR, LabelScore

_PROBABILITIES = (0.6, 0.25, 0.1, 0.05)
_FIRST = ("no label", "the first of them", "the first two", "the first three", "all of them")


def cumulate(probabilities: Floats, u: Floats | None, costs: Floats | None = None) -> Floats:
    """Add up the probability of each label and all before it, less u times its own, plus its rank's cost."""
    # A stable sort, so that equal probabilities rank by class index at every site.
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    totals = np.cumsum(ranked, axis=1)
    if u is not None:
        totals -= u[:, np.newaxis] * ranked
    if costs is not None:
        totals += costs
    scores = np.empty_like(totals)
    np.put_along_axis(scores, order, totals, axis=1)
    return scores


def check_randomized(randomized: Any) -> None:
    """Refuse a flag that is no boolean."""
    if not isinstance(randomized, bool):
        raise ValueError(f"randomized must be True or False, got {randomized!r}")


@dataclass(frozen=True)
class LAC(LabelScore):
    """One minus the probability of the label (least ambiguous set-valued classifier).

    Examples
    --------
    >>> LAC().score([0, 1], [[0.75, 0.25], [0.5, 0.5]])
    array([0.25, 0.5 ])
    >>> LAC().set([[0.75, 0.25], [0.5, 0.5]], 0.5)
    array([[ True, False],
           [ True,  True]])
    """

    name: ClassVar[str] = "lac"
    largest: ClassVar[float] = 1.0

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return 1 - p_y.

        Parameters
        ----------
        y : array of shape (n,)
            Class indices.
        prediction : array of shape (n, n_classes)
            Class probabilities.

        Returns
        -------
        array of shape (n,)
        """
        return self.scores_of(_complements, y, prediction)

    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Bools:
        """Return which labels have 1 - p <= threshold.

        Parameters
        ----------
        prediction : array of shape (n, n_classes)
            Class probabilities.
        threshold : number or array of shape (n_levels,)
            inf gives all labels, -inf none.

        Returns
        -------
        bool array of shape (n, n_classes), or (n, n_classes, n_levels) for an array of thresholds
            A row without a true entry is an empty set.
        """
        return self.labels_of(_complements, prediction, threshold)

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return "The set holds every label whose predicted probability is at least 1 − q."

    def example(self, threshold: float, unit: str = "") -> str:
        """Return which labels stay; see `Score.example`."""
        if not 0 <= threshold < 1:
            return f"With this threshold every set holds {'no label' if threshold < 0 else 'all labels'}."
        least = ceiling_percent(1 - threshold)
        return f"For example, a label with a predicted probability of {least} or more is in the set."


def _complements(probabilities: Floats, _: Floats | None) -> Floats:
    return 1.0 - probabilities


class SummedScore(LabelScore):
    """A score that sums probabilities from the most probable label down, randomized or not."""

    randomized: bool

    @property
    def needs_draws(self) -> bool:
        """True if the score is randomized."""
        return self.randomized

    def score(self, y: ArrayLike, prediction: ArrayLike, *, u: Draws | None = None) -> Floats:
        """Return the summed probability of each label, with the penalty where there is one.

        Parameters
        ----------
        y : array of shape (n,)
            Class indices.
        prediction : array of shape (n, n_classes)
            Class probabilities.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized.

        Returns
        -------
        array of shape (n,)
        """
        return self.scores_of(self.label_scores, y, prediction, u=u)

    def set(self, prediction: ArrayLike, threshold: ArrayLike, *, u: Draws | None = None) -> Bools:
        """Return which labels score at most the threshold.

        Parameters
        ----------
        prediction : array of shape (n, n_classes)
            Class probabilities.
        threshold : number or array of shape (n_levels,)
            inf gives all labels, -inf none.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized; the same for all thresholds.

        Returns
        -------
        bool array of shape (n, n_classes), or (n, n_classes, n_levels) for an array of thresholds
            A row without a true entry is an empty set.
        """
        return self.labels_of(self.label_scores, prediction, threshold, u=u)

    @abstractmethod
    def label_scores(self, probabilities: Floats, u: Floats | None) -> Floats:
        """Return the scores of all labels of some rows, from their probabilities and draws."""

    def caution(self, n_classes: int) -> str:
        """Return a warning where there are two classes; see `LabelScore.caution`."""
        if n_classes != 2 or self.randomized:
            return ""
        return (
            f"Score {self.name} with two classes: the less probable label always has the largest score, so a "
            "threshold admits both labels for every case or never more than one. Use lac, or randomized=true "
            "(on the command line aps:randomized=true)."
        )

    def example(self, threshold: float, unit: str = "") -> str:
        """Return which of four labels a set holds, unless it is drawn at random; see `Score.example`."""
        if self.randomized:
            return ""
        scores = self.label_scores(np.array([_PROBABILITIES]), None)
        held = _FIRST[int(np.sum(scores <= threshold))]
        listed = f"{', '.join(percent(p) for p in _PROBABILITIES[:-1])} and {percent(_PROBABILITIES[-1])}"
        return f"For example, of four labels with predicted probabilities of {listed} the set holds {held}."


@dataclass(frozen=True)
class APS(SummedScore):
    """The total probability of the labels at least as probable as y (adaptive prediction sets).

    Labels are ranked by decreasing probability, among equals by increasing index, and the score is the sum of
    the probabilities up to and including y.

    Parameters
    ----------
    randomized : bool
        Subtract u * p_y, with u uniform on [0, 1), one number per row. Then ``score`` and ``set`` both ask
        for u. The coverage is then not conservative, and sets may be empty.

    Examples
    --------
    >>> APS().score([2], [[0.5, 0.25, 0.25]])
    array([1.])
    >>> APS().set([[0.5, 0.25, 0.25]], 0.75)
    array([[ True,  True, False]])
    """

    name: ClassVar[str] = "aps"
    # Rows are accepted whose sum is MAX_SUM_ERROR above 1; as much again is more than sums can be rounded.
    largest: ClassVar[float] = 1 + 2 * MAX_SUM_ERROR

    randomized: bool = False

    def __post_init__(self) -> None:
        """Refuse a ``randomized`` that is no boolean."""
        check_randomized(self.randomized)

    def admits_all(self, threshold: float, n_classes: int) -> bool:
        """Return whether every set holds every label: from the largest possible sum on."""
        return threshold >= 1 - MAX_SUM_ERROR

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return "The set holds the labels, from the most probable down, whose summed probability is at most q."

    def label_scores(self, probabilities: Floats, u: Floats | None) -> Floats:
        """Return the summed probabilities; see `SummedScore.label_scores`."""
        return cumulate(probabilities, u)


def _check_number(name: str, value: Any, kind: type[Any], allowed: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


@dataclass(frozen=True)
class RAPS(SummedScore):
    """The APS score plus a penalty on low ranks (regularized adaptive prediction sets).

    A label of rank r, the most probable having rank 1, scores penalty * max(0, r - k_reg) more than under
    `APS`.

    Parameters
    ----------
    penalty : float
        Cost of each rank beyond k_reg (lambda in the literature), at least 0.
    k_reg : int
        Number of ranks that cost nothing, at least 0.
    randomized : bool
        As in `APS`.

    Examples
    --------
    >>> RAPS(penalty=0.5, k_reg=1).score([2], [[0.5, 0.25, 0.25]])
    array([2.])
    """

    name: ClassVar[str] = "raps"

    penalty: float = 0.01
    k_reg: int = 5
    randomized: bool = False

    def __post_init__(self) -> None:
        """Refuse parameters out of range; hold them as Python numbers, as documents do."""
        _check_number("penalty", self.penalty, numbers.Real, "a finite number >= 0")
        _check_number("k_reg", self.k_reg, numbers.Integral, "an integer >= 0")
        object.__setattr__(self, "penalty", float(self.penalty))
        object.__setattr__(self, "k_reg", int(self.k_reg))
        check_randomized(self.randomized)

    def admits_all(self, threshold: float, n_classes: int) -> bool:
        """Return whether every set holds every label: from the largest possible sum on."""
        return threshold >= 1 - MAX_SUM_ERROR + self.penalty * max(0, n_classes - self.k_reg)

    def largest_among(self, n_classes: int) -> float:
        """Return the largest possible sum, with the penalty of the last rank."""
        return 1 + 2 * MAX_SUM_ERROR + self.penalty * max(0, n_classes - self.k_reg)

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return (
            "The set holds the labels, from the most probable down, whose summed probability, with a penalty "
            "for long sets, is at most q."
        )

    def label_scores(self, probabilities: Floats, u: Floats | None) -> Floats:
        """Return the summed probabilities and penalties; see `SummedScore.label_scores`."""
        ranks = np.arange(1, probabilities.shape[1] + 1)
        return cumulate(probabilities, u, costs=self.penalty * np.maximum(0, ranks - self.k_reg))
