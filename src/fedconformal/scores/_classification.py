"""Scores of a class against predicted class probabilities.

Labels are class indices, 0 to n_classes - 1, and predictions are probabilities, (n, n_classes).
``score`` and ``set`` compute the score of every label by the same operations in the same order and
read off the labels they need, so a label is in the set if and only if its score is at most the
threshold, bit for bit. No label is ever added to an empty set.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal.scores._base import (
    Bools,
    Floats,
    Kind,
    Parametrized,
    as_floats,
    as_numbers,
    as_thresholds,
    refuse_other_length,
    refuse_unless,
)

Draws = ArrayLike | np.random.Generator

# Scores of all labels of some rows, from their probabilities and uniform draws.
LabelScores = Callable[[Floats, Floats | None], Floats]

MAX_EXCESS = 1e-6
MAX_SUM_ERROR = 1e-3
# Numbers handled at a time: their temporaries stay in the processor's cache.
BLOCK = 2**17


@dataclass(frozen=True)
class LAC(Parametrized):
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
    kind: ClassVar[Kind] = "labels"

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return 1 - p_y, shape (n,)."""
        return _score(y, prediction, _complements)

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
        return _set(prediction, threshold, _complements)


@dataclass(frozen=True)
class APS(Parametrized):
    """The total probability of the labels at least as probable as y (adaptive prediction sets).

    Labels are ranked by decreasing probability, among equals by increasing index, and the score is
    the sum of the probabilities up to and including y.

    Parameters
    ----------
    randomized : bool
        Subtract u * p_y, with u uniform on [0, 1), one number per row. Then ``score`` and ``set``
        both ask for u. The coverage is then not conservative, and sets may be empty.

    Examples
    --------
    >>> APS().score([2], [[0.5, 0.25, 0.25]])
    array([1.])
    >>> APS().set([[0.5, 0.25, 0.25]], 0.75)
    array([[ True,  True, False]])
    """

    name: ClassVar[str] = "aps"
    kind: ClassVar[Kind] = "labels"

    randomized: bool = False

    def __post_init__(self) -> None:
        """Refuse a ``randomized`` that is no boolean."""
        _check_flag(self.randomized)

    def score(self, y: ArrayLike, prediction: ArrayLike, *, u: Draws | None = None) -> Floats:
        """Return the cumulated probability of each label, shape (n,).

        Parameters
        ----------
        y : array of shape (n,)
            Class indices.
        prediction : array of shape (n, n_classes)
            Class probabilities.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized.
        """
        return _score(y, prediction, _cumulated, randomized=self.randomized, u=u)

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
        return _set(prediction, threshold, _cumulated, randomized=self.randomized, u=u)


@dataclass(frozen=True)
class RAPS(Parametrized):
    """The APS score plus a penalty on low ranks (regularized adaptive prediction sets).

    A label of rank r, the most probable having rank 1, scores penalty * max(0, r - k_reg) more than
    under `APS`.

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
    kind: ClassVar[Kind] = "labels"

    penalty: float = 0.01
    k_reg: int = 5
    randomized: bool = False

    def __post_init__(self) -> None:
        """Refuse parameters out of range; hold them as Python numbers, as documents do."""
        object.__setattr__(self, "penalty", _checked_penalty(self.penalty))
        object.__setattr__(self, "k_reg", _checked_rank(self.k_reg))
        _check_flag(self.randomized)

    def score(self, y: ArrayLike, prediction: ArrayLike, *, u: Draws | None = None) -> Floats:
        """Return the cumulated probability plus penalty of each label, shape (n,).

        Parameters
        ----------
        y : array of shape (n,)
            Class indices.
        prediction : array of shape (n, n_classes)
            Class probabilities.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized.
        """
        return _score(y, prediction, self._label_scores, randomized=self.randomized, u=u)

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
        return _set(prediction, threshold, self._label_scores, randomized=self.randomized, u=u)

    def _label_scores(self, probabilities: Floats, u: Floats | None) -> Floats:
        ranks = np.arange(1, probabilities.shape[1] + 1)
        return _cumulated(probabilities, u, costs=self.penalty * np.maximum(0, ranks - self.k_reg))


def _complements(probabilities: Floats, _: Floats | None) -> Floats:
    return 1.0 - probabilities


def _cumulated(probabilities: Floats, u: Floats | None, costs: Floats | None = None) -> Floats:
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


def _score(
    y: ArrayLike,
    prediction: ArrayLike,
    label_scores: LabelScores,
    *,
    randomized: bool = False,
    u: Draws | None = None,
) -> Floats:
    probabilities = _matrix(prediction)
    labels = _labels(y, shape=probabilities.shape)
    draws = _draws(u, n=len(probabilities), randomized=randomized)
    out = np.empty(len(probabilities))
    for rows, scores in _scored_blocks(probabilities, draws, label_scores):
        out[rows] = np.take_along_axis(scores, labels[rows, np.newaxis], axis=1)[:, 0]
    return out


def _set(
    prediction: ArrayLike,
    threshold: ArrayLike,
    label_scores: LabelScores,
    *,
    randomized: bool = False,
    u: Draws | None = None,
) -> Bools:
    probabilities = _matrix(prediction)
    levels, single = as_thresholds(threshold)
    draws = _draws(u, n=len(probabilities), randomized=randomized)
    out = np.empty((*probabilities.shape, len(levels)), dtype=np.bool_)
    for rows, scores in _scored_blocks(probabilities, draws, label_scores):
        for j, level in enumerate(levels):
            np.less_equal(scores, level, out=out[rows, :, j])
    return out[:, :, 0] if single else out


def _scored_blocks(
    probabilities: Floats, draws: Floats | None, label_scores: LabelScores
) -> Iterator[tuple[slice, Floats]]:
    n, n_classes = probabilities.shape
    step = max(1, BLOCK // n_classes)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = probabilities[rows]
        if not _are_probabilities(block):
            _refuse_probabilities(probabilities)
        yield rows, label_scores(block, None if draws is None else draws[rows])


def _matrix(prediction: ArrayLike) -> Floats:
    matrix = as_floats(prediction, "prediction", ndim=2)
    if matrix.shape[1] == 0:
        raise ValueError(f"prediction must have shape (n, n_classes), got {matrix.shape}: no class")
    return matrix


def _are_probabilities(block: Floats) -> bool:
    # Each comparison is false for nan. The product gives the row sums four times as fast as sum(axis=1).
    if not block.min() >= 0:
        return False
    sums = block @ np.ones(block.shape[1])
    low, high = sums.min(), sums.max()
    if not (low >= 1 - MAX_SUM_ERROR and high <= 1 + MAX_SUM_ERROR):
        return False
    # No probability exceeds its row's sum, so most often there is no need to look for the largest.
    return bool(high <= 1 + MAX_EXCESS or block.max() <= 1 + MAX_EXCESS)


def _refuse_probabilities(probabilities: Floats) -> None:
    refuse_unless(np.isfinite(probabilities), "prediction", "must be finite", probabilities)
    inside = (probabilities >= 0) & (probabilities <= 1 + MAX_EXCESS)
    refuse_unless(inside, "prediction", "must hold probabilities, from 0 to 1", probabilities)
    sums = probabilities @ np.ones(probabilities.shape[1])
    rule = f"must hold probabilities that sum to 1 within {MAX_SUM_ERROR} in each row"
    refuse_unless(np.abs(sums - 1) <= MAX_SUM_ERROR, "prediction", rule, sums)


def _labels(y: ArrayLike, *, shape: tuple[int, ...]) -> NDArray[np.intp]:
    n, n_classes = shape
    labels = as_numbers(y, "y")
    refuse_other_length(labels, "y", n=n)
    if labels.dtype.kind == "f":
        refuse_unless(~np.isnan(labels), "y", "must not be nan", labels)
    allowed = (labels >= 0) & (labels < n_classes) & (labels == np.floor(labels))
    refuse_unless(allowed, "y", f"must be class indices from 0 to {n_classes - 1}", labels)
    return labels.astype(np.intp)


def _draws(u: Draws | None, *, n: int, randomized: bool) -> Floats | None:
    if not randomized:
        if u is not None:
            raise ValueError("u was given, but the score has randomized=False; leave u out")
        return None
    if u is None:
        raise ValueError("u is missing: with randomized=True give n numbers in [0, 1) or a numpy Generator")
    if isinstance(u, np.random.Generator):
        return u.random(n)
    draws = as_floats(u, "u", ndim=1)
    refuse_other_length(draws, "u", n=n)
    refuse_unless((draws >= 0) & (draws < 1), "u", "must lie in [0, 1)", draws)
    return draws


def _check_flag(randomized: Any) -> None:
    if not isinstance(randomized, bool):
        raise ValueError(f"randomized must be True or False, got {randomized!r}")


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
