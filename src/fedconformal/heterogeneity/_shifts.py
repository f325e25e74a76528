"""How the scores of a site may differ from those of the others."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import _validation
from fedconformal.heterogeneity._distributions import Distorted, Distribution, Examples, Mixture, Moved
from fedconformal.laws import Distortion

_LARGEST = 1e6

Shift = Callable[[Distribution], Distribution]
"""Turns the distribution of the other sites' scores into that of a site."""


def scale(factor: float) -> Shift:
    """Scores that are ``factor`` times as large.

    Parameters
    ----------
    factor : float
        Positive, from 1e-6 to 1e6.

    Returns
    -------
    Shift
        For `what_if`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from scipy import stats
    >>> round(float(fc.heterogeneity.scale(2)(stats.norm()).ppf(0.8)), 3)
    1.683
    """
    _check_positive("scale", factor)
    return lambda base: Moved(base, factor=factor)


def location(amount: float) -> Shift:
    """Scores that are larger by ``amount``.

    Parameters
    ----------
    amount : float
        From -1e6 to 1e6.

    Returns
    -------
    Shift
        For `what_if`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from scipy import stats
    >>> round(float(fc.heterogeneity.location(0.5)(stats.norm()).cdf(0.5)), 3)
    0.5
    """
    if not abs(amount) <= _LARGEST:
        raise ValueError(f"location must lie between -{_LARGEST:g} and {_LARGEST:g}, got {amount}")
    return lambda base: Moved(base, amount=amount)


def power(exponent: float) -> Shift:
    """Scores of which a share ``c ** exponent`` lies below the c-quantile of the others.

    Parameters
    ----------
    exponent : float
        Positive, from 1e-6 to 1e6. Above 1 the scores are larger, as the largest of so many would be.

    Returns
    -------
    Shift
        For `what_if`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from scipy import stats
    >>> round(float(fc.heterogeneity.power(2)(stats.uniform()).cdf(0.5)), 3)
    0.25
    """
    _check_positive("power", exponent)
    return lambda base: Distorted(
        base, lambda c: np.asarray(c) ** exponent, lambda c: np.asarray(c) ** (1 / exponent)
    )


def contaminated(share: float, factor: float) -> Shift:
    """Scores some of which are much larger.

    Parameters
    ----------
    share : float
        Which share of the scores, in (0, 1].
    factor : float
        How many times as large these are; positive, from 1e-6 to 1e6.

    Returns
    -------
    Shift
        For `what_if`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from scipy import stats
    >>> shifted = fc.heterogeneity.contaminated(0.1, 5)(stats.expon())
    >>> round(float(shifted.cdf(1.0)), 3)
    0.587
    """
    _check_positive("contaminated", factor)
    part = float(_validation.fraction("contaminated share", share, closed=True))
    return lambda base: Mixture([base, Moved(base, factor=factor)], [1 - part, part])


def distortion(h: Distortion) -> Shift:
    """Scores of which a share ``h(c)`` lies below the c-quantile of the others.

    Parameters
    ----------
    h : callable
        Grows from h(0) = 0 to h(1) = 1 and takes arrays.

    Returns
    -------
    Shift
        For `what_if`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from scipy import stats
    >>> shift = fc.heterogeneity.distortion(lambda c: c**2)
    >>> round(float(shift(stats.uniform()).cdf(0.5)), 3)
    0.25
    """
    grid = np.linspace(0, 1, 257)
    values = np.asarray(h(grid), dtype=float)
    proper = (
        values.shape == grid.shape and np.all((values >= 0) & (values <= 1)) and np.all(np.diff(values) >= 0)
    )
    if not proper or values[0] > 0 or values[-1] < 1:
        raise ValueError("a distortion must grow from h(0) = 0 to h(1) = 1 and accept arrays")
    return lambda base: Distorted(base, h)


def examples(scores: ArrayLike) -> Shift:
    """Scores that are distributed as these examples, whatever the others are.

    Parameters
    ----------
    scores : array-like
        Finite numbers, at least two different.

    Returns
    -------
    Shift
        For `what_if`.

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> from scipy import stats
    >>> shift = fc.heterogeneity.examples(np.linspace(0, 1, 9))
    >>> round(float(shift(stats.uniform()).cdf(0.5)), 3)
    0.5
    """
    found = Examples(scores)
    return lambda base: found


def _check_positive(name: str, value: float) -> None:
    if not 1 / _LARGEST <= value <= _LARGEST:
        raise ValueError(f"{name} must be a positive number up to {_LARGEST:g}, got {value}")
