"""Options as people type them, turned into arguments of the library."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedconformal._inputs import STANDARD
from fedconformal._tables import SUFFIXES, Dialect, Table, read_column, read_table
from fedconformal.documents import LARGEST_N, Facts
from fedconformal.privacy import Bins, Privacy
from fedconformal.scores import Score, from_name

T = TypeVar("T")
Sizes = int | list[int] | dict[str, int] | None

_TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
_FORMAT_OPTIONS = ("--separator", "--decimal", "--encoding")

_BINS_FORMS = "uniform:LOW:HIGH:COUNT, log:LOW:HIGH:COUNT, edges:FILE or edges:0.1,0.2,0.5"


def pairs(option: str, form: str, texts: Iterable[str], read: Callable[[str], T]) -> list[tuple[str, T]]:
    """Split NAME=VALUE texts into pairs; ``form`` is the form to name in an error."""
    found = []
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise ValueError(f"{option} must be {form}, got {text!r}")
        try:
            found.append((name, read(value)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{option} {text}: {error}; it must be {form}") from None
    return found


def by_name(source: str, found: Sequence[tuple[str, T]], what: str) -> dict[str, T]:
    """Return pairs as a mapping; refuse a name that occurs twice."""
    times = Counter(name for name, _ in found)
    if twice := [name for name, count in times.items() if count > 1]:
        raise ValueError(f"{source}: {what} {twice[0]!r} occurs twice; each must be named once")
    return dict(found)


def mixture(text: str | None) -> dict[str, float] | None:
    """Return the shares of the sites among new cases, by name."""
    if text is None:
        return None
    found = pairs("--mixture", "SITE=SHARE,SITE=SHARE, each share a number", text.split(","), float)
    return by_name("--mixture", found, "site")


def keys(texts: Sequence[str]) -> dict[str, str] | None:
    """Return public keys by site."""
    return by_name("--key", pairs("--key", "SITE=ed25519:...", texts, str), "site") or None


def facts(texts: Sequence[str]) -> dict[str, str]:
    """Return facts for the certificate, by name."""
    found = by_name("--fact", pairs("--fact", "NAME=TEXT", texts, str), "fact")
    if wrong := [name for name in found if name not in Facts.model_fields]:
        raise ValueError(f"--fact must be one of {', '.join(Facts.model_fields)}, got {wrong[0]!r}")
    return found


def score(name: str | None, options: Sequence[str], **shorthands: float | None) -> Score | None:
    """Return the named score with its parameters; shorthands are parameters with options of their own."""
    short = {option: value for option, value in shorthands.items() if value is not None}
    given = [*short.items(), *pairs("--score-option", "NAME=VALUE", options, _parameter)]
    if name is None:
        if given:
            option = next(iter(short), "score-option").replace("_", "-")
            raise ValueError(f"--{option} goes with --score")
        return None
    try:
        return from_name(name, **by_name("--score-option", given, "parameter"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"--score {name}: {error}") from None


def _parameter(text: str) -> bool | int | float | str:
    """Read a truth value or a number as in JSON; everything else is text, and so is what is in quotes."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (bool, int, float, str)) else text


def grid(
    curve: str | None,
    epsilon: float | None,
    bins: str | None,
    bins_from: Path | None,
    *,
    column: str | None,
    dialect: Dialect,
    bounded: bool,
    **private: Any,
) -> tuple[Bins | None, Privacy | None]:
    """Return the grid of exact counts, or the privacy, that a plan asks for."""
    chosen = {name: value for name, value in private.items() if value is not None}
    if column is not None and bins_from is None:
        raise ValueError("--column goes with --bins-from")
    if bins is not None and bins_from is not None:
        raise ValueError("--bins and --bins-from do not go together")
    if bounded and bins is None and curve is None:
        reason = "" if bins_from is None else ", not --bins-from: the last edge is the largest score there"
        raise ValueError(f"--bounded goes with --bins or --curve{reason}")
    if epsilon is None:
        given = {"bins": bins, "bins-from": bins_from, **chosen}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise ValueError(f"--{wrong[0]} goes with --epsilon; for exact counts give --curve")
        return None if curve is None else _bins("--curve", curve, dialect, bounded=bounded), None
    if curve is not None:
        raise ValueError("--curve and --epsilon do not go together: --bins are the bins of noisy counts")
    made = None if bins is None else _bins("--bins", bins, dialect, bounded=bounded)
    if bins_from is not None:
        made = Bins.from_reference(read_column(bins_from, column, dialect=dialect))
    return None, Privacy(epsilon, made, **chosen)


def _bins(option: str, text: str, dialect: Dialect, *, bounded: bool) -> Bins:
    kind, _, rest = text.partition(":")
    try:
        if kind == "edges" and (Path(rest) == STANDARD or Path(rest).suffix.lower() in SUFFIXES):
            column = read_column(Path(rest), dialect=replace(dialect, options=_FORMAT_OPTIONS))
            return Bins(tuple(column.tolist()), bounded)
        if kind == "edges":
            return Bins(tuple(float(edge) for edge in rest.split(",")), bounded)
        makers = {"uniform": Bins.uniform, "log": Bins.log}
        if kind not in makers or rest.count(":") != 2:
            raise ValueError(f"must be {_BINS_FORMS}")
        low, high, number = rest.split(":")
        return Bins(makers[kind](float(low), float(high), int(number)).edges, bounded)
    except ValueError as error:
        raise ValueError(f"{option} {text!r}: {error}") from None


# -- sites and sizes ---------------------------------------------------------------------------------------


def sites(text: str | None) -> int | list[str] | None:
    """Return a number of sites, or their names."""
    if text is None:
        return None
    if text.isascii() and text.lstrip("+-").isdecimal():
        return int(text)
    return [name.strip() for name in text.split(",")]


def sizes(
    points: str | None, groups: Sequence[str], dialect: Dialect, *, by_class: bool, by_site: bool
) -> dict[str, Any]:
    """Return the sizes for `plan`: ``n_points`` or ``groups``, and ``group_by``."""
    found = _sizes(points, groups, replace(dialect, options=_FORMAT_OPTIONS))
    if by_class and "groups" not in found:
        raise ValueError(
            "--by-class needs the classes: --group CLASS:SIZES, or --points with columns group, site, n"
        )
    label = ["class"] if by_class else ["label"] if "groups" in found else []
    made_of = [*["site"] * by_site, *label]
    return {**found, "group_by": made_of or None}


def _sizes(points: str | None, groups: Sequence[str], dialect: Dialect) -> dict[str, Any]:
    file = _file(points)
    table = None if file is None else read_table(file, dialect=dialect)
    named = [_group(text, dialect) for text in groups]
    if table is not None and "group" in table.columns:
        return {"groups": by_name("--points and --group", [*_groups_in(table), *named], "group")}
    if not groups:
        return {"n_points": _points("--points", points, dialect) if table is None else _points_in(table)}
    if points is not None:
        raise ValueError(
            f"--points must be a table with columns group, site and n beside --group, got {points!r}; the "
            "sizes of one group are given as in --group young:A=120,B=40"
        )
    return {"groups": by_name("--group", named, "group")}


def _group(text: str, dialect: Dialect) -> tuple[str, Sizes]:
    """Read LABEL:SIZES, or LABEL alone for sizes that come with the reports.

    A label with a colon ends in one.
    """
    label, colon, listed = text.rpartition(":")
    sizes = _points(f"--group {text}", listed if colon and listed else None, dialect)
    return (label if colon else text), sizes


def _points(option: str, text: str | None, dialect: Dialect) -> Sizes:
    """Read one size, a list of them, sizes by name, or a table with columns site and n."""
    if text is None:
        return None
    file = _file(text)
    if file is not None:
        return _points_in(read_table(file, dialect=dialect))
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


def _file(text: str | None) -> Path | None:
    return Path(text) if text is not None and (text == "-" or text.lower().endswith(_TABLES)) else None


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
    table.refuse_rows(wrong, "n", "must hold whole numbers; it does not")
    counts: list[int] = found.astype(int).tolist()
    return counts
