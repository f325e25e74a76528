"""Scores of classes: what they have in common.

Labels are class indices, 0 to n_classes - 1, and predictions are probabilities, (n, n_classes). The scores
here compute the score of every label by the same operations in the same order, for ``score`` and for ``set``,
and read off the labels they need, so a label is in the set if and only if its score is at most the threshold,
bit for bit. No label is ever added to an empty set.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._util import Bools, Floats, Ints, all_rows, float_array, number_array
from fedconformal.scores._base import (
    Draws,
    Score,
    are_class_numbers,
    as_draws,
    as_labels,
    as_thresholds,
    wrong_columns,
)

LabelScores = Callable[[Floats, Floats | None], Floats]
"""Scores of all labels of some rows, from their probabilities and uniform draws."""

MAX_EXCESS = 1e-6
"""Largest excess of a single probability over 1."""
MAX_SUM_ERROR = 1e-3
"""Largest distance of the sum of a row from 1."""
# Numbers handled at a time: their temporaries stay in the processor's cache.
BLOCK = 2**17


def as_probabilities(prediction: ArrayLike) -> Floats:
    """Return floats of shape (n, n_classes); `score_blocks` checks that they are probabilities."""
    matrix = float_array("prediction", prediction, ndim=2)
    if matrix.shape[1] == 0:
        raise ValueError(f"prediction must have shape (n, n_classes), got {matrix.shape}: no class")
    return matrix


def score_blocks(
    label_scores: LabelScores, probabilities: Floats, draws: Floats | None
) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of rows with the scores of all their labels, the probabilities checked."""
    n, n_classes = probabilities.shape
    step = max(1, BLOCK // n_classes)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = probabilities[rows]
        if not _are_probabilities(block):
            _refuse(probabilities)
        yield rows, label_scores(block, None if draws is None else draws[rows])


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


def _refuse(probabilities: Floats) -> None:
    name = "prediction"
    all_rows(name, probabilities, np.isfinite(probabilities), "must be finite")
    inside = (probabilities >= 0) & (probabilities <= 1 + MAX_EXCESS)
    all_rows(name, probabilities, inside, "must hold probabilities, from 0 to 1")
    sums = probabilities @ np.ones(probabilities.shape[1])
    rule = f"must hold probabilities that sum to 1 within {MAX_SUM_ERROR} in each row"
    # The same comparisons as above, lest a row be good alone and bad beside a bad one.
    all_rows(name, sums, (sums >= 1 - MAX_SUM_ERROR) & (sums <= 1 + MAX_SUM_ERROR), rule)


class LabelScore(Score):
    """A score of outcomes that are classes; its sets are sets of labels.

    A subclass is a frozen dataclass with a ``name``, ``score`` and ``set``. `scores_of` and `labels_of` do
    what such scores have in common; using them is optional.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Odds(LabelScore):
    ...     '''The odds against a label.'''
    ...
    ...     name = "odds"
    ...
    ...     def score(self, y, prediction):
    ...         return self.scores_of(lambda p, _: (1 - p) / p, y, prediction)
    ...
    ...     def set(self, prediction, threshold):
    ...         return self.labels_of(lambda p, _: (1 - p) / p, prediction, threshold)
    >>> Odds().score([0, 1], [[0.5, 0.5], [0.75, 0.25]])
    array([1., 3.])
    >>> Odds().set([[0.5, 0.5], [0.75, 0.25]], 1.0)
    array([[ True,  True],
           [ True, False]])
    """

    columns: ClassVar[None] = None

    @abstractmethod
    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Bools:
        """Return the labels of each row that score at most the threshold.

        Parameters
        ----------
        prediction : array of shape (n, n_classes)
            Class probabilities.
        threshold : number or array of shape (n_levels,)
            inf gives all labels.

        Returns
        -------
        bool array of shape (n, n_classes), or (n, n_classes, n_levels) for an array of thresholds
            A row without a true entry is an empty set.
        """

    def sets(self, prediction: ArrayLike, thresholds: ArrayLike, *, u: Draws | None = None) -> Bools:
        """Return the label sets of rows that may have different thresholds; see `Score.sets`."""
        return np.asarray(super().sets(prediction, thresholds, u=u), dtype=np.bool_)

    def sets_by_class(self, prediction: ArrayLike, thresholds: ArrayLike, *, u: Draws | None = None) -> Bools:
        """Return the label sets where each class has its own threshold: {y : score(y) <= threshold of y}.

        Parameters
        ----------
        prediction : array of shape (n, n_classes)
            Class probabilities.
        thresholds : array of shape (n_classes, n_levels)
            The thresholds of each class.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized; the same for all classes and thresholds.

        Returns
        -------
        bool array of shape (n, n_classes, n_levels)

        Examples
        --------
        >>> from fedconformal.scores import LAC
        >>> LAC().sets_by_class([[0.75, 0.25], [0.5, 0.5]], [[0.3], [0.8]])[:, :, 0]
        array([[ True,  True],
               [False,  True]])
        """
        probabilities = as_probabilities(prediction)
        levels = number_array("thresholds", thresholds)
        n, n_classes = probabilities.shape
        if levels.ndim != 2 or len(levels) != n_classes:
            raise ValueError(f"thresholds must have shape ({n_classes}, n_levels), got {levels.shape}")
        draws = as_draws(u, n=n, needed=self.needs_draws)
        random = {} if draws is None else self.draws(draws)
        different, which = np.unique(levels, axis=0, return_inverse=True)
        sets = np.empty((n, n_classes, levels.shape[1]), dtype=np.bool_)
        for i, threshold in enumerate(different):
            classes = np.flatnonzero(which.reshape(-1) == i)
            sets[:, classes] = self.set(probabilities, threshold, **random)[:, classes]
        return sets

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see `Score.column_help`."""
        return "one column per class: its probability, in the order of the class numbers 0, 1, ..."

    def prediction_from(self, table: ArrayLike, names: Sequence[str] | None = None) -> Floats:
        """Return a table's columns as ``score`` and ``set`` take them; see `Score.prediction_from`."""
        probabilities = float_array("table", table, ndim=2)
        if probabilities.shape[1] < 2:
            raise wrong_columns(self, probabilities, names)
        return probabilities

    def truth_from(self, values: ArrayLike, *, argument: str = "y") -> Ints:
        """Return a column of numbers as class numbers, others refused; see `Score.truth_from`."""
        labels = float_array(argument, values, ndim=1)
        all_rows(argument, labels, are_class_numbers(labels), "must hold class numbers 0, 1, ...")
        return labels.astype(np.int64)

    def set_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return ``in_set_`` and the name of each class's column; see `Score.set_columns`."""
        return tuple(f"in_set_{name}" for name in names)

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return "The set holds every label whose score is at most q."

    def admits_all(self, threshold: float, n_classes: int) -> bool:
        """Return whether every set holds every label, whatever the probabilities.

        Parameters
        ----------
        threshold : float
            The threshold.
        n_classes : int
            Number of classes.

        Returns
        -------
        bool
            By default whether the threshold is at least ``largest``.
        """
        return threshold == inf or (self.largest is not None and threshold >= self.largest)

    def largest_among(self, n_classes: int) -> float | None:
        """Return what no score can exceed with this many classes; None if there is no such number.

        Parameters
        ----------
        n_classes : int
            Number of classes.

        Returns
        -------
        float or None
        """
        return self.largest

    def caution(self, n_classes: int) -> str:
        """Return a warning about the use of this score for this many classes; empty if there is none.

        Parameters
        ----------
        n_classes : int
            Number of classes.

        Returns
        -------
        str
        """
        return ""

    # -- what label scores have in common ------------------------------------------------------------------

    def scores_of(
        self, label_scores: LabelScores, y: ArrayLike, prediction: ArrayLike, *, u: Draws | None = None
    ) -> Floats:
        """Return what ``score`` returns, from a function that scores all labels.

        Parameters
        ----------
        label_scores : callable
            Takes probabilities, (rows, n_classes), and uniform numbers, (rows,) or None where the score is
            not randomized, and returns the score of every label, (rows, n_classes). It is called for some
            rows at a time.
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
        probabilities = as_probabilities(prediction)
        n, n_classes = probabilities.shape
        labels = as_labels(y, n=n, n_classes=n_classes)
        draws = as_draws(u, n=n, needed=self.needs_draws)
        out = np.empty(n)
        for rows, scores in score_blocks(label_scores, probabilities, draws):
            out[rows] = np.take_along_axis(scores, labels[rows, np.newaxis], axis=1)[:, 0]
        return out

    def labels_of(
        self,
        label_scores: LabelScores,
        prediction: ArrayLike,
        threshold: ArrayLike,
        *,
        u: Draws | None = None,
    ) -> Bools:
        """Return what ``set`` returns, from a function that scores all labels.

        Parameters
        ----------
        label_scores : callable
            As for `scores_of`.
        prediction : array of shape (n, n_classes)
            Class probabilities.
        threshold : number or array of shape (n_levels,)
            The thresholds.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized; the same for all thresholds.

        Returns
        -------
        bool array of shape (n, n_classes), or (n, n_classes, n_levels) for an array of thresholds
        """
        probabilities = as_probabilities(prediction)
        levels, single = as_thresholds(threshold)
        draws = as_draws(u, n=len(probabilities), needed=self.needs_draws)
        out = np.empty((*probabilities.shape, len(levels)), dtype=np.bool_)
        for rows, scores in score_blocks(label_scores, probabilities, draws):
            for j, level in enumerate(levels):
                np.less_equal(scores, level, out=out[rows, :, j])
        return out[:, :, 0] if single else out

    def _can_be_truth(self, values: Floats) -> Bools:
        return are_class_numbers(values)
