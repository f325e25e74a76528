"""The residual in units of its predicted spread."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats
from fedconformal._validation import all_rows
from fedconformal.scores._arrays import as_outcomes
from fedconformal.scores._example import NO_NUMBER, Example
from fedconformal.scores._interval import IntervalScore, distance, outward, unsigned

_SCALE = 5.0  # of an example


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
