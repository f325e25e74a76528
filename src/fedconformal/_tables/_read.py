"""Readers: CSV, Excel, Parquet and .npy."""

import csv
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal._tables._dialect import Dialect, Text, are_numbers, decoded
from fedconformal._tables._source import Source
from fedconformal._tables._table import Table, check_type, only_column, row_number, rows_words
from fedconformal._text import count, one_line
from fedconformal._typing import Floats

_BATCH = 4_000_000  # rows of a Parquet file read at once
SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".npy")
"""Of files that can be read."""


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
        What somebody says of how a CSV is written.

    Returns
    -------
    array of shape (n,)

    Raises
    ------
    ValueError
        If the file cannot be read, or the column is missing or holds something else.
    """
    source = Source(path, SUFFIXES)
    place: Callable[[int], str] = row_number
    if source.kind == ".npy":
        values = _npy_column(source, column)
    elif source.kind == ".parquet":
        values = _parquet_column(source, column, dialect or Dialect(), nan=nan)
    else:
        table = _table(source, dialect or Dialect(), private=nan)
        values, place = table.numbers([table.only(column)], nan=nan)[:, 0], table.place
    if values.size == 0:
        raise ValueError(f"{source.name}: no scores in it")
    if not nan:
        for wrong, what in ((np.isnan(values), "NaN or empty"), (values == -np.inf, "-Infinity")):
            if wrong.any():
                raise ValueError(f"{source.name}: {rows_words(wrong, what, place)}")
    return values


def read_table(path: Path, *, dialect: Dialect | None = None, private: bool = False) -> Table:
    """Return a whole table; .npy columns are called column_1, column_2, ...

    Parameters
    ----------
    path : Path
        A file of one of the `SUFFIXES`, or ``-`` for standard input.
    dialect : Dialect
        What somebody says of how a CSV is written.
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
    source = Source(path, SUFFIXES)
    table = _table(source, dialect or Dialect(), private=private)
    if table.height == 0:
        raise ValueError(f"{source.name}: no rows in it")
    return table


def _table(source: Source, dialect: Dialect, *, private: bool) -> Table:
    if source.kind == ".npy":
        return Table(source.name, _npy_frame(source), dialect)
    if source.kind == ".parquet":
        return Table(source.name, _parquet_frame(source), dialect)
    if source.kind == ".xlsx":
        return _excel(source, dialect, private=private)
    return _csv(source, dialect, private=private)


# -- CSV ---------------------------------------------------------------------------------------------------


def _csv(source: Source, wish: Dialect, *, private: bool) -> Table:
    text = decoded(source.name, source.data, wish, by_first_line=private, tabs=source.kind == ".tsv")
    if text.content.lstrip()[:1] == b"{" or (text.names or ("",))[0].startswith("{"):
        source.refuse_document()
    decimal, noticed = wish.decimal, list(text.noticed)
    frame = _cells(source.name, text, ragged=private)
    if private and decimal is None:
        decimal = _private_decimal(source.name, text)
        noticed += ["with decimal points (for commas say --decimal ,)"] * (frame.width == 1)
    if text.names is None:
        quoted = b'"' in text.content.split(b"\n", 1)[0]
        _check_unnamed(source.name, frame, may_be_names=quoted)
    return Table(
        source.name,
        frame,
        replace(wish, decimal=decimal, separator=text.dialect.separator if frame.width > 1 else None),
        lambda row: f"line {text.line(row)}",
        noticed,
        text.names is not None,
    )


def _private_decimal(name: str, text: Text) -> str:
    """The decimal sign of private scores, which their cells may not decide."""
    if text.dialect.separator != "," and len(text.names or ()) > 1:
        raise ValueError(
            f"{name}: has no commas between columns, so numbers may have decimal points or commas, and for "
            "a private answer no case may decide which: say --decimal , or --decimal ."
        )
    return "."


def _cells(name: str, text: Text, *, ragged: bool) -> Any:
    """All cells as text; a row with more cells than there are columns is refused, or empty if ``ragged``."""
    polars, separator = _polars(), text.dialect.separator or ","
    names = text.names or tuple(f"column_{i + 1}" for i in range(_width(text)))
    header = separator.join(f"c{i}" for i in range(len(names) + 1)).encode() + b"\n"
    read = partial(polars.read_csv, separator=separator, infer_schema=False, truncate_ragged_lines=True)
    try:
        frame = read(BytesIO(header + text.content))
    except Exception as error:
        if not ragged:
            raise ValueError(
                f"{name}: cannot be read as CSV: {_quotes(text) or _first_line(error)}"
            ) from None
        frame = read(BytesIO(header + text.content), quote_char=None)  # some quotation mark is never closed
        frame = frame.select(polars.all().str.strip_chars('"'))
    frame = _without_empty_end(frame)
    *kept, beyond = frame.columns
    too_long = frame[beyond].is_not_null()
    if too_long.any() and not ragged:
        _refuse_long(name, text, int(too_long.arg_max()), len(names))
    cells = frame.select(kept).rename(dict(zip(kept, names, strict=True)))
    if too_long.any():
        cells = cells.with_columns(polars.when(~too_long).then(polars.all()))
    return cells


def _width(text: Text) -> int:
    first = text.content.split(b"\n", 1)[0].decode("utf-8", "replace")
    return len(next(csv.reader([first], delimiter=text.dialect.separator or ",")))


def _quotes(text: Text) -> str:
    """What is wrong with quotation marks, the only thing that a reader of text stumbles over."""
    odd = [i for i, line in enumerate(text.content.split(b"\n")) if line.count(b'"') % 2]
    return f"a quotation mark is not closed; look at line {text.first_line + odd[0]}" if odd else ""


def _refuse_long(name: str, text: Text, row: int, width: int) -> None:
    separator = text.dialect.separator
    other = text.dialect.advice("--separator", " Another character can be said with --separator.")
    commas = " Decimal commas or thousands separators cannot be told from those between columns." * (
        separator == ","
    )
    raise ValueError(
        f"{name}: line {text.line(row)} has more than the {count(width, 'cell')} of the first line, with "
        f"{separator!r} between them.{commas}{other}"
    )


def _without_empty_end(frame: Any) -> Any:
    """Without rows at the end in which nothing is: blank lines, or the empty cells that Excel leaves."""
    filled = np.zeros(frame.height, dtype=np.bool_)
    for series in frame:
        blank = series.str.strip_chars() == ""
        filled |= ~blank.fill_null(True).to_numpy()
    return frame.head(int(np.flatnonzero(filled)[-1]) + 1 if filled.any() else 0)


def _check_unnamed(name: str, frame: Any, *, may_be_names: bool) -> None:
    """Refuse a first line of numbers that may well be names.

    It may be if its numbers are whole, as those that pandas numbers columns by or as years, and others are
    not; or if they are in quotes.
    """
    whole = all(str(series[0]).strip().lstrip("+-").isdigit() for series in frame)
    if may_be_names or (whole and not all(map(_is_whole, frame))):
        raise ValueError(f"{name}: does the first line hold names or numbers? Give the columns names")


def _is_whole(series: Any) -> bool:
    """Whether a column holds whole numbers alone; blanks do not count."""
    return bool(series.drop_nulls().str.contains(r"^\s*[+-]?[0-9]+\s*$").all())


# -- Excel -------------------------------------------------------------------------------------------------


def _excel(source: Source, wish: Dialect, *, private: bool) -> Table:
    """The first sheet, all cells as text; its first row that is not empty holds the names."""
    try:
        book = need("fastexcel", extra="excel").read_excel(source.data)
        texts = book.load_sheet(0, header_row=None, skip_rows=0, dtypes="string").to_polars()
    except ImportError as error:
        raise ImportError(f"{source.name}: {error}; or save it as CSV") from None
    except Exception as error:
        raise ValueError(f"{source.name}: cannot be read as Excel: {_first_line(error)}") from None
    sheet, others = book.sheet_names[0], len(book.sheet_names) - 1
    name = f"{source.name}, sheet {sheet!r}" if others else source.name
    frame = _without_empty_end(texts)
    if frame.height == 0:
        raise ValueError(f"{source.name}: the sheet {sheet!r} is empty")
    start = next(i for i, row in enumerate(frame.iter_rows()) if any(cell is not None for cell in row))
    heads = [(cell or "").strip() for cell in frame.row(start)]
    named = not are_numbers(heads)
    names = [head if head and named else f"column_{i + 1}" for i, head in enumerate(heads)]
    if twice := [each for i, each in enumerate(names) if each in names[:i]]:
        raise ValueError(f"{name}: two columns are called {twice[0]!r}; each needs a name of its own")
    first = start + named
    frame = frame.slice(first).rename(dict(zip(frame.columns, names, strict=True)))
    if not named:
        _check_unnamed(name, frame, may_be_names=False)
    noticed = [f"from the first of {others + 1} sheets"] * bool(others)
    decimal = wish.decimal or ("." if private else None)
    written = replace(wish, decimal=decimal, separator=None)
    cells = _with_numbers(book, frame, first)
    return Table(name, cells, written, lambda row: f"line {first + row + 1}", noticed, named)


def _with_numbers(book: Any, texts: Any, first: int) -> Any:
    """The same cells, as numbers in columns that hold nothing else: what is no text has no decimal sign."""
    empty: dict[int, Any] = {i: "string" for i, each in enumerate(texts) if each.null_count() == texts.height}
    if len(empty) == texts.width:
        return texts
    load = partial(book.load_sheet, 0, header_row=None, skip_rows=first, n_rows=texts.height)
    typed, floats = load(dtypes=empty).to_polars(), load(dtypes="float").to_polars()
    columns = []
    for text, values, exact in zip(texts, typed, floats, strict=True):
        is_numeric = values.dtype.is_numeric() and values.null_count() == text.null_count()
        cells = values if is_numeric else _polars().Series(map(_exact, text, exact), dtype=text.dtype)
        columns.append(cells.alias(text.name))
    return _polars().DataFrame(columns)


def _exact(text: str | None, value: float | None) -> str | None:
    """A cell as text; the library rounds a number that it makes text of."""
    if text is None or value is None:
        return text
    try:
        return text if float(text) == value else repr(value)
    except ValueError:
        return text


# -- Parquet and .npy --------------------------------------------------------------------------------------


def _polars() -> Any:
    return need("polars", extra="cli")


def _parquet_frame(source: Source) -> Any:
    try:
        return _polars().read_parquet(source.opened())
    except Exception as error:
        raise ValueError(f"{source.name}: cannot be read as Parquet: {_first_line(error)}") from None


def _parquet_column(source: Source, column: str | None, wish: Dialect, *, nan: bool) -> Floats:
    polars = _polars()
    try:
        lazy = polars.scan_parquet(source.opened())
        schema = lazy.collect_schema()
        height = int(lazy.select(polars.len()).collect().item())
    except Exception as error:
        raise ValueError(f"{source.name}: cannot be read as Parquet: {_first_line(error)}") from None
    name = only_column(source.name, schema.names(), column, wish)
    if not (nan and schema[name] == polars.String):
        check_type(source.name, name, schema[name])
    values = np.empty(height)
    for start in range(0, height, _BATCH):
        part = lazy.select(name).slice(start, _BATCH).collect()
        values[start : start + part.height] = (
            part[name].cast(polars.Float64, strict=not nan).fill_null(float("nan")).to_numpy()
        )
    return values


def _load_npy(source: Source) -> Any:
    try:
        return np.load(source.opened(), allow_pickle=False)
    except Exception as error:
        raise ValueError(f"{source.name}: cannot be read as .npy: {_first_line(error)}") from None


def _npy_column(source: Source, column: str | None) -> Floats:
    if column is not None:
        raise ValueError(f"{source.name}: a .npy file has no column names")
    array = _load_npy(source)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise ValueError(
            f"{source.name}: a flat array of numbers is needed, got {array.dtype} of shape {array.shape}"
        )
    return np.asarray(array, dtype=np.float64)


def _npy_frame(source: Source) -> Any:
    array = _load_npy(source)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise ValueError(
            f"{source.name}: a table of numbers is needed, got {array.dtype} of shape {array.shape}"
        )
    return _polars().DataFrame({f"column_{i + 1}": array[:, i] for i in range(array.shape[1])})


def _first_line(error: Exception) -> str:
    return one_line((str(error).strip() or type(error).__name__).splitlines()[0], 200)
