"""Tables as lines of text that fit a width."""

import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest

_GAP = 3


def laid_out(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    r"""The lines of a table, or where it is too wide a line for each cell.

    Cells, and then names of columns, are broken between words before that.

    Parameters
    ----------
    headers : sequence of str
        The names of the columns; several lines each, if they like.
    rows : sequence of sequence of str
        The cells.
    width : int
        How long a line may be, unless a word is longer.

    Returns
    -------
    list of str

    Examples
    --------
    >>> print("\n".join(laid_out(["site", "points"], [["north", "120"]], 20)))
      site    points
      ──────────────
      north   120
    >>> print("\n".join(laid_out(["site", "points"], [["north", "120"]], 10)))
      site: north
      points: 120
    """
    columns = [list(column) for column in zip(headers, *rows, strict=True)]
    widths = [max(_widest(cell) for cell in column) for column in columns]
    least = [max(map(_longest_word, column)) for column in columns]
    spare = width - 2 - _GAP * (len(columns) - 1)
    while sum(widths) > spare and widths != least:
        i = max(range(len(widths)), key=lambda j: (widths[j] - least[j], widths[j]))
        widths[i] -= 1
    if sum(widths) > spare and rows:
        return _one_by_one(headers, rows, width)
    head, *body = (_lines(row, widths) for row in zip(*columns, strict=True))
    rule = _rule() * (sum(widths) + _GAP * (len(widths) - 1))
    return [f"  {line}".rstrip() for line in [*head, rule, *(line for lines in body for line in lines)]]


def _one_by_one(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Every cell on a line of its own, with the name of its column; a gap between rows."""
    lines: list[str] = []
    for i, row in enumerate(rows):
        lines += [""] * (i > 0)
        for name, cell in zip(headers, row, strict=True):
            text = f"{' '.join(name.split())}: {' '.join(cell.split())}"
            lines += [f"  {line}" for line in _broken(text, max(20, width - 2), indent="  ")]
    return lines


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """One row as lines, each cell broken to its width."""
    broken = [
        [line for part in cell.split("\n") for line in _broken(part, wide) or [""]]
        for cell, wide in zip(row, widths, strict=True)
    ]
    return [
        (" " * _GAP).join(
            part + " " * (wide - _shown(part)) for part, wide in zip(parts, widths, strict=True)
        )
        for parts in zip_longest(*broken, fillvalue="")
    ]


def _broken(text: str, wide: int, *, indent: str = "") -> list[str]:
    if _shown(text) <= wide:
        return [text]
    return textwrap.wrap(
        text, max(1, wide), break_long_words=False, break_on_hyphens=False, subsequent_indent=indent
    )


def _shown(text: str) -> int:
    """How many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _widest(cell: str) -> int:
    return max(map(_shown, cell.split("\n")))


def _longest_word(cell: str) -> int:
    return max(map(_shown, cell.split() or [""]))


def _rule() -> str:
    """What a line is drawn with, where it can be shown."""
    try:
        "─".encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return "-"
    return "─"
