"""The score of conformalized quantile regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats
from fedconformal._validation import plain_array
from fedconformal._warnings import warn
from fedconformal.scores._arrays import as_outcomes
from fedconformal.scores._example import Example
from fedconformal.scores._interval import IntervalScore, outward


@dataclass(frozen=True)
class QuantileRegression(IntervalScore):
    """How far y lies outside two predicted quantiles, max(lower - y, y - upper).

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
