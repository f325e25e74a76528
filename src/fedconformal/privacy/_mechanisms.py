"""Private releases: counts and counts of cells with discrete Laplace noise, and a cell
near a quantile.

Replacing one record takes one count out of a cell and puts one into another, so that
the counts change by at most 2 in the L1 norm, however many cells there are. Independent
noise with P(z) proportional to ``exp(-abs(z) / scale)``, scale = 2 / epsilon, is
epsilon-private. Nothing is cut off, since the distribution of the coverage
(`fedconformal.laws`) relies on noise that is independent of the counts. Releases come
from OpenDP alone and cannot be seeded.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._extras import need
from fedconformal._util import Floats, Ints, fraction, integer, integers
from fedconformal.documents import LARGEST_EPSILON
from fedconformal.laws._curves import CurveNoise

# -- privacy loss: which epsilon may be asked for, and how much noise it takes ---------

# A mechanism is epsilon-private if replacing one record changes the probability of
# every release by a factor of at most ``exp(epsilon)``.


def check_epsilon(epsilon: float | Fraction) -> Fraction:
    """Return the privacy loss that is promised, exactly: in (0, 100].

    It is read both as the decimal that was written and as the float64 that was meant;
    the smaller counts.
    """
    written = fraction("epsilon", epsilon, high=LARGEST_EPSILON, closed=True)
    return min(written, Fraction(float(epsilon)))


@lru_cache(maxsize=1024, typed=True)  # a search asks for a few of them again and again
def scale_of(width: int, epsilon: float | Fraction) -> float:
    """Return ``width / epsilon``, rounded up, so that rounding never costs privacy."""
    exact = width / check_epsilon(epsilon)
    if exact > sys.float_info.max:
        raise ValueError(
            f"epsilon must be at least {width / sys.float_info.max:.3g} here, got"
            f" {epsilon}"
        )
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def confirm_loss(loss: float, epsilon: float) -> None:
    """Refuse a mechanism whose loss OpenDP puts above what was promised."""
    if not loss <= epsilon:
        raise RuntimeError(
            f"OpenDP puts the privacy loss at {loss}, above epsilon={epsilon}: nothing"
            " was released"
        )


# -- private release of a count: discrete Laplace noise, cut off at 0 and n ------------

# Neighbours replace one record, which moves a count by at most 1, so noise Z with P(Z =
# z) proportional to ``exp(-|z| / scale)``, scale = 1 / epsilon, is epsilon-private.
# Cutting off uses public numbers only and costs nothing. Draws come from OpenDP alone;
# nothing here can be seeded.


@dataclass(frozen=True)
class CountNoise:
    """The law of the noise that is added to a count, in closed form.

    Parameters
    ----------
    scale : float
        ``P(Z = z)`` falls by a factor of ``exp(1 / scale)`` with each step away from 0.

    Examples
    --------
    >>> from fedconformal.privacy import CountNoise
    >>> CountNoise(1.0).scale
    1.0
    """

    scale: float

    @classmethod
    def of(cls, epsilon: float | Fraction) -> Self:
        """Return the least noise that is private enough for a count.

        Parameters
        ----------
        epsilon : float or Fraction
            Privacy loss, in (0, 100].

        Returns
        -------
        CountNoise
            Noise of scale 1 / epsilon, rounded up.

        Raises
        ------
        ValueError
            If epsilon is out of range.
        """
        return cls(scale_of(1, epsilon))

    def pmf(self, z: ArrayLike) -> Floats:
        """Return the probability of a value.

        Parameters
        ----------
        z : array of int
            Whole numbers.

        Returns
        -------
        array of float
            P(Z = z).
        """
        mass: Floats = np.exp(-np.abs(z) / self.scale) * np.tanh(0.5 / self.scale)
        return mass

    def cdf(self, z: ArrayLike) -> Floats:
        """Return the probability of a value or a smaller one.

        Parameters
        ----------
        z : array of int
            Whole numbers.

        Returns
        -------
        array of float
            P(Z <= z).
        """
        z = np.asarray(z)
        beyond = np.exp(-np.where(z < 0, -z, z + 1) / self.scale) / (
            1 + np.exp(-1 / self.scale)
        )
        mass: Floats = np.where(z < 0, beyond, 1 - beyond)
        return mass


def prepare_count(count: int, n: int, epsilon: float | Fraction) -> Callable[[], int]:
    """Everything but the draw of a noisy count: what can be refused is refused here,
    before any charge.

    Parameters
    ----------
    count : int
        How many of n records have some property.
    n : int
        How many records there are, which is public.
    epsilon : float or Fraction
        Privacy loss, in (0, 100].

    Returns
    -------
    callable
        Draws the count with noise, cut off at 0 and n. Every call costs epsilon, and
        must be paid for first.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from fedconformal.privacy import prepare_count
    >>> draw = prepare_count(90, 100, epsilon=5.0)
    >>> 0 <= draw() <= 100
    True
    """
    n = integer("n", n, low=1)
    count = integer("count", count, low=0, high=n)
    draw = _measurement(CountNoise.of(epsilon).scale, float(epsilon), sensitivity=1)
    return lambda: min(max(int(draw([count])[0]), 0), n)


SENSITIVITY = 2
"""Largest change of the counts, in the L1 norm, when one record is replaced."""


def scale_noise(
    cells: int, n_sites: int, epsilon: float | Fraction, *, denominator: int = 16
) -> CurveNoise:
    """Return the distribution of the noise in a curve to which each site adds
    epsilon-private noise.

    Parameters
    ----------
    cells : int
        Number of cells.
    n_sites : int
        Number of sites that add noise.
    epsilon : float or Fraction
        Privacy loss of each site, in (0, 100].
    denominator : int
        Denominator of the bridge.

    Returns
    -------
    CurveNoise
        Noise of scale 2 / epsilon, rounded up.

    Examples
    --------
    >>> scale_noise(100, 10, 0.5).scale
    4.0
    """
    return CurveNoise(cells, n_sites, scale_of(SENSITIVITY, epsilon), denominator)


def prepare_noisy_counts(
    counts: ArrayLike, epsilon: float | Fraction
) -> Callable[[], list[int]]:
    """Prepare a private release of the counts of cells, refusing all that can be
    refused before any charge.

    Parameters
    ----------
    counts : array of int
        Number of the site's scores in each cell.
    epsilon : float or Fraction
        Privacy loss, in (0, 100].

    Returns
    -------
    callable
        Draws the counts with noise, which may be negative. Every call costs epsilon;
        charge it first.

    Raises
    ------
    TypeError, ValueError
        If the counts are not whole numbers from 0, or epsilon is out of range.

    Examples
    --------
    >>> draw = prepare_noisy_counts([90, 8, 2], epsilon=5.0)
    >>> len(draw())
    3
    """
    cells = integers("counts", counts, low=0).tolist()
    measurement = _measurement(
        scale_of(SENSITIVITY, epsilon), float(epsilon), sensitivity=SENSITIVITY
    )
    return lambda: [int(count) for count in measurement(cells)]


@lru_cache(maxsize=16)
def _measurement(scale: float, epsilon: float, *, sensitivity: int) -> Any:
    """Return OpenDP's mechanism at this scale, refused unless OpenDP itself confirms
    the loss.
    """
    dp = need("opendp.prelude", extra="private")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l1_distance(T=dp.i64)
    noisy = dp.m.make_laplace(*space, scale=scale)
    confirm_loss(noisy.map(sensitivity), epsilon)
    return noisy


def simulate_noisy_counts(
    counts: ArrayLike, epsilon: float | Fraction, *, rng: np.random.Generator
) -> Ints:
    """Simulate releases of counts with seeded noise, which protects nobody.

    Parameters
    ----------
    counts : array of int
        Counts of the cells, along the last axis.
    epsilon : float or Fraction
        Privacy loss of each release, in (0, 100].
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    array of int
        Counts with noise, of the same shape.

    Raises
    ------
    TypeError
        If ``rng`` is not a generator.

    Examples
    --------
    >>> import numpy as np
    >>> simulate_noisy_counts([[90, 8, 2]] * 4, 1.0, rng=np.random.default_rng(0)).shape
    (4, 3)
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}")
    clean = np.asarray(counts, dtype=np.int64)
    return clean + scale_noise(clean.shape[-1], 1, epsilon).rvs(clean.shape, rng)


# -- private selection of a cell near a quantile: the paper's Algorithm 2, to the letter

# For the quantile a/d the error of cell b is ``max(L_b (d - a), G_b a)``, with L_b and
# G_b the number of scores in cells below and above it. A cell is drawn by the
# exponential mechanism with the scale ``2 max(a, d - a) / epsilon``. If a record goes
# up, the errors change by amounts in [-(d-a), a]; if it goes down, in [-a, d-a]. Either
# interval has width d, and the logarithms of a cell's weight and of the sum of all
# weights change by amounts in one interval of that width over the scale: the loss is at
# most ``d / scale``, below epsilon. Cells are drawn by OpenDP alone; nothing here can
# be seeded, except for simulations.

_LARGEST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class PrivateQuantile:
    """One cell of a grid, drawn near a quantile of a site's scores.

    Parameters
    ----------
    quantile : Fraction
        In [1/2, 1).
    epsilon : Fraction
        Privacy loss of the draw.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.privacy import PrivateQuantile
    >>> PrivateQuantile(Fraction(9, 10), Fraction(2)).pmf([2, 4, 10, 4]).round(
    ...     3
    ... ).tolist()
    [0.0, 0.0, 0.098, 0.902]
    """

    quantile: Fraction
    epsilon: Fraction

    def __post_init__(self) -> None:
        """Refuse quantiles below a half."""
        if not Fraction(1, 2) <= self.quantile < 1:
            raise ValueError(f"quantile must be in [1/2, 1), got {self.quantile}")

    @property
    def scale(self) -> float:
        """Scale of the noise, in units of the errors."""
        a, d = self.quantile.as_integer_ratio()
        return scale_of(2 * max(a, d - a), self.epsilon)

    def errors(self, counts: ArrayLike) -> Ints:
        """Return how far each cell is from the quantile, in whole numbers.

        Parameters
        ----------
        counts : array of int
            Scores in each cell, along the last axis.

        Returns
        -------
        array of int
        """
        table = np.asarray(counts, dtype=np.int64)
        at_most = np.cumsum(table, axis=-1)
        n = at_most[..., -1:]
        a, d = self.quantile.as_integer_ratio()
        if int(n.max()) * d > _LARGEST:
            raise ValueError(
                f"n * d must be at most {_LARGEST} for a quantile in units of 1/d, got"
                f" d={d}"
            )
        errors: Ints = np.maximum((at_most - table) * (d - a), (n - at_most) * a)
        return errors

    def pmf(self, counts: ArrayLike) -> Floats:
        """Return the probability of each cell.

        Parameters
        ----------
        counts : array of int
            Scores in each cell, along the last axis.

        Returns
        -------
        array of float
        """
        errors = self.errors(counts)
        weights = np.exp((errors.min(axis=-1, keepdims=True) - errors) / self.scale)
        shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
        return shares

    def prepare(self, counts: ArrayLike) -> Callable[[], int]:
        """Prepare a draw; what can be refused is refused here, before any charge.

        Parameters
        ----------
        counts : array of int
            One site's scores in each cell.

        Returns
        -------
        callable
            Draws a cell (0 is the first). Every call costs epsilon, and must be paid
            for first.
        """
        errors = self.errors(counts).tolist()
        draw = _noisy_max(self.scale, self.quantile.denominator, float(self.epsilon))
        return lambda: int(draw(errors))

    def simulate(self, counts: ArrayLike, rng: np.random.Generator) -> Ints:
        """Simulate a draw for each row of counts; this protects nobody.

        Parameters
        ----------
        counts : array of int
            Scores in each cell, along the last axis.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array of int
        """
        errors = self.errors(counts)
        least = errors.min(axis=-1, keepdims=True)
        cells: Ints = np.argmax(
            rng.gumbel(size=errors.shape) - (errors - least) / self.scale, axis=-1
        )
        return cells


@lru_cache(maxsize=16)
def _noisy_max(scale: float, width: int, epsilon: float) -> Any:
    """Return OpenDP's least error after Gumbel noise, refused unless OpenDP itself
    confirms the loss.
    """
    dp = need("opendp.prelude", extra="private")
    dp.enable_features("contrib")
    # Monotone, because adding the same number to all errors changes no draw: a change
    # in an interval of some width may be read as one from zero to that width.
    space = (
        dp.vector_domain(dp.atom_domain(T=dp.i64)),
        dp.linf_distance(T=dp.i64, monotonic=True),
    )
    # OpenDP states Gumbel noise in another measure; its pure loss has the same bound at
    # the same scale.
    confirm_loss(
        dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale, negate=True).map(
            width
        ),
        epsilon,
    )
    return dp.m.make_noisy_max(
        *space, dp.zero_concentrated_divergence(), scale=scale, negate=True
    )
