"""Distributions of scores: named ones, those of example scores, and what shifts make of them.

A distribution is its cdf and its quantile function, both on arrays. Continuous ones only: with ties the
coverage can only be larger.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal import _validation
from fedconformal._typing import Floats
from fedconformal.laws import Distortion

_HALVINGS = 60


class Distribution(Protocol):
    """How scores are distributed somewhere; distributions of ``scipy.stats`` are such."""

    def cdf(self, x: Floats) -> Floats:
        """Share of the scores that are at most x."""
        ...

    def ppf(self, c: Floats) -> Floats:
        """The score below which a share c lies."""
        ...


class Named(NamedTuple):
    """A distribution in closed form."""

    cdf: Callable[[Floats], Floats]
    ppf: Callable[[Floats], Floats]


def _log1p(x: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log1p(x)


_NAMED: dict[str, Named] = {
    "half-normal": Named(
        lambda x: special.erf(np.maximum(x, 0.0) / math.sqrt(2)),
        lambda c: math.sqrt(2) * special.erfinv(c),
    ),
    "exponential": Named(lambda x: -np.expm1(-np.maximum(x, 0.0)), lambda c: -_log1p(-c)),
    "normal": Named(special.ndtr, special.ndtri),
    "uniform": Named(lambda x: np.clip(x, 0.0, 1.0), lambda c: np.asarray(c, dtype=float)),
    "log-normal": Named(
        lambda x: special.ndtr(_log1p(np.maximum(x, 0.0) - 1.0)),
        lambda c: np.exp(special.ndtri(c)),
    ),
    "cauchy": Named(
        lambda x: 2 / math.pi * np.arctan(np.maximum(x, 0.0)),
        lambda c: np.where(c < 1, np.tan(math.pi / 2 * np.minimum(c, np.nextafter(1.0, 0.0))), np.inf),
    ),
}


def reference(name: "str | ArrayLike | Distribution") -> Distribution:
    """A distribution of scores.

    Parameters
    ----------
    name : str, array-like or Distribution
        ``"half-normal"`` (absolute residuals of a Gaussian model), ``"exponential"``, ``"normal"``,
        ``"uniform"``, ``"log-normal"`` or ``"cauchy"`` (absolute values of Cauchy residuals: heavy tails);
        or example scores; or anything with ``cdf`` and ``ppf``.

    Returns
    -------
    Distribution
        For example scores the continuous one through them.

    Raises
    ------
    ValueError
        If the name is unknown, or there are fewer than two different example scores.

    Examples
    --------
    >>> float(reference("exponential").cdf(0.0))
    0.0
    """
    if not isinstance(name, str):
        return name if hasattr(name, "cdf") and hasattr(name, "ppf") else Examples(name)  # type: ignore[return-value]
    return _NAMED[_validation.choice("reference", name, _NAMED)]


@dataclass(frozen=True)
class Moved:
    """Scores of another distribution, multiplied and moved."""

    base: Distribution
    factor: float = 1.0
    amount: float = 0.0

    def cdf(self, x: Floats) -> Floats:
        """Share of the scores that are at most x."""
        return self.base.cdf((x - self.amount) / self.factor)

    def ppf(self, c: Floats) -> Floats:
        """The score below which a share c lies."""
        return self.amount + self.factor * self.base.ppf(c)


@dataclass(frozen=True)
class Distorted:
    """Scores whose share below the c-quantile of another distribution is h(c)."""

    base: Distribution
    h: Distortion
    inverse: Distortion | None = None

    def cdf(self, x: Floats) -> Floats:
        """Share of the scores that are at most x."""
        return np.asarray(self.h(self.base.cdf(x)), dtype=float)

    def ppf(self, c: Floats) -> Floats:
        """The score below which a share c lies."""
        c = np.asarray(c, dtype=float)
        if self.inverse is not None:
            return self.base.ppf(np.asarray(self.inverse(c), dtype=float))
        return self.base.ppf(_bisect(lambda u: np.asarray(self.h(u), float), c, 0.0 * c, 1.0 + 0.0 * c))


@dataclass(frozen=True)
class Mixture:
    """A score of one of several distributions; each has its share of the scores."""

    parts: Sequence[Distribution]
    shares: Sequence[float]

    def cdf(self, x: Floats) -> Floats:
        """Share of the scores that are at most x."""
        total = np.zeros(np.shape(x))
        for share, part in zip(self.shares, self.parts, strict=True):
            total = total + share * part.cdf(x)
        return np.minimum(total, 1.0)

    def ppf(self, c: Floats) -> Floats:
        """The score below which a share c lies: between the smallest and the largest of the parts'."""
        quantiles = np.stack([part.ppf(np.asarray(c, float)) for part in self.parts])
        low, high = quantiles.min(axis=0), quantiles.max(axis=0)
        return _bisect(self.cdf, np.asarray(c, float), low, high)


class Examples:
    """The continuous distribution through example scores: the i-th smallest of n is the i/(n+1)-quantile."""

    def __init__(self, scores: ArrayLike) -> None:
        values = _validation.plain_array(scores, dtype=float)
        if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all() or np.ptp(values) == 0:
            raise ValueError("example scores must be a flat array of finite numbers, at least two different")
        x, counts = np.unique(values, return_counts=True)
        share = np.cumsum(counts) / (values.size + 1)
        self._x = np.r_[x[0] - (x[1] - x[0]), x, x[-1] + (x[-1] - x[-2])]
        self._share = np.r_[0.0, share, 1.0]

    def cdf(self, x: Floats) -> Floats:
        """Share of the scores that are at most x."""
        return np.interp(x, self._x, self._share)

    def ppf(self, c: Floats) -> Floats:
        """The score below which a share c lies."""
        return np.interp(c, self._share, self._x)


def _bisect(f: Callable[[Floats], Floats], value: Floats, low: Floats, high: Floats) -> Floats:
    """The largest argument between low and high with f <= value, f growing; infinite ends stay."""
    fixed = (low == high) | ~np.isfinite(low) | ~np.isfinite(high)
    a, b = np.where(fixed, 0.0, low), np.where(fixed, 0.0, high)
    for _ in range(_HALVINGS):
        middle = (a + b) / 2
        under = f(middle) <= value
        a, b = np.where(under, middle, a), np.where(under, b, middle)
    return np.where(fixed, np.where(value < 0.5, low, high), (a + b) / 2)
