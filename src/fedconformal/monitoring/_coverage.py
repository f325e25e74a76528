"""Inference on the coverage from a count of covered cases, exact whether or not the count carries noise.

Let c be the coverage here, X ~ Binomial(n, c) the covered cases, and Y what is known of X: X itself, or X
plus symmetric noise Z independent of X, cut off at 0 and n. X is stochastically increasing in c, so is Y, and
P_c(Y <= y) does not grow with c, for any y. Two things follow.

*p-value.* If c >= level, then P_c(Y <= y) <= P_level(Y <= y) =: p(y) for every y, hence
P_c(p(Y) <= a) <= P_level(p(Y) <= a) <= a, because p is the cdf of Y at the level, taken at Y itself.

*Interval.* It holds all c with P_c(Y <= y) > a/2 and P_c(Y >= y) > a/2. The true c is missing on one side
only if Y fell where its own cdf is at most a/2, which has probability at most a/2; the same on the other
side. So the interval covers c with probability at least 1 - a, for every c. Both sets of c are intervals
because the probabilities are monotone. Without noise this is Clopper's and Pearson's.

By symmetry (n - X ~ Binomial(n, 1 - c), Z and -Z alike) the lower end is that of a mirrored count.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import optimize, special

from fedconformal._validation import fraction
from fedconformal.metrics import clopper_pearson
from fedconformal.monitoring._cases import Checked
from fedconformal.privacy import CountNoise

_POWER = 0.8  # a shortfall that a check "would show" is shown with at least this probability
_MOST_CASES = 30_000


def at_most(n: int, y: int, miss: float, noise: CountNoise | None = None) -> float:
    """Return P(Y <= y) where each of n cases is missed with probability ``miss``.

    With noise it is ``sum_k P(Z = y - k) P(X <= k)`` over all k, of which those are added up that matter: up
    to 1e-29 in all, P(X <= k) is 0 or 1 outside of a window of Hoeffding's width (the rest of the sum is then
    P(Z <= z) in closed form), and so large a noise that y - k is not in the other window does not occur.
    """
    if y >= n:
        return 1.0
    if noise is None:
        return float(special.betainc(n - y, y + 1, miss))
    centre, width = math.floor(n * (1 - miss)), math.ceil(math.sqrt(34.6 * n)) + 1
    noisy = math.ceil(min(70 * noise.scale, n)) + 1
    low, high = max(0, centre - width, y - noisy), min(n, centre + width, y + noisy)
    k = np.arange(low, high)
    inside = float(noise.pmf(y - k) @ special.betainc(n - k, k + 1, miss))
    return min(1.0, inside + float(noise.cdf(y - high)))


def p_value(n: int, y: int, level: Fraction, noise: CountNoise | None = None) -> float:
    """Return P(Y <= y) if the coverage is the level: p-value of the hypothesis that it is at least that."""
    return at_most(n, y, float(1 - level), noise)


def interval(n: int, y: int, confidence: Fraction, noise: CountNoise | None = None) -> tuple[float, float]:
    """Return a confidence interval for the coverage."""
    if noise is None:
        low, high = clopper_pearson(y, n, confidence=float(confidence))
        return float(low), float(high)
    tail = float((1 - confidence) / 2)
    return _least_miss(n, n - y, tail, noise), 1 - _least_miss(n, y, tail, noise)


def _least_miss(n: int, y: int, tail: float, noise: CountNoise) -> float:
    """Return the least miss for which P(Y <= y) > tail; at most 3e-12 less, never more."""
    if at_most(n, y, 0.0, noise) > tail:
        return 0.0
    root = optimize.brentq(lambda miss: at_most(n, y, miss, noise) - tail, 0.0, 1.0, xtol=1e-12)
    return max(0.0, float(root) - 2e-12)


def noticed(n: int, level: Fraction, alarm: float, power: float) -> float | None:
    """Return the largest coverage that a test of n cases at this false-alarm rate detects with this power.

    None if the test cannot detect anything, because even n misses out of n could be chance.
    """
    miss = float(1 - level)
    critical = bisect_right(range(n), alarm, key=lambda k: at_most(n, k, miss)) - 1
    return None if critical < 0 else 1 - float(special.betaincinv(n - critical, critical + 1, power))


def holm(p_values: list[float]) -> list[float]:
    """Return adjusted p-values: reject those at most a, and a wrong one has probability at most a."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = largest
    return adjusted


@dataclass(frozen=True)
class CoverageCheck:
    """Inference on the coverage at one level from n new cases.

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
    >>> (level,) = fc.monitoring.check(calibration, np.arange(0, 200, 2), site="A").levels
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
        """Share of cases that are covered."""
        return self.covered / self.n

    @property
    def falls_short(self) -> bool:
        """True if chance alone does not explain this few covered cases; in case of rounding, False."""
        return self.p_value * (1 + 1e-12) <= self._alarm

    @property
    def noticeable(self) -> float | None:
        """Coverage that a check of this many exact cases detects in 4 of 5 checks; None if it cannot."""
        return noticed(self.n, Fraction(str(self.confidence_level)), self._alarm, _POWER)

    @property
    def _alarm(self) -> float:
        return float(1 - Fraction(str(self.confidence)))


def common_thresholds(checked: Checked) -> tuple[float | None, ...]:
    """Return the threshold of each level; None where groups have different ones."""
    by_level = zip(*(part.thresholds for part in checked.selected_parts), strict=True)
    return tuple(each[0] if len(set(each)) == 1 else None for each in by_level)


def examine(
    checked: Checked,
    level: int,
    n: int,
    covered: int,
    confidence: Fraction,
    noise: CountNoise | None = None,
) -> CoverageCheck:
    """Infer the coverage at one of the levels from a count."""
    wanted, threshold = (
        checked.selected_designs[0].levels[level].confidence_level,
        common_thresholds(checked)[level],
    )
    everything = threshold == math.inf
    return CoverageCheck(
        float(wanted),
        threshold,
        n,
        covered,
        (1.0, 1.0) if everything else interval(n, covered, confidence, noise),
        1.0 if everything else p_value(n, covered, wanted, noise),
        float(confidence),
    )


def cases_needed(
    confidence_level: float, coverage: float, *, confidence: float = 0.95, power: float = _POWER
) -> int:
    """Return the smallest number of new cases with which a check detects that the coverage is this low.

    A check of so many cases finds a shortfall with probability at least ``power`` if the coverage is
    ``coverage``, and with probability at most 1 - ``confidence`` if it is at least the level.

    Parameters
    ----------
    confidence_level : float
        The level that was promised.
    coverage : float
        The true coverage that is to be noticed, below the level.
    confidence : float
        Of the check.
    power : float
        How often it is to be noticed, at least.

    Returns
    -------
    int
        How many cases.

    Raises
    ------
    ValueError
        If more than 30,000 would be needed.

    Examples
    --------
    >>> cases_needed(0.9, 0.8)
    78
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
