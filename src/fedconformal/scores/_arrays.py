"""Array arguments that all scores take: outcomes, thresholds and uniform draws, checked."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._typing import Bools, Floats
from fedconformal._validation import all_rows, float_array, number_array

Draws = ArrayLike | np.random.Generator

# Above it floats skip whole numbers.
_LARGEST_WHOLE = 2**53


def refuse_other_length(name: str, values: NDArray[Any], *, n: int) -> None:
    """Refuse values unless there is one for each row of the prediction."""
    if values.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},) to match prediction, got {values.shape}")


def as_outcomes(y: ArrayLike, *, n: int) -> Floats:
    """Real outcomes, one per prediction; infinite ones are allowed and score infinity."""
    outcomes = float_array("y", y, ndim=1)
    refuse_other_length("y", outcomes, n=n)
    all_rows("y", outcomes, ~np.isnan(outcomes), "must not be nan")
    return outcomes


def as_labels(y: ArrayLike, *, n: int, n_classes: int) -> NDArray[np.intp]:
    """Class indices, one per prediction."""
    labels = number_array("y", y)
    refuse_other_length("y", labels, n=n)
    if labels.dtype.kind == "f":
        all_rows("y", labels, ~np.isnan(labels), "must not be nan")
    allowed = (labels >= 0) & (labels < n_classes) & (labels == np.floor(labels))
    all_rows("y", labels, allowed, f"must be class indices from 0 to {n_classes - 1}")
    return labels.astype(np.intp)


def are_class_numbers(values: Floats) -> Bools:
    """Return which of the numbers are 0, 1, 2, ..."""
    whole: Bools = (values >= 0) & (values <= _LARGEST_WHOLE) & (values == np.floor(values))
    return whole


def as_thresholds(threshold: ArrayLike) -> tuple[Floats, bool]:
    """Return the thresholds, shape (n_levels,), and whether a single number was given."""
    array = number_array("threshold", threshold)
    if array.dtype.kind == "b":
        raise ValueError("threshold must be a number or a list of numbers, got a boolean")
    if array.ndim > 1 or array.size == 0:
        raise ValueError(f"threshold must be a number or a non-empty list, got shape {array.shape}")
    levels = np.atleast_1d(array).astype(np.float64)
    if np.isnan(levels).any():
        raise ValueError(f"threshold must not be nan (inf and -inf are allowed), got {array.tolist()}")
    return levels, array.ndim == 0


def as_draws(u: Draws | None, *, n: int, needed: bool) -> Floats | None:
    """Return the uniform numbers of a randomized score, one per row; None for one that is not."""
    if not needed:
        if u is not None:
            raise ValueError("u was given, but the score has randomized=False; leave u out")
        return None
    if u is None:
        raise ValueError("u is missing: with randomized=True give n numbers in [0, 1) or a numpy Generator")
    if isinstance(u, np.random.Generator):
        return u.random(n)
    draws = float_array("u", u, ndim=1)
    refuse_other_length("u", draws, n=n)
    all_rows("u", draws, (draws >= 0) & (draws < 1), "must lie in [0, 1)")
    return draws
