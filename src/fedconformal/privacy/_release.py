"""Private selection of a bin near a quantile (paper, section 4 and Algorithm 2, and beyond).

An `Aim` gives every bin an error, a whole number; a mechanism draws a bin, preferring small errors; an
analysis says how much noise there is. Replacing one record moves all errors by amounts in one interval, and a
mechanism loses at most the width of that interval over the scale.

Exactly drawn releases come from OpenDP alone; nothing here can be seeded.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats, Ints
from fedconformal._validation import integer
from fedconformal.privacy._aims import Aim
from fedconformal.privacy._loss import scale_of
from fedconformal.privacy._released import Released
from fedconformal.privacy.analyses import Analysis
from fedconformal.privacy.mechanisms import Mechanism

_LARGEST = int(np.iinfo(np.int64).max)


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
        """The scale of the noise, in units of the rank error: epsilon-private per replaced record."""
        return scale_of(self.analysis.width(self._aim), self.epsilon)

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
            ``T[r] >= P(R < r)``, r = 0..n+1, where R scores are at most what is released; from 0 to 1.
        """
        n = integer("n", n, low=1)
        self._aim.check_size(n)
        return np.concatenate([[0.0], self.bounds(n, np.arange(1, n + 1)), [1.0]])

    def bounds(self, n: int, ranks: Ints) -> Floats:
        """Some of the bounds of ``tail``.

        Proof: for each r the bins with R < r are bad. There are at most ``n_bins - 1`` of them, and some good
        bin has an error that is smaller by the gap of r. The mechanism's own tail does the rest.

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
        t = self._aim.gaps(n, ranks) / self.scale
        n_bins = integer("n_bins", self.n_bins, low=2)
        # The bound must also hold for the rounded number: 1e-12 covers exp's argument up to its underflow.
        bound = np.clip(self.mechanism.tail(t, n_bins) * (1 + 1e-12), sys.float_info.min, 1.0)
        return np.maximum.accumulate(bound)

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
        table = self._checked(counts)
        at_most = np.cumsum(table, axis=-1)
        n = at_most[..., -1:]
        self._aim.check_size(int(n.max()))
        return self._aim.errors(at_most - table, at_most, n)

    def pmf(self, counts: ArrayLike) -> Floats:
        """The probability with which each bin is released.

        Relative accuracy is about 1e-15 plus 1e-16 for each unit of (error - least error) / scale.

        Parameters
        ----------
        counts : array of int
            Scores in each bin, along the last axis.

        Returns
        -------
        array of float
            Probabilities of the same shape.
        """
        errors = self.rank_errors(counts)
        least = errors.min(axis=-1, keepdims=True)
        return self.mechanism.pmf(np.exp((least - errors) / self.scale))

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
        errors = self.rank_errors(counts)
        if errors.ndim != 1:
            raise ValueError(f"counts must be one site's, a flat array, got shape {errors.shape}")
        # The width is that of the errors' changes, so that an analysis with too little noise is refused.
        draw = self.mechanism.measurement(self.scale, self._aim.change, float(self.epsilon))
        values = errors.tolist()
        return lambda: int(draw(values))

    @property
    def _aim(self) -> Aim:
        if self.aim is None:
            raise ValueError("this release has no aim yet: see aiming_at")
        return self.aim

    def _checked(self, counts: ArrayLike) -> Ints:
        table = np.asarray(counts)
        if table.shape[-1:] != (self.n_bins,):
            raise ValueError(f"counts must be of {self.n_bins} bins, got shape {table.shape}")
        if table.dtype.kind not in "iu":
            raise TypeError(f"counts must be whole numbers >= 0, got an array of {table.dtype}")
        if self.n_bins < 2 or table.size == 0:
            raise ValueError(f"counts must hold at least two bins, got shape {table.shape}")
        least, most = int(table.min()), int(table.max())
        if least < 0:
            raise ValueError(f"counts must be >= 0, got {least}")
        if most * table.shape[-1] > _LARGEST:
            raise ValueError(f"counts must add up in 64 bits, got {most} in one of {table.shape[-1]} bins")
        table = table.astype(np.int64)
        if not table.any(axis=-1).all():
            raise ValueError("counts must hold at least one score, got 0")
        return table
