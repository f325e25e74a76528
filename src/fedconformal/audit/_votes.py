"""Distribution of the coverage when sites vote with ranked scores, computed from its definition.

The threshold is the smallest reported number at which the votes of all numbers up to it reach those needed, so
P(coverage <= c) = P(votes of the numbers below the c-quantile >= votes needed). A site's number of rank l lies
below with probability I_c(l, n - l + 1). Votes add up over sites: their distribution is the Fourier inverse of
the product of the sites' characteristic functions. The mean coverage is an integral by Gauss' rule on panels
that are halved until they agree. Faulty sites cast all their votes; which sites these are is taken at its worst
for each coverage. What is too close to the level for floating point is counted in whole numbers.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints
from fedconformal.audit._finding import NotVerifiableError, Work

MEAN_ERROR = 2e-13
"""Largest error of a mean coverage in floating point."""

_TAIL_ERROR = 1e-10  # of a probability, relative
_NOISE = 1e-14  # of a probability, absolute
_MOST_CHOICES = 1000  # of faulty sites, up to which all are tried
_EXPONENT = 37.0  # votes stray further than their reach with probability exp(-37)
_PANEL_ERROR = 1e-15
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_AT_ONCE = 2**19  # complex numbers
_LONGEST = 2**22  # votes
_BETA, _LOG, _CALL = 100, 60, 50_000  # operations of an incomplete beta, of a complex logarithm, of any step
_MOST_COUNTING = 10**9
_TOO_CLOSE = "too close to the level for floating point, and too large for whole numbers"


class Voters(NamedTuple):
    """Sites that are alike, and the ranks and votes of the numbers that each of them sends."""

    count: int
    n: int
    ranks: tuple[int, ...]
    votes: tuple[int, ...]

    @property
    def total(self) -> int:
        """Votes of one site."""
        return sum(self.votes)

    @property
    def finite(self) -> "Voters":
        """The same without ranks above n, which mean +inf."""
        pairs = [pair for pair in zip(self.ranks, self.votes, strict=True) if pair[0] <= self.n]
        return Voters(self.count, self.n, tuple(rank for rank, _ in pairs), tuple(vote for _, vote in pairs))


def largest_votes(sites: Sequence[Voters], count: int) -> int:
    """Return the most votes that this many sites have together."""
    found = 0
    for site in sorted(sites, key=lambda site: -site.total):
        out = min(count, site.count)
        found, count = found + out * site.total, count - out
    return found


def check_mean(
    sites: Sequence[Voters], needed: int, max_faulty: int, level: Fraction, work: Work
) -> tuple[bool, float]:
    """Check that the mean coverage is at least a level.

    Parameters
    ----------
    sites : sequence of Voters
        The sites that answered.
    needed : int
        Votes that the threshold needs.
    max_faulty : int
        Number of sites that may send anything.
    level : Fraction
        The confidence level.
    work : Work
        Counter of operations.

    Returns
    -------
    holds : bool
    mean : float
        Mean coverage if faulty sites do their worst.

    Raises
    ------
    NotVerifiableError
        If the sites are too many or too large.
    """
    law = VoteLaw.of(sites, needed, max_faulty, work)
    mean: Fraction | float | None = law.simple_mean()
    if mean is None:
        mean = law.mean()
        if abs(mean - level) <= MEAN_ERROR:
            mean = law.count_mean()
    return mean >= level, float(mean)


def check_missed(
    sites: Sequence[Voters], needed: int, max_faulty: int, level: Fraction, delta: Fraction, work: Work
) -> tuple[bool, float]:
    """Check that the coverage is at most a level with a probability of at most delta.

    Parameters
    ----------
    sites, needed, max_faulty, level, work
        As for `check_mean`.
    delta : Fraction
        The largest probability allowed.

    Returns
    -------
    holds : bool
    missed : float
        The probability if faulty sites do their worst.

    Raises
    ------
    NotVerifiableError
        If the sites are too many or too large.
    """
    law = VoteLaw.of(sites, needed, max_faulty, work)
    missed: Fraction | float = law.missed(float(level))
    error = _TAIL_ERROR * delta if law.is_precise else _TAIL_ERROR * delta + Fraction(_NOISE)
    if abs(missed - delta) <= error:
        missed = law.count_missed(level)
    return missed <= delta, float(missed)


@dataclass(frozen=True, eq=False)
class VoteLaw:
    """Distribution of the coverage for certain sites and votes.

    Parameters
    ----------
    sites : tuple of Voters
        Different kinds of sites, with finite numbers.
    choices : tuple of (counts, needed)
        For each choice of faulty sites, the number of honest ones of each kind and the votes that these must
        reach.
    left_out : int
        Number of other faulty sites, of one vote each: at each coverage those least likely to lie below it.
    work : Work
        Counter of operations.
    """

    sites: tuple[Voters, ...]
    choices: tuple[tuple[tuple[int, ...], int], ...]
    left_out: int
    work: Work

    @classmethod
    def of(cls, sites: Sequence[Voters], needed: int, max_faulty: int, work: Work) -> "VoteLaw":
        """Put alike sites together, count votes in their largest unit, and enumerate faulty sites."""
        alike = Counter[tuple[int, tuple[int, ...], tuple[int, ...]]]()
        for site in sites:
            alike[site[1:]] += site.count if site.ranks else 0
        kinds = [Voters(count, *kind) for kind, count in alike.items() if count]
        unit = math.gcd(*(vote for kind in kinds for vote in kind.votes)) or 1
        kinds = [kind._replace(votes=tuple(vote // unit for vote in kind.votes)) for kind in kinds]
        needed, n_sites = -(-needed // unit), sum(kind.count for kind in kinds)
        finite = [kind.finite for kind in kinds]
        counts, max_faulty = tuple(kind.count for kind in kinds), min(max_faulty, n_sites)
        left_out = 0
        if all(kind.votes == (1,) for kind in kinds):
            infinite = sum(kind.count for kind, own in zip(kinds, finite, strict=True) if not own.ranks)
            choices, left_out = [(counts, needed - max_faulty)], max(max_faulty - infinite, 0)
        else:
            choices = _choose_faulty(kinds, needed, max_faulty)
        there = [i for i, kind in enumerate(finite) if kind.ranks]
        if len(there) == 1 and left_out:
            choices = [(tuple(count - left_out for count in counts), needed - max_faulty)]
            left_out = 0
        kept = {
            (tuple(honest[i] for i in there), votes): None
            for honest, votes in choices
            if votes <= sum(honest[i] * finite[i].total for i in there)
        }
        return cls(tuple(finite[i] for i in there), tuple(kept), left_out, work)

    @property
    def is_certain(self) -> bool:
        """True if the coverage is 1, or 0 for some choice of faulty sites."""
        return not self.choices or self._least_needed <= 0

    @cached_property
    def _least_needed(self) -> int:
        return min(needed for _, needed in self.choices)

    @cached_property
    def _numbers(self) -> int:
        return sum(len(site.ranks) for site in self.sites)

    @property
    def is_precise(self) -> bool:
        """True if small probabilities have a small relative error."""
        return self.is_certain or len(self.choices) == 1

    # -- floating point ------------------------------------------------------------------------------------

    def mean(self) -> float:
        """Return the mean coverage: the integral of 1 - cdf."""
        low, high = self._find_window()
        panels = np.array(list(pairwise([low, *self._find_steps(low, high), high])))
        coarse, missed = self._integrate(panels), 1.0 - high
        while panels.size:
            middle = panels.mean(axis=1)
            halves = np.stack([panels[:, 0], middle, middle, panels[:, 1]], axis=1).reshape(-1, 2)
            fine = self._integrate(halves).reshape(-1, 2)
            settled = np.abs(fine.sum(axis=1) - coarse) <= _PANEL_ERROR
            settled |= panels[:, 1] - panels[:, 0] < 1e-12
            missed += float(fine[settled].sum())
            panels, coarse = halves.reshape(-1, 2, 2)[~settled].reshape(-1, 2), fine[~settled].ravel()
        return 1.0 - missed

    def _integrate(self, panels: Floats) -> Floats:
        """Integrate the cdf over each panel by Gauss' rule."""
        middle, half = panels.mean(axis=1)[:, None], np.diff(panels, axis=1) / 2
        values = self.cdf((middle + half * _NODES).ravel()).reshape(len(panels), -1)
        return np.asarray((values * half) @ _WEIGHTS)

    def _find_window(self) -> tuple[float, float]:
        """Find the coverages between which the cdf rises from 0 to 1."""
        low, high, narrower = 0.0, 1.0, True
        while narrower:
            grid = np.linspace(low, high, 18)[1:-1]
            values = self.cdf(grid)
            first = float(np.max(grid[values <= _NOISE], initial=low))
            last = float(np.min(grid[values >= 1 - _NOISE], initial=high))
            narrower = last - first < 0.5 * (high - low)
            low, high = first, last
        return low, high

    def _find_steps(self, low: float, high: float) -> list[float]:
        """Find coverages round which the numbers of a large site make the cdf rise steeply."""
        places: list[tuple[float, float]] = []
        for n, rank in {(site.n, rank) for site in self.sites for rank in site.ranks}:
            share = rank / (n + 1)
            spread = math.sqrt(share * (1 - share) / (n + 2))
            if spread < (high - low) / 20:
                places += [(share + z * spread, spread) for z in (-9, -3, 0, 3, 9)]
        steps, last = [], low
        for place, spread in sorted(places):
            if last + spread / 2 < place < high:
                steps.append(place)
                last = place
        return steps

    def cdf(self, c: Floats) -> Floats:
        """Return P(coverage <= c) for each c between 0 and 1, if faulty sites do their worst."""
        if self.is_certain:
            return np.full(c.size, float(bool(self.choices)))
        self.work.spend(_CALL + _BETA * (self._numbers + 1) * c.size)
        if self._numbers == 1:
            return self._alike(c)
        out, rows = np.empty(c.size), max(1, _AT_ONCE // (8 * self._numbers * len(self.choices)))
        for start in range(0, c.size, rows):
            some = slice(start, start + rows)
            out[some] = self._reach_votes(c[some])
        return out

    def _alike(self, c: Floats) -> Floats:
        """Return the cdf of alike sites with one number: an incomplete beta of an incomplete beta."""
        ((_, n, (rank,), (vote,)),) = self.sites
        below, found = special.betainc(rank, n - rank + 1, c), np.zeros(c.size)
        for (m,), needed in self.choices:
            k = -(-needed // vote)
            found = np.maximum(found, special.betainc(k, m - k + 1, below))
        return found

    def _masses(self, c: Floats) -> list[Floats]:
        """Return P(none, one, two, ... of a site's numbers lie below c): for each kind, a row for each c."""
        found = []
        for _, n, ranks, _ in self.sites:
            l = np.array(ranks)[:, None]
            below = [np.ones((1, c.size)), special.betainc(l, n - l + 1, c), np.zeros((1, c.size))]
            found.append(np.maximum(-np.diff(np.concatenate(below), axis=0), 0.0).T)
        return found

    @cached_property
    def _casts(self) -> list[Ints]:
        """Votes that a site of each kind casts when none, one, two, ... of its numbers lie below."""
        return [np.array(list(accumulate(site.votes, initial=0))) for site in self.sites]

    def _honest(self, masses: list[Floats]) -> Ints:
        """Return the number of honest sites of each kind, a row for each row of masses and choice."""
        nodes = len(masses[0])
        kept = np.tile([counts for counts, _ in self.choices], (nodes, 1))
        if self.left_out:
            order = np.argsort(np.stack([mass[:, 1] for mass in masses], axis=1), axis=1, kind="stable")
            counts = np.take_along_axis(kept, order, axis=1)
            before = np.cumsum(counts, axis=1) - counts
            np.put_along_axis(kept, order, counts - np.clip(self.left_out - before, 0, counts), axis=1)
        return kept

    def _reach_votes(self, c: Floats) -> Floats:
        """Return P(votes >= votes needed) for each c, at its worst."""
        masses = self._masses(c)
        counts, node = self._honest(masses), np.repeat(np.arange(c.size), len(self.choices))
        needed = np.tile([votes for _, votes in self.choices], c.size)
        mean, reach = self._spread(masses, counts, node)
        out = (needed <= mean).astype(float)
        rows = np.flatnonzero(np.abs(needed - mean) <= reach + 1)
        if rows.size:
            period = self._find_period(float(reach[rows].max()))
            step = max(1, _AT_ONCE // period)
            for some in (rows[i : i + step] for i in range(0, rows.size, step)):
                law = self._invert(masses, counts[some], node[some], period)
                votes = self._unwrap(mean[some], period)
                tail = np.where(votes >= needed[some, None], law, 0.0).sum(axis=1)
                out[some] = np.clip(tail, 0.0, 1.0)
        return np.asarray(out.reshape(c.size, -1).max(axis=1))

    def _spread(self, masses: list[Floats], counts: Ints, node: Ints) -> tuple[Floats, Floats]:
        """Return mean votes, and how far votes stray from them but for a negligible probability (Bernstein)."""
        pairs = list(zip(masses, self._casts, strict=True))
        means = np.stack([mass @ cast for mass, cast in pairs], axis=1)
        squares = np.stack([mass @ cast.astype(float) ** 2 for mass, cast in pairs], axis=1)
        variance = (counts * np.maximum(squares - means**2, 0.0)[node]).sum(axis=1)
        single = max(site.total for site in self.sites) * _EXPONENT / 3
        return (counts * means[node]).sum(axis=1), single + np.sqrt(single**2 + 2 * _EXPONENT * variance)

    @cached_property
    def _total(self) -> int:
        return sum(site.count * site.total for site in self.sites)

    def _find_period(self, reach: float) -> int:
        """Return a number of votes beyond which the distribution may wrap round."""
        period = 1 + min(self._total, 2 * math.ceil(reach) + 2)
        if period > _LONGEST:
            raise NotVerifiableError("too large")
        return period

    def _unwrap(self, mean: Floats, period: int) -> Ints:
        """Return the votes that each place of a wrapped distribution stands for: those near the mean."""
        first = np.clip(np.floor(mean) - period // 2, 0, self._total + 1 - period).astype(np.int64)[:, None]
        return np.asarray(first + (np.arange(period) - first) % period)

    def _invert(self, masses: list[Floats], counts: Ints, node: Ints, period: int) -> Floats:
        """Return the distribution of all votes modulo a period: a row for each row of counts."""
        frequencies, (used, place) = np.arange(period // 2 + 1), np.unique(node, return_inverse=True)
        numbers = [np.unique(column[column > 0]) for column in counts.T]
        powers = sum(
            8 * cast.size + _LOG * int((each > 1).sum()) for cast, each in zip(self._casts, numbers, strict=True)
        )
        products = 4 * len(counts) * (len(self.sites) + 10)
        self.work.spend(_CALL + frequencies.size * (used.size * powers + products))
        phi = np.ones((len(counts), frequencies.size), dtype=np.complex128)
        for mass, cast, column, each in zip(masses, self._casts, counts.T, numbers, strict=True):
            angles = 2j * np.pi / period * (np.outer(cast[1:] % period, frequencies) % period)
            change = mass[used, 1:] @ np.expm1(angles)
            for number in each:
                rows = np.flatnonzero(column == number)
                power = _raise(change, int(number))
                if rows.size == used.size == len(column):
                    phi *= power
                else:
                    phi[rows] *= power[place[rows]]
        return np.asarray(np.fft.hfft(phi, period, axis=1) / period)

    def missed(self, level: float) -> float:
        """Return P(coverage <= level), with a small relative error where the law ``is_precise``.

        The masses of each site are tilted by exp(s * votes), s such that the votes needed are the mean.
        """
        c = np.array([level])
        if self.is_certain or self._numbers == 1 or len(self.choices) > 1:
            return float(self.cdf(c)[0])
        self.work.spend(_CALL + 100 * _BETA * self._numbers)
        masses, needed = self._masses(c), self._least_needed
        counts = self._honest(masses)
        if needed >= sum(int(count) * site.total for count, site in zip(counts[0], self.sites, strict=True)):
            powers = (mass[0, -1] ** int(count) for count, mass in zip(counts[0], masses, strict=True))
            return math.prod(map(float, powers))
        logs, casts = self._padded_logs(masses)

        def tilt(s: float) -> tuple[Floats, float, float]:
            heights = logs + s * casts
            scale = special.logsumexp(heights, axis=1)
            tilted = np.exp(heights - scale[:, None])
            return tilted, float(counts[0] @ scale), float(counts[0] @ (tilted * casts).sum(axis=1))

        low, high = 0.0, 0.0 if tilt(0.0)[2] >= needed else 1.0
        while high and tilt(high)[2] < needed:
            low, high = high, 2 * high
            if high > 1e6:
                return 0.0
        for _ in range(40 if high else 0):
            middle = (low + high) / 2
            low, high = (low, middle) if tilt(middle)[2] >= needed else (middle, high)
        tilted, scale, _ = tilt(high)
        rows = [each[None, : cast.size] for each, cast in zip(tilted, self._casts, strict=True)]
        mean, reach = self._spread(rows, counts, np.zeros(1, dtype=np.int64))
        period = self._find_period(float(reach[0]))
        law = self._invert(rows, counts, np.zeros(1, dtype=np.int64), period)[0]
        above = self._unwrap(mean, period)[0] - needed
        tail = law @ np.where(above >= 0, np.exp(-high * np.maximum(above, 0)), 0.0)
        return float(np.clip(tail * math.exp(scale - high * needed), 0.0, 1.0))

    def _padded_logs(self, masses: list[Floats]) -> tuple[Floats, Ints]:
        """Return logarithms of the masses, and the votes that go with them: a row for each kind."""
        shape = (len(masses), max(cast.size for cast in self._casts))
        logs, casts = np.full(shape, -np.inf), np.zeros(shape, dtype=np.int64)
        with np.errstate(divide="ignore"):
            for k, (mass, cast) in enumerate(zip(masses, self._casts, strict=True)):
                logs[k, : cast.size], casts[k, : cast.size] = np.log(mass[0]), cast
        return logs, casts

    # -- whole numbers -------------------------------------------------------------------------------------

    def simple_mean(self) -> Fraction | None:
        """Return the mean where it is a simple fraction."""
        if self.is_certain:
            return Fraction(int(not self.choices))
        if len(self.choices) > 1 or self.left_out:
            return None
        (counts, needed) = self.choices[0]
        sites = [site for count, site in zip(counts, self.sites, strict=True) if count]
        total = sum(count * site.total for count, site in zip(counts, self.sites, strict=True))
        points = sum(count * site.n for count, site in zip(counts, self.sites, strict=True))
        if sum(counts) == 1:  # split conformal prediction
            cast = accumulate(sites[0].votes)
            rank = next(rank for rank, votes in zip(sites[0].ranks, cast, strict=True) if votes >= needed)
            return Fraction(rank, points + 1)
        if len(sites) == 1 and sites[0].n == 1:  # one score at each site
            return Fraction(-(-needed // sites[0].total), points + 1)
        if all(site.ranks[-1] == site.n for site in sites) and needed > total - min(
            site.votes[-1] for site in sites
        ):  # the largest of all scores
            return Fraction(points, points + 1)
        mirrored = all(
            site.votes == site.votes[::-1]
            and all(a + b == site.n + 1 for a, b in zip(site.ranks, reversed(site.ranks), strict=True))
            for site in sites
        )
        return Fraction(1, 2) if mirrored and 2 * needed == total + 1 else None

    def count_mean(self) -> Fraction:
        """Return the mean by counting the ways in which the votes are reached.

        A new score has any number r of the N others below it with probability 1/(N + 1), and these are any r
        of them. So it is missed with probability sum_r W_r / (binom(N, r) (N + 1)), where W_r counts the ways
        to choose r scores such that the votes of the numbers among them are enough. The W_r are the digits of
        one whole number, in a base that exceeds them all.
        """
        points = sum(site.count * site.n for site in self.sites)
        width = points + 1

        def ways(site: Voters) -> list[int]:
            digits = [way << (width * i) for i, way in enumerate(_list_terms(site.n, 1, 1))]
            return [sum(digits[a:b]) for a, b in pairwise((0, *site.ranks, site.n + 1))]

        if len(self.choices) > 1:
            raise NotVerifiableError(_TOO_CLOSE)
        packed, n = self._count_ways(width, ways)[0]
        mask, missed = (1 << width) - 1, Fraction(0)
        for r in range(n + 1):
            missed += Fraction((packed >> (width * r)) & mask, math.comb(n, r))
        return 1 - missed / (n + 1)

    def count_missed(self, level: Fraction) -> Fraction:
        """Return P(coverage <= level) by counting the ways in which the votes are reached."""
        a, b = level.numerator, level.denominator

        def ways(site: Voters) -> list[int]:
            terms = _list_terms(site.n, a, b - a)
            return [sum(terms[i:j]) for i, j in pairwise((0, *site.ranks, site.n + 1))]

        if self.is_certain:
            return Fraction(int(bool(self.choices)))
        return max(Fraction(count, b**n) for count, n in self._count_ways(b.bit_length(), ways))

    def _count_ways(self, width: int, ways: Callable[[Voters], list[int]]) -> list[tuple[int, int]]:
        """Return for each choice the ways in which the votes are reached, and the number of scores.

        Whole numbers have ``width`` bits for each score.
        """
        points, m = sum(site.count * site.n for site in self.sites), sum(site.count for site in self.sites)
        numbers, words = max(len(site.ranks) for site in self.sites), points * width / 30
        sums = min(self._total, (numbers + 1) ** min(m, 40))
        each = m * sums * (numbers + 1) * (500 + words**1.3) + points * (500 + words)
        if self.left_out or len(self.choices) * each > _MOST_COUNTING:
            raise NotVerifiableError(_TOO_CLOSE)
        self.work.spend(len(self.choices) * each)
        own = [ways(site) for site in self.sites]
        return [
            (
                self._count_enough([kind for kind, count in enumerate(counts) for _ in range(count)], needed, own),
                sum(count * site.n for count, site in zip(counts, self.sites, strict=True)),
            )
            for counts, needed in self.choices
        ]

    def _count_enough(self, kinds: Sequence[int], needed: int, own: list[list[int]]) -> int:
        """Return the ways in which the sites of these kinds reach the votes, adding one after the other."""
        law, enough = {0: 1}, 0
        for kind in kinds:
            enough *= sum(own[kind])
            longer: dict[int, int] = {}
            for before, so_far in law.items():
                for votes, more in zip(self._casts[kind].tolist(), own[kind], strict=True):
                    if before + votes >= needed:
                        enough += so_far * more
                    else:
                        longer[before + votes] = longer.get(before + votes, 0) + so_far * more
            law = longer
        return enough


def _choose_faulty(kinds: Sequence[Voters], needed: int, max_faulty: int) -> list[tuple[tuple[int, ...], int]]:
    """Return the honest sites of each kind and the votes they need, for every choice of faulty sites.

    Where these are too many, all sites are counted, and the votes needed are lowered by the most that faulty
    sites can have: no choice is worse.
    """
    choices: list[tuple[tuple[int, ...], int, int]] = [((), needed, max_faulty)]
    room = sum(kind.count for kind in kinds)
    for kind in kinds:
        room -= kind.count
        choices = [
            ((*honest, kind.count - out), votes - out * kind.total, rest - out)
            for honest, votes, rest in choices
            for out in range(max(0, rest - room), min(rest, kind.count) + 1)
        ]
        if len(choices) > _MOST_CHOICES:
            return [(tuple(kind.count for kind in kinds), needed - largest_votes(kinds, max_faulty))]
    return [(honest, votes) for honest, votes, _ in choices]


def _raise(change: Floats, number: int) -> Floats:
    """Return the power of a characteristic function, from its difference to 1."""
    if number == 1:
        return np.asarray(1 + change)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.exp(number * special.log1p(change)))


def _list_terms(n: int, a: int, b: int) -> list[int]:
    """Return binom(n, i) a^i b^(n - i) for i = 0, ..., n."""
    terms = [b**n]
    for i in range(n):
        terms.append(terms[-1] * ((n - i) * a) // ((i + 1) * b))
    return terms
