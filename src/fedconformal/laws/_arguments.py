"""The arguments of a coverage law, read site by site and put into blocks of equal sites."""

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedconformal import _validation
from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws._sites import Distortion, OrderStatistics, Shifted, SiteLaw

Distortions = Distortion | Sequence[Distortion | None] | None

_MOST_VOTES = 2**53
_NONE = -1  # in place of a number that a site does not send


@dataclass(frozen=True, eq=False)
class Blocks:
    """Runs of equal sites: their law, how many there are, and the votes of their numbers."""

    sites: SiteLaw
    counts: Ints
    weights: Ints


def in_blocks(n_sites: Any, n_points: Any, local_rank: Any, weights: Any, distortion: Distortions) -> Blocks:
    """Put equal sites together; the arguments are those of ``CoverageLaw``."""
    sizes = _flat("n_points", n_points, low=1)
    ranks, votes = _nested("local_rank", local_rank, low=0), _nested("weights", weights, low=1)
    shifts = [distortion] if distortion is None or callable(distortion) else list(distortion)
    columns: dict[str, Sized] = {
        "n_points": sizes,
        "local_rank": ranks,
        "weights": votes,
        "distortion": shifts,
    }
    lengths = {name: len(column) for name, column in columns.items() if len(column) > 1}
    if n_sites is not None:
        lengths["n_sites"] = _validation.integer("n_sites", n_sites, low=1)
    _check_lengths(lengths, local_rank, flat=ranks.shape[1] == 1)
    _check_nesting(sizes.size, n_points, local_rank)
    _check_ranks(ranks)
    m, rows = max(lengths.values(), default=1), max(len(column) for column in columns.values())
    table = _table(rows, sizes, ranks, votes, np.arange(len(shifts)))
    kinds, counts = np.unique(table, axis=0, return_counts=True) if rows > 1 else (table, np.array([m]))
    return _blocks(kinds, counts, shifts)


def _flat(name: str, value: Any, *, low: int) -> Ints:
    """One whole number, or one for each site."""
    if _is_list(value):
        return _validation.integers(name, value, low=low)
    return np.array([_validation.integer(name, value, low=low)])


def _nested(name: str, value: Any, *, low: int) -> Ints:
    """The same, or several for each site: a row per site, filled up where it has fewer."""
    items = list(value) if _is_list(value) else [value]
    if not any(_is_list(item) for item in items):
        return _flat(name, value, low=low)[:, None]
    rows = [_flat(f"{name}[{j}]", item, low=low) for j, item in enumerate(items)]
    table = np.full((len(rows), max(row.size for row in rows)), _NONE)
    for line, row in zip(table, rows, strict=True):
        line[: row.size] = row
    return table


def _is_list(value: Any) -> bool:
    return (
        isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) > 0
    )


def _check_lengths(lengths: dict[str, int], local_rank: Any, *, flat: bool) -> None:
    """All lists must agree on the number of sites."""
    if len(set(lengths.values())) <= 1:
        return
    others = {length for name, length in lengths.items() if name != "local_rank"}
    if flat and "local_rank" in lengths and len(others) == 1:
        m, ranks = others.pop(), ", ".join(map(str, list(local_rank)[:3])) + ", ..." * (len(local_rank) > 3)
        raise ValueError(
            f"local_rank must agree with the number of sites, {m}, got {len(local_rank)} ranks "
            f"(several ranks at each site are nested: [({ranks})] * {m})"
        )
    told = ", ".join(f"{name} {length}" for name, length in lengths.items())
    raise ValueError(
        f"n_sites, n_points, local_rank, weights and distortion must agree on the sites, got {told}"
    )


def _check_nesting(m: int, n_points: Any, local_rank: Any) -> None:
    """Beside a list of sizes a bare tuple may be meant as several ranks of each site, or as one of each."""
    bare = isinstance(local_rank, tuple) and len(local_rank) > 1 and not any(map(_is_list, local_rank))
    if bare and _is_list(n_points) and not isinstance(n_points, tuple):
        raise ValueError(
            "local_rank must be a list beside a list of sizes: one rank for each site, or nested, "
            f"[{local_rank}] * {m}; got the tuple {local_rank}"
        )


def _check_ranks(ranks: Ints) -> None:
    falling = (np.diff(ranks, axis=1) <= 0) & (ranks[:, 1:] != _NONE)
    if falling.any():
        j = int(np.argmax(falling.any(axis=1)))
        raise ValueError(f"local_rank[{j}] must be strictly increasing, got {_entries(ranks[j])}")


def _table(rows: int, sizes: Ints, ranks: Ints, votes: Ints, which: Ints) -> Ints:
    """Size, ranks, weights and distortion of each site; a number that is not sent is +inf with weight 0."""
    size, ranks = np.broadcast_to(sizes[:, None], (rows, 1)), np.broadcast_to(ranks, (rows, ranks.shape[1]))
    absent = ranks == _NONE
    weights = np.where(absent, 0, _weights(np.broadcast_to(votes, (rows, votes.shape[1])), absent))
    ranks = np.where(absent, size + 1, np.minimum(ranks, size + 1))
    return np.concatenate([size, ranks, weights, np.broadcast_to(which[:, None], (rows, 1))], axis=1)


def _weights(votes: Ints, absent: Bools) -> Ints:
    """A single entry of a site counts for all of its numbers, else there must be one for each."""
    given, sent = (votes != _NONE).sum(axis=1), (~absent).sum(axis=1)
    wrong = (given > 1) & (given != sent)
    if wrong.any():
        j = int(np.argmax(wrong))
        raise ValueError(
            f"weights[{j}] must be one number or one for each of the site's {sent[j]} ranks, "
            f"got {_entries(votes[j])}"
        )
    several = np.full(absent.shape, _NONE)
    several[:, : votes.shape[1]] = votes
    return np.where(given[:, None] == 1, votes[:, :1], several)


def _blocks(kinds: Ints, counts: Ints, shifts: Sequence[Distortion | None]) -> Blocks:
    numbers = (kinds.shape[1] - 2) // 2
    ranks, weights = kinds[:, 1 : 1 + numbers], kinds[:, 1 + numbers : -1]
    total = sum(int(c) * sum(row) for c, row in zip(counts, weights.tolist(), strict=True))
    if total > _MOST_VOTES:
        raise ValueError(f"weights must add up to at most {_MOST_VOTES}, got {total}")
    if numbers == 1:
        ranks, weights = ranks[:, 0], weights[:, 0]
    sites = OrderStatistics(kinds[:, 0], ranks)
    if all(shift is None for shift in shifts):
        return Blocks(sites, counts, weights)
    return Blocks(Shifted(sites, [shifts[i] or _same for i in kinds[:, -1]]), counts, weights)


def _entries(row: Ints) -> tuple[int, ...]:
    return tuple(row[row != _NONE].tolist())


def _same(c: Floats) -> Floats:
    return c
