"""What a section gives: rows, each a figure of ours beside its yardstick, with the goal
for their ratio.

A ratio is ours over the yardstick's: the smaller the better. `low` and `high` are how
far it may lie off by chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks._timing import Comparison, duration

REPEATED, ONCE, NO_TIME = 1.05, 1.5, 1.001
"""By which factor a ratio may be off: beyond its repetitions; timed once; where there
is no clock.
"""


def _fixed(form: str) -> Callable[[float], str]:
    return lambda value: format(value, form)


UNITS: dict[str, Callable[[float], str]] = {
    "s": duration,
    "MB": lambda value: f"{value:.0f} MB",
    "kB": lambda value: f"{value:.0f} kB",
    "bytes": lambda value: f"{value:,.0f} bytes",
    "count": _fixed(",.0f"),
    "error": _fixed(".1e"),
    "coverage": _fixed(".5f"),
    "": _fixed(".4g"),
}
"""How a number is written."""


@dataclass(frozen=True)
class Figure:
    """A number with its unit, and words beside it; no number where none could be
    had.
    """

    value: float | None
    unit: str = ""
    words: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return self.words
        number = UNITS[self.unit](self.value)
        return f"{number} ({self.words})" if self.words else number


@dataclass(frozen=True)
class Row:
    """One figure beside its yardstick. `required` makes the whole run fail if it is not
    met.
    """

    name: str
    setting: str
    ours: Figure
    yardstick: Figure | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    goal: str = ""
    met: bool | None = None
    required: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as a table has it, under HEADINGS."""
        verdict = {True: "yes", False: "NO", None: ""}[self.met]
        yardstick = "" if self.yardstick is None else str(self.yardstick)
        return (
            self.name,
            self.setting,
            str(self.ours),
            yardstick,
            written(self.ratio),
            self.goal,
            verdict,
        )


HEADINGS = ("what", "setting", "ours", "yardstick", "ratio", "goal", "met")


def row_from(given: dict[str, Any]) -> Row:
    """A row from what `dataclasses.asdict` made of it."""
    figures = {
        name: given[name] and Figure(**given[name]) for name in ("ours", "yardstick")
    }
    return Row(**{**given, **figures})


def timed(
    name: str,
    setting: str,
    result: Comparison,
    yardstick: str,
    *,
    goal: float | None = None,
) -> Row:
    """A time beside that of a yardstick, by turns."""
    return Row(
        name,
        setting,
        ours=Figure(result.ours, "s"),
        yardstick=Figure(result.yardstick, "s", yardstick),
        ratio=result.ratio,
        low=result.low / REPEATED,
        high=result.high * REPEATED,
        goal=at_most(goal),
        met=None if goal is None else result.ratio <= goal,
    )


def sorted_beside(
    name: str, setting: str, result: Comparison, count: int, *, goal: float = 1
) -> Row:
    """A planning time beside that of sorting so many floats."""
    return timed(name, setting, result, f"numpy.sort of {count:,} floats", goal=goal)


def beside(
    name: str,
    setting: str,
    ours: Figure,
    yardstick: Figure,
    *,
    ratio: float | None = None,
    factor: float = NO_TIME,
    goal: str | None = None,
    met: bool | None = None,
    required: bool = False,
) -> Row:
    """A figure beside another, or beside the most that it may be: at most 1, unless a
    goal is given.
    """
    ratio = _quotient(ours.value, yardstick.value) if ratio is None else ratio
    ends = (None,) if ratio is None else sorted((ratio / factor, ratio * factor))
    return Row(
        name,
        setting,
        ours=ours,
        yardstick=yardstick,
        ratio=ratio,
        low=ends[0],
        high=ends[-1],
        goal=at_most(1) if goal is None else goal,
        met=ratio is not None and ratio <= 1 if goal is None else met,
        required=required,
    )


def memory(name: str, setting: str, peak: int, limit: int, *, words: str = "") -> Row:
    """The most bytes that a process held, beside a limit in megabytes."""
    return beside(
        name,
        setting,
        Figure(peak / 1e6, "MB", words),
        Figure(limit, "MB"),
        factor=REPEATED,
    )


def at_most(goal: float | None) -> str:
    """A goal in words."""
    return "" if goal is None else f"<= {written(goal)}"


def written(ratio: float | None) -> str:
    """A ratio in words: 1.23, or 1/120 for a small one."""
    if ratio is None:
        return ""
    return f"1/{1 / ratio:,.0f}" if 0 < ratio < 0.1 else f"{ratio:.4g}"


def _quotient(ours: float | None, yardstick: float | None) -> float | None:
    return None if ours is None or not yardstick else ours / yardstick


def columns(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table for the terminal."""
    cells = [headings, *lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return "\n".join([padded[0], "-" * max(map(len, padded)), *padded[1:]])
