"""Private release of the counts of cells: discrete Laplace noise on each of them.

Replacing one record takes one count out of a cell and puts one into another, so that the counts change by at
most 2 in the L1 norm, however many cells there are. Independent noise with P(z) proportional to
``exp(-abs(z) / scale)``, scale = 2 / epsilon, is epsilon-private. Nothing is cut off, since the distribution
of the coverage (`fedconformal.laws`) relies on noise that is independent of the counts. Releases come from
OpenDP alone and cannot be seeded.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._extras import need
from fedconformal._typing import Ints
from fedconformal._validation import integers
from fedconformal.laws._curves import CurveNoise
from fedconformal.privacy._loss import confirm_loss, scale_of

SENSITIVITY = 2
"""Largest change of the counts, in the L1 norm, when one record is replaced."""


def scale_noise(cells: int, n_sites: int, epsilon: float | Fraction, *, denominator: int = 16) -> CurveNoise:
    """Return the distribution of the noise in a curve to which each site adds epsilon-private noise.

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


def prepare_noisy_counts(counts: ArrayLike, epsilon: float | Fraction) -> Callable[[], list[int]]:
    """Prepare a private release of the counts of cells, refusing all that can be refused before any charge.

    Parameters
    ----------
    counts : array of int
        Number of the site's scores in each cell.
    epsilon : float or Fraction
        Privacy loss, in (0, 100].

    Returns
    -------
    callable
        Draws the counts with noise, which may be negative. Every call costs epsilon; charge it first.

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
    measurement = _measurement(scale_of(SENSITIVITY, epsilon), float(epsilon))
    return lambda: [int(count) for count in measurement(cells)]


@lru_cache(maxsize=16)
def _measurement(scale: float, epsilon: float) -> Any:
    """Return OpenDP's mechanism at this scale, refused unless OpenDP itself confirms the loss."""
    dp = need("opendp.prelude", extra="private")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l1_distance(T=dp.i64)
    noisy = dp.m.make_laplace(*space, scale=scale)
    confirm_loss(noisy.map(SENSITIVITY), epsilon)
    return noisy


def simulate_noisy_counts(counts: ArrayLike, epsilon: float | Fraction, *, rng: np.random.Generator) -> Ints:
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
