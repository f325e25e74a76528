"""Audit of messages on a grid: exact and private curves, and the paper's private cells.

With noise, the threshold is the edge after the last one at which the pooled count, less
the share r_g of its known excess, is below the count K_g that the edge needs. Whatever
the scores,

    E[C] >= 1 - sum_{y=0..N} max_g P(Z_g >= K_g - y) / (N + 1),
    P(C <= c) <= max_g P(Bin(N, c) + Z_g >= K_g),

where Z_g is the noise of the first g cells less r_g times that of all cells.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fedconformal._util import Floats
from fedconformal.audit._base import (
    CONDITIONAL,
    MEAN,
    Claim,
    MessageAudit,
    NotVerifiableError,
    Verdict,
    Work,
    decide,
)
from fedconformal.audit._ranks import check_each, reach_votes
from fedconformal.audit._votes import Voters, check_mean, check_missed
from fedconformal.documents import Design, Level, MessageData, SiteKind

_BRIDGE = 16  # denominator of the shares r_g
_BEYOND = 40.0  # noise is further out than its reach with probability exp(-40)
_ERROR = 1e-12  # of probabilities of noise
_MOST_TABLE = 2**26  # numbers in a table of tails
_ROUGH = 50  # operations for an edge whose noise is bounded by its variance


def _count_points(design: Design) -> int:
    return sum(kind.count * kind.n for kind in design.kinds if kind.asked)


def _share_votes(message: Any, kind: SiteKind, count: int) -> int:
    """Return the votes of `count` scores, or parts of cases, of a site: its share of
    the unit.
    """
    return math.floor(
        (message.unit or 0)
        * (kind.share or 0)
        * count
        / (kind.n + 1)
        / (message.parts or 1)
    )


def _find_own(claim: Claim) -> Sequence[int]:
    """Return the count that each kind of sites needs at its own threshold, which open
    plans leave out.
    """
    own: Sequence[Sequence[int]] = claim.message.own
    return (
        own[claim.place]
        if own
        else [math.ceil(claim.level * (kind.n + 1)) for kind in claim.design.kinds]
    )


def _find_offsets(claim: Claim) -> Sequence[int]:
    """Return what each interior edge needs beyond the votes."""
    offsets: Sequence[Sequence[int]] = claim.message.offsets or ((),) * len(
        claim.design.levels
    )
    return offsets[claim.place] or (0,) * (claim.message.n_cells - 1)


def _find_passage(claim: Claim, counts: Sequence[int], n: int, votes: int) -> int:
    """Return the cell after the last interior edge whose count is too small."""
    message, cell = claim.message, 0
    *curve, total = accumulate(counts)
    excess = 0 if message.epsilon is None else total - n
    for g, (count, offset) in enumerate(
        zip(curve, _find_offsets(claim), strict=True), start=1
    ):
        if (
            _BRIDGE * (count - votes - offset)
            < _find_share(g, message.n_cells) * excess
        ):
            cell = g
    return cell


def _check_pooled(claim: Claim) -> Verdict:
    """Check the pooled score of this rank, or the last passage of the pooled noisy
    curve.
    """
    n, message = _count_points(claim.design), claim.message
    if message.epsilon is not None:
        bearers = len(message.bearers) or claim.n_sites
        return _check_noisy(claim, bearers, [(1, n, claim.votes)])
    if message.starts is not None:
        return _check_answers(claim)
    if claim.criterion == MEAN:
        mean = Fraction(claim.votes, (n + 1) * (message.parts or 1))
        return mean >= claim.level, f"at least {float(mean):.12f}"
    if message.parts is not None:
        missed = _bound_sum(
            n, n - Fraction(claim.votes, message.parts), 1 - claim.level
        )
        return missed <= claim.delta, f"missed with probability {missed:.12g} at most"
    pooled = (Voters(1, n, (claim.votes,), (1,)),)
    holds, missed = check_missed(pooled, 1, 0, claim.level, claim.delta, claim.work)
    return holds, f"missed with probability {missed:.12g} at most"


def _bound_sum(n: int, total: Fraction, risk: Fraction) -> float:
    """Bound the probability that n losses of this mean risk sum up to so little
    (Hoeffding and Bentkus).
    """
    mean, r = float(total / n), float(risk)
    if mean >= r:
        return 1.0
    entropy = -math.log((1 - mean) / (1 - r)) * (1 - mean) - (
        mean * math.log(mean / r) if mean else 0.0
    )
    whole = math.ceil(total)
    bentkus = (
        math.e * float(special.betainc(n - whole, whole + 1, 1 - r))
        if whole < n
        else 1.0
    )
    return min(math.exp(n * entropy), bentkus)


def _check_answers(claim: Claim) -> Verdict:
    """Check that enough answers are asked for: whatever the answers, few tests reject
    what is true.
    """
    starts = claim.message.starts
    missed = claim.votes * math.log(claim.level) - math.log(claim.delta / starts)
    return (
        missed <= _ERROR,
        f"tests from {starts} edges, each with a probability of {claim.delta / starts}",
    )


def _find_answers(claim: Claim, counts: Sequence[int]) -> int:
    """Return the lowest edge that passes its test, and all from it up to one of the
    starts.
    """
    message, last = claim.message, len(claim.message.edges) - 1
    claim.work.spend(200.0 * len(counts))
    answered = list(accumulate(reversed(counts[: last + 1])))[::-1]
    wrong = list(accumulate(reversed(counts[last + 1 :])))[::-1]
    least = float(claim.delta / message.starts) * (1 - _ERROR)
    reach: list[
        int | None
    ] = []  # of each edge, the lowest that is tested from it and passes
    for n, k in zip(answered, wrong, strict=True):
        # P(Bin(n, risk) <= k) is the chance of n - k or more right answers.
        p_value = (
            1.0 if k >= n else float(special.betainc(n - k, k + 1, float(claim.level)))
        )
        below = reach[-1] if reach else None
        reach.append(
            None if p_value > least else len(reach) if below is None else below
        )
    starts = {
        (last + 1) * i // message.starts - 1 for i in range(1, message.starts + 1)
    } - {-1}
    return min(
        (cell for i in starts if (cell := reach[i]) is not None), default=last + 1
    )


def _check_own(claim: Claim) -> Verdict:
    """Check that the largest threshold is kept, and that each site's own suffices."""
    message, rows = (
        claim.message,
        list(zip(claim.design.kinds, _find_own(claim), strict=True)),
    )
    if message.epsilon is None:
        return check_each(
            claim, [Voters(kind.count, kind.n, (own,), (1,)) for kind, own in rows]
        )
    if claim.votes < claim.n_sites:
        return False, "the largest threshold of all sites must be kept"
    return _check_noisy(claim, 1, [(kind.count, kind.n, own) for kind, own in rows])


def _check_noisy(
    claim: Claim, n_sites: int, curves: Sequence[tuple[int, int, int]]
) -> Verdict:
    """Check the bounds of noisy curves, given by how many there are, their scores and
    the count needed.
    """
    message, offsets = claim.message, _find_offsets(claim)
    key = (message.n_cells, n_sites, message.epsilon or Fraction(1))
    noise = claim.work.remember(key, lambda: CurveNoise(*key, claim.work))
    is_mean = claim.criterion == MEAN
    numbers = np.array([number for number, _, _ in curves])
    rough = [
        noise.bound_roughly(n, votes, offsets, claim.level, mean=is_mean)
        for _, n, votes in curves
    ]
    lows, highs = np.array(rough).T
    if is_mean:
        goal, low, high = claim.level, lows.min(), highs.min()
    else:
        goal, low, high = 1 - claim.delta, 1 - numbers @ highs, 1 - numbers @ lows
    decided = decide(low, high, goal)
    if decided is False:
        return False, f"at most {high:.6f}"
    try:
        if is_mean:
            mean = min(noise.bound_mean(n, votes, offsets) for _, n, votes in curves)
            margin, detail = mean - claim.level, f"at least {mean:.12f}"
        else:
            missed = sum(
                m * noise.bound_missed(n, votes, offsets, claim.level)
                for m, n, votes in curves
            )
            margin, detail = (
                claim.delta - missed,
                f"missed with probability {missed:.12g} at most",
            )
    except NotVerifiableError:
        if decided is None:
            raise
        return True, f"at least {low:.6f}"
    if abs(margin) <= _ERROR:
        raise NotVerifiableError("too close to the level for floating point")
    return margin > 0, detail


def _check_mixture(claim: Claim) -> Verdict:
    """Compare the votes with those of the whole mixture."""
    message = claim.message
    if message.epsilon is not None:
        raise NotVerifiableError("a mixture of noisy curves is unknown")
    least = Fraction(claim.votes, message.unit or 1)
    return least >= claim.level, f"at least {float(least):.12f}"


def _are_answers(message: Any, counts: Sequence[int], most: int) -> bool:
    """Return whether these can be counts of answers, then of wrong ones, of at most
    this many cases.
    """
    cells = len(message.edges)
    pairs = zip(counts[:cells], counts[cells:], strict=True)
    return (
        all(0 <= wrong <= answered for answered, wrong in pairs)
        and sum(counts[:cells]) <= most
    )


def _reach_of_noise(message: Any, cells: int) -> float:
    """Return how far the noise of this many cells moves a sum at most, but for next to
    no probability.
    """
    return (
        0.0
        if message.epsilon is None
        else 2 / float(message.epsilon) * (80 + 12 * math.sqrt(cells)) + 1
    )


class CurveAudit(MessageAudit):
    """Audit of counts in the cells of a grid."""

    checks: ClassVar = {
        ("population", MEAN): _check_pooled,
        ("population", CONDITIONAL): _check_pooled,
        ("each-site", MEAN): _check_own,
        ("each-site", CONDITIONAL): _check_own,
        ("mixture", MEAN): _check_mixture,
    }

    def answered(
        self, planned: Design, sites: Sequence[SiteKind], places: Sequence[int | None]
    ) -> MessageData:
        """Return the same message, with the counts that these sites need at their own
        thresholds.
        """
        message: Any = planned.message
        own = tuple(
            tuple(each[place] for place in places if place is not None)
            for each in message.own
        )
        copy: MessageData = message.model_copy(update={"own": own})
        return copy

    def problem(
        self, planned: Design, n: int, place: int | None, payload: Any
    ) -> str | None:
        """Check the number of counts; exact ones may be understated."""
        message: Any = planned.message
        if len(payload.counts) != message.n_counts:
            return "another number of counts"
        if message.starts is not None:
            possible = _are_answers(message, payload.counts, n)
        elif message.epsilon is None:
            possible = min(payload.counts) >= 0 and sum(payload.counts) <= n * (
                message.parts or 1
            )
        else:
            possible = abs(sum(payload.counts) - n) <= _reach_of_noise(
                message, message.n_cells
            )
        return None if possible else "counts that cannot be"

    def threshold(self, claim: Claim, payloads: Mapping[str, Any]) -> float:
        """Return the edge at which the counts are reached, by all sites together or by
        each.
        """
        design, message = claim.design, claim.message
        kinds = {name: kind for kind in design.kinds for name in kind.names}
        counts = {name: payloads[name].counts for name in kinds}
        if design.promise == "each-site":
            own = dict(zip(design.kinds, _find_own(claim), strict=True))
            cell = max(
                _find_passage(claim, counts[name], kind.n, own[kind])
                for name, kind in kinds.items()
            )
        elif design.promise == "mixture":
            curves = (
                [_share_votes(message, kind, n) for n in accumulate(counts[name])]
                for name, kind in kinds.items()
            )
            votes = [sum(column) for column in zip(*curves, strict=True)]
            cell = next(
                (i for i, total in enumerate(votes) if total >= claim.votes),
                message.n_cells - 1,
            )
        else:
            sums = [sum(column) for column in zip(*counts.values(), strict=True)]
            return self.threshold_of_sum(claim, sums)
        return float(message.edge(cell))

    def threshold_of_sum(self, claim: Claim, sums: Sequence[int]) -> float:
        """Return the edge at which the counts of all sites are reached."""
        design, message = claim.design, claim.message
        if message.starts is not None:
            cell = _find_answers(claim, sums)
        else:
            cell = _find_passage(claim, sums, _count_points(design), claim.votes)
        return float(message.edge(cell))

    def sum_problem(self, design: Design, sums: Sequence[int]) -> str | None:
        """Check the total, and that counts are at least 0, up to noise."""
        message: Any = design.message
        whole, total = _count_points(design) * (message.parts or 1), sum(sums)
        if design.promise != "population":
            return "a sum that could be taken apart"
        if message.starts is not None:
            return (
                None if _are_answers(message, sums, whole) else "counts that cannot be"
            )
        reach = _reach_of_noise(
            message, message.n_cells * (len(message.bearers) or design.n_sites or 0)
        )
        possible = (
            -reach <= min(sums)
            and max(sums) <= whole + reach
            and abs(total - whole) <= reach
        )
        return (
            None
            if possible
            else f"counts that cannot be, with a total of {total:,} for {whole:,}"
        )

    def most_votes(self, claim: Claim) -> int:
        """Return the number of scores, of sites, or of the votes of a mixture."""
        by_promise = {"each-site": claim.n_sites, "mixture": claim.message.unit or 0}
        return by_promise.get(
            claim.design.promise,
            _count_points(claim.design) * (claim.message.parts or 1),
        )

    def finite_votes(self, claim: Claim) -> int | None:
        """Return the votes of all scores; with noise any number can be reached."""
        message, kinds = claim.message, claim.design.kinds
        if message.epsilon is not None:
            return None
        if claim.design.promise == "each-site":
            own = zip(kinds, _find_own(claim), strict=True)
            return sum(kind.count for kind, votes in own if votes <= kind.n)
        if claim.design.promise == "mixture":
            parts = message.parts or 1
            return sum(
                kind.count * _share_votes(message, kind, kind.n * parts)
                for kind in kinds
            )
        return self.most_votes(claim)

    def needed_votes(self, claim: Claim, planned: Level) -> int | None:
        """Return all sites, the share of a mixture, or the rank of exact counts on
        average.
        """
        promise, message = claim.design.promise, claim.message
        if promise == "each-site":
            return claim.n_sites
        if promise == "mixture":
            return math.ceil(claim.level * (message.unit or 0))
        exact = (
            message.epsilon is None
            and claim.criterion == MEAN
            and message.starts is None
        )
        cases = (_count_points(claim.design) + 1) * (message.parts or 1)
        return math.ceil(claim.level * cases) if exact else None

    def check(self, claim: Claim) -> Verdict:
        """Recompute the coverage, of counts that no faulty site can claim."""
        message, promise = claim.message, claim.design.promise
        if claim.design.max_faulty:
            return False, "a faulty site can claim every count"
        if message.parts is not None and (
            message.epsilon is not None or promise == "each-site"
        ):
            raise NotVerifiableError(
                "sums of losses with noise, or by site, are unknown"
            )
        if message.starts is not None and (
            promise != "population" or claim.criterion == MEAN
        ):
            raise NotVerifiableError(
                "tests of answers are known with certainty, for one population"
            )
        if (message.own and promise != "each-site") or (message.unit is None) == (
            promise == "mixture"
        ):
            return False, "own counts and units do not fit the promise"
        return super().check(claim)


# -- noise -----------------------------------------------------------------------------


def _find_share(g: int, cells: int) -> int:
    """Return the share of all noise that is subtracted after g cells, about g / cells,
    in units of 1/16.
    """
    if 2 * g > cells:
        return _BRIDGE - _find_share(cells - g, cells)
    return math.floor(Fraction(_BRIDGE * g, cells) + Fraction(1, 2))


class CurveNoise:
    """Noise of a pooled curve: every site adds discrete Laplace noise of scale 2 /
    epsilon to each cell.

    Parameters
    ----------
    cells : int
        Number of cells.
    n_sites : int
        Number of sites.
    epsilon : Fraction
        Privacy loss of each site.
    work : Work
        Counter of operations.
    """

    def __init__(self, cells: int, n_sites: int, epsilon: Fraction, work: Work) -> None:
        self.cells, self.n_sites, self.rate, self.work = (
            cells,
            n_sites,
            float(epsilon) / 2,
            work,
        )
        self._tails: dict[int, tuple[int, Floats]] = {}

    def tail(self, g: int) -> tuple[int, Floats]:
        """Return P(Z_g >= x) for whole numbers x from -R to R, and R, beyond which lies
        next to nothing.
        """
        g = min(g, self.cells - g)  # by symmetry
        if g not in self._tails:
            self._tails[g] = self._invert(g)
        return self._tails[g]

    def _invert(self, g: int) -> tuple[int, Floats]:
        """Invert the characteristic function of unit * Z_g, which is a whole number.

        One variable has the characteristic function 1 / (1 + k sin(t / 2)^2), k = 1 /
        sinh(rate / 2)^2.
        """
        share = Fraction(_find_share(g, self.cells), _BRIDGE)
        unit, part = share.denominator, share.numerator
        before, after = g * self.n_sites, (self.cells - g) * self.n_sites
        k, reach = (
            math.sinh(self.rate / 2) ** -2,
            self._reach(float(share), before, after),
        )
        size = 2 * unit * reach
        self.work.spend(100.0 * size)
        if sum(len(tail) for _, tail in self._tails.values()) + 4 * size > _MOST_TABLE:
            raise NotVerifiableError("too large")
        turns = np.arange(size // 2 + 1)
        one, all_ = (
            np.sin(np.pi / size * (step * turns % size)) ** 2
            for step in (unit - part, part)
        )
        phi = np.exp(-before * np.log1p(k * one) - after * np.log1p(k * all_))
        masses = np.roll(np.fft.irfft(phi, size), size // 2)
        above = np.cumsum(masses[::-1])[::-1][::unit]
        return reach, np.append(np.clip(above, 0.0, 1.0), 0.0)

    def _reach(self, share: float, before: int, after: int) -> int:
        """Bound the noise by Chernoff's inequality."""
        k = math.sinh(self.rate / 2) ** -2
        s = np.geomspace(1e-4, 0.95, 100) * self.rate / max(share, 1 - share)
        growth = -before * np.log1p(-k * np.sinh((1 - share) * s / 2) ** 2)
        growth -= after * np.log1p(-k * np.sinh(share * s / 2) ** 2)
        return 2 + math.ceil(float(np.min((growth + _BEYOND) / s)))

    def _edges(
        self, votes: int, offsets: Sequence[int]
    ) -> Iterator[tuple[int, Floats, int]]:
        """Yield reach, tails and count needed of different interior edges."""
        keys = {
            (min(g, self.cells - g), offset): None
            for g, offset in enumerate(offsets, start=1)
        }
        for g, offset in keys:
            yield (*self.tail(g), votes + offset)

    def bound_mean(self, n: int, votes: int, offsets: Sequence[int]) -> float:
        """Return the lower bound of the mean coverage.

        Parameters
        ----------
        n : int
            Number of scores.
        votes : int
            Count that edges need.
        offsets : sequence of int
            What edges need beyond.

        Returns
        -------
        float
        """
        edges = list(self._edges(votes, offsets))
        low = min(needed - reach for reach, _, needed in edges)
        high = max(needed + reach for reach, _, needed in edges)
        first, last = max(low, 0), min(high, n)
        self.work.spend(50.0 * len(edges) * max(last - first + 1, 1))
        if last - first > _MOST_TABLE // 8:
            raise NotVerifiableError("too large")
        missed = float(
            max(n - high, 0)
        )  # at larger counts some edge passes almost surely
        if first <= last:
            y = np.arange(first, last + 1)
            worst = np.zeros(y.size)
            for reach, tail, needed in edges:
                np.maximum(
                    worst, tail[np.clip(needed - y + reach, 0, 2 * reach)], out=worst
                )
            missed += math.fsum(worst)
        return 1.0 - missed / (n + 1)

    def bound_missed(
        self, n: int, votes: int, offsets: Sequence[int], level: Fraction
    ) -> float:
        """Return the upper bound of the probability that the coverage is at most a
        level.

        Parameters
        ----------
        n, votes, offsets
            As for `bound_mean`.
        level : Fraction
            The confidence level.

        Returns
        -------
        float
        """
        c, worst = float(level), 0.0
        spread = 10 * math.sqrt(n * c * (1 - c)) + 60
        first, last = (
            max(0, math.floor(n * c - spread)),
            min(n, math.ceil(n * c + spread)),
        )
        self.work.spend(5000.0 * (last - first))
        if last - first > _MOST_TABLE // 8:
            raise NotVerifiableError("too large")
        y = np.arange(first, last + 1)
        beyond = np.ones(y.size + 1)  # P(Bin >= y)
        beyond[1:-1], beyond[-1] = special.betainc(y[1:], n - y[1:] + 1.0, c), 0.0
        masses = -np.diff(beyond)
        for reach, tail, needed in self._edges(votes, offsets):
            self.work.spend(50.0 * y.size)
            worst = max(
                worst, float(masses @ tail[np.clip(needed - y + reach, 0, 2 * reach)])
            )
        return worst

    @cached_property
    def _variances(self) -> Floats:
        """Variances of the noise at the interior edges."""
        g, one = np.arange(1, self.cells), math.sinh(self.rate / 2) ** -2 / 2
        share = np.array([_find_share(int(edge), self.cells) for edge in g]) / _BRIDGE
        return np.asarray(
            one * self.n_sites * (g * (1 - share) ** 2 + (self.cells - g) * share**2)
        )

    def bound_roughly(
        self, n: int, votes: int, offsets: Sequence[int], level: Fraction, *, mean: bool
    ) -> tuple[float, float]:
        """Return bounds of `bound_mean`, or of `bound_missed`, from the variances of
        the noise alone.

        Z_g is symmetric with standard deviation s_g. So P(Z_g >= d) <= min(1/2, s_g^2 /
        (2 d^2)) for d > 0, which adds up to s_g at most, and sum_{i >= 0} P(Z_g < -i)
        <= E|Z_g| / 2 + 1 <= s_g / 2 + 1; no term exceeds 1/2. Hence the bound of the
        mean lies between (min K_g - max s_g) / (N + 1) and the least of (K_g + min(s_g
        / 2 + 1, (N + 1 - K_g) / 2)) / (N + 1) over edges, where K_g is N + 1 at most.
        The probability to miss is bounded by Cantelli's inequality for Bin(N, level) +
        Z_g.
        """
        self.work.spare.spend(_ROUGH * self.cells)
        variance = self._variances
        needed, deviation = votes + np.array(offsets, dtype=float), np.sqrt(variance)
        if mean:
            short = np.maximum(n + 1 - needed, 0.0)
            low, high = (
                min(needed.min(), n + 1) - deviation.max(),
                n + 1 - np.maximum(short - deviation / 2 - 1, short / 2).max(),
            )
            return low / (n + 1), high / (n + 1)
        variance = variance + n * float(level * (1 - level))
        distance = needed - n * float(level)
        tail = variance / (variance + distance**2)
        low = np.where(distance < 0, 1 - tail, 0.0).max()
        return float(low), float(np.where(distance > 0, tail, 1.0).max())


# -- the paper's private cells ---------------------------------------------------------


def _check_cells(claim: Claim) -> Verdict:
    """Check the ranks without noise at the raised level, and the correction for the
    noise.
    """
    message, sizes = claim.message, {kind.n for kind in claim.design.kinds}
    if (
        len(sizes) > 1
        or claim.design.max_faulty
        or claim.design.criterion != "marginal"
    ):
        raise NotVerifiableError(
            "the paper covers equal sites, none of them faulty, and the marginal"
            " criterion"
        )
    ranks, n = message.levels[claim.place], min(sizes)
    spent = ranks.gamma * (1 - claim.level)
    miss = -math.expm1(math.log1p(-float(spent)) / claim.n_sites)
    needed = (
        2
        * len(message.levels)
        / float(message.epsilon)
        * math.log(message.n_cells / miss)
    )
    if ranks.correction < needed - 1e-9 or ranks.local_rank + ranks.correction > n:
        return (
            False,
            f"the noise needs a correction of {needed:.6g} within {n:,} scores",
        )
    sites = (Voters(claim.n_sites, n, (ranks.local_rank,), (1,)),)
    holds, mean = check_mean(
        sites, claim.votes, 0, claim.level / (1 - spent), claim.work
    )
    return holds, f"at least {mean * float(1 - spent):.12f}"


class BinAudit(MessageAudit):
    """Audit of cells drawn by the exponential mechanism (paper, Algorithms 2 and 3)."""

    checks: ClassVar = {("population", MEAN): _check_cells}

    def problem(
        self, planned: Design, n: int, place: int | None, payload: Any
    ) -> str | None:
        """Check that there is a cell for each level."""
        if len(payload.cells) != len(planned.levels):
            return "another number of cells"
        message: Any = planned.message
        return (
            None
            if max(payload.cells) < message.n_cells
            else "a cell that is not of the grid"
        )

    def threshold(self, claim: Claim, payloads: Mapping[str, Any]) -> float:
        """Return the edge of the smallest cell with enough votes."""
        ballots = (
            (claim.message.edge(payload.cells[claim.place]), 1)
            for payload in payloads.values()
        )
        return reach_votes(ballots, claim.votes)

    def threshold_of_sum(self, claim: Claim, sums: Sequence[int]) -> float:
        """Return the edge of the smallest cell with enough votes, of the counts of this
        level.
        """
        cells = claim.message.n_cells
        own = sums[claim.place * cells : (claim.place + 1) * cells]
        return reach_votes(
            ((claim.message.edge(i), times) for i, times in enumerate(own)), claim.votes
        )

    def sum_problem(self, design: Design, sums: Sequence[int]) -> str | None:
        """Check that every site has one cell at each level."""
        message: Any = design.message
        rows = [
            sums[i : i + message.n_cells] for i in range(0, len(sums), message.n_cells)
        ]
        fits = min(sums) >= 0 and all(sum(row) == design.n_sites for row in rows)
        return None if fits else "not one cell of each site"

    def most_votes(self, claim: Claim) -> int:
        """Return the number of sites."""
        return claim.n_sites
