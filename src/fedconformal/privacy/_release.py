"""One private release: everything that decides what a site draws at one level, and the laws that follow."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._typing import Floats, Ints
from fedconformal.privacy import _quantile
from fedconformal.privacy._released import Released
from fedconformal.privacy.analyses import Analysis
from fedconformal.privacy.mechanisms import Mechanism


@dataclass(frozen=True)
class PrivateRelease:
    """What each site does for one level of a private plan.

    Parameters
    ----------
    epsilon : Fraction
        Privacy loss of this release: a site's whole answer has one for each level.
    n_bins : int
        How many bins there are.
    mechanism : Mechanism
        How a bin is drawn.
    analysis : Analysis
        How much noise there is.
    quantile : Fraction or None
        The quantile at which sites aim, in [1/2, 1); None while it is still sought.

    Examples
    --------
    >>> from fedconformal.privacy import Bins, Privacy
    >>> release = Privacy(epsilon=1.0, bins=Bins.uniform(0, 1, 4)).release().aiming_at(Fraction(9, 10))
    >>> release.scale, release.aim(20)
    (10.0, 18)
    >>> release.pmf([2, 4, 10, 4]).round(3).tolist()
    [0.0, 0.0, 0.068, 0.932]
    """

    epsilon: Fraction
    n_bins: int
    mechanism: Mechanism
    analysis: Analysis
    quantile: Fraction | None = None

    def aiming_at(self, quantile: Fraction) -> Self:
        """The same release at a quantile.

        Parameters
        ----------
        quantile : Fraction
            In [1/2, 1).

        Returns
        -------
        PrivateRelease
            A copy.

        Raises
        ------
        ValueError
            If the quantile is out of range, or its denominator too large.
        """
        return replace(self, quantile=_quantile.check_quantile(quantile))

    @property
    def scale(self) -> float:
        """The scale of the noise, in units of the rank error."""
        return _quantile.scale(self._aim, epsilon=self.epsilon, analysis=self.analysis)

    def aim(self, n: int) -> int:
        """The rank at which a site of n scores aims.

        Parameters
        ----------
        n : int
            How many scores the site has.

        Returns
        -------
        int
            ``ceil(quantile * n)``, from 1 to n.
        """
        return max(1, math.ceil(self._aim * n))

    def tail(self, n: int) -> Floats:
        """Bounds on the rank of a release, for every data set of n scores.

        Parameters
        ----------
        n : int
            How many scores the site has.

        Returns
        -------
        array of float
            ``T[r] >= P(R < r)``, r = 0..n+1, where R scores are at most what is released.
        """
        return _quantile.tail(
            n,
            self._aim,
            self.n_bins,
            epsilon=self.epsilon,
            analysis=self.analysis,
            mechanism=self.mechanism,
        )

    def sites(self, n_points: Ints) -> Released:
        """A bound on the law of what sites send, whatever their scores are.

        Parameters
        ----------
        n_points : array of int
            How many scores a site of each block has.

        Returns
        -------
        Released
            The site law of these blocks.
        """
        return Released(n_points, tuple(self.tail(int(n)) for n in n_points))

    def expected_sites(self, n_points: Ints) -> Released:
        """What to expect of sites whose scores lie evenly over the bins: no bound.

        Parameters
        ----------
        n_points : array of int
            How many scores a site of each block has.

        Returns
        -------
        Released
            The site law of these blocks.
        """
        return Released(n_points, tuple(self._expected_tail(int(n)) for n in n_points))

    def rank_errors(self, counts: ArrayLike) -> Ints:
        """How far each bin is from the quantile, in whole numbers.

        Parameters
        ----------
        counts : array of int
            Scores in each bin, along the last axis.

        Returns
        -------
        array of int
            ``max(L_b (d - a), G_b a)`` for the quantile a/d, where L_b and G_b scores lie in lower and in
            higher bins; of the same shape.
        """
        return _quantile.rank_errors(self._checked(counts), self._aim)

    def pmf(self, counts: ArrayLike) -> Floats:
        """The probability with which each bin is released.

        Parameters
        ----------
        counts : array of int
            Scores in each bin, along the last axis.

        Returns
        -------
        array of float
            Probabilities of the same shape.
        """
        return _quantile.pmf(
            self._checked(counts),
            self._aim,
            epsilon=self.epsilon,
            analysis=self.analysis,
            mechanism=self.mechanism,
        )

    def prepare(self, counts: ArrayLike) -> Callable[[], int]:
        """Everything but the draw: what can be refused is refused here, before any charge.

        Parameters
        ----------
        counts : array of int
            One site's scores in each bin.

        Returns
        -------
        callable
            Draws a bin (0 is the first) with the probabilities of ``pmf``, by OpenDP's secure generator.
            Every call costs epsilon, and must be paid for first. How long it takes is not protected.
        """
        return _quantile.prepare(
            self._checked(counts),
            self._aim,
            epsilon=self.epsilon,
            analysis=self.analysis,
            mechanism=self.mechanism,
        )

    @property
    def _aim(self) -> Fraction:
        if self.quantile is None:
            raise ValueError("this release has no quantile yet: see aiming_at")
        return self.quantile

    def _checked(self, counts: ArrayLike) -> ArrayLike:
        if np.shape(counts)[-1:] != (self.n_bins,):
            raise ValueError(f"counts must be of {self.n_bins} bins, got shape {np.shape(counts)}")
        return counts

    def _expected_tail(self, n: int) -> Floats:
        """P(rank < r) of the exponential mechanism if scores lie evenly over the bins."""
        a, d = self._aim.as_integer_ratio()
        b = np.arange(1, self.n_bins + 1, dtype=float)
        below, above = n * (b - 1) / self.n_bins, n * (self.n_bins - b) / self.n_bins
        mass = special.softmax(-np.maximum(below * (d - a), above * a) / self.scale)
        at_most = np.concatenate([[0.0], np.cumsum(mass)])
        ranks = n * b / self.n_bins
        tail: Floats = np.clip(at_most[np.searchsorted(ranks, np.arange(0, n + 2) - 1e-9)], 0.0, 1.0)
        return tail
