"""What one site sends, as a law: how likely each of its numbers lies below the c-quantile of the scores.

Sites that share a law form a block; a site law describes all blocks of a federation at once, so that a
thousand sites of different sizes cost one vectorised call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedconformal._typing import Bools, Floats, Ints

Distortion = Callable[[Floats], ArrayLike]
"""``h(c) = F_site(F^{-1}(c))``: the share of a site's scores below the c-quantile of the test point's."""

_OUTSIDE = 1e-17  # of a step: what is left below its first and above its last point
_HALVINGS = 60


class SiteLaw(Protocol):
    """The law of what the sites of each block send, on the scale of coverage.

    A block's shape is ``(n_blocks,)`` where sites send one number, and ``(n_blocks, numbers)`` where they
    send several, in increasing order.
    """

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        ...

    @property
    def sends_infinity(self) -> Bools:
        """Which numbers are +inf whatever the scores are: the blocks' shape."""
        ...

    def below(self, c: Floats) -> Floats:
        """How likely each number is at most the c-quantile: ``c.shape`` followed by the blocks' shape."""
        ...

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Two coverages: finite numbers are below the first with at most v, above the last with at most w."""
        ...

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw what a site of this block sends, as coverages: ``size``, then the numbers if several."""
        ...


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """Exact sites: a site of block b sends its l_b-th smallest of n_b scores (paper, lemma C.1).

    On the scale of coverage that is the l-th of n uniforms, hence ``p(c) = I_c(l, n - l + 1)``.

    Parameters
    ----------
    n_points : array of shape (blocks,)
        Scores at a site of each block.
    local_ranks : array of shape (blocks,) or (blocks, numbers)
        The rank that a site sends, or several in increasing order. A rank above n is +inf (p = 0), a rank
        of 0 is -inf (p = 1).

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import OrderStatistics
    >>> sites = OrderStatistics(np.array([100]), np.array([92]))
    >>> sites.below(np.array([0.9])).round(3)
    array([[0.321]])
    """

    n_points: Ints
    local_ranks: Ints

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        return int(self.n_points.size)

    @cached_property
    def _sizes(self) -> Ints:
        """The sizes, in the shape of the ranks."""
        return self.n_points if self.local_ranks.ndim == 1 else self.n_points[:, None]

    @property
    def sends_infinity(self) -> Bools:
        """Ranks above the size of the site."""
        return self.local_ranks > self._sizes

    @cached_property
    def shape(self) -> tuple[Floats, Floats, Bools]:
        """The two parameters of each number's Beta law, and where there is one."""
        l, n = self.local_ranks, self._sizes
        proper = (l >= 1) & (l <= n)
        return np.where(proper, l, 1).astype(float), np.where(proper, n - l + 1, 1).astype(float), proper

    def below(self, c: Floats) -> Floats:
        """``I_c(l, n - l + 1)``."""
        x = np.asarray(c, float)
        return self.below_shares(x.reshape(*x.shape, *[1] * self.local_ranks.ndim))

    def below_shares(self, share: Floats) -> Floats:
        """The same where ``share`` of the scores lie below, which may differ between blocks."""
        a, b, proper = self.shape
        p = special.betainc(a, b, share)
        return p if proper.all() else np.where(proper, p, (self.local_ranks < 1).astype(float))

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """Extreme quantiles over the finite numbers."""
        a, b, proper = self.shape
        if not proper.any():
            return 0.0, 1.0
        low = special.betaincinv(a[proper], b[proper], v)
        high = 1.0 - special.betaincinv(b[proper], a[proper], w)
        below_surely = bool((self.local_ranks < 1).any())
        return 0.0 if below_surely else float(low.min()), float(high.max())

    def steps(self, narrower: float) -> tuple[Floats, Floats]:
        """First and last points of all rises from 0 to 1 that take place within less than ``narrower``."""
        a, b, proper = self.shape
        narrow = proper & (16 * np.sqrt(a * b / (a + b + 1)) / (a + b) < narrower)
        a, b = a[narrow], b[narrow]
        return special.betaincinv(a, b, _OUTSIDE), 1 - special.betaincinv(b, a, _OUTSIDE)

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Ranked uniforms are Beta variables, each a share of what the one before left."""
        n = int(self.n_points[block])
        ranks = np.atleast_1d(self.local_ranks[block]).tolist()
        draws, last, rank = [], np.zeros(size), 0
        for l in ranks:
            if 1 <= l <= n:
                last = last + (1 - last) * rng.beta(l - rank, n - l + 1, size=size)
                rank = l
            draws.append(last if 0 <= l <= n else np.ones(size))
        return draws[0] if self.local_ranks.ndim == 1 else np.stack(draws, axis=-1)


@dataclass(frozen=True, eq=False)
class Shifted:
    """Sites whose scores are distributed otherwise than the test point's (paper, section 3.5).

    Parameters
    ----------
    base : OrderStatistics
        What the sites send.
    distortions : sequence of callables
        ``distortions[b]`` is ``h(c) = F_b(F^{-1}(c))``: which share of a site's scores lies below the
        c-quantile of the test point's scores. It must be non-decreasing from [0, 1] to [0, 1] and accept
        arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import OrderStatistics
    >>> from fedconformal.laws import Shifted
    >>> sites = Shifted(OrderStatistics(np.array([100]), np.array([92])), [lambda c: c**2])
    >>> sites.below(np.array([0.9])).round(4)
    array([[0.0018]])
    """

    base: OrderStatistics
    distortions: Sequence[Distortion]

    @property
    def n_blocks(self) -> int:
        """How many blocks of equal sites there are."""
        return self.base.n_blocks

    @property
    def sends_infinity(self) -> Bools:
        """Ranks above the size of the site."""
        return self.base.sends_infinity

    def below(self, c: Floats) -> Floats:
        """``I_{h(c)}(l, n - l + 1)``."""
        share = self._shares(np.asarray(c, float))
        return self.base.below_shares(share.reshape(*share.shape, *[1] * (self.base.local_ranks.ndim - 1)))

    def _shares(self, c: Floats) -> Floats:
        share = np.stack(
            [np.broadcast_to(np.asarray(h(c), float), c.shape) for h in self.distortions], axis=-1
        )
        if not np.all((share >= 0) & (share <= 1)):
            raise ValueError("a distortion must map [0, 1] to [0, 1]")
        return share

    def bracket(self, v: float, w: float) -> tuple[float, float]:
        """A distortion may do anything, so the whole range."""
        return 0.0, 1.0

    def rvs(self, block: int, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Where the distortion reaches a draw of the undistorted site."""
        return inverse(self.distortions[block], self.base.rvs(block, size, rng))


def inverse(h: Distortion, shares: Floats) -> Floats:
    """Where a distortion reaches these shares, by bisection."""
    low, high = np.zeros(shares.shape), np.ones(shares.shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        under = np.asarray(h(middle), dtype=float) < shares
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return (low + high) / 2
