"""Arrays of scores, checked."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._validation import plain_array

Scores = NDArray[np.floating[Any]]


def flat_numbers(scores: ArrayLike) -> Scores:
    """A flat array of at least one number, whatever the numbers are.

    Parameters
    ----------
    scores : array-like
        Integers, booleans or floats.

    Returns
    -------
    array of float
        The same memory where it holds floats already.

    Examples
    --------
    >>> from fedconformal.protocol import flat_numbers
    >>> flat_numbers([1, 2, float("nan")])
    array([ 1.,  2., nan])
    """
    values = plain_array(scores)
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    if values.dtype.kind != "f":
        raise TypeError(f"scores must be numbers, got an array of {values.dtype}")
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"scores must be a flat array with at least one score, got shape {values.shape}")
    return values


def private_numbers(scores: ArrayLike) -> Scores:
    """A flat array of at least one number, NaN where there is none: whether one was refused would tell of it.

    Parameters
    ----------
    scores : array-like
        As for `flat_numbers`; a cell may hold anything else.

    Returns
    -------
    array of float
        Numbers to be counted in bins.

    Examples
    --------
    >>> from fedconformal.protocol import private_numbers
    >>> private_numbers([1.5, "unknown", 2])
    array([1.5, nan, 2. ])
    """
    values = np.asarray(scores)
    if values.dtype.kind in "OUSc":
        values = np.array([_number(cell) for cell in values.flat], dtype=np.float64).reshape(values.shape)
    return flat_numbers(values)


def _number(cell: Any) -> float:
    """The number in a cell, NaN if there is none."""
    if isinstance(cell, (complex, np.complexfloating)):
        return float(cell.real) if cell.imag == 0 else math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def flat_scores(scores: ArrayLike) -> Scores:
    """A flat array of at least one score, NaN and -inf refused.

    Parameters
    ----------
    scores : array-like
        As for `flat_numbers`.

    Returns
    -------
    array of float
        Scores that can be ranked.

    Examples
    --------
    >>> from fedconformal.protocol import flat_scores
    >>> flat_scores([1, 2, float("inf")])
    array([ 1.,  2., inf])
    """
    values = flat_numbers(scores)
    # A sum is NaN or -inf if anything in it is; looking closer is only needed then.
    with np.errstate(all="ignore"):
        total = values.sum()
    if not total > -math.inf:
        for wrong, name in ((np.isnan(values), "NaN"), (values == -math.inf, "-inf")):
            if wrong.any():
                first = int(np.argmax(wrong))
                raise ValueError(
                    f"scores must not be {name}, got {int(wrong.sum())}, the first in row {first}"
                )
    return values
