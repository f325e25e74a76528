"""What weighted votes and several numbers cost to plan, against sorting and against the plain case."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

import fedconformal as fc
from benchmarks._timing import Comparison, Row, compare, duration, seconds, sorting, summarise

EQUAL = ((10, 100), (100, 1000))
# How many sites of different sizes, how many floats are sorted beside, and the ratio to stay below.
UNEVEN = ((20, 10**7, 0.5), (100, 10**7, 1.5))
CRITERIA = ("stable", "marginal", "conditional")
SMALLEST = 50
LONGER = 5.0  # with faulty sites, or with five numbers instead of one
FAULTY, NUMBERS = 3, 5
LEVELS = (0.9, 0.8999, 0.9001, 0.8998, 0.9002)

Planning = partial[fc.Plan]


def run(
    *,
    equal: Sequence[tuple[int, int]] = EQUAL,
    uneven: Sequence[tuple[int, int, float]] = UNEVEN,
    many: int = 1000,
    count: int = 10**8,
    repetitions: int = 3,
) -> Iterator[Row]:
    """Equal sites as the base; then sites of different sizes, faulty ones, and several numbers."""
    fc.plan(n_points=_sizes(3), numbers=2)  # loads what it needs
    for m, n in equal:
        yield _base(m, n, repetitions)
    for sites, floats, goal in uneven:
        anchor = sorting(floats)
        result = compare([_planning(sites, shift) for shift in range(repetitions)], anchor)
        yield _row(f"{sites} sites of different sizes", result, f"numpy.sort of {floats:,} floats", goal)
    anchor = sorting(count)
    for criterion in CRITERIA:
        ours = [_planning(many, shift, criterion=criterion) for shift in range(repetitions)]
        what = f"{many:,} sites of different sizes, {criterion}"
        yield _row(what, compare(ours, anchor), f"numpy.sort of {count:,} floats", 1.0)
    for criterion in CRITERIA:
        yield _longer(many, repetitions, criterion=criterion, max_faulty=FAULTY)
    for sites, _, _ in uneven:
        yield _longer(sites, repetitions, numbers=NUMBERS)


def _base(m: int, n: int, repetitions: int) -> Row:
    """Equal sites that send one number: the paper's setting, searched exhaustively."""
    one = [partial(fc.plan, m, n, confidence_level=level) for level in LEVELS[:repetitions]]
    result = summarise([(seconds(partial(each, numbers=NUMBERS)), seconds(each)) for each in one])
    return Row(
        what=f"{m} equal sites of {n:,}, {NUMBERS} numbers",
        ours=duration(result.ours),
        anchor=f"{duration(result.anchor)} (one number)",
        ratio=f"{result.ratio:.3g}",
    )


def _longer(sites: int, repetitions: int, *, criterion: str = "stable", **wishes: int) -> Row:
    """The same federations with a further wish and without, next to each other."""
    plain = [_planning(sites, shift, criterion=criterion) for shift in range(repetitions)]
    pairs = [(seconds(partial(each, **wishes)), seconds(each)) for each in plain]
    words = ", ".join(f"{name}={value}" for name, value in wishes.items())
    return _row(f"{sites:,} sites, {criterion}, {words}", summarise(pairs), "without", LONGER)


def _planning(sites: int, shift: int, *, criterion: str = "stable") -> Planning:
    """The federations of the repetitions differ by one point per site: no cache answers for us."""
    return partial(fc.plan, n_points=_sizes(sites, shift), criterion=criterion)


def _row(what: str, result: Comparison, anchor: str, goal: float) -> Row:
    return Row(
        what=what,
        ours=duration(result.ours),
        anchor=f"{duration(result.anchor)} ({anchor})",
        ratio=f"{result.ratio:.3g}",
        goal=f"<= {goal:g}",
        met=result.ratio <= goal,
    )


def _sizes(n_sites: int, shift: int = 0) -> list[int]:
    """All different, and about log-uniform: the largest is a hundred times as large as the smallest."""
    rng = np.random.default_rng(n_sites)
    drawn = np.sort(np.exp(rng.uniform(np.log(SMALLEST), np.log(100 * SMALLEST), n_sites)).astype(np.int64))
    different = np.maximum.accumulate(drawn - np.arange(n_sites)) + np.arange(n_sites) + shift
    return [int(size) for size in rng.permutation(different)]
