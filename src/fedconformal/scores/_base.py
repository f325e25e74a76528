"""Base class of all scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._text import USUAL_CLAIM, count
from fedconformal._util import (
    BadRowsError,
    Bools,
    Floats,
    all_rows,
    float_array,
    number_array,
    plain_array,
)

Draws = ArrayLike | np.random.Generator


def check_length(name: str, values: NDArray[Any], *, n: int) -> None:
    """Refuse values unless there is one for each row of the prediction."""
    if values.shape != (n,):
        raise ValueError(
            f"{name} must have shape ({n},) to match prediction, got {values.shape}"
        )


def as_thresholds(threshold: ArrayLike) -> tuple[Floats, bool]:
    """Return the thresholds, shape (n_levels,), and whether a single number was
    given.
    """
    array = number_array("threshold", threshold)
    if array.dtype.kind == "b":
        raise ValueError(
            "threshold must be a number or a list of numbers, got a boolean"
        )
    if array.ndim > 1 or array.size == 0:
        raise ValueError(
            f"threshold must be a number or a non-empty list, got shape {array.shape}"
        )
    levels = np.atleast_1d(array).astype(np.float64)
    if np.isnan(levels).any():
        raise ValueError(
            "threshold must not be nan (inf and -inf are allowed), got"
            f" {array.tolist()}"
        )
    return levels, array.ndim == 0


def as_draws(u: Draws | None, *, n: int, needed: bool) -> Floats | None:
    """Return the uniform numbers of a randomized score, one per row; None for one that
    is not.
    """
    if not needed:
        if u is not None:
            raise ValueError(
                "u was given, but the score has randomized=False; leave u out"
            )
        return None
    if u is None:
        raise ValueError(
            "u is missing: with randomized=True give n numbers in [0, 1) or a numpy"
            " Generator"
        )
    if isinstance(u, np.random.Generator):
        return u.random(n)
    draws = float_array("u", u, ndim=1)
    check_length("u", draws, n=n)
    all_rows("u", draws, (draws >= 0) & (draws < 1), "must lie in [0, 1)")
    return draws


@dataclass(frozen=True)
class Score(ABC):
    """Measure of how badly an outcome fits a prediction, and the outcomes that fit well
    enough.

    A score is an immutable pair of functions: ``score`` gives one number per row, small
    when the outcome fits, and ``set`` is its inverse, {y : score(y, prediction) <=
    threshold} for each row. The score of a row may depend on nothing but that row; the
    guarantees, and private reports, rest on it.

    A score of one's own is a frozen dataclass, its fields the parameters, that
    subclasses `IntervalScore` or `LabelScore`. It needs a ``name``, ``score`` and
    ``set``; all else has a default that fits most. A package declares it under the
    entry point group ``fedconformal.scores``, and then every plan can name it.

    Attributes
    ----------
    name : str
        Name of the score in `from_name` and plans; a class attribute.
    columns : tuple of str or None
        The prediction columns that it needs, in this order; None if it needs one for
        each class.
    largest : float or None
        No score can be above it, whatever the data; None if there is no such number.
    needs_draws : bool
        True if ``score`` takes uniform random numbers, the argument ``u``; see `draws`.
    has_random_sets : bool
        True if ``set`` takes them too.
    takes_images : bool
        True if predictions are arrays of images, and not tables.
    claim : str
        Promise to {whose} cases at a level, {share}, as the end of a sentence; {mean}
        is " on average" where the beginning does not say so.
    has_unit : bool
        True if scores, and so the threshold, have the unit of what is predicted.

    See Also
    --------
    IntervalScore : for outcomes that are numbers.
    LabelScore : for outcomes that are classes.

    Examples
    --------
    >>> from fedconformal.scores import Absolute
    >>> Absolute().score([1.0, 2.0], [1.5, 4.0])
    array([0.5, 2. ])
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the score, for `from_name` and plans."""

    columns: ClassVar[tuple[str, ...] | None] = None
    largest: ClassVar[float | None] = None
    has_unit: ClassVar[bool] = False
    takes_images: ClassVar[bool] = False
    claim: ClassVar[str] = USUAL_CLAIM

    @property
    def needs_draws(self) -> bool:
        """True if ``score`` takes uniform random numbers."""
        return False

    @property
    def has_random_sets(self) -> bool:
        """True if ``set`` takes uniform random numbers."""
        return self.needs_draws

    # -- what a score computes ---------------------------------------------------------

    @abstractmethod
    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return the score of each row.

        Parameters
        ----------
        y : array of shape (n,)
            The outcomes.
        prediction : array of shape (n,) or (n, n_columns)
            The predictions, as `prediction_from` gives them.

        Returns
        -------
        array of shape (n,)
        """

    @abstractmethod
    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Floats | Bools:
        """Return the outcomes that score at most the threshold, for each row.

        Parameters
        ----------
        prediction : array of shape (n,) or (n, n_columns)
            The predictions, as `prediction_from` gives them.
        threshold : number or array of shape (n_levels,)
            With an array there is a last axis for the thresholds.

        Returns
        -------
        array of shape (n, 2) or (n, n_classes), with an array of thresholds (...,
        n_levels)
        """

    def sets(
        self, prediction: ArrayLike, thresholds: ArrayLike, *, u: Draws | None = None
    ) -> Floats | Bools:
        """Return the sets of rows that may have different thresholds.

        Parameters
        ----------
        prediction : array of shape (n,) or (n, n_columns)
            The predictions, as `prediction_from` gives them.
        thresholds : array of shape (n_levels,) or (n, n_levels)
            The thresholds of all rows, or those of each row.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized, by
            ``**score.draws(rng)``.

        Returns
        -------
        array of shape (n, 2, n_levels) or (n, n_classes, n_levels)

        Examples
        --------
        >>> from fedconformal.scores import LAC
        >>> probabilities = [[0.75, 0.25], [0.75, 0.25]]
        >>> LAC().sets(probabilities, [[0.5], [0.9]])[:, :, 0]
        array([[ True, False],
               [ True,  True]])
        """
        inputs, levels = plain_array(prediction), number_array("thresholds", thresholds)
        n = len(inputs)
        draws = as_draws(u, n=n, needed=self.has_random_sets)
        if levels.ndim != 1 and (levels.ndim != 2 or len(levels) != n):
            raise ValueError(
                f"thresholds must have shape (n_levels,) or ({n}, n_levels), got"
                f" {levels.shape}"
            )
        if levels.ndim == 1 or n == 0:
            threshold = levels if levels.ndim == 1 else np.zeros(levels.shape[1])
            return self.set(inputs, threshold, **self._draws_of(draws))
        different, which = np.unique(levels, axis=0, return_inverse=True)
        order = [np.flatnonzero(which.reshape(-1) == i) for i in range(len(different))]
        parts = [
            self.set(inputs[rows], threshold, **self._draws_of(draws, rows))
            for rows, threshold in zip(order, different, strict=True)
        ]
        together: NDArray[Any] = np.concatenate(parts)
        return together[np.argsort(np.concatenate(order))]

    def scores_or_nan(
        self,
        y: ArrayLike,
        table: ArrayLike,
        names: Sequence[str] | None = None,
        *,
        u: Draws | None = None,
    ) -> Floats:
        """Return the score of each row, NaN for a row that has none, whatever the rows
        hold.

        For private reports: whether an error is raised would itself tell something of a
        case. What is refused here shows in the shapes alone.

        Parameters
        ----------
        y : array of shape (n,), or (n, n_columns) where a case has several outcomes
            The outcomes, as numbers.
        table : array of shape (n, n_columns)
            The columns of predictions.
        names : sequence of str
            The names of the columns, for messages.
        u : array of shape (n,) with values in [0, 1), or numpy Generator
            To be given if and only if the score is randomized, by
            ``**score.draws(rng)``.

        Returns
        -------
        array of shape (n,)
            NaN where the outcome is not finite or cannot be one, and where ``score``
            refuses the row.

        Raises
        ------
        ValueError
            If the columns are not those that the score needs, or y has another length.

        Examples
        --------
        >>> from fedconformal.scores import Absolute
        >>> Absolute().scores_or_nan([1.0, np.nan, 1.0], [[3.0], [3.0], [np.inf]])
        array([ 2., nan, nan])
        """
        prediction = self.prediction_from(table, names)
        truth = number_array("y", y).astype(np.float64, copy=False)
        if truth.shape != (shape := self._truth_shape(prediction)):
            raise ValueError(
                f"y must have shape {shape} to match prediction, got {truth.shape}"
            )
        draws = as_draws(u, n=len(prediction), needed=self.needs_draws)
        out = np.full(len(prediction), np.nan)
        pending = [np.flatnonzero(self._can_be_truth(truth))]
        while pending:
            rows = pending.pop()
            try:
                with np.errstate(all="ignore"):
                    y = self.truth_from(truth[rows])
                    out[rows] = self.score(
                        y, prediction[rows], **self._draws_of(draws, rows)
                    )
            except Exception as error:
                if isinstance(error, BadRowsError) and len(error.bad) == len(rows) > 1:
                    pending.append(rows[~error.bad])
                elif len(rows) > 1:
                    pending += np.array_split(rows, 2)
        return out

    # -- what goes in and out ----------------------------------------------------------

    def parameters(self) -> dict[str, bool | int | float | str]:
        """Return what `from_name` needs besides the name to make an equal score.

        Returns
        -------
        dict
            The fields of the dataclass by name.
        """
        known = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.init
        }
        if (
            "__dataclass_fields__" not in vars(type(self))
            and not vars(self).keys() <= known.keys()
        ):
            raise TypeError(
                f"{type(self).__name__} must be decorated with @dataclass(frozen=True):"
                " else its parameters are in no plan"
            )
        return known

    @abstractmethod
    def column_help(self) -> str:
        """Describe the prediction columns that it needs.

        Returns
        -------
        str
            Such as "two columns: the mean, then sigma".
        """

    @abstractmethod
    def prediction_from(
        self, table: ArrayLike, names: Sequence[str] | None = None
    ) -> NDArray[Any]:
        """Return the columns of a table as ``score`` and ``set`` take them.

        Parameters
        ----------
        table : array of shape (n, n_columns)
            The columns of predictions.
        names : sequence of str
            The names of the columns, for the message.

        Returns
        -------
        array of shape (n,) or (n, n_columns)

        Raises
        ------
        ValueError
            If the number of columns is not what the score needs.
        """

    @abstractmethod
    def truth_from(self, values: ArrayLike, *, argument: str = "y") -> NDArray[Any]:
        """Return a column of numbers as the outcomes that ``score`` takes.

        Parameters
        ----------
        values : array of shape (n,)
            The column.
        argument : str
            Name of the column in the message.

        Returns
        -------
        array of shape (n,)

        Raises
        ------
        ValueError
            If a value cannot be an outcome.
        """

    def set_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the columns that sets are written in.

        Parameters
        ----------
        names : sequence of str
            The names of the prediction columns.

        Returns
        -------
        tuple of str
            One for each entry of the second axis of what ``set`` returns.
        """
        return tuple(f"in_set_{name}" for name in names)

    def admits_all(self, threshold: float, n_classes: int) -> bool:
        """Return whether every set holds everything, whatever the predictions.

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
        return threshold == np.inf or (
            self.largest is not None and threshold >= self.largest
        )

    @abstractmethod
    def set_words(self) -> str:
        """Return how a prediction and the threshold q make a set, as a sentence for
        everybody.

        Returns
        -------
        str
        """

    def example(self, threshold: float, unit: str = "") -> str:
        """Return what a set looks like with this threshold, by an example in a
        sentence.

        Parameters
        ----------
        threshold : float
            A finite threshold.
        unit : str
            Of what is predicted, where there is one.

        Returns
        -------
        str
            Empty where no example says more than `set_words`.
        """
        return ""

    def draws(
        self, source: Draws | None = None, *, of_sets: bool = False
    ) -> dict[str, Any]:
        """Return the random numbers that ``score`` takes, or ``set`` and ``sets``, as
        keyword arguments.

        So ``score.score(y, prediction, **score.draws(rng))`` is right for every score.

        Parameters
        ----------
        source : numpy Generator, or array of shape (n,) with values in [0, 1)
            Source of the numbers; None is a new generator.
        of_sets : bool
            True for ``set`` and ``sets``.

        Returns
        -------
        dict
            Empty unless the score, or its sets, are randomized.
        """
        if not (self.has_random_sets if of_sets else self.needs_draws):
            return {}
        return {"u": np.random.default_rng() if source is None else source}

    def _truth_shape(self, prediction: NDArray[Any]) -> tuple[int, ...]:
        """Return the shape of the outcomes of these predictions."""
        return (len(prediction),)

    @abstractmethod
    def _can_be_truth(self, values: Floats) -> Bools:
        """Return which numbers are outcomes; never raise."""

    def _draws_of(
        self, draws: Floats | None, rows: Any = slice(None)
    ) -> dict[str, Any]:
        return {} if draws is None else {"u": draws[rows]}


def wrong_columns(
    score: Score, table: NDArray[Any], names: Sequence[str] | None
) -> ValueError:
    """Return the refusal of a table that does not have the columns of the score."""
    listed = "" if names is None else f" ({', '.join(names)})"
    columns = count(table.shape[1], "column")
    return ValueError(
        f"score {score.name!r} needs {score.column_help()}; got {columns}{listed}"
    )
