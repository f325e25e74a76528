"""Output on a terminal: lines, tables, JSON, progress, and messages in the words of the
command line.
"""

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from io import StringIO
from math import inf, isfinite
from typing import Any, TextIO

from fedconformal._text import plain_spaces, visible

_WIDTH = 110  # of lines where nobody watches
_TABLE_WIDTH = 80
_GAP = 3
_WHOLE_WORDS: Any = {"break_long_words": False, "break_on_hyphens": False}


def printable(text: str) -> str:
    """Return text for a terminal: plain spaces, and control characters spelled out."""
    return visible(plain_spaces(text), keep="\n")


def say(text: str) -> None:
    """Print a line for people on stderr, as stdout is for data; go on if nobody reads
    it.
    """
    try:
        print(printable(text), file=sys.stderr, flush=True)
    except BrokenPipeError:
        silence_output(sys.stderr)


def silence_output(*streams: TextIO) -> None:
    """Discard all further output, after somebody has closed the pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams or (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def working(what: str) -> AbstractContextManager[Any]:
    """Show on a terminal that something is under way."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)


def print_json(content: dict[str, Any] | list[Any]) -> None:
    """Print a result for machines on stdout; what JSON has no type for is text."""
    # JSON spells out what is not ASCII, and all controls but this one.
    print(
        json.dumps(_finite(content), indent=2, allow_nan=False, default=str).replace(
            "\x7f", "\\u007f"
        )
    )


def _finite(value: Any) -> Any:
    """Replace infinity by its name and NaN by None, as JSON has neither."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return {inf: "Infinity", -inf: "-Infinity"}.get(value)
    return value


def width() -> int:
    """Return the width of the terminal in columns."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return _WIDTH


def paragraph(text: str, *, mark: str = "") -> None:
    """Print a sentence or two, behind a mark in a list; break lines between words on a
    narrow terminal.
    """
    wide = width()
    if wide < _WIDTH:  # a number is not parted from its per cent sign
        joined = re.sub(r"(?<=[0-9]) %", "\xa0%", mark + text)
        text = textwrap.fill(
            joined, max(20, wide), subsequent_indent=" " * len(mark), **_WHOLE_WORDS
        )
        mark = ""
    print(printable(mark + text))


def table(rows: Iterable[Mapping[str, object]], *, title: str | None = None) -> None:
    """Print rows of cells by the name of their column; a column without any cell is
    left out.

    Where a table is too wide even with its cells wrapped, each cell gets a line.
    """
    rows = list(rows)
    names = dict.fromkeys(
        name for row in rows for name, cell in row.items() if cell is not None
    )
    if not names:
        return
    cells = [
        ["" if row.get(name) is None else printable(str(row[name])) for name in names]
        for row in rows
    ]
    lines = _table_lines(
        [printable(name) for name in names], cells, min(width(), _TABLE_WIDTH)
    )
    print("\n".join(["", *([] if title is None else [visible(title)]), *lines, ""]))


def _table_lines(
    headers: Sequence[str], rows: Sequence[Sequence[str]], most: int
) -> list[str]:
    """Return the lines of a table whose words are never broken."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = list(zip(headers, *rows, strict=True))
    widths = [
        max(cell_len(line) for cell in column for line in cell.split("\n"))
        for column in columns
    ]
    least = [
        max([cell_len(word) for cell in column for word in cell.split()], default=0)
        for column in columns
    ]
    room = most - 2 - _GAP * (len(columns) - 1)
    while sum(widths) > room and widths != least:
        i = max(range(len(widths)), key=lambda j: (widths[j] - least[j], widths[j]))
        widths[i] -= 1
    if sum(widths) > room and rows:
        return _record_lines(headers, rows, most)
    grid = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),
    )
    for header, wide in zip(headers, widths, strict=True):
        grid.add_column(Text(header), width=wide, overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    printed = StringIO()
    Console(file=printed, width=10_000, color_system=None).print(grid)
    text = printed.getvalue()
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        text = text.replace("─", "-")
    # Older versions of rich draw the rule as wide as a padding behind the last column.
    whole = sum(widths) + _GAP * (len(columns) - 1)
    return [f"  {line[:whole]}".rstrip() for line in text.splitlines()]


def _record_lines(
    headers: Sequence[str], rows: Sequence[Sequence[str]], most: int
) -> list[str]:
    """Return a line for each cell that is not empty, with the name of its column, and a
    gap between rows.
    """
    lines: list[str] = []
    for i, row in enumerate(rows):
        lines += [""] * (i > 0)
        for name, cell in zip(headers, row, strict=True):
            if cell:
                text = f"  {' '.join(name.split())}: {' '.join(cell.split())}"
                lines += textwrap.wrap(
                    text, max(22, most), subsequent_indent="    ", **_WHOLE_WORDS
                )
    return lines


def number(value: float) -> str:
    """Format a float with the digits a reader needs."""
    return "infinite" if value == inf else f"{value:.6g}"


# -- messages of the library -----------------------------------------------------------

_ANYWHERE = r"(?<![\w'\"./-])", r"(?![\w'\"=./-])"
_AS_SUBJECT = r"\A", r"(?=(?:\[\d+\])? (?:must|does|goes|is|are|was|needs|and|cannot) )"
_BOTH_WAYS = re.compile(r"\w+=\w+ \((--[^)]+)\)")


def in_options(message: str, options: dict[str, str]) -> str:
    """Translate a message of the library into the words of the command line.

    Names with an underscore are replaced wherever they stand, others only as the
    subject of a sentence.

    Parameters
    ----------
    message : str
        As the library wrote it.
    options : dict
        Options by the name of the argument.

    Returns
    -------
    str

    Examples
    --------
    >>> in_options("n_sites must be >= 1, got 0", {"n_sites": "--sites"})
    '--sites must be >= 1, got 0'
    >>> in_options("max_missing=1 (--max-missing 1) plans for that", {})
    '--max-missing 1 plans for that'
    """
    text = _BOTH_WAYS.sub(r"\1", message)
    for name, option in options.items():
        where, follows = _ANYWHERE if "_" in name else _AS_SUBJECT
        text = re.sub(f"{where}{re.escape(name)}{follows}", option, text)
    return text
