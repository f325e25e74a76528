"""A promise under watch: the checks of all sites, period by period, and what they show
whenever one looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedconformal._text import count, listed, nearest_percent, percent, plain_spaces
from fedconformal._util import Floats, Ints, fraction, integer
from fedconformal.documents import Check, Plan, period_text, read_period
from fedconformal.laws import CoverageLaw
from fedconformal.messages import law
from fedconformal.monitoring import _evidence
from fedconformal.monitoring._answer import TOGETHER, add_up_checks
from fedconformal.monitoring._check import (
    find_counts,
    left_out_note,
    refuse_misfits,
)
from fedconformal.monitoring._coverage import Checked, common_thresholds, interval
from fedconformal.monitoring._evidence import Counts
from fedconformal.planning import PROMISES
from fedconformal.privacy import CountNoise

_RATE = 0.05  # of wrong names among those of e-BH, on average
# share of the error that is spent on the calibration, where its distribution is a bound
_SPENT = 0.5
_MOST_LINES = 12  # about single sites
_RUNS, _MOST_PERIODS = 2000, 60
_CERTAIN = 0.99  # of the ranges of simulated figures


@dataclass(frozen=True)
class WatchPoint:
    """One period of a row: its count, and the evidence after it.

    Attributes
    ----------
    period : str
        A month, or first and last day.
    n, covered : int
        New cases, and how many were covered, perhaps with noise.
    noise : tuple of CountNoise
        Noise in the count; empty if exact.
    evidence : float
        Evidence (E) so far that the coverage is below the level.
    """

    period: str
    n: int
    covered: int
    noise: tuple[CountNoise, ...]
    evidence: float

    @property
    def interval(self) -> tuple[float, float] | None:
        """Interval for the coverage in this period, at 95 % confidence; None for a sum
        of noisy counts.
        """
        if len(self.noise) > 1:
            return None
        return interval(self.n, self.covered, Fraction("0.95"), *self.noise)


@dataclass(frozen=True)
class WatchRow:
    """Findings about one site, or one group of its cases, or all sites together, at one
    level.

    Attributes
    ----------
    site : str or None
        Its name; None for all sites together.
    group : str or None
        Group of cases; None for all.
    confidence_level : float
        The level.
    points : tuple of WatchPoint
        One for each period.
    coverage : float
        Share covered so far; of a mixture, of the sites by their shares.
    lower : float
        Lower bound of the mean coverage so far, which holds at all times. Of a mixture,
        in which a site that did not report in a period counts as not covered, it holds
        at the ends of periods, when all their reports are in.
    evidence : float
        Evidence (E) so far that the coverage is below the level.
    alarm : str or None
        Period in which it first reached 1 / ``false_alarm``.
    change : float or None
        Evidence that the coverage is lower than the calibration explains; None where
        that is not known.
    changed : str or None
        Period in which this first reached 1 / ``false_alarm``.
    named : bool
        True if e-BH names the site, among all sites and groups of this level.
    false_alarm : float
        Probability with which a row ever alarms although its coverage is at least the
        level.
    is_mixture : bool
        True if it is about a mixture of the sites.
    """

    site: str | None
    group: str | None
    confidence_level: float
    points: tuple[WatchPoint, ...]
    coverage: float
    lower: float
    evidence: float
    alarm: str | None
    change: float | None
    changed: str | None
    named: bool
    false_alarm: float
    is_mixture: bool = False

    @property
    def n(self) -> int:
        """Number of new cases."""
        return sum(point.n for point in self.points)

    @property
    def covered(self) -> int:
        """Number of covered cases, perhaps with noise."""
        return sum(point.covered for point in self.points)

    @property
    def name(self) -> str:
        """Name of the site, and of the group where it is not all cases."""
        site = TOGETHER if self.site is None else self.site
        return site if self.group is None else f"{site}, {self.group}"

    @property
    def cause(self) -> str:
        """Sentence about the cause of an alarm; empty without one, or where nothing is
        known.
        """
        if self.alarm is None or self.change is None:
            return ""
        if self.changed is not None:
            return " Calibrations rarely come out this low: something has changed."
        return " A calibration that came out low can explain this, and so can a change."

    @property
    def verdict(self) -> str:
        """Finding in a few words: an alarm, a lower bound that reaches the level, or
        else the evidence so far, regardless of the number of cases.
        """
        level = self.confidence_level
        if self.alarm is not None:
            return f"below {percent(level)}, alarm since {self.alarm}"
        if self.lower >= level:
            return f"at least {percent(level)}"
        return "no alarm so far"

    @property
    def evidence_text(self) -> str:
        """Evidence, rounded down, beside that of an alarm: "E = 19.6, alarm at 20"."""
        needed = 1 / self.false_alarm
        return f"E = {floor_digits(self.evidence)}, alarm at {needed:.3g}"


@dataclass(frozen=True)
class Watch:
    """All checks of a calibration over time.

    Attributes
    ----------
    rows : tuple of WatchRow
        For each level all sites together, where the promise allows it, then each site,
        then their groups.
    false_alarm : float
        Probability with which one row ever alarms although its coverage is at least the
        level.
    since, until : str
        First and last period that was reported.
    due : str
        The period that follows.
    note : str
        Sentence about cases that are not among the counts; empty where all are.
    """

    rows: tuple[WatchRow, ...]
    false_alarm: float
    since: str
    until: str
    due: str
    note: str = ""

    @property
    def alarms(self) -> tuple[WatchRow, ...]:
        """Rows whose evidence has reached 1 / ``false_alarm``."""
        return tuple(row for row in self.rows if row.alarm is not None)

    @property
    def bound_sentence(self) -> str:
        """Sentence about when the lower bounds of the rows hold."""
        confidence = percent(float(1 - Fraction(str(self.false_alarm))))
        mixture = ""
        if any(row.is_mixture for row in self.rows):
            mixture = (
                "; that of the mixture of all sites at the end of each period, when"
                " all its reports are in"
            )
        return (
            "Each lower bound is below the mean coverage of the cases so far at all"
            f" times, with {confidence} confidence{mixture}."
        )

    @property
    def n(self) -> int:
        """Number of new cases of all sites."""
        first = self.rows[0].confidence_level
        rows = [row for row in self.rows if row.confidence_level == first]
        rows = [
            row for row in rows if row.site is not None
        ] or rows  # masked checks have the sum alone
        whole = {row.site for row in rows if row.group is None}
        return sum(row.n for row in rows if row.group is None or row.site not in whole)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Findings in plain words: for each level all sites together, then single
        sites.
        """
        return tuple(
            line
            for level in dict.fromkeys(row.confidence_level for row in self.rows)
            for line in self._describe(
                level, [row for row in self.rows if row.confidence_level == level]
            )
        )

    def _describe(self, level: float, rows: Sequence[WatchRow]) -> Iterator[str]:
        """Yield what was found at one level."""
        odds, sites = (
            f"1 in {1 / self.false_alarm:.3g}",
            [row for row in rows if row.site is not None],
        )
        for row in rows[: len(rows) - len(sites)]:
            cases = f"{count(row.n, 'case')}, {nearest_percent(row.coverage)} covered"
            apart = self.n - row.n
            if row.group is None and apart > 0:
                cases += f"; {apart:,} more in noisy answers by group are not pooled"
            yield (
                f"{row.name.capitalize()}: {row.verdict} ({cases}; {row.evidence_text};"
                f" false alarm at most {odds}, whenever you look).{row.cause}"
            )
        alarms = [row for row in sites if row.alarm is not None]
        for row in alarms[:_MOST_LINES]:
            yield (
                f"At {row.name}: {row.verdict} ({row.evidence_text}; false alarm at"
                f" this site at most {odds}, whenever you look).{row.cause}"
            )
        if len(alarms) > _MOST_LINES:
            yield f"And at {count(len(alarms) - _MOST_LINES, 'more site')}."
        if sites and not alarms:
            most = max(sites, key=lambda row: row.evidence)
            yield (
                "No alarm at any single site so far. The most evidence that one is"
                f" below {percent(level)} is at {most.name}: {most.evidence_text}."
            )
        elif len(sites) > 1:
            named, strict = (
                [row.name for row in sites if row.named],
                len(sites) / self.false_alarm,
            )
            yield (
                f"Among {len(sites):,} some alarms may be false. Named with at most"
                f" {percent(_RATE)} of the names wrong on average:"
                f" {listed(named) or 'none'}. The chance that evidence of any of them"
                f" ever reaches {strict:,.0f} by error is at most {odds}."
            )

    def sentence(self) -> str:
        """Describe the findings in plain words.

        Returns
        -------
        str
            Since when, how many cases, what was found, and when the next reports are
            due.
        """
        head = (
            f"{count(self.n, 'new case')} since {self.since}; the next reports are due"
            f" for {self.due}."
        )
        lines = [head, *self.sentences]
        if self.note:
            lines.append(self.note)
        return plain_spaces("\n".join(lines))


def watch(
    calibration: Checked, checks: Iterable[Check], *, false_alarm: float = 0.05
) -> Watch:
    """Put the checks of all periods together: coverage so far, and evidence that may be
    looked at any time.

    Looking every week at a p-value is not valid; the evidence (E) here is. If a site's
    coverage is at least the level, its E ever reaches 1 / ``false_alarm`` with a
    probability of at most ``false_alarm``, however often one looks; for an alarm at any
    of m sites with that probability, require m / ``false_alarm``. Assumed: every case
    is covered with at least the chance that is promised given those before it, sites
    are independent of each other, reports arrive in the order of their periods, and
    whether a period is reported does not depend on its result. For all sites together,
    a promise to a mixture is tested by the shares of its sites, never by pooled counts;
    a promise to a new site is about each site only.

    Parameters
    ----------
    calibration : Calibration
        The published calibration; of one with groups, one group:
        ``calibration["child"]``.
    checks : iterable of Check
        Made by `answer` with ``period``; exact or private.
    false_alarm : float
        Probability with which one row ever alarms wrongly.

    Returns
    -------
    Watch
        ``rows`` for all sites together and for each site, group and level, with
        ``coverage``, ``lower``, ``evidence``, ``alarm``, ``change`` and ``changed``;
        ``since``, ``due``, and a ``sentence()``.

    Raises
    ------
    ValueError
        If checks have no period, periods of a site overlap, or checks are of another
        calibration.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> rng = np.random.default_rng(0)
    >>> calibration = fc.conformalize({"A": rng.random(200), "B": rng.random(200)})
    >>> checks = [
    ...     fc.monitoring.answer(
    ...         calibration, scale * rng.random(100), site=site, period=f"2027-0{month}"
    ...     )
    ...     for site, scale in {"A": 1.0, "B": 1.3}.items()
    ...     for month in (1, 2, 3)
    ... ]
    >>> [(row.name, row.alarm) for row in fc.monitoring.watch(calibration, checks).rows]
    [('all sites together', '2027-01'), ('A', None), ('B', '2027-01')]
    """
    error, checks = float(fraction("false_alarm", false_alarm)), list(checks)
    if wrong := [check for check in checks if not isinstance(check, Check)]:
        raise TypeError(
            f"checks must be checks of this calibration, got {type(wrong[0]).__name__}"
        )
    is_sum, checks = (
        any(check.masked for check in checks),
        add_up_checks(calibration, checks),
    )
    refuse_misfits(calibration, checks, find_overlaps(checks))
    periods = sorted(
        {read_period(check.period or "") for check in checks},
        key=lambda days: days[::-1],
    )
    rows: list[WatchRow] = []
    tables = _tabulate(calibration, checks).items()
    for i in calibration.selected_levels:
        own = [
            row
            for group, table in tables
            for row in _watch_level(calibration, i, group, table, error)
        ]
        if is_sum:
            own = [replace(row, site=None) for row in own if row.site is not None]
        rows += _name_sites(own)
    first, last = min(periods), periods[-1]
    return Watch(
        tuple(rows),
        error,
        since=period_text(*first),
        until=period_text(*last),
        due=_next_period(*last),
        note=left_out_note(checks),
    )


def find_overlaps(checks: Sequence[Check]) -> list[str]:
    """Return a reason for each check without a period, and for each that overlaps
    another of its site.
    """
    reasons = [
        f"{check.site}: has no period" for check in checks if check.period is None
    ]
    by_site: dict[str, list[tuple[date, date]]] = {}
    for check in checks:
        if check.period is not None:
            by_site.setdefault(check.site, []).append(read_period(check.period))
    for site, days in by_site.items():
        latest, *later = sorted(days)
        for period in later:
            if period[0] <= latest[1]:
                reasons.append(
                    f"{site}: periods {period_text(*latest)} and {period_text(*period)}"
                    " overlap"
                )
            latest = max(latest, period, key=lambda days: days[1])
    return reasons


def _next_period(first: date, last: date) -> str:
    """Return the period of the same length that follows, the next month after a
    month.
    """
    if date.max - last <= last - first:
        return "no later period"
    start = last + timedelta(days=1)
    if read_period(first.isoformat()[:7]) == (first, last):
        return start.isoformat()[:7]
    return period_text(start, start + (last - first))


@dataclass(frozen=True, eq=False)
class _Table:
    """All counts of one group of cases at each level, in the order of time."""

    sites: tuple[str, ...]
    periods: tuple[str, ...]
    levels: tuple[Counts, ...]

    def points(self, level: int) -> Callable[[Ints, float], WatchPoint]:
        """Return a function that makes a point of batches that belong together, and of
        their evidence.
        """
        counts = self.levels[level]
        n, scale, covered = (
            counts.n.tolist(),
            counts.scale.tolist(),
            (counts.n - counts.missed).tolist(),
        )

        def make(batches: Ints, evidence: float) -> WatchPoint:
            own = batches.tolist()
            noise = tuple(CountNoise(scale[i]) for i in own if scale[i])
            sums = sum(n[i] for i in own), sum(covered[i] for i in own)
            return WatchPoint(self.periods[own[0]], *sums, noise, float(evidence))

        return make


def _tabulate(
    calibration: Checked, checks: Sequence[Check]
) -> dict[str | None, _Table]:
    """Return the counts of each group of cases, of all cases first; looks are the days
    on which any ends.
    """
    ends = [read_period(check.period or "")[1] for check in checks]
    looks = {day: i for i, day in enumerate(sorted(set(ends)))}
    by_group: dict[str | None, list[tuple[Any, ...]]] = {}
    for check, end in zip(checks, ends, strict=True):
        for counted in find_counts(calibration, check, has_total=True):
            scale = 0.0 if counted.noise is None else counted.noise.scale
            entry = (
                looks[end],
                counted.site,
                check.period,
                counted.n,
                counted.covered,
                scale,
            )
            by_group.setdefault(counted.group, []).append(entry)
    tables = {}
    for group in sorted(by_group, key=lambda group: (group is not None, group or "")):
        look, site, periods, *numbers = zip(*sorted(by_group[group]), strict=True)
        sites, row = np.unique(site, return_inverse=True)
        n, covered, noise = (np.array(column) for column in numbers)
        levels = [Counts(n, n - own, noise, np.array(look), row) for own in covered.T]
        tables[group] = _Table(tuple(sites.tolist()), periods, tuple(levels))
    return tables


def _watch_level(
    calibration: Checked, level: int, group: str | None, table: _Table, error: float
) -> list[WatchRow]:
    """Return the rows of all sites together and of each, for one group of cases at one
    level.
    """
    design = calibration.selected_designs[0]
    threshold = common_thresholds(calibration)[level]
    promise = PROMISES[design.promise]()
    asked = float(design.levels[level].confidence_level)
    counts, m = table.levels[level], len(table.sites)
    shares = {
        name: float(kind.share or 0) for kind in design.kinds for name in kind.names
    }
    own_shares = np.array([shares.get(site, 0.0) for site in table.sites])
    inside = counts
    if promise.bears_differing_sites:
        inside = _without_others(calibration, table.sites, counts)
    single, _ = _evidence.level_evidence(counts, 1 - asked, m)
    seats = calibration.n_answers
    _, together = _evidence.level_evidence(inside, 1 - asked, m, seats)
    if promise.takes_mixture:
        together = _evidence.mixture_evidence(counts, 1 - asked, own_shares)
    change, change_together = None, None
    if promise.is_for_each_case and group is None and threshold != math.inf:
        find = _find_change
        if len(calibration.selected_designs) > 1:
            find = _find_change_in_groups
        change, change_together = find(
            calibration, level, table.sites, counts, inside, error=error
        )
    lower = _evidence.lower_bounds(counts, error, m)
    points = table.points(level)
    rows = []
    for site, bound, batches in zip(
        table.sites, lower.tolist(), counts.by_row(), strict=True
    ):
        own = None if change is None else change[batches]
        path = [
            points(batches[i : i + 1], single[batches[i]]) for i in range(batches.size)
        ]
        rows.append(_make_row(site, group, asked, path, bound, own, error))
    if promise.is_for_each_case or promise.takes_mixture:
        path = [
            points(batches, value)
            for batches, value in zip(counts.by_look(), together, strict=True)
        ]
        whole = float(_evidence.lower_bounds(counts.pooled(), error, 1)[0])
        row = _make_row(None, group, asked, path, whole, change_together, error)
        if promise.takes_mixture:
            mean = (
                own_shares
                @ [row.coverage for row in rows]
                / max(own_shares.sum(), 1e-300)
            )
            bound = _evidence.mixture_lower_bound(counts, error, own_shares)
            row = replace(row, coverage=float(mean), lower=bound, is_mixture=True)
        rows.insert(0, row)
    return rows


def _without_others(
    calibration: Checked, sites: Sequence[str], counts: Counts
) -> Counts:
    """Return the counts without those of sites to which nothing was promised: as if
    their noise were infinite.

    With groups of several sites, a promise to each site is for cases of a group at the
    sites that answered for it. A site that did not answer for all groups has others.
    """
    promised = set(calibration.answered)
    if not calibration.whole.plan.grouping.by_site:
        for design in calibration.selected_designs:
            promised &= set(design.site_names or ())
    is_promised = np.isin(sites, sorted(promised))[counts.row]
    return replace(counts, scale=np.where(is_promised, counts.scale, np.inf))


Change = tuple[Floats | None, Floats | None]
"""Evidence of a change by batch, and for all sites together by look; None where no
distribution of the coverage is known.
"""


def _find_change(
    calibration: Checked,
    level: int,
    sites: Sequence[str],
    counts: Counts,
    inside: Counts,
    *,
    error: float,
) -> Change:
    """Return the evidence of a change where all cases have one threshold.

    Sites that are alike share one coverage, so their counts are pooled. Sites with
    coverages of their own have a distribution each: all of them are at least a low
    quantile at once, by the union bound.
    """
    design, m = calibration.selected_designs[0], len(sites)
    known = law(design, level)
    if known is None:
        return None, None
    if not PROMISES[design.promise].bears_differing_sites:
        return _evidence.change_evidence(counts, known)
    spent = [_SPENT * error, _SPENT * error / (design.n_sites or m)]
    own, all_at_once = np.clip(
        1 - np.asarray(known.ppf(spent)), 1e-9, 1 - 1e-9
    ).tolist()
    single, _ = _evidence.level_evidence(inside, own, m)
    _, together = _evidence.level_evidence(inside, all_at_once, m, design.n_sites)
    return single * (1 - _SPENT), together * (1 - _SPENT)


def _find_change_in_groups(
    calibration: Checked,
    level: int,
    sites: Sequence[str],
    counts: Counts,
    inside: Counts,
    *,
    error: float,
) -> Change:
    """Return the evidence of a change where groups of cases have their own thresholds.

    Each threshold has a distribution of its own. All coverages are at least a low
    quantile at once, by the union bound, and so is that of any mix of the groups. A
    site whose cases all have one threshold is compared with that threshold's own
    distribution.
    """
    quantiles: dict[str | None, float] = {}
    designs = calibration.selected_designs
    rate = _SPENT * error / len(designs)
    for part in calibration.selected_parts:
        if part.thresholds[level] == math.inf:  # which covers everything
            continue
        known = law(part.design, level)
        if known is None:
            return None, None
        quantiles[part.design.group] = _miss_at(known, rate)
    if not quantiles:
        return None, None
    worst, m = max(quantiles.values()), len(sites)
    single, _ = _evidence.level_evidence(inside, worst, m)
    _, together = _evidence.level_evidence(inside, worst, m, calibration.n_answers)
    grouping = calibration.whole.plan.grouping
    if grouping.by_site and not grouping.has_labels:
        for site, batches in zip(sites, counts.by_row(), strict=True):
            own = calibration.whole.by_group[site]
            known = law(own.design, level)
            if site in quantiles and known is not None:
                miss = _miss_at(known, _SPENT * error)
                single[batches] = _evidence.level_evidence(inside, miss, m)[0][batches]
    return single * (1 - _SPENT), together * (1 - _SPENT)


def _miss_at(known: CoverageLaw, probability: float) -> float:
    """Return the miss that the coverage given the data exceeds with this probability
    only.
    """
    return float(np.clip(1 - known.ppf(probability), 1e-9, 1 - 1e-9))


def _make_row(
    site: str | None,
    group: str | None,
    level: float,
    points: Sequence[WatchPoint],
    lower: float,
    change: Floats | None,
    error: float,
) -> WatchRow:
    def first_alarm(evidence: Iterable[float]) -> str | None:
        alarms = (
            point.period
            for point, value in zip(points, evidence, strict=True)
            if value * error >= 1
        )
        return next(alarms, None)

    return WatchRow(
        site,
        group,
        level,
        tuple(points),
        coverage=sum(point.covered for point in points)
        / sum(point.n for point in points),
        lower=lower,
        evidence=points[-1].evidence,
        alarm=first_alarm(point.evidence for point in points),
        change=None if change is None else float(change[-1]),
        changed=None if change is None else first_alarm(change),
        named=False,
        false_alarm=error,
    )


def _name_sites(rows: Sequence[WatchRow]) -> list[WatchRow]:
    """Return the rows of one level, with those named that e-BH finds among single
    sites.
    """
    single = [row for row in rows if row.site is not None]
    found = _evidence.discover(
        np.array([row.evidence for row in single]), _RATE
    ).tolist()
    named = {id(row) for row, is_found in zip(single, found, strict=True) if is_found}
    return [replace(row, named=id(row) in named) for row in rows]


# -- planning a watch ------------------------------------------------------------------


@dataclass(frozen=True)
class WatchPlan:
    """Simulated number of periods until a drop is found.

    Attributes
    ----------
    confidence_level, coverage : float
        The level, and the coverage to which it drops.
    cases : int
        New cases of each site and period.
    n_sites : int
        Sites at which it drops: all of them, or one.
    median, nine_in_ten : tuple of two ints
        Periods within which a half and nine in ten of the drops are found: ranges that
        hold the true figure with 99 % confidence; the largest figure means "that many
        or more".
    """

    confidence_level: float
    coverage: float
    cases: int
    n_sites: int
    median: tuple[int, int]
    nine_in_ten: tuple[int, int]

    def sentence(self) -> str:
        """Describe the result in plain words."""
        where = "at one site" if self.n_sites == 1 else f"at all {self.n_sites:,} sites"
        half, most = (_range_text(*ends) for ends in (self.median, self.nine_in_ten))
        return (
            f"With {count(self.cases, 'new case')} of each site in a period, a drop"
            f" from {percent(self.confidence_level)} to {percent(self.coverage)}"
            f" {where} is found within {half} (half of the time) and {most} (9 times in"
            " 10)."
        )


def floor_digits(value: float) -> str:
    """Write a number with three digits, rounded down: evidence of 19.99 is "19.9".

    Parameters
    ----------
    value : float
        The number, not negative.

    Returns
    -------
    str

    Examples
    --------
    >>> floor_digits(19.99), floor_digits(0.01239), floor_digits(4.5678e6)
    ('19.9', '0.0123', '4.56e+06')
    """
    if value <= 0:
        return "0"
    exact = Decimal(value)
    unit = Decimal(1).scaleb(exact.adjusted() - 2)
    return f"{float(exact.quantize(unit, rounding=ROUND_FLOOR)):.3g}"


def _range_text(low: int, high: int) -> str:
    figure = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"{figure if high < _MOST_PERIODS else f'{low} or more'}"
        f" period{'s' * (high > 1)}"
    )


def plan_watch(
    calibration: Checked | Plan,
    cases: int,
    coverage: float | None = None,
    *,
    false_alarm: float = 0.05,
) -> tuple[WatchPlan, ...]:
    """Simulate how soon a drop of the coverage is found, for each level: at all sites,
    and at one.

    Parameters
    ----------
    calibration : Calibration
        The calibration that will be watched, or its plan.
    cases : int
        New cases of each site in each period.
    coverage : float, optional
        Coverage after the drop, from the first period on; 5 points below each level by
        default.
    false_alarm : float
        As for `watch`.

    Returns
    -------
    tuple of WatchPlan
        From 2,000 seeded runs each.
    """
    from scipy import stats  # which nothing else here needs

    cases, error = (
        integer("cases", cases, low=1, high=10**7),
        float(fraction("false_alarm", false_alarm)),
    )
    design = calibration.selected_designs[0]
    promise, rng = PROMISES[design.promise](), np.random.default_rng(0)
    shares = [
        float(kind.share or 0) for kind in design.kinds for _ in range(kind.count)
    ]
    plans = []
    for i in calibration.selected_levels:
        level = float(design.levels[i].confidence_level)
        low = (
            max(0.0, round(level - 0.05, 9))
            if coverage is None
            else float(fraction("coverage", coverage))
        )
        if not low < level:
            raise ValueError(f"coverage must be below the level {level:g}, got {low:g}")
        m = len(shares) if promise.is_for_each_case or promise.takes_mixture else 1
        for n_sites in dict.fromkeys((m, 1)):
            weights = shares if promise.takes_mixture and n_sites > 1 else None
            first = np.sort(_simulate(level, low, cases, n_sites, weights, error, rng))
            ranges = []
            for share in (0.5, 0.9):
                ends = stats.binom.ppf(
                    [(1 - _CERTAIN) / 2, (1 + _CERTAIN) / 2], _RUNS, share
                ).astype(int)
                ranges.append(
                    tuple(first[np.clip([ends[0] - 1, ends[1]], 0, _RUNS - 1)].tolist())
                )
            plans.append(WatchPlan(level, low, cases, n_sites, *ranges))
    return tuple(plans)


def _simulate(
    level: float,
    low: float,
    cases: int,
    n_sites: int,
    shares: Sequence[float] | None,
    error: float,
    rng: np.random.Generator,
) -> Ints:
    """Return the period of the first alarm in each run; of all sites by their product,
    half of the evidence.

    Leaving the average of the sites out can only delay an alarm.
    """
    size = _MOST_PERIODS, _RUNS
    look, run = (places.ravel() for places in np.indices(size))
    if shares is None:
        n = np.full(look.size, cases * n_sites)
        counts = Counts(n, rng.binomial(n, 1 - low), np.zeros(look.size), look, run)
        evidence, _ = _evidence.level_evidence(counts, 1 - level, _RUNS)
        evidence /= 2 if n_sites > 1 else 1
    else:
        drawn = [
            share * rng.binomial(cases, 1 - low, size=look.size) for share in shares
        ]
        evidence = _evidence.bet(
            np.sum(drawn, axis=0) / cases, 1 - level, look, run, _RUNS
        )
    alarms = evidence.reshape(size) * error >= 1
    return np.where(alarms.any(axis=0), alarms.argmax(axis=0) + 1, _MOST_PERIODS)
