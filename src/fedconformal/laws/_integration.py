"""Integrals over the coverage, by Clenshaw-Curtis quadrature on panels that are halved where needed.

The nodes of a panel include its two ends. P(C <= c) rises monotonically, so a step of it cannot hide between
them, however narrow it is.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from fedconformal._util import Bools, Floats

_COARSE, _FINE = 48, 96  # degrees of the two rules; the nodes of the first are every other one of the second
_ROUNDS = 48
_LAST = 8  # the error is judged by the last eighth of the coefficients


@cache
def legendre(nodes: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on [0, 1].

    Parameters
    ----------
    nodes : int
        Number of nodes.

    Returns
    -------
    nodes, weights : arrays

    Examples
    --------
    >>> x, w = legendre(3)
    >>> round(float(w @ x**4), 12)
    0.2
    """
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, w / 2


@cache
def _rule(degree: int) -> tuple[Floats, Floats, Floats]:
    """Return nodes on [0, 1], weights, and the matrix from values to the last Chebyshev coefficients."""
    j = np.arange(degree + 1)
    ends = np.where((j == 0) | (j == degree), 0.5, 1.0)
    coefficients = 2 / degree * ends[:, None] * ends * np.cos(np.pi / degree * np.outer(j, j))
    even = j[::2]
    weights = (coefficients[::2] / (1.0 - even**2)[:, None]).sum(axis=0)
    return (1 - np.cos(np.pi * j / degree)) / 2, weights, coefficients[-degree // _LAST :]


def integrate(f: Callable[[Floats], Floats], edges: Floats, *, tolerance: float) -> Floats:
    """Integrate a vector of functions, halving the panels between edges until the error of each is small.

    Parameters
    ----------
    f : callable
        Maps nodes of shape (n,) to values of shape (n, outputs).
    edges : array
        Ends of the first panels, increasing.
    tolerance : float
        Absolute error that is allowed in each panel.

    Returns
    -------
    array of shape (outputs,)

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import integrate
    >>> integrate(lambda c: np.stack([c, c**2], axis=-1), np.array([0.0, 1.0]), tolerance=1e-12).round(6)
    array([0.5     , 0.333333])
    """
    total: Floats | float = 0.0
    lows, highs = edges[:-1], edges[1:]
    for left in range(_ROUNDS, -1, -1):
        values = _values(f, lows, highs, _rule(_COARSE)[0])
        done, areas = _areas(values, highs - lows, tolerance)
        total = total + areas[done].sum(axis=0)
        if done.all():
            break
        lows, highs, values = lows[~done], highs[~done], values[~done]
        between = _values(f, lows, highs, _rule(_FINE)[0][1::2])
        both = np.empty((len(values), _FINE + 1, values.shape[2]))
        both[:, ::2], both[:, 1::2] = values, between
        done, areas = _areas(both, highs - lows, tolerance)
        total = total + areas[done | (left == 0)].sum(axis=0)
        if done.all():
            break
        middles = (lows + highs)[~done] / 2
        lows, highs = np.r_[lows[~done], middles], np.r_[middles, highs[~done]]
    return np.asarray(total)


def _values(f: Callable[[Floats], Floats], lows: Floats, highs: Floats, nodes: Floats) -> Floats:
    """Evaluate f at the nodes of every panel: shape (panels, nodes, outputs)."""
    x = lows[:, None] + (highs - lows)[:, None] * nodes
    return np.asarray(f(x.ravel())).reshape(*x.shape, -1)


def _areas(values: Floats, width: Floats, tolerance: float) -> tuple[Bools, Floats]:
    """Return the panels whose error is small enough, and the integral over each."""
    _, weights, last = _rule(values.shape[1] - 1)
    error = np.abs(last @ values).max(axis=(1, 2), initial=0.0)
    return width * error <= tolerance, width[:, None] * (weights @ values)


def window_moments(low: Floats, high: Floats, area: Floats, lever: Floats) -> Floats:
    """Return mean and variance from the integrals of cdf and u * cdf over a window, u in [0, 1]."""
    width = high - low
    return np.stack([high - width * area, width**2 * np.maximum(1 - 2 * lever - (1 - area) ** 2, 0.0)])
