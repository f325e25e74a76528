"""The law of what a private site sends."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedconformal.laws._counts import binomial_masses
from fedconformal.laws._sites import Floats, Ints


@dataclass(frozen=True, eq=False)
class Released:
    """Private sites, by a tail that bounds the rank of their release for every data set.

    If P(R < r) <= T[r] whatever the data, what the site sends is stochastically at least its R*-th smallest
    score with R* independent of the data and P(R* < r) = T[r]. It lies below the c-quantile with probability
    at most E[T(X + 1)], X ~ Binomial(n, c) the number of its scores that do.
    """

    n_points: Ints
    tails: tuple[Floats, ...]

    @property
    def n_groups(self) -> int:
        """How many groups of equal sites there are."""
        return len(self.tails)

    @property
    def sends_infinity(self) -> NDArray[np.bool_]:
        """No group sends +inf for sure."""
        return np.zeros(self.n_groups, dtype=bool)

    def below(self, c: Floats) -> Floats:
        """E[T(X + 1)], X ~ Binomial(n, c)."""
        flat = np.asarray(c, float).ravel()
        columns = []
        for n, tail in zip(self.n_points, self.tails, strict=True):
            first, masses = binomial_masses(flat, int(n))
            columns.append(masses @ tail[first + 1 : first + 1 + masses.shape[1]])
        # Rounding may carry a sum past 1, where the incomplete beta function knows no answer.
        return np.clip(np.stack(columns, axis=-1), 0.0, 1.0).reshape(*np.shape(c), self.n_groups)

    def above(self, c: Floats) -> Floats:
        """One minus the same."""
        return 1.0 - self.below(c)

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """A release may fall anywhere."""
        return 0.0, 1.0

    def rvs(self, group: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw R*, then the score of that rank."""
        n, tail = int(self.n_points[group]), self.tails[group]
        rank = np.searchsorted(tail, rng.random(size), side="right") - 1
        proper = np.clip(rank, 1, n)
        return np.where(rank < 1, 0.0, rng.beta(proper, n - proper + 1))
