"""How far a long run has got."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedconformal.cli._show import say


@contextmanager
def fit_counter(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that counts fits, where somebody watches; a line for every tenth of them elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines(what)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


class _Lines:
    def __init__(self, what: str) -> None:
        self.what, self.said = what, -1

    def __call__(self, done: int, of: int) -> None:
        tenth = 10 * done // of if of else 10
        if tenth > self.said:
            self.said = tenth
            say(f"{self.what}: {done} of {of} fits")
