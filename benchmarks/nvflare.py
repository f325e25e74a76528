"""A calibration round on NVIDIA FLARE, against the engine's own floor, and against sending all scores.

The floor is a task for one float, the least that any round on FLARE costs; sending all scores is what one
would do where they may leave a site. Goals: at most 1.2 times the floor, and at most 2,048 bytes from each
site.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks._engines import engine_rows, measured
from benchmarks._rows import Row

SITES = (4, 20)
APP = Path(__file__).parent / "nvflare_app"


def simulate(home: Path, *settings: str) -> str:
    """Run the job in FLARE's simulator, its files in a folder; what was printed."""
    return subprocess.run(
        [sys.executable, str(APP / "job.py"), str(home / "workspace"), *settings],
        cwd=APP,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    ).stdout


def run(
    *,
    sites: Sequence[int] = SITES,
    points: int = 1000,
    repetitions: int = 9,
    simulate: Callable[..., str] = simulate,
) -> Iterator[Row]:
    """Federations of so many sites; each kind of round so often."""
    for m in sites:
        settings = (str(m), str(points), str(repetitions))
        rounds = measured(lambda home, output, s=settings: simulate(home, *s, str(output)))
        yield from engine_rows(m, points, rounds, floor="a task for one float")
