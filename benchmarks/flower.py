"""A calibration round on Flower beside the engine's own floor, and beside sending all scores."""

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks._flower_processes import end_processes, simulate
from benchmarks._timing import Row, duration

SITES = (10, 100, 1000)
POINTS = 1000
GOAL_TIME, GOAL_BYTES = 1.2, 2048
APP = Path(__file__).parent / "flower_app"


def run() -> Iterator[Row]:
    for sites in SITES:
        result = _simulate(sites)
        ours = statistics.median(result["ours"]["seconds"])
        for anchor, words in (("floor", "a query for one float"), ("everything", f"all {POINTS} scores")):
            # By turns in one run: the ratio of neighbours forgives what the machine does beside.
            pairs = zip(result["ours"]["seconds"], result[anchor]["seconds"], strict=True)
            ratio = statistics.median(mine / other for mine, other in pairs)
            goal = anchor == "floor"
            yield Row(
                what=f"calibration round, {sites} simulated sites",
                ours=duration(ours),
                anchor=f"{duration(statistics.median(result[anchor]['seconds']))} ({words})",
                ratio=f"{ratio:.2f}",
                goal=f"< {GOAL_TIME:g}" if goal else "",
                met=ratio < GOAL_TIME if goal else None,
            )
        weight = {name: result[name]["bytes"] for name in result}
        yield Row(
            what=f"bytes per site, {sites} simulated sites",
            ours=f"{weight['ours']:.0f}",
            anchor=f"{weight['floor']:.0f} (one float), {weight['everything']:.0f} (all scores)",
            ratio=f"{weight['ours'] / weight['everything']:.2f}",
            goal=f"<= {GOAL_BYTES} bytes",
            met=weight["ours"] <= GOAL_BYTES,
        )


def _simulate(sites: int) -> dict[str, dict[str, list[float]]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        output = home / "result.json"
        settings = {"sites": sites, "points": POINTS, "repetitions": 9 if sites < 1000 else 5}
        try:
            printed = simulate(APP, home, sites, timeout=900, **settings, output=str(output))
        finally:
            end_processes(home)
        if not output.exists():
            raise RuntimeError(f"the simulation gave no result:\n{printed[-3000:]}")
        result: dict[str, dict[str, list[float]]] = json.loads(output.read_text())
        return result
