"""The search for ranks and votes: the choice among candidates that serves a criterion best.

Equal sites that send one number are searched exhaustively, in closed form. Other candidates are compared by a
normal approximation of the votes; those that look best are judged by the distribution itself. Every choice
that is returned is valid by the exact distribution, except one that is marked as rough.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import islice
from typing import Protocol

import numpy as np
from scipy import special

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.laws import Federation, OrderStatistics, equal_cdf, equal_moments, exact_cdf, exact_mean
from fedconformal.planning._candidates import Candidates
from fedconformal.planning._goal import Goal

_REFEREE_BITS = 5_000_000  # size of the integers up to which a tie with the level is settled exactly
_TOGETHER = 256  # ranks of equal sites that are judged at once
_RANK_ERROR = 0.25  # of the expansion for equal sites, times the variance; the tests find less than 0.05
_STEP = 0.3  # between the nodes of the normal approximation, near the level in pooled standard deviations
_HELD = 2**21  # numbers that the approximation works on at once
_JUDGED = 8, 48, 640  # fewest and most candidates judged by their distribution; blocks times candidates
_WINDOW = np.arange(-4, 9)  # votes that are judged together, from the approximation's number on


@dataclass(frozen=True, eq=False)
class Choice:
    """A candidate, the votes needed, and mean and variance of the coverage."""

    candidates: Candidates
    row: int
    server_rank: int
    mean: float
    variance: float
    is_rough: bool = False

    def cost(self, goal: Goal) -> float:
        """Return the cost under the criterion."""
        return goal.criterion.cost(self.mean, self.variance, goal)

    @property
    def ranks(self) -> Ints:
        """Ranks of each block's sites: shape (blocks, numbers)."""
        return np.asarray(self.candidates.ranks[self.row])

    @property
    def weights(self) -> Ints:
        """Votes of each number: shape (blocks, numbers)."""
        return np.asarray(self.candidates.weights[self.row])


def best(choices: list[Choice], goal: Goal) -> Choice | None:
    """Return the choice of the lowest cost; ties go to less spread, fewer votes, then the first candidate."""
    lowest = min((choice.cost(goal) for choice in choices), default=0.0)
    limit = lowest + goal.criterion.tie(lowest)
    ties = [choice for choice in choices if choice.cost(goal) <= limit]
    return min(ties, key=_order, default=None)


def _order(choice: Choice) -> tuple[float, int, int, int]:
    """Less spread first, as far as rounding lets one see it."""
    votes = int(choice.candidates.finite_votes[choice.row])
    return float(f"{choice.variance:.9g}"), votes, choice.row, choice.server_rank


def search(
    candidates: Candidates, goal: Goal, accepts: Callable[[Candidates, int], bool] | None = None
) -> list[Choice]:
    """Return the valid choices that were found, the best among them; none if no finite threshold is valid.

    Candidates that are not accepted are passed over. With faulty sites, choices are rough unless the sites
    are equal: `confirm` them before use.
    """
    lies = candidates.heaviest(goal.max_faulty)
    # With fewer votes faulty sites could undercut, with more they could make the threshold infinite.
    first, last = lies + 1, candidates.finite_votes - lies
    if candidates.is_plain:
        start = (
            0
            if accepts is None
            else bisect_left(range(len(candidates)), True, key=partial(accepts, candidates))
        )
        return _Equal(candidates, goal).search(first, last, start)
    rows = np.flatnonzero(last >= first)
    if not rows.size:
        return []
    looks = _Normal(candidates, goal)
    ks = _smallest_valid(looks, rows, first[rows], last[rows], (first + last)[rows] // 2, np.arange(3))
    seems_valid, ks = ks <= last[rows], np.minimum(ks, last[rows])
    ks, costs = _climb(looks, rows, ks, last[rows])
    order = np.lexsort([costs, ~seems_valid])
    fewest, most, work = _JUDGED
    judged = max(fewest, min(most, work // candidates.n_points.size))
    accepted = (i for i in order if accepts is None or accepts(candidates, int(rows[i])))
    choices = []
    for i in islice(accepted, 2 * judged):
        law = _Votes(candidates, int(rows[i]), goal, rough=goal.max_faulty > 0)
        choices += law.search(int(first[rows[i]]), int(last[rows[i]]), int(ks[i]), _WINDOW)
        if len(choices) == judged:
            break
    return choices


def confirm(choice: Choice, goal: Goal) -> list[Choice]:
    """Return the choice with its exact distribution, and perhaps another number of votes; empty if invalid."""
    candidates, lies = choice.candidates, int(choice.candidates.heaviest(goal.max_faulty)[choice.row])
    last = int(candidates.finite_votes[choice.row]) - lies
    law = _Votes(candidates, choice.row, goal)
    return law.search(lies + 1, last, choice.server_rank, np.arange(-1, 2))


class _Laws(Protocol):
    """Distributions of the coverage, by rows of candidates and numbers of votes of shape (rows, several)."""

    goal: Goal

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]: ...

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats: ...

    def referee(self, row: int, k: int) -> ExactReferee | None: ...


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """Some rows and votes, as a criterion looks at them."""

    laws: _Laws
    rows: Ints
    ks: Ints

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        return self.laws.moments(self.rows, self.ks)

    def cdf(self, c: float) -> Floats:
        return self.laws.cdf(self.rows, self.ks, c)


def _valid(laws: _Laws, rows: Ints, ks: Ints) -> Bools:
    """Which numbers of votes satisfy the criterion; exact arithmetic decides where rounding would."""
    criterion = laws.goal.criterion
    margin = criterion.margin(_Outcomes(laws, rows, ks), laws.goal)
    error = criterion.margin_error(laws.goal)
    valid = margin > error
    for i, j in np.argwhere(np.abs(margin) <= error):
        referee = laws.referee(int(rows[i]), int(ks[i, j]))
        valid[i, j] = referee is not None and criterion.settles(referee, laws.goal)
    return np.asarray(valid)


def _smallest_valid(laws: _Laws, rows: Ints, first: Ints, last: Ints, guess: Ints, window: Ints) -> Ints:
    """The smallest valid number of votes of each row, last + 1 if there is none.

    The votes of a window round the guess are judged together; then as many that divide what is left evenly.
    """
    low, high = first - 1, last + 1
    ks = guess[:, None] + window
    while (left := np.flatnonzero(high - low > 1)).size:
        tried = np.clip(ks[left], low[left, None] + 1, high[left, None] - 1)
        valid = _valid(laws, rows[left], tried)
        low[left] = np.where(valid, low[left, None], tried).max(axis=1)
        high[left] = np.where(valid, tried, high[left, None]).min(axis=1)
        ks = low[:, None] + (high - low)[:, None] * np.arange(1, window.size + 1) // (window.size + 1)
    return high


def _climb(laws: _Laws, rows: Ints, ks: Ints, last: Ints) -> tuple[Ints, Floats]:
    """More votes for as long as that lowers the cost, where the criterion may prefer it; and the costs."""
    ks, costs = ks.copy(), _costs(laws, rows, ks)
    left = np.flatnonzero(ks < last) if laws.goal.criterion.trades_up else np.empty(0, dtype=np.int64)
    while left.size:
        higher = _costs(laws, rows[left], ks[left] + 1)
        left, higher = left[higher < costs[left]], higher[higher < costs[left]]
        ks[left], costs[left] = ks[left] + 1, higher
        left = left[ks[left] < last[left]]
    return ks, costs


def _costs(laws: _Laws, rows: Ints, ks: Ints) -> Floats:
    moments = zip(*(part[:, 0].tolist() for part in laws.moments(rows, ks[:, None])), strict=True)
    return np.array([laws.goal.criterion.cost(mean, variance, laws.goal) for mean, variance in moments])


# -- equal sites that send one number ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Equal:
    """Every rank, in the order of what it promises, until none that is left can win."""

    candidates: Candidates
    goal: Goal

    @property
    def _sites(self) -> tuple[int, int, int]:
        """Honest sites, points, faulty sites."""
        f = self.goal.max_faulty
        return self.candidates.n_sites - f, int(self.candidates.n_points[0]), f

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]:
        m, n, f = self._sites
        return equal_moments(m, n, self.candidates.ranks[rows, 0], ks - f)

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats:
        m, n, f = self._sites
        return equal_cdf(m, n, self.candidates.ranks[rows, 0], ks - f, c)

    def referee(self, row: int, k: int) -> ExactReferee:
        return ExactReferee(self.candidates, row, k, self.goal.max_faulty)

    def search(self, first: Ints, last: Ints, start: int) -> list[Choice]:
        """Return the valid choices from a rank on, the best among them."""
        rows = np.arange(len(self.candidates))
        one = rows[-1:]  # the largest threshold of all, with all votes
        if start == rows.size or last[-1] < first[-1] or not _valid(self, one, last[one, None]).all():
            return []
        near = _Expansion(self.candidates, self.goal)
        guess = np.minimum(_smallest_valid(near, rows, first, last, (first + last) // 2, np.arange(3)), last)
        promise = near.lowest_costs(first)
        order, lowest, choices = start + np.argsort(promise[start:], kind="stable"), math.inf, []
        for i in range(0, order.size, _TOGETHER):
            rows = order[i : i + _TOGETHER]
            if choices and promise[rows[0]] > self._slack(lowest):
                break
            ks = _smallest_valid(self, rows, first[rows], last[rows], guess[rows], np.array([-1, 0]))
            rows, ks = rows[ks <= last[rows]], ks[ks <= last[rows]]
            ks, costs = _climb(self, rows, ks, last[rows])
            means, variances = self.moments(rows, ks[:, None])
            lowest = min([lowest, *costs.tolist()])
            columns = (rows.tolist(), ks.tolist(), means[:, 0].tolist(), variances[:, 0].tolist())
            choices += [Choice(self.candidates, *row) for row in zip(*columns, strict=True)]
        return choices

    def _slack(self, lowest: float) -> float:
        """Costs up to this may be chosen."""
        criterion = self.goal.criterion
        return max(criterion.near(lowest, self.goal), lowest + criterion.tie(lowest))


class _Expansion:
    """Expansion of the distribution round the level a, to second order.

    With mu(c) and V(c) the mean and variance of the votes below c, E[C] = a at the real-valued number of votes
    mu + 1/2 + mu'' V / (2 mu'^2) - V' / (2 mu'); a vote more adds 1 / mu', and the variance is V / mu'^2.
    """

    def __init__(self, candidates: Candidates, goal: Goal) -> None:
        self.goal, self.level, f = goal, float(goal.level), goal.max_faulty
        m, a = candidates.n_sites - f, candidates.ranks[:, 0, 0].astype(float)
        b, level = candidates.n_points[0] - a + 1, self.level
        p = special.betainc(a, b, level)
        log_slope = special.xlogy(a - 1, level) + special.xlog1py(b - 1, -level) - special.betaln(a, b)
        slope = np.exp(log_slope)
        bend = slope * ((a - 1) / level - (b - 1) / (1 - level))
        self.variance = np.maximum(m * p * (1 - p), 1e-12)
        rise = np.maximum(m * slope, 1e-12)
        self.middle = f + m * p + 0.5
        self.rank = (
            self.middle
            + m * bend * (self.variance / rise) / (2 * rise)
            - m * slope * (1 - 2 * p) / (2 * rise)
        )
        self.step = 1 / rise

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]:
        mean = self.level + (ks - self.rank[rows, None]) * self.step[rows, None]
        return mean, np.broadcast_to((self.variance * self.step**2)[rows, None], ks.shape)

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats:
        """At the level."""
        return special.ndtr((self.middle[rows, None] - ks) / np.sqrt(self.variance[rows, None]))

    def referee(self, row: int, k: int) -> None:
        return None

    def lowest_costs(self, first: Ints) -> Floats:
        """Lower bounds of the costs where a mean is all that counts; else -inf."""
        if not self.goal.criterion.is_mean:
            return np.full(self.rank.size, -np.inf)
        error = _RANK_ERROR / self.variance
        whole = np.maximum(np.ceil(self.rank - error), first)
        means = self.level + np.maximum(0.0, whole - self.rank - error) * self.step / 2
        variances = self.variance * self.step**2 * np.maximum(0.0, 1 - 2 * error)
        pairs = zip(means.tolist(), variances.tolist(), strict=True)
        return np.array([self.goal.criterion.cost(mean, variance, self.goal) for mean, variance in pairs])


# -- sites of different sizes, or several numbers per site ---------------------------------------------


class _Normal:
    """Normal approximation of the votes below each of some coverages, which lie dense round the level."""

    def __init__(self, candidates: Candidates, goal: Goal) -> None:
        self.goal, self.level = goal, float(goal.level)
        unit = math.sqrt(self.level * (1 - self.level) / float(candidates.n_points @ candidates.counts))
        reach = math.ceil(math.asinh(1 / unit) / _STEP)
        place = _STEP * np.arange(-reach, reach + 1)
        nodes, widths = self.level + unit * np.sinh(place), _STEP * unit * np.cosh(place)
        inside = (nodes > 0) & (nodes < 1)
        self.nodes, self.widths = nodes[inside], widths[inside]
        self.above = np.heaviside(self.nodes - self.level, 0.5)
        size = max(1, _HELD // (self.nodes.size * candidates.n_points.size * candidates.numbers))
        parts = [self._votes(candidates, slice(i, i + size)) for i in range(0, len(candidates), size)]
        self.mean, self.std = (np.concatenate(part) for part in zip(*parts, strict=True))

    def _votes(self, candidates: Candidates, rows: slice) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the votes: shape (candidates, nodes)."""
        ranks, votes, counts = candidates.ranks[rows], candidates.weights[rows], candidates.counts
        sizes = np.broadcast_to(candidates.n_points[:, None], ranks.shape)
        pairs, which = np.unique(np.stack([sizes.ravel(), ranks.ravel()]), axis=1, return_inverse=True)
        n, l = pairs.astype(float)
        table = special.betainc(np.minimum(l, n)[:, None], np.maximum(n - l + 1, 1)[:, None], self.nodes)
        p = np.where((l <= n)[:, None], table, 0.0)[which.reshape(ranks.shape)]
        cast = np.cumsum(votes, axis=2)
        squares = np.diff(cast**2, axis=2, prepend=0)
        mean = np.einsum("kbi,kbin->kbn", votes, p)
        variance = np.einsum("kbi,kbin->kbn", squares, p) - mean**2
        honest = np.broadcast_to(counts[:, None], mean.shape)
        if f := self.goal.max_faulty:
            whole = np.broadcast_to(cast[:, :, -1:], mean.shape)
            honest = _honest(whole - mean, counts, f)
            mean = mean + (whole - mean) * (counts[:, None] - honest) / counts[:, None]
        total = (mean * counts[:, None]).sum(axis=1), (variance * honest).sum(axis=1)
        return total[0], np.sqrt(np.maximum(total[1], 1e-12))

    def _missing(self, rows: Ints, ks: Ints) -> Floats:
        """1(c > level) - P(C <= c) at the nodes: shape (rows, several, nodes)."""
        deviations = (self.mean[rows, None] + 0.5 - ks[..., None]) / self.std[rows, None]
        return np.asarray(self.above - special.ndtr(deviations))

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]:
        missing = self._missing(rows, ks)
        excess = missing @ self.widths
        return self.level + excess, missing @ (2 * self.widths * (self.nodes - self.level)) - excess**2

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats:
        """At the node next to a coverage; the level is one."""
        place = int(np.abs(self.nodes - c).argmin())
        return special.ndtr((self.mean[rows, None, place] + 0.5 - ks) / self.std[rows, None, place])

    def referee(self, row: int, k: int) -> None:
        return None


def _honest(gain: Floats, counts: Ints, f: int) -> Ints:
    """Sites of each block that stay when the f whose lies gain most votes are left out."""
    order = np.argsort(-gain, axis=1, kind="stable")
    there = counts[order]
    before = np.cumsum(there, axis=1) - there
    kept = np.empty_like(there)
    np.put_along_axis(kept, order, there - np.clip(f - before, 0, there), axis=1)
    return kept


class _Votes:
    """The distribution of one candidate, its moments remembered."""

    def __init__(self, candidates: Candidates, row: int, goal: Goal, *, rough: bool = False) -> None:
        self.candidates, self.row, self.goal, self.rough = candidates, row, goal, rough
        sites = OrderStatistics(candidates.n_points, candidates.ranks[row])
        self.federation = Federation(sites, candidates.counts, goal.max_faulty, candidates.weights[row])
        self.known: dict[int, tuple[float, float]] = {}

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]:
        new = np.array(sorted(set(ks.ravel().tolist()) - self.known.keys()), dtype=np.int64)
        if new.size:
            columns = (part.tolist() for part in self.federation.moments(new, rough=self.rough))
            self.known.update(zip(new.tolist(), zip(*columns, strict=True), strict=True))
        found = np.array([self.known[k] for k in ks.ravel().tolist()]).reshape(*ks.shape, 2)
        return found[..., 0], found[..., 1]

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats:
        return self.federation.cdf(np.array([c]), ks.ravel()).reshape(ks.shape)

    def referee(self, row: int, k: int) -> ExactReferee:
        return ExactReferee(self.candidates, self.row, k, self.goal.max_faulty)

    def search(self, first: int, last: int, guess: int, window: Ints) -> list[Choice]:
        """Return the best number of votes, if any is valid."""
        row, ends = np.zeros(1, dtype=np.int64), (np.array([first]), np.array([last]))
        ks = _smallest_valid(self, row, *ends, np.array([guess]), window)
        if ks[0] > last:
            return []
        ks, _ = _climb(self, row, ks, ends[1])
        k = int(ks[0])
        return [Choice(self.candidates, self.row, k, *self.known[k], is_rough=self.rough)]


@dataclass(frozen=True, eq=False)
class ExactReferee:
    """One choice in exact arithmetic, which decides ties between a level and a distribution."""

    candidates: Candidates
    row: int
    k: int
    max_faulty: int

    @cached_property
    def _sites(self) -> tuple[list[int], list[tuple[int, ...]], int, list[tuple[int, ...]]] | None:
        """Sizes, ranks, votes and weights without faulty sites; None where counting would cost too much."""
        tried, f = self.candidates, self.max_faulty
        points = int(tried.n_points @ tried.counts)
        if points**2 * tried.n_sites * tried.numbers > _REFEREE_BITS or (f and not tried.is_plain):
            return None
        sizes, ranks, weights = (
            np.repeat(part, tried.counts, axis=0).tolist()[f:]
            for part in (tried.n_points, tried.ranks[self.row], tried.weights[self.row])
        )
        return sizes, list(map(tuple, ranks)), self.k - f, list(map(tuple, weights))

    def mean(self) -> Fraction | None:
        """Return the mean coverage; None where counting would cost too much."""
        closed = self._closed_form()
        if closed is not None or self._sites is None:
            return closed
        sizes, ranks, k, weights = self._sites
        return exact_mean(sizes, ranks, k, weights=weights)

    def cdf(self, c: Fraction) -> Fraction | None:
        """Return P(coverage <= c); None where counting would cost too much."""
        if self._sites is None:
            return None
        sizes, ranks, k, weights = self._sites
        return exact_cdf(sizes, ranks, k, c, weights=weights)

    def _closed_form(self) -> Fraction | None:
        """The mean where it is a simple fraction: the largest of all points, or split conformal prediction.

        The latter is one point per site or one site; and the middle of the middle is 1/2 by symmetry.
        """
        tried, f = self.candidates, self.max_faulty
        asked = tried.weights[self.row].any(axis=1)
        ranks, sizes, counts = tried.ranks[self.row][asked], tried.n_points[asked], tried.counts[asked]
        if not f and ranks.shape == (1, 1) and counts[0] == 1:
            return Fraction(int(ranks[0, 0]), int(sizes[0]) + 1)
        if tried.numbers > 1:
            return None
        if self.k == tried.finite_votes[self.row] and (ranks[:, 0] == sizes).all():
            total = int(sizes @ counts)
            return Fraction(total, total + 1)
        if not tried.is_plain:
            return None
        n, l = int(sizes[0]), int(ranks[0, 0])
        m, k = tried.n_sites - f, self.k - f
        if n == 1:
            return Fraction(k, m + 1)
        if m == 1:
            return Fraction(l, n + 1)
        return Fraction(1, 2) if 2 * l == n + 1 and 2 * k == m + 1 else None
