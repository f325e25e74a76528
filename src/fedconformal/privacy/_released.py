"""Laws of what private sites send."""

from dataclasses import dataclass

import numpy as np

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws import binomial_masses


@dataclass(frozen=True, eq=False)
class Released:
    """Private sites, by a tail that bounds the rank of their release for every data set: a site law.

    If P(R < r) <= T[r] whatever the data, what the site sends is stochastically at least its R*-th smallest
    score with R* independent of the data and P(R* < r) = T[r]. It lies below the c-quantile with probability
    at most E[T(X + 1)], X ~ Binomial(n, c) the number of its scores that do.

    Parameters
    ----------
    n_points : array of int
        How many scores a site of each block has.
    tails : tuple of array
        The bounds T[0], ..., T[n + 1] of each block, which rise from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.privacy import Released
    >>> second_of_two = Released(np.array([2]), (np.array([0.0, 0.0, 0.0, 1.0]),))
    >>> float(second_of_two.below(np.array([0.5]))[0, 0])  # both of two scores lie below the median
    0.25
    """

    n_points: Ints
    tails: tuple[Floats, ...]

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        return len(self.tails)

    @property
    def sends_infinity(self) -> Bools:
        """No block sends +inf for sure."""
        return np.zeros(self.n_blocks, dtype=bool)

    def below(self, c: Floats) -> Floats:
        """E[T(X + 1)], X ~ Binomial(n, c), for every block: shape ``c.shape + (n_blocks,)``."""
        flat = np.asarray(c, float).ravel()
        columns = []
        for n, tail in zip(self.n_points, self.tails, strict=True):
            first, masses = binomial_masses(flat, int(n))
            columns.append(masses @ tail[first + 1 : first + 1 + masses.shape[1]])
        # Rounding may carry a sum past 1, where the incomplete beta function knows no answer.
        return np.clip(np.stack(columns, axis=-1), 0.0, 1.0).reshape(*np.shape(c), self.n_blocks)

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """A release may fall anywhere."""
        return 0.0, 1.0

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw R*, then the score of that rank."""
        n, tail = int(self.n_points[block]), self.tails[block]
        rank = np.searchsorted(tail, rng.random(size), side="right") - 1
        proper = np.clip(rank, 1, n)
        return np.where(rank < 1, 0.0, rng.beta(proper, n - proper + 1))


@dataclass(frozen=True, eq=False)
class Tabulated:
    """Sites of which only a table is known: how likely they lie below, row by row.

    Parameters
    ----------
    below_rows : array of shape (rows, blocks)
        For each row, and each block of sites.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.privacy import Tabulated
    >>> Tabulated(np.array([[0.1, 0.2], [0.6, 0.7]])).n_blocks
    2
    """

    below_rows: Floats

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        return int(self.below_rows.shape[1])

    @property
    def sends_infinity(self) -> Bools:
        """No block sends +inf for sure."""
        return np.zeros(self.n_blocks, dtype=bool)

    def below(self, c: Floats) -> Floats:
        """The rows, whatever is asked."""
        return self.below_rows

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Nothing is known between the rows."""
        return 0.0, 1.0

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """A table cannot be drawn from."""
        raise NotImplementedError
