"""For tests of checks: calibrations with given thresholds, and the law of a noisy count
by brute force.
"""

import math
import warnings
from functools import lru_cache

import numpy as np
from scipy import stats

import fedconformal as fc


@lru_cache
def any_calibration(levels):
    with warnings.catch_warnings(action="ignore", category=fc.InfeasibleWarning):
        plan = fc.plan(n_points=[50, 60], confidence_level=list(levels))
    return fc.calibrate(
        plan, [fc.report(plan, np.arange(n), site=f"{n}") for n in (50, 60)]
    )


def calibrated(*thresholds, levels=None):
    """A calibration with these thresholds."""
    found = any_calibration(tuple(levels or [0.9, 0.5, 0.8][: len(thresholds)]))
    part = found.parts[0].model_copy(update={"thresholds": thresholds})
    return found.model_copy(update={"parts": (part,)})


def noisy_law(n, c, epsilon):
    """P(Y = y) for y = 0..n, by adding up all covered counts and all noise,
    independently of the code.
    """
    decay = math.exp(-epsilon)
    reach = n + math.ceil(60 / epsilon)
    noise = np.array([decay ** abs(z) for z in range(-reach, reach + 1)])
    noise /= noise.sum()
    counts = stats.binom.pmf(np.arange(n + 1), n, c)
    total = np.convolve(counts, noise)  # of values -reach .. n + reach
    inside = total[reach : reach + n + 1].copy()
    inside[0] += total[:reach].sum()
    inside[-1] += total[reach + n + 1 :].sum()
    return inside
