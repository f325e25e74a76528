"""What the command costs from a cold start."""

import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks._timing import Row, ratio_row, seconds, summarise

GOALS = (
    (("--help",), "import numpy", 2.5),
    (("plan", "--sites", "10", "--points", "79"), "import scipy.special", 5.0),
)
"""A command, what it is compared with, and how many times that it may take."""


def run(*, repetitions: int = 7) -> Iterator[Row]:
    for arguments, anchor, goal in GOALS:
        yield _row(arguments, anchor, goal, repetitions)


def _row(arguments: Sequence[str], anchor: str, goal: float, repetitions: int) -> Row:
    ours = [str(Path(sysconfig.get_path("scripts"), "fedconformal")), *arguments]
    theirs = [sys.executable, "-c", anchor]
    for command in (ours, theirs):  # compiled files and the disk's cache
        _time(command)
    result = summarise([(_time(ours), _time(theirs)) for _ in range(repetitions)])
    what = f"fedconformal {' '.join(arguments)}, the whole process"
    return ratio_row(what, result, f"python -c '{anchor}'", goal=goal)


def _time(command: Sequence[str]) -> float:
    return seconds(partial(subprocess.run, command, check=True, capture_output=True))
