"""The search for ranks: the rank vector of a family and the server rank that serve a criterion best."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws import Federation, OrderStatistics, equal_cdf, equal_moments, exact_cdf, exact_mean
from fedconformal.planning._family import Family
from fedconformal.planning._goal import Goal
from fedconformal.planning._screen import Screen, screen

_REFEREE_BITS = 5_000_000  # size of the integers up to which a tie with the level is settled exactly


@dataclass(frozen=True)
class Choice:
    """A rank vector (by its place in the family), a server rank, and the law's mean and variance."""

    vector: int
    server_rank: int
    mean: float
    variance: float


def _next_ranks(low: Ints, high: Ints, found: Ints, below: Bools, stride: int) -> Ints:
    """Three ranks to try: quarters of a known bracket, else ever larger steps away from its known end."""
    quarters = low[:, None] + (high - low)[:, None] * np.array([1, 2, 3]) // 4
    steps = np.array([1, stride // 2, stride])
    up, down = low[:, None] + steps, high[:, None] - steps
    valid = (found > 0)[:, None]
    ks: Ints = np.where(valid & below[:, None], quarters, np.where(valid, down, up))
    return ks


def search(family: Family, goal: Goal) -> Choice | None:
    """The best valid choice; None when no finite threshold is valid.

    Every choice that is returned has been checked with the exact law. Equal sites are searched
    exhaustively, and so are families of up to 64 rank vectors. Of larger ones the vectors that look best to
    second order are checked, the paper's own choice among them. The last vector of a family must be its
    largest.
    """
    return _Search(family, goal).best()


class _Search:
    def __init__(self, family: Family, goal: Goal) -> None:
        self.family, self.goal = family, goal
        self.level = float(goal.level)
        self.first = goal.max_faulty + 1
        self.last = family.finite_sites - goal.max_faulty  # beyond it faulty sites could make q infinite
        self.glance: Screen = screen(family, self.level, goal.max_faulty)
        self.equal = family.n_points.size == 1
        self._bounded = self.equal and goal.criterion.glance_is_bound

    # -- exact evaluation ------------------------------------------------------------------------------

    def _federation(self, vector: int) -> Federation:
        sites = OrderStatistics(self.family.n_points, self.family.ranks[vector])
        return Federation(sites, self.family.counts, self.goal.max_faulty)

    def _moments(self, vectors: Ints, ks: Ints) -> tuple[Floats, Floats]:
        """Mean and variance for each vector (rows) and server rank (columns)."""
        if self.equal:
            m, n = self.family.n_sites - self.goal.max_faulty, int(self.family.n_points[0])
            return equal_moments(m, n, self.family.ranks[vectors], ks - self.goal.max_faulty)
        rows = [self._federation(int(v)).moments(k) for v, k in zip(vectors, ks, strict=True)]
        means, variances = (np.array([row[i] for row in rows]).reshape(ks.shape) for i in (0, 1))
        return means, variances

    def _cdf(self, vectors: Ints, ks: Ints, c: float) -> Floats:
        """P(C <= c) for each vector (rows) and server rank (columns)."""
        if self.equal:
            m, n = self.family.n_sites - self.goal.max_faulty, int(self.family.n_points[0])
            return equal_cdf(m, n, self.family.ranks[vectors], ks - self.goal.max_faulty, c)
        at = np.array([c])
        return np.array([self._federation(int(v)).cdf(at, k)[0] for v, k in zip(vectors, ks, strict=True)])

    def _valid(self, vectors: Ints, ks: Ints) -> tuple[Bools, "_Batch"]:
        """Which server ranks keep the promise, and the laws that told."""
        criterion, batch = self.goal.criterion, _Batch(self, vectors, ks)
        margin, error = criterion.margin(batch, self.goal), criterion.margin_error(self.goal)
        valid = margin > error
        for i, j in np.argwhere(np.abs(margin) <= error):
            valid[i, j] = criterion.settles(_InWholeNumbers(self, int(vectors[i]), int(ks[i, j])), self.goal)
        return valid, batch

    # -- the smallest valid server rank ----------------------------------------------------------------

    def _smallest_valid(self, vectors: Ints) -> tuple[Ints, Floats, Floats]:
        """For each vector its smallest valid server rank (0 if there is none), with mean and variance."""
        low = np.full(vectors.size, self.first - 1)  # largest rank that is invalid, as far as is known
        high = self.last[vectors] + 1  # smallest rank that is valid, as far as is known
        found = np.zeros(vectors.size, dtype=np.int64)
        mean, variance = np.full(vectors.size, np.nan), np.zeros(vectors.size)
        guesses = self.goal.criterion.first_guess(self.glance, self.goal)[vectors]
        guess = np.clip(np.ceil(guesses), low + 1, high - 1).astype(np.int64)
        ks, stride = guess[:, None] + np.array([-1, 0, 1]), 1
        while (left := np.flatnonzero(high - low > 1)).size:
            ks = np.clip(ks[left], low[left, None] + 1, high[left, None] - 1)
            valid, batch = self._valid(vectors[left], ks)
            for j, (k, ok) in enumerate(zip(ks.T, valid.T, strict=True)):
                low[left] = np.where(ok, low[left], np.maximum(low[left], k))
                lower = ok & (k < high[left])
                rows = left[lower]
                high[rows], found[rows] = k[lower], k[lower]
                if batch.known is not None:
                    mean[rows], variance[rows] = (part[lower, j] for part in batch.known)
            stride *= 4
            ks = _next_ranks(low, high, found, low >= self.first, stride)
        rows = np.flatnonzero((found > 0) & np.isnan(mean))
        if rows.size:
            means, variances = self._moments(vectors[rows], found[rows, None])
            mean[rows], variance[rows] = means[:, 0], variances[:, 0]
        return found, mean, variance

    # -- the best vector -------------------------------------------------------------------------------

    def best(self) -> Choice | None:
        """Look at rank vectors in the order of what they promise, until none left can win."""
        if self.last[-1] < self.first:
            return None
        if not self._valid(np.array([len(self.family) - 1]), self.last[-1:, None])[0].all():
            return None  # the last vector and rank give the largest threshold of all
        promise = self._promising()
        order = np.argsort(promise, kind="stable")
        budget = order.size if self.equal else max(8, min(64, 4000 // self.family.n_points.size))
        chunk = 256 if self.equal else 4
        tried: list[Choice] = []
        lowest = math.inf
        for start in range(0, order.size, chunk):
            vectors = order[start : start + chunk]
            cannot_win = self._bounded and promise[vectors[0]] > lowest + self._slack(lowest)
            if tried and (start >= budget or cannot_win):
                break
            tried += self._improved(self._choices(vectors), lowest)
            lowest = min([lowest, *(self._cost(choice) for choice in tried[-4 * chunk :])])
        return self._pick(tried)

    def _choices(self, vectors: Ints) -> list[Choice]:
        vectors = vectors[self.last[vectors] >= self.first]
        if not vectors.size:
            return []
        ranks, means, variances = self._smallest_valid(vectors)
        columns = (vectors.tolist(), ranks.tolist(), means.tolist(), variances.tolist())
        return [Choice(*row) for row in zip(*columns, strict=True) if row[1] > 0]

    def _improved(self, choices: list[Choice], lowest: float) -> list[Choice]:
        """A higher server rank may trade a little coverage for less spread, where the criterion cares.

        A step changes the variance by a few parts in V, so only choices that close to the lowest cost are
        followed, four ranks at a time, for as long as the last of them is the best.
        """
        if not self.goal.criterion.trades_up:
            return choices
        out = list(choices)
        while choices:
            lowest = min([lowest, *map(self._cost, choices)])
            gain = [4 / max(4.0, self.glance.count_std[c.vector] ** 2) for c in choices]
            choices = [
                c
                for c, share in zip(choices, gain, strict=True)
                if self._cost(c) * (1 - share) < lowest and c.server_rank < self.last[c.vector]
            ]
            blocks = self._higher(choices)
            out += [c for block in blocks for c in block]
            choices = [block[-1] for block in blocks if self._cost(block[-1]) <= min(map(self._cost, block))]
        return out

    def _higher(self, choices: list[Choice]) -> list[list[Choice]]:
        """Each choice with its next four server ranks, as far as they go."""
        if not choices:
            return []
        vectors = np.array([c.vector for c in choices])
        ks = np.array([c.server_rank for c in choices])[:, None] + np.arange(1, 5)
        ks = np.minimum(ks, self.last[vectors][:, None])
        means, variances = self._moments(vectors, ks)
        return [
            [Choice(c.vector, int(k), float(m), float(v)) for k, m, v in zip(*row, strict=True)]
            for c, *row in zip(choices, ks, means, variances, strict=True)
        ]

    def _cost(self, choice: Choice) -> float:
        return self.goal.criterion.cost(choice.mean, choice.variance, self.goal)

    def _slack(self, lowest: float) -> float:
        return self.goal.criterion.tie(lowest)

    def _promising(self) -> Floats:
        """What each vector should cost by the second-order screen; inf if hopeless.

        For equal sites, where the error of the screen is known, a lower bound; else the expected value.
        """
        look = self.glance
        error = look.rank_error if self.equal else np.zeros(len(self.family))
        whole = np.clip(np.ceil(look.rank - error), self.first, None)
        excess = np.maximum(0.0, whole - look.rank - error) * look.step / (2 if self.equal else 1)
        hopeless = (look.rank - look.rank_error > self.last) & (look.rank_error < 0.5)
        cost = self.goal.criterion.glance_cost(look, excess, error, self.goal)
        cost = np.where(hopeless, np.inf, cost)
        if not self.equal:
            # Whatever else the budget allows, the paper's own choice of ranks is looked at.
            shares = [share for share in self.family.shares if share is not None]
            cost[min(bisect_left(shares, self.goal.level), len(self.family) - 1)] = -np.inf
        return cost

    def _pick(self, tried: list[Choice]) -> Choice | None:
        if not tried:
            return None
        lowest = min(map(self._cost, tried))
        ties = [choice for choice in tried if self._cost(choice) <= lowest + self._slack(lowest)]
        return min(ties, key=lambda c: (c.variance, c.vector, c.server_rank))


@dataclass(eq=False)
class _Batch:
    """The laws of some vectors (rows) and server ranks (columns), computed as far as they are asked for."""

    search: _Search
    vectors: Ints
    ks: Ints
    known: tuple[Floats, Floats] | None = None

    @property
    def moments(self) -> tuple[Floats, Floats]:
        if self.known is None:
            self.known = self.search._moments(self.vectors, self.ks)
        return self.known

    def cdf(self, c: float) -> Floats:
        return self.search._cdf(self.vectors, self.ks, c)


@dataclass(frozen=True, eq=False)
class _InWholeNumbers:
    """One choice in exact arithmetic: the referee of a tie between promise and law."""

    search: _Search
    vector: int
    k: int

    @property
    def _sites(self) -> tuple[list[int], list[int], int] | None:
        """Sizes, ranks and server rank without faulty sites; None where counting would cost too much."""
        family, f = self.search.family, self.search.goal.max_faulty
        points = int((family.n_points * family.counts).sum())
        if points**2 * family.n_sites > _REFEREE_BITS or (f and not self.search.equal):
            return None
        sizes = np.repeat(family.n_points, family.counts).tolist()[f:]
        ranks = np.repeat(family.ranks[self.vector], family.counts).tolist()[f:]
        return sizes, ranks, self.k - f

    def mean(self) -> Fraction | None:
        closed = self._closed_form()
        return exact_mean(*self._sites) if closed is None and self._sites is not None else closed

    def cdf(self, c: Fraction) -> Fraction | None:
        return None if self._sites is None else exact_cdf(*self._sites, c)

    def _closed_form(self) -> Fraction | None:
        """The mean where it is a simple fraction: the largest of all points, or split conformal prediction.

        The latter is one point per site or one site; and the middle of the middle is 1/2 by symmetry.
        """
        family, f = self.search.family, self.search.goal.max_faulty
        if self.k == family.n_sites and (family.ranks[self.vector] == family.n_points).all():
            total = int((family.n_points * family.counts).sum())
            return Fraction(total, total + 1)
        if not self.search.equal:
            return None
        n, l = int(family.n_points[0]), int(family.ranks[self.vector, 0])
        m, k = family.n_sites - f, self.k - f
        if n == 1:
            return Fraction(k, m + 1)
        if m == 1:
            return Fraction(l, n + 1)
        return Fraction(1, 2) if 2 * l == n + 1 and 2 * k == m + 1 else None
