"""Laws of weighted votes by brute force: the oracle for very uneven federations and for
far tails.

Nothing is shared with the package but scipy's incomplete beta function: votes are added
site by site, means are integrated on panels that follow every step of every site, and
tails are summed with fifty digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb

import mpmath  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv

import fedconformal as fc

DIGITS = 50
NODES = 24  # of Gauss and Legendre on every panel
STEPS = np.array(
    [1e-20, 1e-14, 1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.5]
)  # and what they leave to 1

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Federation:
    """Sites with their sizes, ranks in increasing order and votes of each number; and
    the votes needed.
    """

    sizes: tuple[int, ...]
    ranks: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    needed: int

    @property
    def ours(self) -> fc.CoverageLaw:
        """The law as the package has it."""
        return fc.CoverageLaw(
            n_points=list(self.sizes),
            local_rank=list(self.ranks),
            server_rank=self.needed,
            weights=list(self.weights),
        )

    @property
    def votes(self) -> int:
        return sum(
            weight * len(ranks)
            for weight, ranks in zip(self.weights, self.ranks, strict=True)
        )


def federation(rng: np.random.Generator, smallest: int, largest: int) -> Federation:
    """A few sites whose sizes differ by orders of magnitude, ranks near one level, and
    any votes.
    """
    m, level = int(rng.integers(2, 9)), rng.uniform(0.3, 0.97)
    sizes = np.exp(rng.uniform(np.log(smallest), np.log(largest), m)).astype(np.int64)
    sizes[:2] = smallest, largest
    numbers = int(rng.integers(1, 4))
    ranks = tuple(_ranks(rng, int(n), level, numbers) for n in sizes)
    weights = tuple(int(weight) for weight in rng.integers(1, 6, m))
    drawn = Federation(tuple(sizes.tolist()), ranks, weights, 1)
    return Federation(
        drawn.sizes, ranks, weights, int(rng.integers(1, drawn.votes + 1))
    )


def _ranks(
    rng: np.random.Generator, n: int, level: float, numbers: int
) -> tuple[int, ...]:
    near = np.rint(
        rng.normal(level * n, 1.5 * np.sqrt(n * level * (1 - level)), numbers)
    )
    return tuple(sorted({int(rank) for rank in np.clip(near, 1, n)}))


def mean(given: Federation) -> float:
    """Mean coverage, by Gauss-Legendre integration between the places that follow the
    sites' steps.
    """
    edges = [np.array([0.0, 1.0])]
    for n, ranks in zip(given.sizes, given.ranks, strict=True):
        for rank in ranks:
            edges += [
                betaincinv(rank, n - rank + 1, STEPS),
                1 - betaincinv(n - rank + 1, rank, STEPS),
            ]
    ends = np.unique(np.clip(np.concatenate(edges), 0.0, 1.0))
    x, w = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(ends)[:, None] / 2
    nodes = ends[:-1, None] + half * (1 + x)
    return float(
        1 - np.sum(half * w * _enough(given, nodes.ravel()).reshape(nodes.shape))
    )


def _enough(given: Federation, c: Array) -> Array:
    """P(votes below c >= those needed), adding sites one by one."""
    law = np.zeros((c.size, given.votes + 1))
    law[:, 0] = 1.0
    for n, ranks, weight in zip(given.sizes, given.ranks, given.weights, strict=True):
        below = [
            np.ones(c.size),
            *(betainc(rank, n - rank + 1, c) for rank in ranks),
            np.zeros(c.size),
        ]
        longer = np.zeros_like(law)
        for i in range(len(ranks) + 1):
            here = (below[i] - below[i + 1])[:, None]
            longer[:, i * weight :] += here * law[:, : law.shape[1] - i * weight]
        law = longer
    enough: Array = law[:, given.needed :].sum(axis=1)
    return enough


def tail(given: Federation, c: float) -> mpmath.mpf:
    """P(C <= c) with fifty digits, for sites of a few thousand points."""
    with mpmath.workdps(DIGITS):
        law = [mpmath.mpf(1)]
        for n, ranks, weight in zip(
            given.sizes, given.ranks, given.weights, strict=True
        ):
            law = _added(law, _shares(n, ranks, mpmath.mpf(c)), weight)
        return mpmath.fsum(law[given.needed :])


def upper_tail(m: int, n: int, rank: int, needed: int, c: float) -> mpmath.mpf:
    """P(C > c) for equal sites of one vote, with fifty digits."""
    with mpmath.workdps(DIGITS):
        law = [mpmath.mpf(1)]
        for _ in range(m):
            law = _added(law, _shares(n, (rank,), mpmath.mpf(c)), 1)
        return mpmath.fsum(law[:needed])


def _shares(n: int, ranks: Sequence[int], c: mpmath.mpf) -> list[mpmath.mpf]:
    """How likely 0, 1, ... of a site's numbers lie below the c-quantile: so many of n
    points do.
    """
    edges = [0, *ranks, n + 1]
    masses = [comb(n, i) * c**i * (1 - c) ** (n - i) for i in range(n + 1)]
    return [mpmath.fsum(masses[low:high]) for low, high in pairwise(edges)]


def _added(
    law: list[mpmath.mpf], shares: list[mpmath.mpf], weight: int
) -> list[mpmath.mpf]:
    longer = [mpmath.mpf(0)] * (len(law) + weight * (len(shares) - 1))
    for votes, before in enumerate(law):
        for i, share in enumerate(shares):
            longer[votes + i * weight] += before * share
    return longer
