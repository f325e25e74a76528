"""Private release of a count: discrete Laplace noise, cut off at 0 and n.

Neighbours replace one record, which moves a count by at most 1, so noise Z with P(Z = z) proportional to
``exp(-|z| / scale)``, scale = 1 / epsilon, is epsilon-private. Cutting off uses public numbers only and costs
nothing. Draws come from OpenDP alone; nothing here can be seeded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._extras import need
from fedconformal._typing import Floats
from fedconformal._validation import integer
from fedconformal.privacy._loss import confirm_loss, scale_of


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
        """The least noise that is private enough for a count.

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
        """The probability of a value.

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
        """The probability of a value or a smaller one.

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
        beyond = np.exp(-np.where(z < 0, -z, z + 1) / self.scale) / (1 + np.exp(-1 / self.scale))
        mass: Floats = np.where(z < 0, beyond, 1 - beyond)
        return mass


def prepare_count(count: int, n: int, epsilon: float | Fraction) -> Callable[[], int]:
    """Everything but the draw of a noisy count: what can be refused is refused here, before any charge.

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
        Draws the count with noise, cut off at 0 and n. Every call costs epsilon, and must be paid for first.

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
    draw = _measurement(CountNoise.of(epsilon).scale, float(epsilon))
    return lambda: min(max(int(draw(count)), 0), n)


@lru_cache(maxsize=16)
def _measurement(scale: float, epsilon: float) -> Any:
    """OpenDP's mechanism at this scale, refused unless OpenDP itself confirms the loss."""
    dp = need("opendp.prelude", extra="private")
    dp.enable_features("contrib")
    noisy = dp.m.make_geometric(dp.atom_domain(T=dp.i64), dp.absolute_distance(T=dp.i64), scale=scale)
    confirm_loss(noisy.map(1), epsilon)
    return noisy
