"""A score from a user's own nested family of sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._util import Bools, Floats, all_rows, float_array, plain_array


class Nested:
    """Score of a nested family of sets F_t, which grow with a setting t: the smallest t
    with y in F_t(x).

    A set {y : score <= threshold} is then the largest F_t with t at most the threshold,
    so that calibrated like any scores, those of a family have the coverage of any
    scores (Gupta, Kuchibhotla, Ramdas 2022). On a grid of settings scores are rounded
    up and have ties, by which the coverage can only be larger.

    Scores are computed from the sets themselves: what rounding does to a set, it does
    to the score.

    Parameters
    ----------
    family : callable
        ``family(x, t)`` returns the sets of all rows of ``x`` at the setting ``t``, in
        any form. It is called with every setting and with +inf, where sets must hold
        everything. The set of a row may depend on nothing but that row.
    contains : callable
        ``contains(sets, y)`` returns whether each set holds its outcome, shape (n,).
    settings : array of shape (n_settings,)
        Settings to choose from, finite and rising, fixed before any calibration case is
        seen.

    Raises
    ------
    ValueError
        If the settings do not rise or are not finite.

    Examples
    --------
    >>> import fedconformal as fc
    >>> peaks = lambda x, t: np.stack(
    ...     [np.abs(x) - t, np.abs(x) + t], axis=1
    ... )  # of |y|: two intervals of y
    >>> holds = lambda sets, y: (sets[:, 0] <= np.abs(y)) & (np.abs(y) <= sets[:, 1])
    >>> nested = fc.scores.Nested(peaks, holds, settings=[0.5, 1, 2])
    >>> scores = nested.score([-3.0, 4.5, 9.0], np.array([3.0, 3.0, 3.0]))
    >>> scores
    array([0.5, 2. , inf])
    >>> calibration = fc.conformalize({"A": np.repeat(scores, [20, 18, 2])})
    >>> nested.set(np.array([5.0]), calibration.threshold)
    array([[3., 7.]])
    """

    def __init__(
        self,
        family: Callable[[Any, float], Any],
        contains: Callable[[Any, Any], ArrayLike],
        settings: ArrayLike,
    ) -> None:
        grid = float_array("settings", settings, ndim=1)
        if (
            grid.size == 0
            or not np.isfinite(grid).all()
            or not (np.diff(grid) > 0).all()
        ):
            raise ValueError(f"settings must be finite and rise, got {grid.tolist()}")
        self.family, self.contains = family, contains
        self.settings = np.append(grid, np.inf)

    def score(self, y: Any, x: Any) -> Floats:
        """Return the smallest setting at which the set of each row holds its outcome.

        Parameters
        ----------
        y : array of n outcomes
            The outcomes, as ``contains`` takes them.
        x : array of n rows
            The features or predictions, as ``family`` takes them.

        Returns
        -------
        array of shape (n,)
            +inf where no setting suffices.

        Raises
        ------
        ValueError
            If an outcome leaves its set as the setting grows, or is not in the set at
            +inf.
        """
        inside = np.stack(
            [self._holds(y, x, t) for t in self.settings.tolist()], axis=1
        )
        all_rows("sets", inside, inside[:, -1], "must hold every outcome at t = inf")
        all_rows(
            "sets",
            inside,
            inside[:, 1:] >= inside[:, :-1],
            "must be nested, each within the next",
        )
        return np.asarray(self.settings[inside.argmax(axis=1)], dtype=np.float64)

    def set(self, x: Any, threshold: float) -> Any:
        """Return the outcomes that score at most the threshold, for each row.

        Parameters
        ----------
        x : array of n rows
            The features or predictions, as ``family`` takes them.
        threshold : float
            +inf gives everything.

        Returns
        -------
        object
            What ``family`` returns at the largest setting that is at most the
            threshold.

        Raises
        ------
        ValueError
            If the threshold is below all settings.
        """
        if not threshold >= self.settings[0]:
            raise ValueError(
                f"threshold must be at least the first setting, {self.settings[0]:g},"
                f" got {threshold!r}"
            )
        return self.family(x, float(self.settings[self.settings <= threshold][-1]))

    def _holds(self, y: Any, x: Any, t: float) -> Bools:
        holds = plain_array(self.contains(self.family(x, t), y))
        if holds.dtype != np.bool_ or holds.shape != (len(y),):
            raise ValueError(
                f"contains must return {len(y)} booleans, one for each outcome, got"
                f" {holds.dtype} of shape {holds.shape} at t = {t:g}"
            )
        return holds
