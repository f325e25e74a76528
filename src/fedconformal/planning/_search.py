"""The search for ranks and votes: the choice of a family that serves a criterion best.

Every choice that is returned has been checked with the exact law. Equal sites that send one number are
searched exhaustively. Of other families the vectors that look best to second order are checked.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice

import numpy as np

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws import Federation, OrderStatistics, equal_cdf, equal_moments, exact_cdf, exact_mean
from fedconformal.planning._family import Family
from fedconformal.planning._goal import Goal
from fedconformal.planning._screen import Screen, screen

_REFEREE_BITS = 5_000_000  # size of the integers up to which a tie with the level is settled exactly
_FEWEST, _MOST, _WORK = 8, 24, 160  # vectors that are checked with the exact law: _WORK over the blocks
_PATIENCE = 2  # so many times as many are looked at if some are not valid
_FEW = 12  # sizes up to which all families are checked, whatever they promise
_BELOW, _ABOVE = 4, 8  # votes that are looked at on either side of the first guess


@dataclass(frozen=True)
class Choice:
    """A rank vector of a family, the votes needed, and the law's mean and variance."""

    family: Family
    vector: int
    server_rank: int
    mean: float
    variance: float
    is_rough: bool = False


def search(*families: Family, goal: Goal, rough: bool = False) -> list[Choice]:
    """The valid choices that were found, the best among them; none when no finite threshold is valid.

    Of several families only those vectors are checked that may be as good as the most promising of all.
    Choices that are ``rough`` are to be `confirmed` before they are used.
    """
    searches = [_search_of(family, goal, rough=rough) for family in families]
    lowest = min((float(each.promising.min()) for each in searches), default=math.inf)
    lowest = lowest if len(searches) > 1 else math.inf
    return [choice for each in searches for choice in each.tried(lowest)]


def _search_of(family: Family, goal: Goal, *, rough: bool = False) -> "_PlainSearch | _VoteSearch":
    return _PlainSearch(family, goal) if family.is_plain else _VoteSearch(family, goal, rough=rough)


def confirmed(choice: Choice, goal: Goal) -> list[Choice]:
    """The valid choices next to a rough one, with the exact law; none if it keeps no promise."""
    return _VoteSearch(choice.family, goal).near(choice)


def best(choices: list[Choice], goal: Goal) -> Choice | None:
    """The choice of the lowest cost; ties go to the smaller variance, then vector, then votes."""
    if not choices:
        return None
    costs = [cost(choice, goal) for choice in choices]
    lowest = min(costs)
    limit = lowest + goal.criterion.tie(lowest)
    ties = [(i, choice) for i, choice in enumerate(choices) if costs[i] <= limit]
    return min(ties, key=lambda pair: (*_order(pair[1]), pair[0]))[1]


def _order(choice: Choice) -> tuple[float, int, int, int]:
    """Less spread first, as far as rounding lets one see it, then fewer votes, then the first vector."""
    votes = int(choice.family.finite_votes[choice.vector])
    return float(f"{choice.variance:.9g}"), votes, choice.vector, choice.server_rank


def cost(choice: Choice, goal: Goal) -> float:
    """What a choice costs under the criterion."""
    return goal.criterion.cost(choice.mean, choice.variance, goal)


class _Search:
    """What both searches share: a family, a goal, and the votes that are allowed."""

    def __init__(self, family: Family, goal: Goal) -> None:
        self.family, self.goal = family, goal
        self.level = float(goal.level)
        lies = family.heaviest(goal.max_faulty)
        self.first = lies + 1  # fewer, and faulty sites could undercut
        self.last = family.finite_votes - lies  # more, and faulty sites could make q infinite

    @cached_property
    def glance(self) -> Screen:
        return screen(self.family, self.level, self.goal.max_faulty)

    def moments(self, vectors: Ints, ks: Ints) -> tuple[Floats, Floats]:
        """Mean and variance for each vector (rows) and number of votes (columns)."""
        raise NotImplementedError

    def cdf(self, vectors: Ints, ks: Ints, c: float) -> Floats:
        """P(C <= c) for each vector (rows) and number of votes (columns)."""
        raise NotImplementedError

    def valid(self, vectors: Ints, ks: Ints) -> tuple[Bools, "_Batch"]:
        """Which numbers of votes keep the promise, and the laws that told."""
        criterion, batch = self.goal.criterion, _Batch(self, vectors, ks)
        margin, error = criterion.margin(batch, self.goal), criterion.margin_error(self.goal)
        valid = margin > error
        for i, j in np.argwhere(np.abs(margin) <= error):
            law = _InWholeNumbers(self.family, self.goal, int(vectors[i]), int(ks[i, j]))
            valid[i, j] = criterion.settles(law, self.goal)
        return valid, batch

    @cached_property
    def promising(self) -> Floats:
        """What each vector should cost by the second-order screen; inf if hopeless.

        For plain families, where the error of the screen is known, a lower bound; else the expected value.
        """
        look, plain = self.glance, self.family.is_plain
        error = look.rank_error if plain else np.zeros(len(self.family))
        whole = np.clip(np.ceil(look.rank - error), self.first, None)
        excess = np.maximum(0.0, whole - look.rank - error) * look.step / (2 if plain else 1)
        # Votes come in steps of the weights, so the screen may be off by one. Given ranks are always tried.
        slack = look.rank_error + (0 if plain else self.family.weights.max(axis=(1, 2)))
        hopeless = (look.rank - slack > self.last) & (look.rank_error < 0.5) & (len(self.family) > 1)
        cost = self.goal.criterion.glance_cost(look, excess, error, self.goal)
        if not plain and (at := self.goal.criterion.second_glance(look, self.goal)) is not None:
            again = screen(self.family, at, self.goal.max_faulty)
            votes = np.maximum(self.first, np.ceil(self.goal.criterion.enough(look, self.goal)))
            cost = self.goal.criterion.second_cost(votes, again, at, self.goal)
            cost = cost + (votes > self.last)  # those that seem to need more votes than there are come last
        return np.where(hopeless | (self.last < self.first), np.inf, cost)

    def guesses(self, vectors: Ints) -> Floats:
        """Votes to start from."""
        return self.goal.criterion.first_guess(self.glance, self.goal)[vectors]


# -- equal sites that send one number ----------------------------------------------------------------------


class _PlainSearch(_Search):
    """Every rank that can matter, in the order of what it promises, until none left can win."""

    def moments(self, vectors: Ints, ks: Ints) -> tuple[Floats, Floats]:
        m, n = self.family.n_sites - self.goal.max_faulty, int(self.family.n_points[0])
        return equal_moments(m, n, self.family.ranks[vectors, 0], ks - self.goal.max_faulty)

    def cdf(self, vectors: Ints, ks: Ints, c: float) -> Floats:
        m, n = self.family.n_sites - self.goal.max_faulty, int(self.family.n_points[0])
        return equal_cdf(m, n, self.family.ranks[vectors, 0], ks - self.goal.max_faulty, c)

    def tried(self, lowest_of_all: float) -> list[Choice]:
        """All valid choices that were looked at, whatever other families promise."""
        if self.last[-1] < self.first[-1]:
            return []
        if not self.valid(np.array([len(self.family) - 1]), self.last[-1:, None])[0].all():
            return []  # the last vector and rank give the largest threshold of all
        promise = self.promising
        order = np.argsort(promise, kind="stable")
        bounded, chunk = self.goal.criterion.glance_is_bound, 256
        tried: list[Choice] = []
        lowest = math.inf
        for start in range(0, order.size, chunk):
            vectors = order[start : start + chunk]
            slack = self.goal.criterion.near(lowest, self.goal) if tried else math.inf
            if (
                tried
                and bounded
                and promise[vectors[0]] > max(slack, lowest + self.goal.criterion.tie(lowest))
            ):
                break
            tried += self._improved(self._choices(vectors), lowest)
            lowest = min([lowest, *(cost(choice, self.goal) for choice in tried[-4 * chunk :])])
        return tried

    def _choices(self, vectors: Ints) -> list[Choice]:
        vectors = vectors[self.last[vectors] >= self.first[vectors]]
        if not vectors.size:
            return []
        ranks, means, variances = self._smallest_valid(vectors)
        columns = (vectors.tolist(), ranks.tolist(), means.tolist(), variances.tolist())
        return [Choice(self.family, *row) for row in zip(*columns, strict=True) if row[1] > 0]

    def _smallest_valid(self, vectors: Ints) -> tuple[Ints, Floats, Floats]:
        """For each vector its smallest valid server rank (0 if there is none), with mean and variance."""
        low = self.first[vectors] - 1  # largest rank that is invalid, as far as is known
        high = self.last[vectors] + 1  # smallest rank that is valid, as far as is known
        first = low + 1
        found = np.zeros(vectors.size, dtype=np.int64)
        mean, variance = np.full(vectors.size, np.nan), np.zeros(vectors.size)
        guess = np.clip(np.ceil(self.guesses(vectors)), low + 1, high - 1).astype(np.int64)
        ks, stride = guess[:, None] + np.array([-1, 0, 1]), 1
        while (left := np.flatnonzero(high - low > 1)).size:
            ks = np.clip(ks[left], low[left, None] + 1, high[left, None] - 1)
            valid, batch = self.valid(vectors[left], ks)
            for j, (k, ok) in enumerate(zip(ks.T, valid.T, strict=True)):
                low[left] = np.where(ok, low[left], np.maximum(low[left], k))
                lower = ok & (k < high[left])
                rows = left[lower]
                high[rows], found[rows] = k[lower], k[lower]
                if batch.known is not None:
                    mean[rows], variance[rows] = (part[lower, j] for part in batch.known)
            stride *= 4
            ks = _next_ranks(low, high, found, low >= first, stride)
        rows = np.flatnonzero((found > 0) & np.isnan(mean))
        if rows.size:
            means, variances = self.moments(vectors[rows], found[rows, None])
            mean[rows], variance[rows] = means[:, 0], variances[:, 0]
        return found, mean, variance

    def _improved(self, choices: list[Choice], lowest: float) -> list[Choice]:
        """A higher server rank may trade a little coverage for less spread, where the criterion cares.

        A step changes the variance by a few parts in V, so only choices that close to the lowest cost are
        followed, four ranks at a time, for as long as the last of them is the best.
        """
        if not self.goal.criterion.trades_up:
            return choices
        out = list(choices)
        while choices:
            lowest = min([lowest, *(cost(choice, self.goal) for choice in choices)])
            gain = [4 / max(4.0, self.glance.count_std[c.vector] ** 2) for c in choices]
            choices = [
                c
                for c, share in zip(choices, gain, strict=True)
                if cost(c, self.goal) * (1 - share) < lowest and c.server_rank < self.last[c.vector]
            ]
            blocks = self._higher(choices)
            out += [c for block in blocks for c in block]
            choices = [
                block[-1]
                for block in blocks
                if cost(block[-1], self.goal) <= min(cost(c, self.goal) for c in block)
            ]
        return out

    def _higher(self, choices: list[Choice]) -> list[list[Choice]]:
        """Each choice with its next four server ranks, as far as they go."""
        if not choices:
            return []
        vectors = np.array([c.vector for c in choices])
        ks = np.array([c.server_rank for c in choices])[:, None] + np.arange(1, 5)
        ks = np.minimum(ks, self.last[vectors][:, None])
        means, variances = self.moments(vectors, ks)
        return [
            [Choice(self.family, c.vector, int(k), float(m), float(v)) for k, m, v in zip(*row, strict=True)]
            for c, *row in zip(choices, ks, means, variances, strict=True)
        ]


def _next_ranks(low: Ints, high: Ints, found: Ints, below: Bools, stride: int) -> Ints:
    """Three ranks to try: quarters of a known bracket, else ever larger steps away from its known end."""
    quarters = low[:, None] + (high - low)[:, None] * np.array([1, 2, 3]) // 4
    steps = np.array([1, stride // 2, stride])
    up, down = low[:, None] + steps, high[:, None] - steps
    valid = (found > 0)[:, None]
    ks: Ints = np.where(valid & below[:, None], quarters, np.where(valid, down, up))
    return ks


# -- sites of different sizes, or several numbers per site -------------------------------------------------


class _VoteSearch(_Search):
    """The vectors that look best, each with several numbers of votes from one look at its law."""

    def __init__(self, family: Family, goal: Goal, *, rough: bool = False) -> None:
        super().__init__(family, goal)
        self.rough = rough

    def moments(self, vectors: Ints, ks: Ints) -> tuple[Floats, Floats]:
        rows = [
            self._federation(int(v)).moments(k, rough=self.rough) for v, k in zip(vectors, ks, strict=True)
        ]
        means, variances = (np.array([row[i] for row in rows]).reshape(ks.shape) for i in (0, 1))
        return means, variances

    def cdf(self, vectors: Ints, ks: Ints, c: float) -> Floats:
        at = np.array([c])
        return np.array([self._federation(int(v)).cdf(at, k)[0] for v, k in zip(vectors, ks, strict=True)])

    def _federation(self, vector: int) -> Federation:
        family = self.family
        sites = OrderStatistics(family.n_points, family.ranks[vector])
        return Federation(sites, family.counts, self.goal.max_faulty, family.weights[vector])

    def tried(self, lowest_of_all: float) -> list[Choice]:
        """The valid choices among the vectors that look best."""
        family, promise = self.family, self.promising.copy()
        if family.n_points.size > _FEW and math.isfinite(lowest_of_all):
            rivals = self.goal.criterion.rivals(promise, lowest_of_all, self.goal)
            promise = np.where(rivals, promise, np.inf)
        if len(family) > 1:
            self._prefer_paper(promise)
        fewest = _FEWEST if family.numbers == 1 else _FEWEST // 2
        budget = max(fewest, min(_MOST, _WORK // family.n_points.size))
        order = [int(v) for v in np.argsort(promise, kind="stable")[: _PATIENCE * budget]]
        hopeful = [v for v in order if promise[v] < np.inf and self.last[v] >= self.first[v]]
        tried = (self._looked_at(vector) for vector in hopeful)
        found = [choice for choices in islice(filter(None, tried), budget) for choice in choices]
        if found and not (self.goal.max_faulty and self.goal.criterion.takes_delta):
            return found
        # Far in the tails, and with few honest sites, the look at the level misleads.
        return found + [v for vector in self._first_valid(fewest) for v in self._looked_at(vector)]

    def _first_valid(self, count: int) -> list[int]:
        """The smallest shares that are valid: with larger ones all ranks are larger, so by bisection."""
        rising = [i for i in self.family.shares.known if self.last[i] >= self.first[i]]
        start = bisect_left(rising, True, key=self._valid_at_last)
        return rising[start : start + count]

    def _valid_at_last(self, vector: int) -> bool:
        return bool(self.valid(np.array([vector]), self.last[[vector], None])[0].all())

    def _looked_at(self, vector: int) -> list[Choice]:
        """The valid choices of a vector; exact laws with faulty sites have many kinks, and are asked less."""
        if self.goal.max_faulty and not self.rough:
            return self._located(vector)
        return self._choices(vector)

    def _located(self, vector: int) -> list[Choice]:
        """The choices next to the one that a rough look takes for the best, or the largest threshold."""
        seen = best(_VoteSearch(self.family, self.goal, rough=True)._choices(vector), self.goal)
        return self._around(vector, int(self.last[vector]) if seen is None else seen.server_rank)

    def near(self, choice: Choice) -> list[Choice]:
        """The valid choices of the same vector and about as many votes."""
        return self._around(choice.vector, choice.server_rank)

    def _around(self, vector: int, votes: int) -> list[Choice]:
        low, high = max(int(self.first[vector]), votes - 1), min(int(self.last[vector]), votes + 1)
        return self._from(vector, low, high, is_best=self.goal.criterion.trades_up)

    def _prefer_paper(self, promise: Floats) -> None:
        """Whatever else the budget allows, the paper's own choice of ranks is looked at."""
        shares = self.family.shares
        if known := shares.known:
            place = bisect_left(known, self.goal.level, key=lambda i: shares[i] or Fraction(0))
            promise[known[min(place, len(known) - 1)]] = -np.inf

    def _choices(self, vector: int) -> list[Choice]:
        """The smallest valid number of votes, and a few above it where these may be better."""
        first, last = int(self.first[vector]), int(self.last[vector])
        guess = min(max(math.ceil(float(self.guesses(np.array([vector]))[0])), first), last)
        return self._from(vector, max(first, guess - _BELOW), min(last, guess + _ABOVE))

    def _from(self, vector: int, low: int, high: int, *, is_best: bool = False) -> list[Choice]:
        """The same from a range of votes on, to the smallest valid unless the range holds the best."""
        one, first, last = np.array([vector]), int(self.first[vector]), int(self.last[vector])
        reach = 1
        while True:
            ks = np.arange(low, high + 1)
            valid, batch = self.valid(one, ks[None, :])
            found = np.flatnonzero(valid[0])
            if found.size and (found[0] > 0 or low == first or is_best):
                return self._read(vector, ks, int(found[0]), batch)
            if not found.size and high == last:
                return []
            reach *= 4
            wide = _ABOVE * reach
            low, high = (max(first, low - wide), low) if found.size else (high, min(last, high + wide))

    def _read(self, vector: int, ks: Ints, place: int, batch: "_Batch") -> list[Choice]:
        stop = ks.size if self.goal.criterion.trades_up else place + 1
        votes = ks[place:stop]
        if batch.known is None:
            means, variances = (part[0] for part in self.moments(np.array([vector]), votes[None, :]))
        else:
            means, variances = (part[0, place:stop] for part in batch.known)
        rows = zip(votes.tolist(), means.tolist(), variances.tolist(), strict=True)
        return [Choice(self.family, vector, *row, is_rough=self.rough) for row in rows]


@dataclass(eq=False)
class _Batch:
    """The laws of some vectors (rows) and votes (columns), computed as far as they are asked for."""

    search: _Search
    vectors: Ints
    ks: Ints
    known: tuple[Floats, Floats] | None = None

    @property
    def moments(self) -> tuple[Floats, Floats]:
        if self.known is None:
            self.known = self.search.moments(self.vectors, self.ks)
        return self.known

    def cdf(self, c: float) -> Floats:
        return self.search.cdf(self.vectors, self.ks, c)


@dataclass(frozen=True, eq=False)
class _InWholeNumbers:
    """One choice in exact arithmetic: the referee of a tie between promise and law."""

    family: Family
    goal: Goal
    vector: int
    k: int

    @cached_property
    def _sites(self) -> tuple[list[int], list[tuple[int, ...]], int, list[tuple[int, ...]]] | None:
        """Sizes, ranks, votes and weights without faulty sites; None where counting would cost too much."""
        family, f = self.family, self.goal.max_faulty
        points = int((family.n_points * family.counts).sum())
        if points**2 * family.n_sites * family.numbers > _REFEREE_BITS or (f and not family.is_plain):
            return None
        sizes = np.repeat(family.n_points, family.counts).tolist()[f:]
        ranks = np.repeat(family.ranks[self.vector], family.counts, axis=0).tolist()[f:]
        weights = np.repeat(family.weights[self.vector], family.counts, axis=0).tolist()[f:]
        return sizes, list(map(tuple, ranks)), self.k - f, list(map(tuple, weights))

    def mean(self) -> Fraction | None:
        closed = self._closed_form()
        if closed is not None or self._sites is None:
            return closed
        sizes, ranks, k, weights = self._sites
        return exact_mean(sizes, ranks, k, weights=weights)

    def cdf(self, c: Fraction) -> Fraction | None:
        if self._sites is None:
            return None
        sizes, ranks, k, weights = self._sites
        return exact_cdf(sizes, ranks, k, c, weights=weights)

    def _closed_form(self) -> Fraction | None:
        """The mean where it is a simple fraction: the largest of all points, or split conformal prediction.

        The latter is one point per site or one site; and the middle of the middle is 1/2 by symmetry.
        """
        family, f = self.family, self.goal.max_faulty
        asked = family.weights[self.vector].any(axis=1)
        ranks, sizes, counts = family.ranks[self.vector][asked], family.n_points[asked], family.counts[asked]
        if not f and ranks.shape == (1, 1) and counts[0] == 1:
            return Fraction(int(ranks[0, 0]), int(sizes[0]) + 1)
        if family.numbers > 1:
            return None
        if self.k == family.finite_votes[self.vector] and (ranks[:, 0] == sizes).all():
            total = int((sizes * counts).sum())
            return Fraction(total, total + 1)
        if not family.is_plain:
            return None
        n, l = int(sizes[0]), int(ranks[0, 0])
        m, k = family.n_sites - f, self.k - f
        if n == 1:
            return Fraction(k, m + 1)
        if m == 1:
            return Fraction(l, n + 1)
        return Fraction(1, 2) if 2 * l == n + 1 and 2 * k == m + 1 else None
