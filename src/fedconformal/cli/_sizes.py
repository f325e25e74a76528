"""Who is asked, as people type it: numbers and names of sites, sizes, groups."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal._tables import Dialect, Table, read_table
from fedconformal.cli._parse import by_name
from fedconformal.documents import LARGEST_N

_TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
Sizes = int | list[int] | dict[str, int] | None


def sites(text: str | None) -> tuple[int | None, list[str] | None]:
    """A number of sites, or their names."""
    if text is None:
        return None, None
    if text.isascii() and text.lstrip("+-").isdecimal():
        return int(text), None
    return None, [name.strip() for name in text.split(",")]


def sizes(
    points: str | None, groups: Sequence[str], *, by_class: bool = False, by_site: bool = False
) -> dict[str, Any]:
    """What `plan` is told of sizes: ``n_points`` or ``groups``, and what groups are made of."""
    found = _sizes(points, groups)
    if by_class and "groups" not in found:
        raise ValueError(
            "--by-class needs the classes: --group CLASS:SIZES, or --points with columns group, site, n"
        )
    label = ["class"] if by_class else ["label"] if "groups" in found else []
    made_of = [*["site"] * by_site, *label]
    return {**found, "group_by": made_of or None}


def _sizes(points: str | None, groups: Sequence[str]) -> dict[str, Any]:
    """``n_points``, or ``groups``."""
    file = _file(points)
    table = None if file is None else _table(file)
    if table is not None and "group" in table.columns:
        named = [*_groups_in(table), *map(_group, groups)]
        return {"groups": by_name("--points and --group", named, "group")}
    if not groups:
        return {"n_points": _points("--points", points) if table is None else _points_in(table)}
    if points is not None:
        raise ValueError(
            f"--points must be a table with columns group, site and n beside --group, got {points!r}; the "
            "sizes of one group are said as in --group young:A=120,B=40"
        )
    return {"groups": by_name("--group", [_group(text) for text in groups], "group")}


def _group(text: str) -> tuple[str, Sizes]:
    """LABEL:SIZES, or LABEL alone for sizes that come with the reports; a label with a colon ends in one."""
    label, colon, listed = text.rpartition(":")
    return (label if colon else text), _points(f"--group {text}", listed if colon and listed else None)


def _points(option: str, text: str | None) -> Sizes:
    """One size, a list of them, sizes by name, or a table with columns site and n."""
    if text is None:
        return None
    file = _file(text)
    if file is not None:
        return _points_in(_table(file))
    parts = [part.strip() for part in text.split(",")]
    if all("=" in part for part in parts):
        pairs = [part.rsplit("=", 1) for part in parts]
        if joined := next((part for part in parts if part.count("=") > 1), None):
            raise ValueError(
                f"{option}: sizes must have commas between them, as in A=120,B=40, got {joined!r}"
            )
        return by_name(option, [(name.strip(), _whole(option, size)) for name, size in pairs], "site")
    found = [_whole(option, part) for part in parts]
    return found[0] if len(found) == 1 else found


def _whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"{option}: sizes must be a whole number, a list of them, or NAME=NUMBER pairs, got {text!r}"
        ) from None


# -- tables of sizes ---------------------------------------------------------------------------------------


def _file(text: str | None) -> Path | None:
    return Path(text) if text is not None and (text == "-" or text.lower().endswith(_TABLES)) else None


def _table(file: Path) -> Table:
    return read_table(file, dialect=Dialect(options=()))


def _points_in(table: Table) -> dict[str, int]:
    return by_name(table.name, list(zip(table.labels("site"), _counts(table), strict=True)), "site")


def _groups_in(table: Table) -> list[tuple[str, dict[str, int]]]:
    labels = table.labels("group")
    rows: dict[str, list[tuple[str, int]]] = {label: [] for label in labels}
    for label, name, n in zip(labels, table.labels("site"), _counts(table), strict=True):
        rows[label].append((name, n))
    return [
        (label, by_name(f"{table.name}, group {label!r}", pairs, "site")) for label, pairs in rows.items()
    ]


def _counts(table: Table) -> list[int]:
    found = table.numbers(["n"])[:, 0]
    wrong = ~((found >= 0) & (found < LARGEST_N) & (found == np.floor(found)))
    table.refuse_rows(wrong, "n", "must hold whole numbers, not so")
    counts: list[int] = found.astype(int).tolist()
    return counts
