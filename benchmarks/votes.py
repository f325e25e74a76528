"""What weighted votes, several numbers and faulty sites cost to plan, against sorting
and the plain case.

Nothing else plans for these, so the yardsticks are a `numpy.sort` of ten or a hundred
million floats, and the same federation without the wish. Goals: 20 sites in one sort,
and in five with three numbers; a thousand in one of the long sort; faulty sites in at
most five times the plain case. Planning and sorting wait for nothing, so the time of
the processor is taken: others may use the machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from time import process_time

import numpy as np

import fedconformal as fc
from benchmarks._rows import Row, sorted_beside, timed
from benchmarks._timing import compare, seconds, sorting, summarise

EQUAL = ((10, 100), (100, 1000))
# How many sites of different sizes, how many numbers each, and how many sorts that may
# take.
UNEVEN = ((20, 1, 1.0), (20, 3, 5.0))
# Few sites of different sizes, so that every choice of faulty ones is looked at, and
# how many numbers.
FEW = ((8, 1), (8, 3))
CRITERIA = ("stable", "marginal", "conditional")
PLAIN = "plan, sites of different sizes"
SMALLEST = 50
LONGER = 5.0  # with faulty sites
FAULTY, NUMBERS = 3, 5
LEVELS = (0.9, 0.8999, 0.9001, 0.8998, 0.9002)

Planning = partial[fc.Plan]

_shifts = count()


def run(
    *,
    equal: Sequence[tuple[int, int]] = EQUAL,
    uneven: Sequence[tuple[int, int, float]] = UNEVEN,
    fewer: int = 10**7,
    few: Sequence[tuple[int, int]] = FEW,
    many: int = 1000,
    floats: int = 10**8,
    repetitions: int = 3,
) -> Iterator[Row]:
    """Equal sites as the base; then sites of different sizes, faulty ones, and several
    numbers.
    """
    fc.plan(n_points=_sizes(3), numbers=2)  # loads what it needs
    for m, n in equal:
        yield _base(m, n, repetitions)
    for sites, numbers, goal in uneven:
        ours = [_planning(sites, numbers=numbers) for _ in range(repetitions)]
        result = compare(ours, sorting(fewer), process_time)
        sent = "one number" if numbers == 1 else f"{numbers} numbers"
        yield sorted_beside(
            PLAIN, f"{sites} sites, {sent}, stable", result, fewer, goal=goal
        )
    yardstick = sorting(floats)
    for criterion in CRITERIA:
        ours = [_planning(many, criterion=criterion) for _ in range(repetitions)]
        result = compare(ours, yardstick, process_time)
        yield sorted_beside(PLAIN, f"{many:,} sites, {criterion}", result, floats)
    for sites, numbers in few:
        yield _longer(
            sites, repetitions, numbers=numbers, wishes={"max_faulty": FAULTY}
        )
    for sites in (*dict.fromkeys(sites for sites, _, _ in uneven), many):
        for criterion in CRITERIA:
            yield _longer(
                sites, repetitions, criterion=criterion, wishes={"max_faulty": FAULTY}
            )


def _base(m: int, n: int, repetitions: int) -> Row:
    """Equal sites that send one number: the paper's setting, searched exhaustively."""
    one = [
        partial(fc.plan, m, n, confidence_level=level) for level in LEVELS[:repetitions]
    ]
    pairs = [(_seconds(partial(each, numbers=NUMBERS)), _seconds(each)) for each in one]
    return timed(
        f"plan, numbers={NUMBERS}",
        f"{m} equal sites of {n:,}",
        summarise(pairs),
        "one number",
    )


def _longer(
    sites: int,
    repetitions: int,
    *,
    criterion: str = "stable",
    numbers: int = 1,
    wishes: Mapping[str, int],
) -> Row:
    """The same federations with a further wish and without, next to each other."""
    plain = [
        _planning(sites, criterion=criterion, numbers=numbers)
        for _ in range(repetitions)
    ]
    pairs = [(_seconds(partial(each, **wishes)), _seconds(each)) for each in plain]
    words = ", ".join(f"{name}={value}" for name, value in wishes.items())
    sent = "" if numbers == 1 else f" with {numbers} numbers"
    setting = f"{sites:,} sites of different sizes{sent}, {criterion}"
    return timed(f"plan, {words}", setting, summarise(pairs), "without", goal=LONGER)


def _planning(sites: int, *, criterion: str = "stable", numbers: int = 1) -> Planning:
    """Each federation has a point per site more than the one before: no cache answers
    for us.
    """
    return partial(
        fc.plan,
        n_points=_sizes(sites, next(_shifts)),
        criterion=criterion,
        numbers=numbers,
    )


def _seconds(plan: Planning) -> float:
    return seconds(plan, process_time)


def _sizes(n_sites: int, shift: int = 0) -> list[int]:
    """All different, and about log-uniform: the largest is a hundred times as large as
    the smallest.
    """
    rng = np.random.default_rng(n_sites)
    drawn = np.sort(
        np.exp(rng.uniform(np.log(SMALLEST), np.log(100 * SMALLEST), n_sites)).astype(
            np.int64
        )
    )
    different = (
        np.maximum.accumulate(drawn - np.arange(n_sites)) + np.arange(n_sites) + shift
    )
    return [int(size) for size in rng.permutation(different)]
