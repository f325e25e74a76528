"""What the command costs from a cold start."""

import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks._timing import Row, ratio_row, seconds, summarise

ARGUMENTS = ("plan", "--sites", "10", "--points", "79")
ANCHOR = "import scipy.special"
GOAL = 5.0


def run(*, repetitions: int = 7) -> Iterator[Row]:
    ours = [str(Path(sysconfig.get_path("scripts"), "fedconformal")), *ARGUMENTS]
    anchor = [sys.executable, "-c", ANCHOR]
    for command in (ours, anchor):  # compiled files and the disk's cache
        _time(command)
    result = summarise([(_time(ours), _time(anchor)) for _ in range(repetitions)])
    what = f"fedconformal {' '.join(ARGUMENTS)}, the whole process"
    yield ratio_row(what, result, f"python -c '{ANCHOR}'", goal=GOAL)


def _time(command: Sequence[str]) -> float:
    return seconds(partial(subprocess.run, command, check=True, capture_output=True))
