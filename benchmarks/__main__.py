"""python -m benchmarks [section ...]: every figure with its anchor beside it, in one run.

A section is a module with `run(...) -> Iterable[Row]`, named in SECTIONS; the arguments of `run` are sizes,
and their defaults those of a full run. The exit code is 1 if a required figure (accuracy) is not met or a
section breaks down, else 0: a slow machine is not an error.
"""

import argparse
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from time import perf_counter

from benchmarks._timing import Row, duration

SECTIONS = {
    "accuracy": "benchmarks.accuracy",
    "table": "benchmarks.table",
    "pair": "benchmarks.pair",
    "uneven": "benchmarks.uneven",
    "sharpness": "benchmarks.sharpness",
    "votes": "benchmarks.votes",
    "import": "benchmarks.importing",
    "selection": "benchmarks.selection",
    "sets": "benchmarks.sets",
    "arrays": "benchmarks.arrays",
    "start": "benchmarks.start",
    "slopes": "benchmarks.slopes",
    "private": "benchmarks.private",
    "flower": "benchmarks.flower",
    "nvflare": "benchmarks.nvflare",
    "planner": "benchmarks.planner",
}
HEADINGS = ("what", "ours", "anchor", "ratio", "goal", "met")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Figures beside their anchors.")
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"any of {', '.join(SECTIONS)}; or all"
    )
    chosen = parser.parse_args(arguments).sections or list(SECTIONS)
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"unknown section {', '.join(sorted(unknown))}; choose from {', '.join(SECTIONS)}")
    print(_machine(), flush=True)
    kept = [_run(name) for name in chosen]
    return 0 if all(kept) else 1


def _run(name: str) -> bool:
    """Run and print one section; whether everything it requires was met."""
    start = perf_counter()
    try:
        rows = list(import_module(SECTIONS[name]).run())
    except Exception:
        print(f"\n{name}: broke down\n{traceback.format_exc()}", flush=True)
        return False
    print(f"\n{name} ({duration(perf_counter() - start)})\n{_format(rows)}", flush=True)
    return all(row.met for row in rows if row.required)


def _format(rows: Sequence[Row]) -> str:
    cells = [HEADINGS, *((r.what, r.ours, r.anchor, r.ratio, r.goal, _verdict(r.met)) for r in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _verdict(met: bool | None) -> str:
    return {True: "yes", False: "NO", None: ""}[met]


def _machine() -> str:
    versions = ", ".join(f"{name} {import_module(name).__version__}" for name in ("numpy", "scipy"))
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"Python {platform.python_version()}, {versions}; {system}"


if __name__ == "__main__":
    sys.exit(main())
