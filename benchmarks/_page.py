"""The page of the documentation: for each figure the setting that comes closest to its
goal, or misses it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from benchmarks._record import Record
from benchmarks._rows import Row

HEAD = """\
# Benchmarks

This page compares the package with what you would use instead, or would wait for
anyway. A ratio is ours over that yardstick's, so less is better; times are taken in
turns, and a ratio is the median over the pairs. Each line shows the figure of a section
that comes closest to its goal; all others are in `docs/benchmarks.json`.

    make bench JSON=new.json            # or: python -m benchmarks --json new.json
    python -m benchmarks compare old.json new.json
    make bench-page                     # this page, from docs/benchmarks.json

The comparison marks what moved beyond noise.
"""
QUESTIONS = {
    "Accuracy of the distributions": ("accuracy",),
    "Distance from pooling all scores": ("sharpness", "private", "masked"),
    "Time to plan": ("table", "pair", "uneven", "votes", "planner"),
    "Time at a site, for a prediction and for a round": (
        "selection",
        "sets",
        "arrays",
        "risk",
        "import",
        "start",
        "collecting",
        "watching",
        "flower",
        "nvflare",
    ),
}
"""The sections that answer each question."""
COLUMNS = ("figure and setting", "ours", "yardstick", "ratio", "goal")


def page(record: Record) -> str:
    """Return the page: goals that were missed, then a table for each question."""
    rows = [
        (name, row) for name, section in record.sections.items() for row in section.rows
    ]
    missed = [(name, row, 1) for name, row in rows if row.met is False]
    n_goals = sum(row.met is not None for _, row in rows)
    parts = [HEAD, f"## Goals\n\n{n_goals - len(missed)} of {n_goals} goals are met."]
    if missed:
        parts[-1] += f" Missed:\n\n{_table(missed)}"
    for question, sections in QUESTIONS.items():
        lines = [
            line
            for name in sections
            if name in record.sections
            for line in _hardest(name, record)
        ]
        absent = [name for name in sections if name not in record.sections]
        parts.append(f"\n## {question}\n\n{_table(lines)}")
        if absent:
            parts[-1] += (
                f"\nNot run for this page: `python -m benchmarks {' '.join(absent)}`."
            )
    return "\n".join([*parts, f"\n## Conditions\n\n{_conditions(record)}", ""])


def _hardest(name: str, record: Record) -> list[tuple[str, Row, int]]:
    """Return for each unit of a section the met goal that is closest, and of how many
    rows.
    """
    by_unit: dict[str, list[Row]] = {}
    for row in record.sections[name].rows:
        if row.met:
            by_unit.setdefault(row.ours.unit, []).append(row)
    return [
        (name, max(rows, key=_share_of_goal), len(rows)) for rows in by_unit.values()
    ]


def _share_of_goal(row: Row) -> float:
    """Return how much of its goal a row uses up, roughly, for the choice of what is
    shown.
    """
    numbers = [
        float(text) for text in re.findall(r"\d[\d.]*", row.goal.replace(",", ""))
    ]
    value = row.ratio if row.goal.startswith("<=") else row.ours.value
    if not numbers or not value or not numbers[-1]:
        return 0.0
    return numbers[0] / value if row.goal.startswith(">") else value / numbers[-1]


def _table(lines: Sequence[tuple[str, Row, int]]) -> str:
    table = [" | ".join(COLUMNS), " | ".join(["---"] * len(COLUMNS))]
    for section, row, count in lines:
        name, setting, _, yardstick, ratio, goal, _ = row.cells
        others = f" (worst of {count})" if count > 1 else ""
        ours = str(replace(row.ours, words=""))
        table.append(
            " | ".join(
                [f"`{section}` {name}: {setting}{others}", ours, yardstick, ratio, goal]
            )
        )
    text = "".join(f"| {line} |\n" for line in table)
    return text.replace("<=", "≤").replace(">=", "≥").replace("+-", "±")


def _conditions(record: Record) -> str:
    dates = sorted(section.date for section in record.sections.values())
    short = [
        f"`{name}` without {section.left_out}"
        for name, section in record.sections.items()
        if section.left_out
    ]
    load = max((max(section.load) for section in record.sections.values()), default=0.0)
    span = f" between {dates[0]} and {dates[-1]}" if dates else ""
    run = f" Run in part: {', '.join(short)}." if short else ""
    return (
        f"Taken{span} with {record.machine}; the load average was at most {load:g}."
        f" Where it exceeds the number of cores, times vary by tens of per cent.{run}"
    )
