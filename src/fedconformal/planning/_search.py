"""The search for ranks and votes: the choice among candidates that serves a criterion
best.

Equal sites that send one number are searched exhaustively, in closed form. Other
candidates are ordered by an approximation of the votes; as many as there is time for
are judged by the distribution of the coverage, integrated over few nodes, and the one
that is chosen is confirmed by the exact distribution. Of small federations, whose few
votes the approximation cannot tell apart, all candidates are judged.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain, islice

import numpy as np
from scipy import special

from fedconformal._util import Bools, Floats, Ints
from fedconformal.laws import OrderStatistics, exact_cdf, exact_mean
from fedconformal.laws._federation import Federation, leave_out, n_choices
from fedconformal.laws._sites import equal_cdf, equal_moments, legendre
from fedconformal.laws._votes import MOST_ADDED, Votes, added_tails, honest_counts
from fedconformal.planning._ballot import Candidates
from fedconformal.planning.criteria import Goal, Outcomes

# size of the integers up to which a tie with the level is settled exactly
_REFEREE_BITS = 5_000_000
_TOGETHER = 256  # ranks of equal sites that are judged at once
# of the expansion for equal sites, times the variance; the tests find less than 0.05
_RANK_ERROR = 0.25
_NODES = 24  # on either side of the level
_SIZES = 48  # sizes that the approximation looks at
_HELD = 2**21  # numbers that it works on at once
_FEWEST, _MOST, _WORK = (
    8,
    64,
    400,
)  # candidates judged one by one: _WORK over blocks and liars
_ADDED = 2e8  # numbers added up to judge candidates together
_TABLE = 2**23  # numbers of their tails that are held
_FEW_CHOICES = 128  # of faulty sites, up to which candidates are judged together
_WINDOW = np.arange(
    -4, 9
)  # votes that are judged together, from the approximation's number on
# standard deviations of the coverage; an integral over the nodes is far closer to the
# mean
_SURE = 0.05
_DOUBT = 1e-9  # rounding of an integral over the nodes, where it is exact but for that


@dataclass(frozen=True, eq=False)
class Choice:
    """A candidate, the votes needed, and mean and variance of the coverage."""

    candidates: Candidates
    row: int
    server_rank: int
    mean: float
    variance: float
    is_exact: bool = True

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
    """Return the choice of the lowest cost; ties go to less spread, fewer votes, then
    the first candidate.
    """
    lowest = min((choice.cost(goal) for choice in choices), default=0.0)
    limit = lowest + goal.criterion.tie_tolerance(lowest)
    ties = [choice for choice in choices if choice.cost(goal) <= limit]

    def order(choice: Choice) -> tuple[float, int, int]:
        # Less spread first, up to rounding.
        return (
            float(f"{choice.variance:.9g}"),
            int(choice.candidates.finite_votes[choice.row]),
            choice.row,
        )

    return min(ties, key=order, default=None)


def search(
    candidates: Candidates,
    goal: Goal,
    accepts: Callable[[Candidates, int], bool] | None = None,
) -> list[Choice]:
    """Return the choices that seem valid, the best among them; none if no finite
    threshold is valid.

    Those of equal sites, and of a single candidate, are exact; others are to be
    confirmed before use.

    Parameters
    ----------
    candidates : Candidates
        Ranks and votes to try.
    goal : Goal
        Level and criterion.
    accepts : callable, optional
        Returns whether a row may be chosen; for equal sites, all larger ranks must be
        accepted too.
    """
    first, last = candidates.limits(goal.max_faulty)
    if candidates.is_plain:
        every = range(len(candidates))
        start = (
            0
            if accepts is None
            else bisect_left(every, True, key=partial(accepts, candidates))
        )
        return _Equal(candidates, goal).search(first, last, start)
    rows = np.flatnonzero(last >= first)
    if not rows.size:
        return []
    screen = _Edgeworth(candidates, goal)
    order, guess = screen.rank(rows, first[rows], last[rows])
    rows = rows[order]
    limits = first[rows], last[rows], guess[order]
    together = _count_together(candidates, goal)
    if rows.size > 1 and together >= _FEWEST:
        some = slice(0, together)
        law = _Added(candidates, rows[some], goal)
        choices = law.search(*(part[some] for part in (rows, *limits)))
        if goal.max_faulty and goal.max_missing:
            return choices  # few of which may tolerate both
        accepted = (
            each for each in choices if accepts is None or accepts(candidates, each.row)
        )
        return list(islice(accepted, _MOST))
    return _judge_one_by_one(candidates, goal, rows, limits, accepts)


def _judge_one_by_one(
    candidates: Candidates,
    goal: Goal,
    rows: Ints,
    limits: tuple[Ints, Ints, Ints],
    accepts: Callable[[Candidates, int], bool] | None,
) -> list[Choice]:
    """Return the valid choices among the first candidates that are accepted."""
    judged = max(
        _FEWEST, min(_MOST, _WORK // (candidates.n_points.size * (1 + goal.max_faulty)))
    )

    def choices() -> Iterator[list[Choice]]:
        for row, first, last, guess in zip(rows.tolist(), *limits, strict=True):
            if accepts is None or accepts(candidates, row):
                law = _Votes(candidates, row, goal, is_exact=rows.size == 1)
                yield law.search(int(first), int(last), int(guess), _WINDOW)

    return list(islice(chain.from_iterable(islice(choices(), 2 * judged)), judged))


def confirm(choice: Choice, goal: Goal) -> list[Choice]:
    """Return the choice by its exact distribution, perhaps with other votes; nothing if
    it is invalid.
    """
    first, last = (
        int(end[choice.row]) for end in choice.candidates.limits(goal.max_faulty)
    )
    law = _Votes(choice.candidates, choice.row, goal, is_exact=True)
    return law.search(first, last, choice.server_rank, np.arange(-1, 2))


def satisfies(tried: Candidates, votes: int, goal: Goal) -> bool:
    """Return whether ``votes`` satisfies the criterion, by few nodes where these are
    conclusive.
    """
    row, ks = np.zeros(1, dtype=np.int64), np.array([[votes]])
    if goal.criterion.is_mean:
        mean, variance = _Votes(tried, 0, goal, is_exact=False).moments(row, ks)
        excess = float(mean[0, 0]) - float(goal.level)
        if abs(excess) > _SURE * math.sqrt(max(variance[0, 0], 0.0)):
            return excess > 0
    return bool(_Votes(tried, 0, goal, is_exact=True).valid(row, ks).all())


class _Laws:
    """Distributions of the coverage, for rows of candidates and votes of shape (rows,
    several).
    """

    candidates: Candidates
    goal: Goal
    is_exact = False
    # choices that miss the criterion by less may satisfy it by the exact distribution
    doubt = 0.0

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]:
        """Return mean and variance."""
        raise NotImplementedError

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats:
        """Return P(C <= c)."""
        raise NotImplementedError

    def valid(self, rows: Ints, ks: Ints) -> Bools:
        """Return which satisfy the criterion; exact arithmetic decides where rounding
        would.
        """
        criterion = self.goal.criterion
        margin = self._margins(rows, ks)
        if not self.is_exact:
            return np.asarray(margin > -self.doubt)
        error = criterion.margin_error(self.goal)
        valid = margin > error
        for i, j in np.argwhere(np.abs(margin) <= error):
            referee = ExactReferee(
                self.candidates, int(rows[i]), int(ks[i, j]), self.goal.max_faulty
            )
            valid[i, j] = criterion.settles(referee, self.goal)
        return np.asarray(valid)

    def _margins(self, rows: Ints, ks: Ints) -> Floats:
        """Return the margins by which they satisfy the criterion."""
        outcomes = Outcomes(
            partial(self.moments, rows, ks), partial(self.cdf, rows, ks)
        )
        return self.goal.criterion.margin(outcomes, self.goal)

    def costs(self, rows: Ints, ks: Ints) -> Floats:
        """Return the costs of one number of votes for each row."""
        return _costs(*self.moments(rows, ks[:, None]), self.goal)

    def smallest_valid(
        self, rows: Ints, first: Ints, last: Ints, guess: Ints, window: Ints
    ) -> Ints:
        """Return the smallest valid number of votes of each row, last + 1 if there is
        none.

        The votes of a window round the guess are judged together; then as many that
        divide what is left.
        """
        low, high = first - 1, last + 1
        ks = guess[:, None] + window
        while (left := np.flatnonzero(high - low > 1)).size:
            tried = np.clip(ks[left], low[left, None] + 1, high[left, None] - 1)
            valid = self.valid(rows[left], tried)
            low[left] = np.where(valid, low[left, None], tried).max(axis=1)
            high[left] = np.where(valid, tried, high[left, None]).min(axis=1)
            ks = low[:, None] + (high - low)[:, None] * np.arange(
                1, window.size + 1
            ) // (window.size + 1)
        return high

    def climb(self, rows: Ints, ks: Ints, last: Ints) -> tuple[Ints, Floats]:
        """Return votes raised as long as that lowers the cost, if the criterion trades
        up; and the costs.
        """
        ks, costs = ks.copy(), self.costs(rows, ks)
        left = np.flatnonzero((ks < last) & self.goal.criterion.trades_up)
        while left.size:
            higher = self.costs(rows[left], ks[left] + 1)
            lower = higher < costs[left]
            left, higher = left[lower], higher[lower]
            ks[left], costs[left] = ks[left] + 1, higher
            left = left[ks[left] < last[left]]
        return ks, costs


def _costs(means: Floats, variances: Floats, goal: Goal) -> Floats:
    pairs = zip(means.ravel().tolist(), variances.ravel().tolist(), strict=True)
    return np.array(
        [goal.criterion.cost(mean, variance, goal) for mean, variance in pairs]
    )


# -- equal sites that send one number --------------------------------------------------


class _Equal(_Laws):
    """Every rank, in the order of what it promises, until none that is left can win."""

    is_exact = True

    def __init__(self, candidates: Candidates, goal: Goal) -> None:
        self.candidates, self.goal, self.f = candidates, goal, goal.max_faulty
        self.m, self.n = candidates.n_sites - self.f, int(candidates.n_points[0])

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]:
        return equal_moments(
            self.m, self.n, self.candidates.ranks[rows, 0], ks - self.f
        )

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats:
        return equal_cdf(self.m, self.n, self.candidates.ranks[rows, 0], ks - self.f, c)

    def search(self, first: Ints, last: Ints, start: int) -> list[Choice]:
        """Return the valid choices from a row on, the best among them."""
        rows = np.arange(len(self.candidates))
        if (
            start == rows.size
            or last[-1] < first[-1]
            or not self.valid(rows[-1:], last[-1:, None]).all()
        ):
            return []  # the last row and all votes give the largest threshold
        screen = _Expansion(self.candidates, self.goal)
        guess = np.minimum(
            screen.smallest_valid(rows, first, last, last // 2, np.arange(3)), last
        )
        promise, lowest, choices = screen.lowest_costs(first), math.inf, list[Choice]()
        criterion = self.goal.criterion
        order = start + np.argsort(promise[start:], kind="stable")
        for i in range(0, order.size, _TOGETHER):
            rows = order[i : i + _TOGETHER]
            highest = max(
                criterion.missing_slack(lowest, self.goal),
                lowest + criterion.tie_tolerance(lowest),
            )
            if promise[rows[0]] > highest:
                break
            ks = self.smallest_valid(
                rows, first[rows], last[rows], guess[rows], np.array([-1, 0])
            )
            rows, ks = rows[ks <= last[rows]], ks[ks <= last[rows]]
            ks, costs = self.climb(rows, ks, last[rows])
            lowest = min([lowest, *costs.tolist()])
            columns = (part[:, 0].tolist() for part in self.moments(rows, ks[:, None]))
            laws = zip(rows.tolist(), ks.tolist(), *columns, strict=True)
            choices += [Choice(self.candidates, *law) for law in laws]
        return choices


class _Expansion(_Laws):
    """Expansion of the distribution round the level a, to second order.

    With mu(c) and V(c) the mean and variance of the votes below c, E[C] = a at a
    real-valued number of votes, mu + 1/2 + mu'' V / (2 mu'^2) - V' / (2 mu'); a vote
    more adds 1 / mu', and the variance is V / mu'^2.
    """

    def __init__(self, candidates: Candidates, goal: Goal) -> None:
        self.goal, self.level = goal, float(goal.level)
        m, a = (
            candidates.n_sites - goal.max_faulty,
            candidates.ranks[:, 0, 0].astype(float),
        )
        b, level = candidates.n_points[0] - a + 1, self.level
        p = special.betainc(a, b, level)
        slope = np.exp(
            special.xlogy(a - 1, level)
            + special.xlog1py(b - 1, -level)
            - special.betaln(a, b)
        )
        bend = (a - 1) / level - (b - 1) / (
            1 - level
        )  # the slope's derivative, over the slope
        self.variance, self.step = (
            np.maximum(m * p * (1 - p), 1e-12),
            1 / np.maximum(m * slope, 1e-12),
        )
        self.middle = goal.max_faulty + m * p + 0.5
        self.rank = self.middle + (bend * self.variance * self.step - 1 + 2 * p) / 2

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]:
        mean = self.level + (ks - self.rank[rows, None]) * self.step[rows, None]
        return mean, np.broadcast_to(
            (self.variance * self.step**2)[rows, None], ks.shape
        )

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats:
        """Return P(C <= level)."""
        return np.asarray(
            special.ndtr(
                (self.middle[rows, None] - ks) / np.sqrt(self.variance[rows, None])
            )
        )

    def lowest_costs(self, first: Ints) -> Floats:
        """Return lower bounds of the costs where a mean is all that counts; else
        -inf.
        """
        if not self.goal.criterion.is_mean:
            return np.full(self.rank.size, -np.inf)
        error = _RANK_ERROR / self.variance
        whole = np.maximum(np.ceil(self.rank - error), first)
        means = self.level + np.maximum(0.0, whole - self.rank - error) * self.step / 2
        variances = self.variance * self.step**2 * np.maximum(0.0, 1 - 2 * error)
        return _costs(means, variances, self.goal)


# -- sites of different sizes, or several numbers per site -----------------------------


class _OnNodes(_Laws):
    """Distributions that are known at some coverages, dense round the level, which is
    the last of them.
    """

    doubt = _DOUBT

    def __init__(self, candidates: Candidates, goal: Goal) -> None:
        self.candidates, self.goal, self.level = candidates, goal, float(goal.level)
        unit = math.sqrt(
            self.level
            * (1 - self.level)
            / float(candidates.n_points @ candidates.counts)
        )
        x, w = legendre(_NODES)
        ends = -math.asinh(self.level / unit), math.asinh((1 - self.level) / unit)
        place = np.concatenate([end * x for end in ends])
        widths = np.concatenate([abs(end) * w for end in ends]) * unit * np.cosh(place)
        self.nodes = np.append(self.level + unit * np.sinh(place), self.level)
        self.widths, self.above = np.append(widths, 0.0), self.nodes > self.level

    def below(self, rows: Ints, ks: Ints) -> Floats:
        """Return P(C <= c) at the nodes: shape (rows, several, nodes)."""
        raise NotImplementedError

    def _shares_below(self, ranks: Ints, sizes: Ints) -> Floats:
        """Return P(number <= c) at the nodes, for ranks of shape (rows, blocks,
        numbers): one axis more.

        Many rows have the same ranks.
        """
        blocks = np.arange(sizes.size) * (int(sizes.max()) + 2)
        keys = ranks + blocks[:, None]
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        n = np.broadcast_to(sizes[:, None], keys.shape).ravel()[first, None]
        l = ranks.ravel()[first, None]
        shares = special.betainc(
            np.minimum(l, n), np.maximum(n - l + 1.0, 1.0), self.nodes
        )
        return np.asarray(np.where(l <= n, shares, 0.0)[which.reshape(keys.shape)])

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]:
        missing = self.above - self.below(rows, ks)
        excess = missing @ self.widths
        return (
            self.level + excess,
            missing @ (2 * self.widths * (self.nodes - self.level)) - excess**2,
        )

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats:
        """Return P(C <= c) at the node next to a coverage."""
        return self.below(rows, ks)[..., int(np.abs(self.nodes - c).argmin())]


class _Edgeworth(_OnNodes):
    """Approximation of the votes by three moments.

    Of many sizes only a few are used, each with as many sites as those next to it have.
    """

    def __init__(self, candidates: Candidates, goal: Goal) -> None:
        super().__init__(candidates, goal)
        groups = np.array_split(
            np.argsort(candidates.n_points), min(_SIZES, candidates.n_points.size)
        )
        self.blocks = np.array([group[group.size // 2] for group in groups])
        self.counts = np.array([candidates.counts[group].sum() for group in groups])
        size = max(
            1, _HELD // (self.nodes.size * self.blocks.size * candidates.numbers)
        )
        parts = [
            self._votes(slice(i, i + size)) for i in range(0, len(candidates), size)
        ]
        self.mean, self.std, self.skew = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )

    def rank(self, rows: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """Return an order of the rows, the most promising first, and the best votes.

        Of those that seem valid the cheapest come first, and then those that seem
        closest to be valid.
        """
        ks = self.smallest_valid(rows, first, last, (first + last) // 2, np.arange(3))
        hopeless = ks > last
        ks, costs = self.climb(rows, np.minimum(ks, last), last)
        key = np.where(hopeless, -self._margins(rows, last[:, None])[:, 0], costs)
        return np.lexsort([key, hopeless]), ks

    def _votes(self, rows: slice) -> tuple[Floats, Floats, Floats]:
        """Return mean, standard deviation and skewness of the votes: shape (candidates,
        nodes).
        """
        ranks, votes = (
            part[rows, self.blocks]
            for part in (self.candidates.ranks, self.candidates.weights)
        )
        p = self._shares_below(ranks, self.candidates.n_points[self.blocks])
        cast = np.cumsum(votes, axis=2).astype(float)
        one, two, three = (
            np.einsum("kbi,kbin->kbn", np.diff(cast**power, axis=2, prepend=0), p)
            for power in (1, 2, 3)
        )
        whole, f, honest = cast[:, :, -1:], self.goal.max_faulty, self.counts[:, None]
        if f:  # those whose lies gain most votes are faulty
            honest = honest_counts(one - whole, self.counts, f)
        mean = (one * honest + whole * (self.counts[:, None] - honest)).sum(axis=1)
        variance = np.maximum(((two - one**2) * honest).sum(axis=1), 1e-12)
        third = ((three - 3 * one * two + 2 * one**3) * honest).sum(axis=1)
        return mean, np.sqrt(variance), np.clip(third / variance**1.5, -1, 1)

    def below(self, rows: Ints, ks: Ints) -> Floats:
        z = (self.mean[rows, None] + 0.5 - ks[..., None]) / self.std[rows, None]
        tilt = (
            self.skew[rows, None]
            / 6
            * (z**2 - 1)
            * np.exp(-(z**2) / 2)
            / math.sqrt(2 * math.pi)
        )
        return np.asarray(np.clip(special.ndtr(z) + tilt, 0.0, 1.0))


def _count_together(candidates: Candidates, goal: Goal) -> int:
    """Return how many candidates may be judged together; 0 where their votes are better
    counted otherwise.
    """
    choices = n_choices(candidates.counts, goal.max_faulty)
    sites = candidates.n_sites - goal.max_faulty
    votes = int(candidates.finite_votes.max())
    if choices > _FEW_CHOICES or sites > MOST_ADDED:
        return 0
    sums = votes * (2 * _NODES + 1)
    added = choices * sites * (candidates.numbers + 1) * sums / 2
    return int(min(_ADDED / added, _TABLE / sums))


class _Added(_OnNodes):
    """Distributions of many candidates at once, the votes added up site by site."""

    def __init__(self, candidates: Candidates, rows: Ints, goal: Goal) -> None:
        super().__init__(candidates, goal)
        self.place = np.zeros(len(candidates), dtype=np.int64)
        self.place[rows] = np.arange(rows.size)
        needed = int(candidates.finite_votes[rows].max()) + 2
        self.tails = np.zeros((rows.size, needed, self.nodes.size))
        weights = candidates.weights[rows]
        kinds, which = np.unique(
            weights.reshape(rows.size, -1), axis=0, return_inverse=True
        )
        for kind in range(len(kinds)):
            alike = np.flatnonzero(which.ravel() == kind)
            votes = Votes(candidates.counts, weights[alike[0]])
            ranks = candidates.ranks[rows[alike]]
            below = np.moveaxis(self._shares_below(ranks, candidates.n_points), -1, 1)
            below = below.reshape(-1, *ranks.shape[1:])
            for left in leave_out(votes.counts, goal.max_faulty):
                tails = _tails_without(votes, left, below, needed)
                tails = tails.reshape(alike.size, self.nodes.size, needed)
                self.tails[alike] = np.maximum(
                    self.tails[alike], tails.transpose(0, 2, 1)
                )

    def below(self, rows: Ints, ks: Ints) -> Floats:
        return np.asarray(self.tails[self.place[rows, None], ks])

    def search(self, rows: Ints, first: Ints, last: Ints, guess: Ints) -> list[Choice]:
        """Return the valid choices with the best number of votes, the best first."""
        ks = self.smallest_valid(rows, first, last, guess, _WINDOW)
        valid = ks <= last
        rows, ks, last = rows[valid], ks[valid], last[valid]
        ks, costs = self.climb(rows, ks, last)
        means, variances = (part[:, 0] for part in self.moments(rows, ks[:, None]))
        return [
            Choice(
                self.candidates,
                int(rows[i]),
                int(ks[i]),
                float(means[i]),
                float(variances[i]),
                is_exact=False,
            )
            for i in np.argsort(costs, kind="stable")
        ]


def _tails_without(votes: Votes, left: Ints, below: Floats, needed: int) -> Floats:
    """Return P(votes >= k) for k below ``needed`` if all sites but those that are left
    cast all their votes.
    """
    lies = int((votes.counts - left) @ votes.by_site)
    honest = Votes(left, votes.weights)
    ks = np.clip(np.arange(needed) - lies, 0, honest.total + 1)
    return added_tails(ks, below, honest)


class _Votes(_OnNodes):
    """The distribution of one candidate, its moments remembered."""

    def __init__(
        self, candidates: Candidates, row: int, goal: Goal, *, is_exact: bool
    ) -> None:
        super().__init__(candidates, goal)
        self.row, self.is_exact, self.known = (
            row,
            is_exact,
            dict[int, tuple[float, float]](),
        )
        sites = OrderStatistics(candidates.n_points, candidates.ranks[row])
        self.federation = Federation(
            sites, candidates.counts, goal.max_faulty, candidates.weights[row]
        )

    def moments(self, rows: Ints, ks: Ints) -> tuple[Floats, Floats]:
        new = np.array(
            sorted(set(ks.ravel().tolist()) - self.known.keys()), dtype=np.int64
        )
        if new.size:
            moments = (
                self.federation.moments(new)
                if self.is_exact
                else super().moments(rows, new[None])
            )
            columns = (part.ravel().tolist() for part in moments)
            self.known.update(
                zip(new.tolist(), zip(*columns, strict=True), strict=True)
            )
        known = np.array([self.known[k] for k in ks.ravel().tolist()]).reshape(
            *ks.shape, 2
        )
        return known[..., 0], known[..., 1]

    def below(self, rows: Ints, ks: Ints) -> Floats:
        return self.federation.cdf(self.nodes, ks[0], digits=False).T[None]

    def cdf(self, rows: Ints, ks: Ints, c: float) -> Floats:
        return self.federation.cdf(np.array([c]), ks[0])

    def search(self, first: int, last: int, guess: int, window: Ints) -> list[Choice]:
        """Return the best number of votes, if any is valid."""
        row, low, high = np.array([self.row]), np.array([first]), np.array([last])
        ks = self.smallest_valid(row, low, high, np.array([guess]), window)
        if ks[0] > last:
            return []
        k = int(self.climb(row, ks, high)[0][0])
        return [Choice(self.candidates, self.row, k, *self.known[k], self.is_exact)]


@dataclass(frozen=True, eq=False)
class ExactReferee:
    """One choice in exact arithmetic, which decides ties between a level and a
    distribution.
    """

    candidates: Candidates
    row: int
    k: int
    max_faulty: int

    @cached_property
    def _sites(
        self,
    ) -> tuple[list[int], list[tuple[int, ...]], int, list[tuple[int, ...]]] | None:
        """Sizes, ranks, votes and weights without faulty sites; None where counting
        would cost too much.
        """
        tried, f = self.candidates, self.max_faulty
        points = int(tried.n_points @ tried.counts)
        if points**2 * tried.n_sites * tried.numbers > _REFEREE_BITS or (
            f and not tried.is_plain
        ):
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
        """Return the mean where it is a simple fraction: the largest of all points, or
        split conformal.

        The latter is one point per site or one site; and the middle of the middle is
        1/2 by symmetry.
        """
        tried, f = self.candidates, self.max_faulty
        asked = tried.weights[self.row].any(axis=1)
        ranks, sizes, counts = (
            tried.ranks[self.row][asked],
            tried.n_points[asked],
            tried.counts[asked],
        )
        if not f and ranks.shape == (1, 1) and counts[0] == 1:
            return Fraction(int(ranks[0, 0]), int(sizes[0]) + 1)
        if tried.numbers > 1:
            return None
        if self.k == tried.finite_votes[self.row] and (ranks[:, 0] == sizes).all():
            total = int(sizes @ counts)
            return Fraction(total, total + 1)
        if not tried.is_plain:
            return None
        n, l, m, k = int(sizes[0]), int(ranks[0, 0]), tried.n_sites - f, self.k - f
        if n == 1:
            return Fraction(k, m + 1)
        return Fraction(1, 2) if 2 * l == n + 1 and 2 * k == m + 1 else None
