"""The search for ranks: the rank vector of a family and the server rank that serve a criterion best."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedconformal.laws import MEAN_ERROR, Federation, OrderStatistics, exact_cdf, exact_mean
from fedconformal.laws._moments import equal_cdf, equal_moments
from fedconformal.laws._sites import Floats, Ints
from fedconformal.planning._family import Family
from fedconformal.planning._screen import Screen, screen

_REFEREE_BITS = 5_000_000  # size of the integers up to which a tie with the level is settled exactly
CDF_ERROR = 1e-9  # of P(C <= level), relative to delta
_TIE = 1e-9  # relative difference of squared errors that counts as none


@dataclass(frozen=True)
class Goal:
    """What a plan must achieve, and what it should be best at."""

    level: Fraction
    criterion: str = "marginal"
    delta: Fraction = Fraction(1, 10)
    max_faulty: int = 0


@dataclass(frozen=True)
class Choice:
    """A rank vector (by its place in the family), a server rank, and the law's mean and variance."""

    vector: int
    server_rank: int
    mean: float
    variance: float


def _next_ranks(low: Ints, high: Ints, found: Ints, below: NDArray[np.bool_], stride: int) -> Ints:
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
        self._bounded = self.equal and goal.criterion != "conditional"  # the screen bounds costs from below

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

    def _misses(self, vectors: Ints, ks: Ints) -> Floats:
        """P(C <= level)."""
        if self.equal:
            m, n = self.family.n_sites - self.goal.max_faulty, int(self.family.n_points[0])
            return equal_cdf(m, n, self.family.ranks[vectors], ks - self.goal.max_faulty, self.level)
        at = np.array([self.level])
        return np.array([self._federation(int(v)).cdf(at, k)[0] for v, k in zip(vectors, ks, strict=True)])

    def _valid(self, vectors: Ints, ks: Ints) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """Which server ranks keep the promise, and mean and variance where they were needed to tell."""
        if self.goal.criterion == "conditional":
            delta = float(self.goal.delta)
            margin, error = delta - self._misses(vectors, ks), CDF_ERROR * delta
            mean = variance = np.full(ks.shape, np.nan)
        else:
            mean, variance = self._moments(vectors, ks)
            margin, error = mean - self.level, MEAN_ERROR
        valid = margin > error
        for i, j in np.argwhere(np.abs(margin) <= error):
            valid[i, j] = self._referee(int(vectors[i]), int(ks[i, j]))
        return valid, mean, variance

    def _referee(self, vector: int, k: int) -> bool:
        """Settle a tie between promise and law in exact arithmetic; not valid where that costs too much."""
        family, f = self.family, self.goal.max_faulty
        if self.goal.criterion != "conditional" and (mean := self._closed_form(vector, k)) is not None:
            return mean >= self.goal.level
        points = int((family.n_points * family.counts).sum())
        if points**2 * family.n_sites > _REFEREE_BITS or (f and not self.equal):
            return False
        sizes = np.repeat(family.n_points, family.counts).tolist()[f:]
        ranks = np.repeat(family.ranks[vector], family.counts).tolist()[f:]
        if self.goal.criterion == "conditional":
            return exact_cdf(sizes, ranks, k - f, self.goal.level) <= self.goal.delta
        return exact_mean(sizes, ranks, k - f) >= self.goal.level

    def _closed_form(self, vector: int, k: int) -> Fraction | None:
        """The mean where it is a simple fraction: the largest of all points, or split conformal prediction.

        The latter is one point per site or one site; and the middle of the middle is 1/2 by symmetry.
        """
        sizes, counts = self.family.n_points, self.family.counts
        if k == self.family.n_sites and (self.family.ranks[vector] == sizes).all():
            total = int((sizes * counts).sum())
            return Fraction(total, total + 1)
        if not self.equal:
            return None
        n, l = int(self.family.n_points[0]), int(self.family.ranks[vector, 0])
        m, k = self.family.n_sites - self.goal.max_faulty, k - self.goal.max_faulty
        if n == 1:
            return Fraction(k, m + 1)
        if m == 1:
            return Fraction(l, n + 1)
        return Fraction(1, 2) if 2 * l == n + 1 and 2 * k == m + 1 else None

    # -- the smallest valid server rank ----------------------------------------------------------------

    def _smallest_valid(self, vectors: Ints) -> tuple[Ints, Floats, Floats]:
        """For each vector its smallest valid server rank (0 if there is none), with mean and variance."""
        low = np.full(vectors.size, self.first - 1)  # largest rank that is invalid, as far as is known
        high = self.last[vectors] + 1  # smallest rank that is valid, as far as is known
        found = np.zeros(vectors.size, dtype=np.int64)
        mean, variance = np.ones(vectors.size), np.zeros(vectors.size)
        guess = np.clip(np.ceil(self._guess(vectors)), low + 1, high - 1).astype(np.int64)
        ks, stride = guess[:, None] + np.array([-1, 0, 1]), 1
        while (left := np.flatnonzero(high - low > 1)).size:
            ks = np.clip(ks[left], low[left, None] + 1, high[left, None] - 1)
            valid, means, variances = self._valid(vectors[left], ks)
            for k, ok, m, v in zip(ks.T, valid.T, means.T, variances.T, strict=True):
                low[left] = np.where(ok, low[left], np.maximum(low[left], k))
                lower = ok & (k < high[left])
                rows = left[lower]
                high[rows], found[rows], mean[rows], variance[rows] = k[lower], k[lower], m[lower], v[lower]
            stride *= 4
            ks = _next_ranks(low, high, found, low >= self.first, stride)
        if self.goal.criterion == "conditional":
            rows = np.flatnonzero(found)
            means, variances = self._moments(vectors[rows], found[rows, None])
            mean[rows], variance[rows] = means[:, 0], variances[:, 0]
        return found, mean, variance

    def _guess(self, vectors: Ints) -> Floats:
        rank = self.glance.rank[vectors]
        if self.goal.criterion != "conditional":
            return rank
        z = math.sqrt(2 * math.log(1 / float(self.goal.delta)))  # a little too far; the search walks back
        return rank + 0.8 * z * self.glance.count_std[vectors]

    # -- the best vector -------------------------------------------------------------------------------

    def best(self) -> Choice | None:
        """Look at rank vectors in the order of what they promise, until none left can win."""
        if self.last[-1] < self.first:
            return None
        if not self._valid(np.array([len(self.family) - 1]), self.last[-1:, None])[0].all():
            return None  # the last vector and rank give the largest threshold of all
        promise = self._promise()
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
        """For the stable criterion a higher server rank may trade a little coverage for less spread.

        A step changes the variance by a few parts in V, so only choices that close to the lowest cost are
        followed, four ranks at a time, for as long as the last of them is the best.
        """
        if self.goal.criterion != "stable":
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
        if self.goal.criterion == "stable":
            return choice.variance + (choice.mean - self.level) ** 2
        return choice.mean

    def _slack(self, lowest: float) -> float:
        """Costs this close are ties, so that rounding never decides between two plans."""
        return _TIE * lowest if self.goal.criterion == "stable" else MEAN_ERROR

    def _promise(self) -> Floats:
        """What each vector should cost by the second-order screen; inf if hopeless.

        For equal sites, where the error of the screen is known, a lower bound; else the expected value.
        """
        look = self.glance
        error = look.rank_error if self.equal else np.zeros(len(self.family))
        whole = np.clip(np.ceil(look.rank - error), self.first, None)
        excess = np.maximum(0.0, whole - look.rank - error) * look.step / (2 if self.equal else 1)
        hopeless = (look.rank - look.rank_error > self.last) & (look.rank_error < 0.5)
        if self.goal.criterion == "stable":
            cost = look.std**2 * np.maximum(0.0, 1 - 2 * error) + excess**2
        elif self.goal.criterion == "conditional":
            cost = self.level + look.std
        else:
            cost = self.level + excess
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
