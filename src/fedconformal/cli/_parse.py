"""What people type, as arguments of the library."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fedconformal._inputs import STANDARD
from fedconformal._tables import SUFFIXES, Dialect, read_column
from fedconformal._typing import Floats
from fedconformal.privacy import Bins, Privacy
from fedconformal.scores import Score, from_name

T = TypeVar("T")

BINS_FORMS = (
    "uniform:LOW:HIGH:COUNT, log:LOW:HIGH:COUNT, reference:FILE:COUNT (public scores; :BOUND if none can "
    "exceed it), edges:FILE or edges:0.1,0.2,0.5"
)
"""How bins are typed."""


def pairs(option: str, form: str, texts: Iterable[str], read: Callable[[str], T]) -> list[tuple[str, T]]:
    """NAME=VALUE texts as pairs; ``form`` says what they should look like."""
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
    """Pairs as a mapping; a name that occurs twice is refused."""
    times = Counter(name for name, _ in found)
    if twice := [name for name, count in times.items() if count > 1]:
        raise ValueError(f"{source}: {what} {twice[0]!r} occurs twice; each must be named once")
    return dict(found)


def mixture(text: str | None) -> dict[str, float] | None:
    """Shares of the sites among new cases, by name."""
    if text is None:
        return None
    found = pairs("--mixture", "SITE=SHARE,SITE=SHARE, each share a number", text.split(","), float)
    return by_name("--mixture", found, "site")


def keys(texts: Sequence[str]) -> dict[str, str] | None:
    """Public keys by site."""
    return by_name("--key", pairs("--key", "SITE=ed25519:...", texts, str), "site") or None


def facts(texts: Sequence[str]) -> dict[str, str]:
    """Facts for the certificate, by name."""
    return by_name("--fact", pairs("--fact", "NAME=TEXT", texts, str), "fact")


def score(name: str | None, options: Sequence[str], **shorthands: float | None) -> Score | None:
    """The score of that name with its parameters; shorthands are parameters with options of their own."""
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
    """A truth value or a number as JSON has it; everything else is text, and so is what is in quotes."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (bool, int, float, str)) else text


def privacy(
    epsilon: float | None, bins: str | None, *, bounded: bool, one_hot: bool, **names: str | None
) -> Privacy | None:
    """The privacy that a plan asks for."""
    chosen: dict[str, Any] = {name: value for name, value in names.items() if value is not None}
    if epsilon is None and bins is None:
        if wrong := [*chosen, *["bounded"] * bounded, *["one-hot"] * one_hot]:
            raise ValueError(f"--{wrong[0]} goes with --epsilon and --bins")
        return None
    if epsilon is None or bins is None:
        raise ValueError("--epsilon and --bins go together")
    return Privacy(epsilon=epsilon, bins=_bins(bins, bounded=bounded), one_hot=one_hot, **chosen)


def _bins(text: str, *, bounded: bool) -> Bins:
    kind, _, rest = text.partition(":")
    try:
        if kind not in _BINS:
            raise ValueError(f"must be {BINS_FORMS}")
        made = _BINS[kind](rest)
    except ValueError as error:
        raise ValueError(f"--bins {text!r}: {error}") from None
    return Bins(made.edges, bounded=bounded or made.bounded)


def _range(make: Callable[[float, float, int], Bins], rest: str) -> Bins:
    parts = rest.split(":")
    if len(parts) != 3:
        raise ValueError(f"must be {BINS_FORMS}")
    return make(float(parts[0]), float(parts[1]), int(parts[2]))


def _reference(rest: str) -> Bins:
    """FILE:COUNT, or FILE:COUNT:BOUND for scores that cannot exceed a bound; a FILE may have colons."""
    file, _, last = rest.rpartition(":")
    inner, _, count = file.rpartition(":")
    if inner and count.isdigit() and (Path(inner) == STANDARD or Path(inner).exists()):
        return Bins.from_reference(_column(inner), int(count), bound=float(last))
    if not file:
        raise ValueError(f"must be {BINS_FORMS}")
    return Bins.from_reference(_column(file), int(last))


def _column(file: str) -> Floats:
    return read_column(Path(file), dialect=Dialect(options=()))


def _edges(rest: str) -> Bins:
    """Numbers with commas between them, or a file of them."""
    if Path(rest) == STANDARD or Path(rest).suffix.lower() in SUFFIXES:
        return Bins(tuple(_column(rest).tolist()))
    return Bins(tuple(float(edge) for edge in rest.split(",")))


_BINS: dict[str, Callable[[str], Bins]] = {
    "uniform": partial(_range, Bins.uniform),
    "log": partial(_range, Bins.log),
    "reference": _reference,
    "edges": _edges,
}
