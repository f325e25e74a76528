"""CSV as people's programs write it; each physical line is one record.

Of a private file the byte-order mark and the first line alone decide how it is read, and no record changes
how another one is read.
"""

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedconformal._tables._table import Dialect, Table, polars
from fedconformal._text import count

_BOMS = {  # that of UTF-32 begins as that of UTF-16 does
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEPARATORS = {"\t": "tabs", ";": ";", ",": ","}
_REPORTED = {"utf-16": "in UTF-16", "utf-32": "in UTF-32", "cp1252": "in Latin-1"}
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.I
)


def csv_table(name: str, data: bytes, requested: Dialect, *, private: bool, tabs: bool) -> Table:
    """Read a CSV, all cells as text.

    Parameters
    ----------
    name : str
        What the file is called in messages.
    data : bytes
        Its content.
    requested : Dialect
        Options that were requested, which are not questioned.
    private : bool
        Whether the cells of a record that cannot be read become empty, as private answers need.
    tabs : bool
        True if the file's name implies tabs between columns.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If the encoding or the names cannot be detected, or a record cannot be read.
    """
    encoding = requested.encoding or _encoding(name, data, requested, private=private)
    head, _, records = _text(name, data, encoding, private=private).partition("\n")
    first = 2  # the line of the file at which the records begin
    announced = re.fullmatch(r"\"?sep=(.)\"?\s*", head, re.I)  # Excel's own line before the names
    if announced:
        first, (head, _, records) = 3, records.partition("\n")
    usual = "\t" if tabs else ","
    separator = requested.separator or (announced[1] if announced else usual if tabs else _separator(head))
    dialect = replace(requested, separator=separator)
    _readable(name, head, separator, first - 1, private=False)
    cells = next(csv.reader([head], delimiter=separator), [""])
    while len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    names, named = column_names(name, cells, private=private)
    if not named:
        first, records = first - 1, f"{head}\n{records}"
    records = _readable(name, records, separator, first, private=private)
    frame, too_long = _frame(records, names, separator)
    if too_long.any() and not private:
        commas = " Decimal commas or thousands separators cannot be distinguished from those between columns."
        raise ValueError(
            f"{name}: line {first + int(too_long.arg_max())} has more than the {count(len(names), 'cell')} "
            f"of the first line, with {separator!r} between them.{commas * (separator == ',')}"
            f"{' Another character can be given with --separator.' * requested.has_options}"
        )
    if not named:
        check_unnamed(name, frame, in_quotes='"' in head)
    noticed = [_REPORTED[encoding]] if requested.encoding is None and encoding in _REPORTED else []
    if len(names) == 1:
        dialect = replace(requested, separator=None)
    elif requested.separator is None and separator != usual:
        noticed.append(f"with {_SEPARATORS.get(separator, separator)} between columns")
    if private and requested.decimal is None:
        if dialect.separator not in (None, ","):
            raise ValueError(
                f"{name}: has no commas between columns, so numbers may have decimal points or commas, and "
                "for a private answer no case may decide which: give --decimal , or --decimal ."
            )
        dialect = replace(dialect, decimal=".")
        noticed += ["with decimal points (for commas give --decimal ,)"] * (len(names) == 1)
    return Table(name, frame, dialect, lambda row: f"line {first + row}", noticed, named)


def _encoding(name: str, data: bytes, requested: Dialect, *, private: bool) -> str:
    """Return the encoding of the byte-order mark; else UTF-8, or that of Windows in Western Europe."""
    for bom, encoding in _BOMS.items():
        if data.startswith(bom):
            return encoding
    seen = re.split(rb"[\r\n]", data, maxsplit=1)[0] if private else data
    for encoding in ("utf-8", "cp1252"):
        try:
            if "\0" not in seen.decode(encoding):
                return encoding
        except UnicodeDecodeError:
            continue
    which = ": give it with --encoding" * requested.has_options
    raise ValueError(f"{name}: is not text in UTF-8 or Latin-1, and has no byte-order mark{which}")


def _text(name: str, data: bytes, encoding: str, *, private: bool) -> str:
    """Decode a file, with the line ends that its first line shows as newlines."""
    try:
        text = data.decode(encoding, "replace" if private else "strict")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}: is not text in {encoding}, first in line {line}") from None
    end = re.search(r"\r\n?|\n", text)
    return text.removeprefix("\ufeff").replace("\r" if end and end[0] == "\r" else "\r\n", "\n")


def _readable(name: str, records: str, separator: str, first: int, *, private: bool) -> str:
    """Refuse, or empty, lines whose quotation marks are not around whole cells and doubled within."""
    if '"' not in records:
        return records
    mark = re.escape(separator)
    cell = rf'(?:"(?:[^"]|"")*"|[^"{mark}]*)'
    grammar = re.compile(rf"{cell}(?:{mark}{cell})*")
    lines = records.removesuffix("\n").split("\n")
    for i, line in enumerate(lines):
        if '"' in line and not grammar.fullmatch(line):
            if not private:
                raise ValueError(f"{name}: a quotation mark is not closed or not doubled in line {first + i}")
            lines[i] = ""
    return "\n".join([*lines, ""])


def _separator(head: str) -> str:
    """Return the first of tab, semicolon and comma outside quotes; for one column, a semicolon."""
    outside = re.sub(r'"[^"]*"', "", head)
    return next((mark for mark in _SEPARATORS if mark in outside), ";")


def column_names(name: str, cells: Sequence[str], *, private: bool) -> tuple[list[str], bool]:
    """Return the names of the columns, and whether the first line holds them rather than numbers."""
    heads = [cell.strip() for cell in cells]
    named = not all(map(_NUMBER.fullmatch, heads))
    if private and not named:
        raise ValueError(f"{name}: for a private answer the first line must hold names, got numbers")
    if not any(heads):
        raise ValueError(f"{name}: the first line is empty, it should hold the names of the columns")
    names = [head if head and named else f"column_{i + 1}" for i, head in enumerate(heads)]
    if twice := [head for i, head in enumerate(names) if head in names[:i]]:
        raise ValueError(f"{name}: two columns are called {twice[0]!r}; each needs a name of its own")
    return names, named


def check_unnamed(name: str, frame: Any, *, in_quotes: bool) -> None:
    """Refuse a first line of numbers that may be names: in quotes, or whole where other numbers are not."""
    whole = [series.drop_nulls().str.contains(r"^\s*[+-]?[0-9]+\s*$") for series in frame]
    if in_quotes or (all(column[0] for column in whole) and not all(column.all() for column in whole)):
        raise ValueError(f"{name}: does the first line hold names or numbers? Give the columns names")


def _frame(records: str, names: Sequence[str], separator: str) -> tuple[Any, Any]:
    """Return the cells, a row for each line, and which lines have too many; the cells of these are empty."""
    *kept, beyond = heads = [f"c{i}" for i in range(len(names) + 1)]
    content = f"{separator.join(heads)}\n{records}".encode(errors="replace")
    frame = polars.read_csv(content, separator=separator, infer_schema=False, truncate_ragged_lines=True)
    too_long = frame[beyond].is_not_null()
    cells = frame.select(polars.when(~too_long).then(polars.col(kept)).name.keep())
    return cells.rename(dict(zip(kept, names, strict=True))), too_long
