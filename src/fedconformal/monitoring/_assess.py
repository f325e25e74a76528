"""Assessment of the sites' checks: coverage site by site, and which sites fall short."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import percent, plain_spaces
from fedconformal._validation import fraction
from fedconformal.documents import Check, group_name
from fedconformal.monitoring._answer import epsilon_per_count
from fedconformal.monitoring._cases import (
    Checked,
    covered_cases,
    group_cases,
    level_index,
    refuse_groups,
    refuse_levels,
    thresholds_of_cases,
)
from fedconformal.monitoring._coverage import CoverageCheck, common_thresholds, examine, holm
from fedconformal.privacy import CountNoise
from fedconformal.protocol import flat_scores


@dataclass(frozen=True)
class SiteCheck:
    """One site, or some of its cases, at one level.

    Attributes
    ----------
    site : str
        Its name.
    epsilon : float or None
        Privacy loss of its answer; None if exact.
    found : CoverageCheck
        What its count says.
    adjusted_p_value : float
        Its p-value among those of all sites, groups and levels.
    group : str or None
        The cases that are meant, by their values in some columns; None for all.
    alarm : float
        The probability with which anybody may be named wrongly.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": np.arange(200), "B": np.arange(200)})
    >>> answer = fc.monitoring.answer(calibration, np.arange(150, 250), site="B")
    >>> (row,) = fc.monitoring.assess(calibration, [answer]).rows
    >>> row.site, row.found.covered, row.falls_short
    ('B', 29, True)
    """

    site: str
    epsilon: float | None
    found: CoverageCheck
    adjusted_p_value: float
    group: str | None = None
    alarm: float = 0.05

    @property
    def falls_short(self) -> bool:
        """True if the coverage there is below the level; in case of rounding, False."""
        return self.adjusted_p_value * (1 + 1e-12) <= self.alarm

    @property
    def name(self) -> str:
        """Name of the site, and of the group where it is not all cases."""
        return self.site if self.group is None else f"{self.site}, {self.group}"


@dataclass(frozen=True)
class Assessment:
    """All sites' checks of one calibration.

    Attributes
    ----------
    rows : tuple of SiteCheck
        For each answer a row for each level, and the same for each group that it tells apart.
    confidence : float
        Of each interval, or where groups are told apart of all intervals at once; and that nobody is named
        wrongly.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": np.arange(200), "B": np.arange(200)})
    >>> new = {"A": np.arange(100), "B": np.arange(150, 250)}
    >>> answers = [fc.monitoring.answer(calibration, new[site], site=site) for site in "AB"]
    >>> [row.site for row in fc.monitoring.assess(calibration, answers).short]
    ['B']
    """

    rows: tuple[SiteCheck, ...]
    confidence: float

    @property
    def by_group(self) -> bool:
        """True if groups of cases are distinguished; all intervals hold at once then."""
        return any(row.group is not None for row in self.rows)

    @property
    def short(self) -> tuple[SiteCheck, ...]:
        """Rows that fall short; with probability at least ``confidence`` none is named wrongly."""
        return tuple(row for row in self.rows if row.falls_short)

    def sentence(self) -> str:
        """Describe in plain words which sites fall short.

        Returns
        -------
        str
            All sites that do, and how often anybody is named wrongly.
        """
        alarm = percent(self.rows[0].alarm)
        risk = f"the probability that anybody is named wrongly is at most {alarm}"
        if not self.short:
            return plain_spaces(
                f"No {'site or group' if self.by_group else 'site'} can be said to fall short ({risk}); an "
                "interval that reaches low is no all-clear."
            )
        named = "; ".join(f"{row.name} (level {percent(row.found.confidence_level)})" for row in self.short)
        return plain_spaces(f"Coverage falls short at: {named} ({risk}).")


def assess(calibration: Checked, answers: Sequence[Check], *, confidence: float = 0.95) -> Assessment:
    """Compare the sites' checks, and those of the groups that they tell apart.

    The adjusted p-values (Holm) are for all sites, groups and levels together. Each interval holds its site's
    coverage with probability at least ``confidence``: of many some miss. Where groups are told apart there
    are many, and they are so wide that all hold at once with that probability (Bonferroni). All take the
    noise of private answers into account exactly; all believe what the sites say of their cases, and say
    nothing if an answer was forged.

    Parameters
    ----------
    calibration : Calibration
        The calibration that the sites checked: the whole, or one group of it if that is what they checked.
    answers : sequence of Check
        One for each site.
    confidence : float
        Of the intervals, and that nobody is named wrongly.

    Returns
    -------
    Assessment
        A row for each site, group and level. There is none for all cases of a site with one group, or whose
        answer is private and tells groups apart.

    Raises
    ------
    ValueError
        If there are no answers, or some do not fit; all of these are named.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> scores = np.random.default_rng(0).random((2, 200))
    >>> calibration = fc.conformalize({"A": scores[0], "B": scores[1]})
    >>> new = {"A": scores[1], "B": scores[0]}
    >>> answers = [fc.monitoring.answer(calibration, new[site], site=site) for site in "AB"]
    >>> [row.site for row in fc.monitoring.assess(calibration, answers).rows]
    ['A', 'B']
    """
    certain = fraction("confidence", confidence)
    _refuse_misfits(calibration, answers)
    return _assessed(
        calibration, [each for answer in answers for each in _counted(calibration, answer)], certain
    )


def check_by(
    calibration: Checked,
    scores: ArrayLike,
    *,
    by: Mapping[str, ArrayLike],
    groups: ArrayLike | None = None,
    site: str | None = None,
    confidence_level: float | None = None,
    confidence: float = 0.95,
) -> Assessment:
    """Check a site's own coverage by the values of some columns; nothing leaves.

    Parameters
    ----------
    calibration : Calibration
        The published calibration, whole or one group of it.
    scores : array-like
        As for `check`: of new cases.
    by : mapping from str to array-like
        Columns and the value of every case in them, as in ``{"truth": y, "sex": sex}``; every combination
        that occurs is a group.
    groups : array-like, optional
        For a calibration with groups, the group of every case (its true class, where groups are classes).
    site : str, optional
        What the site is called; needed where each site has thresholds of its own.
    confidence_level : float, optional
        One of the calibration's levels; all of them by default.
    confidence : float
        Of all intervals at once, and that no group is named wrongly.

    Returns
    -------
    Assessment
        A row for all cases and for each group, at each level. Adjusted p-values (Holm) and intervals
        (Bonferroni) are for all rows together.

    Raises
    ------
    ValueError
        If there are no scores, some are NaN, or the columns do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 60, "B": 60}, criterion="marginal")
    >>> calibration = fc.calibrate(plan, [fc.report(plan, np.arange(60), site=site) for site in "AB"])
    >>> sex = np.repeat(["man", "woman"], 30)
    >>> found = check_by(calibration, np.arange(60) + 20, by={"sex": sex}, site="A")
    >>> [(row.group, row.found.covered) for row in found.rows]
    [(None, 34), ('sex=man', 30), ('sex=woman', 4)]
    >>> [row.name for row in found.short]
    ['A', 'A, sex=woman']
    """
    values = flat_scores(scores)
    grouped = group_cases(by, values.size)
    inside = covered_cases(values, thresholds_of_cases(calibration, values.size, groups, site))
    whole = (None, values.size, np.count_nonzero(inside, axis=0).tolist())
    parts = zip(grouped.names, grouped.sizes.tolist(), grouped.counts(inside).tolist(), strict=True)
    rows = [whole, *parts] if len(grouped.values) > 1 else list(parts)
    where = "here" if site is None else site
    counted = [_Counted(where, None, group, n, tuple(covered), None) for group, n, covered in rows]
    only = None if confidence_level is None else level_index(calibration, confidence_level)
    return _assessed(calibration, counted, fraction("confidence", confidence), only)


@dataclass(frozen=True)
class _Counted:
    """Covered cases of a site, or of a group of them, at each level."""

    site: str
    epsilon: float | None
    group: str | None
    n: int
    covered: tuple[int, ...]
    noise: CountNoise | None


def _counted(calibration: Checked, answer: Check) -> list[_Counted]:
    """List the counts of an answer: all cases, unless that is a sum of noisy counts, and each group."""
    noise = _noise(calibration, answer)
    found = []
    if answer.groups is None or (noise is None and len(answer.groups) > 1):
        found.append(_Counted(answer.site, answer.epsilon, None, answer.n, answer.covered, noise))
    for each in answer.groups or ():
        name = group_name(answer.by or (), each.values)
        found.append(_Counted(answer.site, answer.epsilon, name, each.n, each.covered, noise))
    return found


def _assessed(
    calibration: Checked, counted: Sequence[_Counted], certain: Fraction, only: int | None = None
) -> Assessment:
    """Infer from counts, at all levels or one: p-values for all of them together, and intervals."""
    levels = calibration.selected_levels if only is None else [only]
    number = len(levels) * len(counted)
    at_once = any(each.group is not None for each in counted)
    own = 1 - (1 - certain) / number if at_once else certain
    found = [
        (each, examine(calibration, i, each.n, each.covered[i], own, each.noise))
        for each in counted
        for i in levels
    ]
    adjusted = holm([check.p_value for _, check in found])
    rows = [
        SiteCheck(each.site, each.epsilon, check, p, each.group, float(1 - certain))
        for (each, check), p in zip(found, adjusted, strict=True)
    ]
    return Assessment(tuple(rows), float(certain))


def _noise(calibration: Checked, answer: Check) -> CountNoise | None:
    return None if answer.epsilon is None else CountNoise.of(epsilon_per_count(calibration, answer))


def _refuse_misfits(calibration: Checked, answers: Sequence[Check]) -> None:
    """Refuse answers that do not fit, all of them by name."""
    if not answers:
        raise ValueError("answers must hold at least one check")
    refuse_levels(calibration)
    if calibration.whole.plan.grouping.has_labels and all(answer.groups is None for answer in answers):
        refuse_groups(calibration)  # what was checked is one group of it
    times = Counter(answer.site for answer in answers)
    reasons = [f"{answer.site}: {reason}" for answer in answers if (reason := _misfit(calibration, answer))]
    reasons += [f"{site}: answered {count} times" for site, count in times.items() if count > 1]
    if reasons:
        raise ValueError(f"nothing was assessed, {len(reasons)} refused: {'; '.join(reasons)}")


def _misfit(calibration: Checked, answer: Check) -> str | None:
    group, grouping = calibration.group, calibration.whole.plan.grouping
    if answer.calibration != calibration.whole.digest:
        return "checks another calibration"
    if answer.label != group:
        return f"checks {_group(answer.label)}, and this is {_group(group)}"
    thresholds = common_thresholds(calibration)
    if len(answer.covered) != len(thresholds):
        return f"has {len(answer.covered)} counts for {len(thresholds)} levels"
    if group is None and grouping.by_site and answer.site not in grouping.sites.values():
        return "has no thresholds of its own"
    for covered, threshold in zip(answer.covered, thresholds, strict=True):
        if threshold == math.inf and covered != answer.n:
            return "says that an infinite threshold does not cover all cases"
    return None


def _group(label: str | None) -> str:
    return "a whole calibration" if label is None else f"group {label!r}"
