"""The best pair of ranks for many equal sites, against sorting."""

from collections.abc import Iterator
from functools import partial

import fedconformal as fc
from benchmarks._timing import Row, compare, python, sorting, sorting_row

LEVELS = (0.9, 0.8999, 0.9001, 0.8998, 0.9002, 0.8997, 0.9003)  # all different: no cache answers for us
MEMORY_LIMIT = 500
# On Linux a child's ru_maxrss starts at the size of the process that started it; VmHWM starts at nothing.
MEMORY_PROGRAM = """
import pathlib, resource
import fedconformal as fc
fc.plan(n_sites={m}, n_points={n}, confidence_level=0.9)
status = pathlib.Path("/proc/self/status")
if status.exists():
    print(int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def run() -> Iterator[Row]:
    yield _against_sorting(10**3, count=2 * 10**6, repetitions=7)
    yield _against_sorting(10**6, count=3 * 10**7, repetitions=3)
    yield _memory(10**6)


def _against_sorting(size: int, *, count: int, repetitions: int) -> Row:
    plan = partial(fc.plan, n_sites=size, n_points=size)
    plan(confidence_level=0.8)
    ours = [partial(plan, confidence_level=level) for level in LEVELS[:repetitions]]
    result = compare(ours, sorting(count))
    return sorting_row(f"best pair, m = n = {size:,}", result, count)


def _memory(size: int) -> Row:
    peak = int(python(MEMORY_PROGRAM.format(m=size, n=size))) / 1e6
    return Row(
        what=f"peak memory of that process, m = n = {size:,}",
        ours=f"{peak:.0f} MB",
        anchor=f"{MEMORY_LIMIT} MB",
        ratio=f"{peak / MEMORY_LIMIT:.2f}",
        goal="< 1",
        met=peak < MEMORY_LIMIT,
    )
