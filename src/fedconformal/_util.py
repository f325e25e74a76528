"""Array aliases, validated arguments, regular files and registries."""

import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from fractions import Fraction
from importlib.metadata import entry_points
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._text import warn

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Scores = NDArray[np.floating[Any]]


# -- arguments, checked: every refusal names the argument, its value and what is allowed

_INT64 = 2**62


def integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Return a whole number in a range; bool and float are not whole numbers."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(
            f"{name} must be a whole number {_at_least(low, high)}, got {value!r}"
        )
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {_at_least(low, high)}, got {number}")
    return number


def integers(
    name: str, value: Any, *, low: int, high: int | None = None
) -> NDArray[np.int64]:
    """Return a non-empty list of whole numbers in a range, as an array."""
    if (
        isinstance(value, (str, bytes))
        or not isinstance(value, Iterable)
        or getattr(value, "ndim", 1) == 0
    ):
        raise TypeError(
            f"{name} must be a whole number or a list of them, got {value!r}"
        )
    items = value if isinstance(value, np.ndarray) else list(value)
    if any(isinstance(item, bool) for item in items):
        raise TypeError(
            f"{name} must hold whole numbers {_at_least(low, high)}, got True or False"
        )
    if isinstance(items, list) and any(
        isinstance(item, int) and abs(item) > _INT64 for item in items
    ):
        raise ValueError(
            f"{name} must hold whole numbers {_at_least(low, high)}, got one that is"
            " too large"
        )
    array = np.asarray(items)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"{name} must be a non-empty flat list, got shape {array.shape}"
        )
    if array.dtype.kind not in "iu":
        odd = next(
            (item for item in array.tolist() if not isinstance(item, int)), array.dtype
        )
        raise TypeError(
            f"{name} must hold whole numbers {_at_least(low, high)}, got {odd!r}"
        )
    outside = (array < low) | (
        array > (high if high is not None else np.iinfo(np.int64).max)
    )
    if outside.any():
        where = int(np.argmax(outside))
        raise ValueError(
            f"{name}[{where}] must be {_at_least(low, high)}, got {array[where]}"
        )
    return array.astype(np.int64)


def fraction(
    name: str, value: Any, *, low: float = 0.0, high: float = 1.0, closed: bool = False
) -> Fraction:
    """Return a probability, read as the decimal the user wrote: 0.9 is nine tenths.

    The range is open at ``low``, and open at ``high`` unless ``closed``.
    """
    allowed = f"a number in ({low:g}, {high:g}{']' if closed else ')'}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not (
        low < number < high or (closed and number == high)
    ):
        raise ValueError(f"{name} must be {allowed}, got {value}")
    return value if isinstance(value, Fraction) else Fraction(str(value))


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of a few words."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}"
        )
    return str(value)


def rank_of(share: Fraction, n: int) -> int:
    """``ceil(share * (n + 1))``, exactly."""
    return -(-share.numerator * (n + 1) // share.denominator)


def _at_least(low: int, high: int | None) -> str:
    return f">= {low}" if high is None else f"between {low} and {high}"


def plain_array(values: Any, *, dtype: Any = None) -> NDArray[Any]:
    """Return a numpy array of lists, columns of pandas and polars, or tensors of any
    device.

    Tensors may require a gradient; half-precision floats that numpy does not have
    become wider ones. Missing numbers are NaN.

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
    if _is_tensor(values):
        values = values.detach().cpu()
        try:
            values = values.numpy()
        except TypeError:  # numpy has no such floats
            values = values.float().numpy()
    array = np.asarray(values, dtype=dtype)
    if array.dtype.kind == "O" and dtype is None:
        # A column of numbers with missing ones, which numpy can only read as objects.
        columns = (
            getattr(values, "dtypes", [None])
            if array.ndim == 2
            else [getattr(values, "dtype", None)]
        )
        if any(getattr(column, "kind", "O") not in "biuf" for column in columns):
            return array
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return array.astype(np.float32) if array.dtype.name in _NOT_NUMPYS else array


_NOT_NUMPYS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _is_tensor(values: Any) -> bool:
    """Return whether it is a tensor of PyTorch, which need not be installed."""
    return all(hasattr(values, name) for name in ("detach", "cpu", "numpy"))


def number_array(name: str, values: Any) -> NDArray[Any]:
    """Return an array of booleans, whole numbers or floats, as `plain_array` reads
    it.
    """
    try:
        array = plain_array(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers, got dtype {array.dtype}")
    return array


def float_array(name: str, values: Any, *, ndim: int) -> Floats:
    """Return an array of float64 with `ndim` dimensions; the same memory where it
    already is one.
    """
    array = number_array(name, values)
    if array.ndim != ndim:
        raise ValueError(
            f"{name} must have {ndim} dimension(s), got shape {array.shape}"
        )
    return array.astype(np.float64, copy=False)


def is_missing(label: Any) -> bool:
    """Return whether a label is None or any library's not-a-number, not-a-time or
    not-available.
    """
    return not isinstance(label, str) and str(label) in {"None", "nan", "NaT", "<NA>"}


class BadRowsError(ValueError):
    """Some rows of an array are not allowed.

    ``bad`` says which, one entry per row; ``problem`` is the message without the rows,
    which are counted from 0 there, and ``value`` what the first of them holds: for
    messages that count the lines of a file.
    """

    def __init__(self, message: str, bad: Bools, *, problem: str, value: Any) -> None:
        super().__init__(message)
        self.bad, self.problem, self.value = bad, problem, value


def all_rows(name: str, values: NDArray[Any], good: Bools, rule: str) -> None:
    """Refuse values unless all rows are good: the message counts those that are not and
    shows the first.
    """
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


# -- scores ----------------------------------------------------------------------------


def flat_numbers(scores: ArrayLike) -> Scores:
    """Return a flat array of at least one number, NaN and infinity included; floats as
    they are.
    """
    values = plain_array(scores)
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    if values.dtype.kind != "f":
        raise TypeError(f"scores must be numbers, got an array of {values.dtype}")
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            "scores must be a flat array with at least one score, got shape"
            f" {values.shape}"
        )
    return values


def private_numbers(scores: ArrayLike) -> Scores:
    """Return a flat array, NaN where a cell holds no number: a refusal would disclose
    that one is missing.
    """
    return flat_numbers(numbers_or_nan(scores))


def numbers_or_nan(cells: ArrayLike) -> NDArray[Any]:
    """Return an array of any shape, NaN where a cell holds no number."""
    values = np.asarray(cells)
    if values.dtype.kind in "OUSc":
        return np.array(
            [_number(cell) for cell in values.flat], dtype=np.float64
        ).reshape(values.shape)
    return values


def _number(cell: Any) -> float:
    """Return the number in a cell, NaN if there is none."""
    if isinstance(cell, (complex, np.complexfloating)):
        return float(cell.real) if cell.imag == 0 else math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def flat_scores(scores: ArrayLike) -> Scores:
    """Return a flat array of at least one score that can be ranked: NaN and -inf are
    refused.
    """
    values = flat_numbers(scores)
    # A sum is NaN or -inf if anything in it is; looking closer is only needed then.
    with np.errstate(all="ignore"):
        total = values.sum()
    if not total > -math.inf:
        for wrong, name in ((np.isnan(values), "NaN"), (values == -math.inf, "-inf")):
            if wrong.any():
                first = int(np.argmax(wrong))
                rows = f"{int(wrong.sum())} of {values.size} rows"
                raise ValueError(
                    f"scores contain {name} in {rows} (first: row {first})"
                )
    return values


# -- files -----------------------------------------------------------------------------


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a regular file; a pipe or a device could keep its reader waiting for ever.

    Parameters
    ----------
    path : str or path-like
        The file.
    most : int
        How many bytes at the most.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        With the name of the file and the reason in one line.
    """
    try:
        number = os.open(
            path,
            os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0),
        )
        with open(number, "rb") as file:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError(f"{path}: is not a regular file")
            # Memory for the largest file is not taken for every small one; some
            # systems' files say 0.
            return file.read(min(most, status.st_size + 1) if status.st_size else most)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None


# -- registries ------------------------------------------------------------------------

T = TypeVar("T")

_NAME = re.compile(r"[a-z][a-z0-9-]{0,59}")


class Registry(Generic[T]):
    """Classes of one kind by name, such as all criteria.

    Parameters
    ----------
    what : str
        What is chosen, as an argument is called: ``"criterion"``.
    group : str
        The entry point group of packages that bring their own,
        ``"fedconformal.criteria"``.
    """

    def __init__(self, what: str, group: str) -> None:
        self.what, self.group = what, group
        self._known: dict[str, type[T]] = {}
        self._looked = False

    def register(self, kind: type[T]) -> type[T]:
        """Add a class under its ``name``; a decorator. A name that is taken is
        refused.
        """
        name = getattr(kind, "name", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            allowed = "small letters, digits and hyphens"
            raise TypeError(
                f"a {self.what} needs a class attribute name of {allowed}, got {name!r}"
            )
        if self._known.setdefault(name, kind) is not kind:
            raise ValueError(f"there is a {self.what} called {name!r} already")
        return kind

    def unregister(self, name: str) -> None:
        """Remove a class, for tests that bring their own."""
        self._known.pop(name, None)

    def __getitem__(self, name: str) -> type[T]:
        """Return the class of that name, or raise a ValueError that lists the names."""
        if not isinstance(name, str) or (
            name not in self._known and name not in self.names()
        ):
            listed = ", ".join(map(repr, self.names()))
            raise ValueError(f"{self.what} must be one of {listed}, got {name!r}")
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a class of that name."""
        return name in self._known or name in self.names()

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter(self.names())

    def names(self) -> tuple[str, ...]:
        """All names, ours first, in the order they were registered."""
        if not self._looked:
            self._looked = True
            for point in entry_points(group=self.group):
                try:
                    self.register(point.load())
                except Exception as error:
                    broken = (
                        f"the {self.what} {point.name!r} of the package {point.value!r}"
                    )
                    warn(f"{broken} cannot be used: {error}")
        return tuple(self._known)
