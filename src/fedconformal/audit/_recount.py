"""The law of coverage a second time, by counting: nothing is shared with `fedconformal.laws`.

Small federations are counted in whole numbers. Larger ones take binomial probabilities as products of their
neighbours' ratios, counts of unequal sites by Fourier inversion, and integrals by the double-exponential
rule, so that no special function and no quadrature of the package is used a second time.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedconformal._typing import Floats, Ints

Tick = Callable[[], None]

MEAN_ERROR = 2e-13
"""Means that were not counted are right to this much; the tests compare them with exact fractions."""

_AFFORDABLE = 6e9  # digit operations that counting in whole numbers may cost: a second or two
_NOTHING = 1e-26  # terms of a binomial sum below this share of the largest are left out
_BLOCK = 4096  # such terms added at a time, at the most
_EXPONENT = 50.0  # counts whose Bernstein bound is below exp(-50) are left out
_STEP, _REACH = 1 / 16, 3.4  # of the double-exponential rule
_TOLERANCE = 1e-14  # of an integral over one interval
_NOISE = 1e-13  # a probability that counts as none when the window is looked for


@dataclass(frozen=True)
class Recount:
    """The law for sites of these sizes that sent these ranks, at most ``max_faulty`` of them anything.

    Parameters
    ----------
    sizes, ranks : sequence of int
        How many scores each site has, and the rank it sent.
    server_rank : int
        Votes that the threshold needs.
    max_faulty : int
        How many reports may be arbitrary.
    tick : callable
        Called now and then while this works.
    """

    sizes: Sequence[int]
    ranks: Sequence[int]
    server_rank: int
    max_faulty: int = 0
    tick: Tick = lambda: None

    @cached_property
    def _groups(self) -> Counter[tuple[int, int]]:
        return Counter(zip(self.sizes, self.ranks, strict=True))

    @property
    def _needed(self) -> int:
        """Honest reports that must lie below for the threshold to lie below, if all faulty ones do."""
        return self.server_rank - self.max_faulty

    @cached_property
    def certain(self) -> Fraction | None:
        """The coverage where it is not random."""
        finite = sum(rank <= n for n, rank in zip(self.sizes, self.ranks, strict=True))
        if self._needed < 1:
            return Fraction(0)
        return Fraction(1) if self._needed > min(finite, len(self.sizes) - self.max_faulty) else None

    # -- in whole numbers ------------------------------------------------------------------------------

    @cached_property
    def honest(self) -> tuple[list[int], list[int]] | None:
        """Sizes and ranks of the honest sites at their worst, if these are the same at every coverage."""
        sites = list(zip(self.sizes, self.ranks, strict=True))
        finite = [kind for kind in sites if kind[1] <= kind[0]]
        if self.max_faulty and len(set(finite)) > 1:
            return None
        infinite = [
            kind for kind in sites if kind[1] > kind[0]
        ]  # least likely to lie below, so left out first
        kept = [*finite, *infinite][: len(sites) - self.max_faulty]
        return [n for n, _ in kept], [rank for _, rank in kept]

    @property
    def countable(self) -> bool:
        """Whether mean and variance can be had in whole numbers within seconds."""
        if self.certain is not None or self._beta is not None:
            return True
        if self.honest is None:
            return False
        sizes, _ = self.honest
        return _cost(sizes, self._needed, bits=sum(sizes)) < _AFFORDABLE

    @property
    def _beta(self) -> tuple[int, int] | None:
        """(rank, points) when one rank of independent points is kept: one site, or one point at each."""
        if self.honest is None:
            return None
        sizes, ranks = self.honest
        if len(sizes) == 1:
            return ranks[0], sizes[0]
        return (self._needed, len(sizes)) if set(sizes) == set(ranks) == {1} else None

    @property
    def half(self) -> bool:
        """Whether the mean is 1/2 by symmetry: every site sends its median and the server keeps theirs."""
        if self.honest is None:
            return False
        middle = all(2 * rank == n + 1 for n, rank in zip(*self.honest, strict=True))
        return middle and 2 * self._needed == len(self.honest[0]) + 1

    def exact_moments(self) -> tuple[Fraction, Fraction]:
        """Mean and variance of the coverage as fractions; for a ``countable`` law."""
        if self.certain is not None:
            return self.certain, Fraction(0)
        if self._beta is not None:
            rank, n = self._beta
            return Fraction(rank, n + 1), Fraction(rank * (n - rank + 1), (n + 1) ** 2 * (n + 2))
        if self.honest is None:
            raise ValueError("the worst choice of faulty sites is not the same at every coverage")
        return counted_moments(*self.honest, self._needed)

    def countable_at(self, level: Fraction) -> bool:
        """Whether the cdf at this level can be had in whole numbers within seconds."""
        bits = level.denominator.bit_length()
        return self.certain is not None or _cost(self.sizes, self._needed, bits=bits) < _AFFORDABLE

    def exact_cdf(self, level: Fraction) -> Fraction:
        """P(coverage <= level) as a fraction."""
        if self.certain is not None:
            return 1 - self.certain
        base = level.denominator
        ways = {(n, rank): ways_above(n, rank, level) for n, rank in self._groups}
        likely = sorted(self._groups.elements(), key=lambda kind: -Fraction(ways[kind], base ** kind[0]))
        honest = likely[: len(likely) - self.max_faulty]
        law = [1]
        for kind in honest:
            law = _one_more(law, ways[kind], base ** kind[0] - ways[kind], self._needed)
        return Fraction(law[self._needed], base ** sum(n for n, _ in honest))

    # -- in floating point -----------------------------------------------------------------------------

    def cdf(self, c: Floats) -> Floats:
        """P(coverage <= c) for coverages strictly between 0 and 1."""
        if self.certain is not None:
            return np.full(c.shape, 1.0 - float(self.certain))
        tails = [binomial_tails(n, rank, c, 1 - c) for n, rank in self._groups]
        p, q = (np.stack([pair[i] for pair in tails], axis=1) for i in (0, 1))
        counts = np.array(list(self._groups.values()))
        self.tick()
        return at_least(self._needed, p, q, _without(self.max_faulty, p, counts))

    def moments(self) -> tuple[float, float]:
        """Mean and variance of the coverage, the mean to within ``MEAN_ERROR``."""
        if self.certain is not None:
            return float(self.certain), 0.0
        low, high = self._window()
        width = high - low

        def integrand(u: Floats) -> Floats:
            cdf = self.cdf(low + width * u)
            return np.stack([cdf, u * cdf])

        area, lever = integral(integrand, tolerance=_TOLERANCE / width)
        return high - width * float(area), width**2 * max(0.0, float(1 - 2 * lever - (1 - area) ** 2))

    def _window(self) -> tuple[float, float]:
        """Where the cdf is neither 0 nor 1, by looking ever closer."""
        low, high = 0.0, 1.0
        while True:
            grid = np.linspace(low, high, 19)[1:-1]
            cdf = self.cdf(grid)
            left = float(np.max(grid[cdf <= _NOISE], initial=low))
            right = float(np.min(grid[cdf >= 1 - _NOISE], initial=high))
            narrower = right - left < (high - low) / 2
            low, high = left, right
            if not narrower:
                return low, high


# -- whole numbers -----------------------------------------------------------------------------------------


def counted_moments(sizes: Sequence[int], ranks: Sequence[int], needed: int) -> tuple[Fraction, Fraction]:
    """Mean and variance of the coverage when ``needed`` reports below put the threshold below.

    The new point has any number r of the N calibration points below it with the same probability 1/(N + 1),
    and these r are any r of the N. So the new point is missed with probability
    sum_r W_r / (binom(N, r) (N + 1)), where W_r counts the ways to choose r points such that enough sites
    have their rank among them. A second new point gives the second moment. Polynomials in r are kept as
    whole numbers, one coefficient after the other.
    """
    total = sum(sizes)
    width = total + 1
    ways = [1]
    for n, rank in zip(sizes, ranks, strict=True):
        inside = [math.comb(n, i) << (width * i) for i in range(n + 1)]
        ways = _one_more(ways, sum(inside[rank:]), sum(inside[:rank]), needed)
    packed = ways[needed]
    mask = (1 << width) - 1
    factorial = list(_factorials(total + 2))
    missed = both = 0
    for r in range(total + 1):
        share = ((packed >> (width * r)) & mask) * factorial[r] * factorial[total - r]
        missed += share
        both += share * (r + 1)
    mean = 1 - Fraction(missed, factorial[total + 1])
    square = 1 - 2 * Fraction(both, factorial[total + 2])
    return mean, square - mean**2


def _one_more(law: list[int], above: int, below: int, needed: int) -> list[int]:
    """The law of a count after one more site; ``needed`` and more are one and the same."""
    step = [a * below + b * above for a, b in zip([*law, 0], [0, *law], strict=True)]
    if len(law) > needed:
        step[needed:] = [step[needed] + law[needed] * above]
    return step


def _factorials(last: int) -> Iterator[int]:
    value = 1
    yield value
    for i in range(1, last + 1):
        value *= i
        yield value


def ways_above(n: int, rank: int, level: Fraction) -> int:
    """P(at least ``rank`` of n points lie below the level), times the n-th power of its denominator."""
    yes, no = level.numerator, level.denominator - level.numerator
    ways, term = 0, yes**n
    for i in range(n, rank - 1, -1):
        ways += term
        term = term * (i * no) // ((n - i + 1) * yes)
    return ways


def _cost(sizes: Sequence[int], needed: int, *, bits: int) -> float:
    """Digit operations of a count in whole numbers, when a point takes so many bits."""
    m, total = len(sizes), sum(sizes)
    single, whole = total / m * bits / 30, total * bits / 30
    return m * min(m, needed) * (100 + single * whole) + max(sizes) * (max(sizes) * bits / 30)


# -- floating point ----------------------------------------------------------------------------------------


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
        product *= factor if np.all(counts[:, g] == 1) else factor ** counts[:, g, None]
    return product


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


def integral(f: Callable[[Floats], Floats], *, tolerance: float) -> Floats:
    """Integrals over [0, 1] of the functions that ``f`` stacks, by the double-exponential rule.

    An interval is halved until the rule agrees with itself at twice the step.
    """
    t = _STEP * np.arange(-round(_REACH / _STEP), round(_REACH / _STEP) + 1)
    nodes = 1 / (1 + np.exp(-np.pi * np.sinh(t)))
    weights = _STEP * np.pi * np.cosh(t) * nodes * nodes[::-1]
    total: Floats | float = 0.0
    panels = [(0.0, 1.0)]
    while panels:
        low, high = panels.pop()
        values = f(low + (high - low) * nodes) * weights * (high - low)
        fine, coarse = values.sum(axis=1), 2 * values[:, ::2].sum(axis=1)
        if np.abs(fine - coarse).max() <= tolerance or high - low < 1e-9:
            total = total + fine
        else:
            middle = (low + high) / 2
            panels += [(low, middle), (middle, high)]
    return np.asarray(total)
