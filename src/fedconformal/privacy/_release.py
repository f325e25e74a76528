"""One private release: everything that decides what a site draws at one level, and the laws that follow."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats, Ints
from fedconformal.privacy import _quantile
from fedconformal.privacy._aims import Aim
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
    aim : Aim or None
        Where sites aim; None while it is still sought.

    Examples
    --------
    >>> from fedconformal.privacy import Bins, Privacy
    >>> release = Privacy(epsilon=1.0, bins=Bins.uniform(0, 1, 4)).release()
    >>> release = release.aiming_at(Fraction(9, 10), slope=Fraction(7, 10))
    >>> release.scale, release.rank(20)
    (10.0, 18)
    >>> release.pmf([2, 4, 10, 4]).round(3).tolist()
    [0.0, 0.0, 0.123, 0.877]
    """

    epsilon: Fraction
    n_bins: int
    mechanism: Mechanism
    analysis: Analysis
    aim: Aim | None = None

    def aiming_at(self, quantile: Fraction, slope: Fraction | None = None) -> Self:
        """The same release at a quantile.

        Parameters
        ----------
        quantile : Fraction
            In (0, 1).
        slope : Fraction or None
            How the errors rise below it, for analyses with free slopes.

        Returns
        -------
        PrivateRelease
            A copy.

        Raises
        ------
        ValueError
            If the quantile or the slope is out of range, or not what the analysis takes.
        """
        return self.aimed(self.analysis.aim(quantile, slope))

    def aimed(self, aim: Aim) -> Self:
        """The same release with an aim.

        Parameters
        ----------
        aim : Aim
            As the analysis made it.

        Returns
        -------
        PrivateRelease
            A copy.
        """
        return replace(self, aim=aim)

    @property
    def quantile(self) -> Fraction | None:
        """The quantile at which sites aim; None while it is still sought."""
        return None if self.aim is None else self.aim.quantile

    @property
    def slope(self) -> Fraction | None:
        """How the errors rise below it; None where the analysis has no free slopes."""
        return None if self.aim is None else self.aim.slope

    @property
    def scale(self) -> float:
        """The scale of the noise, in units of the rank error."""
        return _quantile.scale(self._aim, epsilon=self.epsilon, analysis=self.analysis)

    def rank(self, n: int) -> int:
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
        return int(self._aim.rank(n))

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
        return _quantile.tail(n, self._aim, self.n_bins, **self._noise)

    def bounds(self, n: int, ranks: Ints) -> Floats:
        """Some of the bounds of ``tail``.

        Parameters
        ----------
        n : int
            How many scores the site has.
        ranks : array of int
            Increasing ranks from 1 to n.

        Returns
        -------
        array of float
            ``T[r]`` for each of them, up to rounding.
        """
        return _quantile.bounds(n, self._aim, self.n_bins, ranks, **self._noise)

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

    def rank_errors(self, counts: ArrayLike) -> Ints:
        """How far each bin is from the aim, in whole numbers.

        Parameters
        ----------
        counts : array of int
            Scores in each bin, along the last axis.

        Returns
        -------
        array of int
            The errors of the aim, of the same shape.
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
        return _quantile.pmf(self._checked(counts), self._aim, **self._noise)

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
        return _quantile.prepare(self._checked(counts), self._aim, **self._noise)

    @property
    def _aim(self) -> Aim:
        if self.aim is None:
            raise ValueError("this release has no aim yet: see aiming_at")
        return self.aim

    @property
    def _noise(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "analysis": self.analysis, "mechanism": self.mechanism}

    def _checked(self, counts: ArrayLike) -> ArrayLike:
        if np.shape(counts)[-1:] != (self.n_bins,):
            raise ValueError(f"counts must be of {self.n_bins} bins, got shape {np.shape(counts)}")
        return counts
