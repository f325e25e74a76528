"""Timing that a noisy machine with two cores cannot fool too badly: interleaved runs, medians of ratios."""

import gc
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

# On Linux a child's ru_maxrss starts at the size of the process that started it; VmHWM starts at nothing.
PEAK_PROGRAM = """
import pathlib, resource
status = pathlib.Path("/proc/self/status")
if status.exists():
    print(int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


Clock = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One figure beside its anchor. `required` makes the whole run fail if it is not met."""

    what: str
    ours: str
    anchor: str = ""
    ratio: str = ""
    goal: str = ""
    met: bool | None = None
    required: bool = False


@dataclass(frozen=True)
class Comparison:
    """Medians over the repetitions; `ratio` is the median of ours / anchor, pair by pair."""

    ours: float
    anchor: float
    ratio: float


def seconds(action: Callable[[], object], clock: Clock = perf_counter) -> float:
    """How long one call takes; what it returns is thrown away before the next."""
    gc.collect()
    start = clock()
    action()
    return clock() - start


def compare(
    ours: Sequence[Callable[[], object]], anchor: Callable[[], object], clock: Clock = perf_counter
) -> Comparison:
    """Time each of our calls right next to one call of the anchor."""
    return summarise([(seconds(ours_once, clock), seconds(anchor, clock)) for ours_once in ours])


def summarise(pairs: Sequence[tuple[float, float]]) -> Comparison:
    return Comparison(
        ours=median(ours for ours, _ in pairs),
        anchor=median(anchor for _, anchor in pairs),
        ratio=median(ours / anchor for ours, anchor in pairs),
    )


def sorting(count: int) -> Callable[[], object]:
    """The anchor of the planning figures: numpy.sort of so many uniform floats (its copy included)."""
    values = np.random.default_rng(2).random(count)
    return lambda: np.sort(values)


def ratio_row(what: str, result: Comparison, anchor: str, *, goal: float) -> Row:
    """A time beside that of an anchor, which it may exceed by a factor."""
    return Row(
        what=what,
        ours=duration(result.ours),
        anchor=f"{duration(result.anchor)} ({anchor})",
        ratio=f"{result.ratio:.3g}",
        goal=f"<= {goal:g}",
        met=result.ratio <= goal,
    )


def faster_row(what: str, result: Comparison, anchor: str, *, goal: float | None = None) -> Row:
    """A time beside that of an anchor, which is to take so many times as long."""
    faster = 1 / result.ratio
    return Row(
        what=what,
        ours=duration(result.ours),
        anchor=f"{duration(result.anchor)} ({anchor})",
        ratio=f"{faster:,.0f} times faster" if faster >= 100 else f"{faster:.1f} times faster",
        goal=f">= {goal:,g}" if goal else "",
        met=faster >= goal if goal else None,
    )


def sorting_row(what: str, result: Comparison, count: int, *, goal: float = 1) -> Row:
    """A planning figure beside sorting so many floats."""
    return ratio_row(what, result, f"numpy.sort of {count:,} floats", goal=goal)


def memory_row(what: str, peak: int, limit: int, *, note: str = "") -> Row:
    """The most bytes that a process held, beside a limit in megabytes."""
    held = peak / 1e6
    return Row(
        what=what,
        ours=f"{held:.0f} MB{note}",
        anchor=f"{limit} MB",
        ratio=f"{held / limit:.2f}",
        goal="< 1",
        met=held < limit,
    )


def python(program: str) -> str:
    """Output of a program run by a fresh interpreter of this environment."""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return done.stdout


def peak_memory(program: str) -> int:
    """Bytes that a fresh interpreter held at most while it ran the program."""
    return int(python(f"{program}\n{PEAK_PROGRAM}").split()[-1])


def duration(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} us"
