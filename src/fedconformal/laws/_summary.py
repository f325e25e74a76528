"""What is shown of a coverage law: a few numbers and a density."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedconformal._typing import Floats
from fedconformal.laws._coverage import CoverageLaw

_OUTSIDE = 1e-3


@dataclass(frozen=True, eq=False)
class Summary:
    """The numbers of a law that people look at, beside the level that was asked for.

    Parameters
    ----------
    law : CoverageLaw
        The law of the coverage.
    confidence_level : float
        The coverage that was asked for.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.laws import Summary
    >>> summary = Summary(fc.CoverageLaw(10, 100, 92, 4), 0.9)
    >>> round(summary.mean, 4), round(summary.low, 4)
    (0.9023, 0.8817)
    """

    law: CoverageLaw
    confidence_level: float

    @cached_property
    def mean(self) -> float:
        """Mean coverage."""
        return self.law.mean()

    @cached_property
    def std(self) -> float:
        """Standard deviation of the coverage."""
        return self.law.std()

    @property
    def is_certain(self) -> bool:
        """Whether the coverage is not random: the threshold is infinite."""
        return self.std == 0

    @cached_property
    def reached(self) -> float:
        """Probability that the coverage is at least the level."""
        return self.mean if self.is_certain else float(self.law.sf(self.confidence_level))

    @cached_property
    def _quantiles(self) -> Floats:
        return np.asarray(self.law.ppf([_OUTSIDE, 0.05, 1 - _OUTSIDE]))

    @property
    def low(self) -> float:
        """The coverage that is missed in one of 20 calibrations: the 5 % quantile."""
        return float(self._quantiles[1])

    @property
    def window(self) -> tuple[float, float]:
        """Two coverages between which all but one in 500 calibrations lie."""
        return float(self._quantiles[0]), float(self._quantiles[2])


def density(law: CoverageLaw, edges: Floats) -> Floats:
    """Mean density of the coverage between neighbouring edges: its exact probability over the width.

    Parameters
    ----------
    law : CoverageLaw
        The law of the coverage.
    edges : array
        Increasing coverages.

    Returns
    -------
    array of shape (len(edges) - 1,)

    Examples
    --------
    >>> import numpy as np
    >>> import fedconformal as fc
    >>> from fedconformal.laws import density
    >>> density(fc.CoverageLaw(10, 100, 92, 4), np.array([0.85, 0.9, 0.95])).round(1)
    array([ 8.1, 11.9])
    """
    steps: Floats = np.diff(np.asarray(law.cdf(edges), dtype=float)) / np.diff(edges)
    return np.maximum(steps, 0.0)
