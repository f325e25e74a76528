"""What every mechanism knows."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from numpy.random import Generator

from fedconformal._registry import Registry
from fedconformal._typing import Floats

Sampler = Callable[[list[int]], int]
"""Draws a bin (0 is the first) when it is given the error of every bin."""

MECHANISMS: "Registry[Mechanism]" = Registry("mechanism", "fedconformal.mechanisms")
"""All mechanisms by name."""


class Mechanism(ABC):
    """A way to draw one of several bins, privately, preferring those with small errors.

    The errors are whole numbers. Replacing one record moves each of them by an amount in an interval of known
    width. A mechanism must depend on differences of errors only, and lose at most ``width / scale``: an
    analysis then chooses the scale. Its sampler, ``pmf``, ``tail`` and ``noise`` must describe the same law.
    It has no parameters, so that its name says all of it.

    Examples
    --------
    >>> from fedconformal.privacy import MECHANISMS
    >>> "permute-and-flip" in MECHANISMS
    True
    """

    name: ClassVar[str]
    """What plans call it."""
    words: ClassVar[str]
    """What pages call it, to follow "drawn by"."""

    def __eq__(self, other: object) -> bool:
        """Two mechanisms of one class are the same."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """By class."""
        return hash(type(self))

    def __repr__(self) -> str:
        """As it is made."""
        return f"{type(self).__name__}()"

    @abstractmethod
    def pmf(self, weights: Floats) -> Floats:
        """The probability with which each bin is released.

        Parameters
        ----------
        weights : array of float
            ``exp(-(error - least error) / scale)`` of each bin, along the last axis; the largest is 1.

        Returns
        -------
        array of float
            Probabilities of the same shape, which add up to 1 along the last axis.
        """

    @abstractmethod
    def tail(self, t: Floats, n_bins: int) -> Floats:
        """Bound the probability that a bad bin is released.

        At most ``n_bins - 1`` bins are bad. Some good bin has an error that is smaller than those of all bad
        ones by at least ``t`` scales; where t is negative, larger by at most ``-t`` scales.

        Parameters
        ----------
        t : array of float
            The gap between the errors of the good bin and the bad ones, in units of the scale.
        n_bins : int
            How many bins there are, at least 2.

        Returns
        -------
        array of float
            Upper bounds, one for each t; a relative error of 1e-12 is allowed, as callers round them up.
        """

    @abstractmethod
    def measurement(self, scale: float, width: int, epsilon: float) -> Sampler:
        """The exact sampler, which draws from OpenDP's secure generator and cannot be seeded.

        Parameters
        ----------
        scale : float
            The scale of the noise.
        width : int
            The width of the interval in which the errors change if one record is replaced.
        epsilon : float
            The privacy loss that was promised.

        Returns
        -------
        callable
            Draws a bin when it is given the errors.

        Raises
        ------
        RuntimeError
            If OpenDP does not confirm that the loss is at most epsilon.
        """

    @abstractmethod
    def noise(self, rng: Generator, shape: tuple[int, ...]) -> Floats:
        """Noise for simulation: the bin with the largest ``noise - error / scale`` has the law of a release.

        Floating-point noise from a seeded generator protects nobody, so no release may use this.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where the randomness comes from.
        shape : tuple of int
            The shape of the errors.

        Returns
        -------
        array of float
            Independent noise of that shape, in units of the scale.
        """
