"""What a terminal gets to see: lines, tables, JSON, a bar while somebody waits."""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fedconformal._text import visible


def say(text: str = "") -> None:
    """A line for people: on stderr, so that stdout stays for data."""
    print(visible(text, keep="\n"), file=sys.stderr)


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


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None) -> None:
    """A table on stdout."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(
        *headers,
        title=None if title is None else visible(title),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
    )
    for row in rows:
        grid.add_row(*(Text(visible(str(cell), keep="\n")) for cell in row))
    width = None if sys.stdout.isatty() else 110
    Console(file=sys.stdout, highlight=False, markup=False, width=width).print(grid)


def number(value: float) -> str:
    """A float with the digits a reader needs."""
    return "infinite" if value == float("inf") else f"{value:.6g}"
