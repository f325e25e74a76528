"""A calibration round on Flower beside the engine's own floor, and beside sending all scores."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._flower_processes import end_processes, simulate
from benchmarks._timing import Row, duration, summarise

SITES = (10, 100, 1000)
GOAL_TIME, GOAL_BYTES = 1.2, 2048
APP = Path(__file__).parent / "flower_app"

Rounds = Mapping[str, Mapping[str, Any]]
"""For each kind of round the seconds of every repetition, and the bytes per site."""


def run(
    *,
    sites: Sequence[int] = SITES,
    points: int = 1000,
    repetitions: int | None = None,
    simulate: Callable[..., str] = simulate,
) -> Iterator[Row]:
    """Federations of so many sites; each kind of round 9 times, or 5 where there are many sites."""
    for m in sites:
        times = (9 if m < 1000 else 5) if repetitions is None else repetitions
        yield from _rows(m, points, _rounds(simulate, m, points, times))


def _rows(sites: int, points: int, rounds: Rounds) -> Iterator[Row]:
    what = f"calibration round, {sites} simulated sites"
    yield _time_row(what, rounds, "floor", "a query for one float", goal=GOAL_TIME)
    yield _time_row(what, rounds, "everything", f"all {points} scores")
    weight = {name: found["bytes"] for name, found in rounds.items()}
    yield Row(
        what=f"bytes per site, {sites} simulated sites",
        ours=f"{weight['ours']:.0f}",
        anchor=f"{weight['floor']:.0f} (one float), {weight['everything']:.0f} (all scores)",
        ratio=f"{weight['ours'] / weight['everything']:.2f}",
        goal=f"<= {GOAL_BYTES} bytes",
        met=weight["ours"] <= GOAL_BYTES,
    )


def _time_row(what: str, rounds: Rounds, anchor: str, words: str, *, goal: float | None = None) -> Row:
    # By turns in one run: the ratio of neighbours forgives what the machine does beside.
    pairs = zip(rounds["ours"]["seconds"], rounds[anchor]["seconds"], strict=True)
    result = summarise(list(pairs))
    return Row(
        what=what,
        ours=duration(result.ours),
        anchor=f"{duration(result.anchor)} ({words})",
        ratio=f"{result.ratio:.2f}",
        goal="" if goal is None else f"< {goal:g}",
        met=None if goal is None else result.ratio < goal,
    )


def _rounds(simulate: Callable[..., str], sites: int, points: int, repetitions: int) -> Rounds:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        output = home / "result.json"
        settings = {"sites": sites, "points": points, "repetitions": repetitions, "output": str(output)}
        try:
            printed = simulate(APP, home, sites, timeout=900, **settings)
        finally:
            end_processes(home)
        if not output.exists():
            raise RuntimeError(f"the simulation gave no result:\n{printed[-3000:]}")
        rounds: Rounds = json.loads(output.read_text())
        return rounds
