"""Coverage of new cases: a site's own check, which stays there, and the assessment of
all sites' checks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from fedconformal._text import (
    ceiling_percent,
    count,
    floor_percent,
    nearest_percent,
    percent,
    plain_spaces,
)
from fedconformal._util import flat_scores, fraction
from fedconformal.documents import Check, group_name
from fedconformal.messages import law
from fedconformal.monitoring._answer import TOGETHER, add_up_checks, epsilon_per_count
from fedconformal.monitoring._coverage import (
    Checked,
    CoverageCheck,
    common_thresholds,
    count_cases,
    holm,
    infer_coverage,
    level_places,
    refuse_groups,
    refuse_levels,
)
from fedconformal.planning import PROMISES, Promise, PromiseScope
from fedconformal.privacy import CountNoise
from fedconformal.scores import LossScore, list_scores


@dataclass(frozen=True)
class LocalCheck:
    """Coverage of the published sets at one site, level by level. Nothing in it has
    left the site.

    ``covered``, ``coverage``, ``interval`` and ``p_value`` are one value, or a tuple of
    one for each level.

    Attributes
    ----------
    site : str or None
        Name of the site.
    n : int
        Number of new cases.
    levels : tuple of CoverageCheck
        Inference at each level.
    scope : PromiseScope
        Promise of the thresholds, under the grouping of the plan.
    low_by_luck : tuple of float or None
        For each level the probability, or an upper bound of it, that a calibration
        gives no more than the upper end of the interval (in whole tenths of a percent,
        rounded up) although the promise's assumption holds; None where the distribution
        of the coverage is not known.
    of_losses : bool
        True if scores are of losses, so that the coverage is the mean share of the
        truth that is found.
    """

    site: str | None
    n: int
    levels: tuple[CoverageCheck, ...]
    scope: PromiseScope
    low_by_luck: tuple[float | None, ...]
    of_losses: bool = False

    @property
    def promise(self) -> Promise:
        """The promise itself."""
        return self.scope.promise

    @property
    def covered(self) -> Any:
        """Number of cases that are covered."""
        return self._per_level("covered")

    @property
    def coverage(self) -> Any:
        """Share of cases that are covered."""
        return self._per_level("coverage")

    @property
    def interval(self) -> Any:
        """Interval for the true coverage."""
        return self._per_level("interval")

    @property
    def p_value(self) -> Any:
        """P-value of the hypothesis that the coverage is at least the level."""
        return self._per_level("p_value")

    def _per_level(self, name: str) -> Any:
        values = tuple(getattr(level, name) for level in self.levels)
        return values[0] if len(values) == 1 else values

    def sentence(self) -> str:
        """Describe the result in plain words.

        Returns
        -------
        str
            A line for each level.
        """
        where = "here" if self.site is None else f"at {self.site}"
        lines = zip(self.levels, self.low_by_luck, strict=True)
        words = _LOSSES if self.of_losses else _SETS
        sentences = (
            _sentence(level, luck, self.scope, where, words) for level, luck in lines
        )
        return plain_spaces("\n".join(sentences))


def check(
    calibration: Checked,
    scores: ArrayLike,
    *,
    site: str | None = None,
    by: Mapping[str, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    confidence_level: float | None = None,
    confidence: float = 0.95,
) -> Any:
    """Count the new cases that the published sets cover here, and infer the coverage
    here; nothing leaves.

    The scores must be new: independent cases of this site that were used neither to
    train the model nor to calibrate. Scores that went into the calibration cover
    themselves too well or too badly, and neither the interval nor the p-value holds for
    them. No program can see this: the caller must ensure it.

    A shortfall has two possible causes, which one check cannot tell apart: the cases
    here are not what the promise assumes, or this calibration came out low
    (``low_by_luck`` is the probability of that).

    Parameters
    ----------
    calibration : Calibration
        The published calibration; of one with groups, one group:
        ``calibration["child"]``, or the whole with ``groups``. Of one level:
        ``calibration[0.9]``.
    scores : array-like
        Of new cases with known truth. At most the threshold is covered; +inf is covered
        by an infinite threshold only; NaN is refused.
    site : str, optional
        Name of the site; needed where each site has thresholds of its own.
    by : mapping from str to array-like, optional
        Columns and the value of every case in them, as in ``{"truth": y, "sex": sex}``:
        the coverage is then that of all cases and of every combination of values that
        occurs.
    groups : array-like, optional
        For a calibration with groups, the group of every case (its true class, where
        groups are classes). The coverage is by these unless ``by`` is given.
    confidence_level : float, optional
        One of the calibration's levels; all of them by default.
    confidence : float
        Of each interval; with ``by`` of all intervals at once, and that no group is
        named wrongly.

    Returns
    -------
    LocalCheck or Assessment
        ``n``, ``covered``, ``coverage``, ``interval`` and ``p_value``, each one value
        or a tuple of one for each level, ``low_by_luck`` and a ``sentence()``. With
        ``by`` or ``groups`` an Assessment as of `compare`: adjusted p-values (Holm) and
        intervals (Bonferroni) are for all its ``rows`` together.

    Raises
    ------
    ValueError
        If there are no scores, some are NaN, the columns do not fit, or the calibration
        has groups.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 60, "B": 60}, criterion="marginal")
    >>> calibration = fc.calibrate(
    ...     plan, [fc.report(plan, np.arange(60), site=site) for site in "AB"]
    ... )
    >>> result = check(calibration, np.arange(0, 60, 2), site="A")
    >>> result.n, result.covered, round(result.p_value, 2)
    (30, 27, 0.59)
    >>> sex = np.repeat(["man", "woman"], 30)
    >>> assessment = check(calibration, np.arange(60) + 20, by={"sex": sex}, site="A")
    >>> [(row.group, row.check.covered) for row in assessment.rows]
    [(None, 34), ('sex=man', 30), ('sex=woman', 4)]
    >>> [row.name for row in assessment.short]
    ['A', 'A, sex=woman']
    """
    certain, values = fraction("confidence", confidence), flat_scores(scores)
    places = level_places(calibration, confidence_level)
    if by is None and groups is not None:
        by = {"group": groups}
    if by is None:
        refuse_groups(calibration)
    cases = count_cases(calibration, values, by=by, groups=groups, site=site)
    total = tuple(cases.counts.sum(axis=0).tolist())
    if by is not None:
        name = "here" if site is None else site
        rows = [
            _Count(name, None, group, n, tuple(covered), None)
            for group, n, covered in zip(
                cases.names, cases.sizes, cases.counts.tolist(), strict=True
            )
        ]
        if len(rows) > 1:
            rows.insert(0, _Count(name, None, None, values.size, total, None))
        return _assess_counts(calibration, rows, certain, places)
    levels = [
        infer_coverage(calibration, i, values.size, total[i], certain) for i in places
    ]
    luck: list[float | None] = []
    for i, level in zip(places, levels, strict=True):
        known = law(calibration.selected_designs[0], i)
        end = (
            math.ceil(1000 * level.interval[1]) / 1000
        )  # rounded as the sentence shows it
        by_law = None if known is None else float(known.cdf(end))
        luck.append(1.0 if level.threshold == math.inf else by_law)
    scope = PromiseScope.of(calibration.whole.plan, calibration.selected_designs[0])
    rule = calibration.whole.plan.score
    of_losses = rule is not None and rule.name in list_scores(LossScore)
    return LocalCheck(site, values.size, tuple(levels), scope, tuple(luck), of_losses)


# Words for what is counted and what follows; for the same cases again, and their share.
_SETS = "fall inside their sets, so the true coverage", "fall inside", "coverage"
_LOSSES = (
    (
        "have scores up to the threshold, which scores exceed as often as the mean"
        " share that is missed, so the mean share that is found"
    ),
    "have such scores",
    "share found",
)


def _sentence(
    check: CoverageCheck,
    low_by_luck: float | None,
    scope: PromiseScope,
    where: str,
    words: tuple[str, ...],
) -> str:
    """Describe the coverage of one level at a place, and the possible causes of a
    shortfall.
    """
    level, cases = percent(check.confidence_level), count(check.n, "new case")
    if check.threshold == math.inf:
        return (
            f"Level {level}: the threshold is infinite, so the sets hold everything and"
            f" cover all {cases} {where}, whatever they are."
        )
    (low, high), (counted, again, share) = check.interval, words
    text = (
        f"Level {level}: of {cases} {where}, {check.covered:,}"
        f" ({nearest_percent(check.coverage)}) {counted} {where} is between"
        f" {floor_percent(low)} and {ceiling_percent(high)}"
        f" ({percent(check.confidence)} confidence)."
    )
    if not check.falls_short:
        return f"{text} {_describe_power(check, where, again, share)}"
    text += (
        f" If it were {level} or more, this few would {again}"
        f" {_describe_odds(check.p_value)}, which is evidence of a {share} below"
        f" {level}."
    )
    causes = scope.shortfall(where)
    if low_by_luck is None:  # nothing follows from the condition of the second cause
        return f"{text} It may be that {causes.partition(': if ')[0]}."
    return (
        f"{text} Either {causes} it gives {ceiling_percent(high)} or less with a "
        f"probability of at most {ceiling_percent(low_by_luck)}."
    )


def _describe_power(check: CoverageCheck, where: str, again: str, share: str) -> str:
    """Describe what follows where there is no significant shortfall."""
    level, cases = percent(check.confidence_level), count(check.n, "case")
    if check.interval[0] >= check.confidence_level:
        return f"That is at least {level}."
    text = (
        f"If it were {level}, this few or fewer would {again}"
        f" {_describe_odds(check.p_value)}: no evidence that the {share} {where} is"
        f" below {level}, and no proof that it is not."
    )
    if check.detectable is None:
        return f"{text} With {cases} no check can detect a shortfall."
    return (
        f"{text} With {cases} this check has 80 % power to detect a {share} of "
        f"{floor_percent(check.detectable)} or less."
    )


def _describe_odds(p: float) -> str:
    if p >= 0.1:
        return f"by chance in about {round(100 * p)} of 100 checks"
    if p >= 1e-4:
        return f"by chance in about 1 of {round(1 / p):,} checks"
    bound = 10 ** min(6, math.floor(-math.log10(p))) if p > 0 else 10**6
    return f"by chance in fewer than 1 of {bound:,} checks"


# -- all sites, and groups of their cases ----------------------------------------------


@dataclass(frozen=True)
class SiteCheck:
    """One site, or some of its cases, at one level.

    Attributes
    ----------
    site : str
        Its name.
    epsilon : float or None
        Privacy loss of its answer; None if exact.
    check : CoverageCheck
        Inference from its count.
    adjusted_p_value : float
        Its p-value among those of all sites, groups and levels.
    group : str or None
        Name of the group of cases, by their values in some columns; None for all.
    alarm : float
        Probability with which any site or group may be named wrongly.
    """

    site: str
    epsilon: float | None
    check: CoverageCheck
    adjusted_p_value: float
    group: str | None = None
    alarm: float = 0.05

    @property
    def falls_short(self) -> bool:
        """True if the coverage there is below the level; in case of rounding, False."""
        return self.adjusted_p_value * (1 + 1e-12) <= self.alarm

    @property
    def verdict(self) -> str:
        """Finding in a few words, from the adjusted p-value and the interval alone:
        "yes" if the coverage falls short, "no" if it is at least the level.
        """
        if self.falls_short:
            return "yes"
        if self.check.interval[0] >= self.check.confidence_level:
            return "no"
        return "too few cases to tell"

    @property
    def evidence_text(self) -> str:
        """Adjusted p-value, for a sentence: "p = 0.012", or "p < 0.0001"."""
        if self.adjusted_p_value < 0.0001:
            return "p < 0.0001"
        return f"p = {self.adjusted_p_value:.2g}"

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
        For each answer a row for each level, and the same for each group in it.
    confidence : float
        Of each interval, or with groups of all intervals at once; and that nobody is
        named wrongly.
    answers : tuple of Check
        The checks that were assessed, for `watch`; empty where nothing has left a site.
    """

    rows: tuple[SiteCheck, ...]
    confidence: float
    answers: tuple[Check, ...] = ()

    @property
    def by_group(self) -> bool:
        """True if groups of cases are distinguished; all intervals hold at once
        then.
        """
        return any(row.group is not None for row in self.rows)

    @property
    def short(self) -> tuple[SiteCheck, ...]:
        """Rows that fall short; with probability at least ``confidence`` none is named
        wrongly.
        """
        return tuple(row for row in self.rows if row.falls_short)

    def sentence(self) -> str:
        """Describe in plain words which sites fall short.

        Returns
        -------
        str
            All sites that do, and the probability that any is named wrongly.
        """
        error = f"family-wise error {percent(self.rows[0].alarm)}"
        if not self.short:
            where, others = f"at any {'site or group' if self.by_group else 'site'}", ""
            if any(answer.masked is not None for answer in self.answers):
                where, others = (
                    "of all sites together",
                    " A single site can fall short.",
                )
            return plain_spaces(
                f"No significant shortfall {where} ({error}). "
                f"Wide intervals mean that a shortfall cannot be ruled out.{others}"
            )
        names = []
        for row in self.short:
            level = percent(row.check.confidence_level)
            names.append(f"{row.name} (level {level}, {row.evidence_text})")
        return plain_spaces(f"Coverage falls short at: {'; '.join(names)} ({error}).")

    @property
    def note(self) -> str:
        """Sentence about cases that are not among the counts; empty where all are."""
        return left_out_note(self.answers)


def left_out_note(answers: Iterable[Check]) -> str:
    """Return a sentence about cases that sites leave out of answers by group; empty
    where no answer is by group.

    Parameters
    ----------
    answers : iterable of Check
        The answers.

    Returns
    -------
    str
    """
    if not any(answer.groups for answer in answers):
        return ""
    return (
        "A site leaves groups smaller than its min_group out of its answer, with their"
        " cases: they are not among these counts."
    )


def assess(
    calibration: Checked,
    answers: Sequence[Check],
    confidence: Fraction = Fraction("0.95"),
) -> Assessment:
    """Assess the coverage at each site, and in each group of cases that the answers
    distinguish.

    The adjusted p-values (Holm) are for all sites, groups and levels together. Each
    interval holds its site's coverage with probability at least ``confidence``: of many
    some miss. With groups, all intervals hold at once with that probability
    (Bonferroni). Both take the noise of private answers into account exactly. They rely
    on the counts that the sites report, and are worthless if an answer was forged.
    There is no row for all cases of a site with one group, or whose answer is private
    and has groups. Masked checks are added up.
    """
    given, answers = tuple(answers), add_up_checks(calibration, answers)
    times = Counter(answer.site for answer in answers)
    repeated = [
        f"{site}: answered {number} times"
        for site, number in times.items()
        if number > 1
    ]
    refuse_misfits(calibration, answers, repeated)
    counts = [row for answer in answers for row in find_counts(calibration, answer)]
    assessment = _assess_counts(
        calibration, counts, confidence, calibration.selected_levels
    )
    return replace(assessment, answers=given)


@dataclass(frozen=True)
class _Count:
    """Covered cases of a site, or of a group of them, at each level."""

    site: str
    epsilon: float | None
    group: str | None
    n: int
    covered: tuple[int, ...]
    noise: CountNoise | None


def find_counts(
    calibration: Checked, answer: Check, *, has_total: bool = False
) -> list[_Count]:
    """List the counts of an answer: all cases, unless that is a sum of noisy counts,
    and each group.

    Of an answer with one group all cases are listed only with ``has_total``, as they
    are those of the group.
    """
    noise = (
        None
        if answer.epsilon is None
        else CountNoise.of(epsilon_per_count(calibration, answer))
    )
    epsilon = None if answer.epsilon is None else float(answer.epsilon)
    counts = [
        _Count(
            answer.site,
            epsilon,
            group_name(answer.by or (), group.values),
            group.n,
            group.covered,
            noise,
        )
        for group in answer.groups or ()
    ]
    several = len(counts) > 1 or has_total
    if answer.groups is None or (noise is None and several):
        counts.insert(0, _Count(answer.site, epsilon, None, *answer.counts, noise))
    return counts


def _assess_counts(
    calibration: Checked,
    counts: Sequence[_Count],
    certain: Fraction,
    levels: Sequence[int],
) -> Assessment:
    """Infer from counts at some levels: p-values for all of them together, and
    intervals.
    """
    own = certain
    if any(row.group is not None for row in counts):
        own = 1 - (1 - certain) / (len(levels) * len(counts))
    checks = [
        (row, infer_coverage(calibration, i, row.n, row.covered[i], own, row.noise))
        for row in counts
        for i in levels
    ]
    adjusted = holm([check.p_value for _, check in checks])
    rows = [
        SiteCheck(row.site, row.epsilon, check, p, row.group, float(1 - certain))
        for (row, check), p in zip(checks, adjusted, strict=True)
    ]
    return Assessment(tuple(rows), float(certain))


def refuse_misfits(
    calibration: Checked, answers: Sequence[Check], reasons: Sequence[str]
) -> None:
    """Refuse answers that do not fit, all of them by name, after ``reasons`` to refuse
    some of them.
    """
    if not answers:
        raise ValueError("answers must hold at least one check")
    refuse_levels(calibration)
    if calibration.whole.plan.grouping.has_labels and all(
        answer.groups is None for answer in answers
    ):
        refuse_groups(calibration)  # what was checked is one group of it
    misfits = [
        f"{answer.site}: {reason}"
        for answer in answers
        if (reason := _find_misfit(calibration, answer))
    ]
    if reasons := [*misfits, *reasons]:
        raise ValueError(
            f"nothing was assessed, {len(reasons)} refused: {'; '.join(reasons)}"
        )


def _is_unknown(calibration: Checked, site: str) -> bool:
    """Return whether a plan names its sites, and this one is not among them although it
    would have to be.
    """
    names = calibration.whole.plan.site_names
    if names is None or site in (*names, TOGETHER):
        return False
    return not any(
        PROMISES[design.promise].is_for_new_sites
        for design in calibration.selected_designs
    )


def _find_misfit(calibration: Checked, answer: Check) -> str | None:
    """Return the reason why an answer does not fit; None if it does."""
    group, grouping = calibration.group, calibration.whole.plan.grouping
    thresholds = common_thresholds(calibration)
    if answer.calibration != calibration.whole.digest:
        return "checks another calibration"
    if _is_unknown(calibration, answer.site):
        return "is no site of the plan"
    if answer.group != group:
        checked, wanted = (
            "a whole calibration" if label is None else f"group {label!r}"
            for label in (answer.group, group)
        )
        return f"checks {checked}, and this is {wanted}"
    n, counts = answer.counts
    if len(counts) != len(thresholds):
        return f"has {len(counts)} counts for {len(thresholds)} levels"
    if (
        group is None
        and grouping.by_site
        and answer.site not in grouping.sites.values()
    ):
        return "has no thresholds of its own"
    if any(
        threshold == math.inf and covered != n
        for covered, threshold in zip(counts, thresholds, strict=True)
    ):
        return "reports that an infinite threshold does not cover all cases"
    return None
