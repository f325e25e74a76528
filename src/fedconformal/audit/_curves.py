"""Audit of messages on a grid: exact and private curves, and the paper's private cells.

With noise, the threshold is the edge after the last one at which the pooled count, less the share r_g of its known
excess, is below the count K_g that the edge needs. Whatever the scores, E[C] >= 1 - sum_{y=0..N} H(y) / (N + 1)
with H(y) = max_g P(Z_g >= K_g - y), and P(C <= c) <= max_g P(Bin(N, c) + Z_g >= K_g), where Z_g is the noise of the
first g cells less r_g times that of all cells.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from scipy import special

from fedconformal._typing import Floats
from fedconformal.audit._finding import NotVerifiableError, Work
from fedconformal.audit._messages import CONDITIONAL, MEAN, Check, Claim, MessageAudit, Verdict, place_of
from fedconformal.audit._ranks import check_each, reach_votes
from fedconformal.audit._votes import Voters, check_mean, check_missed
from fedconformal.documents import (
    Bin,
    BinPayload,
    Curve,
    CurvePayload,
    Design,
    Level,
    MessageData,
    Payload,
    SiteKind,
)

_BRIDGE = 16  # denominator of the shares r_g
_BEYOND = 40.0  # noise is further out than its reach with probability exp(-40)
_ERROR = 1e-12  # of probabilities of noise
_MOST_TABLE = 2**26  # numbers in a table of tails


class CurveAudit(MessageAudit):
    """Audit of counts in the cells of a grid."""

    @property
    def promises(self) -> Mapping[tuple[str, str], Check]:
        """Checks of the coverage."""
        return {
            ("population", MEAN): self._check_pooled,
            ("population", CONDITIONAL): self._check_pooled,
            ("each-site", MEAN): self._check_each,
            ("each-site", CONDITIONAL): self._check_each,
            ("mixture", MEAN): self._check_mixture,
        }

    def answered(
        self, planned: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> MessageData:
        """Return the same message, with the counts that these sites need at their own thresholds."""
        message = _curve(planned)
        own = tuple(tuple(each[place] for place in places if place is not None) for each in message.own)
        return message.model_copy(update={"own": own})

    def problem(self, planned: Design, n: int, site: str, payload: Payload) -> str | None:
        """Check the number of counts; exact ones may be understated."""
        place_of(planned, n, site)
        message = _curve(planned)
        if not isinstance(payload, CurvePayload) or len(payload.counts) != message.n_cells:
            return "another number of counts"
        if message.epsilon is None and (min(payload.counts) < 0 or sum(payload.counts) > n):
            return "counts that cannot be"
        return None

    def threshold(self, claim: Claim, payloads: Mapping[str, Payload]) -> float:
        """Return the edge at which the counts are reached, by all sites together or by each."""
        design, message = claim.design, _curve(claim.design)
        counts = {name: _counts(payloads[name]) for kind in design.kinds for name in kind.names}
        if design.promise == "mixture":
            sums = [0] * message.n_cells
            for kind in design.kinds:
                for name in kind.names:
                    curve = accumulate(counts[name])
                    sums = [a + _mixture_votes(message, kind, b) for a, b in zip(sums, curve, strict=True)]
            reached = (cell for cell, votes in enumerate(sums) if votes >= claim.votes)
            return message.edge(next(reached, message.n_cells - 1))
        if design.promise == "each-site":
            cells = [
                self._last_passage(claim, counts[name], kind.n, own)
                for kind, own in zip(design.kinds, self._own(claim), strict=True)
                for name in kind.names
            ]
            return message.edge(max(cells, default=message.n_cells - 1))
        pooled = [sum(column) for column in zip(*counts.values(), strict=True)]
        return message.edge(self._last_passage(claim, pooled, _n_points(design), claim.votes))

    def _last_passage(self, claim: Claim, counts: Sequence[int], n: int, votes: int) -> int:
        """Return the cell after the last interior edge whose count is too small."""
        message = _curve(claim.design)
        *curve, total = accumulate(counts)
        excess = 0 if message.epsilon is None else total - n
        cell = 0
        for g, (count, offset) in enumerate(zip(curve, self._offsets(claim), strict=True)):
            if _BRIDGE * (count - votes - offset) < _bridge(g + 1, message.n_cells) * excess:
                cell = g + 1
        return cell

    def _offsets(self, claim: Claim) -> Sequence[int]:
        message = _curve(claim.design)
        given = message.offsets[claim.place] if message.offsets else ()
        return given or (0,) * (message.n_cells - 1)

    def _own(self, claim: Claim) -> Sequence[int]:
        """Return the count that each kind of sites needs at its own threshold."""
        message = _curve(claim.design)
        if message.own:
            return message.own[claim.place]
        return [math.ceil(claim.level * (kind.n + 1)) for kind in claim.design.kinds]

    def most_votes(self, claim: Claim) -> int:
        """Return the number of scores, of sites, or of the votes of a mixture."""
        if claim.design.promise == "each-site":
            return claim.n_sites
        if claim.design.promise == "mixture":
            return _curve(claim.design).unit or 0
        return _n_points(claim.design)

    def finite_votes(self, claim: Claim) -> int | None:
        """Return the votes of all scores; with noise any number can be reached."""
        message, kinds = _curve(claim.design), claim.design.kinds
        if message.epsilon is not None:
            return None
        if claim.design.promise == "each-site":
            own = zip(kinds, self._own(claim), strict=True)
            return sum(kind.count for kind, votes in own if votes <= kind.n)
        if claim.design.promise == "mixture":
            return sum(kind.count * _mixture_votes(message, kind, kind.n) for kind in kinds)
        return _n_points(claim.design)

    def needed_votes(self, claim: Claim, planned: Level) -> int | None:
        """Return what the promise needs of exact counts."""
        promise, message = claim.design.promise, _curve(claim.design)
        if promise == "each-site":
            return claim.n_sites
        if promise == "mixture" and message.unit is not None:
            return math.ceil(claim.level * message.unit)
        exact = message.epsilon is None and claim.criterion == MEAN
        return math.ceil(claim.level * (_n_points(claim.design) + 1)) if exact else None

    def check(self, claim: Claim) -> Verdict:
        """Recompute the claim; one faulty site could claim every count."""
        message = _curve(claim.design)
        if claim.design.max_faulty:
            return Verdict(False, "a faulty site can claim every count")
        if bool(message.own) > (claim.design.promise == "each-site"):
            return Verdict(False, "own counts belong to a promise to each site")
        if (message.unit is not None) != (claim.design.promise == "mixture"):
            return Verdict(False, "a unit belongs to a mixture")
        return super().check(claim)

    def _check_pooled(self, claim: Claim) -> Verdict:
        n, epsilon = _n_points(claim.design), _curve(claim.design).epsilon
        if epsilon is None:
            pooled = (Voters(1, n, (min(claim.votes, n + 1),), (1,)),)
            if claim.criterion == MEAN:
                mean = Fraction(claim.votes, n + 1)
                return Verdict(mean >= claim.level, f"at least {float(mean):.12f}")
            holds, missed = check_missed(pooled, 1, 0, claim.level, claim.delta, claim.work)
            return Verdict(holds, f"missed with probability {missed:.12g} at most")
        noise = CurveNoise(_curve(claim.design).n_cells, claim.n_sites, epsilon, claim.work)
        if claim.criterion == MEAN:
            return _at_least(noise.mean(n, claim.votes, self._offsets(claim)), claim.level)
        missed = noise.missed(n, claim.votes, self._offsets(claim), claim.level)
        return _at_most(missed, claim.delta)

    def _check_each(self, claim: Claim) -> Verdict:
        """Check that the largest threshold is kept, and that each site's own suffices."""
        message, kinds, own = _curve(claim.design), claim.design.kinds, self._own(claim)
        if claim.votes < claim.n_sites:
            return Verdict(False, "the largest threshold must be kept")
        if message.epsilon is None:
            rows = zip(kinds, own, strict=True)
            return check_each(claim, [Voters(kind.count, kind.n, (votes,), (1,)) for kind, votes in rows])
        noise, offsets = CurveNoise(message.n_cells, 1, message.epsilon, claim.work), self._offsets(claim)
        if claim.criterion == MEAN:
            means = [noise.mean(kind.n, votes, offsets) for kind, votes in zip(kinds, own, strict=True)]
            return _at_least(min(means), claim.level)
        missed = sum(
            kind.count * noise.missed(kind.n, votes, offsets, claim.level)
            for kind, votes in zip(kinds, own, strict=True)
        )
        return _at_most(missed, claim.delta)

    def _check_mixture(self, claim: Claim) -> Verdict:
        message = _curve(claim.design)
        if message.epsilon is not None:
            raise NotVerifiableError("unknown promise 'mixture' with noise")
        least = Fraction(claim.votes, message.unit or 1)
        return Verdict(least >= claim.level, f"at least {float(least):.12f}")


def _curve(design: Design) -> Curve:
    assert isinstance(design.message, Curve)
    return design.message


def _counts(payload: Payload) -> tuple[int, ...]:
    assert isinstance(payload, CurvePayload)
    return payload.counts


def _n_points(design: Design) -> int:
    return sum(kind.count * kind.n for kind in design.kinds if kind.asked)


def _mixture_votes(message: Curve, kind: SiteKind, count: int) -> int:
    """Return the votes of so many scores of a site: its share of the unit, rounded down."""
    return math.floor((message.unit or 0) * (kind.share or 0) * count / (kind.n + 1))


def _at_least(mean: float, level: Fraction) -> Verdict:
    if abs(mean - level) <= _ERROR:
        raise NotVerifiableError("too close to the level for floating point")
    return Verdict(mean > level, f"at least {mean:.12f}")


def _at_most(missed: float, delta: Fraction) -> Verdict:
    if abs(missed - delta) <= _ERROR:
        raise NotVerifiableError("too close to delta for floating point")
    return Verdict(missed < delta, f"missed with probability {missed:.12g} at most")


# -- noise -------------------------------------------------------------------------------------------------


def _bridge(g: int, cells: int) -> int:
    """Return the share of all noise that the edge after g cells subtracts, in units of 1/16: about g / cells."""
    if 2 * g > cells:
        return _BRIDGE - _bridge(cells - g, cells)
    return math.floor(Fraction(_BRIDGE * g, cells) + Fraction(1, 2))


class CurveNoise:
    """Noise of a pooled curve: every site adds discrete Laplace noise of scale 2 / epsilon to each cell.

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
        self.cells, self.n_sites, self.rate, self.work = cells, n_sites, float(epsilon) / 2, work
        self._tails: dict[int, tuple[int, Floats]] = {}

    def tail(self, g: int) -> tuple[int, Floats]:
        """Return P(Z_g >= x) for whole numbers x from -R to R, and R, beyond which lies next to nothing."""
        g = min(g, self.cells - g)  # by symmetry
        if g not in self._tails:
            self._tails[g] = self._invert(g)
        return self._tails[g]

    def _invert(self, g: int) -> tuple[int, Floats]:
        """Invert the characteristic function of unit * Z_g, which is a whole number.

        One variable has the characteristic function 1 / (1 + k sin(t / 2)^2), k = 1 / sinh(rate / 2)^2.
        """
        share = Fraction(_bridge(g, self.cells), _BRIDGE)
        unit, part = share.denominator, share.numerator
        before, after = g * self.n_sites, (self.cells - g) * self.n_sites
        k, reach = math.sinh(self.rate / 2) ** -2, self._reach(float(share), before, after)
        size = 2 * unit * reach
        self.work.spend(100.0 * size)
        if sum(len(tail) for _, tail in self._tails.values()) + 4 * size > _MOST_TABLE:
            raise NotVerifiableError("too large")
        turns = np.arange(size // 2 + 1)
        one, all_ = (np.sin(np.pi / size * (step * turns % size)) ** 2 for step in (unit - part, part))
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

    def _edges(self, votes: int, offsets: Sequence[int]) -> Iterator[tuple[int, Floats, int]]:
        """Yield reach, tails and count needed of different interior edges."""
        keys = {(min(g, self.cells - g), offset): None for g, offset in enumerate(offsets, start=1)}
        for g, offset in keys:
            yield (*self.tail(g), votes + offset)

    def mean(self, n: int, votes: int, offsets: Sequence[int]) -> float:
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
        self.work.spend(10.0 * len(edges) * max(last - first + 1, 1))
        if last - first > _MOST_TABLE // 8:
            raise NotVerifiableError("too large")
        missed = float(max(n - high, 0))  # at larger counts some edge passes almost surely
        if first <= last:
            y = np.arange(first, last + 1)
            worst = np.zeros(y.size)
            for reach, tail, needed in edges:
                np.maximum(worst, tail[np.clip(needed - y + reach, 0, 2 * reach)], out=worst)
            missed += math.fsum(worst)
        return 1.0 - missed / (n + 1)

    def missed(self, n: int, votes: int, offsets: Sequence[int], level: Fraction) -> float:
        """Return the upper bound of the probability that the coverage is at most a level.

        Parameters
        ----------
        n, votes, offsets
            As for `mean`.
        level : Fraction
            The confidence level.

        Returns
        -------
        float
        """
        c, worst = float(level), 0.0
        spread = 10 * math.sqrt(n * c * (1 - c)) + 60
        first, last = max(0, math.floor(n * c - spread)), min(n, math.ceil(n * c + spread))
        self.work.spend(100.0 * (last - first))
        if last - first > _MOST_TABLE // 8:
            raise NotVerifiableError("too large")
        y = np.arange(first, last + 1)
        beyond = np.ones(y.size + 1)  # P(Bin >= y)
        beyond[1:-1], beyond[-1] = special.betainc(y[1:], n - y[1:] + 1.0, c), 0.0
        masses = -np.diff(beyond)
        for reach, tail, needed in self._edges(votes, offsets):
            self.work.spend(10.0 * y.size)
            worst = max(worst, float(masses @ tail[np.clip(needed - y + reach, 0, 2 * reach)]))
        return worst


# -- the paper's private cells -----------------------------------------------------------------------------


class BinAudit(MessageAudit):
    """Audit of cells drawn by the exponential mechanism (paper, Algorithms 2 and 3)."""

    @property
    def promises(self) -> Mapping[tuple[str, str], Check]:
        """Checks of the coverage."""
        return {("population", MEAN): self._check_mean}

    def answered(
        self, planned: Design, sites: tuple[SiteKind, ...], places: Sequence[int | None]
    ) -> MessageData:
        """Return the same message."""
        return planned.message

    def problem(self, planned: Design, n: int, site: str, payload: Payload) -> str | None:
        """Check that there is a cell for each level."""
        place_of(planned, n, site)
        if not isinstance(payload, BinPayload) or len(payload.cells) != len(planned.levels):
            return "another number of cells"
        return None if max(payload.cells) < _bin(planned).n_cells else "a cell that is not of the grid"

    def threshold(self, claim: Claim, payloads: Mapping[str, Payload]) -> float:
        """Return the edge of the smallest cell that is reached."""
        ballots = []
        for payload in payloads.values():
            assert isinstance(payload, BinPayload)
            ballots.append((_bin(claim.design).edge(payload.cells[claim.place]), 1))
        return reach_votes(ballots, claim.votes)

    def most_votes(self, claim: Claim) -> int:
        """Return the number of sites."""
        return claim.n_sites

    def _check_mean(self, claim: Claim) -> Verdict:
        """Check the ranks without noise at the raised level, and the correction for the noise."""
        message, sizes = _bin(claim.design), {kind.n for kind in claim.design.kinds}
        ranks, alpha = message.levels[claim.place], 1 - claim.level
        if len(sizes) > 1 or claim.design.max_faulty or claim.design.criterion != "marginal":
            raise NotVerifiableError("the paper's analysis is for equal sites, the marginal criterion and no faults")
        kept, n = 1 - ranks.gamma * alpha, min(sizes)
        if ranks.local_rank + ranks.correction > n:
            return Verdict(False, "the corrected rank is above the number of scores")
        miss = -math.expm1(math.log1p(-float(ranks.gamma * alpha)) / claim.n_sites)
        epsilon = float(message.epsilon) / len(message.levels)
        if ranks.correction < 2 / epsilon * math.log(message.n_cells / miss) - 1e-9:
            return Verdict(False, f"the noise needs a correction above {ranks.correction:,}")
        sites = (Voters(claim.n_sites, n, (ranks.local_rank,), (1,)),)
        holds, mean = check_mean(sites, claim.votes, 0, claim.level / kept, claim.work)
        return Verdict(holds, f"at least {mean * float(kept):.12f}")


def _bin(design: Design) -> Bin:
    assert isinstance(design.message, Bin)
    return design.message
