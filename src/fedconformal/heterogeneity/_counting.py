"""What a count of covered cases says of the coverage, exactly, whether or not the count carries noise.

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
from fractions import Fraction

import numpy as np
from scipy import optimize, special

from fedconformal.metrics import clopper_pearson
from fedconformal.privacy import CountNoise


def at_most(n: int, y: int, miss: float, noise: CountNoise | None = None) -> float:
    """P(Y <= y) where each of n cases is missed with probability ``miss``.

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
    """P(Y <= y) if the coverage is the level: of the hypothesis that it is at least that."""
    return at_most(n, y, float(1 - level), noise)


def interval(n: int, y: int, confidence: Fraction, noise: CountNoise | None = None) -> tuple[float, float]:
    """The interval for the coverage that holds it with at least this probability, whatever it is."""
    if noise is None:
        low, high = clopper_pearson(y, n, confidence=float(confidence))
        return float(low), float(high)
    tail = float((1 - confidence) / 2)
    return _least_miss(n, n - y, tail, noise), 1 - _least_miss(n, y, tail, noise)


def _least_miss(n: int, y: int, tail: float, noise: CountNoise) -> float:
    """The least miss for which P(Y <= y) > tail; at most 3e-12 less, never more."""
    if at_most(n, y, 0.0, noise) > tail:
        return 0.0
    root = optimize.brentq(lambda miss: at_most(n, y, miss, noise) - tail, 0.0, 1.0, xtol=1e-12)
    return max(0.0, float(root) - 2e-12)


def noticed(n: int, level: Fraction, alarm: float, power: float) -> float | None:
    """The largest coverage that a test of n cases at this false-alarm rate notices with this power.

    None if the test cannot notice anything, because even n misses out of n could be chance.
    """
    miss = float(1 - level)
    critical = bisect_right(range(n), alarm, key=lambda k: at_most(n, k, miss)) - 1
    return None if critical < 0 else 1 - float(special.betaincinv(n - critical, critical + 1, power))


def holm(p_values: list[float]) -> list[float]:
    """Adjusted p-values: reject those at most a, and a wrong rejection has probability at most a."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = largest
    return adjusted
