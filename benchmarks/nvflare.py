"""A calibration round on NVIDIA FLARE, against the engine's own floor, and against
sending all scores.

The floor is a task for one float, the least that any round on FLARE costs, at sites
that do not import this package; sending all scores is what one would do where they may
leave a site. Every round is the first of a job of its own, by turns: what a site
imports counts. Goals: at most 1.1 times the floor, and at most 2,048 bytes from each
site.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._engines import engine_rows, measured, write_masked
from benchmarks._rows import Row

SITES, KINDS = (4, 20), ("ours", "floor", "everything", "counts", "masked")
GOAL_TIME = 1.1
APP = Path(__file__).parent / "nvflare_app"


def simulate(home: Path, *settings: str) -> str:
    """Run the job in FLARE's simulator, its files in a folder; what was printed."""
    return subprocess.run(
        [sys.executable, str(APP / "job.py"), str(home / "workspace"), *settings],
        cwd=APP,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    ).stdout


def run(
    *,
    sites: Sequence[int] = SITES,
    points: int = 1000,
    repetitions: int = 7,
    simulate: Callable[..., str] = simulate,
) -> Iterator[Row]:
    """Federations of so many sites; each kind of round so often."""
    for m in sites:
        rounds: dict[str, dict[str, Any]] = {kind: {"seconds": []} for kind in KINDS}
        for _ in range(repetitions):
            for kind, found in rounds.items():
                one = _measure(simulate, kind, str(m), str(points))
                found["seconds"].append(one["seconds"])
                found["bytes"] = one["bytes"]
        yield from engine_rows(
            m, points, rounds, floor="a task for one float", goal=GOAL_TIME
        )


def _prepare(home: Path, kind: str, sites: str, points: str) -> None:
    """Write the plan of a round of counts, and the keys and policies of its sites."""
    if kind in ("counts", "masked"):
        names = [f"site-{number}" for number in range(1, int(sites) + 1)]
        write_masked(home / "masked", names, int(points), 1)
        (home / "workspace" / "local").mkdir(parents=True)
        (home / "workspace" / "local" / "fedconformal.toml").write_text(
            f'signing_key = "{home}/masked/{{site}}.pem"\npolicy ='
            f' "{home}/masked/{{site}}.toml"\n'
        )


def _measure(simulate: Callable[..., str], *settings: str) -> Mapping[str, Any]:
    """One round; again if the simulator lost a site, as FLARE chooses ports that others
    may take first.
    """
    for attempt in range(3):
        printed = []

        def run_once(home: Path, output: Path, printed: list[str] = printed) -> str:
            _prepare(home, *settings)
            printed.append(simulate(home, *settings, str(output)))
            return printed[0]

        try:
            return measured(run_once)
        except RuntimeError:
            if attempt == 2 or "Communication error with client" not in printed[0]:
                raise
    raise AssertionError  # the third attempt has returned or raised
