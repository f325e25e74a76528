"""A calibration round on Flower, against the engine's own floor, and against sending
all scores.

The floor is a query for one float to a client app that does not import the package, the
least that any round on Flower costs; sending all scores is what one would do where they
may leave a site. Runs of both apps take turns, and each counts with the median of its
rounds. Goals: at most 1.2 times the floor, deployed with TLS 1.1 times, and at most
2,048 bytes from each site.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._engines import GOAL_BYTES, Rounds, engine_rows, measured, write_masked
from benchmarks._flower_processes import end_processes, load_deploy, simulate
from benchmarks._rows import Row

__all__ = ["APP", "GOAL_BYTES", "run"]

SITES, DEPLOYED, GOAL_DEPLOYED = (10, 100, 1000), (4,), 1.1
SHORT, LEFT_OUT = {"sites": (10, 100)}, "1,000 simulated sites"
APP = Path(__file__).parent / "flower_app"

Start = Callable[[Path, Mapping[str, Any]], str]
"""Runs an app with a configuration; what was printed."""


def run(
    *,
    sites: Sequence[int] = SITES,
    deployed: Sequence[int] = DEPLOYED,
    points: int = 1000,
    turns: int = 5,
    repetitions: int = 5,
    simulate: Callable[..., str] = simulate,
) -> Iterator[Row]:
    """Federations of so many sites, simulated and deployed; turns of both apps, with
    rounds in each.
    """
    settings, floor = (
        {"points": points, "repetitions": repetitions},
        "a query for one float",
    )
    for m in sites:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            start = partial(_simulate, simulate, home, m)
            try:
                rounds = _take_turns(home, start, turns, {**settings, "sites": m})
            finally:
                end_processes(home)
        yield from engine_rows(m, points, rounds, floor=floor)
    for m in deployed:
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            federation = stack.enter_context(
                load_deploy().Deployment(home / "federation")
            )
            federation.start_server()
            for number in range(m):
                federation.add_site(f"site-{number}", **{"partition-id": number})
            rounds = _take_turns(
                home, partial(_deploy, federation), turns, {**settings, "sites": m}
            )
        yield from engine_rows(
            m, points, rounds, floor=floor, kind="deployed", goal=GOAL_DEPLOYED
        )


def _simulate(
    simulate: Callable[..., str],
    home: Path,
    sites: int,
    app: Path,
    config: Mapping[str, Any],
) -> str:
    return simulate(app, home, sites, timeout=900, **config)


def _deploy(federation: Any, app: Path, config: Mapping[str, Any]) -> str:
    printed: str = federation.run(app, **config)
    return printed


def _take_turns(
    home: Path, start: Start, turns: int, settings: Mapping[str, Any]
) -> Rounds:
    """Run both apps by turns; for each kind of round the median seconds of every run.

    Masked counts stand beside the same counts without masks, from sites with keys and
    policies.
    """
    bare = home / "bare"
    shutil.copytree(APP, bare, ignore=shutil.ignore_patterns("__pycache__"))
    project = (bare / "pyproject.toml").read_text()
    (bare / "pyproject.toml").write_text(
        project.replace("client_app:app", "bare_app:app")
    )
    rounds: dict[str, dict[str, Any]] = {}
    for turn in range(turns):
        for app, kinds in (
            (APP, "ours"),
            (bare, "floor everything"),
            (APP, "counts masked"),
        ):
            config = {**settings, "kinds": kinds}
            if kinds == "counts masked":
                config["masked"] = str(home / f"masked-{turn}")
                sites = [f"site-{number}" for number in range(settings["sites"])]
                write_masked(
                    Path(config["masked"]),
                    sites,
                    settings["points"],
                    settings["repetitions"] + 1,
                )
            taken = measured(
                lambda _, output, a=app, c=config: start(
                    a, {**c, "output": str(output)}
                )
            )
            for kind, each in taken.items():
                kept = rounds.setdefault(kind, {"seconds": [], "bytes": each["bytes"]})
                kept["seconds"].append(median(each["seconds"]))
    return rounds
