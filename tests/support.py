"""Shared helpers: rigorous false-alarm bounds for simulation tests, brute force over
rank vectors.
"""

import math

import numpy as np

FALSE_ALARM = 1e-7
"""Probability that a correct program fails one simulation test by chance."""


def kolmogorov_limit(runs: int) -> float:
    """Massart: P(sup |empirical - true cdf| > limit) <= 2 exp(-2 runs limit^2) =
    FALSE_ALARM.
    """
    return math.sqrt(math.log(2 / FALSE_ALARM) / (2 * runs))


def kolmogorov_distance(draws, cdf) -> float:
    x = np.sort(draws)
    values = cdf(x)
    steps = np.arange(len(x) + 1) / len(x)
    return float(max(np.max(values - steps[:-1]), np.max(steps[1:] - values)))


def hoeffding_limit(runs: int) -> float:
    """Hoeffding: P(mean of runs values in [0, 1] is below its expectation by more) <=
    FALSE_ALARM.
    """
    return math.sqrt(math.log(1 / FALSE_ALARM) / (2 * runs))


def bernstein_limit(values) -> float:
    """Maurer and Pontil: P(mean of values in [0, 1] is below its expectation by more)
    <= FALSE_ALARM.

    The empirical variance takes the place of the true one, so the limit is short where
    values hardly vary.
    """
    runs, chance = len(values), math.log(2 / FALSE_ALARM)
    return math.sqrt(2 * float(np.var(values, ddof=1)) * chance / runs) + 7 * chance / (
        3 * (runs - 1)
    )


def simulated_coverage(sizes, ranks, k, *, runs, rng, adversary=0):
    """Coverage of the k-th smallest report for uniform scores; the first ``adversary``
    sites send -inf.
    """
    reports = np.empty((runs, len(sizes)))
    for j, (n, l) in enumerate(zip(sizes, ranks, strict=True)):
        scores = np.sort(rng.random((runs, n)), axis=1)
        reports[:, j] = scores[:, l - 1] if l <= n else np.inf
    reports[:, :adversary] = -np.inf
    q = np.sort(reports, axis=1)[:, k - 1]
    return np.clip(q, 0.0, 1.0)
