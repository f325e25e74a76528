"""A site's check of its own coverage with new cases; nothing leaves."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import ceiling_percent, count, floor_percent, nearest_percent, percent, plain_spaces
from fedconformal._validation import fraction
from fedconformal.messages import law
from fedconformal.monitoring._cases import (
    Checked,
    covered_cases,
    level_index,
    refuse_groups,
    thresholds_of_cases,
)
from fedconformal.monitoring._coverage import CoverageCheck, examine
from fedconformal.planning import PROMISES, Promise
from fedconformal.protocol import flat_scores


@dataclass(frozen=True)
class LocalCheck:
    """Coverage of the published sets at one site, level by level. Nothing in it has left the site.

    ``covered``, ``coverage``, ``interval`` and ``p_value`` are one value, or a tuple of one for each level.

    Attributes
    ----------
    site : str or None
        Name of the site.
    n : int
        Number of new cases.
    levels : tuple of CoverageCheck
        Inference at each level.
    promise : Promise
        Whose coverage was promised.
    low_by_luck : tuple of float or None
        For each level the probability, or an upper bound of it, that a calibration gives no more than the
        upper end of the interval (in whole tenths of a percent, rounded up) although the promise's
        assumption holds; None where the distribution of the coverage is not known.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": np.arange(200), "B": np.arange(200)})
    >>> found = fc.monitoring.check(calibration, np.arange(0, 200, 2), site="A")
    >>> found.n, found.covered, found.promise.name
    (100, 90, 'population')
    """

    site: str | None
    n: int
    levels: tuple[CoverageCheck, ...]
    promise: Promise
    low_by_luck: tuple[float | None, ...]

    @property
    def covered(self) -> Any:
        """Number of cases that are covered."""
        return self._each("covered")

    @property
    def coverage(self) -> Any:
        """Share of cases that are covered."""
        return self._each("coverage")

    @property
    def interval(self) -> Any:
        """Interval for the true coverage."""
        return self._each("interval")

    @property
    def p_value(self) -> Any:
        """P-value of the hypothesis that the coverage is at least the level."""
        return self._each("p_value")

    def _each(self, name: str) -> Any:
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
        return plain_spaces("\n".join(_sentence(level, luck, self.promise, where) for level, luck in lines))


def check(
    calibration: Checked,
    scores: ArrayLike,
    *,
    site: str | None = None,
    confidence_level: float | None = None,
    confidence: float = 0.95,
) -> LocalCheck:
    """Count the new cases that the published sets cover here, and infer the coverage here.

    The scores must be new: independent cases of this site that were used neither to train the model nor to
    calibrate. Scores that went into the calibration cover themselves too well or too badly, and neither the
    interval nor the p-value holds for them. No program can see this: the caller must ensure it.

    A shortfall has two possible causes, which one check cannot tell apart: the cases here are not what the
    promise assumes, or this calibration came out low (``low_by_luck`` is the probability of that).

    Parameters
    ----------
    calibration : Calibration
        The published calibration; of one with groups, one group: ``calibration["child"]``. Of one level:
        ``calibration[0.9]``.
    scores : array-like
        Of new cases with known truth. At most the threshold is covered; +inf is covered by an infinite
        threshold only; NaN is refused.
    site : str, optional
        Name of the site in the sentence.
    confidence_level : float, optional
        One of the calibration's levels; all of them by default.
    confidence : float
        Of each interval.

    Returns
    -------
    LocalCheck
        Counts, intervals and p-values.

    Raises
    ------
    ValueError
        If there are no scores, some are NaN, or the calibration has groups.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 60, "B": 60}, criterion="marginal")
    >>> calibration = fc.calibrate(plan, [fc.report(plan, np.arange(60), site=site) for site in "AB"])
    >>> found = check(calibration, np.arange(0, 60, 2), site="A")
    >>> found.n, found.covered, round(found.p_value, 2)
    (30, 27, 0.59)
    """
    refuse_groups(calibration)
    values = flat_scores(scores)
    certain = fraction("confidence", confidence)
    inside = covered_cases(values, thresholds_of_cases(calibration, values.size, None, None))
    counts = np.count_nonzero(inside, axis=0).tolist()
    every = calibration.selected_levels
    chosen = every if confidence_level is None else [level_index(calibration, confidence_level)]
    levels = [examine(calibration, i, values.size, counts[i], certain) for i in chosen]
    luck = [_low_by_luck(calibration, i, level) for i, level in zip(chosen, levels, strict=True)]
    promise = PROMISES[calibration.selected_designs[0].promise]()
    return LocalCheck(site, values.size, tuple(levels), promise, tuple(luck))


def _low_by_luck(checked: Checked, level: int, found: CoverageCheck) -> float | None:
    """Return P(coverage <= the interval's upper end), the end rounded up as a sentence shows it."""
    if found.threshold == math.inf:
        return 1.0
    known = law(checked.selected_designs[0], level)
    return None if known is None else float(known.cdf(math.ceil(1000 * found.interval[1]) / 1000))


def _sentence(check: CoverageCheck, low_by_luck: float | None, promise: Promise, where: str) -> str:
    """Describe what one level's cases say of the coverage at a place, and the causes of a shortfall."""
    level, cases = percent(check.confidence_level), count(check.n, "new case")
    if check.threshold == math.inf:
        return (
            f"Level {level}: the threshold is infinite, so the sets hold everything and cover all {cases} "
            f"{where}, whatever they are."
        )
    low, high = check.interval
    found = (
        f"Level {level}: of {cases} {where}, {check.covered:,} ({nearest_percent(check.coverage)}) fall "
        f"inside their sets, so the true coverage {where} is between {floor_percent(low)} and "
        f"{ceiling_percent(high)} ({percent(check.confidence)} confidence)."
    )
    if not check.falls_short:
        return f"{found} {_no_shortfall(check, where)}"
    found += (
        f" If it were {level} or more, so few would fall inside {odds(check.p_value)}, so this speaks for a "
        f"coverage below {level}."
    )
    causes = promise.shortfall(where)
    if low_by_luck is None:  # nothing follows from the condition of the second cause
        return f"{found} It may be that {causes.partition(': if ')[0]}."
    return (
        f"{found} Either {causes} it gives {ceiling_percent(high)} or less with a "
        f"probability of at most {ceiling_percent(low_by_luck)}."
    )


def _no_shortfall(check: CoverageCheck, where: str) -> str:
    level = percent(check.confidence_level)
    if check.interval[0] >= check.confidence_level:
        return f"That is at least {level}."
    words = f"If it were {level}, so few or fewer would fall inside {odds(check.p_value)}: "
    words += f"no sign that the coverage {where} is below {level}, and no proof that it is not."
    weakest = check.noticeable
    if weakest is None:
        return f"{words} So few cases can never show a shortfall."
    return (
        f"{words} So many cases would show a shortfall in 4 of 5 checks if it were "
        f"{floor_percent(weakest)} or less."
    )


def odds(p: float) -> str:
    """Describe how often that happens by chance."""
    if p >= 0.1:
        return f"by chance in about {round(100 * p)} of 100 checks"
    if p >= 1e-4:
        return f"by chance in about 1 of {round(1 / p):,} checks"
    bound = 10 ** min(6, math.floor(-math.log10(p))) if p > 0 else 10**6
    return f"by chance in fewer than 1 of {bound:,} checks"
