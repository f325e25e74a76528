"""Options as people type them, turned into arguments of the library."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedconformal._util import Floats
from fedconformal.cli._files import model_of
from fedconformal.documents import LARGEST_N, Facts
from fedconformal.planning import CRITERIA
from fedconformal.privacy import Bins, Privacy
from fedconformal.scores import Score, from_name

T = TypeVar("T")
Sizes = int | list[int] | dict[str, int] | None

_TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
_COLUMNS = (*_TABLES, ".txt", ".npy")
_BOUNDED = ":bounded"
_BINS_FORMS = (
    "uniform:LOW:HIGH:COUNT, log:LOW:HIGH:COUNT, edges:FILE, edges:0.1,0.2,0.5 or"
    " from:FILE"
)
_TERMS: dict[str, Callable[[str], Any]] = {
    "round": str,
    "model": lambda text: model_of(Path(text)),
    "expires": str,
    "classes": lambda text: [name.strip() for name in text.split(",")],
    **dict.fromkeys(Facts.model_fields, str),
}


def pairs(
    option: str, form: str, texts: Iterable[str], read: Callable[[str], T]
) -> list[tuple[str, T]]:
    """Split NAME=VALUE texts into pairs; ``form`` is the form to name in an error."""
    values = []
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise ValueError(f"{option} must be {form}, got {text!r}")
        try:
            values.append((name, read(value)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{option} {text}: {error}; it must be {form}") from None
    return values


def by_name(source: str, named: Sequence[tuple[str, T]], what: str) -> dict[str, T]:
    """Return pairs as a mapping; refuse a name that occurs twice."""
    times = Counter(name for name, _ in named)
    if twice := [name for name, count in times.items() if count > 1]:
        raise ValueError(
            f"{source}: {what} {twice[0]!r} occurs twice; each must be named once"
        )
    return dict(named)


def criterion(text: str | None) -> tuple[str | None, float | None]:
    """Return the criterion, and the delta behind a colon."""
    name, colon, delta = (text or "").partition(":")
    if not colon:
        return text, None
    if name in CRITERIA and not CRITERIA[name]().takes_delta:
        raise ValueError(f"--criterion {name} takes no delta, got {text!r}")
    try:
        return name, float(delta)
    except ValueError:
        raise ValueError(
            f"--criterion must be {name}:DELTA with a number, got {text!r}"
        ) from None


def promise(text: str | None) -> tuple[str | None, dict[str, float] | None]:
    """Return the promise, and the shares of the sites among new cases behind a
    colon.
    """
    name, colon, shares = (text or "").partition(":")
    if not colon:
        return text, None
    named = pairs(
        "--promise",
        f"{name}:SITE=SHARE,..., each share a number",
        shares.split(","),
        float,
    )
    return name, by_name("--promise", named, "site")


def keys(texts: Sequence[str]) -> dict[str, str] | None:
    """Return public keys by site."""
    return (
        by_name("--key", pairs("--key", "SITE=ed25519:...", texts, str), "site") or None
    )


def terms(
    option: str, texts: Sequence[str], names: Sequence[str] = tuple(_TERMS)
) -> dict[str, Any]:
    """Return the terms of a plan by name, or facts for the certificate."""
    values = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{option} must be NAME=TEXT, got {text!r}")
        if name not in names:
            raise ValueError(
                f"{option} must be one of {', '.join(names)}, got {name!r}"
            )
        values.append((name, _TERMS[name](value)))
    return by_name(option, values, "term")


def score(text: str | None) -> Score | None:
    """Return the named score, with the parameters behind a colon."""
    if text is None:
        return None
    name, colon, rest = text.partition(":")
    texts = rest.split(",") if colon else []
    parameters = pairs("--score", f"{name}:PARAMETER=VALUE,...", texts, _parameter)
    try:
        return from_name(name, **by_name("--score", parameters, "parameter"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"--score {text}: {error}") from None


def _parameter(text: str) -> bool | int | float | str:
    """Read a truth value or a number as in JSON; everything else is text, and so is
    what is in quotes.
    """
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (bool, int, float, str)) else text


def grid(
    curve: str | None, epsilon: float | None, bins: str | None, *, paper: bool
) -> tuple[Bins | None, Privacy | None]:
    """Return the bins of exact counts, or the privacy, that a plan asks for."""
    if epsilon is None:
        if bins is not None:
            raise ValueError(
                "--bins goes with --epsilon; for exact counts give --curve"
            )
        return None if curve is None else _bins("--curve", curve), None
    if curve is not None:
        raise ValueError(
            "--curve and --epsilon do not go together: --bins are the bins of noisy"
            " counts"
        )
    grid, bearers = suffix("--bins", bins, ("bearers",))
    edges = None if grid is None or (bearers and not grid) else _bins("--bins", grid)
    return None, Privacy(
        epsilon, edges, analysis="paper" if paper else Privacy.analysis, **bearers
    )


def suffix(
    option: str, text: str | None, names: Sequence[str]
) -> tuple[str | None, dict[str, int]]:
    """Return what stands before ``:NAME=NUMBER`` at the end, and the number by its
    name.
    """
    start, _, last = (text or "").rpartition(":")
    name, _, number = last.partition("=")
    if name not in names:
        return text, {}
    if not number.isdecimal():
        raise ValueError(
            f"{option} {text!r}: {name} must be a whole number, as in {name}=10"
        )
    return start, {name: int(number)}


def _bins(option: str, text: str) -> Bins:
    kind, _, rest = text.partition(":")
    bounded, rest = rest.endswith(_BOUNDED), rest.removesuffix(_BOUNDED)
    makers = {"uniform": Bins.uniform, "log": Bins.log}
    try:
        if kind == "from" and not bounded:
            return Bins.from_reference(_column(rest))
        if kind == "edges" and (rest == "-" or rest.lower().endswith(_COLUMNS)):
            return Bins(tuple(_column(rest).tolist()), bounded)
        if kind == "edges":
            return Bins(tuple(float(edge) for edge in rest.split(",")), bounded)
        if kind in makers and rest.count(":") == 2:
            low, high, number = rest.split(":")
            return Bins(
                makers[kind](float(low), float(high), int(number)).edges, bounded
            )
        raise ValueError(
            f"must be {_BINS_FORMS}; :bounded goes behind all but from:FILE"
        )
    except ValueError as error:
        raise ValueError(f"{option} {text!r}: {error}") from None


def _column(path: str) -> Floats:
    from fedconformal._tables import (
        Dialect,
        read_column,
    )  # polars is not needed for most plans

    return read_column(Path(path), dialect=Dialect(has_options=False))


# -- sites and sizes -------------------------------------------------------------------


def sites(text: str | None) -> int | list[str] | None:
    """Return a number of sites, or their names."""
    if text is None:
        return None
    if text.isascii() and text.lstrip("+-").isdecimal():
        return int(text)
    return [name.strip() for name in text.split(",")]


def sizes(
    points: str | None, groups: Sequence[str], group_by: str | None
) -> dict[str, Any]:
    """Return the sizes for `plan`: ``n_points`` or ``groups``, and ``group_by``."""
    made_of = [] if group_by is None else [name.strip() for name in group_by.split(",")]
    table, named = _table(points), [_group(text) for text in groups]
    if table is not None and "group" in table.columns:
        named = [*_groups_in(table), *named]
    elif groups and points is not None:
        raise ValueError(
            "--points must be a table with columns group, site and n beside --group,"
            f" got {points!r}; the sizes of one group are given as in --group"
            " young:A=120,B=40"
        )
    if named:
        made_of += [] if {"class", "label"} & set(made_of) else ["label"]
        return {
            "groups": by_name("--points and --group", named, "group"),
            "group_by": made_of,
        }
    if "class" in made_of:
        raise ValueError(
            "--group-by class needs the classes: --group CLASS:SIZES, or --points with"
            " columns group, site, n"
        )
    n_points = _points("--points", points) if table is None else _points_in(table)
    return {"n_points": n_points, "group_by": made_of or None}


def _group(text: str) -> tuple[str, Sizes]:
    """Read LABEL:SIZES, or LABEL alone for sizes that come with the reports.

    A label with a colon ends in one.
    """
    label, colon, listed = text.rpartition(":")
    sizes = _points(f"--group {text}", listed if colon and listed else None)
    return (label if colon else text), sizes


def _points(option: str, text: str | None) -> Sizes:
    """Read one size, a list of them, sizes by name, or a table with columns site and
    n.
    """
    if text is None:
        return None
    if (table := _table(text)) is not None:
        return _points_in(table)
    parts = [part.strip() for part in text.split(",")]
    if all("=" in part for part in parts):
        pairs = [part.rsplit("=", 1) for part in parts]
        if joined := next((part for part in parts if part.count("=") > 1), None):
            raise ValueError(
                f"{option}: sizes must have commas between them, as in A=120,B=40, got"
                f" {joined!r}"
            )
        return by_name(
            option,
            [(name.strip(), _whole(option, size)) for name, size in pairs],
            "site",
        )
    counts = [_whole(option, part) for part in parts]
    return counts[0] if len(counts) == 1 else counts


def _whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"{option}: sizes must be a whole number, a list of them, or NAME=NUMBER"
            f" pairs, got {text!r}"
        ) from None


def _table(text: str | None) -> Any:
    """Read the table that is named, if one is."""
    if text is None or not (text == "-" or text.lower().endswith(_TABLES)):
        return None
    from fedconformal._tables import Dialect, read_table

    return read_table(Path(text), dialect=Dialect(has_options=False))


def _points_in(table: Any) -> dict[str, int]:
    return by_name(
        table.name, list(zip(table.labels("site"), _counts(table), strict=True)), "site"
    )


def _groups_in(table: Any) -> list[tuple[str, dict[str, int]]]:
    labels = table.labels("group")
    rows: dict[str, list[tuple[str, int]]] = {label: [] for label in labels}
    for label, name, n in zip(
        labels, table.labels("site"), _counts(table), strict=True
    ):
        rows[label].append((name, n))
    return [
        (label, by_name(f"{table.name}, group {label!r}", pairs, "site"))
        for label, pairs in rows.items()
    ]


def _counts(table: Any) -> list[int]:
    values = table.numbers(["n"])[:, 0]
    wrong = ~((values >= 0) & (values < LARGEST_N) & (values == np.floor(values)))
    table.refuse_rows(wrong, "n", "must hold whole numbers; it does not")
    return [int(value) for value in values]
