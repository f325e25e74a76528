"""A table as it was read: columns by name, and the line of the file that each row comes
from.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal._text import count, listed, warn
from fedconformal._util import Bools, Floats

polars: Any = need("polars", extra="cli")

_MOST_COLUMNS = 25_000
_WORDS = {
    "tab": "\t",
    "\\t": "\t",
    "space": " ",
    "comma": ",",
    "semicolon": ";",
    "point": ".",
}
_SIGNED = "^\\s*[+\u2212-]?"  # some programs write the minus of typographers
_DECIMALS = {
    sign: rf"{_SIGNED}(?:[0-9]+[{sign}][0-9]*|[{sign}][0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"
    for sign in ".,"
}
_AMBIGUOUS = rf"{_SIGNED}[1-9][0-9]{{0,2}}[.,][0-9]{{3}}\s*$"


@dataclass(frozen=True)
class Dialect:
    r"""Format of a CSV; fields that are None are detected from the file.

    Parameters
    ----------
    separator : str
        What stands between columns: one character, or a word such as "tab".
    decimal : str
        "." or ",", or their names.
    encoding : str
        An encoding that Python knows, such as "utf-16" or "latin-1".
    has_options : bool
        True if messages may name the options of the command line.

    Examples
    --------
    >>> Dialect(separator="tab", decimal=",").separator
    '\t'
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    has_options: bool = True

    def __post_init__(self) -> None:
        """Words become characters; what cannot be used is refused."""
        separator, decimal = (
            _WORDS.get(mark or "", mark) for mark in (self.separator, self.decimal)
        )
        object.__setattr__(self, "separator", separator)
        object.__setattr__(self, "decimal", decimal)
        if separator is not None and (
            len(separator.encode()) != 1 or separator in '"\r\n'
        ):
            raise ValueError(
                f"separator must be one character, or tab or space, got {separator!r}"
            )
        if decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be a point or a comma, got {decimal!r}")
        if decimal is not None and decimal == separator:
            raise ValueError(
                f"separator and decimal must differ, got {decimal!r} for both"
            )
        try:
            "".encode(self.encoding or "utf-8")
        except LookupError:
            raise ValueError(
                "encoding must be one that Python knows, such as utf-8, utf-16 or"
                f" latin-1, got {self.encoding!r}"
            ) from None


def only_column(
    file: str, columns: Sequence[str], column: str | None, advice: str
) -> str:
    """Return the column that is meant: the one that is named, or the only one; else an
    error with advice.
    """
    if len(columns) == 1 if column is None else column in columns:
        return columns[0] if column is None else column
    there = ", ".join(columns)
    if column is None:
        raise ValueError(f"{file}: {len(columns)} columns ({there}){advice}")
    raise ValueError(f"{file}: no column {column!r}; there are {there}")


def refuse_rows(
    source: str, wrong: Bools, what: str, first: int | None, rest: str = ""
) -> None:
    """Raise an error with the number of wrong rows and the place of the first; see
    `place_of`.
    """
    if wrong.any():
        rows = f"{np.count_nonzero(wrong)} of {count(wrong.size, 'row')}"
        place = place_of(int(np.argmax(wrong)), first)
        raise ValueError(f"{source}: {what} in {rows}, first in {place}{rest}")


def place_of(row: int, first: int | None) -> str:
    """Return where a row is in a file: its line if rows begin at a line of the file,
    else its number.
    """
    return f"row {row + 1}" if first is None else f"line {first + row}"


def check_width(name: str, width: int) -> None:
    """Refuse a table with more columns than people have: the time for each is that of a
    column of data.
    """
    if width > _MOST_COLUMNS:
        raise ValueError(
            f"{name}: must have at most {_MOST_COLUMNS} columns, got {width}"
        )


def check_type(name: str, column: str, kind: Any) -> None:
    """Refuse a column that is neither numbers nor empty."""
    if not (kind.is_numeric() and not kind.is_decimal()) and kind != polars.Null:
        raise ValueError(f"{name}: column {column!r} must hold numbers, got {kind}")


@dataclass(eq=False)
class Table:
    """Columns of a file.

    Parameters
    ----------
    name : str
        What the file is called in messages.
    frame : polars DataFrame
        The cells; those of a CSV are text, so that what is only passed through (an id
        of 007) is not changed.
    dialect : Dialect
        What is known of how it is written. The decimal sign of cells that are text may
        be yet to be found out; without a separator there is one column, or there are no
        lines.
    first : int, optional
        Line of the file with the first row, where it has lines.
    noticed : list of str
        What was detected in the file, for a warning when numbers are taken from it.
    named : bool
        Whether the file has a line of names.
    """

    name: str
    frame: Any
    dialect: Dialect = field(default_factory=Dialect)
    first: int | None = None
    noticed: list[str] = field(default_factory=list)
    named: bool = True

    def __post_init__(self) -> None:
        """Prepare the warnings."""
        if not self.named:
            self.noticed.append(
                "without a line of names, so that its first line is the first row"
            )
        self._reported: set[str] = set()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.frame.height)

    def check(self, columns: Sequence[str]) -> None:
        """Refuse columns that are not there; lists those that are."""
        there = set(self.columns)
        for name in columns:
            if name not in there:
                self.only(name)

    def only(self, column: str | None, advice: str = "") -> str:
        """Return the column that is meant: the one that is named, or the only one; or
        raise an error.
        """
        return only_column(self.name, self.columns, column, advice)

    def refuse_rows(self, wrong: Bools, column: str, what: str, rest: str = "") -> None:
        """Refuse a column with wrong rows; the error has their number and the place of
        the first.
        """
        refuse_rows(f"{self.name}: column {column!r}", wrong, what, self.first, rest)

    def place(self, row: int) -> str:
        """Return where a row is in the file, as in "line 7"."""
        return place_of(row, self.first)

    # -- numbers -----------------------------------------------------------------------

    def numbers(self, columns: Sequence[str], *, nan: bool = False) -> Floats:
        """Return columns as one array of numbers.

        Parameters
        ----------
        columns : sequence of str
            The names of the columns.
        nan : bool
            Whether NaN, empty cells and cells that hold no number are allowed, and
            become NaN: of private scores no error may tell.

        Returns
        -------
        array of shape (n, n_columns)

        Raises
        ------
        ValueError
            If a column is missing, or a cell is empty, NaN or no number.
        """
        self.check(columns)
        decimal = self.dialect.decimal or self._decimal(
            [self.frame[name] for name in columns]
        )
        out = np.empty((self.height, len(columns)))
        for i, name in enumerate(columns):
            out[:, i] = self._floats(self.frame[name], decimal, nan=nan)
            if not nan:
                self.refuse_rows(np.isnan(out[:, i]), name, "NaN or empty")
        commas = ["with decimal commas"] * (
            decimal == "," and self.dialect.decimal is None
        )
        fresh = [
            words for words in (*self.noticed, *commas) if words not in self._reported
        ]
        if fresh and self.height:
            self._reported.update(fresh)
            warn(f"{self.name}: read {listed(fresh)}")
        return out

    def _floats(self, series: Any, decimal: str, *, nan: bool) -> Floats:
        """Return a column as numbers, NaN where a cell is empty."""
        if series.dtype == polars.String:
            texts, series = series, _as_floats(series, decimal)
            wrong = (
                series.is_null() & texts.is_not_null() & (texts.str.strip_chars() != "")
            )
            if wrong.any() and not nan:
                row = int(wrong.arg_max())
                cell = str(texts[row])[:40]
                signs = (
                    ": numbers here have decimal"
                    f" {'points' if decimal == '.' else 'commas'}"
                )
                raise ValueError(
                    f"{self.name}: column {texts.name!r} must hold numbers, got"
                    f" {cell!r} in {self.place(row)}"
                    f"{signs if re.search('[0-9][.,][0-9]', cell) else ''}"
                )
        check_type(self.name, series.name, series.dtype)
        values: Floats = (
            series.cast(polars.Float64).fill_null(float("nan")).to_numpy().copy()
        )
        return values

    def _decimal(self, columns: Sequence[Any]) -> str:
        """Return the decimal sign of these columns: that of the cells that can be read
        in one way only.
        """
        signs, doubts = set(), []
        for series in columns:
            if series.dtype == polars.String:
                doubtful = series.str.contains(_AMBIGUOUS)
                signs |= {
                    sign
                    for sign, pattern in _DECIMALS.items()
                    if (series.str.contains(pattern) & ~doubtful).any()
                }
                if self.dialect.separator == ",":  # then a point separates no thousands
                    doubtful = doubtful & series.str.contains(",", literal=True)
                if doubtful.any():
                    doubts.append((series, int(doubtful.fill_null(False).arg_max())))
        if doubts and not signs:
            series, row = doubts[0]
            advice = (
                "write it without a separator of thousands, or with another decimal"
            )
            if self.dialect.has_options:
                advice = "give --decimal . or --decimal ,"
            raise ValueError(
                f"{self.name}: column {series.name!r}: {series[row].strip()} in"
                f" {self.place(row)} may be a thousand or more, or a number with three"
                f" decimals: {advice}"
            )
        return "," if signs == {","} else "."

    # -- labels ------------------------------------------------------------------------

    def labels(self, column: str) -> list[str]:
        """Return one column as text.

        Parameters
        ----------
        column : str
            The name of the column.

        Returns
        -------
        list of str
            Without spaces around them; whole numbers without decimals, as spreadsheets
            have them.

        Raises
        ------
        ValueError
            If the column is missing, has an empty cell or holds something else.
        """
        texts = self.labels_or_none(column)
        kind = self.frame[column].dtype
        self.refuse_rows(np.array([not text for text in texts]), column, "empty")
        odd = np.array([kind.is_float() and "." in str(text) for text in texts])
        self.refuse_rows(odd, column, "neither text nor a whole number")
        return [str(text) for text in texts]

    def labels_or_none(self, column: str) -> list[str | None]:
        """Return one column as text, None where a cell is empty; nothing else is
        refused.
        """
        self.check([column])
        series = self.frame[column]
        if not (
            series.dtype.is_numeric()
            or series.dtype in (polars.String, polars.Categorical, polars.Enum)
        ):
            kind = f"must hold text or whole numbers, got {series.dtype}"
            raise ValueError(f"{self.name}: column {column!r} {kind}")
        if series.dtype.is_float():
            finite = [
                x if x is not None and np.isfinite(x) else None
                for x in series.to_list()
            ]
            return [
                None if x is None else str(int(x) if x == int(x) else x) for x in finite
            ]
        texts = series.cast(polars.String, strict=False).str.strip_chars()
        if (
            series.dtype == polars.String
        ):  # 1.0 and 1e+00 are the name 1, however a program wrote them
            texts = texts.str.replace(r"^([0-9]+)(?:\.0*)?(?:[eE][+-]?0+)?$", "$1")
        labels: list[str | None] = texts.to_list()
        return labels

    def numeric(self) -> list[str]:
        """Return the columns that hold nothing but numbers, as text or not; empty cells
        do not count.
        """
        return [series.name for series in self.frame if self._is_numeric(series)]

    def _is_numeric(self, series: Any) -> bool:
        if series.dtype != polars.String:
            return bool(series.dtype.is_numeric())
        texts = series.filter(series.str.strip_chars() != "")
        signs = self.dialect.decimal or ".,"
        return len(texts) > 0 and any(
            _as_floats(texts, sign).null_count() == 0 for sign in signs
        )


def _as_floats(series: Any, decimal: str) -> Any:
    """Return a column of text as numbers, null where there is none."""
    texts = series.str.strip_chars().str.replace("\u2212", "-", literal=True)
    if decimal == ",":  # a point then makes it no number
        texts = texts.str.replace(".", "x", literal=True).str.replace(
            ",", ".", literal=True
        )
    return texts.cast(polars.Float64, strict=False)
