"""Moments of a coverage from its cdf: where that moves, and the double-exponential rule."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedconformal._typing import Floats

Cdf = Callable[[Floats], Floats]

_STEP, _REACH = 1 / 16, 3.4  # of the double-exponential rule
_TOLERANCE = 1e-14  # of an integral over one interval


class Look(NamedTuple):
    """How to look for the coverages at which a cdf moves."""

    shrinks: float
    """A closer look is taken while the window becomes narrower than this share of it."""
    noise: float
    """A probability that counts as none."""


def moments(cdf: Cdf, hints: Callable[[float, float], Floats], look: Look) -> tuple[float, float]:
    """Mean and variance.

    Parameters
    ----------
    cdf : callable
        Of coverages strictly between 0 and 1.
    hints : callable
        At which coverages between two others the integral is to be broken.
    look : Look
        How to find the coverages at which it moves.

    Returns
    -------
    mean, variance : float
    """
    low, high = _window(cdf, look)
    width = high - low

    def integrand(u: Floats) -> Floats:
        values = cdf(low + width * u)
        return np.stack([values, u * values])

    edges = (0.0, *((hints(low, high) - low) / width).tolist(), 1.0)
    area, lever = integral(integrand, tolerance=_TOLERANCE / width, edges=edges)
    return high - width * float(area), width**2 * max(0.0, float(1 - 2 * lever - (1 - area) ** 2))


def _window(cdf: Cdf, look: Look) -> tuple[float, float]:
    """Where the cdf is neither 0 nor 1, by looking ever closer."""
    low, high = 0.0, 1.0
    while True:
        grid = np.linspace(low, high, 19)[1:-1]
        values = cdf(grid)
        left = float(np.max(grid[values <= look.noise], initial=low))
        right = float(np.min(grid[values >= 1 - look.noise], initial=high))
        narrower = right - left < (high - low) * look.shrinks
        low, high = left, right
        if not narrower:
            return low, high


def integral(
    f: Callable[[Floats], Floats], *, tolerance: float, edges: Sequence[float] = (0.0, 1.0)
) -> Floats:
    """Integrals of the functions that ``f`` stacks, by the double-exponential rule.

    An interval is halved until the rule agrees with itself at twice the step.

    Parameters
    ----------
    f : callable
        From an array of places to one row of values for each function.
    tolerance : float
        Of each interval.
    edges : sequence of float
        Ends of the intervals to begin with.

    Returns
    -------
    array
        One integral for each function.
    """
    t = _STEP * np.arange(-round(_REACH / _STEP), round(_REACH / _STEP) + 1)
    nodes = 1 / (1 + np.exp(-np.pi * np.sinh(t)))
    weights = _STEP * np.pi * np.cosh(t) * nodes * nodes[::-1]
    total: Floats | float = 0.0
    panels = list(pairwise(edges))
    while panels:
        low, high = panels.pop()
        values = f(low + (high - low) * nodes) * weights * (high - low)
        fine, coarse = values.sum(axis=1), 2 * values[:, ::2].sum(axis=1)
        if np.abs(fine - coarse).max() <= tolerance or high - low < 1e-9:
            total = total + fine
        else:
            middle = (low + high) / 2
            panels += [(low, middle), (middle, high)]
    return np.asarray(total)
