"""Distribution of the coverage of a whole federation, for many numbers of votes at
once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._util import Bools, Floats, Ints
from fedconformal.laws._sites import (
    OrderStatistics,
    SiteLaw,
    equal_cdf,
    equal_moments,
    integrate,
    window_moments,
)
from fedconformal.laws._votes import (
    Complex,
    Frame,
    Places,
    Votes,
    departures,
    heaviest,
    honest_counts,
    make_frame,
    power,
    vote_tails,
    worth_adding,
)

# -- votes when some of the sites may send anything: the most likely way to reach the vo

# Faulty sites do most harm by sending -inf, so that all their votes are cast. The worst
# choice of sites is taken for every coverage individually: P(C <= c) is at most the
# largest P(votes of the honest sites >= votes needed less those of the faulty ones).


MOST_CHOICES = 1000
"""Ways to choose the faulty sites up to which all are tried."""

_GRID = 33
_HALVINGS = 40
_ROWS = 32
_HELD = 2**22  # numbers
_FEW = 32  # choices whose small tails are worth their digits
_ROUNDING = 1e-13  # tails closer than this may be equal
_RESOLUTION = 1e-12  # of kinks, in units of the window


@dataclass(frozen=True, eq=False)
class Everyone:
    """All sites are counted, and ``gift`` votes are cast besides: a bound for any
    choice of faulty sites.

    Between ``first`` and ``last`` votes needed the threshold may be a number. With
    fewer it is -inf if faulty sites choose so, with more it is +inf.
    """

    finite: Votes
    gift: int

    @property
    def first(self) -> int:
        """Fewest votes needed that faulty sites cannot cast alone."""
        return self.gift + 1

    @property
    def last(self) -> int:
        """Most votes needed that finite numbers can reach."""
        return self.gift + self.finite.total

    def tails(self, ks: Ints, p: Floats, *, digits: bool) -> Floats:
        """Return P(votes >= k) at its worst, for each row of probabilities and each k;
        see ``vote_tails``.
        """
        return vote_tails(ks - self.gift, p, self.finite, digits=digits)

    def kinks(
        self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float
    ) -> Floats:
        """Return coverages at which another choice becomes the worst, between ``low``
        and ``high``.

        They are hints where to break an integral; ``below`` maps coverages to rows of
        probabilities.
        """
        return np.empty(0)


@dataclass(frozen=True, eq=False)
class OneVoteEach:
    """One number and one vote for all: at worst those least likely to lie below are
    faulty.
    """

    votes: Votes
    finite: Votes
    max_faulty: int

    @property
    def first(self) -> int:
        """More votes than the faulty sites have."""
        return self.max_faulty + 1

    @property
    def last(self) -> int:
        """Votes of all sites with finite numbers, and of faulty ones without."""
        return min(self.votes.total, self.finite.total + self.max_faulty)

    def tails(self, ks: Ints, p: Floats, *, digits: bool) -> Floats:
        """Return P(votes of the honest sites >= k - votes of the others)."""
        out = np.empty((len(p), ks.size))
        kept, which = np.unique(self._honest(p), axis=0, return_inverse=True)
        for i, counts in enumerate(kept):
            rows = which.ravel() == i
            out[rows] = vote_tails(
                ks - self.max_faulty,
                p[rows],
                Votes(counts, self.finite.weights),
                digits=digits,
            )
        return out

    def kinks(
        self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float
    ) -> Floats:
        """Return where the order of the probabilities changes, by bisection."""
        grid = np.linspace(low, high, _GRID)
        at_grid = self._honest(below(grid))
        change = np.flatnonzero(np.any(at_grid[1:] != at_grid[:-1], axis=1))
        left, right, before = grid[change], grid[change + 1], at_grid[change]
        for _ in range(_HALVINGS if change.size else 0):
            middle = (left + right) / 2
            same = np.all(self._honest(below(middle)) == before, axis=1)
            left, right = np.where(same, middle, left), np.where(same, right, middle)
        return right

    def _honest(self, p: Floats) -> Ints:
        return honest_counts(p[..., 0], self.votes.counts, self.max_faulty)


def n_choices(counts: Ints, max_faulty: int) -> int:
    """Return the number of ways to choose faulty sites by their blocks, or a number
    above the limit.
    """
    ways = [1] + [0] * max_faulty
    for count in counts.tolist():
        sums = [0, *accumulate(ways)]
        ways = [sums[j + 1] - sums[max(0, j - count)] for j in range(max_faulty + 1)]
        if ways[-1] > MOST_CHOICES:
            break
    return ways[-1]


def leave_out(counts: Ints, n_sites: int, first: int = 0) -> Iterator[Ints]:
    """Yield the sites of each block that are left, for every choice of those that are
    left out.
    """
    if n_sites == 0:
        yield counts
        return
    for b in range(first, counts.size):
        for out in range(1, min(n_sites, int(counts[b])) + 1):
            yield from leave_out(
                counts - out * (np.arange(counts.size) == b), n_sites - out, b + 1
            )


@dataclass(frozen=True, eq=False)
class Choices:
    """All ways to choose faulty sites, by how many of each block, and the worst of them
    everywhere.
    """

    votes: Votes
    finite: Votes
    max_faulty: int

    @cached_property
    def first(self) -> int:
        """More votes than any faulty sites have."""
        return heaviest(self.votes.by_site, self.votes.counts, self.max_faulty) + 1

    @cached_property
    def last(self) -> int:
        """Votes of all finite numbers, and of those that can be finite at faulty sites
        only.
        """
        infinite = self.votes.by_site - self.finite.by_site
        return self.finite.total + heaviest(
            infinite, self.votes.counts, self.max_faulty
        )

    def tails(self, ks: Ints, p: Floats, *, digits: bool) -> Floats:
        """Return the largest tail of any choice."""
        is_few = n_choices(self.votes.counts, self.max_faulty) <= _FEW
        if digits and is_few and worth_adding(self.finite, len(p), digits=True):
            tails = [
                vote_tails(
                    ks - (self.votes.counts - left) @ self.votes.by_site,
                    p,
                    Votes(left, self.finite.weights),
                )
                for left in leave_out(self.votes.counts, self.max_faulty)
            ]
            return np.asarray(np.max(tails, axis=0))
        return np.asarray(self._all_tails(ks, p).max(axis=0))

    def kinks(
        self, ks: Ints, below: Callable[[Floats], Floats], low: float, high: float
    ) -> Floats:
        """Return where the tails of two choices cross, as far as the grid shows it."""
        grid = np.linspace(low, high, _GRID)
        tails = self._all_tails(ks, below(grid))
        worst = tails.argmax(axis=0)
        cell, k = np.nonzero(worst[1:] != worst[:-1])
        before, after = worst[cell, k], worst[cell + 1, k]
        gains = [
            tails[after, rows, k] - tails[before, rows, k] for rows in (cell, cell + 1)
        ]
        clear = (gains[0] < -_ROUNDING) & (gains[1] > _ROUNDING)
        if not clear.any():
            return np.empty(0)
        from scipy.optimize import elementwise  # costs 20 MB, and few calls need it

        def gained(c: Floats, before: Places, after: Places, k: Places) -> Floats:
            tails, rows = self._all_tails(ks, below(c)), np.arange(c.size)
            return np.asarray(tails[after, rows, k] - tails[before, rows, k])

        roots = elementwise.find_root(
            gained,
            (grid[cell[clear]], grid[cell[clear] + 1]),
            args=(before[clear], after[clear], k[clear]),
            tolerances={
                "xatol": _RESOLUTION * (high - low),
                "xrtol": 0.0,
                "fatol": 0.0,
                "frtol": 0.0,
            },
        )
        return np.asarray(roots.bracket[1])

    def _all_tails(self, ks: Ints, p: Floats) -> Floats:
        """Return the tails of every choice: shape (choices, rows, ks)."""
        size = (
            self.finite.counts.size
            * (self.max_faulty + 1)
            * ks.size
            * (min(self.finite.total, 2048) + 1)
        )
        parts = np.array_split(p, -(-len(p) // max(1, min(_ROWS, _HELD // size))) or 1)
        return np.concatenate([self._spectral(ks, part) for part in parts], axis=1)

    def _spectral(self, ks: Ints, p: Floats) -> Floats:
        """Return the same by characteristic functions, in which faulty sites cast all
        their votes.
        """
        if not len(p):
            return np.empty((1, 0, ks.size))
        frame = make_frame(p, self.finite, gift=self.first - 1, faulty=self.max_faulty)
        factors = self._factors(p, frame)
        weights = np.conj(
            frame.levels
            * (frame.turns(-ks[:, None, None] * frame.frequencies) - frame.ends)
        )
        waves = _waves(
            factors,
            _lasts(factors, weights),
            0,
            self.max_faulty,
            np.ones_like(factors[0][0]),
        )
        return frame.complete(np.stack(list(waves)), ks)

    def _factors(self, p: Floats, frame: Frame) -> list[list[Complex]]:
        """Return each block's characteristic functions of the votes with 0, 1, ... of
        its sites faulty.
        """
        factors = [
            [np.ones((len(p), frame.frequencies.size), dtype=complex)]
        ] * self.finite.counts.size
        for count, cast, blocks in self.finite.kinds:
            for b, site in zip(
                blocks, departures(p[:, blocks], frame.steps(cast)), strict=True
            ):
                faulty = frame.turns(self.votes.by_site[b] * frame.frequencies)
                honest = range(count, max(count - self.max_faulty, 0) - 1, -1)
                factors[b] = [
                    power(site[None], h) * faulty ** (count - h) for h in honest
                ]
        return factors


def _lasts(factors: list[list[Complex]], weights: Complex) -> list[list[Complex]]:
    """Return, for each block, the factors from it on times the weights, if the last
    faulty sites are its.

    Conjugate, and of shape (ks, rows, frequencies): the sum of a product's real parts
    is then an inner product.
    """
    lasts = []
    for block in reversed(factors):
        lasts.append([weights * np.conj(factor) for factor in block])
        weights = lasts[-1][0]
    return lasts[::-1]


def _waves(
    factors: list[list[Complex]],
    lasts: list[list[Complex]],
    first: int,
    left: int,
    product: Complex,
) -> Iterator[Floats]:
    """Yield sums over frequencies, (rows, ks), with ``left`` sites faulty of the blocks
    from ``first`` on.
    """
    for b in range(first, len(factors)):
        for a in range(1, min(left, len(factors[b]) - 1) + 1):
            if a == left:
                yield np.einsum(
                    "rx,krx->rk", product.view(float), lasts[b][a].view(float)
                )
            else:
                yield from _waves(
                    factors, lasts, b + 1, left - a, product * factors[b][a]
                )
        product = product * factors[b][0]


Tally = Everyone | OneVoteEach | Choices
"""Ways to count the votes of a federation."""


def choose_tally(votes: Votes, finite: Votes, max_faulty: int) -> Tally:
    """Return how to count, from all votes, those of finite numbers, and the number of
    faulty sites.
    """
    if max_faulty == 0:
        return Everyone(finite, 0)
    if votes.weights.shape[1] == 1 and (votes.weights == 1).all():
        return OneVoteEach(votes, finite, max_faulty)
    if n_choices(votes.counts, max_faulty) <= MOST_CHOICES:
        return Choices(votes, finite, max_faulty)
    return Everyone(finite, heaviest(votes.by_site, votes.counts, max_faulty))


# more than rounding leaves of a tail probability of zero, and less than matters
_NOISE = 1e-14
_TOLERANCE = 1e-13  # of integrals over a window scaled to length one
_LAST = float(
    np.nextafter(1.0, 0.0)
)  # the largest coverage below 1, where the cdf is continuous


@dataclass(frozen=True, eq=False)
class Federation:
    """Blocks of equal sites with votes, up to ``max_faulty`` of which may send
    anything.

    The threshold is the smallest reported value at which the votes of all numbers up to
    it reach those needed, so P(C <= c) = P(votes of the numbers below the c-quantile >=
    votes needed). With faulty sites it is a bound.

    Parameters
    ----------
    sites : SiteLaw
        Distribution of what the sites of each block send.
    counts : array of shape (blocks,)
        Number of sites of each block.
    max_faulty : int
        At most this many sites are arbitrary.
    weights : array of shape (blocks,) or (blocks, numbers), optional
        Votes of each number: whole numbers, 1 by default. Where blocks send different
        numbers of numbers, those that are not sent have weight 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws import OrderStatistics
    >>> from fedconformal.laws._federation import Federation
    >>> federation = Federation(
    ...     OrderStatistics(np.array([100]), np.array([92])), np.array([10])
    ... )
    >>> federation.cdf(np.array([0.9]), np.array([4])).round(3)
    array([[0.407]])
    """

    sites: SiteLaw
    counts: Ints
    max_faulty: int = 0
    weights: Ints | None = None

    @property
    def n_sites(self) -> int:
        """Number of all sites, including faulty ones and those that send +inf."""
        return int(self.counts.sum())

    @property
    def n_votes(self) -> int:
        """Number of all votes, including those of infinite numbers."""
        return self._all_votes.total

    @property
    def unit(self) -> int:
        """Largest number of votes of which every weight is a multiple."""
        return self._all_votes.unit

    @cached_property
    def _infinite(self) -> Bools:
        """Numbers that are +inf: shape (blocks, numbers)."""
        return np.asarray(self.sites.sends_infinity).reshape(self.counts.size, -1)

    @cached_property
    def _all_votes(self) -> Votes:
        shape = self._infinite.shape
        weights = (
            np.ones(1, dtype=np.int64)
            if self.weights is None
            else np.asarray(self.weights)
        )
        return Votes(
            self.counts, np.broadcast_to(weights.reshape(len(weights), -1), shape)
        )

    @cached_property
    def _votes(self) -> Votes:
        """Votes in units of their greatest common divisor, which changes nothing but
        their size.
        """
        return Votes(self.counts, self._all_votes.weights // self.unit)

    @cached_property
    def _finite(self) -> Votes:
        """Votes that can lie below some coverage."""
        return Votes(self.counts, np.where(self._infinite, 0, self._votes.weights))

    @cached_property
    def _tally(self) -> Tally:
        return choose_tally(self._votes, self._finite, self.max_faulty)

    def needed(self, ks: ArrayLike) -> Ints:
        """Return the votes needed in units of ``unit``."""
        return np.asarray(-(-np.asarray(ks) // self.unit))

    @cached_property
    def equal(self) -> tuple[int, int, int] | None:
        """Sites, points and rank when the sites that count are alike, exact, and send
        one number each.
        """
        if not isinstance(self.sites, OrderStatistics) or self._infinite.shape[1] > 1:
            return None
        votes = self._votes.weights[:, 0]
        counted = ~self._infinite[:, 0] & (self.counts > 0) & (votes > 0)
        # Sites that send +inf, or have no vote, matter only if that may be a lie.
        if (votes != 1)[counted | (self.max_faulty > 0)].any():
            return None
        columns = self.sites.n_points, self.sites.local_ranks.ravel()
        kinds = {*zip(*(column[counted].tolist() for column in columns), strict=True)}
        if len(kinds) != 1 or min(kinds)[1] < 1:
            return None
        n, rank = kinds.pop()
        return self._tally.last - self.max_faulty, n, rank

    def is_proper(self, ks: ArrayLike) -> Bools:
        """Return whether the threshold is neither surely -inf nor surely +inf, for each
        number of votes.
        """
        needed = self.needed(ks)
        return np.asarray((needed >= self._tally.first) & (needed <= self._tally.last))

    def certain(self, ks: ArrayLike) -> Floats:
        """Return the coverage where the threshold is surely -inf (0) or surely +inf
        (1).
        """
        return np.where(self.needed(ks) < self._tally.first, 0.0, 1.0)

    def cdf(self, c: Floats, ks: Ints, *, digits: bool = True) -> Floats:
        """Return P(C <= c) for many coverages and votes needed at once.

        Parameters
        ----------
        c : array
            Coverages in [0, 1).
        ks : array
            Votes needed.
        digits : bool
            Whether small probabilities need a small relative error too, which costs
            more for many sites; else the absolute error is about 1e-15. With many
            choices of faulty sites whose votes differ it is anyway.

        Returns
        -------
        array of shape (len(c), len(ks))
        """
        if self.equal is not None and self.is_proper(ks).all():
            return equal_cdf(
                *self.equal, self.needed(ks)[None, :] - self.max_faulty, c[:, None]
            )
        return self._tally.tails(self.needed(ks), self._below(c), digits=digits)

    def _below(self, c: Floats) -> Floats:
        """Return the probabilities of the numbers: shape (len(c), blocks, numbers)."""
        return self.sites.below(c).reshape(c.size, *self._infinite.shape)

    def moments(self, ks: Ints) -> tuple[Floats, Floats]:
        """Return mean and variance of the coverage for many votes needed at once.

        Parameters
        ----------
        ks : array
            Votes needed.

        Returns
        -------
        mean, variance : arrays of the shape of ``ks``
        """
        mean, variance = self.certain(ks), np.zeros(ks.shape)
        proper = self.is_proper(ks)
        if proper.any():
            mean[proper], variance[proper] = self._proper_moments(ks[proper])
        return mean, variance

    def _proper_moments(self, ks: Ints) -> tuple[Floats, Floats]:
        if self.equal is not None:
            m, n, l = self.equal
            return equal_moments(m, n, l, self.needed(ks) - self.max_faulty)
        low, high = self._window(np.array([ks.min(), ks.max()]))
        width = high - low

        def integrand(u: Floats) -> Floats:
            cdf = self.cdf(np.minimum(low + width * u, _LAST), ks, digits=False)
            return np.concatenate([cdf, u[:, None] * cdf], axis=1)

        kinks = self._tally.kinks(self.needed(ks), self._below, low, min(high, _LAST))
        edges = np.unique([low, high, *kinks[(kinks > low) & (kinks < high)]])
        area, lever = np.split(
            integrate(integrand, (edges - low) / width, tolerance=_TOLERANCE), 2
        )
        mean, variance = window_moments(np.asarray(low), np.asarray(high), area, lever)
        return mean, variance

    def _window(self, ends: Ints) -> tuple[float, float]:
        """Return where the coverage lies but for a negligible mass, for the fewest and
        most votes needed.
        """
        low, high = 0.0, 1.0
        for _ in range(12):
            grid = np.linspace(low, high, 17)
            cdf = self.cdf(np.minimum(grid, _LAST), ends, digits=False)
            nothing, all_of_it = cdf[:, 0] <= _NOISE, cdf[:, 1] >= 1 - _NOISE
            i = int(np.argmin(nothing)) - 1 if not nothing.all() else 0
            j = int(np.argmax(all_of_it)) if all_of_it.any() else len(grid) - 1
            previous = high - low
            low, high = float(grid[max(i, 0)]), float(grid[max(j, i + 1, 1)])
            if high - low > previous / 2:
                break
        return low, high
