"""What people type, as arguments of the library."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fedconformal._tables import read_column
from fedconformal.privacy import Bins, Privacy
from fedconformal.scores import Score, from_name

T = TypeVar("T")

_EVEN: dict[str, Callable[[float, float, int], Bins]] = {"uniform": Bins.uniform, "log": Bins.log}
_REFERENCE = "reference"


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


def split(texts: Sequence[str]) -> dict[str, float] | None:
    """How epsilon is split over the groups: weights by label."""
    found = pairs("--split", "LABEL=WEIGHT, the weight a number", texts, float)
    return by_name("--split", found, "group") or None


def mixture(text: str | None) -> dict[str, float] | None:
    """Shares of the sites among new cases, by name."""
    if text is None:
        return None
    found = pairs("--mixture", "SITE=SHARE,SITE=SHARE, each share a number", text.split(","), float)
    return by_name("--mixture", found, "site")


def keys(texts: Sequence[str]) -> dict[str, str] | None:
    """Public keys by site."""
    return by_name("--key", pairs("--key", "SITE=ed25519:...", texts, str), "site") or None


def share_or_word(text: str) -> str | float:
    """A share of a site's scores, or a word for how it is found."""
    try:
        return float(text)
    except ValueError:
        return text


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
    kind, *rest = text.split(":")
    try:
        if kind in _EVEN and len(rest) == 3:
            made = _EVEN[kind](float(rest[0]), float(rest[1]), int(rest[2]))
        elif kind == _REFERENCE and len(rest) >= 2:
            made = Bins.from_reference(read_column(Path(":".join(rest[:-1]))), int(rest[-1]))
        else:
            raise ValueError("must be uniform:LOW:HIGH:COUNT, log:LOW:HIGH:COUNT or reference:FILE:COUNT")
    except ValueError as error:
        raise ValueError(f"--bins {text!r}: {error}") from None
    return Bins(made.edges, bounded=bounded)
