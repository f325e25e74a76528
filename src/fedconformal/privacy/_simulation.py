"""Seeded draws of private releases, for simulation only.

Floating-point noise from a seeded generator protects nobody: a site's report must never come from here, and
``fedconformal.site`` does not import this module.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._checks import choice
from fedconformal.privacy._mechanism import MECHANISMS, badness, scale


def simulate_releases(
    counts: ArrayLike,
    a: int,
    d: int,
    *,
    epsilon: float,
    calibration: str,
    mechanism: str,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """One simulated release (a bin, 0 is the first) for each row of counts, shape ``counts.shape[:-1]``.

    The bin with the largest -badness/scale + noise: Gumbel noise is the exponential mechanism, exponential
    noise is permute-and-flip.
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}")
    choice("mechanism", mechanism, MECHANISMS)
    s = badness(counts, a, d)
    noise = rng.gumbel(size=s.shape) if mechanism == "exponential" else rng.standard_exponential(s.shape)
    # Differences are exact in integers, so large badness costs no precision.
    noise -= (s - s.min(axis=-1, keepdims=True)) / scale(a, d, epsilon, calibration)
    bins: NDArray[np.int64] = np.argmax(noise, axis=-1)
    return bins
