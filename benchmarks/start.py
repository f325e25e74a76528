"""What the command costs from a cold start."""

import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks._timing import Row, duration, seconds, summarise

ARGUMENTS = ("plan", "--sites", "10", "--points", "79")
ANCHOR = "import scipy.special"
GOAL = 5.0


def run(*, repetitions: int = 7) -> Iterator[Row]:
    ours = [str(Path(sysconfig.get_path("scripts"), "fedconformal")), *ARGUMENTS]
    anchor = [sys.executable, "-c", ANCHOR]
    for command in (ours, anchor):  # compiled files and the disk's cache
        _time(command)
    result = summarise([(_time(ours), _time(anchor)) for _ in range(repetitions)])
    yield Row(
        what=f"fedconformal {' '.join(ARGUMENTS)}, the whole process",
        ours=duration(result.ours),
        anchor=f"{duration(result.anchor)} (python -c '{ANCHOR}')",
        ratio=f"{result.ratio:.2f}",
        goal=f"< {GOAL:g}",
        met=result.ratio < GOAL,
    )


def _time(command: Sequence[str]) -> float:
    return seconds(partial(subprocess.run, command, check=True, capture_output=True))
