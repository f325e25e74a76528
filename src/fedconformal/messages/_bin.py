"""Bin: the paper's private algorithm (FedCP2-QQ, Algorithms 2 and 3), to the letter.

Every site draws one cell for each level by the exponential mechanism, near the
corrected rank l_gamma + l_cor, and the server keeps the k-th smallest cell. The pair
(l_gamma, k) is that of the marginal criterion at the raised level (1 - alpha) / (1 -
gamma alpha), and with probability 1 - gamma alpha no site's cell is further below its
corrected rank than l_cor.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._text import count
from fedconformal._util import Floats, Ints
from fedconformal.documents import (
    Advice,
    Bin,
    BinLevel,
    BinPayload,
    Design,
    Payload,
    SiteKind,
    total_sites,
)
from fedconformal.laws._sites import equal_moments
from fedconformal.messages._base import (
    MESSAGES,
    Answer,
    Choice,
    DesignRequest,
    Message,
    smallest_with_votes,
    two_digits,
)
from fedconformal.planning import CRITERIA, PROMISES, Goal, Guarantee, smallest
from fedconformal.privacy import Bins, PrivateQuantile, exact_text

_MARGIN = 1e-9  # by which rounding may mistake a mean coverage
_LARGEST_N = 100_000  # of an advice
_NO_RANK, _NO_GAMMA = (
    Fraction(999, 1000),
    Fraction(1, 2),
)  # of a plan that cannot be given
_STEPS = 10**9  # of gamma between 0 and 1
_NEAR = 2  # steps by which rounding may mistake a gamma
_FEW_GAMMAS = [Fraction(1, 10**6)] + [
    Fraction(digit, 10**power) for power in (4, 3, 2, 1) for digit in (1, 2, 5)
]


@MESSAGES.register
class BinMessage(Message):
    """One cell for each level, drawn near a quantile of a site's scores.

    For sites of one size, the population promise, the marginal criterion and no faulty
    sites.

    Examples
    --------
    >>> import fedconformal as fc
    >>> privacy = fc.Privacy(10.0, fc.Bins.uniform(0, 1, 50), analysis="paper")
    >>> plan = fc.plan(n_sites=5, n_points=200, privacy=privacy)
    >>> plan.message.levels[0].correction
    3
    """

    name: ClassVar[str] = "bin"
    promises: ClassVar[tuple[str, ...]] = ("population",)
    can_be_masked: ClassVar[bool] = True

    def choose(self, request: DesignRequest) -> Choice:
        """Search gamma, or take the one that is given, for each level."""
        privacy = request.privacy
        assert privacy is not None
        assert privacy.bins is not None
        self._check(request.promise.name, request.goals, request.sites)
        if request.numbers is not None and request.numbers > 1:
            raise ValueError(
                f"numbers must be 1 with the paper's analysis, got {request.numbers}"
            )
        if request.uses_paper_ranks:
            raise ValueError(
                "local_ranks must be left out with privacy, whose noise fixes the ranks"
            )
        sites = request.sites or ()
        m, n, epsilon = total_sites(sites), sites[0].n, privacy.exact_epsilon
        gamma = None if privacy.gamma is None else Fraction(str(privacy.gamma))
        levels, ranks = [], []
        for goal in request.goals:
            shared, missing = epsilon / len(request.goals), goal.max_missing or 0
            search = _Search(
                m, n, goal.level, shared, privacy.bins.n_bins, gamma, missing
            )
            found = search.best()
            if found is None:
                ranks.append(
                    BinLevel(
                        gamma=gamma or _NO_GAMMA,
                        local_rank=math.ceil(_NO_RANK * n),
                        correction=0,
                    )
                )
                levels.append(goal.make_level(m + 1, search.advise(len(request.goals))))
            else:
                ranks.append(found[0])
                levels.append(goal.make_level(found[1]))
        message = Bin(
            edges=privacy.bins.edges,
            bounded=privacy.bins.bounded,
            masked=request.masked,
            epsilon=epsilon,
            levels=tuple(ranks),
        )
        return Choice(message, tuple(levels), request.sites)

    def _check(
        self, promise: str, goals: Sequence[Goal], sites: Sequence[SiteKind] | None
    ) -> None:
        """Refuse what the paper does not cover."""
        default = CRITERIA["marginal"]
        if promise != "population":
            raise ValueError(
                "promise must be 'population' with the paper's analysis, got"
                f" {promise!r}"
            )
        for goal in goals:
            if type(goal.criterion) is not default:
                raise ValueError(
                    f"criterion must be {default.name!r} with the paper's analysis, got"
                    f" {goal.criterion.name!r}"
                )
            if goal.max_faulty:
                raise ValueError(
                    "max_faulty must be 0 with the paper's analysis, got"
                    f" {goal.max_faulty}"
                )
        if sites is None:
            raise ValueError(
                "privacy needs n_points: the noise counts for more where there are few"
                " scores"
            )
        if len({kind.n for kind in sites}) > 1:
            raise ValueError(
                "n_points must be the same at all sites with the paper's analysis, got"
                f" {len({kind.n for kind in sites})} sizes"
            )

    def check(self, design: Design) -> None:
        """Refuse ranks that the paper's algorithm would not allow."""
        goals = Goal.all_of(design)
        self._check(design.promise, goals, design.sites)
        PROMISES[design.promise]().check_goal(goals[0], is_open=False)
        for place, (goal, level) in enumerate(zip(goals, design.levels, strict=True)):
            if level.advice is not None:
                if level.votes != total_sites(design.kinds) + 1:
                    raise ValueError(
                        "votes must be out of reach where the level is not reached"
                    )
                continue
            ranks, votes, search = (
                _data(design).levels[place],
                level.votes or 1,
                _search(design, place),
            )
            if ranks.local_rank + ranks.correction >= search.n or votes > search.m:
                raise ValueError(
                    "the corrected rank must be below the number of scores"
                )
            kept = 1 - ranks.gamma * (1 - goal.level)
            if ranks.correction < search.correction(kept):
                raise ValueError("the correction is too small for the noise")
            if (
                _exact_mean(search.m, search.n, ranks.local_rank, votes)
                < float(goal.level / kept) - _MARGIN
            ):
                raise ValueError(
                    "the ranks do not reach the level that the noise leaves"
                )

    def epsilon(self, design: Design) -> Fraction:
        """Return the privacy loss of all levels together."""
        return _data(design).epsilon

    def count_numbers(self, design: Design, n: int, site: str) -> int:
        """Count the cells that are drawn."""
        design.find_kind(n, site=site)
        return len(design.levels)

    def discloses(self, design: Design, n: int, site: str) -> str:
        """Name the cells that are drawn, and the noise."""
        cells = "one cell" if len(design.levels) == 1 else f"{len(design.levels)} cells"
        noise = f"with epsilon {exact_text(_data(design).epsilon)}"
        return f"{cells} near a quantile of your {count(n, 'score')}, drawn {noise}"

    def summarize(self, design: Design, place: int) -> str:
        """Name the cells of which one is drawn."""
        return f"1 of {_data(design).n_cells:,} cells"

    def prepare(
        self,
        design: Design,
        scores: Any,
        *,
        site: str,
        round_id: str | None,
        options: Mapping[str, Any],
    ) -> Callable[[], Payload]:
        """Prepare a draw for each level."""
        self.count_numbers(design, scores.size, site)
        counts = self.count_cells(design, scores)
        draws = [mechanism.prepare(counts) for mechanism in mechanisms(design)]
        return lambda: BinPayload(cells=tuple(draw() for draw in draws))

    def count_cells(self, design: Design, scores: Any) -> Ints:
        """Count the scores in each cell."""
        message = _data(design)
        return Bins(message.edges, bounded=message.bounded).place(scores)

    def simulate(
        self, design: Design, scores: Any, rng: np.random.Generator
    ) -> Payload:
        """Draw cells with seeded noise."""
        counts = self.count_cells(design, scores)
        return BinPayload(
            cells=tuple(int(draw.simulate(counts, rng)) for draw in mechanisms(design))
        )

    def problem(self, design: Design, answer: Answer) -> str | None:
        """Check the number of cells, and that they exist."""
        design.find_kind(answer.n, site=answer.site)
        cells = answer.payload.cells
        if len(cells) != len(design.levels):
            return f"{count(len(cells), 'cell')} instead of {len(design.levels)}"
        most = _data(design).n_cells
        return None if max(cells) < most else f"a cell that is not one of {most}"

    def solve(
        self, design: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> Design:
        """Return the smallest rank that is valid for the sites that answered, at the
        planned gamma.
        """
        answered = design.model_copy(update={"sites": sites})
        if total_sites(sites) == total_sites(design.kinds):
            return answered
        levels, planned_ranks = [], _data(design).levels
        for place, planned in enumerate(design.levels):
            goal, search, ranks = (
                Goal.from_design(design, place),
                _search(answered, place),
                planned_ranks[place],
            )
            least = float(goal.level / (1 - ranks.gamma * (1 - goal.level))) + _MARGIN
            # Fewer sites need less correction, so that the planned one suffices.
            ks = range(1, search.m + 1) if planned.advice is None else ()
            means = (
                (k, _exact_mean(search.m, search.n, ranks.local_rank, k)) for k in ks
            )
            votes = next((k for k, mean in means if mean >= least), None)
            advice = None if votes else planned.advice or Advice()
            levels.append(goal.make_level(votes or search.m + 1, advice))
        return answered.model_copy(update={"levels": tuple(levels)})

    def combine(
        self, design: Design, answers: Mapping[str, Answer]
    ) -> tuple[float, ...]:
        """Return the k-th smallest cell's edge, for each level."""
        edge, cells = (
            _data(design).edge,
            [answer.payload.cells for answer in answers.values()],
        )
        return tuple(
            smallest_with_votes(
                [(edge(each[place]), 1) for each in cells], level.votes or 1
            )
            for place, level in enumerate(design.levels)
        )

    def vector(self, design: Design, answer: Answer) -> Sequence[int]:
        """Return a 1 in the cell of each level, and 0 elsewhere."""
        message, cells = _data(design), answer.payload.cells
        return [
            int(cell == drawn) for drawn in cells for cell in range(message.n_cells)
        ]

    def sum_problem(self, design: Design, sums: Sequence[int]) -> str | None:
        """Check that every site has one cell at each level."""
        rows = _rows(design, sums)
        fits = min(sums) >= 0 and all(sum(row) == design.n_sites for row in rows)
        return (
            None
            if fits
            else "the sum over all sites is not one cell of each: a report is wrong"
        )

    def combine_sum(self, design: Design, sums: Sequence[int]) -> tuple[float, ...]:
        """Return the k-th smallest cell's edge, for each level."""
        edge, rows = _data(design).edge, _rows(design, sums)
        return tuple(
            smallest_with_votes(
                [(edge(cell), times) for cell, times in enumerate(row)],
                level.votes or 1,
            )
            for row, level in zip(rows, design.levels, strict=True)
        )

    def law(self, design: Design, place: int) -> None:
        """Return None: the paper bounds the mean coverage alone."""
        return

    def guarantee(self, design: Design, place: int) -> Guarantee:
        """Return the mean coverage of the ranks without noise, less what the noise may
        cost.
        """
        level, ranks, search = (
            design.levels[place],
            _data(design).levels[place],
            _search(design, place),
        )
        if level.advice is not None:
            return Guarantee(1.0)
        kept = 1 - ranks.gamma * (1 - level.confidence_level)
        return Guarantee(
            float(kept)
            * _exact_mean(search.m, search.n, ranks.local_rank, level.votes or 1)
        )

    def is_bound(self, design: Design) -> bool:
        """Return True."""
        return True

    def tolerates(self, design: Design, place: int, n_missing: int) -> bool:
        """Return whether the rank can be solved again for fewer sites."""
        left = total_sites(design.kinds) - n_missing
        if left < 1 or design.levels[place].advice is not None:
            return False
        fewer = (SiteKind(count=left, n=design.kinds[0].n),)
        return self.solve(design, fewer, [0]).levels[place].advice is None

    def local_ranks(self, design: Design, place: int) -> tuple[tuple[int, ...], ...]:
        """Return the corrected rank, at which sites aim."""
        ranks = _data(design).levels[place]
        return ((ranks.local_rank + ranks.correction,),) * len(design.kinds)


def _rows(design: Design, sums: Sequence[int]) -> list[Sequence[int]]:
    """Return the sums of each level."""
    cells = _data(design).n_cells
    return [sums[start : start + cells] for start in range(0, len(sums), cells)]


def _data(design: Design) -> Bin:
    assert isinstance(design.message, Bin)
    return design.message


def mechanisms(design: Design) -> list[PrivateQuantile]:
    """Return the draw of each level.

    Parameters
    ----------
    design : Design
        Of the paper's algorithm.

    Returns
    -------
    list of PrivateQuantile

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.messages import mechanisms
    >>> privacy = fc.Privacy(10.0, fc.Bins.uniform(0, 1, 50), analysis="paper")
    >>> len(mechanisms(fc.plan(n_sites=5, n_points=200, privacy=privacy).designs[0]))
    1
    """
    message, n = _data(design), design.kinds[0].n
    epsilon = message.epsilon / len(message.levels)
    aims = (
        Fraction(ranks.local_rank + ranks.correction, n) for ranks in message.levels
    )
    return [PrivateQuantile(max(aim, Fraction(1, 2)), epsilon) for aim in aims]


def _search(design: Design, place: int) -> "_Search":
    message, m = _data(design), total_sites(design.kinds)
    level, epsilon = (
        design.levels[place].confidence_level,
        message.epsilon / len(message.levels),
    )
    return _Search(
        m,
        design.kinds[0].n,
        level,
        epsilon,
        message.n_cells,
        message.levels[place].gamma,
    )


@dataclass(frozen=True)
class _Search:
    """Algorithm 3: the gamma for which the mean coverage at its corrected ranks is
    smallest.
    """

    m: int
    n: int
    level: Fraction
    epsilon: Fraction
    n_cells: int
    gamma: Fraction | None
    n_missing: int = 0

    def best(self) -> tuple[BinLevel, int] | None:
        """Return ranks and votes; None if no gamma leaves a rank that a site has.

        As gamma rises, the correction falls, and the ranks are those of ever higher
        levels. So the best gamma of a pair of ranks is the largest that has it. The
        plan states the smallest gamma with the same pair and correction, which leaves
        most of the guarantee.
        """
        if self.n_missing >= self.m:
            return None
        if self.gamma is not None:
            return self._at_gamma(self.gamma)
        best: tuple[BinLevel, int] | None = None
        lowest = self._bound_mean()
        for corrected_mean, start, stop in self._candidates(lowest):
            if best is not None and corrected_mean >= lowest:
                break
            found = self._at_gamma(_steps(stop))
            if found is None:
                continue
            mean = self._corrected_mean(found)
            if best is None or mean < lowest:
                best, lowest = self._with_least_gamma(found, start, stop), mean
        return best

    def _at_gamma(self, gamma: Fraction) -> tuple[BinLevel, int] | None:
        """Return the ranks of the marginal criterion at the raised level, the local one
        corrected.
        """
        kept = 1 - gamma * (1 - self.level)
        ranks = _exact_ranks(self.m, self.n, self.level / kept, self.n_missing)
        if ranks is None or ranks[0] + self.correction(kept) >= self.n:
            return None
        return (
            BinLevel(
                gamma=gamma, local_rank=ranks[0], correction=self.correction(kept)
            ),
            ranks[1],
        )

    def _corrected_mean(self, found: tuple[BinLevel, int]) -> float:
        ranks, votes = found
        corrected = ranks.local_rank + ranks.correction
        return _exact_mean(self.m, self.n, corrected, votes)

    def _bound_mean(self) -> float:
        """Return the mean coverage at the corrected ranks of the best of a few gammas;
        1 if none of them has a plan.
        """
        plans = (self._at_gamma(gamma) for gamma in _FEW_GAMMAS)
        means = (self._corrected_mean(found) for found in plans if found is not None)
        return min(means, default=1.0)

    def _candidates(self, highest: float) -> Iterator[tuple[float, int, int]]:
        """Yield the mean at the corrected ranks, and the smallest and largest gamma in
        steps, of each pair that some gamma has; the smallest mean first.

        Pairs with a mean above ``highest`` are left out.
        """
        ranks, votes, low, high = self._chosen_pairs(highest)
        start = np.floor(self._spent(low) * _STEPS).astype(np.int64) + 1
        stop = np.floor(self._spent(high - _MARGIN) * _STEPS).astype(np.int64)
        start = np.maximum(start, 1)
        stop = np.minimum(stop, _STEPS - 1)
        possible = start <= stop
        ranks, votes = ranks[possible], votes[possible]
        start, stop = start[possible], stop[possible]
        corrected = ranks + self._corrections(stop / _STEPS * float(1 - self.level))
        means = np.ones(ranks.size)
        possible = corrected < self.n
        means[possible] = equal_moments(
            self.m, self.n, corrected[possible], votes[possible]
        )[0]
        for i in np.lexsort([votes, means])[: np.count_nonzero(possible)]:
            yield float(means[i]), int(start[i]), int(stop[i])

    def _chosen_pairs(self, highest: float) -> tuple[Ints, Ints, Floats, Floats]:
        """Return the pairs with means from the level to ``highest`` that are chosen at
        some level: ranks, votes, and the levels above and up to which they are.

        A level has the pair of the smallest mean among those that reach it. So a pair
        is chosen above all that pairs of smaller means reach.
        """
        every = np.arange(1, self.m + 1)
        first = self._first_ranks(every, float(self.level) - _MARGIN)
        after = self._first_ranks(every, highest)
        if highest >= 1:  # there may be many pairs, and few that leave room
            after = np.minimum(after, self.n - self._least_correction())
        several = np.maximum(after - first, 0)
        votes = np.repeat(every, several)
        skipped = np.repeat(np.cumsum(several) - several, several)
        ranks = np.repeat(first, several) + np.arange(votes.size) - skipped
        means, variances = equal_moments(self.m, self.n, ranks, votes)
        reach = self._reach(ranks, votes) if self.n_missing else means
        order = np.lexsort([ranks, variances, means])
        highest_before = np.maximum.accumulate(
            np.append(float(self.level), reach[order])
        )[:-1]
        order = order[chosen := reach[order] > highest_before]
        return ranks[order], votes[order], highest_before[chosen], reach[order]

    def _first_ranks(self, votes: Ints, level: float) -> Ints:
        """Return the smallest local ranks with means of a level or more; n + 1 where
        there is none.
        """
        low, high = np.zeros_like(votes), np.full_like(votes, self.n + 1)
        while (high - low > 1).any():
            middle = np.clip((low + high) // 2, 1, self.n)
            is_enough = equal_moments(self.m, self.n, middle, votes)[0] >= level
            wide = high - low > 1
            high = np.where(wide & is_enough, middle, high)
            low = np.where(wide & ~is_enough, middle, low)
        return high

    def _spent(self, levels: Floats) -> Floats:
        """Return the gammas that raise the level to these levels."""
        return (1 - float(self.level) / levels) / float(1 - self.level)

    def _with_least_gamma(
        self, found: tuple[BinLevel, int], start: int, stop: int
    ) -> tuple[BinLevel, int]:
        """Return the same ranks, correction and votes with the smallest gamma that has
        them, in steps of at most ``stop``, and about ``start`` at least.
        """

        def is_same(step: int) -> bool:
            other = self._at_gamma(_steps(step))
            if other is None:
                return False
            alike = (other[0].local_rank, other[0].correction, other[1])
            return alike == (found[0].local_rank, found[0].correction, found[1])

        guess = max(start, self._least_step(found[0].correction))
        low, high = max(1, guess - _NEAR), min(guess + _NEAR, stop)
        if is_same(low) or not is_same(high):
            low, high = 1, stop
        step = low + bisect_left(range(low, high), True, key=is_same)
        least = self._at_gamma(_steps(step))
        assert least is not None
        return least

    def _least_step(self, correction: int) -> int:
        """Return the smallest gamma with a correction, in steps, but for rounding."""
        miss = self.n_cells * math.exp(-float(self.epsilon) * correction / 2)
        if miss >= 1:
            return _STEPS
        spent = -math.expm1(self.m * math.log1p(-miss)) / float(1 - self.level)
        return math.ceil(spent * _STEPS)

    def _corrections(self, spent: Floats) -> Ints:
        """Distances below the aim that no site's cell exceeds, but for probabilities
        ``spent``.
        """
        miss = -np.expm1(np.log1p(-spent) / self.m)  # of each site
        distances = 2 / float(self.epsilon) * np.log(self.n_cells / miss)
        return np.asarray(np.ceil(distances).astype(np.int64))

    def correction(self, kept: Fraction) -> int:
        """Distance below its aim that no site's cell exceeds, with probability at least
        ``kept``.
        """
        return int(self._corrections(np.array(float(1 - kept))))

    def _least_correction(self) -> int:
        """Return a correction that none falls below."""
        return self.correction(self.level) - 1

    def _may_have_plan(self) -> bool:
        """Return whether the pairs that need the votes of all sites leave a rank, which
        have the smallest local ranks.
        """
        votes = np.array([self.m])
        first = int(self._first_ranks(votes, float(self.level) - _MARGIN)[0])
        ranks = np.arange(first, self.n - self._least_correction())
        gammas = self._spent(self._reach(ranks, self.m) - _MARGIN)
        some = (gammas >= 1 / _STEPS) & (gammas < 1)
        corrections = self._corrections(gammas[some] * float(1 - self.level))
        return bool((ranks[some] + corrections < self.n).any())

    def _reach(self, ranks: Ints, votes: ArrayLike) -> Floats:
        """Return the highest levels that these pairs reach, whichever sites are
        missing.
        """
        means = equal_moments(self.m, self.n, ranks, votes)[0]
        if not self.n_missing:
            return means
        left = self.m - self.n_missing
        return np.minimum(means, equal_moments(left, self.n, ranks, left)[0])

    def advise(self, n_levels: int) -> Advice:
        """Return the size, or the epsilon, that would suffice."""
        if self.n_missing >= self.m:
            return Advice()

        def has_plan(n: int, epsilon: Fraction) -> bool:
            other = replace(self, n=n, epsilon=epsilon)
            if self.gamma is not None:
                return other._at_gamma(self.gamma) is not None
            if not other._may_have_plan():
                return False
            # With missing sites another pair may be the one that a level has.
            return self.n_missing == 0 or other.best() is not None

        points = smallest(lambda n: has_plan(n, self.epsilon), start=1, stop=_LARGEST_N)
        step = smallest(
            lambda step: has_plan(self.n, two_digits(step) / n_levels),
            start=1,
            stop=4 * 90,
        )
        return Advice(
            n_points=points, epsilon=None if step is None else two_digits(step)
        )


def _steps(count: int) -> Fraction:
    """Return a gamma of this many steps."""
    return Fraction(count, _STEPS)


# While an epsilon that would suffice is sought, the same sites are asked again and
# again.
@lru_cache(maxsize=4096)
def _exact_ranks(
    m: int, n: int, level: Fraction, n_missing: int
) -> tuple[int, int] | None:
    goal = Goal(level, CRITERIA["marginal"](), max_missing=n_missing)
    solution = PROMISES["population"]().choose((SiteKind(count=m, n=n),), goal, 1, None)
    return (
        (solution.ballot.ranks[0][0], solution.needed) if solution.is_finite else None
    )


@lru_cache(maxsize=65_536)
def _exact_mean(m: int, n: int, local_rank: int, server_rank: int) -> float:
    return float(equal_moments(m, n, local_rank, server_rank)[0])
