"""A table as it was read: columns by name, and the line of the file that each row comes from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedconformal._extras import need
from fedconformal._tables._decimals import Doubt, as_floats, decimal_of, hint
from fedconformal._tables._dialect import Dialect
from fedconformal._text import count, listed
from fedconformal._typing import Bools, Floats
from fedconformal._warnings import warn


def only_column(file: str, columns: Sequence[str], column: str | None, wish: Dialect) -> str:
    """The column that is meant: the one that is named, or the only one."""
    listed_names = ", ".join(columns)
    if column is None and len(columns) != 1:
        which = wish.advice("--column", ": say which with --column") or ", and one is needed"
        raise ValueError(f"{file}: {len(columns)} columns ({listed_names}){which}")
    if column is not None and column not in columns:
        raise ValueError(f"{file}: no column {column!r}; there are {listed_names}")
    return columns[0] if column is None else column


def rows_words(wrong: Bools, what: str, place: Callable[[int], str]) -> str:
    """What is wrong with some rows: with how many, and where the first of them is."""
    rows = f"{np.count_nonzero(wrong)} of {count(wrong.size, 'row')}"
    return f"{what} in {rows}, first in {place(int(np.argmax(wrong)))}"


def row_number(row: int) -> str:
    """Where a row is in a file that has no lines."""
    return f"row {row + 1}"


@dataclass(eq=False)
class Table:
    """Columns of a file.

    Parameters
    ----------
    name : str
        What the file is called in messages.
    frame : polars DataFrame
        The cells; those of a CSV are text, so that what is only passed through (an id of 007) is not changed.
    dialect : Dialect
        What is known of how it is written. The decimal sign of cells that are text may be yet to be found
        out; without a separator there is one column, or there are no lines.
    place : callable
        Where a row is in the file, as in "line 7".
    noticed : list of str
        What was found out about the file, which is said when numbers are taken from it.
    named : bool
        Whether the file has a line of names.
    """

    name: str
    frame: Any
    dialect: Dialect = field(default_factory=Dialect)
    place: Callable[[int], str] = field(default=row_number)
    noticed: list[str] = field(default_factory=list)
    named: bool = True
    _said_commas: bool = field(default=False, init=False)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    @property
    def height(self) -> int:
        """How many rows there are."""
        return int(self.frame.height)

    def check(self, columns: Sequence[str]) -> None:
        """Refuse columns that are not there.

        Parameters
        ----------
        columns : sequence of str
            Names.

        Raises
        ------
        ValueError
            If one is missing; lists those that are there.
        """
        for name in columns:
            only_column(self.name, self.columns, name, self.dialect)

    def only(self, column: str | None) -> str:
        """The column that is meant: the one that is named, or the only one."""
        return only_column(self.name, self.columns, column, self.dialect)

    def numbers(self, columns: Sequence[str], *, nan: bool = False) -> Floats:
        """Return columns as one array of numbers.

        Parameters
        ----------
        columns : sequence of str
            The names of the columns.
        nan : bool
            Whether NaN, empty cells and cells that hold no number are allowed, and become NaN: of private
            scores no error may tell.

        Returns
        -------
        array of shape (n, n_columns)

        Raises
        ------
        ValueError
            If a column is missing, or a cell is empty, NaN or no number.
        """
        self.check(columns)
        decimal = self._decimal(columns)
        out = np.empty((self.height, len(columns)))
        for i, name in enumerate(columns):
            out[:, i] = self.column_values(name, decimal, nan=nan)
            if not nan:
                self.refuse_rows(np.isnan(out[:, i]), name, "NaN or empty")
        if self.height:
            self.say()
        return out

    def column_values(self, name: str, decimal: str, *, nan: bool) -> Floats:
        """One column as numbers, NaN where a cell is empty."""
        polars, series = _polars(), self.frame[name]
        if series.dtype == polars.String:
            converted = as_floats(series, decimal)
            wrong = converted.is_null() & series.is_not_null() & (series.str.strip_chars() != "")
            if wrong.any() and not nan:
                self._refuse_cell(name, int(wrong.arg_max()), series, decimal)
            series = converted
        check_type(self.name, name, series.dtype)
        values: Floats = series.cast(polars.Float64).fill_null(float("nan")).to_numpy().copy()
        return values

    def _refuse_cell(self, name: str, row: int, series: Any, decimal: str) -> None:
        cell = str(series[row])[:40]
        raise ValueError(
            f"{self.name}: column {name!r} must hold numbers, got {cell!r} in {self.place(row)}"
            f"{hint(cell, decimal, said=self.dialect.decimal is not None)}"
        )

    def refuse_rows(self, wrong: Bools, column: str, what: str, rest: str = "") -> None:
        """Refuse a column some of whose rows are wrong; says how many, and where the first is.

        Parameters
        ----------
        wrong : bool array of shape (n,)
            Which rows are.
        column : str
            The name of the column.
        what : str
            What is wrong with them.
        rest : str
            The end of the message.

        Raises
        ------
        ValueError
            If any row is wrong.
        """
        if wrong.any():
            raise ValueError(f"{self.name}: column {column!r}: {rows_words(wrong, what, self.place)}{rest}")

    def _decimal(self, columns: Sequence[str]) -> str:
        """The decimal sign in these columns; if they leave it open, in the whole table."""
        if self.dialect.decimal is not None:
            return self.dialect.decimal
        texts = [self.frame[name] for name in columns if self.frame[name].dtype == _polars().String]
        found = decimal_of(texts, separator=self.dialect.separator)
        if isinstance(found, Doubt):
            doubt = found
            others = [series for series in self.frame if series.dtype == _polars().String]
            found = decimal_of(others, separator=self.dialect.separator)
            if isinstance(found, Doubt):
                raise ValueError(self._doubtful(doubt))
        said = "with decimal commas"
        if found == "," and not self._said_commas:
            self.noticed.append(said)
            self._said_commas = True
        return found

    def _doubtful(self, doubt: Doubt) -> str:
        plain = doubt.cell.replace(",", "").replace(".", "")
        sign = "," if "," in doubt.cell else "."
        said = self.dialect.advice("--decimal", f"say --decimal {sign}")
        other = said or f"{doubt.cell.replace(',', '.')}0"
        return (
            f"{self.name}: column {doubt.column!r}: is {doubt.cell} in {self.place(doubt.row)} a thousand or "
            f"more, or a number with three decimals? Write {plain}, or {other}"
        )

    def labels(self, column: str) -> list[str]:
        """Return one column as text.

        Parameters
        ----------
        column : str
            The name of the column.

        Returns
        -------
        list of str
            Without spaces around them; whole numbers without decimals, as spreadsheets have them.

        Raises
        ------
        ValueError
            If the column is missing, has an empty cell or holds something else.
        """
        texts = self.labels_or_none(column)
        kind = self.frame[column].dtype
        if not (kind.is_numeric() or kind in (_polars().String, _polars().Categorical, _polars().Enum)):
            raise ValueError(f"{self.name}: column {column!r} must hold text or whole numbers, got {kind}")
        self.refuse_rows(np.array([not text for text in texts]), column, "empty")
        odd = np.array([kind.is_float() and "." in str(text) for text in texts])
        self.refuse_rows(odd, column, "neither text nor a whole number")
        return [str(text) for text in texts]

    def labels_or_none(self, column: str) -> list[str | None]:
        """One column as text, None where a cell is empty; nothing else is refused."""
        self.check([column])
        polars, series = _polars(), self.frame[column]
        if series.dtype.is_float():
            return [None if x is None else str(int(x) if x == int(x) else x) for x in _finite(series)]
        texts = series.cast(polars.String, strict=False).str.strip_chars()
        if series.dtype == polars.String:  # 1.0 and 1e+00 are the name 1, however a program wrote them
            texts = texts.str.replace(r"^([0-9]+)(?:\.0*)?(?:[eE][+-]?0+)?$", "$1")
        found: list[str | None] = texts.to_list()
        return found

    def numeric(self) -> list[str]:
        """The columns that hold nothing but numbers, as text or not."""
        polars = _polars()
        return [
            series.name
            for series in self.frame
            if series.dtype.is_numeric() or (series.dtype == polars.String and self._is_numeric(series))
        ]

    def _is_numeric(self, series: Any) -> bool:
        found = self.dialect.decimal or decimal_of([series], separator=self.dialect.separator)
        if isinstance(found, Doubt):
            return True  # numbers, whatever they mean: taking them asks
        return int(as_floats(series, found).null_count()) == 0

    def say(self) -> None:
        """Say what was found out about the file, once."""
        if self.noticed:
            warn(f"{self.name}: read {listed(self.noticed)}")
        if not self.named:
            warn(f"{self.name}: the first line holds numbers, so it is read as the first row")
        self.noticed, self.named = [], True


def _finite(series: Any) -> list[float | None]:
    return [x if x is not None and np.isfinite(x) else None for x in series.to_list()]


def check_type(name: str, column: str, kind: Any) -> None:
    """Refuse a column that is neither numbers nor empty."""
    if not (kind.is_numeric() and not kind.is_decimal()) and kind != _polars().Null:
        raise ValueError(f"{name}: column {column!r} must hold numbers, got {kind}")


def _polars() -> Any:
    return need("polars", extra="cli")
