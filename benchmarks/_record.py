"""A run as a file: the machine, and for every section its rows, the commit, the date
and the load.
"""

import json
import math
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import fedconformal
from benchmarks._rows import Row, row_from

FORMAT = 1
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Machine:
    """What figures of two runs must have in common to be compared without a second
    thought.
    """

    python: str
    numpy: str
    scipy: str
    system: str
    cpu_count: int

    def __str__(self) -> str:
        packages = f"Python {self.python}, numpy {self.numpy}, scipy {self.scipy}"
        return f"{packages}; {self.system}, {self.cpu_count} cores"


@dataclass(frozen=True)
class Section:
    """The rows of one section, and when and how they were taken.

    `load` is how many processes wanted a core, on average over the minute before the
    section and over its last minute, its own included. `left_out` says in words what a
    short run leaves out.
    """

    rows: tuple[Row, ...]
    version: str
    commit: str
    date: str
    seconds: float
    load: tuple[float, float]
    left_out: str = ""


@dataclass(frozen=True)
class Record:
    """The sections that were run on one machine."""

    machine: Machine
    sections: dict[str, Section]

    def with_section(self, name: str, section: Section) -> "Record":
        """It with a section taken, or taken anew."""
        return replace(self, sections={**self.sections, name: section})

    def to_json(self) -> str:
        """Strict JSON, a row on every line, so that a difference of two files can be
        read.
        """
        head = json.dumps({"format": FORMAT, "machine": asdict(self.machine)}, indent=1)
        sections = ",\n".join(
            f"  {json.dumps(name)}: {_text(one)}" for name, one in self.sections.items()
        )
        return (
            f'{head.removesuffix("}").rstrip()},\n "sections": {{\n{sections}\n'
            " }\n}\n"
        )


def _text(section: Section) -> str:
    given = _finite(asdict(section))
    rows = ",\n".join(
        f"    {json.dumps(row, allow_nan=False)}" for row in given.pop("rows")
    )
    head = json.dumps(given, allow_nan=False)
    return f'{head.removesuffix("}")}, "rows": [\n{rows}\n   ]}}'


def _finite(given: Any) -> Any:
    """JSON knows no infinity and no nan: there is no number then."""
    if isinstance(given, dict):
        return {name: _finite(value) for name, value in given.items()}
    if isinstance(given, list | tuple):
        return [_finite(value) for value in given]
    return None if isinstance(given, float) and not math.isfinite(given) else given


def read(path: Path) -> Record:
    """A record from its file; a ValueError says what is wrong with it."""
    try:
        given = json.loads(path.read_text())
        if given["format"] != FORMAT:
            raise ValueError(f"its format is {given['format']!r}, {FORMAT} is known")
        sections = {name: _section(one) for name, one in given["sections"].items()}
        return Record(Machine(**given["machine"]), sections)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no file of benchmarks: {error}") from error


def _section(given: dict[str, Any]) -> Section:
    rows = tuple(row_from(row) for row in given["rows"])
    return Section(**{**given, "rows": rows, "load": tuple(given["load"])})


def section_of(
    rows: tuple[Row, ...],
    *,
    seconds: float,
    load: tuple[float, float],
    left_out: str = "",
) -> Section:
    """A section that was just taken; its rows must be told apart by name and
    setting.
    """
    keys = [(row.name, row.setting) for row in rows]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ValueError(f"two rows of one name and setting: {', '.join(twice[0])}")
    return Section(
        rows=rows,
        version=fedconformal.__version__,
        commit=commit(),
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(seconds, 1),
        load=(round(load[0], 1), round(load[1], 1)),
        left_out=left_out,
    )


def this_machine() -> Machine:
    """The machine and the packages that are used."""
    return Machine(
        python=platform.python_version(),
        numpy=import_module("numpy").__version__,
        scipy=import_module("scipy").__version__,
        system=f"{platform.system()} {platform.machine()}",
        cpu_count=os.cpu_count() or 1,
    )


def load_average() -> float:
    """Over the last minute; 0 where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


@cache
def commit() -> str:
    """The commit when first asked, with a + if something was changed; empty where this
    is no repository.
    """
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--dirty=+"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
