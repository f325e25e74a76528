"""The page of the documentation, from a record and from what the sections say about themselves."""

import ast
import re
from collections.abc import Iterator, Mapping

from benchmarks._record import ROOT, Record, Section
from benchmarks._rows import HEADINGS
from benchmarks._timing import duration

HEAD = """\
# Benchmarks

Every figure stands beside a yardstick: what you would use instead, or what you would wait for anyway. A ratio
is ours over the yardstick's, so less is better, and machines matter less than in seconds. Both are timed by
turns, and the ratio is the median over the pairs. What misses its goal says **no**.

`make bench-page` made this page from `docs/benchmarks.json`. Figures of your own, and two commits side by
side (`make` itself takes no `--json`, hence the variable):

    make bench JSON=new.json            # or: python -m benchmarks --json new.json [section ...]
    python -m benchmarks compare old.json new.json

The comparison shows the change of every ratio and marks what moved beyond noise. The range of a ratio holds
those of all its repetitions and a twentieth more at both ends (half as much again for what was timed once, a
thousandth where there is no clock); it moved if the two ranges do not touch.
"""
BUSY = """\
Other work shared the {cores} cores: the load average, given for each section, is how many processes wanted a
core on average in the minute before it began and in its last minute, itself included. Where it is above
{cores}, times vary by tens of per cent, what runs in threads gains nothing from them, and a figure near its
goal may fall on either side of it.
"""


def page(record: Record, modules: Mapping[str, str]) -> str:
    """Every section that there is, run or not."""
    busy = f"Taken with {record.machine}. {BUSY.format(cores=record.machine.cpu_count)}"
    sections = [_section(name, module, record.sections.get(name)) for name, module in modules.items()]
    return "\n".join([HEAD, busy, _summary(record, modules), *sections])


def _summary(record: Record, modules: Mapping[str, str]) -> str:
    rows = [(name, row) for name, section in record.sections.items() for row in section.rows]
    asked = [(name, row) for name, row in rows if row.met is not None]
    missed = [
        f"- [{name}](#{_anchor(_title(name, modules[name]))}): {row.name}, {row.setting}"
        for name, row in asked
        if not row.met
    ]
    said = f"Goals met: {len(asked) - len(missed)} of {len(asked)}."
    return "\n".join([f"{said} Missed:\n", *missed, ""] if missed else [said, ""])


def _section(name: str, module: str, section: Section | None) -> str:
    parts = [f"## {_title(name, module)}", docstring(module).partition("\n\n")[2]]
    if section is None:
        parts += [f"Not run for this page: `python -m benchmarks {name}` runs it."]
    else:
        parts += [_taken(section), "\n".join(_table(section))]
    return "\n\n".join(parts) + "\n"


def _title(name: str, module: str) -> str:
    first = docstring(module).splitlines()[0]
    return f"{first.removesuffix('.')} (`{name}`)"


def _anchor(title: str) -> str:
    """Of a heading, as GitHub and the site have it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def docstring(module: str) -> str:
    """Of a module that is not loaded: it may need what is not installed."""
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return ast.get_docstring(ast.parse(file.read_text())) or ""


def _taken(section: Section) -> str:
    before, last = section.load
    at = f"{section.date} (version {section.version}, commit `{section.commit}`)"
    load = f"load average {before:g} before and {last:g} at the end"
    said = f"Taken on {at} in {duration(section.seconds)}, {load}."
    return f"{said} Not run: {section.left_out}." if section.left_out else said


def _table(section: Section) -> Iterator[str]:
    yield f"| {' | '.join(HEADINGS)} |"
    yield "| --- " * len(HEADINGS) + "|"
    for row in section.rows:
        *cells, met = row.cells
        line = f"| {' | '.join([*cells, '**no**' if row.met is False else met])} |"
        yield line.replace("<=", "≤").replace(">=", "≥").replace("+-", "±")
