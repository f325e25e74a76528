"""Private selection of a cell near a quantile: the paper's Algorithm 2, to the letter.

For the quantile a/d the error of cell b is ``max(L_b (d - a), G_b a)``, with L_b and G_b the number of scores
in cells below and above it. A cell is drawn by the exponential mechanism with the scale ``2 max(a, d - a) /
epsilon``. If a record goes up, the errors change by amounts in [-(d-a), a]; if it goes down, in [-a, d-a].
Either interval has width d, and the logarithms of a cell's weight and of the sum of all weights change by
amounts in one interval of that width over the scale: the loss is at most ``d / scale``, below epsilon.

Cells are drawn by OpenDP alone; nothing here can be seeded, except for simulations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._extras import need
from fedconformal._util import Floats, Ints
from fedconformal.privacy._noise import confirm_loss, scale_of

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
    >>> PrivateQuantile(Fraction(9, 10), Fraction(2)).pmf([2, 4, 10, 4]).round(3).tolist()
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
            raise ValueError(f"n * d must be at most {_LARGEST} for a quantile in units of 1/d, got d={d}")
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
            Draws a cell (0 is the first). Every call costs epsilon, and must be paid for first.
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
        cells: Ints = np.argmax(rng.gumbel(size=errors.shape) - (errors - least) / self.scale, axis=-1)
        return cells


@lru_cache(maxsize=16)
def _noisy_max(scale: float, width: int, epsilon: float) -> Any:
    """Return OpenDP's least error after Gumbel noise, refused unless OpenDP itself confirms the loss."""
    dp = need("opendp.prelude", extra="private")
    dp.enable_features("contrib")
    # Monotone, because adding the same number to all errors changes no draw: a change in an interval of some
    # width may be read as one from zero to that width.
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.linf_distance(T=dp.i64, monotonic=True)
    # OpenDP states Gumbel noise in another measure; its pure loss has the same bound at the same scale.
    confirm_loss(
        dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale, negate=True).map(width), epsilon
    )
    return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale, negate=True)
