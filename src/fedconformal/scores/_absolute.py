"""The absolute residual."""

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from fedconformal._typing import Floats
from fedconformal.scores._arrays import as_outcomes
from fedconformal.scores._example import NO_NUMBER, Example
from fedconformal.scores._interval import IntervalScore, distance, outward, unsigned


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
    columns: ClassVar[tuple[str, ...]] = ("prediction",)
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
