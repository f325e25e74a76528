"""Regularized adaptive prediction sets."""

import math
import numbers
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Bools, Floats
from fedconformal.scores._arrays import Draws
from fedconformal.scores._blocks import MAX_SUM_ERROR
from fedconformal.scores._cumulated import caution, check_randomized, cumulated, example
from fedconformal.scores._label import LabelScore


@dataclass(frozen=True)
class RAPS(LabelScore):
    """The APS score plus a penalty on low ranks (regularized adaptive prediction sets).

    A label of rank r, the most probable having rank 1, scores penalty * max(0, r - k_reg) more than under
    `APS`.

    Parameters
    ----------
    penalty : float
        What each rank beyond k_reg costs (lambda in the literature), at least 0.
    k_reg : int
        The number of ranks that cost nothing, at least 0.
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
        object.__setattr__(self, "penalty", _checked_penalty(self.penalty))
        object.__setattr__(self, "k_reg", _checked_rank(self.k_reg))
        check_randomized(self.randomized)

    @property
    def needs_draws(self) -> bool:
        """Whether the score is randomized."""
        return self.randomized

    def score(self, y: ArrayLike, prediction: ArrayLike, *, u: Draws | None = None) -> Floats:
        """Return the cumulated probability plus penalty of each label.

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
        return self.scores_of(self._label_scores, y, prediction, u=u)

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
        return self.labels_of(self._label_scores, prediction, threshold, u=u)

    def admits_all(self, threshold: float, n_classes: int) -> bool:
        """Return whether every set holds every label: from the largest possible sum on."""
        return threshold >= 1 - MAX_SUM_ERROR + self.penalty * max(0, n_classes - self.k_reg)

    def caution(self, n_classes: int) -> str:
        """Return a warning where there are two classes; see `LabelScore.caution`."""
        return caution(self.name, n_classes, randomized=self.randomized)

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return (
            "The set holds the labels, from the most probable down, whose summed probability, with a penalty "
            "for long sets, is at most q."
        )

    def example(self, threshold: float, unit: str = "") -> str:
        """Return which labels stay; see `Score.example`."""
        return "" if self.randomized else example(self._label_scores, threshold)

    def _label_scores(self, probabilities: Floats, u: Floats | None) -> Floats:
        ranks = np.arange(1, probabilities.shape[1] + 1)
        return cumulated(probabilities, u, costs=self.penalty * np.maximum(0, ranks - self.k_reg))


def _checked_penalty(penalty: Any) -> float:
    is_number = isinstance(penalty, numbers.Real) and not isinstance(penalty, bool)
    if not (is_number and penalty >= 0 and math.isfinite(penalty)):
        raise ValueError(f"penalty must be a finite number >= 0, got {penalty!r}")
    return float(penalty)


def _checked_rank(k_reg: Any) -> int:
    is_integer = isinstance(k_reg, numbers.Integral) and not isinstance(k_reg, bool)
    if not (is_integer and k_reg >= 0):
        raise ValueError(f"k_reg must be an integer >= 0, got {k_reg!r}")
    return int(k_reg)
