"""Calibrations that somebody edited, digests and all: refused on reading, or found by
the audit.

One number, word or list of an honest calibration is changed, left out, doubled or
reversed, or a part of it is that of another calibration. The lists below say what takes
more than the file: what only the reports show, and what makes no claim stronger.
"""

import copy
import json
import random
import warnings
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import fedconformal as fc
from fedconformal.documents import ratio_text
from torture._run import Section
from torture.honest import HONEST

NEEDS_REPORTS = (
    "parts.*.thresholds",  # reported values are not in the calibration
    "parts.*.sums",  # with noise, or by less than the threshold shows
    # where a site is missing, other votes may keep the promise too
    "parts.*.design.levels.*.votes",
    "reports.*.report",  # where nobody signs, a digest is any digest
    "plan.",  # another plan, whose digest the reports do not carry
)
OPEN = (
    *NEEDS_REPORTS,
    "parts.*.design.sites.*.n",
)  # another size may have the same ranks
HARMLESS = (
    "refused",  # a file that could not be read is not at hand, and a reason is in words
    "parts.*.refused",
    # what would have sufficed is no claim about the coverage
    "parts.*.design.levels.*.advice",
)
PER_SEED = 10


def find_places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every field and of every entry of a list."""
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            if key not in ("format", "version"):
                yield (*path, key)
                yield from find_places(content[key], (*path, key))


def edit(content: Any, path: tuple[Any, ...], rng: random.Random) -> Any:
    """Return a copy with one change at a path."""
    edited = copy.deepcopy(content)
    holder = edited
    for key in path[:-1]:
        holder = holder[key]
    value, kind = holder[path[-1]], rng.random()
    if kind < 0.15:
        del holder[path[-1]]
    elif kind < 0.25 and isinstance(holder, list):
        holder.insert(path[-1], copy.deepcopy(value))
    elif isinstance(value, list):
        value.reverse()
    elif not isinstance(value, dict):
        holder[path[-1]] = rng.choice(other_values(value, rng))
    return edited


def swap(content: Any, path: tuple[Any, ...], rng: random.Random) -> Any:
    """Return a copy with a value of another honest calibration at a path."""
    edited = copy.deepcopy(content)
    holder, other = edited, make_honest(rng.choice(list(HONEST)))[2]
    try:
        for key in path[:-1]:
            holder, other = holder[key], other[key]
        value = other[path[-1]]
    except (IndexError, KeyError):
        return edited
    holder[path[-1]] = copy.deepcopy(value)
    return edited


SWAPPED = (
    ("parts", 0, "design"),
    ("parts", 0, "design", "message"),
    ("parts", 0, "design", "sites"),
    ("parts", 0, "sums"),
    ("plan", "designs", 0, "message"),
)


def other_values(value: Any, rng: random.Random) -> list[Any]:
    """Return values of the same kind."""
    if isinstance(value, bool) or value is None:
        return [not value]
    if isinstance(value, int):
        return [value - 1, value + 1, 2 * value + 3, rng.randrange(2 * abs(value) + 2)]
    if isinstance(value, float):
        return [value / 2, value + 0.01, rng.random()]
    if value == "Infinity":
        return [1.0]
    words = [value[:-1] + ("0" if value[-1] != "0" else "1"), value + "x"]
    if value.replace("/", "").replace(".", "").isdigit():
        words += [
            ratio_text(Fraction(value) / 2),
            ratio_text((Fraction(value) + 1) / 2),
        ]
    return words


def read(content: Any) -> fc.Calibration | None:
    """Return the calibration of this content, with a digest that fits; None if it is
    refused.
    """
    try:
        edited = fc.Calibration.model_validate_json(json.dumps(content))
        edited.check()
    except ValueError:
        return None
    return edited


def is_as_good(edited: fc.Calibration) -> bool:
    """Return whether the votes keep the promise at every level, by the package's own
    reckoning.
    """
    guarantees = [edited[level].guarantee for level in edited.plan.confidence_levels]
    delta = edited.plan.designs[0].delta
    return all(
        each.mean >= level if delta is None else each.probability >= 1 - delta
        for each, level in zip(guarantees, edited.plan.confidence_levels, strict=True)
    )


@lru_cache(maxsize=64)
def make_honest(
    name: str,
) -> tuple[fc.Calibration, list[fc.Report], Any, list[tuple[Any, ...]]]:
    """Return an honest calibration, its reports, its content, and every place in it."""
    with warnings.catch_warnings(action="ignore"):
        calibration, reports = HONEST[name]()
    content = calibration.content()
    return calibration, reports, content, list(find_places(content))


def is_rejected(edited: fc.Calibration, reports: list[fc.Report] | None = None) -> bool:
    """Return whether the audit contradicts a calibration."""
    return any(finding.holds is False for finding in fc.audit.verify(edited, reports))


def forge(seed: int) -> int:
    """Try some edits of one calibration."""
    rng, names = random.Random(seed), list(HONEST)
    calibration, reports, content, places = make_honest(names[seed % len(names)])
    needs_reports = OPEN if calibration.plan.is_open else NEEDS_REPORTS
    for _ in range(PER_SEED):
        if rng.random() < 0.2:
            path = rng.choice(SWAPPED)
            edited = read(swap(content, path, rng))
        else:
            path = rng.choice(places)
            edited = read(edit(content, path, rng))
        where = ".".join("*" if isinstance(key, int) else key for key in path)
        if (
            edited is None
            or edited.digest == calibration.digest
            or where.startswith(HARMLESS)
        ):
            continue
        if is_rejected(edited):
            continue
        assert where.startswith(needs_reports), f"an edit at {where} was accepted"
        as_good = "levels.*.votes" in where and is_as_good(edited)
        assert as_good or is_rejected(edited, reports), (
            f"an edit at {where} was accepted with the reports"
        )
    return PER_SEED


SECTION = Section(
    "calibrations",
    "edited calibrations",
    "refused on reading, or rejected by `verify`, from the file alone or with the"
    " reports",
    forge,
    runs=3_000,
    quick=40,
)
