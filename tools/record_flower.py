"""Run the Flower example in simulation and keep what the gallery draws: ``make recording``.

Writes ``examples/gallery/flower_round.json``: the command, the calibration, and what every site saw of it.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RECORDING = ROOT / "examples" / "gallery" / "flower_round.json"
SITES = 10
COMMAND = f"flwr run examples/flower --stream --federation-config num-supernodes={SITES}"


def seen(printed: str) -> list[dict[str, Any]]:
    """What the sites saw, from the lines that the example prints."""
    rows = re.findall(r"^(\S+): ([\d.]+) of (\d+) new images covered$", printed, re.MULTILINE)
    return [{"site": site, "coverage": float(share), "n": int(n)} for site, share, n in rows]


def record(calibration: str, printed: str) -> str:
    """The text of the recording."""
    found = {"command": COMMAND, "calibration": json.loads(calibration), "checks": seen(printed)}
    return json.dumps(found, indent=1) + "\n"


def main() -> None:
    """Run the command with results and Flower's files in a temporary folder, and write the recording."""
    from benchmarks._flower_processes import end_processes, load_deploy

    with tempfile.TemporaryDirectory() as folder:
        home, output = Path(folder), Path(folder) / "results"
        (home / "flwr").mkdir()
        try:
            printed = subprocess.run(
                [*COMMAND.split(), "--run-config", f"output={json.dumps(str(output))}"],
                cwd=ROOT,
                env=load_deploy().environment(home),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        finally:
            end_processes(home)
        text = record((output / "calibration.json").read_text(), printed)
    if len(json.loads(text)["checks"]) != SITES:
        sys.exit(f"not every site answered:\n{printed}")
    RECORDING.write_text(text)


if __name__ == "__main__":
    main()
