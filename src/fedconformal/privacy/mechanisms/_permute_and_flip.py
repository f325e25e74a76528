"""Permute-and-flip (McKenna and Sheldon, 2020): the exponential mechanism without its waste."""

import sys
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from scipy import special

from fedconformal._typing import Floats
from fedconformal.privacy.mechanisms._base import MECHANISMS, Mechanism, Sampler
from fedconformal.privacy.mechanisms._opendp import exponential_noise

_WINDOW = 48.0
_DEGREE = 64


@MECHANISMS.register
class PermuteAndFlip(Mechanism):
    """Bins are asked in random order, and the first one that says yes is released.

    A bin says yes with probability ``exp(-(error - least error) / scale)``. The bin with the largest
    ``noise - error / scale``, with exponential noise, has the same law. Its expected error is never larger
    than that of the exponential mechanism.

    Privacy: the law does not change if a constant is added to all errors, so that a change in an interval of
    some width is one from zero to that width, for which McKenna and Sheldon prove a loss of at most
    ``width / scale``.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.Privacy(1.0, fc.Bins.uniform(0, 1, 10)).release().mechanism.name
    'permute-and-flip'
    """

    name: ClassVar[str] = "permute-and-flip"
    words: ClassVar[str] = "permute-and-flip"

    def pmf(self, weights: Floats) -> Floats:
        """``P(i) = w_i integral_0^1 prod_{j != i} (1 - w_j u) du``, where the largest w is 1.

        Every bin is asked at a uniform random time u, bin j says yes with probability w_j, and the first yes
        is released.

        The product is at most exp(1 - u sum w), so beyond u = 48 / sum w nothing is left in float64, and
        within that window ``|product| <= exp(48 |u| / window)`` for complex u, from which 64 Gauss-Legendre
        nodes are off by less than 1e-60.
        """
        window = np.minimum(1.0, _WINDOW / weights.sum(axis=-1, keepdims=True))
        nodes, shares = _rule()
        no = np.log1p(-weights[..., None, :] * (window * nodes)[..., :, None])
        others_say_no = np.exp(no.sum(axis=-1, keepdims=True) - no)
        probability: Floats = weights * window * (shares @ others_say_no)
        return probability

    def tail(self, t: Floats, n_bins: int) -> Floats:
        """``1 - E[(1 - x U)^(B-1)]`` with x = exp(-t) and U uniform, or ``1 - exp(t) / B`` where t < 0.

        Proof: a bad bin says yes with probability at most x, and some good bin always does, so that the good
        one wins if no bad bin says yes before it is asked. That is about half as much as for the exponential
        mechanism. Where t < 0 all bad bins may say yes, and the good one must come first and say yes, which
        it does with probability at least exp(t) / B: there, and only there, permute-and-flip may be worse.
        """
        x = np.exp(-np.maximum(t, 0.0))
        with np.errstate(divide="ignore"):
            someone_says_yes = -np.expm1(n_bins * np.log1p(-x))
        exact = 1.0 - someone_says_yes / (n_bins * np.maximum(x, sys.float_info.min)) + 1e-15
        # Bernoulli's inequality, where the exact form would be all cancellation.
        bound = np.where(n_bins * x < 1e-6, (n_bins - 1) * x / 2, exact)
        return np.where(t < 0, 1.0 - np.exp(np.minimum(t, 0.0)) / n_bins, bound)

    def measurement(self, scale: float, width: int, epsilon: float) -> Sampler:
        """OpenDP's least error after exponential noise, which is the same law."""
        draw: Sampler = exponential_noise(scale, width, epsilon)
        return draw

    def noise(self, rng: Generator, shape: tuple[int, ...]) -> Floats:
        """Exponential noise."""
        return np.asarray(rng.standard_exponential(shape))


@cache
def _rule() -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [0, 1]; finding them loads scipy's linear algebra."""
    nodes, weights = special.roots_legendre(_DEGREE)
    return 0.5 * nodes + 0.5, 0.5 * weights
