"""How scores may be spread over bins: named shapes, or a public sample."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._typing import Floats
from fedconformal._validation import choice, plain_array

_CDFS: dict[str, Callable[[Floats], Floats]] = {
    "uniform": lambda x: x / 10,
    "half-normal": lambda x: special.erf(x / math.sqrt(2)),
    "gamma": lambda x: special.gammainc(2.0, x),
}
SHAPES = tuple(_CDFS)
"""Names of shapes: scores from 0 on, whose scale is a tenth of the last edge."""


@dataclass(frozen=True, eq=False)
class Spread:
    """A distribution of scores.

    Parameters
    ----------
    name : str
        What people call it.
    cdf : callable
        The share of scores up to each of some values.
    """

    name: str
    cdf: Callable[[Floats], Floats]

    @classmethod
    def named(cls, name: str, high: float) -> "Spread":
        """A shape whose scale is a tenth of the largest edge."""
        cdf, scale = _CDFS[choice("scores", name, SHAPES)], high / 10
        if scale <= 0:
            raise ValueError(f"scores must be a sample where the last edge is not above 0, got {name!r}")
        return cls(name, lambda x: np.clip(cdf(np.maximum(x, 0.0) / scale), 0.0, 1.0))

    @classmethod
    def of_sample(cls, public_scores: ArrayLike) -> "Spread":
        """A public sample as it is."""
        sample = np.sort(plain_array(public_scores, dtype=float))
        if sample.ndim != 1 or sample.size < 2 or not np.isfinite(sample).all():
            raise ValueError(
                "scores must be a name or a flat list of at least two finite numbers, got shape "
                f"{sample.shape} with {int(np.isfinite(sample).sum())} finite"
            )
        return cls("reference", lambda x: np.searchsorted(sample, x, side="right") / sample.size)

    def masses(self, edges: Sequence[float], n_bins: int) -> Floats:
        """The share of scores in each bin; the last one has no upper end."""
        shares = self.cdf(np.asarray(edges[: n_bins - 1], dtype=float))
        return np.diff(shares, prepend=0.0, append=1.0)


def spread_of(scores: str | ArrayLike, high: float) -> Spread:
    """A named shape or a public sample.

    Parameters
    ----------
    scores : str or array of float
        A name, or scores that nobody needs to protect.
    high : float
        The last edge of the bins.

    Returns
    -------
    Spread
        The distribution.

    Raises
    ------
    ValueError
        If there is no such shape, or the sample is too small or not finite.
    """
    return Spread.named(scores, high) if isinstance(scores, str) else Spread.of_sample(scores)
