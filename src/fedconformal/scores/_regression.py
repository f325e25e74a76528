"""Scores of a number against a predicted number, a mean with a spread, or two quantiles.

Every set here is a closed interval. The scores are computed in floating point, so the numbers
that score at most t are not quite those of [prediction - t, prediction + t] computed in floating
point: with normal data that interval misses 18 % of the very points whose score is t. The sets
here are a few units in the last place wider, by which **no number that scores at most the
threshold is left out**; what they hold beyond those exceeds the threshold by rounding alone.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.scores._base import (
    EmptySetWarning,
    Floats,
    Kind,
    Parametrized,
    as_floats,
    as_outcomes,
    as_thresholds,
    refuse_unless,
)


@dataclass(frozen=True)
class Absolute(Parametrized):
    """The absolute residual, |y - prediction|.

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
    kind: ClassVar[Kind] = "interval"

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return |y - prediction|, shape (n,); inf where that exceeds the largest float."""
        center = _points(prediction)
        return _distance(as_outcomes(y, n=len(center)), center)

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
            Closed intervals that hold every y with score(y) <= threshold; an empty one is
            (+inf, -inf), with an `EmptySetWarning`.
        """
        center = _points(prediction)
        levels, single = as_thresholds(threshold)
        return _intervals(center, center, _outward(_unsigned(levels), roundings=1), single=single)


@dataclass(frozen=True)
class Normalized(Parametrized):
    """The residual in units of its predicted spread, |y - mean| / sigma.

    The prediction has shape (n, 2), its columns the mean and sigma > 0.

    Examples
    --------
    >>> Normalized().score([3.0], [[2.0, 0.5]])
    array([2.])
    >>> Normalized().set([[2.0, 0.5]], 2.0)
    array([[1., 3.]])
    """

    name: ClassVar[str] = "normalized"
    kind: ClassVar[Kind] = "interval"

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return |y - mean| / sigma, shape (n,); inf where that exceeds the largest float."""
        mean, sigma = _mean_and_sigma(prediction)
        distance = _distance(as_outcomes(y, n=len(mean)), mean)
        with np.errstate(over="ignore"):
            return np.divide(distance, sigma, out=distance)

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
            Closed intervals that hold every y with score(y) <= threshold (unless the score
            underflows); an empty one is (+inf, -inf), with an `EmptySetWarning`.
        """
        mean, sigma = _mean_and_sigma(prediction)
        levels, single = as_thresholds(threshold)
        outward = _outward(_unsigned(levels), roundings=3)
        return _intervals(mean, mean, outward, single=single, scale=sigma)


@dataclass(frozen=True)
class QuantileRegression(Parametrized):
    """How far y lies outside two predicted quantiles, max(lower - y, y - upper).

    The score of conformalized quantile regression: negative inside. The prediction has shape
    (n, 2), its columns the lower and the upper quantile. They may cross; nothing is swapped.

    Examples
    --------
    >>> QuantileRegression().score([3.0, 5.0], [[2.0, 6.0], [6.0, 8.0]])
    array([-1.,  1.])
    >>> QuantileRegression().set([[2.0, 6.0], [6.0, 8.0]], 0.5)
    array([[1.5, 6.5],
           [5.5, 8.5]])
    """

    name: ClassVar[str] = "cqr"
    kind: ClassVar[Kind] = "interval"

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return max(lower - y, y - upper), shape (n,); inf where that exceeds the largest float."""
        lower, upper = _columns(prediction)
        outcomes = as_outcomes(y, n=len(lower))
        with np.errstate(over="ignore"):
            below = lower - outcomes
            return np.maximum(below, outcomes - upper, out=below)

    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Floats:
        """Return the intervals [lower - threshold, upper + threshold].

        Parameters
        ----------
        prediction : array of shape (n, 2)
            Columns lower and upper quantile, in any order of size.
        threshold : number or array of shape (n_levels,)
            inf gives the whole line. It may be negative: an interval of width w is empty when the
            threshold is below -w / 2.

        Returns
        -------
        array of shape (n, 2), or (n, 2, n_levels) for an array of thresholds
            Closed intervals that hold every y with score(y) <= threshold; an empty one is
            (+inf, -inf), with an `EmptySetWarning`.
        """
        lower, upper = _columns(prediction)
        levels, single = as_thresholds(threshold)
        return _intervals(lower, upper, _outward(levels, roundings=1), single=single)


CQR = QuantileRegression


def _points(prediction: ArrayLike) -> Floats:
    points = as_floats(prediction, "prediction", ndim=1)
    refuse_unless(np.isfinite(points), "prediction", "must be finite", points)
    return points


def _columns(prediction: ArrayLike) -> tuple[Floats, Floats]:
    pairs = as_floats(prediction, "prediction", ndim=2)
    if pairs.shape[1] != 2:
        raise ValueError(f"prediction must have shape (n, 2), got {pairs.shape}")
    refuse_unless(np.isfinite(pairs), "prediction", "must be finite", pairs)
    return pairs[:, 0], pairs[:, 1]


def _mean_and_sigma(prediction: ArrayLike) -> tuple[Floats, Floats]:
    mean, sigma = _columns(prediction)
    refuse_unless(sigma > 0, "prediction", "must have sigma > 0 in column 1", sigma)
    return mean, sigma


def _distance(y: Floats, center: Floats) -> Floats:
    with np.errstate(over="ignore"):
        difference = y - center
    return np.abs(difference, out=difference)


def _unsigned(levels: Floats) -> Floats:
    # No distance is negative, so below 0 nothing fits however small the number: p - t and p + t
    # would round to p, a set of one point, for t = -1e-300.
    return np.where(levels < 0, -np.inf, levels)


def _outward(levels: Floats, *, roundings: int) -> Floats:
    """Return thresholds moved up by one part in 2**52 per rounded operation before the last.

    If the score, a rounded difference, is at most t, then y <= p + t * (1 + 2**-53) as real
    numbers; rounding is monotone and y is a float, so y is at most the rounded p + outward(t).
    A threshold of 0 stays 0: a difference never rounds to zero unless it is zero.
    """
    nudge = np.copysign(roundings * np.finfo(np.float64).eps, levels)
    with np.errstate(over="ignore"):
        outward: Floats = levels * (1 + nudge)
    return outward


def _intervals(
    lower: Floats, upper: Floats, levels: Floats, *, single: bool, scale: Floats | None = None
) -> Floats:
    out = np.empty((len(lower), 2, len(levels)))
    n_empty = 0
    with np.errstate(over="ignore"):
        for j, level in enumerate(levels):
            radius = level if scale is None else scale * level
            low = np.subtract(lower, radius, out=out[:, 0, j])
            high = np.add(upper, radius, out=out[:, 1, j])
            n_empty += _mark_empty(low, high)
    if n_empty:
        warnings.warn(
            f"{n_empty} of {len(lower) * len(levels)} intervals are empty: no number scores at most the "
            "threshold. They are given as (+inf, -inf), which covers nothing.",
            EmptySetWarning,
            stacklevel=3,
        )
    return out[:, :, 0] if single else out


def _mark_empty(low: Floats, high: Floats) -> int:
    empty = low > high
    if not empty.any():
        return 0
    low[empty], high[empty] = np.inf, -np.inf
    return int(np.count_nonzero(empty))
