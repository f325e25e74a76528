"""How likely a site's number lies below a coverage: the rank-th smallest of n uniform points.

Its beta density in s = log(c / (1 - c)) is proportional to exp(-D(s)), D convex. What lies beyond c, on the
side away from the largest density, is the density at c times a factor of order one. For a site with few
points the factor is a sum of binomial terms, each a ratio times the last; for one with many it is the
integral of a smooth falling function, by Gauss' rule. Both sides of the largest density add up to one, which
fixes what they have in common: no special function is needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np

from fedconformal._typing import Bools, Floats, Ints

COST = 200
"""Operations that one probability takes, whatever the size of the site."""

_DROP = 40.0  # what is below exp(-40) of the largest term is left out
_MOST_TERMS = 128  # beyond, the sum is an integral
_NODES = 32
_SHORT = 0.5  # up to here the series of exp(x) - 1 - x has all digits
_AT_ONCE = 2**15  # values that fit into a processor's cache


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers of certain ranks, at sites of certain sizes.

    Parameters
    ----------
    sizes, ranks : sequence of int
        For each number the points of its site, and its rank among them, from 1 to the size.
    """

    sizes: Sequence[int]
    ranks: Sequence[int]

    def __len__(self) -> int:
        """How many numbers."""
        return len(self.sizes)

    @cached_property
    def shares(self) -> Floats:
        """Where each density is largest: rank / (n + 1)."""
        return np.array([rank / (n + 1) for n, rank in zip(self.sizes, self.ranks, strict=True)])

    @cached_property
    def spreads(self) -> Floats:
        """Standard deviation of each number."""
        return np.sqrt(self.shares * self._others / (self._total + 1))

    def below(self, c: Floats, rest: float = 0.0) -> Floats:
        """P(the number lies below c).

        Parameters
        ----------
        c : array
            Coverages between 0 and 1.
        rest : float
            To be added to them: what a float64 has no room for.

        Returns
        -------
        array of shape (numbers, coverages)
        """
        c = np.clip(c, 1e-250, 1 - 2.0**-53)
        found = np.empty((len(self), c.size))
        for some in self._batches(c.size):
            found[some] = self._below(some, np.broadcast_to(c, (some.size, c.size)), rest)
        return found

    # -- what is the same for every coverage -------------------------------------------------------------

    @cached_property
    def _total(self) -> Floats:
        return np.array(self.sizes) + 1.0

    @cached_property
    def _others(self) -> Floats:
        return np.array([(n + 1 - rank) / (n + 1) for n, rank in zip(self.sizes, self.ranks, strict=True)])

    @cached_property
    def _rounded(self) -> Floats:
        """What ``shares`` has no room for."""
        rows = zip(self.sizes, self.ranks, self.shares.tolist(), strict=True)
        return np.array([float(Fraction(rank, n + 1) - Fraction(share)) for n, rank, share in rows])

    @cached_property
    def _terms(self) -> Ints:
        """Terms of the sum that matter, by Bernstein's inequality."""
        variance = self._total * self.shares * self._others
        reach = _DROP / 3 + np.sqrt((_DROP / 3) ** 2 + 2 * _DROP * variance)
        return np.ceil(np.minimum(reach, self._total)).astype(np.int64)

    @cached_property
    def _is_long(self) -> Bools:
        return self._terms > _MOST_TERMS

    @cached_property
    def _whole(self) -> Floats:
        """Both sides of the largest density together, in its units."""
        found = np.empty(len(self))
        for some in self._batches(2):
            middle, other = (np.repeat(x[some, None], 2, axis=1) for x in (self.shares, self._others))
            sides = np.broadcast_to(np.array([True, False]), middle.shape)
            found[some] = self._factor(some, middle, other, sides, np.zeros(middle.shape)).sum(axis=1)
        return found

    def _batches(self, width: int) -> Iterator[Ints]:
        """Numbers that cost about the same, a few at a time."""
        order = np.argsort(self._terms, kind="stable")
        rows = max(1, _AT_ONCE // max(width, 1))
        for part in (order[~self._is_long[order]], order[self._is_long[order]]):
            for start in range(0, part.size, rows):
                yield part[start : start + rows]

    # -- for some numbers --------------------------------------------------------------------------------

    def _below(self, some: Ints, c: Floats, rest: float) -> Floats:
        share, other, total = (x[some, None] for x in (self.shares, self._others, self._total))
        away = (c - share) - (self._rounded[some, None] - rest)
        low = away < 0
        step = _log_ratio(away, share, c) - _log_ratio(-away, other, 1 - c)
        height = np.exp(-total * _bend(step, share, other))
        beyond = height * self._factor(some, c, 1 - c, low, total * np.abs(away)) / self._whole[some, None]
        return np.where(low, beyond, 1 - beyond)

    def _factor(self, some: Ints, c: Floats, q: Floats, low: Bools, slope: Floats) -> Floats:
        """What lies beyond c, in units of the density there."""
        total = self._total[some, None]
        if self._is_long[some[0]]:
            return _integral(total, c, q, np.where(low, -1.0, 1.0), slope)
        rank = np.array([float(self.ranks[i]) for i in some])[:, None]
        other = total - rank
        odds = np.where(low, c / q, q / c)
        return np.where(low, 1 / q, rank / other / c) * _sums(rank, other, odds, low, self._terms[some[-1]])


def _log_ratio(away: Floats, middle: Floats, c: Floats) -> Floats:
    """log(c / middle), to the last digits also where they are close."""
    near = np.abs(away) < _SHORT * middle
    return np.where(near, np.log1p(np.where(near, away / middle, 0.0)), np.log(c / middle))


def _sums(rank: Floats, other: Floats, odds: Floats, low: Bools, terms: int) -> Floats:
    """1 + r_1 (1 + r_2 (1 + ...)), r_i the ratio of binomial probabilities i places beyond the rank."""
    sums = np.ones(odds.shape)
    for i in range(terms, 0, -1):
        sums *= odds
        sums *= np.where(
            low, np.maximum(other - i, 0.0) / (rank + i), np.maximum(rank - i, 0.0) / (other + i)
        )
        sums += 1
    return sums


def _integral(total: Floats, c: Floats, q: Floats, side: Floats, slope: Floats) -> Floats:
    """The density beyond c, in units of that at c, where D has this slope."""
    reach = 2 * _DROP / (slope + np.sqrt(slope**2 + 2 * _DROP * total * c * q))
    for _ in range(2):  # D is convex: the first step may go too far, the next comes back without passing it
        lifted = c * np.expm1(side * reach)
        rise = slope + total * np.abs(lifted * q / (1 + lifted))
        fallen = total * _bend(side * reach, c, q) + slope * reach
        reach = reach - (fallen - _DROP) / rise
    found = np.zeros(c.shape)
    for node, weight in zip(*_gauss(), strict=True):
        u = node * reach
        found += weight * np.exp(-total * _bend(side * u, c, q) - slope * u)
    found *= reach
    return found


def _bend(u: Floats, c: Floats, q: Floats) -> Floats:
    """log(q + c exp(u)) - c u, q = 1 - c: how far D bends away from its tangent. No digits cancel."""
    bent: Floats = np.log1p(q * _curve(-c * u) + c * _curve(q * u))
    return bent


def _curve(x: Floats) -> Floats:
    """exp(x) - 1 - x."""
    longest = float(np.abs(x).max())
    near = x if longest < _SHORT else np.where(np.abs(x) < _SHORT, x, 0.0)
    series = np.ones_like(near)
    for i in range(7 if longest < 0.01 else 15, 2, -1):
        series *= near
        series *= 1 / i
        series += 1
    series *= near
    series *= near / 2
    return series if longest < _SHORT else np.where(np.abs(x) < _SHORT, series, np.expm1(x) - x)


@cache
def _gauss() -> tuple[list[float], list[float]]:
    """Nodes and weights of Gauss' rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()
