"""How close plans come to pooling all scores: one to nine numbers per site, even and uneven federations."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import fedconformal as fc
from benchmarks._timing import Row

LEVEL = 0.9
DELTA = 0.1
NUMBERS = (1, 2, 3, 5, 9)
FEDERATIONS: dict[str, tuple[int, ...]] = {
    "10 x 100": (100,) * 10,
    "50 x 20": (20,) * 50,
    "120, 40, 377, 88": (120, 40, 377, 88),
    "20, 200": (20, 200),
    "4 x 30 and 300": (30,) * 4 + (300,),
    "10 x 50 and 1000": (50,) * 10 + (1000,),
    "20 sizes": (
        22,
        37,
        38,
        51,
        66,
        80,
        84,
        91,
        128,
        131,
        140,
        161,
        211,
        238,
        251,
        642,
        754,
        904,
        1578,
        1592,
    ),
}
EVEN, UNEVEN, MANY_SIZES = 1.30, 1.20, 1.26  # goals for one number
GOALS = {2: 1.11, 3: 1.07, 5: 1.03, 9: 1.015}
EXCESS = 0.002  # of mean coverage over that of pooled scores, with three numbers


def run(
    *,
    federations: Mapping[str, Sequence[int]] = FEDERATIONS,
    numbers: Sequence[int] = NUMBERS,
    conditional: int = 3,
) -> Iterator[Row]:
    """The spread round the level over that of pooled scores; then the excess of a conditional promise."""
    for name, sizes in federations.items():
        yield from (_spread(name, sizes, r) for r in numbers)
    for name, sizes in federations.items():
        yield _excess(name, sizes, conditional)


def _spread(name: str, sizes: Sequence[int], numbers: int) -> Row:
    pooled = _pooled(sum(sizes)).std()
    ours = _error(fc.plan(n_points=sizes, numbers=numbers).law) / pooled
    alone = _error(fc.plan(1, max(sizes)).law) / pooled
    goal = GOALS.get(numbers, _goal_of_one(sizes))
    return Row(
        what=f"{name}, {_counted(numbers)}: spread over that of pooled scores",
        ours=f"{ours:.4f}",
        anchor=f"{alone:.3f} (largest site alone)",
        ratio=f"{ours / alone:.3f}",
        goal=f"<= {goal:g}",
        met=ours <= goal,
    )


def _excess(name: str, sizes: Sequence[int], numbers: int) -> Row:
    """How much more is covered on average than with pooled scores, with the same certainty."""
    conditional = partial(fc.plan, criterion="conditional", delta=DELTA)
    ours = conditional(n_points=sizes, numbers=numbers).law.mean()
    pooled = conditional(1, sum(sizes)).law.mean()
    return Row(
        what=f"{name}, {_counted(numbers)}, conditional: mean coverage",
        ours=f"{ours:.5f}",
        anchor=f"{pooled:.5f} (pooled scores)",
        ratio=f"{ours - pooled:+.5f}",
        goal=f"<= {EXCESS:g} more",
        met=ours - pooled <= EXCESS,
    )


def _pooled(n: int) -> fc.CoverageLaw:
    """The law of split conformal prediction with all scores in one place."""
    law: fc.CoverageLaw = fc.plan(1, n, criterion="marginal").law
    return law


def _error(law: fc.CoverageLaw) -> float:
    """The root of the mean squared distance of the coverage from the level."""
    return math.sqrt(law.var() + (law.mean() - LEVEL) ** 2)


def _goal_of_one(sizes: Sequence[int]) -> float:
    if len(set(sizes)) == 1:
        return EVEN
    return MANY_SIZES if len(set(sizes)) > 5 else UNEVEN


def _counted(numbers: int) -> str:
    return f"{numbers} number{'s' if numbers > 1 else ''}"
