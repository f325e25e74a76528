"""A calibration round on Flower beside the engine's own floor, and beside sending all scores."""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks._flower_processes import end_processes, load_deploy
from benchmarks._timing import Row, duration

SITES = (10, 100, 1000)
POINTS = 1000
GOAL_TIME, GOAL_BYTES = 1.2, 2048
APP = Path(__file__).parent / "flower_app"


deploy = load_deploy()


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
        (Path(folder) / "flwr").mkdir()
        output = Path(folder) / "result.json"
        command = ["flwr", "run", str(APP), "--stream", "--federation-config"]
        settings = f'sites={sites} points={POINTS} repetitions={9 if sites < 1000 else 5} output="{output}"'
        try:
            done = subprocess.run(
                [*command, f"num-supernodes={sites}", "--run-config", settings],
                env=deploy.environment(folder),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=900,
                check=True,
            )
        finally:
            end_processes(Path(folder))
        if not output.exists():
            raise RuntimeError(f"the simulation gave no result:\n{done.stdout[-3000:]}")
        result: dict[str, dict[str, list[float]]] = json.loads(output.read_text())
        return result
