"""The best pair of ranks for many equal sites, against sorting.

The paper's search looks at all m x n pairs, which nobody can wait for at these sizes.
The yardstick is therefore what a site does anyway, a `numpy.sort` of two to thirty
million floats. Goal: no longer than that, in time of the processor, and 500 MB at most.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from time import process_time

import fedconformal as fc
from benchmarks._rows import Row, memory, sorted_beside
from benchmarks._timing import compare, peak_memory, sorting

LEVELS = (
    0.9,
    0.8999,
    0.9001,
    0.8998,
    0.9002,
    0.8997,
    0.9003,
)  # all different: no cache answers for us
# Sites and points at each, how many floats are sorted beside, and how often.
FEDERATIONS = ((10**3, 2 * 10**6, 7), (10**6, 3 * 10**7, 3))
CRITERIA = ("marginal", "stable", "conditional")
MEMORY_LIMIT = 500
PROGRAM = """
import fedconformal as fc
fc.plan(n_sites={size}, n_points={size}, confidence_level=0.9, criterion="marginal")
"""


def run(
    *,
    federations: Sequence[tuple[int, int, int]] = FEDERATIONS,
    memory_size: int = 10**6,
) -> Iterator[Row]:
    for criterion in CRITERIA:
        for size, count, repetitions in federations:
            yield _against_sorting(
                size, criterion, count=count, repetitions=repetitions
            )
    yield _memory(memory_size)


def _against_sorting(size: int, criterion: str, *, count: int, repetitions: int) -> Row:
    plan = partial(fc.plan, n_sites=size, n_points=size, criterion=criterion)
    plan(confidence_level=0.8)
    ours = [partial(plan, confidence_level=level) for level in LEVELS[:repetitions]]
    result = compare(ours, sorting(count), process_time)
    return sorted_beside("best pair", f"m = n = {size:,}, {criterion}", result, count)


def _memory(size: int) -> Row:
    peak = peak_memory(PROGRAM.format(size=size))
    return memory(
        "peak memory of that process", f"m = n = {size:,}, marginal", peak, MEMORY_LIMIT
    )
