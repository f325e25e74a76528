"""A whole round on plain arrays: one call against numpy's partition of every site's scores."""

from collections.abc import Iterator
from functools import partial

import numpy as np

import fedconformal as fc
from benchmarks._timing import Comparison, Row, duration, seconds, summarise

GOAL = 1.5


def run(*, sites: int = 100, scores: int = 100_000, repetitions: int = 15) -> Iterator[Row]:
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

    def anchor() -> None:
        for values in held.values():
            np.partition(values, place)

    pairs = [(seconds(partial(fc.conformalize, held, **wishes)), seconds(anchor)) for _ in range(repetitions)]
    yield _row(f"conformalize, {sites} sites x {scores:,} scores, sizes planned for before", summarise(pairs))
    yield Row(what="the same, ranks searched for the first time", ours=duration(first))


def _row(what: str, result: Comparison) -> Row:
    return Row(
        what=what,
        ours=duration(result.ours),
        anchor=f"{duration(result.anchor)} (numpy.partition at every site)",
        ratio=f"{result.ratio:.2f}",
        goal=f"<= {GOAL:g}",
        met=result.ratio <= GOAL,
    )
