"""A whole round on plain arrays, against selecting by hand.

`conformalize` beside what nobody can do without: a `numpy.partition` of every site's
scores. Goal: at most 1.5 times that, with checks, documents and the law of the
coverage.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

import fedconformal as fc
from benchmarks._rows import Figure, Row, timed
from benchmarks._timing import seconds, summarise

GOAL = 1.5


def run(
    *, sites: int = 100, scores: int = 100_000, repetitions: int = 15
) -> Iterator[Row]:
    """So many sites with so many scores each."""
    rng = np.random.default_rng(16)
    held = {f"site {j}": rng.random(scores) for j in range(sites)}
    wishes = {"criterion": "stable", "confidence_level": 0.9}
    first = seconds(partial(fc.conformalize, held, **wishes))
    found = fc.conformalize(held, **wishes)
    place = found.plan.local_ranks[0] - 1
    sent = sorted(float(np.partition(values, place)[place]) for values in held.values())
    if found.threshold != sent[found.server_rank - 1]:
        raise RuntimeError("the threshold is not the score that the votes are for")

    def yardstick() -> None:
        for values in held.values():
            np.partition(values, place)

    once = partial(fc.conformalize, held, **wishes)
    pairs = [(seconds(once), seconds(yardstick)) for _ in range(repetitions)]
    setting = f"{sites} sites x {scores:,} scores"
    words = "numpy.partition at every site"
    yield timed(
        "conformalize, sizes planned for before",
        setting,
        summarise(pairs),
        words,
        goal=GOAL,
    )
    yield Row(
        "conformalize, ranks searched for the first time", setting, Figure(first, "s")
    )
