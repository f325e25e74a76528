"""A site's look at its own coverage: new cases, the published threshold, and nothing that leaves."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._validation import fraction
from fedconformal.documents import Calibration
from fedconformal.documents._views import one_or_all
from fedconformal.heterogeneity._counting import at_most, interval, noticed, p_value
from fedconformal.heterogeneity._levels import level_index
from fedconformal.privacy._count import CountNoise
from fedconformal.site import rankable

POWER = 0.8
"""A shortfall that a check "would notice" is noticed with at least this probability."""

_MOST_CASES = 30_000


@dataclass(frozen=True)
class CoverageCheck:
    """What n new cases say of the coverage at one level.

    Attributes
    ----------
    confidence_level : the level that the calibration was made for.
    threshold : a case is covered if its score is at most this.
    n, covered : how many cases there are, and how many are covered (perhaps with noise).
    interval : for the true coverage; holds it with probability at least ``confidence``, whatever it is.
    p_value : if the coverage is at least the level, so few covered cases or fewer have at most this
        probability.
    confidence : of the interval; the p-value speaks of a shortfall if it is at most 1 - confidence.
    """

    confidence_level: float
    threshold: float
    n: int
    covered: int
    interval: tuple[float, float]
    p_value: float
    confidence: float

    @property
    def coverage(self) -> float:
        """The share that is covered."""
        return self.covered / self.n

    @property
    def falls_short(self) -> bool:
        """Whether chance alone explains so few covered cases too badly; in case of rounding, no."""
        return self.p_value * (1 + 1e-12) <= self.alarm

    @property
    def alarm(self) -> float:
        """How often a check calls a coverage short that is not, at most."""
        return float(1 - Fraction(str(self.confidence)))

    @property
    def noticeable(self) -> float | None:
        """The coverage that a check of so many exact cases notices in 4 of 5 checks; None if it cannot."""
        return noticed(self.n, Fraction(str(self.confidence_level)), self.alarm, POWER)


@dataclass(frozen=True)
class LocalCheck:
    """How the published sets do at one site, level by level. Nothing in it has left the site.

    ``covered``, ``coverage``, ``interval`` and ``p_value`` are one value, or a tuple of one for each level.
    """

    site: str | None
    n: int
    levels: tuple[CoverageCheck, ...]
    each_site: bool
    """Whether the promise was to every site by itself."""
    low_by_luck: tuple[float, ...]
    """For each level: the probability that a calibration gives no more than the upper end of the interval (in
    whole tenths of a percent, rounded up) if all sites are alike; an upper bound."""

    @property
    def covered(self) -> Any:
        """How many cases are covered."""
        return one_or_all([level.covered for level in self.levels])

    @property
    def coverage(self) -> Any:
        """The share of cases that is covered."""
        return one_or_all([level.coverage for level in self.levels])

    @property
    def interval(self) -> Any:
        """The interval for the true coverage."""
        return one_or_all([level.interval for level in self.levels])

    @property
    def p_value(self) -> Any:
        """The p-value of the hypothesis that the coverage is at least the level."""
        return one_or_all([level.p_value for level in self.levels])

    def sentence(self) -> str:
        """What was found, in plain words; a line for each level."""
        where = "here" if self.site is None else f"at {self.site}"
        lines = zip(self.levels, self.low_by_luck, strict=True)
        return "\n".join(_sentence(level, luck, where, each_site=self.each_site) for level, luck in lines)


def check(
    calibration: Calibration,
    scores: ArrayLike,
    *,
    site: str | None = None,
    confidence_level: float | None = None,
    confidence: float = 0.95,
) -> LocalCheck:
    """Count how many new cases the published sets cover here, and what this says of the coverage here.

    The scores must be new: independent cases of this site that were used neither to train the model nor to
    calibrate. Scores that went into the calibration cover themselves too well or too badly, and neither the
    interval nor the p-value holds for them. No program can see this; the caller vouches for it.

    A shortfall has two possible causes, which one check cannot tell apart: the cases here differ from those
    of the other sites, or this calibration came out low for everybody (``low_by_luck`` says how likely so
    low a calibration is if all sites are alike).

    Parameters
    ----------
    calibration : the published calibration.
    scores : of new cases with known truth. At most the threshold is covered; +inf is covered by an infinite
        threshold only; NaN is refused.
    site : what the site is called in the sentence.
    confidence_level : one of the calibration's levels; all of them by default.
    confidence : of each interval; the default is 95 %.
    """
    values = rankable(scores)
    certain = fraction("confidence", confidence)
    counts = count_covered(calibration, values)
    everything = range(len(calibration.levels))
    chosen = everything if confidence_level is None else [level_index(calibration, confidence_level)]
    levels = [examine(calibration, i, values.size, counts[i], certain) for i in chosen]
    luck = [
        float(calibration.laws[i].cdf(_tenths_up(level.interval[1]) / 1000))
        for i, level in zip(chosen, levels, strict=True)
    ]
    each_site = calibration.plan.target == "each-site"
    return LocalCheck(site, values.size, tuple(levels), each_site, tuple(luck))


def count_covered(calibration: Calibration, values: np.ndarray[Any, np.dtype[Any]]) -> tuple[int, ...]:
    """How many scores are at most the threshold, for each level; an infinite one covers anything at all."""
    values = values.astype(np.result_type(values, np.float64), copy=False)  # else the threshold is rounded
    return tuple(
        values.size if threshold == math.inf else int(np.count_nonzero(values <= threshold))
        for threshold in calibration.thresholds
    )


def examine(
    calibration: Calibration,
    i: int,
    n: int,
    covered: int,
    confidence: Fraction,
    noise: CountNoise | None = None,
) -> CoverageCheck:
    """What a count says of the coverage at level i."""
    level = calibration.levels[i]
    exact = Fraction(str(level.confidence_level))
    everything = level.threshold == math.inf
    return CoverageCheck(
        level.confidence_level,
        level.threshold,
        n,
        covered,
        (1.0, 1.0) if everything else interval(n, covered, confidence, noise),
        1.0 if everything else p_value(n, covered, exact, noise),
        float(confidence),
    )


def cases_needed(
    confidence_level: float, coverage: float, *, confidence: float = 0.95, power: float = POWER
) -> int:
    """The smallest number of new cases with which a check can notice that the coverage is this low.

    A check of so many cases finds a shortfall with probability at least ``power`` if the coverage is
    ``coverage``, and with probability at most 1 - ``confidence`` if it is at least the level.
    """
    level = fraction("confidence_level", confidence_level)
    low = fraction("coverage", coverage, high=float(level))
    alarm = float(1 - fraction("confidence", confidence))
    wanted = float(fraction("power", power))
    critical = -1
    for n in range(1, _MOST_CASES + 1):
        # One more case raises the critical count by one or not at all.
        critical += at_most(n, critical + 1, float(1 - level)) <= alarm
        if critical >= 0 and at_most(n, critical, float(1 - low)) >= wanted:
            return n
    raise ValueError(
        f"coverage must be further below {confidence_level}, got {coverage}: "
        f"more than {_MOST_CASES:,} cases would be needed to notice it"
    )


# -- words -------------------------------------------------------------------------------------------------


def _sentence(check: CoverageCheck, low_by_luck: float, where: str, *, each_site: bool) -> str:
    level, n = percent_of(check.confidence_level), check.n
    cases = "1 new case" if n == 1 else f"{n:,} new cases"
    if check.threshold == math.inf:
        return (
            f"Level {level}: the threshold is infinite, so the sets hold everything and cover all {cases} "
            f"{where}, whatever they are."
        )
    low, high = check.interval
    found = (
        f"Level {level}: of {cases} {where}, {check.covered:,} ({100 * check.coverage:.1f} %) fall inside "
        f"their sets, so the true coverage {where} is between {outward(low, high)} "
        f"({percent_of(check.confidence)} confidence)."
    )
    if check.falls_short:
        causes = (
            f"cases {where} have changed since the calibration, or it came out low for this site: if they "
            "have not changed,"
            if each_site
            else f"cases {where} differ from those of other sites, or this calibration came out low for "
            "everybody: if all sites are alike,"
        )
        return (
            f"{found} If it were {level} or more, so few would fall inside {odds(check.p_value)}, so this "
            f"speaks for a coverage below {level}. Either {causes} it gives {_up(high)} or less with a "
            f"probability of at most {_up(low_by_luck)}."
        )
    return f"{found} {_no_shortfall(check, level, where)}"


def _no_shortfall(check: CoverageCheck, level: str, where: str) -> str:
    if check.interval[0] >= check.confidence_level:
        return f"That is at least {level}."
    words = f"If it were {level}, so few or fewer would fall inside {odds(check.p_value)}: "
    words += f"no sign that the coverage {where} is below {level}, and no proof that it is not."
    weakest = check.noticeable
    if weakest is None:
        return f"{words} So few cases can never show a shortfall."
    return (
        f"{words} So many cases would show a shortfall in 4 of 5 checks if it were {_down(weakest)} or less."
    )


def percent_of(level: float) -> str:
    """A level with all its digits, as a percentage."""
    return f"{format((Decimal(str(level)) * 100).normalize(), 'f')} %"


def odds(p: float) -> str:
    """How often that happens by chance."""
    if p >= 0.1:
        return f"by chance in about {round(100 * p)} of 100 checks"
    if p >= 1e-4:
        return f"by chance in about 1 of {round(1 / p):,} checks"
    bound = 10 ** min(6, math.floor(-math.log10(p))) if p > 0 else 10**6
    return f"by chance in fewer than 1 of {bound:,} checks"


def outward(low: float, high: float) -> str:
    """An interval in percent, rounded outward."""
    return f"{_down(low)} and {_up(high)}"


def _down(share: float) -> str:
    return f"{math.floor(1000 * share) / 10:.1f} %"


def _up(share: float) -> str:
    return f"{_tenths_up(share) / 10:.1f} %"


def _tenths_up(share: float) -> int:
    """In tenths of a percent, rounded up."""
    return math.ceil(1000 * share)
