"""Do the sites look alike? A test from the one number that each of them sent.

Without any assumption nobody can tell: the reports of sites with equal sizes are independent draws of one
law, and that law may be any continuous one. A test whose false-alarm rate is a for every distribution of
scores finds one odd site with probability at most e * a, however odd it is (docs/heterogeneity.md has the
proof). So something must be fixed: reference scores, a reference distribution, or the shape of the tail.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from fedconformal import _validation, server
from fedconformal.documents import Plan, Refusal, Report
from fedconformal.heterogeneity._counting import holm
from fedconformal.heterogeneity._levels import level_index
from fedconformal.heterogeneity._shifts import Scores
from fedconformal.heterogeneity._shifts import reference as named
from fedconformal.laws._sites import Floats, Ints

_DRAWS = 20_000_000  # simulated reports, in all
_FEWEST = 4

Assumption = Literal["reference scores", "reference distribution", "exponential tail"]


@dataclass(frozen=True)
class Finding:
    """One site beside the others.

    ``position`` is the share of reference scores below its report, or, without a reference, how many robust
    standard deviations it lies above the middle of the sites. ``p_value`` is adjusted for looking at all
    sites.
    """

    site: str
    n: int
    value: float
    position: float
    p_value: float
    stands_out: bool


@dataclass(frozen=True)
class Comparison:
    """Which sites stand out.

    If all sites are alike and the assumption holds, a site is named with probability at most ``false_alarm``.
    """

    assumption: Assumption
    false_alarm: float
    sites: tuple[Finding, ...]
    left_out: tuple[str, ...]
    """Sites too small for their rank: whatever their scores, they send Infinity."""
    refused: tuple[Refusal, ...] = ()
    """Reports that do not answer the plan."""

    @property
    def p_value(self) -> float:
        """Of the hypothesis that all sites are alike (and, with a reference, like it)."""
        return min(finding.p_value for finding in self.sites)

    @property
    def odd(self) -> tuple[Finding, ...]:
        """The sites that stand out, the most surprising first."""
        return tuple(
            sorted((f for f in self.sites if f.stands_out), key=lambda f: (f.p_value, -abs(f.position)))
        )

    def sentence(self) -> str:
        """The result in plain words."""
        rule = f"(chance of a false alarm: {self.false_alarm:g}; assumed: {_WORDS[self.assumption]})"
        if not self.odd:
            return f"No site stands out among {len(self.sites)} {rule}."
        who = ", ".join(finding.site for finding in self.odd)
        verb = "stands" if len(self.odd) == 1 else "stand"
        return f"{len(self.odd)} of {len(self.sites)} sites {verb} out: {who} {rule}."


_WORDS: dict[Assumption, str] = {
    "reference scores": "the reference scores are distributed as a typical site's",
    "reference distribution": "the reference distribution is a typical site's",
    "exponential tail": "around the threshold the scores have an exponential tail",
}


def compare_sites(
    plan: Plan,
    reports: Iterable[Report],
    *,
    reference: "str | ArrayLike | Scores | None" = None,
    confidence_level: float | None = None,
    false_alarm: float = 0.05,
    seed: int = 0,
) -> Comparison:
    """Find sites whose report does not fit the others.

    Parameters
    ----------
    plan, reports : as for ``calibrate``; reports that do not answer the plan are left out.
    reference : scores of a typical site, such as the coordinator's own (the test is then exact whatever
        their distribution), or a distribution (a name as for ``what_if``, or anything with ``cdf`` and
        ``ppf``). Without it the sites are compared with each other, on the assumption that above some
        point the scores have an exponential tail, of any position and scale.
    confidence_level : which level of the plan, if it has several; the first by default.
    false_alarm : the probability with which any site may be named if all are alike.
    seed : of the simulation behind the comparison without a reference.
    """
    alarm = float(_validation.fraction("false_alarm", false_alarm))
    if plan.privacy is not None:
        raise ValueError("private reports cannot be compared: their noise hides what would be looked for")
    i = level_index(plan, confidence_level)
    given = {report.digest: report for report in reports}
    calibration = server.calibrate(plan, given.values(), on_refused="skip")
    counted = [given[answer.report] for answer in calibration.answers]
    used = [report for report in counted if report.ranks[i] <= report.n]
    values = np.array([report.values[i] for report in used])
    sizes = np.array([report.n for report in used])
    ranks = np.array([report.ranks[i] for report in used])
    assumption: Assumption
    if reference is None:
        assumption = "exponential tail"
        least = 2 / (1 + _n_draws(len(used)))
        if alarm < least:
            raise ValueError(
                f"false_alarm must be at least {least:g} without a reference, the simulation sees no less; "
                f"got {alarm:g}"
            )
        position, p = _with_each_other(values, sizes, ranks, seed)
    elif not isinstance(reference, str) and not hasattr(reference, "cdf"):
        assumption = "reference scores"
        position, p = _with_scores(values, sizes, ranks, np.asarray(reference, dtype=float))
    else:
        assumption = "reference distribution"
        position, p = _with_distribution(values, sizes, ranks, named(reference).cdf)
    findings = tuple(
        Finding(report.site, report.n, float(value), float(where), float(chance), bool(chance <= alarm))
        for report, value, where, chance in zip(used, values, position, p, strict=True)
    )
    silent = tuple(report.site for report in counted if report.ranks[i] > report.n)
    return Comparison(assumption, alarm, findings, silent, calibration.refused)


def _with_scores(values: Floats, n: Ints, l: Ints, scores: Floats) -> tuple[Floats, Floats]:
    """Rank of each report among reference scores, whose law is known exactly (negative hypergeometric).

    At most k of N reference scores lie below the l-th smallest of n others if and only if among the k + l
    smallest of all N + n at least l are of the n. With ties both tails count them against a finding.
    """
    _some(values)
    if scores.ndim != 1 or scores.size == 0 or np.isnan(scores).any():
        raise ValueError("reference scores must be a flat array of numbers, at least one")
    ordered = np.sort(scores)
    below, at_most = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    total = scores.size + n
    low = stats.hypergeom.sf(l - 1, total, n, at_most + l)
    high = np.where(below > 0, stats.hypergeom.cdf(l - 1, total, n, np.maximum(below - 1, 0) + l), 1.0)
    return at_most / scores.size, _two_sided(low, high)


def _with_distribution(
    values: Floats, n: Ints, l: Ints, cdf: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Under the reference each report is a Beta(l, n - l + 1) variable on the scale of coverage."""
    _some(values)
    u = np.asarray(cdf(values), dtype=float)
    low, high = special.betainc(l, n - l + 1, u), special.betaincc(l, n - l + 1, u)
    return u, _two_sided(low, high)


def _with_each_other(values: Floats, n: Ints, l: Ints, seed: int) -> tuple[Floats, Floats]:
    """Distance from the sites' median in robust standard deviations, beside simulated federations.

    With an exponential tail F^{-1}(u) = a - b log(1 - u) a report is a + b E, and E, the l-th smallest of n
    exponential variables, has a known law. The distances do not depend on a and b, so the simulation is
    exact, and a p-value (1 + how many simulated are as large) / (1 + how many there are) is valid.
    """
    if values.size < _FEWEST:
        raise ValueError(
            f"without a reference at least {_FEWEST} sites with a finite report are needed, got {values.size}"
        )
    if not np.isfinite(values).all() or np.unique(values).size < values.size:
        raise ValueError(
            "reports that are equal, or infinite, have no exponential tail: give reference scores"
        )
    spread = _spread(n, l)
    largest = _simulated(tuple(n.tolist()), tuple(l.tolist()), seed)
    distances = _distances(values, spread)
    larger = largest.size - np.searchsorted(largest, np.abs(distances), side="left")
    return distances, (1 + larger) / (1 + largest.size)


def _spread(n: Ints, l: Ints) -> Floats:
    """Standard deviation of the l-th smallest of n exponential variables."""
    variance: Floats = special.polygamma(1, n - l + 1) - special.polygamma(1, n + 1)
    return np.sqrt(variance)


def _n_draws(m: int) -> int:
    """How many federations of m sites are simulated."""
    return int(np.clip(_DRAWS // max(m, 1), 999, 9999))


@lru_cache(maxsize=16)
def _simulated(sizes: tuple[int, ...], ranks: tuple[int, ...], seed: int) -> Floats:
    """Largest distances in federations of sites that are alike, in order."""
    n, l = np.array(sizes), np.array(ranks)
    draws = _n_draws(n.size)
    rng = np.random.default_rng(seed)
    largest = np.empty(draws)
    step = max(1, 2_000_000 // n.size)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        exponential = -np.log1p(-rng.beta(l, n - l + 1, size=(size, n.size)))
        largest[start : start + size] = np.abs(_distances(exponential, _spread(n, l))).max(axis=1)
    return np.sort(largest)


def _distances(values: Floats, spread: Floats) -> Floats:
    """(value - median) / (its spread x the median of such ratios): the same for a + b * values."""
    away = (values - np.median(values, axis=-1, keepdims=True)) / spread
    unit = np.median(np.abs(away), axis=-1, keepdims=True)
    return away / unit * 0.6744897501960817


def _two_sided(low: Floats, high: Floats) -> Floats:
    """Adjusted p-values of reports that may be too small or too large."""
    return np.array(holm(np.minimum(1.0, 2 * np.minimum(low, high)).tolist()))


def _some(values: Floats) -> None:
    if values.size == 0:
        raise ValueError("no site sent a finite report: there is nothing to compare")
