"""What every score promises, and the checks that all of them share."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Kind = Literal["interval", "labels"]
Parameter = bool | int | float
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class EmptySetWarning(UserWarning):
    """Some prediction intervals hold no number at all; they are given as (+inf, -inf)."""


@runtime_checkable
class Score(Protocol):
    """How badly an outcome fits a prediction, and which outcomes fit well enough.

    A score is an immutable pair of functions. ``score`` gives one number per row, small when the
    outcome fits; ``set`` is its inverse, {y : score(y, prediction) <= threshold} for each row.

    Attributes
    ----------
    name : str
        What `from_name` knows the score by.
    kind : {"interval", "labels"}
        Whether ``set`` returns intervals, (n, 2), or membership of labels, bool (n, n_classes).
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]

    def parameters(self) -> dict[str, Parameter]:
        """Return what `from_name` needs besides the name to make an equal score."""
        ...

    def score(self, y: ArrayLike, prediction: ArrayLike) -> Floats:
        """Return the score of each row, shape (n,)."""
        ...

    def set(self, prediction: ArrayLike, threshold: ArrayLike) -> Floats | Bools:
        """Return the outcomes that score at most the threshold, for each row (and threshold)."""
        ...


class Parametrized:
    """Gives a frozen dataclass ``parameters()``, its fields by name."""

    def parameters(self) -> dict[str, Parameter]:
        """Return what `from_name` needs besides the name to make an equal score."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def as_floats(values: ArrayLike, argument: str, *, ndim: int) -> Floats:
    """Return values as float64 (the same memory where it already is), or refuse them by name."""
    array = as_numbers(values, argument)
    if array.ndim != ndim:
        raise ValueError(f"{argument} must have {ndim} dimension(s), got shape {array.shape}")
    return array.astype(np.float64, copy=False)


def as_numbers(values: ArrayLike, argument: str) -> NDArray[Any]:
    """Return values as an array of booleans, integers or floats, or refuse them by name."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{argument} must be an array of numbers, got dtype {array.dtype}")
    return array


def refuse_unless(good: Bools, argument: str, rule: str, values: NDArray[Any]) -> None:
    """Raise a ValueError that counts the rows not all good and shows the first, if there is any."""
    if good.all():
        return
    bad = ~good.reshape(len(good), -1)
    rows = np.flatnonzero(bad.any(axis=1))
    raise ValueError(
        f"{argument} {rule}; not so in {len(rows)} of {len(good)} rows, "
        f"the first is row {rows[0]}: {values[rows[0]].tolist()}"
    )


def refuse_other_length(values: NDArray[Any], argument: str, *, n: int) -> None:
    """Raise a ValueError unless values has one entry per row of the prediction."""
    if values.shape != (n,):
        raise ValueError(f"{argument} must have shape ({n},) to match prediction, got {values.shape}")


def as_outcomes(y: ArrayLike, *, n: int) -> Floats:
    """Return real outcomes, one per prediction; infinite ones are allowed and score infinity."""
    outcomes = as_floats(y, "y", ndim=1)
    refuse_other_length(outcomes, "y", n=n)
    refuse_unless(~np.isnan(outcomes), "y", "must not be nan", outcomes)
    return outcomes


def as_thresholds(threshold: ArrayLike) -> tuple[Floats, bool]:
    """Return the thresholds, shape (n_levels,), and whether a single number was given."""
    array = as_numbers(threshold, "threshold")
    if array.dtype.kind == "b":
        raise ValueError("threshold must be a number or a list of numbers, got a boolean")
    if array.ndim > 1 or array.size == 0:
        raise ValueError(f"threshold must be a number or a non-empty list, got shape {array.shape}")
    levels = np.atleast_1d(array).astype(np.float64)
    if np.isnan(levels).any():
        raise ValueError(f"threshold must not be nan (inf and -inf are allowed), got {array.tolist()}")
    return levels, array.ndim == 0
