"""What a command costs from a cold start, against Python and its imports alone.

A script of one's own would start Python and import numpy, or scipy.special for the
mathematics, before it does anything. Goal: at most 2.5 times that for `--help`, and 5
times for a plan.
"""

import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks._rows import Row, timed
from benchmarks._timing import seconds, summarise

GOALS = (
    (("--help",), "import numpy", 2.5),
    (("plan", "--sites", "10", "--points", "79"), "import scipy.special", 5.0),
)
"""A command, what it is compared with, and how many times that it may take."""


def run(*, repetitions: int = 7) -> Iterator[Row]:
    for arguments, yardstick, goal in GOALS:
        yield _row(arguments, yardstick, goal, repetitions)


def _row(
    arguments: Sequence[str], yardstick: str, goal: float, repetitions: int
) -> Row:
    ours = [str(Path(sysconfig.get_path("scripts"), "fedconformal")), *arguments]
    theirs = [sys.executable, "-c", yardstick]
    for command in (ours, theirs):  # compiled files and the disk's cache
        _time(command)
    result = summarise([(_time(ours), _time(theirs)) for _ in range(repetitions)])
    command = " ".join(["fedconformal", *arguments])
    return timed(
        "the whole process", command, result, f"python -c '{yardstick}'", goal=goal
    )


def _time(command: Sequence[str]) -> float:
    return seconds(partial(subprocess.run, command, check=True, capture_output=True))
