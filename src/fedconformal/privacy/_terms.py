"""The terms of a private release, and the law that follows from them."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from scipy import special

from fedconformal.laws._sites import Floats, Ints
from fedconformal.privacy import _mechanism
from fedconformal.privacy._law import Released


@dataclass(frozen=True)
class Terms:
    """What a private plan gives to each site, for one level."""

    epsilon: Fraction
    n_bins: int
    mechanism: Literal["permute-and-flip", "exponential"]
    analysis: Literal["tight", "paper"]

    @property
    def calibration(self) -> str:
        """The paper's noise, or the smaller one that range calibration allows."""
        return "range" if self.analysis == "tight" else "paper"

    def tail(self, n: int, quantile: Fraction) -> Floats:
        """Bound on the rank of a release of n scores, for every data set."""
        return _mechanism.tail(
            n,
            quantile.numerator,
            quantile.denominator,
            self.n_bins,
            epsilon=self.epsilon,
            calibration=self.calibration,
            mechanism=self.mechanism,
        )

    def sites(self, n_points: Ints, quantile: Fraction, *, expected: bool = False) -> Released:
        """The law of the sites at this quantile: the bound, or what to expect of scores spread evenly."""
        tail = self._expected_tail if expected else self.tail
        return Released(n_points, tuple(tail(int(n), quantile) for n in n_points))

    def _expected_tail(self, n: int, quantile: Fraction) -> Floats:
        """P(rank < r) of the exponential mechanism if scores lie evenly over the bins: no bound."""
        a, d = quantile.numerator, quantile.denominator
        scale = _mechanism.scale(a, d, self.epsilon, self.calibration)
        b = np.arange(1, self.n_bins + 1, dtype=float)
        below, above = n * (b - 1) / self.n_bins, n * (self.n_bins - b) / self.n_bins
        mass = special.softmax(-np.maximum(below * (d - a), above * a) / scale)
        at_most = np.concatenate([[0.0], np.cumsum(mass)])
        ranks = n * b / self.n_bins
        tail: Floats = np.clip(at_most[np.searchsorted(ranks, np.arange(0, n + 2) - 1e-9)], 0.0, 1.0)
        return tail
