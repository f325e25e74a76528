"""Arguments, checked: every refusal names the argument, its value and what is allowed."""

import math
from collections.abc import Iterable
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._typing import Bools, Floats

_INT64 = 2**62


def integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Return a whole number in a range; bool and float are not whole numbers."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number {_at_least(low, high)}, got {value!r}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {_at_least(low, high)}, got {number}")
    return number


def integers(name: str, value: Any, *, low: int, high: int | None = None) -> NDArray[np.int64]:
    """Return a non-empty list of whole numbers in a range, as an array."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        raise TypeError(f"{name} must be a whole number or a list of them, got {value!r}")
    items = value if isinstance(value, np.ndarray) else list(value)
    if any(isinstance(item, bool) for item in items):
        raise TypeError(f"{name} must hold whole numbers {_at_least(low, high)}, got True or False")
    if isinstance(items, list) and any(isinstance(item, int) and abs(item) > _INT64 for item in items):
        raise ValueError(f"{name} must hold whole numbers {_at_least(low, high)}, got one that is too large")
    array = np.asarray(items)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a non-empty flat list, got shape {array.shape}")
    if array.dtype.kind not in "iu":
        odd = next((item for item in array.tolist() if not isinstance(item, int)), array.dtype)
        raise TypeError(f"{name} must hold whole numbers {_at_least(low, high)}, got {odd!r}")
    outside = (array < low) | (array > (high if high is not None else np.iinfo(np.int64).max))
    if outside.any():
        where = int(np.argmax(outside))
        raise ValueError(f"{name}[{where}] must be {_at_least(low, high)}, got {array[where]}")
    return array.astype(np.int64)


def fraction(name: str, value: Any, *, low: float = 0.0, high: float = 1.0, closed: bool = False) -> Fraction:
    """Return a probability, read as the decimal the user wrote: 0.9 is nine tenths.

    The range is open at ``low``, and open at ``high`` unless ``closed``.
    """
    allowed = f"a number in ({low:g}, {high:g}{']' if closed else ')'}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    number = _float(value)
    if not math.isfinite(number) or not (low < number < high or (closed and number == high)):
        raise ValueError(f"{name} must be {allowed}, got {value}")
    return value if isinstance(value, Fraction) else Fraction(str(value))


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of a few words."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return str(value)


def rank_of(share: Fraction, n: int) -> int:
    """``ceil(share * (n + 1))``, exactly."""
    return -(-share.numerator * (n + 1) // share.denominator)


def _at_least(low: int, high: int | None) -> str:
    return f">= {low}" if high is None else f"between {low} and {high}"


def plain_array(values: Any, *, dtype: Any = None) -> NDArray[Any]:
    """Return a numpy array of lists, columns of pandas and polars, or tensors of any device.

    Tensors may require a gradient; half-precision floats that numpy does not have become wider ones. Missing
    numbers are NaN.

    Parameters
    ----------
    values : object
        What a user calls an array.
    dtype : dtype, optional
        As for `numpy.asarray`.

    Returns
    -------
    array
        The same memory where that is possible.
    """
    if isinstance(values, np.ndarray):
        return np.asarray(values, dtype=dtype)
    if isinstance(values, (list, tuple)) and values and _is_tensor(values[0]):
        values = [plain_array(value) for value in values]
    array = np.asarray(_from_tensor(values) if _is_tensor(values) else values, dtype=dtype)
    if array.dtype.kind == "O" and dtype is None:
        return _from_nullable(values, array)
    return array.astype(np.float32) if array.dtype.name in _NOT_NUMPYS else array


_NOT_NUMPYS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _is_tensor(values: Any) -> bool:
    """Return whether it is a tensor of PyTorch, which need not be installed."""
    return all(hasattr(values, name) for name in ("detach", "cpu", "numpy"))


def _from_tensor(tensor: Any) -> NDArray[Any]:
    there = tensor.detach().cpu()
    try:
        return np.asarray(there.numpy())
    except TypeError:  # numpy has no such floats
        return np.asarray(there.float().numpy())


def _from_nullable(values: Any, array: NDArray[Any]) -> NDArray[Any]:
    """Read a column of numbers with missing ones, which numpy can only read as objects."""
    columns = getattr(values, "dtypes", [None]) if array.ndim == 2 else [getattr(values, "dtype", None)]
    if any(getattr(column, "kind", "O") not in "biuf" for column in columns):
        return array
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def number_array(name: str, values: Any) -> NDArray[Any]:
    """Return an array of booleans, whole numbers or floats, as `plain_array` reads it."""
    try:
        array = plain_array(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers, got dtype {array.dtype}")
    return array


def float_array(name: str, values: Any, *, ndim: int) -> Floats:
    """Return an array of float64 with `ndim` dimensions; the same memory where it already is one."""
    array = number_array(name, values)
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    return array.astype(np.float64, copy=False)


def is_missing(label: Any) -> bool:
    """Return whether a label is None or any library's not-a-number, not-a-time or not-available."""
    return not isinstance(label, str) and str(label) in {"None", "nan", "NaT", "<NA>"}


class BadRowsError(ValueError):
    """Some rows of an array are not allowed.

    ``bad`` says which, one entry per row; ``problem`` is the message without the rows, which are counted from
    0 there, and ``value`` what the first of them holds: for messages that count the lines of a file.
    """

    def __init__(self, message: str, bad: Bools, *, problem: str, value: Any) -> None:
        super().__init__(message)
        self.bad, self.problem, self.value = bad, problem, value


def all_rows(name: str, values: NDArray[Any], good: Bools, rule: str) -> None:
    """Refuse values unless all rows are good: the message counts those that are not and shows the first."""
    if good.all():
        return
    bad: Bools = np.any(~good.reshape(len(good), -1), axis=1)
    first = int(np.argmax(bad))
    raise BadRowsError(
        f"{name} {rule}; violated in {np.count_nonzero(bad)} of {len(bad)} rows "
        f"(first: row {first}, got {values[first].tolist()})",
        bad,
        problem=f"{name} {rule}",
        value=values[first].tolist(),
    )
