"""The exponential mechanism (paper, Algorithm 2)."""

import math
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from scipy import special

from fedconformal._typing import Floats
from fedconformal.privacy.mechanisms._base import MECHANISMS, Mechanism, Sampler
from fedconformal.privacy.mechanisms._opendp import gumbel_noise


@MECHANISMS.register
class Exponential(Mechanism):
    """A bin is released with a probability proportional to ``exp(-error / scale)``.

    Privacy: if one record is replaced, the logarithm of a bin's weight and that of the sum of all weights
    change by amounts in one interval of width ``width / scale``. Their difference changes by at most that.

    Examples
    --------
    >>> import fedconformal as fc
    >>> bins = fc.Bins.uniform(0, 1, 10)
    >>> fc.Privacy(1.0, bins, mechanism="exponential").release().mechanism.name
    'exponential'
    """

    name: ClassVar[str] = "exponential"
    words: ClassVar[str] = "the exponential mechanism"

    def pmf(self, weights: Floats) -> Floats:
        """Weights, divided by their sum."""
        shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
        return shares

    def tail(self, t: Floats, n_bins: int) -> Floats:
        """``(B-1) x / (1 + (B-1) x)`` with x = exp(-t).

        Proof: each of at most B - 1 bad bins has at most x times the weight of the good bin, and other good
        bins only add to the sum of all weights.
        """
        bound: Floats = special.expit(math.log(n_bins - 1) - t)
        return bound

    def measurement(self, scale: float, width: int, epsilon: float) -> Sampler:
        """OpenDP's least error after Gumbel noise, which is the same law."""
        draw: Sampler = gumbel_noise(scale, width, epsilon)
        return draw

    def noise(self, rng: Generator, shape: tuple[int, ...]) -> Floats:
        """Gumbel noise."""
        return np.asarray(rng.gumbel(size=shape))
