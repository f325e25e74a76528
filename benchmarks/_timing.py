"""Timing that a noisy machine with two cores cannot fool too badly: interleaved runs,
medians of ratios.
"""

import gc
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

# On Linux a child's ru_maxrss starts at the size of the process that started it; VmHWM
# starts at nothing.
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
class Comparison:
    """Medians over the repetitions; those of ours / yardstick, pair by pair, go from
    low to high.
    """

    ours: float
    yardstick: float
    ratio: float
    low: float
    high: float


def seconds(action: Callable[[], object], clock: Clock = perf_counter) -> float:
    """How long one call takes; what it returns is thrown away before the next."""
    gc.collect()
    start = clock()
    action()
    return clock() - start


def compare(
    ours: Sequence[Callable[[], object]],
    yardstick: Callable[[], object],
    clock: Clock = perf_counter,
) -> Comparison:
    """Time each of our calls right next to one call of the yardstick."""
    return summarise(
        [(seconds(ours_once, clock), seconds(yardstick, clock)) for ours_once in ours]
    )


def summarise(pairs: Sequence[tuple[float, float]]) -> Comparison:
    ratios = [ours / yardstick for ours, yardstick in pairs]
    return Comparison(
        ours=median(ours for ours, _ in pairs),
        yardstick=median(yardstick for _, yardstick in pairs),
        ratio=median(ratios),
        low=min(ratios),
        high=max(ratios),
    )


def sorting(count: int) -> Callable[[], object]:
    """The yardstick of the planning figures: numpy.sort of so many uniform floats (its
    copy included).
    """
    values = np.random.default_rng(2).random(count)
    return lambda: np.sort(values)


def python(program: str) -> str:
    """Output of a program run by a fresh interpreter of this environment."""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return done.stdout


def peak_memory(program: str) -> int:
    """Bytes that a fresh interpreter held at most while it ran the program."""
    return int(python(f"{program}\n{PEAK_PROGRAM}").split()[-1])


def duration(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} us"
