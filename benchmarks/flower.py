"""A calibration round on Flower, against the engine's own floor, and against sending all scores.

The floor is a query for one float, the least that any round on Flower costs; sending all scores is what one
would do where they may leave a site. Goals: at most 1.2 times the floor, and at most 2,048 bytes from each
site.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks._engines import GOAL_BYTES, engine_rows, measured
from benchmarks._flower_processes import end_processes, simulate
from benchmarks._rows import Row

__all__ = ["APP", "GOAL_BYTES", "run"]

SITES = (10, 100, 1000)
SHORT, LEFT_OUT = {"sites": (10, 100)}, "1,000 simulated sites"
APP = Path(__file__).parent / "flower_app"


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
        settings = {"sites": m, "points": points, "repetitions": times}
        rounds = measured(lambda home, output, s=settings: _simulated(simulate, home, output, s))
        yield from engine_rows(m, points, rounds, floor="a query for one float")


def _simulated(simulate: Callable[..., str], home: Path, output: Path, settings: dict[str, Any]) -> str:
    try:
        return simulate(APP, home, settings["sites"], timeout=900, **settings, output=str(output))
    finally:
        end_processes(home)
