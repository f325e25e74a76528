"""The law of the votes, in floating point: Fourier inversion, at the frequencies that matter.

Site j casts a votes with probability m_a. The characteristic function of all votes together is the product of
phi_j(t) = sum_a m_a exp(i a t). Votes are taken modulo a period that covers all but exp(-50) of their mass
(Bernstein's inequality), and since |phi_j|^2 = 1 - 4 sum_{a<b} m_a m_b sin^2((b - a) t / 2), frequencies at
which the product is negligible are known beforehand.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from fedconformal._typing import Floats, Ints
from fedconformal.audit._effort import STEP, Effort, UncountableError
from fedconformal.audit._fourier import Circle, Complexes
from fedconformal.audit._harm import needless, places_by
from fedconformal.audit._integral import Look
from fedconformal.audit._numbers import COST, Numbers
from fedconformal.audit._sites import Choice, Kind

_EXPONENT = 50.0  # votes whose Bernstein bound is below exp(-50) are left out
_NEGLIGIBLE = 90.0  # so are frequencies at which |phi|^2 is below exp(-90)
_FEW = 64  # frequencies that are not worth a choice
_LONGEST = 2**17  # period that is tried
_MOST_SUMS = 2**13  # sums of votes that are listed where they are few, or the period is longer
_AT_ONCE = 2**21  # values held at a time
_ROWS = 16  # coverages at a time where choices are compared
_MOST_ALIKE = 40  # different votes of sites up to which the harm they can do is compared
_ALIKE = 1e-13  # probabilities that are not told apart
_TINY = 1e-40  # characteristic functions by which one can still divide
_GRID, _HALVINGS, _MOST_KINKS = 64, 24, 16
_NARROW = 0.25  # steps narrower than this share of the window get intervals of their own
_REACH = 9.0  # standard deviations within which a number makes its step


@dataclass(frozen=True, eq=False)
class VoteLaw:
    """The law of the coverage when votes are counted, whichever of the sites are left out.

    Parameters
    ----------
    kinds : mapping from Kind to int
        How many sites of each kind, their numbers all finite.
    choices : sequence of Choice
        Sites that are not counted, by kind, and the votes that the others must reach.
    effort : Effort
        Where the cost is added up.
    """

    kinds: Mapping[Kind, int]
    choices: Sequence[Choice]
    effort: Effort

    look: ClassVar[Look] = Look(shrinks=0.95, noise=1e-12)
    """For `moments`: one more look costs less than a wider integral."""

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
        """Where to break an integral: midway, at the ends of narrow steps, where another choice is the worst.

        Parameters
        ----------
        low, high : float
            The coverages that matter.

        Returns
        -------
        array
            Strictly between them.
        """
        steps, kinks = _ends(self._steps, _NARROW * (high - low)), self._kinks(low, high)
        ends = np.concatenate([[(low + high) / 2], steps, kinks])
        return np.unique(ends[(ends > low) & (ends < high)])

    @property
    def _steps(self) -> Floats:
        """Between which coverages each number makes its step from above to below: one row for each."""
        middle, reach = self._numbers.shares, _REACH * self._numbers.spreads
        return np.stack([middle - reach, middle + reach], axis=1)

    def _kinks(self, low: float, high: float) -> Floats:
        """Where another choice becomes the worst, by bisection; what is missed costs time, no digits."""
        if len(self.choices) == 1:
            return np.empty(0)
        grid = np.linspace(low, high, _GRID + 1)[1:-1]
        worst = self._at_worst(grid)[1]
        change = np.flatnonzero((worst[1:] != worst[:-1]) & (worst[1:] >= 0) & (worst[:-1] >= 0))[
            :_MOST_KINKS
        ]
        left, right, before = grid[change], grid[change + 1], worst[change]
        for _ in range(_HALVINGS if change.size else 0):
            middle = (left + right) / 2
            same = self._at_worst(middle)[1] == before
            left, right = np.where(same, middle, left), np.where(same, right, middle)
        return right

    # -- what is the same for every coverage -------------------------------------------------------------

    @cached_property
    def _counts(self) -> Ints:
        return np.array(list(self.kinds.values()))

    @cached_property
    def _casts(self) -> list[tuple[int, ...]]:
        return [kind.cast for kind in self.kinds]

    @cached_property
    def _numbers(self) -> Numbers:
        pairs = [(kind.n, rank) for kind in self.kinds for rank in kind.ranks]
        return Numbers([n for n, _ in pairs], [rank for _, rank in pairs])

    @cached_property
    def _needed(self) -> Ints:
        return np.array([choice.needed for choice in self.choices])

    @cached_property
    def _out(self) -> list[dict[int, int]]:
        """For each choice, which kinds lose how many sites."""
        place = {kind: i for i, kind in enumerate(self.kinds)}
        found: list[dict[int, int]] = []
        for choice in self.choices:
            found.append(defaultdict(int))
            for kind, count in choice.left_out:
                found[-1][place[kind]] += count
        return found

    @cached_property
    def _total(self) -> int:
        return sum(count * kind.all_votes for kind, count in self.kinds.items())

    @cached_property
    def _n_sums(self) -> float:
        """How many sums of votes can occur, at the most; infinity if that is too many."""
        found = 1
        for kind, count in self.kinds.items():
            found *= math.comb(min(count, _MOST_SUMS) + len(kind.ranks), len(kind.ranks))
            if found > _MOST_SUMS:
                return math.inf
        return found

    # -- the votes at some coverages ---------------------------------------------------------------------

    def _at_worst(self, c: Floats, rest: float = 0.0) -> tuple[Floats, Ints]:
        """The largest of all choices' P(votes >= votes needed), and which it is; -1 where that is settled."""
        work = COST * len(self._numbers) * c.size + STEP * (100 + 2 * len(self.kinds) + len(self.choices))
        self.effort.spend(work, f"{len(self._numbers):,} different numbers")
        cells = self._cells(c, rest)
        mean, reach = self._moments(cells)
        found = (self._needed[:, None] <= mean - reach).any(axis=0).astype(float)
        which = np.full(c.size, -1)
        open_ = np.flatnonzero((found == 0) & (self._needed[:, None] <= mean + reach).any(axis=0))
        if open_.size:
            parts = [cell[open_] for cell in cells]
            found[open_], which[open_] = self._inverted(parts, mean[:, open_], float(reach[:, open_].max()))
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
        pairs = [(cell, np.array(cast, dtype=float)) for cell, cast in zip(cells, self._casts, strict=True)]
        mean = np.stack([cell @ cast for cell, cast in pairs])
        variance = np.maximum(np.stack([cell @ cast**2 for cell, cast in pairs]) - mean**2, 0.0)
        means, variances = (np.tile(self._counts @ x, (len(self.choices), 1)) for x in (mean, variance))
        for i, out in enumerate(self._out):
            for place, count in out.items():
                means[i] -= count * mean[place]
                variances[i] -= count * variance[place]
        single = max(cast[-1] for cast in self._casts) * _EXPONENT / 3
        reach: Floats = single + np.sqrt(single**2 + 2 * _EXPONENT * np.maximum(variances, 0.0))
        return np.asarray(means, dtype=float), reach

    def _inverted(self, cells: list[Floats], mean: Floats, reach: float) -> tuple[Floats, Ints]:
        """As `_at_worst`, where that is not settled yet, a few coverages at a time."""
        low, high = mean.min(axis=0), mean.max(axis=0)
        period = min(self._total + 1, 2 * math.ceil(reach) + math.ceil(float((high - low).max())) + 3)
        listed = period > _LONGEST or self._n_sums <= period // 4
        frequencies = np.empty(0, dtype=np.int64) if listed else self._frequencies(cells, period)
        first = np.clip(np.floor((low + high) / 2) - period // 2, 0, self._total + 1 - period).astype(
            np.int64
        )
        found, which = np.empty(first.size), np.empty(first.size, dtype=np.int64)
        rows = _ROWS if len(self.choices) > 1 else max(1, _AT_ONCE // (1 + frequencies.size))
        for start in range(0, first.size, rows):
            some = slice(start, start + rows)
            parts = [cell[some] for cell in cells]
            chosen = self._candidates(parts)
            circle = Circle(period, frequencies, first[some])
            tails = self._listed(parts, chosen) if listed else self._tails(parts, chosen, circle)
            found[some] = tails.max(axis=0)
            which[some] = chosen[np.argmax(tails >= found[some] - _ALIKE, axis=0)]
        return found, which

    def _candidates(self, cells: list[Floats]) -> Ints:
        """Choices of which one is the worst at every coverage."""
        every = np.arange(len(self.choices))
        n_alike = len(set(self._casts))
        if every.size == 1 or n_alike > _MOST_ALIKE:
            return every
        work = 300 * len(cells) * len(cells[0]) + STEP * (10 * n_alike**2 + 2 * len(cells))
        self.effort.spend(work, f"{len(cells):,} kinds of sites")
        faulty = max(sum(out.values()) for out in self._out)
        spared = needless(self._casts, cells, self._counts, faulty)
        return np.array([i for i in every if spared.isdisjoint(self._out[i])])

    def _frequencies(self, cells: list[Floats], period: int) -> Ints:
        """Where the characteristic function may matter: of 1 to half the period."""
        every = np.arange(1, period // 2 + 1)
        if every.size <= _FEW:
            return every
        spans, weights = self._spans(cells)
        self.effort.spend(every.size * spans.size * (3 + len(weights) / 10), f"votes up to {period:,}")
        faulty = max(sum(out.values()) for out in self._out)  # each lowers the exponent by at most 1
        kept = []
        for some in np.array_split(every, 1 + every.size * spans.size // _AT_ONCE):
            sines = np.sin(np.pi / period * (np.outer(spans, some) % period)) ** 2
            kept.append(some[(weights @ sines).min(axis=0) <= _NEGLIGIBLE + faulty])
        return np.concatenate(kept)

    def _spans(self, cells: list[Floats]) -> tuple[Ints, Floats]:
        """Differences b - a between votes that one site may cast, and 4 m_a m_b summed over all sites."""
        held: dict[int, Floats] = defaultdict(lambda: np.zeros(len(cells[0])))
        for cast, places in places_by(self._casts).items():
            stacked = np.stack([cells[place] for place in places])
            products = np.einsum("k,kca,kcb->abc", 4.0 * self._counts[places], stacked, stacked)
            for a in range(len(cast)):
                for b in range(a):
                    held[cast[a] - cast[b]] += products[a, b]
        return np.array(list(held)), np.stack(list(held.values()), axis=1)

    def _tails(self, cells: list[Floats], chosen: Ints, circle: Circle) -> Floats:
        """P(votes >= votes needed): a row for each of the choices."""
        most = max(len(self._out[i]) for i in chosen)
        work = sum(cell.shape[1] + 8 for cell in cells) + len(chosen) * (most + 1)
        work = work * circle.frequencies.size * len(cells[0]) + STEP * (5 * len(cells) + 5 * len(chosen))
        self.effort.spend(work, f"{len(cells):,} kinds of sites")
        differ = {place for i in chosen for place in self._out[i]}
        whole, full = np.ones((len(cells[0]), circle.frequencies.size), dtype=np.complex128), {}
        for place, count in enumerate(self._counts.tolist()):
            factor = circle.factor(self._casts[place], cells[place], count)
            if place in differ:
                factor = full[place] = np.where(np.abs(factor) < _TINY, _TINY, factor)
            whole *= factor
        kept: dict[tuple[int, int], Complexes] = {}
        found = []
        for i in chosen:
            phi = whole
            for place, out in self._out[i].items():
                if (place, out) not in kept:
                    left = int(self._counts[place]) - out
                    kept[place, out] = circle.factor(self._casts[place], cells[place], left) / full[place]
                phi = phi * kept[place, out]
            found.append(circle.tail(phi, int(self._needed[i])))
        return np.stack(found)

    def _listed(self, cells: list[Floats], chosen: Ints) -> Floats:
        """The same by listing all sums of votes: they may be few although they lie far apart."""
        return np.stack([self._reached(cells, self._out[i], int(self._needed[i])) for i in chosen])

    def _reached(self, cells: list[Floats], out: dict[int, int], needed: int) -> Floats:
        """P(votes >= needed) without some of the sites, one site after the other."""
        counts = [count - out.get(place, 0) for place, count in enumerate(self._counts.tolist())]
        rest = sum(count * cast[-1] for count, cast in zip(counts, self._casts, strict=True))
        law, reached = {0: np.ones(len(cells[0]))}, np.zeros(len(cells[0]))
        for place in np.repeat(np.arange(len(counts)), counts).tolist():
            cast, cell = self._casts[place], cells[place].T
            rest -= cast[-1]
            each = 3 * reached.size + STEP / 4
            self.effort.spend(len(law) * len(cast) * each, f"{len(law):,} sums of votes")
            longer: dict[int, Floats] = {}
            for before, p in law.items():
                for votes, q in zip(cast, cell, strict=True):
                    after = before + votes
                    if after >= needed:
                        reached += p * q
                    elif after + rest >= needed:
                        longer[after] = longer[after] + p * q if after in longer else p * q
            law = longer
            if len(law) > _MOST_SUMS:
                raise UncountableError(f"more than {_MOST_SUMS:,} sums of votes: more than can be recounted")
        return reached


def _ends(steps: Floats, narrow: float) -> Floats:
    """Ends of the steps that are narrower; of those that overlap, of all together."""
    few = steps[steps[:, 1] - steps[:, 0] < narrow]
    merged: list[tuple[float, float]] = []
    for start, end in few[np.argsort(few[:, 0])].tolist():
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return np.array(merged).ravel()
