"""Scores of numbers: what they have in common, and arithmetic that leaves no number out.

Every set here is a closed interval. Scores are computed in floating point, so the numbers that score at most
t are not quite those of [prediction - t, prediction + t] computed in floating point: with normal data that
interval misses 18 % of the very points whose score is t. The sets of the scores here are a few units in the
last place wider, by which **no number that scores at most the threshold is left out**; what they hold beyond
those exceeds the threshold by rounding alone.
"""

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import warn
from fedconformal._util import Bools, Floats, all_rows, float_array, plain_array
from fedconformal.scores._base import Draws, Score, as_thresholds, wrong_columns

_EPSILON = float(np.finfo(np.float64).eps)
_COUNTS = ("no", "one", "two", "three", "four")


class EmptySetWarning(UserWarning):
    """Some prediction intervals hold no number at all; they are given as (+inf, -inf)."""


class IntervalScore(Score):
    """A score of outcomes that are numbers; its sets are closed intervals.

    A subclass is a frozen dataclass with a ``name``, ``score`` and ``set``, and ``columns`` if it needs other
    predictions than one number. ``prediction`` has shape (n,) if there is one column, else (n, n_columns).
    `checked` and `intervals` do what such scores have in common; using them is optional.

    Attributes
    ----------
    predict_option : str or None
        The option of a model's ``predict`` that makes it return all columns at once, as ``return_std`` does.
    one_model_per_column : bool
        Whether the columns may come from a list of models, one for each.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Relative(IntervalScore):
    ...     '''The distance in units of the prediction.'''
    ...
    ...     name = "relative"
    ...
    ...     def score(self, y, prediction):
    ...         return np.abs(y - prediction) / prediction
    ...
    ...     def set(self, prediction, threshold):
    ...         center = self.checked(prediction)
    ...         return self.intervals(center, center, lambda t: t * center, threshold)
    >>> Relative().set([2.0, 8.0], 0.5)
    array([[ 1.,  3.],
           [ 4., 12.]])
    >>> Relative().column_help()
    'one column: prediction'
    """

    columns: ClassVar[tuple[str, ...]] = ("prediction",)
    predict_option: ClassVar[str | None] = None
    one_model_per_column: ClassVar[bool] = False

    @abstractmethod
    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Floats:
        """Return the interval of each row: all numbers that score at most the threshold.

        Parameters
        ----------
        prediction : array of shape (n,) or (n, n_columns)
            The predictions, as `prediction_from` gives them.
        threshold : number or array of shape (n_levels,)
            inf gives the whole line.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for an array of thresholds
            Lower and upper ends; an empty interval is (+inf, -inf).
        """

    def sets(self, prediction: ArrayLike, thresholds: ArrayLike, *, u: Draws | None = None) -> Floats:
        """Return the intervals of rows that may have different thresholds; see `Score.sets`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptySetWarning)
            sets: Floats = np.asarray(super().sets(prediction, thresholds, u=u))
        empty = sets[:, 0] > sets[:, 1]
        _warn_of_empty(int(np.count_nonzero(empty)), empty.size)
        return sets

    def points(self, prediction: ArrayLike) -> Floats:
        """Return the point predictions that go with the predictions.

        Parameters
        ----------
        prediction : array of shape (n,) or (n, n_columns)
            The predictions, as `prediction_from` gives them.

        Returns
        -------
        array of shape (n,)
            The predictions, or their first column where there are several.
        """
        array = plain_array(prediction)
        return array if array.ndim == 1 else array[:, 0]

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see `Score.column_help`."""
        n = len(self.columns)
        count = _COUNTS[n] if n < len(_COUNTS) else str(n)
        return f"{count} column{'' if n == 1 else 's'}: {', then '.join(self.columns)}"

    def prediction_from(self, table: ArrayLike, names: Sequence[str] | None = None) -> Floats:
        """Return a table's columns as ``score`` and ``set`` take them; see `Score.prediction_from`."""
        predicted = float_array("table", table, ndim=2)
        if predicted.shape[1] != len(self.columns):
            raise wrong_columns(self, predicted, names)
        return predicted[:, 0] if len(self.columns) == 1 else predicted

    def truth_from(self, values: ArrayLike, *, argument: str = "y") -> Floats:
        """Return a column of numbers as outcomes, NaN refused; see `Score.truth_from`."""
        outcomes = float_array(argument, values, ndim=1)
        all_rows(argument, outcomes, ~np.isnan(outcomes), "must not be nan")
        return outcomes

    def set_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return lower and upper, whatever the columns of predictions; see `Score.set_columns`."""
        return ("lower", "upper")

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return "The set is the interval of all numbers whose score is at most q."

    # -- what interval scores have in common ---------------------------------------------------------------

    def checked(self, prediction: ArrayLike) -> Floats:
        """Return predictions as floats of the right shape, all of them finite.

        Parameters
        ----------
        prediction : array of shape (n,) or (n, n_columns)
            The predictions, as `prediction_from` gives them.

        Returns
        -------
        array of the same shape

        Raises
        ------
        ValueError
            If the shape is wrong or a number is not finite.
        """
        n_columns = len(self.columns)
        array = float_array("prediction", prediction, ndim=1 if n_columns == 1 else 2)
        if array.ndim == 2 and array.shape[1] != n_columns:
            raise ValueError(f"prediction must have shape (n, {n_columns}), got {array.shape}")
        all_rows("prediction", array, np.isfinite(array), "must be finite")
        return array

    def intervals(
        self, lower: Floats, upper: Floats, radius: Callable[[float], float | Floats], threshold: ArrayLike
    ) -> Floats:
        """Return what ``set`` returns, intervals [lower - radius, upper + radius].

        Parameters
        ----------
        lower, upper : arrays of shape (n,)
            The ends before they are widened; they may be the same array.
        radius : callable
            Takes one threshold and returns the radius, a number or an array of shape (n,).
        threshold : number or array of shape (n_levels,)
            The thresholds.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for an array of thresholds
            An interval whose lower end would be above its upper end is empty and becomes (+inf, -inf), with
            an `EmptySetWarning`.
        """
        levels, single = as_thresholds(threshold)
        out = np.empty((len(lower), 2, len(levels)))
        n_empty = 0
        with np.errstate(over="ignore"):
            for j, level in enumerate(levels.tolist()):
                width = radius(level)
                low = np.subtract(lower, width, out=out[:, 0, j])
                high = np.add(upper, width, out=out[:, 1, j])
                n_empty += _mark_empty(low, high)
        _warn_of_empty(n_empty, out[:, 0].size)
        return out[:, :, 0] if single else out

    def _can_be_truth(self, values: Floats) -> Bools:
        return np.isfinite(values)


def distance(y: Floats, center: Floats) -> Floats:
    """|y - center|, inf where that exceeds the largest float."""
    with np.errstate(over="ignore"):
        difference = y - center
    return np.abs(difference, out=difference)


def outward(threshold: float, *, roundings: int) -> float:
    """Return the threshold moved up by one part in 2**52 per rounded operation before the last.

    If the score, a rounded difference, is at most t, then y <= p + t * (1 + 2**-53) as real numbers; rounding
    is monotone and y is a float, so y is at most the rounded p + outward(t). A threshold of 0 stays 0: a
    difference never rounds to zero unless it is zero.
    """
    return threshold * (1 + math.copysign(roundings * _EPSILON, threshold))


def unsigned(threshold: float) -> float:
    """Return the threshold of a score that is never negative: below 0 nothing fits, however small the number.

    Else p - t and p + t would round to p, a set of one point, for t = -1e-300.
    """
    return -math.inf if threshold < 0 else threshold


def _mark_empty(low: Floats, high: Floats) -> int:
    """Write (+inf, -inf) where the ends have passed each other; return how often."""
    empty = low > high
    if not empty.any():
        return 0
    low[empty], high[empty] = np.inf, -np.inf
    return int(np.count_nonzero(empty))


def _warn_of_empty(n_empty: int, n: int) -> None:
    if n_empty:
        warn(
            f"{n_empty} of {n} intervals are empty: no number scores at most the threshold. They are given "
            "as (+inf, -inf), which covers nothing.",
            EmptySetWarning,
        )
