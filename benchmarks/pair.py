"""The best pair of ranks for many equal sites, against sorting."""

from collections.abc import Iterator
from functools import partial

import fedconformal as fc
from benchmarks._timing import Row, compare, peak_memory, sorting, sorting_row

LEVELS = (0.9, 0.8999, 0.9001, 0.8998, 0.9002, 0.8997, 0.9003)  # all different: no cache answers for us
MEMORY_LIMIT = 500
PROGRAM = "import fedconformal as fc; fc.plan(n_sites={m}, n_points={n}, confidence_level=0.9)"


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
    peak = peak_memory(PROGRAM.format(m=size, n=size)) / 1e6
    return Row(
        what=f"peak memory of that process, m = n = {size:,}",
        ours=f"{peak:.0f} MB",
        anchor=f"{MEMORY_LIMIT} MB",
        ratio=f"{peak / MEMORY_LIMIT:.2f}",
        goal="< 1",
        met=peak < MEMORY_LIMIT,
    )
