"""Numbers from files: CSV, Parquet or .npy, by column."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal._typing import Floats

_BATCH = 4_000_000  # rows of a Parquet file read at once
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".npy")
"""Of files that can be read."""


def read_column(path: Path, column: str | None = None, *, nan: bool = False) -> Floats:
    """Return one column of numbers as an array that belongs to the caller.

    Parquet is streamed into the result, batch by batch.

    Parameters
    ----------
    path : Path
        A .csv, .tsv, .txt, .parquet or .npy file.
    column : str
        The name of the column; a file with one column needs none.
    nan : bool
        Whether NaN, empty cells and cells that hold no number are allowed, and become NaN: of private scores
        no error may tell.

    Returns
    -------
    array of shape (n,)

    Raises
    ------
    ValueError
        If the file cannot be read, or the column is missing or holds something else.
    """
    kind, named = _kind(path), True
    if kind == ".npy":
        values = _npy(path, column)
    elif kind == ".parquet":
        values = _parquet_column(path, column, nan=nan)
    else:
        frame, named = _csv(path, text=nan, ragged=nan)
        values = _numeric(path, frame, _only(path, frame.columns, column), nan=nan)
    if values.size == 0:
        raise ValueError(f"{path}: no scores in it")
    found = values if nan else _without_nan(path, values)
    if not named:
        _say_unnamed(path)
    return found


def read_table(path: Path) -> Any:
    """Return a whole table; .npy columns are called column_1, column_2, ...

    The cells of a CSV stay text, so that what is only passed through (an id of 007) is not changed.

    Parameters
    ----------
    path : Path
        A .csv, .tsv, .txt, .parquet or .npy file.

    Returns
    -------
    polars DataFrame

    Raises
    ------
    ValueError
        If the file cannot be read or has no rows.
    """
    kind = _kind(path)
    if kind == ".npy":
        array = _load_npy(path)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or array.dtype.kind not in "iuf":
            raise ValueError(
                f"{path}: a table of numbers is needed, got {array.dtype} of shape {array.shape}"
            )
        names = [f"column_{i + 1}" for i in range(array.shape[1])]
        return _polars().DataFrame({name: array[:, i] for i, name in enumerate(names)})
    frame, named = (_read_parquet(path), True) if kind == ".parquet" else _csv(path, text=True)
    if frame.height == 0:
        raise ValueError(f"{path}: no rows in it")
    if not named:
        _say_unnamed(path)
    return frame


def read_labels(path: Path, column: str) -> tuple[list[str], list[str]]:
    """Return one column as text, and the names of the other columns.

    Parameters
    ----------
    path : Path
        A .csv, .tsv, .txt, .parquet or .npy file.
    column : str
        The name of the column.

    Returns
    -------
    labels : list of str
        The column.
    others : list of str
        The names of the other columns.

    Raises
    ------
    ValueError
        If the file cannot be read, or the column is missing, has an empty cell or holds something else.
    """
    frame = read_table(path)
    if column not in frame.columns:
        raise ValueError(f"{path}: no column {column!r}; there are {', '.join(frame.columns)}")
    kind = frame[column].dtype
    if not (kind == _polars().String or kind.is_integer() or kind in (_polars().Categorical, _polars().Enum)):
        raise ValueError(f"{path}: column {column!r} must hold text or whole numbers, got {kind}")
    labels = frame[column].cast(_polars().String)
    if labels.null_count():
        row = labels.is_null().arg_max() + 1
        raise ValueError(
            f"{path}: column {column!r} is empty in {labels.null_count()} rows, first in row {row}"
        )
    return labels.to_list(), [name for name in frame.columns if name != column]


def numbers(path: Path, frame: Any, columns: Sequence[str]) -> Floats:
    """Return columns of a table as one array of numbers.

    Parameters
    ----------
    path : Path
        Where the table comes from, for messages.
    frame : polars DataFrame
        The table, as `read_table` gives it.
    columns : sequence of str
        The names of the columns.

    Returns
    -------
    array of shape (n, n_columns)

    Raises
    ------
    ValueError
        If a column is missing, or a cell is empty, NaN or no number.
    """
    out = np.empty((frame.height, len(columns)))
    for i, name in enumerate(columns):
        if name not in frame.columns:
            raise ValueError(f"{path}: no column {name!r}; there are {', '.join(frame.columns)}")
        out[:, i] = _without_nan(path, _numeric(path, frame, name), name)
    return out


# -- readers -----------------------------------------------------------------------------------------------


def _kind(path: Path) -> str:
    if path.is_dir():
        raise ValueError(f"{path}: is a directory, a file is needed")
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}: the name must end with one of {', '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: is empty")
    return path.suffix.lower()


def _polars() -> Any:
    return need("polars", extra="cli")


def _csv(path: Path, *, text: bool = False, ragged: bool = False) -> tuple[Any, bool]:
    """A CSV, and whether it has a line of names: it has none if its first line is all numbers."""
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as file:
        first = file.readline(10_000_000)
    try:
        cells = first.decode("utf-8-sig").strip().split(separator)
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not text in UTF-8") from None
    named = not all(_is_number(cell) for cell in cells)
    types = {"infer_schema": False} if text else {"infer_schema_length": None}
    encoding = {"truncate_ragged_lines": True, "encoding": "utf8-lossy"} if ragged else {}
    try:
        frame = _polars().read_csv(
            path, has_header=named, separator=separator, raise_if_empty=False, **types, **encoding
        )
    except Exception as error:
        raise ValueError(f"{path}: cannot be read as CSV: {_first_line(error)}") from None
    if not named:
        _check_unnamed(path, cells, frame)
    return frame if frame.width != 1 else frame.head(frame.height - _blank_end(path, frame)), named


def _check_unnamed(path: Path, cells: Sequence[str], frame: Any) -> None:
    """Refuse a first line of numbers that may well be names.

    It may be if its numbers are whole, as those that pandas numbers columns by or as years, and others are
    not; or if they are in quotes.
    """
    whole = all(cell.strip().strip('"').lstrip("+-").isdigit() for cell in cells)
    if any('"' in cell for cell in cells) or (whole and not all(map(_is_whole, frame))):
        raise ValueError(f"{path}: does the first line hold names or numbers? Give the columns names")


def _say_unnamed(path: Path) -> None:
    warnings.warn(f"{path}: the first line holds numbers, so it is read as the first row", stacklevel=3)


def _is_whole(series: Any) -> bool:
    """Whether a column holds whole numbers alone; blanks do not count."""
    if series.dtype != _polars().String:
        return bool(series.dtype.is_integer() or series.dtype == _polars().Null)
    return bool(series.drop_nulls().str.contains(r"^\s*[+-]?[0-9]+\s*$").all())


def _blank_end(path: Path, frame: Any) -> int:
    """Blank lines at the end of a single column, which polars takes for empty rows."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 65_536))
        tail = file.read()
    blank = max(0, tail[len(tail.rstrip()) :].count(b"\n") - 1)
    empty = frame.tail(blank).to_series().is_null().to_list() if blank else []
    return len(empty) if all(empty) else 0


def _is_number(cell: str) -> bool:
    try:
        float(cell.strip().strip('"'))
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> Any:
    try:
        return _polars().read_parquet(path)
    except Exception as error:
        raise ValueError(f"{path}: cannot be read as Parquet: {_first_line(error)}") from None


def _parquet_column(path: Path, column: str | None, *, nan: bool) -> Floats:
    polars = _polars()
    try:
        lazy = polars.scan_parquet(path)
        schema = lazy.collect_schema()
        height = int(lazy.select(polars.len()).collect().item())
    except Exception as error:
        raise ValueError(f"{path}: cannot be read as Parquet: {_first_line(error)}") from None
    name = _only(path, schema.names(), column)
    if not (nan and schema[name] == polars.String):
        _check_type(path, name, schema[name])
    values = np.empty(height)
    for start in range(0, height, _BATCH):
        part = lazy.select(name).slice(start, _BATCH).collect()
        values[start : start + part.height] = (
            part[name].cast(polars.Float64, strict=not nan).fill_null(float("nan")).to_numpy()
        )
    return values


def _load_npy(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except Exception as error:
        raise ValueError(f"{path}: cannot be read as .npy: {_first_line(error)}") from None


def _npy(path: Path, column: str | None) -> Floats:
    if column is not None:
        raise ValueError(f"{path}: a .npy file has no column names")
    array = _load_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise ValueError(
            f"{path}: a flat array of numbers is needed, got {array.dtype} of shape {array.shape}"
        )
    return np.asarray(array, dtype=np.float64)


# -- columns -----------------------------------------------------------------------------------------------


def _only(path: Path, columns: Sequence[str], column: str | None) -> str:
    if column is not None:
        if column not in columns:
            raise ValueError(f"{path}: no column {column!r}; there are {', '.join(columns)}")
        return column
    if len(columns) != 1:
        raise ValueError(f"{path}: {len(columns)} columns ({', '.join(columns)}): say which with --column")
    return columns[0]


def _check_type(path: Path, name: str, kind: Any) -> None:
    if not (kind.is_numeric() and not kind.is_decimal()) and kind != _polars().Null:
        raise ValueError(f"{path}: column {name!r} must hold numbers, got {kind}")


def _numeric(path: Path, frame: Any, name: str, *, nan: bool = False) -> Floats:
    polars = _polars()
    series = frame[name]
    if series.dtype == polars.String:
        converted = series.str.strip_chars().cast(polars.Float64, strict=False)
        wrong = converted.is_null() & series.is_not_null()
        if wrong.any() and not nan:
            row = wrong.arg_max()
            text = str(series[row])[:40]
            raise ValueError(f"{path}: column {name!r} must hold numbers, got {text!r} in row {row + 1}")
        series = converted
    _check_type(path, name, series.dtype)
    values: Floats = series.cast(polars.Float64).fill_null(float("nan")).to_numpy().copy()
    return values


def _without_nan(path: Path, values: Floats, name: str | None = None) -> Floats:
    missing = np.isnan(values)
    if missing.any():
        where = f" in column {name!r}" if name else ""
        count, first = int(missing.sum()), int(np.argmax(missing)) + 1
        raise ValueError(
            f"{path}: NaN or empty{where} in {count} of {values.size} rows, first in row {first}"
        )
    return values


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
