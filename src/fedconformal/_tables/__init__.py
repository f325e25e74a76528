"""Tables of people: CSV, Excel, Parquet or .npy, by column."""

import re
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal._files import STANDARD, standard_input
from fedconformal._tables._csv import csv_table
from fedconformal._tables._table import (
    Dialect,
    Table,
    check_width,
    only_column,
    polars,
    refuse_rows,
)
from fedconformal._tables._worker import first_line, read_limited
from fedconformal._util import Floats, private_numbers

SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".npy")
"""Of files that can be read."""

_MAGIC = {b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"PK\x03\x04": ".xlsx"}
_KINDS = {".parquet": "Parquet", ".npy": ".npy", ".xlsx": "Excel"}
_DOCUMENT = re.compile(
    rb"^\s*\{.{0,200}?\"format\"\s*:\s*\"fedconformal/([a-z]+)\"", re.DOTALL
)


def read_column(
    path: Path,
    column: str | None = None,
    *,
    nan: bool = False,
    dialect: Dialect | None = None,
    advice: str = "",
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
        Whether NaN, empty cells and cells that hold no number are allowed, and become
        NaN: of private scores no error may tell, and no single case decides how the
        file is read.
    dialect : Dialect
        Format of a CSV, as far as it was requested.
    advice : str
        What to do about a file with several columns of which none is named, at the end
        of the error.

    Returns
    -------
    array of shape (n,)

    Raises
    ------
    ValueError
        If the file cannot be read, or the column is missing or holds something else.
    """
    source, requested = _Source(path), dialect or Dialect()
    advice = advice or (
        ": choose one with --column" if requested.has_options else ", and one is needed"
    )
    first = None
    if source.kind == ".npy":
        if column is not None:
            raise ValueError(f"{source.name}: a .npy file has no column names")
        values = np.asarray(_npy(source, (1,), nan=nan), dtype=np.float64)
    elif source.kind == ".parquet":
        noted, values = source.read_limited("column", column=column, nan=nan)
        only_column(source.name, noted["columns"], column, advice)
    else:
        table = _table(source, requested, private=nan)
        values, first = (
            table.numbers([table.only(column, advice)], nan=nan)[:, 0],
            table.first,
        )
    if values.size == 0:
        raise ValueError(f"{source.name}: no scores in it")
    if not nan:
        refuse_rows(source.name, np.isnan(values), "NaN or empty", first)
        refuse_rows(source.name, values == -np.inf, "-Infinity", first)
    return values


def read_table(
    path: Path, *, dialect: Dialect | None = None, private: bool = False
) -> Table:
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


class _Source:
    """A file that exists and is not empty, or standard input.

    Its ``kind`` is the suffix of the format that its first bytes show, regardless of
    its name; text is .csv.
    """

    def __init__(self, path: Path) -> None:
        self.path, suffix, is_file = path, path.suffix.lower(), path != STANDARD
        self.name = str(path) if is_file else "standard input"
        if is_file and path.is_dir():
            raise ValueError(f"{path}: is a directory, a file is needed")
        if is_file and not path.exists():
            raise ValueError(f"{path}: no such file")
        if is_file and not path.is_file():  # a pipe or device may never end
            raise ValueError(f"{path}: is not a regular file")
        self._content = None if is_file else standard_input()
        with (
            path.open("rb") if self._content is None else BytesIO(self._content)
        ) as file:
            start = file.read(1000)
        self.kind = next(
            (kind for magic, kind in _MAGIC.items() if start.startswith(magic)), ".csv"
        )
        if document := _DOCUMENT.match(start):
            raise ValueError(
                f"{self.name}: this is a {document[1].decode()}, not a table"
            )
        if is_file and suffix not in SUFFIXES:
            raise ValueError(
                f"{path}: the name must end with one of {', '.join(SUFFIXES)}"
            )
        if not start:
            raise ValueError(f"{path}: is empty")
        if suffix in _KINDS and suffix != self.kind:
            protected = ", or one that is protected by a password" * (suffix == ".xlsx")
            raise ValueError(
                f"{path}: cannot be read as {_KINDS[suffix]}: it is another kind of"
                f" file{protected}"
            )

    @property
    def data(self) -> bytes:
        """The whole content."""
        return self.path.read_bytes() if self._content is None else self._content

    def read(self, read: Callable[[Any], Any]) -> Any:
        """Call a reader of another library; what it complains about becomes one
        line.
        """
        try:
            return read(self.path if self._content is None else BytesIO(self._content))
        except Exception as error:
            raise ValueError(
                f"{self.name}: cannot be read as {_KINDS[self.kind]}:"
                f" {first_line(error)}"
            ) from None

    def read_limited(self, task: str, **options: Any) -> Any:
        """Read it in another process under limits; see `read_limited`."""
        path = self.path.absolute() if self._content is None else None
        return read_limited(task, self.name, path, self._content or b"", **options)


def _table(source: _Source, dialect: Dialect, *, private: bool) -> Table:
    if source.kind == ".npy":
        array = _npy(source, (1, 2), nan=private)
        check_width(source.name, 1 if array.ndim == 1 else array.shape[1])
        columns = {
            f"column_{i + 1}": column for i, column in enumerate(np.atleast_2d(array.T))
        }
        return Table(source.name, polars.DataFrame(columns), dialect)
    if source.kind == ".parquet":
        decimal = "." if private and dialect.decimal is None else dialect.decimal
        return Table(
            source.name,
            source.read_limited("table", private=private)[1],
            replace(dialect, decimal=decimal),
        )
    if source.kind == ".xlsx":
        return _excel(source, dialect, private=private)
    tabs = source.path.suffix.lower() == ".tsv"
    return csv_table(source.name, source.data, dialect, private=private, tabs=tabs)


# -- formats ---------------------------------------------------------------------------


def _excel(source: _Source, requested: Dialect, *, private: bool) -> Table:
    """Read the first sheet; see `_worker`."""
    if private:
        raise ValueError(
            f"{source.name}: for a private answer Excel is not read, as a sheet does"
            " not show whether its last case is blank: save it as CSV (UTF-8)"
        )
    try:
        need("fastexcel", extra="excel")
    except ImportError as error:
        raise ImportError(f"{source.name}: {error}; or save it as CSV") from None
    noted, cells = source.read_limited("excel")
    dialect = replace(requested, separator=None)
    return Table(
        noted["name"],
        cells,
        dialect,
        noted["first"] + 1,
        noted["noticed"],
        noted["named"],
    )


def _load_array(content: Path | BytesIO) -> Any:
    """Load an array of the shape that its file states: older versions of NumPy take a
    negative length for "as many as there are".
    """
    with content.open("rb") if isinstance(content, Path) else content as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape = np.lib.format.read_array_header_1_0(file)[0]
        elif version == (2, 0):
            shape = np.lib.format.read_array_header_2_0(file)[0]
        else:
            shape = ()  # of fields with names, which are no numbers
        if min(shape, default=0) < 0:
            raise ValueError(f"its shape is {shape}")
        file.seek(0)
        return np.load(file, allow_pickle=False)


def _npy(source: _Source, dimensions: tuple[int, ...], *, nan: bool) -> Any:
    """Read an array; where cells without a number become NaN, one of text or complex
    numbers, too.
    """
    array = source.read(_load_array)
    if array.ndim not in dimensions or array.dtype.kind not in (
        "iufbcUS" if nan else "iuf"
    ):
        shape = "flat array" if dimensions == (1,) else "table"
        raise ValueError(
            f"{source.name}: a {shape} of numbers is needed, got {array.dtype} of shape"
            f" {array.shape}"
        )
    return (
        private_numbers(array.ravel()).reshape(array.shape)
        if nan and array.size
        else array
    )
