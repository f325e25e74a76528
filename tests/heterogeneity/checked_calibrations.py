"""For tests of checks: calibrations with given thresholds, and the law of a noisy count by brute force."""

import math
from functools import lru_cache

import numpy as np
from scipy import stats

import fedconformal as fc


@lru_cache
def any_calibration(levels):
    plan = fc.plan(n_points=[50, 60], confidence_level=list(levels), on_infeasible="ignore")
    return fc.calibrate(plan, [fc.report(plan, np.arange(n), site=f"{n}") for n in (50, 60)])


def with_levels(calibration, **updates):
    """A calibration without groups in which every level has these values, one for each level."""
    levels = [
        level.model_copy(update=dict(zip(updates, values, strict=True)))
        for level, *values in zip(calibration.levels, *updates.values(), strict=True)
    ]
    part = calibration.part.model_copy(update={"levels": tuple(levels)})
    return calibration.model_copy(update={"parts": (part,)})


def calibrated(*thresholds, levels=None):
    """A calibration with these thresholds."""
    found = any_calibration(tuple(levels or [0.9, 0.5, 0.8][: len(thresholds)]))
    return with_levels(found, threshold=thresholds)


def noisy_law(n, c, epsilon):
    """P(Y = y) for y = 0..n, by adding up all covered counts and all noise, independently of the code."""
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
