"""Flower's processes, for benchmarks and tests: the example's own script, and ending
what was started.
"""

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any


def load_deploy() -> Any:
    """The module examples/flower/deploy.py."""
    path = Path(__file__).parent.parent / "examples" / "flower" / "deploy.py"
    spec = importlib.util.spec_from_file_location("deploy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def environment(home: Path) -> dict[str, str]:
    """Variables of Flower's commands; simulations in this folder have a SuperLink on a
    port of their own.
    """
    deploy, port = load_deploy(), home / "flwr" / "port"
    if not port.exists():
        port.parent.mkdir(exist_ok=True)
        port.write_text(str(deploy.free_port()))
    return {
        **deploy.environment(home),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": port.read_text(),
    }


def simulate(
    app: Path, home: Path, sites: int, /, *, timeout: float, **configuration: Any
) -> str:
    """Run an app with so many simulated sites, Flower's files in the folder `home`;
    what was printed.

    What else is given is the configuration of the run, of whatever names.
    """
    settings = " ".join(
        f"{field}={json.dumps(value)}" for field, value in configuration.items()
    )
    command = [
        "flwr",
        "run",
        str(app),
        "--stream",
        "--federation-config",
        f"num-supernodes={sites}",
    ]
    return run_to_the_end([*command, "--run-config", settings], home, timeout=timeout)


def run_to_the_end(
    command: Sequence[str], home: Path, *, timeout: float, **options: Any
) -> str:
    """Run a command; what was printed, of a `flwr run` with the last lines, which its
    stream may lose.
    """
    given = {"env": environment(home), "stdin": subprocess.DEVNULL, **options}
    run = partial(
        subprocess.run,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=True,
        **given,
    )
    streamed = run(command).stdout
    started = re.search(r"started run (\d+)", streamed)
    if started is None or "flwr run" not in " ".join(command):
        return streamed
    return streamed + run(["flwr", "log", started[1], "--show"]).stdout


def end_processes(folder: Path) -> None:
    """Kill by number whatever runs with Flower's files, or a proxy's number, in this
    folder or below.

    `flwr run` leaves its local SuperLink running, in a session of its own.
    """
    mark = f"FLWR_HOME={folder}/".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(
                line.startswith(mark)
                for line in (entry / "environ").read_bytes().split(b"\0")
            ):
                os.kill(int(entry.name), signal.SIGKILL)
    for file in folder.rglob("proxy.pid"):
        with contextlib.suppress(OSError, ValueError):
            os.killpg(int(file.read_text()), signal.SIGKILL)
