"""Federations whose sites differ strongly, for simulations: scores and their
distribution functions.
"""

import numpy as np
from scipy import special


def half_normal(t):
    return special.erf(np.asarray(t) / np.sqrt(2)) * (np.asarray(t) > 0)


class Scale:
    """Half-normal scores of different scales."""

    def __init__(self, scales):
        self.scales = np.asarray(scales, dtype=float)

    def draw(self, rng, runs, n):
        return (
            np.abs(rng.standard_normal((runs, self.scales.size, n)))
            * self.scales[:, None]
        )

    def cdf(self, t):
        return half_normal(t[:, None] / self.scales)


class Location:
    """Half-normal scores that are moved by different amounts."""

    def __init__(self, moves):
        self.moves = np.asarray(moves, dtype=float)

    def draw(self, rng, runs, n):
        return (
            np.abs(rng.standard_normal((runs, self.moves.size, n)))
            + self.moves[:, None]
        )

    def cdf(self, t):
        return half_normal(t[:, None] - self.moves)


class Tail:
    """Pareto scores, P(S > s) = s ** -power, with different powers."""

    def __init__(self, powers):
        self.powers = np.asarray(powers, dtype=float)

    def draw(self, rng, runs, n):
        return rng.random((runs, self.powers.size, n)) ** (-1 / self.powers[:, None])

    def cdf(self, t):
        t = np.maximum(t, 1.0)[:, None]
        return 1 - t**-self.powers


class TwoPoints:
    """Scores that are j with some probability at site j, else 0: the worst a site can
    do with its ranks.
    """

    def __init__(self, chances):
        self.chances = np.asarray(chances, dtype=float)
        self.values = 1.0 + np.arange(self.chances.size)

    def draw(self, rng, runs, n):
        high = rng.random((runs, self.chances.size, n)) < self.chances[:, None]
        return np.where(high, self.values[:, None], 0.0)

    def cdf(self, t):
        return np.where(t[:, None] >= self.values, 1.0, 1 - self.chances) * (
            t[:, None] >= 0
        )


FEDERATIONS = {
    "alike": Scale([1] * 10),
    "three doubled": Scale([1] * 7 + [2] * 3),
    "one tenfold": Scale([1] * 9 + [10]),
    "scales": Scale(np.geomspace(0.2, 5, 10)),
    "location": Location(np.linspace(0, 6, 10)),
    "one far away": Location([0] * 9 + [100]),
    "tail": Tail(np.geomspace(0.3, 8, 10)),
    "one heavy tail": Tail([5] * 9 + [0.1]),
    "two points": TwoPoints([0.1] * 10),
    "two points, some rare": TwoPoints(np.linspace(0.02, 0.4, 10)),
    "two points, one certain": TwoPoints([0.05] * 9 + [1.0]),
    "two points, half of them": TwoPoints([0.0] * 5 + [0.3] * 5),
}
"""Twelve kinds of heterogeneity, of ten sites each."""


def thresholds(values, votes, needed):
    """The smallest value at which votes reach those needed, for each row; +inf where
    they never do.
    """
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    counted = np.cumsum(
        np.broadcast_to(votes, values.shape)[np.arange(len(values))[:, None], order],
        axis=1,
    )
    first = (counted >= needed).argmax(axis=1)
    found = ordered[np.arange(len(values)), first]
    return np.where(counted[:, -1] >= needed, found, np.inf)
