"""What the paper says, what we found, and whether that agrees, judged with standard errors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fedconformal._text import listed
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
from fedconformal.experiments._store import Rows, distinct, select

YES, NO, CONSISTENT, TOO_FEW = "yes", "**no**", "consistent", "too few splits to say"
ENOUGH_SPLITS = 10
_ABOVE = (0.9, 0.915)
"""What "just above .90" is taken to mean."""
_CLOSE, _ALIKE, _SLIGHTLY = 0.01, 0.03, 1.5
"""How far apart close coverages and close lengths may be, and how many times as large is slightly larger."""
_ERRORS, _ERRORS_OF_MANY = 2.0, 3.0
"""Standard errors that refute a claim, and one about every pair of a data set and a model."""
_BY_NAME = {method.name: method for method in METHODS}
_ANALYSES = {PAPER: "the paper's analysis", TIGHT: "our analysis, free slopes"}

Keyed = Mapping[tuple[str, str, int], dict[str, Any]]
"""Rows of one federation and method by data set, model and split."""


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
        ``yes``, ``consistent`` (not as said, but within the errors), ``no``, or that there are too few splits
        to say; of a private method also where it has no plan.
    """

    words: str
    found: str
    verdict: str


def claims(rows: Rows) -> list[Claim]:
    """Every claim that the rows allow to check.

    Parameters
    ----------
    rows : list of dict
        Of every split, as `run` gives them.

    Returns
    -------
    list of Claim
        Those of each federation, then those of both, then those of private calibration.
    """
    found: list[Claim] = []
    scenarios = [scenario for scenario in (MANY, FEW) if select(rows, scenario=scenario)]
    for scenario in scenarios:
        found += _calibration_claims(select(rows, scenario=scenario), scenario)
    if len(scenarios) == 2:
        found.append(_similar(rows))
    private = select(rows, scenario=PRIVATE)
    for name, model in dict.fromkeys((row["dataset"], row["model"]) for row in private):
        found += [_private_claim(private, name, model, method) for method in _ANALYSES]
    return found


# -- errors and verdicts -------------------------------------------------------------------------------------


class Estimate(NamedTuple):
    """A mean over data sets and models, and its standard error."""

    value: float
    error: float


def estimate(values: Mapping[tuple[str, str, int], float]) -> Estimate:
    """The mean over pairs of a data set and a model, and its standard error over splits.

    Splits of different data sets are independent; the models of one data set see the same splits, so their
    values are averaged split by split before the spread over splits is taken.

    Parameters
    ----------
    values : mapping from tuple to float
        By data set, model and split.

    Returns
    -------
    Estimate
    """
    pairs = list(dict.fromkeys((dataset, model) for dataset, model, _ in values))
    total, variance = 0.0, 0.0
    for name in dict.fromkeys(dataset for dataset, _ in pairs):
        models = [model for dataset, model in pairs if dataset == name]
        splits = sorted({split for dataset, _, split in values if dataset == name})
        sums = np.array([sum(values[name, model, split] for model in models) for split in splits])
        total += sums.mean()
        variance += sums.var(ddof=1) / len(sums) if len(sums) > 1 else 0.0
    return Estimate(total / len(pairs), float(np.sqrt(variance)) / len(pairs))


def judged(margins: Sequence[Estimate], n_splits: int, errors: float = _ERRORS) -> str:
    """What to say of something that holds if none of these margins is negative.

    Parameters
    ----------
    margins : sequence of Estimate
        By how much each part of what is said holds.
    n_splits : int
        What was averaged over.
    errors : float
        How many standard errors refute it.

    Returns
    -------
    str
        Yes if no margin is negative, no if one is by so many errors, consistent in between.
    """
    if all(margin.value >= 0 for margin in margins):
        return YES
    if n_splits < ENOUGH_SPLITS:
        return TOO_FEW
    return NO if any(margin.value < -errors * margin.error for margin in margins) else CONSISTENT


def just_above(found: Estimate, law: float, n_splits: int) -> str:
    """Whether a mean coverage is just above .90.

    Parameters
    ----------
    found : Estimate
        What was measured.
    law : float
        The mean of the exact law.
    n_splits : int
        What was averaged over.

    Returns
    -------
    str
        Yes if the law says so, and what was measured agrees with the law and could tell; no if the law or
        the 95 % interval lies beyond.
    """
    (low, high), reach = _ABOVE, _ERRORS * found.error
    if not low <= law <= high:
        return NO
    if found.value + reach < low or found.value - reach > high:
        return NO if n_splits >= ENOUGH_SPLITS else TOO_FEW
    return YES if abs(found.value - law) <= reach <= (high - low) / 2 else CONSISTENT


def _keyed(rows: Rows, scenario: str, method: str) -> Keyed:
    found = select(rows, scenario=scenario, method=method)
    return {(row["dataset"], row["model"], row["split"]): row for row in found}


def _difference(one: Keyed, other: Keyed, column: str) -> Estimate:
    """Of two methods on the same splits and fits."""
    return estimate({key: row[column] - other[key][column] for key, row in one.items()})


def _pairs(keyed: Keyed) -> dict[tuple[str, str], list[tuple[str, str, int]]]:
    """The keys of each pair of a data set and a model."""
    found: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
    for key in keyed:
        found.setdefault(key[:2], []).append(key)
    return found


def _part(keyed: Keyed, keys: Sequence[tuple[str, str, int]]) -> Keyed:
    return {key: keyed[key] for key in keys}


def _n_splits(rows: Rows) -> int:
    return len(distinct(rows, "split"))


# -- claims about calibration --------------------------------------------------------------------------------


def _calibration_claims(rows: Rows, scenario: str) -> Iterator[Claim]:
    ours, pooled = _keyed(rows, scenario, QQ), _keyed(rows, scenario, CENTRALISED)
    n_splits = _n_splits(rows)
    found, law = mean_coverage(rows, scenario, QQ), _over_pairs(ours, _law_mean)
    yield Claim(
        f"{scenario}: mean coverage of FedCP-QQ just above .90",
        f"{_shown(found)}; by the law {law:.4f}",
        just_above(found, law, n_splits),
    )
    apart, ratio = _difference(ours, pooled, "coverage"), length_ratio(rows, scenario, QQ)
    yield Claim(
        f"{scenario}: FedCP-QQ close to centralised in coverage and length",
        f"coverage higher by {_shown(apart)}, intervals {_shown(ratio, 3)} times as long",
        judged([_within(apart, _CLOSE), _within(ratio, _ALIKE, 1.0)], n_splits),
    )
    yield _spread_claim(rows, scenario, n_splits)
    for name in (AVERAGE, AVERAGE_NEXT):
        yield _average_claim(rows, scenario, name)
    yield from _our_claims(rows, scenario)


def _shown(found: Estimate, digits: int = 4) -> str:
    return f"{found.value:.{digits}f} ± {found.error:.{digits}f}"


def _within(found: Estimate, reach: float, centre: float = 0.0) -> Estimate:
    """By how much something lies within a reach of a centre."""
    return Estimate(reach - abs(found.value - centre), found.error)


def mean_coverage(rows: Rows, scenario: str, method: str) -> Estimate:
    """The mean coverage over data sets and models.

    Parameters
    ----------
    rows : list of dict
        Of every split.
    scenario, method : str
        Names of a federation and a method.

    Returns
    -------
    Estimate
    """
    return estimate({key: row["coverage"] for key, row in _keyed(rows, scenario, method).items()})


def coverage_spread(rows: Rows, scenario: str, method: str) -> Estimate:
    """The standard deviation of the coverage over splits, averaged over data sets and models.

    Parameters
    ----------
    rows : list of dict
        Of every split.
    scenario, method : str
        Names of a federation and a method.

    Returns
    -------
    Estimate
        Its error is that of a normal sample's, and added up over the models of one data set as if they were
        one.
    """
    keyed = _keyed(rows, scenario, method)
    spreads: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    for (dataset, _), keys in _pairs(keyed).items():
        values = [keyed[key]["coverage"] for key in keys]
        spreads.setdefault(dataset, []).append(float(np.std(values, ddof=1)) if len(keys) > 1 else 0.0)
        counts[dataset] = len(keys)
    n_pairs = sum(map(len, spreads.values()))
    error = np.sqrt(sum(sum(found) ** 2 / max(1, 2 * (counts[name] - 1)) for name, found in spreads.items()))
    return Estimate(sum(map(sum, spreads.values())) / n_pairs, float(error) / n_pairs)


def _spread_claim(rows: Rows, scenario: str, n_splits: int) -> Claim:
    spread, less = (coverage_spread(rows, scenario, name) for name in (QQ, CENTRALISED))
    law, law_less = (law_spread(rows, scenario, name) for name in (QQ, CENTRALISED))
    # Both have the same splits, so the error of the difference is at most this one.
    error = float(np.hypot(spread.error, less.error))
    margins = [
        Estimate(spread.value - less.value, error),
        Estimate(_SLIGHTLY * less.value - spread.value, error),
        Estimate(law - law_less, 0.0),
    ]
    return Claim(
        f"{scenario}: slightly larger standard deviation than centralised",
        f"over splits {_shown(spread)} and {_shown(less)}; by the law, without the noise of the test sets, "
        f"{law:.4f} and {law_less:.4f}",
        judged(margins, n_splits),
    )


def _average_claim(rows: Rows, scenario: str, name: str) -> Claim:
    averaged, ours = _keyed(rows, scenario, name), _keyed(rows, scenario, QQ)
    pairs = _pairs(averaged)
    margins = {
        (column, pair): _difference(_part(averaged, keys), _part(ours, keys), column)
        for column in ("coverage", "length")
        for pair, keys in pairs.items()
    }
    not_so = {where: margin for where, margin in margins.items() if margin.value <= 0}
    wider, longer = (len(pairs) - sum(c == column for c, _ in not_so) for column in ("coverage", "length"))
    words = f"higher coverage in {wider} and longer in {longer} of {len(pairs)} pairs of data set and model"
    for (column, pair), margin in not_so.items():
        words += f"; {column} of {' '.join(pair)}: {margin.value:+.3f} ± {margin.error:.3f}"
    # As large is not larger.
    asked = [Estimate(m.value if m.value else -1e-300, m.error) for m in margins.values()]
    return Claim(
        f"{scenario}: {name} has higher coverage and length on all data sets",
        words,
        judged(asked, _n_splits(rows), _ERRORS_OF_MANY),
    )


def _our_claims(rows: Rows, scenario: str) -> Iterator[Claim]:
    for name, other in ((STABLE, QQ), (THREE, STABLE)):
        spreads = [coverage_spread(rows, scenario, method).value for method in (name, other)]
        laws = [_over_pairs(_keyed(rows, scenario, method), _law_distance) for method in (name, other)]
        yield Claim(
            f"{scenario}, ours: coverage of {name} closer to the level than that of {other}",
            f"root of the mean square by the law {laws[0]:.4f} and {laws[1]:.4f}; std over splits, with the "
            f"noise of the test sets, {spreads[0]:.4f} and {spreads[1]:.4f}",
            YES if laws[0] <= laws[1] else NO,
        )


def _similar(rows: Rows) -> Claim:
    many, few = (_keyed(rows, scenario, QQ) for scenario in (MANY, FEW))
    means = [mean_coverage(rows, scenario, QQ).value for scenario in (MANY, FEW)]
    ratios = [length_ratio(rows, scenario, QQ) for scenario in (MANY, FEW)]
    many_ratio, few_ratio = ratios
    error = float(np.hypot(many_ratio.error, few_ratio.error))
    apart = Estimate(many_ratio.value - few_ratio.value, error)
    return Claim(
        "FedCP-QQ: similar for m >> n and m << n",
        f"coverage {means[0]:.4f} and {means[1]:.4f}, length {ratios[0].value:.3f} and {ratios[1].value:.3f} "
        "times that of centralised",
        judged(
            [_within(_difference(many, few, "coverage"), _CLOSE), _within(apart, _ALIKE)], _n_splits(rows)
        ),
    )


def length_ratio(rows: Rows, scenario: str, method: str) -> Estimate:
    """Mean length divided by that of centralised calibration, averaged over data sets and models.

    Parameters
    ----------
    rows : list of dict
        Of every split.
    scenario, method : str
        Names of a federation and a method.

    Returns
    -------
    Estimate
        1 for intervals as long as those of pooled scores.
    """
    ours, pooled = _keyed(rows, scenario, method), _keyed(rows, scenario, CENTRALISED)
    ratios: dict[tuple[str, str, int], float] = {}
    for keys in _pairs(ours).values():
        scale = float(np.mean([pooled[key]["length"] for key in keys]))
        ratio = float(np.mean([ours[key]["length"] for key in keys])) / scale
        # The error of a ratio of means: that of the mean of these values, whose own mean is the ratio.
        for key in keys:
            ratios[key] = ratio + (ours[key]["length"] - ratio * pooled[key]["length"]) / scale
    return estimate(ratios)


# -- the exact laws ------------------------------------------------------------------------------------------


def law_spread(rows: Rows, scenario: str, method: str) -> float:
    """Standard deviation of the coverage given the calibration data, without the noise of a test set.

    Parameters
    ----------
    rows : list of dict
        Of every split.
    scenario, method : str
        Names of a federation and a method.

    Returns
    -------
    float
        The mean over data sets and models; nan for a method without a law.
    """
    return _over_pairs(_keyed(rows, scenario, method), _law_std)


def _over_pairs(keyed: Keyed, value: Any) -> float:
    """The mean of something over pairs of a data set and a model."""
    return float(np.mean([value(keyed[keys[0]]) for keys in _pairs(keyed).values()]))


def _law_mean(row: dict[str, Any]) -> float:
    return _moments(*_asked(row))[0]


def _law_std(row: dict[str, Any]) -> float:
    return _moments(*_asked(row))[1]


def _law_distance(row: dict[str, Any]) -> float:
    """The root of the mean square distance of the coverage from the level, by the law."""
    mean, std = _moments(*_asked(row))
    return float(np.hypot(std, mean - row["confidence_level"]))


def _asked(row: dict[str, Any]) -> tuple[Method, int, int, float]:
    return _BY_NAME[row["method"]], row["n_sites"], row["n_points"], row["confidence_level"]


@cache
def _moments(method: Method, n_sites: int, n_points: int, level: float) -> tuple[float, float]:
    law = method.law(n_sites, n_points, level)
    return (float("nan"), float("nan")) if law is None else (law.mean(), law.std())


# -- claims about private calibration ------------------------------------------------------------------------


def _private_claim(private: Rows, dataset: str, model: str, method: str) -> Claim:
    rows = select(private, dataset=dataset, model=model, method=method)
    by_epsilon = {epsilon: _keyed(select(rows, epsilon=epsilon), PRIVATE, method) for epsilon in EPSILONS}
    planned = [
        epsilon
        for epsilon, keyed in by_epsilon.items()
        if all(np.isfinite(row["length"]) for row in keyed.values())
    ]
    coverages = {
        epsilon: estimate({key: row["coverage"] for key, row in by_epsilon[epsilon].items()})
        for epsilon in planned
    }
    shown = ", ".join(
        _shown(coverages[epsilon], 3) if epsilon in planned else "no plan (infinite)" for epsilon in EPSILONS
    )
    above = [Estimate(found.value - 0.9, found.error) for found in coverages.values()]
    growing = [
        _difference(by_epsilon[less], by_epsilon[more], "coverage") for more, less in pairwise(planned)
    ]
    return Claim(
        f"{dataset}, {model}, {_ANALYSES[method]}: coverage above .90, growing as ε falls from 10 to 5 to 1",
        shown,
        _where(judged([*above, *growing], _n_splits(rows)), planned),
    )


def _where(verdict: str, planned: Sequence[float]) -> str:
    """A verdict, and for which epsilons it is one if some have no plan."""
    lacking = [epsilon for epsilon in EPSILONS if epsilon not in planned]
    if not lacking:
        return verdict
    nothing = f"**no plan** at ε = {listed([f'{epsilon:g}' for epsilon in lacking])}"
    if not planned:
        return nothing
    return f"{verdict} at ε = {listed([f'{epsilon:g}' for epsilon in planned])}; {nothing}"
