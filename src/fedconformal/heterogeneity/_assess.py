"""What a coordinator learns from the sites' checks: coverage site by site, and who falls short."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fedconformal._text import percent, plain_spaces
from fedconformal._validation import fraction
from fedconformal.documents import Calibration, Check
from fedconformal.heterogeneity._answer import epsilon_per_level
from fedconformal.heterogeneity._counting import holm
from fedconformal.heterogeneity._coverage import CoverageCheck, examine
from fedconformal.heterogeneity._documents import refuse_groups
from fedconformal.privacy import CountNoise


@dataclass(frozen=True)
class SiteCheck:
    """One site at one level.

    Attributes
    ----------
    site : str
        Its name.
    epsilon : float or None
        Privacy loss of its answer; None if exact.
    found : CoverageCheck
        What its count says.
    adjusted_p_value : float
        Its p-value among those of all sites and levels.
    """

    site: str
    epsilon: float | None
    found: CoverageCheck
    adjusted_p_value: float

    @property
    def falls_short(self) -> bool:
        """Whether the coverage there is below the level; in case of rounding, no."""
        return self.adjusted_p_value * (1 + 1e-12) <= self.found.alarm


@dataclass(frozen=True)
class Assessment:
    """All sites' checks of one calibration.

    Attributes
    ----------
    rows : tuple of SiteCheck
        For each answer a row for each level.
    confidence : float
        Of each interval, and that nobody is named wrongly.
    """

    rows: tuple[SiteCheck, ...]
    confidence: float

    @property
    def short(self) -> tuple[SiteCheck, ...]:
        """Who falls short; with probability at least ``confidence`` nobody is named wrongly."""
        return tuple(row for row in self.rows if row.falls_short)

    def sentence(self) -> str:
        """Who falls short, in plain words.

        Returns
        -------
        str
            All sites that do, and how often anybody is named wrongly.
        """
        alarm = percent(self.rows[0].found.alarm)
        risk = f"the probability that anybody is named wrongly is at most {alarm}"
        if not self.short:
            return plain_spaces(
                f"No site can be said to fall short ({risk}); an interval that reaches low is no all-clear."
            )
        named = ", ".join(f"{row.site} (level {percent(row.found.confidence_level)})" for row in self.short)
        return plain_spaces(f"Coverage falls short at: {named} ({risk}).")


def assess(calibration: Calibration, answers: Sequence[Check], *, confidence: float = 0.95) -> Assessment:
    """Turn the sites' answers into coverage per site with exact intervals, and find who falls short.

    Each interval holds its site's coverage with probability at least ``confidence``: of many intervals some
    miss. The adjusted p-values (Holm) are for all sites and levels together. Both take the noise of private
    answers into account exactly; both believe what the sites say of their cases, and say nothing if an answer
    was forged.

    Parameters
    ----------
    calibration : Calibration
        The calibration that the sites checked; of one with groups, one group: ``calibration["child"]``.
    answers : sequence of Check
        One for each site.
    confidence : float
        Of each interval, and that nobody is named wrongly.

    Returns
    -------
    Assessment
        A row for each site and level.

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
    >>> answers = [fc.heterogeneity.answer(calibration, new[site], site=site) for site in "AB"]
    >>> [row.site for row in fc.heterogeneity.assess(calibration, answers).rows]
    ['A', 'B']
    """
    refuse_groups(calibration)
    certain = fraction("confidence", confidence)
    _refuse_misfits(calibration, answers)
    found = [
        (answer, examine(calibration, i, answer.n, covered, certain, _noise(calibration, answer)))
        for answer in answers
        for i, covered in enumerate(answer.covered)
    ]
    adjusted = holm([check.p_value for _, check in found])
    rows = [
        SiteCheck(answer.site, answer.epsilon, check, p)
        for (answer, check), p in zip(found, adjusted, strict=True)
    ]
    return Assessment(tuple(rows), float(certain))


def _noise(calibration: Calibration, answer: Check) -> CountNoise | None:
    return None if answer.epsilon is None else CountNoise.of(epsilon_per_level(calibration, answer.epsilon))


def _refuse_misfits(calibration: Calibration, answers: Sequence[Check]) -> None:
    """Refuse answers that do not fit, all of them by name."""
    if not answers:
        raise ValueError("answers must hold at least one check")
    times = Counter(answer.site for answer in answers)
    reasons = [f"{answer.site}: {reason}" for answer in answers if (reason := _misfit(calibration, answer))]
    reasons += [f"{site}: answered {count} times" for site, count in times.items() if count > 1]
    if reasons:
        raise ValueError(f"nothing was assessed, {len(reasons)} refused: {'; '.join(reasons)}")


def _misfit(calibration: Calibration, answer: Check) -> str | None:
    if answer.calibration != calibration.published_digest:
        return "checks another calibration"
    if answer.label != calibration.label:
        return f"checks {_group(answer.label)}, and this is {_group(calibration.label)}"
    if len(answer.covered) != len(calibration.levels):
        return f"has {len(answer.covered)} counts for {len(calibration.levels)} levels"
    for covered, threshold in zip(answer.covered, calibration.thresholds, strict=True):
        if threshold == math.inf and covered != answer.n:
            return "says that an infinite threshold does not cover all cases"
    return None


def _group(label: str | None) -> str:
    return "a calibration without groups" if label is None else f"group {label!r}"
