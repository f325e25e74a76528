r"""CSV as people's programs write it; each physical line is one record.

A private file is read by a transformation of stability 1: replacing one record changes
one row, and neither the number of rows nor whether there is an answer. The argument has
three steps.

1. The format is decided by options and by the first line, which is public (the first
   two, if the first is Excel's ``sep=``): it ends with the first ``\n`` byte. It gives
   the encoding (UTF-8, or one byte per character), the line end (``\n``, or ``\r\n``
   where a ``\r`` precedes it), the separator and the columns. Files of which a record
   would take part in this decision are refused because of the first line alone: those
   in UTF-16 or UTF-32 (bytes of a record would shift those of the next), with old Mac
   line ends (the first byte of a record would change the first line end), and with
   numbers instead of names.
2. A record is what stands between two line ends of the file, as bytes. The bytes behind
   the last one are no record, whatever they are: else a blank last record would vanish.
   So a record that is replaced by bytes without a line end stays one record, and the
   number of records is the number of line ends.
3. The row of a record is a function of its bytes and of the format: in these encodings
   no byte of one line changes how those of another line are decoded, quotation marks
   are balanced within a line or the line is emptied, and the decimal sign is not
   detected.
"""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedconformal._tables._table import Dialect, Table, check_width, polars
from fedconformal._text import count, warn

_BOMS = {  # that of UTF-32 begins as that of UTF-16 does
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEPARATORS = {"\t": "tabs", ";": ";", ",": ","}
_SEPARATOR_ADVICE = " Another character can be given with --separator."
_MOST_EMPTY = 5_000_000  # cells that are missing at the end of lines
_MOST_PRIVATE = 30_000_000  # cells of a private file, whatever its records hold
_REPORTED = {"utf-16": "in UTF-16", "utf-32": "in UTF-32", "cp1252": "in Latin-1"}
_LOCAL = re.compile(
    r"utf-8(?:-sig)?|ascii|cp125[0-8]|iso8859-[0-9]+"
)  # names in Python's registry
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)",
    re.I,
)

_ANNOUNCED = re.compile(r"\"?sep=([^\r\n])\"?[^\S\r\n]*", re.I)
"""Excel's own line before the names."""


def csv_table(
    name: str, data: bytes, requested: Dialect, *, private: bool, tabs: bool
) -> Table:
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
        Whether the cells of a record that cannot be read become empty, as private
        answers need.
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
    encoding = _encoding(name, data, requested, private=private)
    head, _, records = _text(name, data, encoding, private=private).partition("\n")
    first = 2  # the line of the file at which the records begin
    announced = _ANNOUNCED.fullmatch(head)
    if announced:
        first, (head, _, records) = 3, records.partition("\n")
    usual = "\t" if tabs else ","
    separator = requested.separator or (
        announced[1] if announced else usual if tabs else _separator(head)
    )
    dialect = replace(requested, separator=separator)
    _readable(name, head, separator, first - 1, private=False)
    cells = next(csv.reader([head], delimiter=separator), [""])
    while len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    names, named = column_names(name, cells, private=private)
    if not named:
        first, records = first - 1, f"{head}\n{records}"
    records = _readable(name, records, separator, first, private=private)
    frame, too_long = _frame(name, records, names, separator, private=private)
    if too_long.any() and not private:
        commas = (
            " Decimal commas or thousands separators cannot be distinguished from those"
            " between columns."
        )
        raise ValueError(
            f"{name}: line {first + int(too_long.arg_max())} has more than the"
            f" {count(len(names), 'cell')} "
            f"of the first line, with {separator!r} between"
            f" them.{commas * (separator == ',')}"
            f"{_SEPARATOR_ADVICE * requested.has_options}"
        )
    if not named:
        check_unnamed(name, frame, in_quotes='"' in head)
    noticed = (
        [_REPORTED[encoding]]
        if requested.encoding is None and encoding in _REPORTED
        else []
    )
    if len(names) == 1:
        dialect = replace(requested, separator=None)
    elif requested.separator is None and separator != usual:
        noticed.append(f"with {_SEPARATORS.get(separator, separator)} between columns")
    if private and requested.decimal is None:
        if dialect.separator not in (None, ","):
            raise ValueError(
                f"{name}: has no commas between columns, so numbers may have decimal"
                " points or commas, and for a private answer no case may decide which:"
                " give --decimal , or --decimal ."
            )
        dialect = replace(dialect, decimal=".")
        noticed += ["with decimal points (for commas give --decimal ,)"] * (
            len(names) == 1
        )
    return Table(name, frame, dialect, first, noticed, named)


def _check_private(name: str, data: bytes, requested: Dialect) -> None:
    """Refuse a format that records would take part in deciding; the first line alone is
    looked at.
    """
    head = data.partition(b"\n")[0].removesuffix(b"\r")
    bom = next(
        (encoding for bom, encoding in _BOMS.items() if data.startswith(bom)), "utf-8"
    )
    encoding = codecs.lookup(requested.encoding or bom).name
    if not _LOCAL.fullmatch(encoding):
        raise ValueError(
            f"{name}: for a private answer a CSV must be in UTF-8, or in an encoding of"
            f" one byte per character such as latin-1, got {encoding}"
        )
    if b"\r" in head:
        raise ValueError(
            f"{name}: for a private answer the first line must end with a line feed,"
            " got a carriage return (the line ends of old Macs)"
        )
    if _ANNOUNCED.fullmatch(head.decode(encoding, "replace").removeprefix("\ufeff")):
        rest = data[len(head) :]
        end = b"\r\n" if rest.startswith(b"\r") else b"\n"
        names = rest[len(end) :].partition(b"\n")[0] + b"\n"
        if not names.endswith(end) or b"\r" in names.rstrip(b"\r\n"):
            raise ValueError(
                f"{name}: for a private answer the line of names must end as the line"
                " before it does, with a line feed"
            )


def _encoding(name: str, data: bytes, requested: Dialect, *, private: bool) -> str:
    """Return the encoding that was requested, or of the byte-order mark; else UTF-8, or
    that of Windows.
    """
    if private:
        _check_private(name, data, requested)
    if requested.encoding is not None:
        return requested.encoding
    for bom, encoding in _BOMS.items():
        if data.startswith(bom):
            return encoding
    seen = data.partition(b"\n")[0] if private else data
    for encoding in ("utf-8", "cp1252"):
        try:
            if "\0" not in seen.decode(encoding):
                return encoding
        except UnicodeDecodeError:
            continue
    which = ": give it with --encoding" * requested.has_options
    raise ValueError(
        f"{name}: is not text in UTF-8 or Latin-1, and has no byte-order mark{which}"
    )


def _text(name: str, data: bytes, encoding: str, *, private: bool) -> str:
    """Decode a file, with the line ends that its first line shows as newlines."""
    if private:
        return (
            _private_lines(name, data)
            .decode(encoding, "replace")
            .removeprefix("\ufeff")
        )
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{name}: is not text in {encoding}, first in line {line}"
        ) from None
    text = text.removeprefix("\ufeff")
    head, end, records = _split_line(text)
    if end and _ANNOUNCED.fullmatch(head):  # its line end may differ from the others
        return f"{head}\n{_with_newlines(records)}"
    return _with_newlines(text)


def _split_line(text: str) -> tuple[str, str, str]:
    """Return the first line, its line end, and the rest."""
    end = re.search(r"\r\n?|\n", text)
    if end is None:
        return text, "", ""
    return text[: end.start()], end[0], text[end.end() :]


def _with_newlines(text: str) -> str:
    end = _split_line(text)[1]
    return text.replace("\r" if end == "\r" else "\r\n", "\n")


def _private_lines(name: str, data: bytes) -> bytes:
    """Return all lines that end with the line end of the first one, a newline behind
    each of them.
    """
    end = b"\r\n" if data.partition(b"\n")[0].endswith(b"\r") else b"\n"
    lines, _, rest = data.rpartition(end) if end in data else (data, end, b"")
    if rest.strip():
        warn(
            f"{name}: the last line was not read: for a private answer each line needs"
            " a line end"
        )
    if end != b"\n" and lines.count(b"\n") != lines.count(
        end
    ):  # a cell with a newline holds no number
        lines = re.sub(rb"(?<!\r)\n", b"\0", lines)
    return lines.replace(end, b"\n") + b"\n"


def _readable(
    name: str, records: str, separator: str, first: int, *, private: bool
) -> str:
    """Refuse, or empty, lines whose quotation marks are not around whole cells and
    doubled within.
    """
    if '"' not in records:
        return records
    mark = re.escape(separator)
    cell = rf'(?:"(?:[^"]|"")*"|[^"{mark}]*)'
    grammar = re.compile(rf"{cell}(?:{mark}{cell})*")
    lines = records.removesuffix("\n").split("\n")
    for i, line in enumerate(lines):
        if '"' in line and not grammar.fullmatch(line):
            if not private:
                raise ValueError(
                    f"{name}: a quotation mark is not closed or not doubled in line"
                    f" {first + i}"
                )
            lines[i] = ""
    return "\n".join([*lines, ""])


def _separator(head: str) -> str:
    """Return the first of tab, semicolon and comma outside quotes; for one column, a
    semicolon.
    """
    outside = re.sub(r'"[^"]*"', "", head)
    return next((mark for mark in _SEPARATORS if mark in outside), ";")


def column_names(
    name: str, cells: Sequence[str], *, private: bool
) -> tuple[list[str], bool]:
    """Return the names of the columns, and whether the first line holds them rather
    than numbers.
    """
    check_width(name, len(cells))
    heads = [cell.strip() for cell in cells]
    named = not all(map(_NUMBER.fullmatch, heads))
    if private and not named:
        raise ValueError(
            f"{name}: for a private answer the first line must hold names, got numbers"
        )
    if not any(heads):
        raise ValueError(
            f"{name}: the first line is empty, it should hold the names of the columns"
        )
    names = [
        head if head and named else f"column_{i + 1}" for i, head in enumerate(heads)
    ]
    if twice := [head for head, times in Counter(names).items() if times > 1]:
        raise ValueError(
            f"{name}: two columns are called {twice[0]!r}; each needs a name of its own"
        )
    return names, named


def check_unnamed(name: str, frame: Any, *, in_quotes: bool) -> None:
    """Refuse a first line of numbers that may be names: in quotes, or whole where other
    numbers are not.
    """
    whole = [
        series.drop_nulls().str.contains(r"^\s*[+-]?[0-9]+\s*$") for series in frame
    ]
    if in_quotes or (
        all(column[0] for column in whole) and not all(column.all() for column in whole)
    ):
        raise ValueError(
            f"{name}: does the first line hold names or numbers? Give the columns names"
        )


def _frame(
    name: str, records: str, names: Sequence[str], separator: str, *, private: bool
) -> tuple[Any, Any]:
    """Return the cells, a row for each line, and which lines have too many; the cells
    of these are empty.
    """
    rows = records.count("\n")
    if private and rows * len(names) > _MOST_PRIVATE:
        raise ValueError(
            f"{name}: {rows} lines of {len(names)} cells are too many for a private"
            " answer: leave out columns"
        )
    if not private and rows * len(names) > _MOST_EMPTY + 2 * len(
        records
    ):  # a cell takes a byte or more
        raise ValueError(
            f"{name}: {rows} lines have far fewer than the {len(names)} cells of the"
            " first line"
        )
    *kept, beyond = heads = [f"c{i}" for i in range(len(names) + 1)]
    content = f"{separator.join(heads)}\n{records}".encode(errors="replace")
    frame = polars.read_csv(
        content, separator=separator, infer_schema=False, truncate_ragged_lines=True
    )
    too_long = frame[beyond].is_not_null()
    cells = frame.select(polars.when(~too_long).then(polars.col(kept)).name.keep())
    return cells.rename(dict(zip(kept, names, strict=True))), too_long
