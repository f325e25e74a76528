"""Flower's processes, for benchmarks and tests: the example's own script, and ending what was started."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
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
    """Variables of Flower's commands; simulations in this folder have a SuperLink on a port of their own."""
    deploy, port = load_deploy(), home / "flwr" / "port"
    if not port.exists():
        port.parent.mkdir(exist_ok=True)
        port.write_text(str(deploy.free_port()))
    return {**deploy.environment(home), "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": port.read_text()}


def simulate(app: Path, home: Path, sites: int, /, *, timeout: float, **configuration: Any) -> str:
    """Run an app with so many simulated sites, Flower's files in the folder `home`; what was printed.

    What else is given is the configuration of the run, of whatever names.
    """
    settings = " ".join(f"{field}={json.dumps(value)}" for field, value in configuration.items())
    command = ["flwr", "run", str(app), "--stream", "--federation-config", f"num-supernodes={sites}"]
    return subprocess.run(
        [*command, "--run-config", settings],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=True,
    ).stdout


def end_processes(folder: Path) -> None:
    """Kill by number whatever runs with Flower's files, or a proxy's number, in this folder or below.

    `flwr run` leaves its local SuperLink running, in a session of its own.
    """
    mark = f"FLWR_HOME={folder}/".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(line.startswith(mark) for line in (entry / "environ").read_bytes().split(b"\0")):
                os.kill(int(entry.name), signal.SIGKILL)
    for file in folder.rglob("proxy.pid"):
        with contextlib.suppress(OSError, ValueError):
            os.killpg(int(file.read_text()), signal.SIGKILL)
