"""What people type, as arguments of the library."""

from pathlib import Path
from typing import Any

import numpy as np

from fedconformal.privacy import Bins, Privacy


def sites(text: str | None) -> tuple[int | None, list[str] | None]:
    """A number of sites, or their names."""
    if text is None:
        return None, None
    if text.isascii() and text.lstrip("+-").isdecimal():
        return int(text), None
    return None, [name.strip() for name in text.split(",")]


def points(text: str | None) -> Any:
    """One size, a list of them, sizes by name, or a CSV with columns site and n."""
    if text is None:
        return None
    if text.lower().endswith((".csv", ".parquet")):
        return _points_file(Path(text))
    parts = [part.strip() for part in text.split(",")]
    if all("=" in part for part in parts):
        pairs = [part.rsplit("=", 1) for part in parts]
        names = [name.strip() for name, _ in pairs]
        if len(set(names)) < len(names):
            raise ValueError(f"--points must name each site once, got {text!r}")
        return {name: _whole(size) for name, (_, size) in zip(names, pairs, strict=True)}
    sizes = [_whole(part) for part in parts]
    return sizes[0] if len(sizes) == 1 else sizes


def _points_file(path: Path) -> dict[str, int]:
    from fedconformal._tables import numbers, read_table

    frame = read_table(path)
    sizes = numbers(path, frame, ["n"])[:, 0]
    if "site" not in frame.columns or not ((sizes >= 1) & (sizes < 2**40) & (sizes == np.floor(sizes))).all():
        raise ValueError(f"{path}: columns site and n are needed, n whole numbers")
    names = [str(name) for name in frame["site"]]
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: a site stands there twice")
    return dict(zip(names, sizes.astype(int).tolist(), strict=True))


def groups(texts: list[str], labels: list[str]) -> dict[str, Any]:
    """Sizes by group: from a CSV with columns group, site and n, from LABEL:SIZES, or none yet."""
    pairs: list[tuple[str, Any]] = [(label, None) for label in labels]
    if len(texts) == 1 and ":" not in texts[0] and texts[0].lower().endswith((".csv", ".parquet")):
        pairs += _groups_file(Path(texts[0])).items()
    elif any(":" not in text for text in texts):
        raise ValueError("--points must be one CSV with columns group, site and n, or LABEL:SIZES each time")
    else:
        pairs += [(label, points(sizes)) for label, _, sizes in (text.rpartition(":") for text in texts)]
    if not pairs:
        raise ValueError("--points or --label must name at least one group")
    return _each_once("--points and --label", pairs)


def _groups_file(path: Path) -> dict[str, dict[str, int]]:
    from fedconformal._tables import numbers, read_labels, read_table

    (labels, _), (names, _) = read_labels(path, "group"), read_labels(path, "site")
    sizes = numbers(path, read_table(path), ["n"])[:, 0]
    if not ((sizes >= 0) & (sizes < 2**40) & (sizes == np.floor(sizes))).all():
        raise ValueError(f"{path}: column 'n' must hold whole numbers")
    found: dict[str, dict[str, int]] = {}
    for label, name, n in zip(labels, names, sizes.astype(int).tolist(), strict=True):
        if name in found.setdefault(label, {}):
            raise ValueError(f"{path}: site {name!r} stands twice in group {label!r}")
        found[label][name] = n
    return found


def shares(pairs: list[str] | None) -> dict[str, float] | None:
    """Weights by label."""
    if not pairs:
        return None
    try:
        weights = [(label, float(weight)) for label, _, weight in (pair.rpartition("=") for pair in pairs)]
    except ValueError:
        raise ValueError("--share must be LABEL=WEIGHT, the weight a number") from None
    return _each_once("--share", weights)


def _each_once(option: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"{option} must name each group once")
    return dict(pairs)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"--points must be a whole number, a list of them, or NAME=NUMBER pairs, got {text!r}"
        ) from None


def local_ranks(text: str) -> str | float:
    """A word, or a share."""
    try:
        return float(text)
    except ValueError:
        return text


def score(name: str | None, **parameters: Any) -> dict[str, Any] | None:
    """The score rule of a plan."""
    given = {key: value for key, value in parameters.items() if value is not None}
    if name is None:
        if given:
            raise ValueError(f"--{next(iter(given)).replace('_', '-')} goes with --score")
        return None
    return {"name": name, **given}


def keys(pairs: list[str] | None) -> dict[str, str] | None:
    """Public keys by site."""
    if not pairs:
        return None
    if any("=" not in pair for pair in pairs):
        raise ValueError("--key must be SITE=ed25519:...")
    return dict(pair.split("=", 1) for pair in pairs)


def privacy(epsilon: float | None, bins: str | None, *, bounded: bool, **options: Any) -> Privacy | None:
    """The privacy that a plan asks for."""
    given = [name for name, value in options.items() if value not in (None, False, "tight")]
    if epsilon is None and bins is None:
        if given or bounded:
            name = (given or ["bounded"])[0].replace("_", "-")
            raise ValueError(f"--{name} goes with --epsilon and --bins")
        return None
    if epsilon is None or bins is None:
        raise ValueError("--epsilon and --bins go together")
    return Privacy(epsilon=epsilon, bins=_bins(bins, bounded=bounded), **options)


def _bins(text: str, *, bounded: bool) -> Bins:
    kind, *rest = text.split(":")
    try:
        if kind == "uniform" and len(rest) == 3:
            made = Bins.uniform(float(rest[0]), float(rest[1]), int(rest[2]))
        elif kind == "log" and len(rest) == 3:
            made = Bins.log(float(rest[0]), float(rest[1]), int(rest[2]))
        elif kind == "reference" and len(rest) >= 2:
            from fedconformal._tables import read_column

            made = Bins.from_reference(read_column(Path(":".join(rest[:-1]))), int(rest[-1]))
        else:
            raise ValueError("uniform:LOW:HIGH:COUNT, log:LOW:HIGH:COUNT or reference:FILE:COUNT")
    except ValueError as error:
        raise ValueError(f"--bins {text!r}: {error}") from None
    return Bins(made.edges, bounded=bounded)
