"""python -m benchmarks [section ...] [--json FILE]: every figure with its yardstick
beside it, in one run.

python -m benchmarks compare OLD NEW: two such files side by side.
python -m benchmarks page FILE PAGE: the page of the documentation from such a file.

A section is a module with `run(...) -> Iterable[Row]`, named in SECTIONS; the arguments
of `run` are sizes, and their defaults those of a full run. A section may have SHORT,
arguments for a run of a few minutes, and LEFT_OUT, what that leaves out in words. Its
docstring says what is compared with what, and the goal. The exit code is 1 if a
required figure (accuracy) is not met or a section breaks down, else 0: a slow machine
is not an error.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter

from benchmarks._compare import compared
from benchmarks._page import page
from benchmarks._record import (
    Record,
    Section,
    commit,
    load_average,
    read,
    section_of,
    this_machine,
)
from benchmarks._rows import HEADINGS, columns
from benchmarks._timing import duration

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
    "risk": "benchmarks.risk",
    "start": "benchmarks.start",
    "collecting": "benchmarks.collecting",
    "watching": "benchmarks.watching",
    "private": "benchmarks.private",
    "masked": "benchmarks.masked",
    "flower": "benchmarks.flower",
    "nvflare": "benchmarks.nvflare",
    "planner": "benchmarks.planner",
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    commands = {"compare": _compare, "page": _page}
    if given and given[0] in commands:
        return commands[given[0]](given[1:])
    os.environ.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # timed processes keep compiled modules, as usual
    return _bench(given)


def _bench(given: Sequence[str]) -> int:
    parser = _parser(
        "",
        "Figures beside their yardsticks. Other commands: compare OLD NEW, page FILE"
        " PAGE.",
    )
    names = ", ".join(SECTIONS)
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"any of {names}; or all"
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the figures to a file; - is standard output",
    )
    parser.add_argument(
        "--keep", action="store_true", help="other sections that are in FILE stay"
    )
    parser.add_argument(
        "--short", action="store_true", help="leave out what takes many minutes"
    )
    options = parser.parse_args(given)
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(
            f"unknown section {', '.join(sorted(unknown))}; choose from {names}"
        )
    try:
        record = _begin(options)
    except ValueError as error:
        parser.error(str(error))
    return _run_all(options, record)


def _begin(options: argparse.Namespace) -> Record:
    """Nothing yet, or what is kept."""
    machine = this_machine()
    if not options.keep:
        return Record(machine, {})
    if options.json in {None, "-"}:
        raise ValueError("--keep needs --json with a file")
    record = read(Path(options.json))
    if record.machine != machine:
        raise ValueError(f"{options.json} is of another machine: {record.machine}")
    return record


def _run_all(options: argparse.Namespace, record: Record) -> int:
    shown = sys.stderr if options.json == "-" else sys.stdout
    print(record.machine, file=shown, flush=True)
    good = True
    for name in options.sections or SECTIONS:
        section = _run(name, short=options.short)
        print(f"\n{name} {_shown(section)}", file=shown, flush=True)
        if isinstance(section, str):
            good = False
            continue
        good = good and all(row.met for row in section.rows if row.required)
        record = record.with_section(name, section)
        if options.json not in {
            None,
            "-",
        }:  # after every section: who interrupts a long run keeps the rest
            Path(options.json).write_text(record.to_json())
    if options.json == "-":
        print(record.to_json(), end="")
    return 0 if good else 1


def _run(name: str, *, short: bool) -> Section | str:
    """One section; how it broke down, if it did."""
    commit()  # of the code that runs, whatever happens to the files meanwhile
    before, start = load_average(), perf_counter()
    try:
        module = import_module(SECTIONS[name])
        less = getattr(module, "SHORT", {}) if short else {}
        rows = tuple(module.run(**less))
        took, left_out = perf_counter() - start, module.LEFT_OUT if less else ""
        return section_of(
            rows, seconds=took, load=(before, load_average()), left_out=left_out
        )
    except Exception:
        return f"broke down\n{traceback.format_exc()}"


def _shown(section: Section | str) -> str:
    if isinstance(section, str):
        return section
    load = f"load {section.load[0]:g} to {section.load[1]:g}"
    return (
        f"({duration(section.seconds)},"
        f" {load})\n{columns(HEADINGS, [row.cells for row in section.rows])}"
    )


def _compare(given: Sequence[str]) -> int:
    parser = _parser(" compare", "Two files of figures side by side.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args(given)
    try:
        print(compared(read(options.old), read(options.new)))
    except ValueError as error:
        parser.error(str(error))
    return 0


def _page(given: Sequence[str]) -> int:
    parser = _parser(" page", "The page of the documentation from a file of figures.")
    parser.add_argument("file", type=Path)
    parser.add_argument("page", type=Path)
    options = parser.parse_args(given)
    try:
        options.page.write_text(page(read(options.file)))
    except ValueError as error:
        parser.error(str(error))
    return 0


def _parser(command: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks{command}", description=description
    )


if __name__ == "__main__":
    sys.exit(main())
