"""A calibration round on an engine beside two others by turns: one float, and all scores."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks._rows import Figure, Row, beside, timed
from benchmarks._timing import summarise

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


def engine_rows(
    sites: int, points: int, rounds: Rounds, *, floor: str, kind: str = "simulated", goal: float = GOAL_TIME
) -> Iterator[Row]:
    """The time beside both yardsticks, and what travelled."""
    setting = f"{sites} {kind} sites"
    yield _time_row("calibration round, beside the floor", setting, rounds, "floor", floor, goal=goal)
    everything = f"all {points} scores"
    yield _time_row("calibration round, beside sending all", setting, rounds, "everything", everything)
    weight = {name: found["bytes"] for name, found in rounds.items()}
    yield beside(
        "message per site",
        setting,
        Figure(weight["ours"], "bytes"),
        Figure(weight["everything"], "bytes", f"{everything}; one float {weight['floor']:.0f}"),
        goal=f"{GOAL_BYTES:,} bytes",
        met=weight["ours"] <= GOAL_BYTES,
    )


def _time_row(
    name: str, setting: str, rounds: Rounds, yardstick: str, words: str, *, goal: float | None = None
) -> Row:
    # By turns in one run: the ratio of neighbours forgives what the machine does beside.
    pairs = zip(rounds["ours"]["seconds"], rounds[yardstick]["seconds"], strict=True)
    return timed(name, setting, summarise(list(pairs)), words, goal=goal)
