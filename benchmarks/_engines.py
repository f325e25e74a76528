"""A calibration round on an engine beside two others by turns: one float, and all scores."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks._timing import Row, duration, summarise

GOAL_TIME, GOAL_BYTES = 1.2, 2048

Rounds = Mapping[str, Mapping[str, Any]]
"""For each kind of round the seconds of every repetition, and the bytes per site."""


def measured(simulate: Callable[[Path, Path], str]) -> Rounds:
    """What a simulation wrote to its output; it is given a folder and that file."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        output = home / "result.json"
        printed = simulate(home, output)
        if not output.exists():
            raise RuntimeError(f"the simulation gave no result:\n{printed[-3000:]}")
        rounds: Rounds = json.loads(output.read_text())
        return rounds


def engine_rows(sites: int, points: int, rounds: Rounds, *, floor: str) -> Iterator[Row]:
    """The time beside both anchors, and what travelled."""
    what = f"calibration round, {sites} simulated sites"
    yield _time_row(what, rounds, "floor", floor, goal=GOAL_TIME)
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
