"""Tables of people: CSV, Excel, Parquet or .npy, by column."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal._files import STANDARD, standard_input
from fedconformal._tables._csv import check_unnamed, column_names, csv_table
from fedconformal._tables._table import (
    Dialect,
    SeveralColumnsError,
    Table,
    check_type,
    only_column,
    polars,
    refuse_rows,
    row_number,
)
from fedconformal._text import one_line
from fedconformal._util import Floats

SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".npy")
"""Of files that can be read."""

_BATCH = 4_000_000  # rows of a Parquet file read at once
_MAGIC = {b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"PK\x03\x04": ".xlsx"}
_KINDS = {".parquet": "Parquet", ".npy": ".npy", ".xlsx": "Excel"}
_DOCUMENT = re.compile(rb"^\s*\{.{0,200}?\"format\"\s*:\s*\"fedconformal/([a-z]+)\"", re.DOTALL)


def read_column(
    path: Path, column: str | None = None, *, nan: bool = False, dialect: Dialect | None = None
) -> Floats:
    """Return one column of numbers as an array that belongs to the caller.

    Parquet is streamed into the result, batch by batch.

    Parameters
    ----------
    path : Path
        A file of one of the `SUFFIXES`, or ``-`` for standard input.
    column : str
        The name of the column; a file with one column needs none.
    nan : bool
        Whether NaN, empty cells and cells that hold no number are allowed, and become NaN: of private scores
        no error may tell, and no single case decides how the file is read.
    dialect : Dialect
        Format of a CSV, as far as it was requested.

    Returns
    -------
    array of shape (n,)

    Raises
    ------
    ValueError
        If the file cannot be read, or the column is missing or holds something else.
    """
    source, requested = _Source(path), dialect or Dialect()
    place: Callable[[int], str] = row_number
    if source.kind == ".npy":
        if column is not None:
            raise ValueError(f"{source.name}: a .npy file has no column names")
        values = np.asarray(_npy(source, (1,)), dtype=np.float64)
    elif source.kind == ".parquet":
        values = _parquet_column(source, column, requested, nan=nan)
    else:
        table = _table(source, requested, private=nan)
        values, place = table.numbers([table.only(column)], nan=nan)[:, 0], table.place
    if values.size == 0:
        raise ValueError(f"{source.name}: no scores in it")
    if not nan:
        refuse_rows(source.name, np.isnan(values), "NaN or empty", place)
        refuse_rows(source.name, values == -np.inf, "-Infinity", place)
    return values


def read_table(path: Path, *, dialect: Dialect | None = None, private: bool = False) -> Table:
    """Return a whole table; .npy columns are called column_1, column_2, ...

    Parameters
    ----------
    path : Path
        A file of one of the `SUFFIXES`, or ``-`` for standard input.
    dialect : Dialect
        Format of a CSV, as far as it was requested.
    private : bool
        Whether no single case may decide how the file is read.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If the file cannot be read or has no rows.
    """
    source = _Source(path)
    table = _table(source, dialect or Dialect(), private=private)
    if table.height == 0:
        raise ValueError(f"{source.name}: no rows in it")
    return table


@dataclass(frozen=True)
class _Source:
    """A file that exists and is not empty, or standard input."""

    path: Path

    def __post_init__(self) -> None:
        """Refuse what cannot be a table."""
        path, suffix, is_file = self.path, self.path.suffix.lower(), self.path != STANDARD
        if is_file and path.is_dir():
            raise ValueError(f"{path}: is a directory, a file is needed")
        if is_file and not path.exists():
            raise ValueError(f"{path}: no such file")
        if document := _DOCUMENT.match(self._start):
            raise ValueError(f"{self.name}: this is a {document[1].decode()}, not a table")
        if is_file and suffix not in SUFFIXES:
            raise ValueError(f"{path}: the name must end with one of {', '.join(SUFFIXES)}")
        if not self._start:
            raise ValueError(f"{path}: is empty")
        if suffix in _KINDS and suffix != self.kind:
            protected = ", or one that is protected by a password" * (suffix == ".xlsx")
            raise ValueError(
                f"{path}: cannot be read as {_KINDS[suffix]}: it is another kind of file{protected}"
            )

    @property
    def name(self) -> str:
        """Name in messages."""
        return "standard input" if self.path == STANDARD else str(self.path)

    @cached_property
    def data(self) -> bytes:
        """The whole content."""
        return standard_input() if self.path == STANDARD else self.path.read_bytes()

    @cached_property
    def _start(self) -> bytes:
        if self.path == STANDARD:
            return self.data[:1000]
        with self.path.open("rb") as file:
            return file.read(1000)

    @property
    def kind(self) -> str:
        """Suffix of the format that its first bytes show, regardless of its name; text is .csv."""
        return next((kind for magic, kind in _MAGIC.items() if self._start.startswith(magic)), ".csv")

    def read(self, read: Callable[[Any], Any]) -> Any:
        """Call a reader of another library; what it complains about becomes one line."""
        try:
            return read(BytesIO(self.data) if self.path == STANDARD else self.path)
        except Exception as error:
            why = one_line((str(error).strip() or type(error).__name__).splitlines()[0], 200)
            raise ValueError(f"{self.name}: cannot be read as {_KINDS[self.kind]}: {why}") from None


def _table(source: _Source, dialect: Dialect, *, private: bool) -> Table:
    if source.kind == ".npy":
        array = _npy(source, (1, 2))
        columns = {f"column_{i + 1}": column for i, column in enumerate(np.atleast_2d(array.T))}
        return Table(source.name, polars.DataFrame(columns), dialect)
    if source.kind == ".parquet":
        return Table(source.name, source.read(polars.read_parquet), dialect)
    if source.kind == ".xlsx":
        return _excel(source, dialect, private=private)
    tabs = source.path.suffix.lower() == ".tsv"
    return csv_table(source.name, source.data, dialect, private=private, tabs=tabs)


# -- Excel -------------------------------------------------------------------------------------------------


def _excel(source: _Source, requested: Dialect, *, private: bool) -> Table:
    """Read the first sheet, all cells as text; its first row that is not empty holds the names.

    Rows end with the last one in which a cell holds anything, an error included.
    """
    try:
        fastexcel = need("fastexcel", extra="excel")
    except ImportError as error:
        raise ImportError(f"{source.name}: {error}; or save it as CSV") from None
    book = source.read(lambda _: fastexcel.read_excel(source.data))
    load = partial(book.load_sheet, 0, header_row=None)
    texts = source.read(lambda _: load(skip_rows=0, dtypes="string").to_polars())
    sheet, n_sheets = book.sheet_names[0], len(book.sheet_names)
    name = source.name if n_sheets == 1 else f"{source.name}, sheet {sheet!r}"
    filled = texts.select(polars.any_horizontal(polars.all().str.strip_chars() != "")).to_series()
    if not filled.any():
        raise ValueError(f"{source.name}: the sheet {sheet!r} is empty")
    start = int(filled.fill_null(False).arg_max())
    names, named = column_names(name, [cell or "" for cell in texts.row(start)], private=private)
    first = start + named
    texts = texts.slice(first).rename(dict(zip(texts.columns, names, strict=True)))
    if not named:
        check_unnamed(name, texts, in_quotes=False)
    noticed = [f"from the first of {n_sheets} sheets"] * (n_sheets > 1)
    written = replace(requested, decimal=requested.decimal or ("." if private else None), separator=None)
    cells = _with_numbers(load, texts, first, fastexcel.FastExcelError)
    if private and requested.decimal == ",":
        cells = _with_commas(cells)
    return Table(name, cells, written, lambda row: f"line {first + row + 1}", noticed, named)


def _with_numbers(load: Callable[..., Any], texts: Any, first: int, failure: type[Exception]) -> Any:
    """Return the same cells, as numbers in columns that hold nothing else: these have no decimal sign."""
    empty: dict[int, Any] = {i: "string" for i, text in enumerate(texts) if text.null_count() == texts.height}
    if len(empty) == texts.width:
        return texts
    load = partial(load, skip_rows=first, n_rows=texts.height)
    floats = load(dtypes="float").to_polars()
    try:
        typed = load(dtypes=empty).to_polars()
    except failure:  # of a time of day among numbers
        typed = texts
    columns = []
    for text, values, exact in zip(texts, typed, floats, strict=True):
        is_rounded = text.cast(exact.dtype, strict=False) != exact  # the library rounds numbers to text
        unrounded = exact.cast(text.dtype).zip_with(is_rounded.fill_null(False), text)
        is_numeric = values.dtype.is_numeric() and values.null_count() == text.null_count()
        columns.append((values if is_numeric else unrounded).alias(text.name))
    return polars.DataFrame(columns)


def _with_commas(cells: Any) -> Any:
    """Write numbers that stand among text with decimal commas, so that no text cell makes them unreadable."""
    texts = polars.col(polars.String)
    is_number = texts.cast(polars.Float64, strict=False).is_not_null()
    return cells.with_columns(
        polars.when(is_number).then(texts.str.replace(".", ",", literal=True)).otherwise(texts)
    )


# -- Parquet and .npy --------------------------------------------------------------------------------------


def _parquet_column(source: _Source, column: str | None, requested: Dialect, *, nan: bool) -> Floats:
    lazy = source.read(polars.scan_parquet)
    schema = source.read(lambda _: lazy.collect_schema())
    name = only_column(source.name, schema.names(), column, requested)
    if not (nan and schema[name] == polars.String):
        check_type(source.name, name, schema[name])
    values = np.empty(int(lazy.select(polars.len()).collect().item()))
    for start in range(0, values.size, _BATCH):
        part = lazy.select(name).slice(start, _BATCH).collect()[name]
        floats = part.cast(polars.Float64, strict=not nan).fill_null(float("nan"))
        values[start : start + part.len()] = floats.to_numpy()
    return values


def _npy(source: _Source, dimensions: tuple[int, ...]) -> Any:
    array = source.read(partial(np.load, allow_pickle=False))
    if array.ndim not in dimensions or array.dtype.kind not in "iuf":
        shape = "flat array" if dimensions == (1,) else "table"
        raise ValueError(
            f"{source.name}: a {shape} of numbers is needed, got {array.dtype} of shape {array.shape}"
        )
    return array
