"""What the paper says, what we found, and whether that agrees, judged with standard errors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fedconformal.experiments._methods import (
    AVERAGE,
    AVERAGE_NEXT,
    CENTRALISED,
    EPSILONS,
    METHODS,
    PAPER,
    QQ,
    STABLE,
    THREE,
    TIGHT,
    Method,
)
from fedconformal.experiments._protocol import FEW, MANY, PRIVATE
from fedconformal.experiments._store import Rows, distinct, mean, select

YES, NO, CONSISTENT, TOO_FEW = "yes", "**no**", "consistent", "too few splits to say"
ENOUGH_SPLITS = 10
_ABOVE = (0.9, 0.915)
"""What "just above .90" is taken to mean."""
_BY_NAME = {method.name: method for method in METHODS}
_ANALYSES = {PAPER: "the paper's analysis", TIGHT: "our analysis, free slopes"}


@dataclass(frozen=True)
class Claim:
    """What the paper says, what we found, and whether the two agree.

    Parameters
    ----------
    words : str
        What the paper says.
    found : str
        What we found.
    verdict : str
        ``yes``, ``no``, ``consistent`` (what was found neither shows nor contradicts it), or that there are
        too few splits to say.
    """

    words: str
    found: str
    verdict: str


def claims(summary: Rows) -> list[Claim]:
    """Every claim that the rows allow to check.

    Parameters
    ----------
    summary : list of dict
        What `summarise` found.

    Returns
    -------
    list of Claim
        Those of each federation, then those of both, then those of private calibration.
    """
    found: list[Claim] = []
    scenarios = [scenario for scenario in (MANY, FEW) if select(summary, scenario=scenario)]
    for scenario in scenarios:
        found += _calibration_claims(summary, scenario)
    if len(scenarios) == 2:
        found.append(_similar(summary))
    private = select(summary, scenario=PRIVATE)
    for name, model in dict.fromkeys((row["dataset"], row["model"]) for row in private):
        found += [_private_claim(private, name, model, method) for method in _ANALYSES]
    return found


# -- errors and verdicts -------------------------------------------------------------------------------------


def coverage_error(rows: Rows) -> float:
    """Standard error of the mean coverage over data sets and models.

    Splits of different data sets are independent; the models of one data set see the same splits, so their
    errors are added as if they were one.

    Parameters
    ----------
    rows : list of dict
        Of a summary, for one federation and method.

    Returns
    -------
    float
    """
    total = 0.0
    for name in distinct(rows, "dataset"):
        total += sum(r["coverage_std"] / np.sqrt(r["n_splits"]) for r in select(rows, dataset=name)) ** 2
    return float(np.sqrt(total)) / len(rows)


def judged(holds: bool, rows: Rows) -> str:
    """Yes or no, unless there are too few splits to say no."""
    if holds:
        return YES
    return NO if min(row["n_splits"] for row in rows) >= ENOUGH_SPLITS else TOO_FEW


def within(value: float, error: float, low: float, high: float) -> str:
    """Whether a mean lies in an interval: no only if its 95 % interval misses it altogether."""
    if value + 2 * error < low or value - 2 * error > high:
        return NO
    return YES if low <= value <= high and error <= (high - low) / 4 else CONSISTENT


# -- claims about calibration --------------------------------------------------------------------------------


def _calibration_claims(summary: Rows, scenario: str) -> Iterator[Claim]:
    chosen = select(summary, scenario=scenario)
    ours, pooled = (select(chosen, method=name) for name in (QQ, CENTRALISED))
    coverage, error, other = mean(ours, "coverage"), coverage_error(ours), mean(pooled, "coverage")
    yield Claim(
        f"{scenario}: mean coverage of FedCP-QQ just above .90",
        f"{coverage:.4f} ± {error:.4f}; by the law {_law_mean(ours):.4f}",
        within(coverage, error, *_ABOVE),
    )
    ratio = length_ratio(summary, scenario, QQ)
    yield Claim(
        f"{scenario}: FedCP-QQ close to centralised in coverage and length",
        f"coverage {coverage:.4f} and {other:.4f}, length {ratio:.3f} times as large",
        judged(abs(coverage - other) <= 0.01 and abs(ratio - 1) <= 0.03, ours),
    )
    spread, less = mean(ours, "coverage_std"), mean(pooled, "coverage_std")
    yield Claim(
        f"{scenario}: slightly larger standard deviation than centralised",
        f"std over splits {spread:.4f} and {less:.4f}",
        judged(less <= spread <= 1.5 * less, ours),
    )
    for name in (AVERAGE, AVERAGE_NEXT):
        yield _average_claim(summary, scenario, name)
    yield from _our_claims(chosen, scenario)


def _average_claim(summary: Rows, scenario: str, name: str) -> Claim:
    pairs = list(method_pairs(summary, scenario, name, QQ))
    wider = sum(avg["coverage"] > ours["coverage"] for avg, ours in pairs)
    longer = sum(avg["length"] > ours["length"] for avg, ours in pairs)
    return Claim(
        f"{scenario}: {name} has higher coverage and length on all data sets",
        f"higher coverage in {wider} and longer in {longer} of {len(pairs)} pairs of data set and model",
        judged(wider == longer == len(pairs), [ours for _, ours in pairs]),
    )


def _our_claims(chosen: Rows, scenario: str) -> Iterator[Claim]:
    for name, other in ((STABLE, QQ), (THREE, STABLE)):
        rows = [select(chosen, method=method) for method in (name, other)]
        spreads, laws = [mean(r, "coverage_std") for r in rows], [_law_distance(r) for r in rows]
        yield Claim(
            f"{scenario}, ours: coverage of {name} closer to the level than that of {other}",
            f"root of the mean square by the law {laws[0]:.4f} and {laws[1]:.4f}; std over splits, with the "
            f"noise of the test sets, {spreads[0]:.4f} and {spreads[1]:.4f}",
            YES if laws[0] <= laws[1] else NO,
        )


def _similar(summary: Rows) -> Claim:
    rows = {scenario: select(summary, scenario=scenario, method=QQ) for scenario in (MANY, FEW)}
    means = [mean(found, "coverage") for found in rows.values()]
    ratios = [length_ratio(summary, scenario, QQ) for scenario in rows]
    return Claim(
        "FedCP-QQ: similar for m >> n and m << n",
        f"coverage {means[0]:.4f} and {means[1]:.4f}, length {ratios[0]:.3f} and {ratios[1]:.3f} times that "
        "of centralised",
        judged(abs(means[0] - means[1]) <= 0.01 and abs(ratios[0] - ratios[1]) <= 0.03, rows[MANY]),
    )


def law_std(rows: Rows) -> float:
    """Standard deviation of the coverage given the calibration data, without the noise of a test set.

    Parameters
    ----------
    rows : list of dict
        Of a summary, for methods with a plan.

    Returns
    -------
    float
        The mean over rows.
    """
    return float(np.mean([_moments(*_asked(row))[1] for row in rows]))


def _law_distance(rows: Rows) -> float:
    """The root of the mean square distance of the coverage from the level, by the law."""
    found = [(*_moments(*_asked(row)), row["confidence_level"]) for row in rows]
    return float(np.mean([np.hypot(std, mean_ - level) for mean_, std, level in found]))


def _law_mean(rows: Rows) -> float:
    return float(np.mean([_moments(*_asked(row))[0] for row in rows]))


def _asked(row: dict[str, Any]) -> tuple[Method, int, int, float]:
    return _BY_NAME[row["method"]], row["n_sites"], row["n_points"], row["confidence_level"]


@cache
def _moments(method: Method, n_sites: int, n_points: int, level: float) -> tuple[float, float]:
    law = method.law(n_sites, n_points, level)
    return (float("nan"), float("nan")) if law is None else (law.mean(), law.std())


def length_ratio(summary: Rows, scenario: str, method: str) -> float:
    """Mean length divided by that of centralised calibration, averaged over data sets and models.

    Parameters
    ----------
    summary : list of dict
        What `summarise` found.
    scenario, method : str
        Names of a federation and a method.

    Returns
    -------
    float
        1 for intervals as long as those of pooled scores.
    """
    pairs = method_pairs(summary, scenario, method, CENTRALISED)
    return float(np.mean([ours["length"] / pooled["length"] for ours, pooled in pairs]))


def method_pairs(
    summary: Rows, scenario: str, one: str, other: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The rows of two methods on the same data set and model.

    Parameters
    ----------
    summary : list of dict
        What `summarise` found.
    scenario, one, other : str
        Names of a federation and of two methods.

    Yields
    ------
    tuple of dict
        A row of each.
    """
    for row in select(summary, scenario=scenario, method=one):
        same = {"dataset": row["dataset"], "model": row["model"]}
        yield row, select(summary, scenario=scenario, method=other, **same)[0]


# -- claims about private calibration ------------------------------------------------------------------------


def _private_claim(private: Rows, dataset: str, model: str, method: str) -> Claim:
    rows = select(private, dataset=dataset, model=model, method=method)
    found = [select(rows, epsilon=epsilon)[0] for epsilon in EPSILONS]
    errors = [row["coverage_std"] / np.sqrt(row["n_splits"]) for row in found]
    shown = ", ".join(
        f"{row['coverage']:.3f} ± {error:.3f}" + (" (no plan: infinite)" if np.isinf(row["length"]) else "")
        for row, error in zip(found, errors, strict=True)
    )
    return Claim(
        f"{dataset}, {model}, {_ANALYSES[method]}: coverage above .90, growing as ε falls from 10 to 5 to 1",
        shown,
        _growing([row["coverage"] for row in found], errors, [row["length"] for row in found]),
    )


def _growing(coverage: Sequence[float], errors: Sequence[float], lengths: Sequence[float]) -> str:
    """No if there is no plan, or if it is contradicted by more than two errors; yes if it is as said."""
    steps = list(zip(coverage, coverage[1:], errors, errors[1:], strict=False))
    above = all(value >= 0.9 - 2 * error for value, error in zip(coverage, errors, strict=True))
    if np.isinf(lengths).any() or not above or any(b < a - 2 * np.hypot(x, y) for a, b, x, y in steps):
        return NO
    return YES if min(coverage) >= 0.9 and all(b >= a for a, b, _, _ in steps) else CONSISTENT
