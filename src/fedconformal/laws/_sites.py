"""What one site sends, as a law: the probability that it lies below the c-quantile of the scores.

Sites that share a law form a group; a site law describes all groups of a federation at once, so that a
thousand sites of different sizes cost one vectorised call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Distortion = Callable[[Floats], ArrayLike]


class SiteLaw(Protocol):
    """The law of what the sites of each group send, on the scale of coverage."""

    @property
    def n_groups(self) -> int:
        """How many groups of equal sites there are."""
        ...

    @property
    def sends_infinity(self) -> NDArray[np.bool_]:
        """Which groups send +inf whatever their scores are."""
        ...

    def below(self, c: Floats) -> Floats:
        """p_g(c) for every group g: shape ``c.shape + (n_groups,)``."""
        ...

    def above(self, c: Floats) -> Floats:
        """1 - p_g(c), computed without cancellation."""
        ...

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Two coverages: every p_g is at most v at the first, and every 1 - p_g at most w at the second."""
        ...

    def rvs(self, group: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw what a site of this group sends, as the coverage it would give alone."""
        ...


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """Exact sites: a site of group g sends its l_g-th smallest of n_g scores (paper, lemma C.1).

    On the scale of coverage that is the l-th of n uniforms, hence ``p(c) = I_c(l, n - l + 1)``.
    A rank above n is +inf (p = 0), a rank of 0 is -inf (p = 1).
    """

    n_points: Ints
    local_ranks: Ints

    @property
    def n_groups(self) -> int:
        """How many groups of equal sites there are."""
        return int(self.n_points.size)

    @property
    def sends_infinity(self) -> NDArray[np.bool_]:
        """Groups whose rank is above their size."""
        return self.local_ranks > self.n_points

    @property
    def _shape(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """The two parameters of each site's Beta law, and where there is one."""
        l, n = self.local_ranks, self.n_points
        proper = (l >= 1) & (l <= n)
        return np.where(proper, l, 1).astype(float), np.where(proper, n - l + 1, 1).astype(float), proper

    def below(self, c: Floats) -> Floats:
        """``I_c(l, n - l + 1)``."""
        a, b, proper = self._shape
        p = special.betainc(a, b, np.asarray(c, float)[..., None])
        return p if proper.all() else np.where(proper, p, (self.local_ranks < 1).astype(float))

    def above(self, c: Floats) -> Floats:
        """``I_{1-c}(n - l + 1, l)``."""
        a, b, proper = self._shape
        q = special.betainc(b, a, 1.0 - np.asarray(c, float)[..., None])
        return q if proper.all() else np.where(proper, q, (self.local_ranks >= 1).astype(float))

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Extreme quantiles over the groups that send a finite number."""
        a, b, proper = self._shape
        if not proper.any():
            return 0.0, 1.0
        low = special.betaincinv(a[proper], b[proper], v)
        high = 1.0 - special.betaincinv(b[proper], a[proper], w)
        below_surely = bool((self.local_ranks < 1).any())
        return 0.0 if below_surely else float(low.min()), float(high.max())

    def rvs(self, group: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """The l-th smallest of n uniforms is a Beta variable."""
        n, l = int(self.n_points[group]), int(self.local_ranks[group])
        if not 1 <= l <= n:
            return np.full(size, 0.0 if l < 1 else 1.0)
        return rng.beta(l, n - l + 1, size=size)


@dataclass(frozen=True, eq=False)
class Shifted:
    """Sites whose scores are distributed otherwise than the test point's (paper, section 3.5).

    ``distortions[g]`` is ``h(c) = F_g(F^{-1}(c))``: which share of site g's scores lies below the c-quantile
    of the test point's scores. It must be non-decreasing from [0, 1] to [0, 1] and accept arrays.
    """

    base: OrderStatistics
    distortions: Sequence[Distortion]

    @property
    def n_groups(self) -> int:
        """How many groups of equal sites there are."""
        return self.base.n_groups

    @property
    def sends_infinity(self) -> NDArray[np.bool_]:
        """Groups whose rank is above their size."""
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

    def above(self, c: Floats) -> Floats:
        """``1 - I_{h(c)}(l, n - l + 1)``."""
        return 1.0 - self.below(c)

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """A distortion may do anything, so the whole range."""
        return 0.0, 1.0

    def rvs(self, group: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Invert the distortion by bisection at a draw of the undistorted site."""
        target = self.base.rvs(group, size, rng)
        low, high = np.zeros(size), np.ones(size)
        for _ in range(60):
            middle = (low + high) / 2
            under = np.asarray(self.distortions[group](middle), float) < target
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return (low + high) / 2
