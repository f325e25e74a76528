"""The law of the votes, in floating point: Fourier inversion, at the frequencies that matter.

Site j casts a votes with probability m_a. The characteristic function of all votes together is the product of
phi_j(t) = sum_a m_a exp(i a t). Votes are taken modulo a period that covers all but exp(-50) of their mass
(Bernstein's inequality), and since |phi_j|^2 = 1 - 4 sum_{a<b} m_a m_b sin^2((b - a) t / 2), frequencies at
which the product is negligible are known beforehand.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedconformal._typing import Bools, Floats, Ints
from fedconformal.audit._effort import Effort, UncountableError
from fedconformal.audit._numbers import COST, Numbers
from fedconformal.audit._sites import Choice, Kind

Complexes = NDArray[np.complex128]

_EXPONENT = 50.0  # votes whose Bernstein bound is below exp(-50) are left out
_NEGLIGIBLE = 90.0  # so are frequencies at which |phi|^2 is below exp(-90)
_FEW = 64  # frequencies that are not worth a choice
_LONGEST = 2**17  # period that is tried
_MOST_SUMS = 2**13  # that are listed where the period is longer
_AT_ONCE = 2**21  # sines held at a time
_ROWS = 16  # coverages at a time where choices are compared
_MOST_ALIKE = 40  # different votes of sites up to which the harm they can do is compared
_ALIKE = 1e-13  # probabilities that are not told apart
_GRID, _HALVINGS, _MOST_KINKS = 64, 40, 16
_NARROW = 0.25  # steps narrower than this share of the window get intervals of their own
_REACH = 9.0  # standard deviations within which a number makes its step


@dataclass(frozen=True, eq=False)
class VoteLaw:
    """The law of the coverage when votes are counted, whichever of the sites are left out.

    Parameters
    ----------
    kinds : mapping from Kind to int
        How many sites of each kind, their numbers all finite.
    choices : sequence of (left out, needed)
        Sites that are not counted, by kind, and the votes that the others must reach.
    effort : Effort
        Where the cost is added up.
    """

    kinds: Mapping[Kind, int]
    choices: Sequence[Choice]
    effort: Effort

    # -- what is the same for every coverage -------------------------------------------------------------

    @cached_property
    def _counts(self) -> Ints:
        return np.array(list(self.kinds.values()))

    @cached_property
    def _place(self) -> dict[Kind, int]:
        return {kind: i for i, kind in enumerate(self.kinds)}

    @cached_property
    def _cast(self) -> list[Ints]:
        """Votes of a site with none, one, two, ... numbers below, for each kind."""
        return [np.array(kind.cast) for kind in self.kinds]

    @cached_property
    def _numbers(self) -> Numbers:
        pairs = [(kind.n, rank) for kind in self.kinds for rank in kind.ranks]
        return Numbers([n for n, _ in pairs], [rank for _, rank in pairs])

    @cached_property
    def _needed(self) -> Ints:
        return np.array([choice.needed for choice in self.choices])

    @cached_property
    def _out(self) -> list[tuple[tuple[int, int], ...]]:
        """For each choice, which kinds lose how many sites."""
        return [
            tuple((self._place[kind], out) for kind, out in choice.left_out if kind in self._place)
            for choice in self.choices
        ]

    @cached_property
    def _most(self) -> int:
        """The votes of one site, at the most."""
        return max(int(cast[-1]) for cast in self._cast)

    @cached_property
    def _total(self) -> int:
        return sum(int(count) * int(cast[-1]) for count, cast in zip(self._counts, self._cast, strict=True))

    # -- the law -----------------------------------------------------------------------------------------

    def cdf(self, c: Floats, rest: float = 0.0) -> Floats:
        """P(coverage <= c), at its worst.

        Parameters
        ----------
        c : array
            Coverages between 0 and 1.
        rest : float
            To be added to them: what a float64 has no room for.

        Returns
        -------
        array
        """
        return self._at_worst(c, rest)[0]

    def hints(self, low: float, high: float) -> Floats:
        """Coverages at which to break an integral: ends of narrow steps, and where another choice is the worst.

        Parameters
        ----------
        low, high : float
            The coverages that matter.

        Returns
        -------
        array
            Strictly between them.
        """
        ends = np.append(_ends(self._steps, low, high), self._kinks(low, high))
        return np.unique(ends[(ends > low) & (ends < high)])

    @property
    def _steps(self) -> Floats:
        """Between which coverages each number makes its step from above to below: one row for each."""
        middle, reach = self._numbers.shares, _REACH * self._numbers.spreads
        return np.stack([middle - reach, middle + reach], axis=1)

    def _kinks(self, low: float, high: float) -> Floats:
        """Where another choice becomes the worst, by bisection."""
        if len(self.choices) == 1:
            return np.empty(0)
        grid = np.linspace(low, high, _GRID + 1)[1:-1]
        worst = self._at_worst(grid)[1]
        change = np.flatnonzero((worst[1:] != worst[:-1]) & (worst[1:] >= 0) & (worst[:-1] >= 0))
        left, right, before = grid[change], grid[change + 1], worst[change]
        for _ in range(_HALVINGS if 0 < change.size <= _MOST_KINKS else 0):
            middle = (left + right) / 2
            same = self._at_worst(middle)[1] == before
            left, right = np.where(same, middle, left), np.where(same, right, middle)
        return right if change.size <= _MOST_KINKS else np.empty(0)

    def _at_worst(self, c: Floats, rest: float = 0.0) -> tuple[Floats, Ints]:
        """The largest of all choices' P(votes >= votes needed), and which it is; -1 where that is settled."""
        self.effort.spend(COST * len(self._numbers) * c.size, f"{len(self._numbers):,} different numbers")
        cells = self._cells(c, rest)
        mean, reach = self._moments(cells)
        found = (self._needed[:, None] <= mean - reach).any(axis=0).astype(float)
        which = np.full(c.size, -1)
        unsettled = (found == 0) & (self._needed[:, None] <= mean + reach).any(axis=0)
        if unsettled.any():
            some = np.flatnonzero(unsettled)
            settle = self._inverted([cell[some] for cell in cells], mean[:, some], reach[:, some])
            found[some], which[some] = settle
        return found, which

    def _cells(self, c: Floats, rest: float) -> list[Floats]:
        """P(none, one, two, ... of a site's numbers lie below), for each kind: a row for each coverage."""
        below = self._numbers.below(c, rest)
        cells, first = [], 0
        for kind in self.kinds:
            rows = below[first : first + len(kind.ranks)]
            ends = np.concatenate([np.ones((1, c.size)), rows, np.zeros((1, c.size))])
            cells.append(np.maximum(-np.diff(ends, axis=0), 0.0).T)
            first += len(kind.ranks)
        return cells

    def _moments(self, cells: list[Floats]) -> tuple[Floats, Floats]:
        """Mean votes and how far votes stray from it, for each choice and coverage."""
        pairs = list(zip(cells, self._cast, strict=True))
        mean = np.stack([cell @ cast for cell, cast in pairs])
        square = np.stack([cell @ (cast.astype(float) ** 2) for cell, cast in pairs])
        variance = np.maximum(square - mean**2, 0.0)
        means, variances = (np.tile(self._counts @ x, (len(self.choices), 1)) for x in (mean, variance))
        for i, out in enumerate(self._out):
            for place, count in out:
                means[i] -= count * mean[place]
                variances[i] -= count * variance[place]
        single = self._most * _EXPONENT / 3
        reach = single + np.sqrt(single**2 + 2 * _EXPONENT * np.maximum(variances, 0.0))
        return np.asarray(means, dtype=float), np.asarray(reach, dtype=float)

    def _inverted(self, cells: list[Floats], mean: Floats, reach: Floats) -> tuple[Floats, Ints]:
        """As `_at_worst`, by Fourier inversion, a few coverages at a time."""
        period = min(self._total + 1, 2 * math.ceil(float(reach.max())) + 3)
        rows = _ROWS if len(self.choices) > 1 else mean.shape[1]
        circle = Circle(period, self._frequencies(cells, period)) if period <= _LONGEST else None
        found, which = np.empty(mean.shape[1]), np.empty(mean.shape[1], dtype=np.int64)
        for start in range(0, found.size, rows):
            some = slice(start, start + rows)
            part = [cell[some] for cell in cells]
            chosen = self._candidates(part)
            tails = np.stack(list(self._tails(part, mean[:, some], chosen, circle)))
            found[some] = tails.max(axis=0)
            which[some] = chosen[np.argmax(tails >= found[some] - _ALIKE, axis=0)]
        return found, which

    def _candidates(self, cells: list[Floats]) -> Ints:
        """Choices of which one is the worst at every coverage.

        A faulty site casts the votes that it would not have cast. If these are stochastically more at site x
        than at site y, at every coverage, x does more harm: a choice with y in it is not needed where sites
        that do more harm than y are as many as may be faulty.
        """
        every = np.arange(len(self.choices))
        faulty = max(sum(count for _, count in out) for out in self._out)
        if every.size == 1 or len(self._alike) > _MOST_ALIKE:
            return every
        self.effort.spend(len(cells) ** 2 * len(cells[0]) * 2, f"{len(cells):,} kinds of sites")
        harm = self._harms(cells)
        needless = set(np.flatnonzero(self._counts @ harm >= faulty).tolist())
        kept = [i for i in every if not any(place in needless for place, _ in self._out[i])]
        return np.array(kept) if kept else every

    @cached_property
    def _alike(self) -> dict[tuple[int, ...], list[int]]:
        """Kinds that have the same votes."""
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for i, kind in enumerate(self.kinds):
            alike[kind.cast].append(i)
        return alike

    def _harms(self, cells: list[Floats]) -> Bools:
        """Whether a faulty site of kind x does at least as much harm as one of kind y: the entry (x, y)."""
        more = np.zeros((len(cells), len(cells)), dtype=bool)
        sums = [np.cumsum(cell, axis=1) for cell in cells]
        for first, xs in self._alike.items():
            for second, ys in self._alike.items():
                # Votes not cast by y: at least second[-1] - second[i]. For x: its sums up to the same shortfall.
                places = [bisect_right(first, first[-1] - second[-1] + votes) - 1 for votes in second[:-1]]
                harm_y = np.stack([sums[y] for y in ys])[:, :, : len(places)]
                harm_x = np.stack([np.insert(sums[x], 0, 0.0, axis=1) for x in xs])[:, :, np.add(places, 1)]
                more[np.ix_(xs, ys)] = (harm_x[:, None] >= harm_y[None]).all(axis=(2, 3))
        both = more & more.T
        return more & ~(both & (np.arange(len(cells))[:, None] >= np.arange(len(cells))))

    def _tails(
        self, cells: list[Floats], mean: Floats, chosen: Ints, circle: "Circle | None"
    ) -> Iterator[Floats]:
        """P(votes >= votes needed), for each of the choices."""
        if circle is None:
            yield from (self._reached(cells, i) for i in chosen)
            return
        differ = sorted({place for i in chosen for place, _ in self._out[i]})
        work = sum(cell.shape[1] + 8 for cell in cells) + 4 * len(chosen) * (len(differ) + 2)
        self.effort.spend(work * circle.frequencies.size * len(cells[0]), f"{len(cells):,} kinds of sites")
        product = np.ones((len(cells[0]), circle.frequencies.size), dtype=np.complex128)
        for place in sorted(set(range(len(cells))) - set(differ)):
            product *= self._factor(place, cells, circle, int(self._counts[place]))
        powers: dict[tuple[int, int], Complexes] = {}
        for i in chosen:
            out = dict(self._out[i])
            total, phi = self._total, product
            for place in differ:
                key = (place, int(self._counts[place]) - out.get(place, 0))
                powers[key] = powers.get(key) if key in powers else self._factor(place, cells, circle, key[1])
                phi = phi * powers[key]
                total -= out.get(place, 0) * int(self._cast[place][-1])
            yield circle.tail(phi, mean[i], total, int(self._needed[i]))

    def _factor(self, place: int, cells: list[Floats], circle: "Circle", count: int) -> Complexes:
        """The characteristic function of the votes of so many sites of a kind."""
        u = circle.less_one(self._cast[place], cells[place])
        return 1 + u if count == 1 else np.exp(count * _log1p(u))

    def _reached(self, cells: list[Floats], choice: int) -> Floats:
        """The same for one choice by listing all sums of votes: they may be few although they lie far apart."""
        counts, needed = self._counts.copy(), int(self._needed[choice])
        for place, count in self._out[choice]:
            counts[place] -= count
        rest = sum(int(count) * int(cast[-1]) for count, cast in zip(counts, self._cast, strict=True))
        law, reached = {0: np.ones(len(cells[0]))}, np.zeros(len(cells[0]))
        for place in np.repeat(np.arange(counts.size), counts).tolist():
            cast, cell = self._cast[place].tolist(), cells[place].T
            rest -= cast[-1]
            self.effort.spend(len(law) * len(cast) * (reached.size + 200), f"{len(law):,} sums of votes")
            longer: dict[int, Floats] = {}
            for before, p in law.items():
                for votes, q in zip(cast, cell, strict=True):
                    after = before + votes
                    if after >= needed:
                        reached += p * q
                    elif after + rest >= needed:
                        longer[after] = longer[after] + p * q if after in longer else p * q
            if len(longer) > _MOST_SUMS:
                raise UncountableError(f"more than {_MOST_SUMS:,} sums of votes: more than can be recounted")
            law = longer
        return reached

    def _frequencies(self, cells: list[Floats], period: int) -> Ints:
        """Where the characteristic function may matter: of 1 to half the period."""
        every = np.arange(1, period // 2 + 1)
        if every.size <= _FEW:
            return every
        spans, weights = self._spans(cells)
        self.effort.spend(every.size * spans.size * (3 + weights.shape[0] / 4), f"votes up to {period:,}")
        faulty = max((sum(count for _, count in out) for out in self._out), default=0)
        kept = []
        for some in np.array_split(every, 1 + every.size * spans.size // _AT_ONCE):
            sines = np.sin(np.pi / period * (np.outer(spans, some) % period)) ** 2
            kept.append(some[(weights @ sines).min(axis=0) <= _NEGLIGIBLE + faulty])
        return np.concatenate(kept)

    def _spans(self, cells: list[Floats]) -> tuple[Ints, Floats]:
        """Differences b - a between votes that one site may cast, and 4 m_a m_b summed over all sites."""
        held: dict[int, Floats] = defaultdict(lambda: np.zeros(len(cells[0])))
        for cast, places in self._alike.items():
            stacked = np.stack([cells[i] for i in places])
            products = np.einsum("k,kca,kcb->abc", 4.0 * self._counts[places], stacked, stacked)
            for a in range(len(cast)):
                for b in range(a):
                    held[cast[a] - cast[b]] += products[a, b]
        return np.array(list(held)), np.stack(list(held.values()), axis=1)


@dataclass(frozen=True, eq=False)
class Circle:
    """Whole numbers modulo a period, and the characters at some of their frequencies.

    Parameters
    ----------
    period : int
        How many numbers there are.
    frequencies : array of int
        Between 1 and half the period.
    """

    period: int
    frequencies: Ints

    @cached_property
    def _less_one(self) -> Complexes:
        """exp(2 pi i j / period) - 1 for each j, to the last digits also where it is small."""
        angle = np.pi * np.arange(self.period) / self.period
        return np.asarray(-2 * np.sin(angle) ** 2 + 1j * np.sin(2 * angle))

    def less_one(self, cast: Ints, cell: Floats) -> Complexes:
        """Phi - 1 of one site: a row for each coverage, a column for each frequency."""
        places = np.outer(cast[1:] % self.period, self.frequencies) % self.period
        return np.asarray(cell[:, 1:] @ self._less_one[places])

    def tail(self, phi: Complexes, mean: Floats, total: int, needed: int) -> Floats:
        """P(votes >= needed), for each row of characteristic functions of votes up to ``total``."""
        first = np.clip(np.floor(mean) - self.period // 2, 0, max(0, total + 1 - self.period)).astype(
            np.int64
        )
        ends = [self._back(first[:, None]), self._back(np.array([[needed]]))]
        sums = (ends[1] - ends[0]) / -self._less_one[-self.frequencies % self.period]
        double = np.where(2 * self.frequencies == self.period, 1.0, 2.0)
        inside = first + self.period - needed + (phi * sums).real @ double
        tail = np.where(
            needed <= first, 1.0, np.where(needed >= first + self.period, 0.0, inside / self.period)
        )
        return np.clip(tail, 0.0, 1.0)

    def _back(self, votes: Ints) -> Complexes:
        """exp(-2 pi i f v / period)."""
        return np.asarray(1 + self._less_one[-(votes % self.period) * self.frequencies % self.period])


def _ends(steps: Floats, low: float, high: float) -> Floats:
    """Ends of the steps that are narrow between ``low`` and ``high``; those that overlap are one."""
    narrow = steps[(steps[:, 1] - steps[:, 0] < _NARROW * (high - low)) & (steps[:, 1] > low)]
    merged: list[tuple[float, float]] = []
    for start, end in narrow[np.argsort(narrow[:, 0])].tolist():
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return np.array(merged).ravel()


def _log1p(u: Complexes) -> Complexes:
    """log(1 + u): the absolute value by log1p where it is near one, directly where it is small."""
    size = np.abs(1 + u)
    near: Bools = size > 0.5
    with np.errstate(divide="ignore"):
        real = np.where(
            near,
            0.5 * np.log1p(np.maximum(2 * u.real + np.abs(u) ** 2, -0.9)),
            np.log(np.maximum(size, 1e-30)),
        )
    return np.asarray(real + 1j * np.angle(1 + u))
