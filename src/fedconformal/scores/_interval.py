"""Scores of numbers: residuals, residuals in units of a predicted spread, distances to
two quantiles.

Every set here is a closed interval. Scores are computed in floating point, so the
numbers that score at most t are not quite those of [prediction - t, prediction + t]
computed in floating point: with normal data that interval misses 18 % of the very
points whose score is t. The sets of the scores here are a few units in the last place
wider, by which **no number that scores at most the threshold is left out**; what they
hold beyond those exceeds the threshold by rounding alone.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import warn
from fedconformal._util import Bools, Floats, all_rows, float_array, plain_array
from fedconformal.scores._base import (
    Draws,
    Score,
    as_thresholds,
    check_length,
    wrong_columns,
)

_EPSILON = float(np.finfo(np.float64).eps)
_COUNTS = ("no", "one", "two", "three", "four")

# Of examples: the smallest and largest margin, and those that a prediction of 100 shows
# well.
_SMALLEST, _LARGEST = 1e-9, 1e12
_USUAL = (0.05, 50.0)
_SCALE = 5.0


class EmptySetWarning(UserWarning):
    """Some prediction intervals hold no number at all; they are given as (+inf,
    -inf).
    """


class IntervalScore(Score):
    """A score of outcomes that are numbers; its sets are closed intervals.

    A subclass is a frozen dataclass with a ``name``, ``score`` and ``set``, and
    ``columns`` if it needs other predictions than one number. ``prediction`` has shape
    (n,) if there is one column, else (n, n_columns). `checked` and `intervals` do what
    such scores have in common; using them is optional.

    Attributes
    ----------
    predict_option : str or None
        The option of a model's ``predict`` that makes it return all columns at once, as
        ``return_std`` does.
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
        """Return the interval of each row: all numbers that score at most the
        threshold.

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

    def sets(
        self, prediction: ArrayLike, thresholds: ArrayLike, *, u: Draws | None = None
    ) -> Floats:
        """Return the intervals of rows that may have different thresholds; see
        `Score.sets`.
        """
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
        """Return which prediction columns it needs, in words; see
        `Score.column_help`.
        """
        n = len(self.columns)
        count = _COUNTS[n] if n < len(_COUNTS) else str(n)
        return f"{count} column{'' if n == 1 else 's'}: {', then '.join(self.columns)}"

    def prediction_from(
        self, table: ArrayLike, names: Sequence[str] | None = None
    ) -> Floats:
        """Return a table's columns as ``score`` and ``set`` take them; see
        `Score.prediction_from`.
        """
        predicted = float_array("table", table, ndim=2)
        if predicted.shape[1] != len(self.columns):
            raise wrong_columns(self, predicted, names)
        return predicted[:, 0] if len(self.columns) == 1 else predicted

    def truth_from(self, values: ArrayLike, *, argument: str = "y") -> Floats:
        """Return a column of numbers as outcomes, NaN refused; see
        `Score.truth_from`.
        """
        outcomes = float_array(argument, values, ndim=1)
        all_rows(argument, outcomes, ~np.isnan(outcomes), "must not be nan")
        return outcomes

    def set_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return lower and upper, whatever the columns of predictions; see
        `Score.set_columns`.
        """
        return ("lower", "upper")

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return "The set is the interval of all numbers whose score is at most q."

    # -- what interval scores have in common -------------------------------------------

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
            raise ValueError(
                f"prediction must have shape (n, {n_columns}), got {array.shape}"
            )
        all_rows("prediction", array, np.isfinite(array), "must be finite")
        return array

    def intervals(
        self,
        lower: Floats,
        upper: Floats,
        radius: Callable[[float], float | Floats],
        threshold: ArrayLike,
    ) -> Floats:
        """Return what ``set`` returns, intervals [lower - radius, upper + radius].

        Parameters
        ----------
        lower, upper : arrays of shape (n,)
            The ends before they are widened; they may be the same array.
        radius : callable
            Takes one threshold and returns the radius, a number or an array of shape
            (n,).
        threshold : number or array of shape (n_levels,)
            The thresholds.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for an array of thresholds
            An interval whose lower end would be above its upper end is empty and
            becomes (+inf, -inf), with an `EmptySetWarning`.
        """
        levels, single = as_thresholds(threshold)
        out, n_empty = np.empty((len(lower), 2, len(levels))), 0
        with np.errstate(over="ignore"):
            for j, level in enumerate(levels.tolist()):
                width = radius(level)
                low = np.subtract(lower, width, out=out[:, 0, j])
                high = np.add(upper, width, out=out[:, 1, j])
                if (empty := low > high).any():
                    low[empty], high[empty] = np.inf, -np.inf
                    n_empty += int(np.count_nonzero(empty))
        _warn_of_empty(n_empty, out[:, 0].size)
        return out[:, :, 0] if single else out

    def _can_be_truth(self, values: Floats) -> Bools:
        return np.isfinite(values)


def _warn_of_empty(n_empty: int, n: int) -> None:
    if n_empty:
        warn(
            f"{n_empty} of {n} intervals are empty: no number scores at most the"
            " threshold. They are given as (+inf, -inf), which covers nothing.",
            EmptySetWarning,
        )


class BandScore(IntervalScore):
    """Distance of y beyond two ends of a band, in units of a scale: max(lower - y, y -
    upper) / scale.
    """

    is_signed: ClassVar[bool] = False
    """True if scores can be negative; else nothing fits a threshold below 0, however
    close to it.
    """
    roundings: ClassVar[int] = 1
    """Number of rounded operations before the last."""
    margin_of_example: ClassVar[float] = 1.0
    """Margin of an example, as a multiple of the threshold."""

    @abstractmethod
    def band(self, prediction: ArrayLike) -> tuple[Floats, Floats, float | Floats]:
        """Return lower end, upper end and scale of each row, checked."""

    @abstractmethod
    def describe_example(
        self, center: float, threshold: float, unit: str
    ) -> tuple[str, float, float]:
        """Return a prediction around a number as the beginning of a sentence, and the
        ends of its band.
        """

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return max(lower - y, y - upper) / scale.

        Parameters
        ----------
        y : array of shape (n,)
            The outcomes.
        prediction : array of shape (n,) or (n, n_columns)
            The predictions.

        Returns
        -------
        array of shape (n,)
            inf where the score exceeds the largest float.
        """
        lower, upper, scale = self.band(prediction)
        outcomes = float_array("y", y, ndim=1)
        check_length("y", outcomes, n=len(lower))
        outcomes = self.truth_from(outcomes)
        with np.errstate(over="ignore"):
            beyond: Floats = lower - outcomes
            np.maximum(beyond, outcomes - upper, out=beyond)
            return np.divide(beyond, scale, out=beyond)

    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Floats:
        """Return the intervals [lower - scale * threshold, upper + scale * threshold].

        Parameters
        ----------
        prediction : array of shape (n,) or (n, n_columns)
            The predictions.
        threshold : number or array of shape (n_levels,)
            inf gives the whole line. Below 0 no number has a residual and every
            interval is empty; between two quantiles, an interval of width w is empty
            when the threshold is below -w / 2.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for an array of thresholds
            Closed intervals that hold every y with score(y) <= threshold (unless the
            score underflows); an empty one is (+inf, -inf), with an `EmptySetWarning`.
        """
        lower, upper, scale = self.band(prediction)

        def radius(t: float) -> float | Floats:
            # The threshold moves up by one part in 2**52 for each rounding. If the
            # score, a rounded difference, is at most t, then y <= p + t * (1 + 2**-53)
            # as real numbers; rounding is monotone and y is a float, so y is at most
            # the rounded end. A threshold of 0 stays 0: a difference never rounds to
            # zero unless it is zero.
            if t < 0 and not self.is_signed:
                return -math.inf
            return scale * (t * (1 + math.copysign(self.roundings * _EPSILON, t)))

        return self.intervals(lower, upper, radius, threshold)

    def example(self, threshold: float, unit: str = "") -> str:
        """Return what an interval looks like; see `Score.example`."""
        if threshold < 0 and not self.is_signed:
            return (
                "No number has a score below 0: with this threshold every set is empty."
            )
        margin = self.margin_of_example * threshold
        if margin != 0 and not _SMALLEST <= abs(margin) <= _LARGEST:
            return ""
        magnitude = math.floor(math.log10(abs(margin))) if margin else 0
        is_usual = margin == 0 or _USUAL[0] <= abs(margin) <= _USUAL[1]
        center, digits = (
            100.0 if is_usual else 10.0 ** (magnitude + 2),
            max(0, 2 - magnitude),
        )
        prediction, low, high = self.describe_example(center, threshold, unit)
        ends = (
            f"{low - margin:,.{digits}f} to {high + margin:,.{digits}f} {unit}".rstrip()
        )
        return f"For example, {prediction} about {ends}."


def _with_unit(number: float, unit: str) -> str:
    digits = f"{number:,.12f}".rstrip("0").rstrip(".")
    return f"{digits} {unit}".rstrip()


@dataclass(frozen=True)
class Absolute(BandScore):
    """The absolute residual, ``|y - prediction|``.

    The prediction has shape (n,).

    Examples
    --------
    >>> Absolute().score([3.0, 5.0], [2.0, 7.0])
    array([1., 2.])
    >>> Absolute().set([2.0, 7.0], 1.5)
    array([[0.5, 3.5],
           [5.5, 8.5]])
    """

    name: ClassVar[str] = "absolute"
    has_unit: ClassVar[bool] = True

    def band(self, prediction: ArrayLike) -> tuple[Floats, Floats, float]:
        """Return the prediction as both ends."""
        center = self.checked(prediction)
        return center, center, 1.0

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see
        `Score.column_help`.
        """
        return "one column: the prediction"

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return (
            "Around a prediction, the set is the interval from prediction − q to"
            " prediction + q."
        )

    def describe_example(
        self, center: float, threshold: float, unit: str
    ) -> tuple[str, float, float]:
        """Return a prediction; see `BandScore.describe_example`."""
        return f"a prediction of {_with_unit(center, unit)} becomes", center, center


@dataclass(frozen=True)
class Normalized(BandScore):
    """The residual in units of its predicted spread, ``|y - mean| / sigma``.

    The prediction has shape (n, 2), its columns the mean and sigma > 0.

    Examples
    --------
    >>> Normalized().score([3.0], [[2.0, 0.5]])
    array([2.])
    >>> Normalized().set([[2.0, 0.5]], 2.0)
    array([[1., 3.]])
    """

    name: ClassVar[str] = "normalized"
    columns: ClassVar[tuple[str, ...]] = ("mean", "sigma")
    predict_option: ClassVar[str | None] = "return_std"
    roundings: ClassVar[int] = 3
    margin_of_example: ClassVar[float] = _SCALE

    def band(self, prediction: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return the mean as both ends, and sigma."""
        mean, sigma = self.checked(prediction).T
        return mean, mean, sigma

    def checked(self, prediction: ArrayLike) -> Floats:
        """Return predictions as floats, all finite and sigma > 0; see
        `IntervalScore.checked`.
        """
        pairs = super().checked(prediction)
        all_rows(
            "prediction",
            pairs[:, 1],
            pairs[:, 1] > 0,
            "must have sigma > 0 in column 1",
        )
        return pairs

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see
        `Score.column_help`.
        """
        return "two columns: the mean, then sigma"

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return (
            "The set is the interval from prediction − q·scale to prediction + q·scale,"
            " where scale is the model’s own estimate of its error."
        )

    def describe_example(
        self, center: float, threshold: float, unit: str
    ) -> tuple[str, float, float]:
        """Return a prediction and its scale; see `BandScore.describe_example`."""
        prediction, scale = _with_unit(center, unit), _with_unit(_SCALE, unit)
        return (
            f"a prediction of {prediction} with a scale of {scale} becomes",
            center,
            center,
        )


@dataclass(frozen=True)
class QuantileRegression(BandScore):
    """Distance of y beyond two predicted quantiles, max(lower - y, y - upper).

    The score of conformalized quantile regression: negative inside. The prediction has
    shape (n, 2), its columns the lower and the upper quantile. They may cross; nothing
    is swapped.

    Examples
    --------
    >>> QuantileRegression().score([3.0, 5.0], [[2.0, 6.0], [6.0, 8.0]])
    array([-1.,  1.])
    >>> QuantileRegression().set([[2.0, 6.0], [6.0, 8.0]], 0.5)
    array([[1.5, 6.5],
           [5.5, 8.5]])
    """

    name: ClassVar[str] = "cqr"
    columns: ClassVar[tuple[str, ...]] = ("lower", "upper")
    has_unit: ClassVar[bool] = True
    one_model_per_column: ClassVar[bool] = True
    is_signed: ClassVar[bool] = True

    def band(self, prediction: ArrayLike) -> tuple[Floats, Floats, float]:
        """Return the two quantiles."""
        lower, upper = self.checked(prediction).T
        return lower, upper, 1.0

    def prediction_from(
        self, table: ArrayLike, names: Sequence[str] | None = None
    ) -> Floats:
        """Return a table's columns, with a warning if they seem exchanged; see
        `Score.prediction_from`.
        """
        predicted = super().prediction_from(table, names)
        crossed = int(np.count_nonzero(predicted[:, 0] > predicted[:, 1]))
        if 2 * crossed > len(predicted):
            first, second = names or self.columns
            warn(
                f"{first} is larger than {second} in {crossed} of {len(predicted)}"
                " rows: are they exchanged? The lower quantile comes first"
            )
        return predicted

    def points(self, prediction: ArrayLike) -> Floats:
        """Return the middle of the two quantiles, shape (n,); see
        `IntervalScore.points`.
        """
        return np.asarray(np.mean(plain_array(prediction), axis=1))

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see
        `Score.column_help`.
        """
        return "two columns: the lower quantile, then the upper"

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.
        """
        return (
            "The set is the interval between the model’s two quantiles, widened by q on"
            " either side."
        )

    def describe_example(
        self, center: float, threshold: float, unit: str
    ) -> tuple[str, float, float]:
        """Return two quantiles, so far apart that a negative threshold leaves something
        between them.
        """
        apart = center / 10 if abs(threshold) < center / 20 else center / 2
        low, high = center - apart, center + apart
        return (
            f"quantiles of {low:,.12g} and {_with_unit(high, unit)} become",
            low,
            high,
        )


CQR = QuantileRegression
