"""Votes modulo a period, by their characteristic functions.

Where all but a negligible mass lies within one period, P(votes >= needed) is a sum over the frequencies of
the period, of the characteristic function times a geometric sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedconformal._typing import Bools, Floats, Ints

Complexes = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Circle:
    """Whole numbers modulo a period, and the frequencies that matter.

    Parameters
    ----------
    period : int
        How many numbers there are.
    frequencies : array of int
        Between 1 and half the period; characteristic functions are negligible at all others.
    first : array of int
        For each coverage, the number from which on the votes lie within one period.
    """

    period: int
    frequencies: Ints
    first: Ints
    _weights: dict[int, Complexes] = field(default_factory=dict)

    @cached_property
    def _turns(self) -> Complexes:
        """exp(2 pi i j / period) - 1 for each j, to the last digits also where it is small."""
        angle = np.pi * np.arange(self.period) / self.period
        return np.asarray(-2 * np.sin(angle) ** 2 + 1j * np.sin(2 * angle))

    def factor(self, cast: Sequence[int], cell: Floats, count: int) -> Complexes:
        """The characteristic function of the votes of sites that are alike.

        Parameters
        ----------
        cast : sequence of int
            Votes that a site may cast, none first.
        cell : array
            How likely it casts them: a row for each coverage.
        count : int
            How many sites there are.

        Returns
        -------
        array
            A row for each coverage, a column for each frequency.
        """
        places = np.outer(np.array(cast[1:]) % self.period, self.frequencies) % self.period
        less_one = np.zeros((len(cell), self.frequencies.size), dtype=np.complex128)
        for likely, place in zip(cell.T[1:], places, strict=True):  # a product this small is no work for BLAS
            less_one += likely[:, None] * self._turns[place]
        return 1 + less_one if count == 1 else np.exp(count * _log1p(less_one))

    def tail(self, phi: Complexes, needed: int) -> Floats:
        """P(votes >= needed).

        Parameters
        ----------
        phi : array
            Characteristic function of all votes: a row for each coverage.
        needed : int
            Votes to be reached.

        Returns
        -------
        array
            One probability for each coverage.
        """
        if needed not in self._weights:
            self._weights[needed] = self._geometric(needed)
        outside = self.first + self.period - needed
        inside = (outside + np.einsum("cf,cf->c", phi, self._weights[needed]).real) / self.period
        return np.where(outside >= self.period, 1.0, np.where(outside <= 0, 0.0, np.clip(inside, 0.0, 1.0)))

    def _geometric(self, needed: int) -> Complexes:
        """Sums of exp(-2 pi i f v / period) over v from ``needed`` to the last, f and -f together."""
        double = np.where(2 * self.frequencies == self.period, 1.0, 2.0)
        step = -self._turns[-self.frequencies % self.period]
        return (self._back(np.array([[needed]])) - self._back(self.first[:, None])) / step * double

    def _back(self, votes: Ints) -> Complexes:
        """exp(-2 pi i f v / period) - 1."""
        found: Complexes = self._turns[-(votes % self.period) * self.frequencies % self.period]
        return found


def _log1p(u: Complexes) -> Complexes:
    """log(1 + u): its real part by log1p where 1 + u is near the circle, directly where it is small."""
    size = np.abs(1 + u)
    near: Bools = size > 0.5
    squared = np.where(near, 2 * u.real + np.abs(u) ** 2, 0.0)
    real = np.where(near, 0.5 * np.log1p(squared), np.log(np.maximum(size, 1e-40)))
    return np.asarray(real + 1j * np.angle(1 + u))
