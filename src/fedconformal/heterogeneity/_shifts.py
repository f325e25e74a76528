"""Distributions of scores that can be named: a reference, and sites that differ from it.

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
from fedconformal.laws._sites import Distortion, Floats

_HALVINGS = 60
_LARGEST = 1e6


class Scores(Protocol):
    """How scores are distributed somewhere."""

    def cdf(self, x: Floats) -> Floats:
        """Share of the scores that are at most x."""
        ...

    def ppf(self, c: Floats) -> Floats:
        """The score below which a share c lies."""
        ...


Shift = Callable[[Scores], Scores]
"""Turns the reference into the distribution of a site."""


class Named(NamedTuple):
    """A distribution in closed form."""

    cdf: Callable[[Floats], Floats]
    ppf: Callable[[Floats], Floats]


_NAMED: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    "half-normal": (
        lambda x: special.erf(np.maximum(x, 0.0) / math.sqrt(2)),
        lambda c: math.sqrt(2) * special.erfinv(c),
    ),
    "exponential": (lambda x: -np.expm1(-np.maximum(x, 0.0)), lambda c: -_log1p(-c)),
    "normal": (special.ndtr, special.ndtri),
    "uniform": (lambda x: np.clip(x, 0.0, 1.0), lambda c: np.asarray(c, dtype=float)),
    "log-normal": (
        lambda x: special.ndtr(_log1p(np.maximum(x, 0.0) - 1.0)),
        lambda c: np.exp(special.ndtri(c)),
    ),
    "cauchy": (
        lambda x: 2 / math.pi * np.arctan(np.maximum(x, 0.0)),
        lambda c: np.where(c < 1, np.tan(math.pi / 2 * np.minimum(c, np.nextafter(1.0, 0.0))), np.inf),
    ),
}


@dataclass(frozen=True)
class Moved:
    """Scores of a reference, multiplied and moved."""

    base: Scores
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
    """Scores whose share below the c-quantile of a reference is h(c)."""

    base: Scores
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
    """A score of one of several distributions, drawn by weight."""

    parts: Sequence[Scores]
    weights: Sequence[float]

    def cdf(self, x: Floats) -> Floats:
        """Share of the scores that are at most x."""
        total: Floats = sum(w * part.cdf(x) for w, part in zip(self.weights, self.parts, strict=True))  # type: ignore[assignment]
        return np.minimum(total, 1.0)

    def ppf(self, c: Floats) -> Floats:
        """The score below which a share c lies: between the smallest and the largest of the parts'."""
        quantiles = np.stack([part.ppf(np.asarray(c, float)) for part in self.parts])
        low, high = quantiles.min(axis=0), quantiles.max(axis=0)
        return _bisect(self.cdf, np.asarray(c, float), low, high)


class Examples:
    """The continuous distribution through example scores: the i-th smallest of n is the i/(n+1)-quantile."""

    def __init__(self, scores: ArrayLike) -> None:
        values = np.asarray(scores, dtype=float)
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


def reference(name: "str | ArrayLike | Scores") -> Scores:
    """A distribution of scores: a name, example scores, or anything with ``cdf`` and ``ppf``.

    Names: ``half-normal`` (absolute residuals of a Gaussian model), ``exponential``, ``normal``, ``uniform``,
    ``log-normal``, ``cauchy`` (absolute values of Cauchy residuals: heavy tails).
    """
    if not isinstance(name, str):
        return name if hasattr(name, "cdf") and hasattr(name, "ppf") else Examples(name)  # type: ignore[return-value]
    _validation.choice("reference", name, _NAMED)
    return Named(*_NAMED[name])


def scale(factor: float) -> Shift:
    """Scores ``factor`` times as large."""
    _positive("scale", factor)
    return lambda base: Moved(base, factor=factor)


def location(amount: float) -> Shift:
    """Scores larger by ``amount``."""
    if not abs(amount) <= _LARGEST:
        raise ValueError(f"location must lie between -{_LARGEST:g} and {_LARGEST:g}, got {amount}")
    return lambda base: Moved(base, amount=amount)


def power(exponent: float) -> Shift:
    """``h(c) = c ** exponent``: above 1 the scores are larger (as the largest of so many)."""
    _positive("power", exponent)
    return lambda base: Distorted(
        base, lambda c: np.asarray(c) ** exponent, lambda c: np.asarray(c) ** (1 / exponent)
    )


def contaminated(share: float, factor: float) -> Shift:
    """A ``share`` of the scores is ``factor`` times as large."""
    _positive("contaminated", factor)
    part = float(_validation.fraction("contaminated share", share, closed=True))
    return lambda base: Mixture([base, Moved(base, factor=factor)], [1 - part, part])


def distortion(h: Distortion) -> Shift:
    """``h(c)``: which share of the site's scores lies below the c-quantile of the reference."""
    grid = np.linspace(0, 1, 257)
    values = np.asarray(h(grid), dtype=float)
    proper = (
        values.shape == grid.shape and np.all((values >= 0) & (values <= 1)) and np.all(np.diff(values) >= 0)
    )
    if not proper or values[0] > 0 or values[-1] < 1:
        raise ValueError("a distortion must grow from h(0) = 0 to h(1) = 1 and accept arrays")
    return lambda base: Distorted(base, h)


def examples(scores: ArrayLike) -> Shift:
    """The site's scores are distributed as these, whatever the reference is."""
    found = Examples(scores)
    return lambda base: found


def _bisect(f: Callable[[Floats], Floats], target: Floats, low: Floats, high: Floats) -> Floats:
    """The largest argument between low and high with f <= target, f growing; infinite ends stay."""
    fixed = (low == high) | ~np.isfinite(low) | ~np.isfinite(high)
    a, b = np.where(fixed, 0.0, low), np.where(fixed, 0.0, high)
    for _ in range(_HALVINGS):
        middle = (a + b) / 2
        under = f(middle) <= target
        a, b = np.where(under, middle, a), np.where(under, b, middle)
    return np.where(fixed, np.where(target < 0.5, low, high), (a + b) / 2)


def _log1p(x: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log1p(x)


def _positive(name: str, value: float) -> None:
    if not 1 / _LARGEST <= value <= _LARGEST:
        raise ValueError(f"{name} must be a positive number up to {_LARGEST:g}, got {value}")
