"""What a terminal gets to see: lines, tables, JSON, a bar while somebody waits."""

import json
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fedconformal._text import visible
from fedconformal.cli._grid import laid_out

_WIDTH = 110  # where nobody watches


def say(text: str = "") -> None:
    """A line for people: on stderr, so that stdout stays for data; work goes on if nobody reads it."""
    try:
        print(visible(text, keep="\n"), file=sys.stderr, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextmanager
def working(what: str) -> Iterator[None]:
    """A progress bar for what takes more than a second; none where nobody watches."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(what, total=None)
    timer = threading.Timer(1.0, progress.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


def print_json(content: dict[str, Any] | list[Any]) -> None:
    """A result for machines, on stdout."""
    # JSON spells out what is not ASCII, and all controls but this one.
    print(json.dumps(content, indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def width() -> int:
    """How many columns there are to write in."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return _WIDTH


def paragraph(text: str, *, mark: str = "") -> None:
    """A sentence or two on stdout, behind a mark in a list; broken between words where somebody watches."""
    wide, text = width(), visible(mark + text, keep="\n")
    if wide < _WIDTH:
        indent = " " * len(mark)
        text = textwrap.fill(
            text, max(20, wide), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    print(text)


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str | None = None,
    widest: int | None = None,
) -> None:
    """A table on stdout; where it is too wide, one line for each cell: nothing is ever cut."""
    content = [[visible(str(cell), keep="\n") for cell in row] for row in rows]
    lines = laid_out(list(headers), content, min(width(), widest or width()))
    head = [] if title is None else [visible(title)]
    print("\n".join(["", *head, *lines, ""]))


def number(value: float) -> str:
    """A float with the digits a reader needs."""
    return "infinite" if value == float("inf") else f"{value:.6g}"
