"""Scores of numbers: residuals, residuals in units of a predicted spread, distances to two quantiles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import warn
from fedconformal._util import Floats, all_rows, plain_array
from fedconformal.scores._base import as_outcomes
from fedconformal.scores._interval import IntervalScore, distance, outward, unsigned

_SMALLEST, _LARGEST = 1e-9, 1e12  # of a margin of an example
_USUAL = (0.05, 50.0)  # margins that a prediction of 100 shows well
_SCALE = 5.0  # of an example


@dataclass(frozen=True)
class Example:
    """Round numbers of a size with a margin, and as many digits as show it.

    Parameters
    ----------
    margin : float
        Distance of either end from the center.
    unit : str
        Unit of the numbers, where there is one.
    """

    margin: float
    unit: str = ""

    @property
    def is_readable(self) -> bool:
        """True if an example can be written out, or has no margin at all."""
        return self.margin == 0 or _SMALLEST <= abs(self.margin) <= _LARGEST

    @property
    def center(self) -> float:
        """Prediction of 100, or a power of ten that is a little larger than the margin."""
        if self.margin == 0 or _USUAL[0] <= abs(self.margin) <= _USUAL[1]:
            return 100.0
        return float(10.0 ** (math.floor(math.log10(abs(self.margin))) + 2))

    def about(self, low: float, high: float) -> str:
        """Return an interval, rounded to three digits of the margin: "96.06 to 103.94 days"."""
        digits = 2 if self.margin == 0 else max(0, 2 - math.floor(math.log10(abs(self.margin))))
        return f"{low:,.{digits}f} to {high:,.{digits}f} {self.unit}".rstrip()

    def exact(self, number: float) -> str:
        """Return a round number with its unit."""
        digits = f"{number:,.12f}".rstrip("0").rstrip(".")
        return f"{digits} {self.unit}".rstrip()


NO_NUMBER = "No number has a score below 0: with this threshold every set is empty."


@dataclass(frozen=True)
class Absolute(IntervalScore):
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

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return ``|y - prediction|``.

        Parameters
        ----------
        y : array of shape (n,)
            The outcomes.
        prediction : array of shape (n,)
            The predicted numbers.

        Returns
        -------
        array of shape (n,)
            inf where the distance exceeds the largest float.
        """
        center = self.checked(prediction)
        return distance(as_outcomes(y, n=len(center)), center)

    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Floats:
        """Return the intervals prediction ± threshold.

        Parameters
        ----------
        prediction : array of shape (n,)
            The predicted numbers.
        threshold : number or array of shape (n_levels,)
            inf gives the whole line; below 0 no number fits and every interval is empty.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for an array of thresholds
            Closed intervals that hold every y with score(y) <= threshold; an empty one is (+inf, -inf), with
            an `EmptySetWarning`.
        """
        center = self.checked(prediction)
        return self.intervals(center, center, lambda t: outward(unsigned(t), roundings=1), threshold)

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see `Score.column_help`."""
        return "one column: the prediction"

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return "Around a prediction, the set is the interval from prediction − q to prediction + q."

    def example(self, threshold: float, unit: str = "") -> str:
        """Return what an interval looks like; see `Score.example`."""
        if threshold < 0:
            return NO_NUMBER
        made = Example(threshold, unit)
        if not made.is_readable:
            return ""
        ends = made.about(made.center - threshold, made.center + threshold)
        return f"For example, a prediction of {made.exact(made.center)} becomes about {ends}."


@dataclass(frozen=True)
class Normalized(IntervalScore):
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

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return ``|y - mean| / sigma``.

        Parameters
        ----------
        y : array of shape (n,)
            The outcomes.
        prediction : array of shape (n, 2)
            Columns mean and sigma; sigma must be positive.

        Returns
        -------
        array of shape (n,)
            inf where the score exceeds the largest float.
        """
        mean, sigma = self.checked(prediction).T
        residuals = distance(as_outcomes(y, n=len(mean)), mean)
        with np.errstate(over="ignore"):
            np.divide(residuals, sigma, out=residuals)
        return residuals

    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Floats:
        """Return the intervals mean ± sigma * threshold.

        Parameters
        ----------
        prediction : array of shape (n, 2)
            Columns mean and sigma; sigma must be positive.
        threshold : number or array of shape (n_levels,)
            inf gives the whole line; below 0 no number fits and every interval is empty.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for an array of thresholds
            Closed intervals that hold every y with score(y) <= threshold (unless the score underflows); an
            empty one is (+inf, -inf), with an `EmptySetWarning`.
        """
        mean, sigma = self.checked(prediction).T
        return self.intervals(mean, mean, lambda t: sigma * outward(unsigned(t), roundings=3), threshold)

    def checked(self, prediction: ArrayLike) -> Floats:
        """Return predictions as floats, all finite and sigma > 0; see `IntervalScore.checked`."""
        pairs = super().checked(prediction)
        all_rows("prediction", pairs[:, 1], pairs[:, 1] > 0, "must have sigma > 0 in column 1")
        return pairs

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see `Score.column_help`."""
        return "two columns: the mean, then sigma"

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return (
            "The set is the interval from prediction − q·scale to prediction + q·scale, where scale is the "
            "model’s own estimate of its error."
        )

    def example(self, threshold: float, unit: str = "") -> str:
        """Return what an interval looks like; see `Score.example`."""
        if threshold < 0:
            return NO_NUMBER
        margin = _SCALE * threshold
        made = Example(margin, unit)
        if not made.is_readable:
            return ""
        return (
            f"For example, a prediction of {made.exact(made.center)} with a scale of {made.exact(_SCALE)} "
            f"becomes about {made.about(made.center - margin, made.center + margin)}."
        )


@dataclass(frozen=True)
class QuantileRegression(IntervalScore):
    """Distance of y beyond two predicted quantiles, max(lower - y, y - upper).

    The score of conformalized quantile regression: negative inside. The prediction has shape (n, 2), its
    columns the lower and the upper quantile. They may cross; nothing is swapped.

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

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return max(lower - y, y - upper).

        Parameters
        ----------
        y : array of shape (n,)
            The outcomes.
        prediction : array of shape (n, 2)
            Columns lower and upper quantile, in any order of size.

        Returns
        -------
        array of shape (n,)
            inf where the score exceeds the largest float.
        """
        lower, upper = self.checked(prediction).T
        outcomes = as_outcomes(y, n=len(lower))
        with np.errstate(over="ignore"):
            below: Floats = lower - outcomes
            np.maximum(below, outcomes - upper, out=below)
        return below

    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Floats:
        """Return the intervals [lower - threshold, upper + threshold].

        Parameters
        ----------
        prediction : array of shape (n, 2)
            Columns lower and upper quantile, in any order of size.
        threshold : number or array of shape (n_levels,)
            inf gives the whole line. It may be negative: an interval of width w is empty when the threshold
            is below -w / 2.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for an array of thresholds
            Closed intervals that hold every y with score(y) <= threshold; an empty one is (+inf, -inf), with
            an `EmptySetWarning`.
        """
        lower, upper = self.checked(prediction).T
        return self.intervals(lower, upper, lambda t: outward(t, roundings=1), threshold)

    def prediction_from(self, table: ArrayLike, names: Sequence[str] | None = None) -> Floats:
        """Return a table's columns, with a warning if they seem exchanged; see `Score.prediction_from`."""
        predicted = super().prediction_from(table, names)
        crossed = int(np.count_nonzero(predicted[:, 0] > predicted[:, 1]))
        if 2 * crossed > len(predicted):
            first, second = names or self.columns
            warn(
                f"{first} is larger than {second} in {crossed} of {len(predicted)} rows: are they exchanged? "
                "The lower quantile comes first"
            )
        return predicted

    def points(self, prediction: ArrayLike) -> Floats:
        """Return the middle of the two quantiles, shape (n,); see `IntervalScore.points`."""
        return np.asarray(np.mean(plain_array(prediction), axis=1))

    def column_help(self) -> str:
        """Return which prediction columns it needs, in words; see `Score.column_help`."""
        return "two columns: the lower quantile, then the upper"

    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for everybody."""
        return "The set is the interval between the model’s two quantiles, widened by q on either side."

    def example(self, threshold: float, unit: str = "") -> str:
        """Return what an interval looks like; see `Score.example`."""
        made = Example(threshold, unit)
        if not made.is_readable:
            return ""
        # Far enough apart that a negative threshold leaves something between them.
        apart = made.center / 10 if abs(threshold) < made.center / 20 else made.center / 2
        low, high = made.center - apart, made.center + apart
        return (
            f"For example, quantiles of {low:,.12g} and {made.exact(high)} become about "
            f"{made.about(low - threshold, high + threshold)}."
        )


CQR = QuantileRegression
