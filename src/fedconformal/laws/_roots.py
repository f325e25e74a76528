"""Where rising functions cross zero, many at once."""

from collections.abc import Callable

import numpy as np

from fedconformal._typing import Floats

_MOST_STEPS = 80
_CLEVER = 24  # steps after which those that are left are bisections


def rising_roots(
    f: Callable[[Floats], Floats],
    low: Floats,
    high: Floats,
    *,
    close: float = 0.0,
    resolution: float = 2.0**-53,
) -> Floats:
    """Solve f(x) = 0 between ``low`` and ``high``, by the Illinois method.

    Parameters
    ----------
    f : callable
        Maps an array of points, one for each root, to values; below zero left of the root and above it
        right of it. Values may be infinite.
    low, high : arrays
        Brackets of the roots.
    close : float
        A value so close to zero is zero.
    resolution : float
        Brackets so narrow are good enough.

    Returns
    -------
    array
        The upper ends of the last brackets.
    """
    at_low, at_high = np.full(low.shape, -np.inf), np.full(low.shape, np.inf)
    before = np.zeros(low.shape, dtype=bool)
    for step in range(_MOST_STEPS):
        known = np.isfinite(at_low) & np.isfinite(at_high) & (at_high > at_low)
        ends = np.where(known, at_low, 0.0), np.where(known, at_high, 1.0)
        share = np.clip(-ends[0] / (ends[1] - ends[0]), 0.0, 1.0)
        # A bisection now and then, and later on always, so that no shape of the function makes it slow.
        x = low + (high - low) * np.where(known & (step % 8 != 7) & (step < _CLEVER), share, 0.5)
        value = f(x)
        done = np.abs(value) <= close
        under = (value < 0) & ~done
        low, high = np.where(under | done, x, low), np.where(under, high, x)
        if float((high - low).max(initial=0.0)) <= resolution:
            break
        # An end that stays a second time is weighted half, so that a step comes from the other side.
        weight = np.where(under == before, 0.5, 1.0)
        at_low, at_high = np.where(under, value, at_low * weight), np.where(under, at_high * weight, value)
        before = under
    return high
