"""What one site sends, as a law: the probability that it lies below the c-quantile of the scores.

Sites that share a law form a block; a site law describes all blocks of a federation at once, so that a
thousand sites of different sizes cost one vectorised call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._typing import Bools, Floats, Ints

Distortion = Callable[[Floats], ArrayLike]


class SiteLaw(Protocol):
    """The law of what the sites of each block send, on the scale of coverage."""

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        ...

    @property
    def sends_infinity(self) -> Bools:
        """Which blocks send +inf whatever their scores are."""
        ...

    def below(self, c: Floats) -> Floats:
        """p_b(c) for every block b: shape ``c.shape + (n_blocks,)``."""
        ...

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Two coverages: every p_b is at most v at the first, and every 1 - p_b at most w at the second."""
        ...

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw what a site of this block sends, as the coverage it would give alone."""
        ...


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """Exact sites: a site of block b sends its l_b-th smallest of n_b scores (paper, lemma C.1).

    On the scale of coverage that is the l-th of n uniforms, hence ``p(c) = I_c(l, n - l + 1)``.
    A rank above n is +inf (p = 0), a rank of 0 is -inf (p = 1).
    """

    n_points: Ints
    local_ranks: Ints

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        return int(self.n_points.size)

    @property
    def sends_infinity(self) -> Bools:
        """Blocks whose rank is above their size."""
        return self.local_ranks > self.n_points

    @property
    def _shape(self) -> tuple[Floats, Floats, Bools]:
        """The two parameters of each site's Beta law, and where there is one."""
        l, n = self.local_ranks, self.n_points
        proper = (l >= 1) & (l <= n)
        return np.where(proper, l, 1).astype(float), np.where(proper, n - l + 1, 1).astype(float), proper

    def below(self, c: Floats) -> Floats:
        """``I_c(l, n - l + 1)``."""
        a, b, proper = self._shape
        p = special.betainc(a, b, np.asarray(c, float)[..., None])
        return p if proper.all() else np.where(proper, p, (self.local_ranks < 1).astype(float))

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Extreme quantiles over the blocks that send a finite number."""
        a, b, proper = self._shape
        if not proper.any():
            return 0.0, 1.0
        low = special.betaincinv(a[proper], b[proper], v)
        high = 1.0 - special.betaincinv(b[proper], a[proper], w)
        below_surely = bool((self.local_ranks < 1).any())
        return 0.0 if below_surely else float(low.min()), float(high.max())

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """The l-th smallest of n uniforms is a Beta variable."""
        n, l = int(self.n_points[block]), int(self.local_ranks[block])
        if not 1 <= l <= n:
            return np.full(size, 0.0 if l < 1 else 1.0)
        return rng.beta(l, n - l + 1, size=size)


@dataclass(frozen=True, eq=False)
class Shifted:
    """Sites whose scores are distributed otherwise than the test point's (paper, section 3.5).

    ``distortions[b]`` is ``h(c) = F_b(F^{-1}(c))``: which share of block b's scores lies below the c-quantile
    of the test point's scores. It must be non-decreasing from [0, 1] to [0, 1] and accept arrays.
    """

    base: OrderStatistics
    distortions: Sequence[Distortion]

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        return self.base.n_blocks

    @property
    def sends_infinity(self) -> Bools:
        """Blocks whose rank is above their size."""
        return self.base.sends_infinity

    def _distorted(self, c: Floats) -> Floats:
        columns = [np.broadcast_to(np.asarray(h(c), float), np.shape(c)) for h in self.distortions]
        share = np.stack(columns, axis=-1)
        if not np.all((share >= 0) & (share <= 1)):
            raise ValueError("a distortion must map [0, 1] to [0, 1]")
        return share

    def below(self, c: Floats) -> Floats:
        """``I_{h(c)}(l, n - l + 1)``."""
        a, b, proper = self.base._shape
        p = special.betainc(a, b, self._distorted(np.asarray(c, float)))
        return np.where(proper, p, (self.base.local_ranks < 1).astype(float))

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """A distortion may do anything, so the whole range."""
        return 0.0, 1.0

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Invert the distortion by bisection at a draw of the undistorted site."""
        target = self.base.rvs(block, size, rng)
        low, high = np.zeros(size), np.ones(size)
        for _ in range(60):
            middle = (low + high) / 2
            under = np.asarray(self.distortions[block](middle), float) < target
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return (low + high) / 2
