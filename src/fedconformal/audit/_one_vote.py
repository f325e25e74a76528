"""Sites of one vote each, in floating point: binomial probabilities as products of ratios."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedconformal._typing import Floats, Ints
from fedconformal.audit._effort import Effort
from fedconformal.audit._integral import Look
from fedconformal.audit._numbers import COST, Numbers
from fedconformal.audit._sites import Kind

_NOTHING = 1e-26  # terms of a binomial sum below this share of the largest are left out
_BLOCK = 4096  # such terms added at a time, at the most
_EXPONENT = 50.0  # counts whose Bernstein bound is below exp(-50) are left out
_AFFORDABLE = 3e5  # terms to be added up for each coverage: a few seconds in all
_FEW = 2e4  # such terms that take no longer than an integral
_EACH = 12  # work of one such term


@dataclass(frozen=True, eq=False)
class OneVoteEach:
    """The law of the coverage when every site has one number and one vote.

    Parameters
    ----------
    kinds : mapping from Kind to int
        How many sites of each kind.
    needed : int
        Honest reports that must lie below, if all faulty ones do.
    max_faulty : int
        How many sites are left out: at each coverage those least likely to lie below.
    effort : Effort
        Where the cost is added up.
    """

    kinds: Mapping[Kind, int]
    needed: int
    max_faulty: int
    effort: Effort

    look: ClassVar[Look] = Look(shrinks=0.5, noise=1e-13)
    """For `moments`."""

    def hints(self, low: float, high: float) -> Floats:
        """Coverages at which to break an integral: none, it is halved where that is needed."""
        return np.empty(0)

    @property
    def is_long(self) -> bool:
        """Whether adding up binomial probabilities takes too long."""
        return self._terms + self._inversion > _AFFORDABLE

    @property
    def _terms(self) -> float:
        """Binomial probabilities to be added up for each coverage."""
        return sum(64 + 11 * math.sqrt(kind.n) for kind in self.kinds)

    @property
    def _inversion(self) -> float:
        """Frequencies at which a characteristic function is computed, of all kinds together."""
        m = sum(self.kinds.values())
        return len(self.kinds) * min(m / 2, 17 + math.sqrt(280 + 25 * m))

    def cdf(self, c: Floats, rest: float = 0.0) -> Floats:
        """P(coverage <= c), at its worst.

        Parameters
        ----------
        c : array
            Coverages strictly between 0 and 1.
        rest : float
            To be added to them: what a float64 has no room for. Only looked at where the sites are large.

        Returns
        -------
        array
        """
        work = min(_EACH * self._terms, COST * len(self.kinds)) + 5 * self._inversion
        self.effort.spend(work * c.size, f"{len(self.kinds):,} kinds of sites")
        p, q = self._summed(c) if self._terms <= _FEW else self._integrated(c, rest)
        counts = np.array(list(self.kinds.values()))
        return at_least(self.needed, p, q, _without(self.max_faulty, p, counts))

    def _summed(self, c: Floats) -> tuple[Floats, Floats]:
        tails = [binomial_tails(kind.n, kind.ranks[0], c, 1 - c) for kind in self.kinds]
        p, q = (np.stack([pair[i] for pair in tails], axis=1) for i in (0, 1))
        return p, q

    def _integrated(self, c: Floats, rest: float) -> tuple[Floats, Floats]:
        p = np.zeros((c.size, len(self.kinds)))
        p[:, self._finite] = self._numbers.below(c, rest).T
        return p, 1 - p

    @cached_property
    def _finite(self) -> list[int]:
        return [i for i, kind in enumerate(self.kinds) if kind.ranks[0] <= kind.n]

    @cached_property
    def _numbers(self) -> Numbers:
        finite = [kind for kind in self.kinds if kind.ranks[0] <= kind.n]
        return Numbers([kind.n for kind in finite], [kind.ranks[0] for kind in finite])


def binomial_tails(n: int, k: int, p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """P(Binomial(n, p) >= k) and P(Binomial(n, p) < k), where q = 1 - p.

    Terms are products of the ratios of neighbours, walking away from the largest on both sides; their sum is
    one, which fixes the factor that they have in common.
    """
    p, q = np.maximum(p, 1e-300), np.maximum(q, 1e-300)
    top = np.clip(np.floor((n + 1) * p), 0, n)
    sums = np.zeros((2, p.size))  # below k, and from k on
    sums[1] = top >= k
    sums[0] = 1 - sums[1]
    for up in (True, False):
        for i, terms in _walk(n, top, p / q, up=up):
            sums[1] += np.where(i >= k, terms, 0.0).sum(axis=1)
            sums[0] += np.where(i < k, terms, 0.0).sum(axis=1)
    below, above = sums / sums.sum(axis=0)
    return above, below


def _walk(n: int, top: Floats, odds: Floats, *, up: bool) -> Iterator[tuple[Floats, Floats]]:
    """Places i and terms relative to the one at ``top``, block by block, until they are negligible."""
    last = np.ones((top.size, 1))
    spread = math.sqrt(float(np.max(top * (n - top))) / n)
    block = min(_BLOCK, 32 + math.ceil(11 * spread))
    for start in range(0, n + 1, block):
        steps = np.arange(start, min(start + block, n))
        i = top[:, None] + steps if up else top[:, None] - steps
        ratios = (
            np.maximum(n - i, 0) / (i + 1) * odds[:, None]
            if up
            else (np.maximum(i, 0) / (n - i + 1) / odds[:, None])
        )
        terms = last * np.cumprod(ratios, axis=1)
        yield (i + 1 if up else i - 1), terms
        last = terms[:, -1:]
        if not terms.size or float(last.max()) < _NOTHING:
            return


def at_least(k: int, p: Floats, q: Floats, counts: Ints) -> Floats:
    """P(at least k sites lie below), for nodes (rows) and groups (columns) of so many sites each."""
    alike = np.ptp(counts, axis=0).max() == 0 and np.count_nonzero(counts[0]) == 1
    if alike:
        group = int(np.argmax(counts[0]))
        return binomial_tails(int(counts[0, group]), k, p[:, group], q[:, group])[0]
    m = int(counts[0].sum())
    mean, variance = (counts * p).sum(axis=1), (counts * p * q).sum(axis=1)
    reach = _EXPONENT / 3 + np.sqrt((_EXPONENT / 3) ** 2 + 2 * _EXPONENT * variance)
    period = min(m + 1, 2 * math.ceil(float(reach.max())) + 3)
    masses = np.fft.hfft(_characteristic(p, q, counts, period), period, axis=1) / period
    first = np.clip(np.floor(mean) - period // 2, 0, m + 1 - period).astype(np.int64)
    place = first[:, None] + (np.arange(period) - first[:, None]) % period
    tail: Floats = np.clip(np.where(place >= k, masses, 0.0).sum(axis=1), 0.0, 1.0)
    return tail


def _characteristic(p: Floats, q: Floats, counts: Ints, period: int) -> NDArray[np.complex128]:
    """Characteristic function of the count, at the first half of ``period`` even frequencies."""
    turn = np.exp(2j * np.pi * np.arange(period // 2 + 1) / period)
    product = np.ones((len(p), turn.size), dtype=np.complex128)
    for g in range(p.shape[1]):
        factor = q[:, g, None] + p[:, g, None] * turn
        fewest = int(counts[:, g].min())
        product *= _power(factor, fewest)
        if (more := counts[:, g] - fewest).any():
            product *= factor ** more[:, None]
    return product


def _power(factor: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """By squaring, which is faster than logarithms."""
    found = np.ones_like(factor)
    while exponent:
        if exponent % 2:
            found *= factor
        exponent //= 2
        if exponent:
            factor = factor * factor
    return found


def _without(max_faulty: int, p: Floats, counts: Ints) -> Ints:
    """At each node, how many sites of each group stay when those least likely to lie below are left out."""
    kept = np.repeat(counts[None, :], len(p), axis=0)
    left = np.full(len(p), max_faulty)
    for column in np.argsort(p, axis=1).T if max_faulty else ():
        rows = np.arange(len(p))
        out = np.minimum(left, kept[rows, column])
        kept[rows, column] -= out
        left -= out
    return kept
