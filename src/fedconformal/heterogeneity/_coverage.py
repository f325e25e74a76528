"""What a count of covered cases says of the coverage at one level of a calibration."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal.documents import Calibration
from fedconformal.heterogeneity._columns import covered_cases, thresholds_of_cases
from fedconformal.heterogeneity._counting import interval, noticed, p_value
from fedconformal.privacy import CountNoise

POWER = 0.8
"""A shortfall that a check "would notice" is noticed with at least this probability."""


@dataclass(frozen=True)
class CoverageCheck:
    """What n new cases say of the coverage at one level.

    Attributes
    ----------
    confidence_level : float
        The level that the calibration was made for.
    threshold : float or None
        A case is covered if its score is at most this; None where cases have thresholds of their own groups.
    n : int
        How many cases there are.
    covered : int
        How many are covered, perhaps with noise.
    interval : tuple of two floats
        For the true coverage; holds it with probability at least ``confidence``, whatever it is.
    p_value : float
        If the coverage is at least the level, so few covered cases or fewer have at most this probability.
    confidence : float
        Of the interval; the p-value speaks of a shortfall if it is at most 1 - confidence.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": np.arange(200), "B": np.arange(200)})
    >>> (level,) = fc.heterogeneity.check(calibration, np.arange(0, 200, 2), site="A").levels
    >>> level.confidence_level, level.covered, [round(end, 3) for end in level.interval]
    (0.9, 90, [0.824, 0.951])
    """

    confidence_level: float
    threshold: float | None
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


def count_covered(calibration: Calibration, values: NDArray[Any]) -> tuple[int, ...]:
    """How many scores are at most the threshold, for each level; an infinite one covers anything at all."""
    inside = covered_cases(values, thresholds_of_cases(calibration, values.size, None, None))
    return tuple(np.count_nonzero(inside, axis=0).tolist())


def common_thresholds(calibration: Calibration) -> tuple[float | None, ...]:
    """The threshold of each level; None where groups have different ones."""
    if not calibration.plan.is_grouped:
        return calibration.thresholds
    by_level = zip(*(found.thresholds for found in calibration.by_label.values()), strict=True)
    return tuple(each[0] if len(set(each)) == 1 else None for each in by_level)


def examine(
    calibration: Calibration,
    level: int,
    n: int,
    covered: int,
    confidence: Fraction,
    noise: CountNoise | None = None,
) -> CoverageCheck:
    """What a count says of the coverage at one of the levels."""
    wanted, threshold = calibration.plan.confidence_levels[level], common_thresholds(calibration)[level]
    everything = threshold == math.inf
    return CoverageCheck(
        wanted,
        threshold,
        n,
        covered,
        (1.0, 1.0) if everything else interval(n, covered, confidence, noise),
        1.0 if everything else p_value(n, covered, Fraction(str(wanted)), noise),
        float(confidence),
    )
