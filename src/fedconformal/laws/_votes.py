"""Votes of blocks of equal sites, and their distribution by its characteristic
function.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedconformal._util import Floats, Ints

Places = NDArray[np.intp]

MOST_ADDED = 64
"""Sites up to which votes are added up site by site."""

_MOST_SUMS = 2**16


@dataclass(frozen=True, eq=False)
class Votes:
    """Independent sites: ``counts[b]`` of block b, whose numbers are worth ``weights[b,
    0]``, ... votes.

    The numbers of a site are ordered, so i of them lie below exactly if the first i do:
    the site then casts the sum of its first i weights. Probabilities have the shape
    (rows, blocks, numbers) and say how likely at least 1, 2, ... numbers of a site of
    the block lie below; each row is a distribution of its own.
    """

    counts: Ints
    weights: Ints

    @cached_property
    def cast(self) -> Ints:
        """Votes of a site with 1, 2, ... numbers below: shape (blocks, numbers)."""
        return np.cumsum(self.weights, axis=1)

    @cached_property
    def by_site(self) -> Ints:
        """All votes of one site of each block."""
        return self.cast[:, -1]

    @cached_property
    def n_sites(self) -> int:
        """Number of sites."""
        return int(self.counts.sum())

    @cached_property
    def total(self) -> int:
        """All votes of all sites."""
        return int(self.counts @ self.by_site)

    @cached_property
    def unit(self) -> int:
        """Largest number of votes of which every weight is a multiple."""
        return math.gcd(*self.weights.ravel().tolist()) or 1

    @cached_property
    def kinds(self) -> list[tuple[int, Ints, Places]]:
        """Blocks with equal counts and votes: the count, the votes, and the blocks."""
        present = np.flatnonzero(self.counts > 0)
        rows = np.concatenate([self.counts[:, None], self.cast], axis=1)[present]
        kinds, which = np.unique(rows, axis=0, return_inverse=True)
        return [
            (int(kind[0]), kind[1:], present[which.ravel() == i])
            for i, kind in enumerate(kinds)
        ]

    @property
    def one_by_one(self) -> Ints:
        """Block of each site."""
        return np.repeat(np.arange(self.counts.size), self.counts)

    def mean(self, p: Floats) -> Floats:
        """Return the expected votes, for each row of probabilities."""
        return np.asarray(np.einsum("rbi,bi,b->r", p, self.weights, self.counts))

    def variance(self, p: Floats) -> Floats:
        """Return the variance of the votes, for each row of probabilities."""
        squares = np.diff(self.cast.astype(float) ** 2, axis=1, prepend=0)
        first, second = (
            np.einsum("rbi,bi->rb", p, steps) for steps in (self.weights, squares)
        )
        return np.asarray(np.maximum(second - first**2, 0.0) @ self.counts)


def heaviest(amounts: Iterable[int], counts: Iterable[int], n_sites: int) -> int:
    """Return the sum over the sites that have most, from the amount of each kind of
    site and their number.
    """
    total = 0
    for amount, count in sorted(zip(amounts, counts, strict=True), reverse=True):
        total += int(amount) * min(int(count), n_sites)
        n_sites -= min(int(count), n_sites)
    return total


def masses(p: Floats) -> Floats:
    """Return P(exactly 0, 1, ... numbers below), from those of at least 1, 2, ...: one
    entry more.
    """
    at_least = np.ones((*p.shape[:-1], p.shape[-1] + 2))
    at_least[..., 1:-1], at_least[..., -1] = p, 0.0
    exactly: Floats = np.maximum(at_least[..., :-1] - at_least[..., 1:], 0.0)
    return exactly


# -- the distribution of many sites' votes, by inverting its characteristic function ---

# Votes are whole numbers. Modulo an odd length L their distribution is made of (L + 1)
# / 2 frequencies, and where all but a negligible part of it lies in a window of that
# length it is the distribution itself. Of a wide one only few frequencies matter: the
# others are bounded first and left out.


Complex = NDArray[np.complex128]

_NEGLIGIBLE = 40.0  # what is below exp(-40) is left out
_FEW = 100  # frequencies that are not worth bounding
_ROWS = 32  # laws whose frequencies are bounded together
_GAPS = 64  # differences between outcomes that are looked at to bound them
_MULTIPLY = (
    16  # powers up to this are multiplied out, larger ones are taken by logarithms
)
_TOGETHER = 16  # sites of one number and as many votes that are one factor
_HELD = 2**14  # numbers multiplied at once, so that they stay in the cache
_LONGEST = 2**22  # of a window


@dataclass(frozen=True, eq=False)
class Frame:
    """Frame of characteristic functions: an odd length, the start of each row's window,
    the frequencies.
    """

    length: int
    start: Ints
    frequencies: Ints

    def turns(self, steps: Ints) -> Complex:
        """Return exp(2 pi i steps / length)."""
        return self._turn(steps) + 1

    def _turn(self, steps: Ints) -> Complex:
        """Return the same less 1; many are looked up."""
        return (
            self._circle[steps % self.length]
            if steps.size > self.length
            else turn(steps, self.length)
        )

    @cached_property
    def _circle(self) -> Complex:
        return turn(np.arange(self.length), self.length)

    @cached_property
    def levels(self) -> Complex:
        """Factors of the frequencies in a tail sum."""
        return np.asarray(2 / self.length / (1 - self.turns(-self.frequencies)))

    @cached_property
    def ends(self) -> Complex:
        """Frequencies at the beginnings of the windows: shape (rows, frequencies)."""
        return self.turns(-self.start[:, None] * self.frequencies)

    def steps(self, cast: Ints) -> Complex:
        """Return the change of each further number below, at the frequencies: (numbers,
        frequencies).
        """
        turns = self._turn(cast[:, None] * self.frequencies)
        turns[1:] = np.diff(turns, axis=0)
        return turns

    def complete(self, waves: Floats, ks: Ints) -> Floats:
        """Return tails of shape (..., rows, len(ks)) from their sums over
        frequencies.
        """
        start = self.start[:, None]
        tails = np.clip((start + self.length - ks) / self.length + waves, 0.0, 1.0)
        return np.where(
            ks <= start, 1.0, np.where(ks >= start + self.length, 0.0, tails)
        )


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Distributions of votes, one in each row, by their values at the frequencies of a
    frame.
    """

    frame: Frame
    values: Complex

    def tails(self, ks: Ints) -> Floats:
        """Return P(votes >= k) for every row and k, to an absolute error of about
        1e-15.
        """
        level = self.values * self.frame.levels
        turns = self.frame.turns(-self.frame.frequencies[:, None] * ks)
        # One real product in place of a complex one is several times as fast.
        waves = np.hstack([level.real, level.imag]) @ np.vstack(
            [turns.real, -turns.imag]
        )
        ends = (level * self.frame.ends).real.sum(axis=1, keepdims=True)
        return self.frame.complete(waves - ends, ks)

    def discount(self, ks: Ints, rate: Floats) -> Floats:
        """Return E[exp(-rate (votes - k)); votes >= k], with a k and a positive rate
        for each row.
        """
        frame = self.frame
        left = np.clip(frame.start + frame.length - ks, 0, frame.length)
        ratio = np.exp(-rate)[:, None] * frame.turns(-frame.frequencies)
        last = np.exp(-rate * left)[:, None] * frame.turns(
            -left[:, None] * frame.frequencies
        )
        waves = (
            self.values
            * frame.turns(-ks[:, None] * frame.frequencies)
            * (1 - last)
            / (1 - ratio)
        )
        constant = np.expm1(-rate * left) / np.expm1(-rate)
        return np.asarray(
            np.maximum(constant + 2 * waves.real.sum(axis=1), 0.0) / frame.length
        )


def turn(steps: Ints, length: int) -> Complex:
    """Return exp(2 pi i steps / length) - 1, with all digits however small or large the
    angle is.
    """
    half = _half_angle(steps, length)
    sine = np.sin(half)
    return np.asarray(2 * sine * (1j * np.cos(half) - sine))


def _half_angle(steps: Ints, length: int) -> Floats:
    """Return pi times steps / length, from -pi / 2 to pi / 2."""
    return np.asarray(np.pi / length * ((steps + length // 2) % length - length // 2))


def spectral_tails(ks: Ints, p: Floats, votes: Votes) -> Floats:
    """Return P(votes >= k) for every k, to an absolute error of about 1e-15: shape
    (rows, len(ks)).
    """
    rows = _ROWS if votes.total > 2 * _FEW else _HELD // (votes.total + 1)
    parts = np.array_split(p, -(-len(p) // rows))
    return np.concatenate([spectrum(part, votes).tails(ks) for part in parts])


def spectrum(p: Floats, votes: Votes) -> Spectrum:
    """Return the spectrum of each row of probabilities."""
    frame = make_frame(p, votes)
    return Spectrum(frame, _values(p, votes, frame))


def make_frame(p: Floats, votes: Votes, *, gift: int = 0, faulty: int = 0) -> Frame:
    """Return a frame for the rows of probabilities: windows, and the frequencies that
    may matter.

    Parameters
    ----------
    p : array of shape (rows, blocks, numbers)
        Probability that at least 1, 2, ... numbers of a site of each block lie below.
    votes : Votes
        The sites and their votes.
    gift, faulty : int
        The frame also fits distributions in which ``faulty`` sites cast up to ``gift``
        votes for certain.

    Returns
    -------
    Frame

    Raises
    ------
    ValueError
        If there are too many votes to count.
    """
    start, length = _window(p, votes, gift)
    return Frame(length, start, _essential(p, votes, length, faulty))


def _window(p: Floats, votes: Votes, gift: int) -> tuple[Ints, int]:
    """Return where the votes lie but for exp(-40), by Bernstein's inequality: starts,
    and odd length.
    """
    step = _NEGLIGIBLE / 3 * float(votes.by_site.max())
    reach = math.ceil(
        step + math.sqrt(step**2 + 2 * _NEGLIGIBLE * float(votes.variance(p).max()))
    )
    length = (min(votes.total, 2 * reach) + gift + 1) | 1
    if length > _LONGEST:
        raise ValueError(
            f"weights must be smaller: {votes.total} votes are too many to count"
        )
    first = np.floor(votes.mean(p)).astype(np.int64) - reach
    return np.clip(first, 0, max(votes.total + gift + 1 - length, 0)), length


def _essential(p: Floats, votes: Votes, length: int, faulty: int) -> Ints:
    """Return the frequencies that may matter to any row.

    At frequency w the square of a site's characteristic function is 1 - 4 sum d_i d_j
    sin^2(w (s_i - s_j) /
    2) over its pairs of outcomes, so its logarithm is at most minus that sum, which is
       at most 1. Pairs
    that are not looked at and faulty sites only keep more frequencies.
    """
    every = np.arange(1, (length + 1) // 2)
    if every.size <= _FEW:
        return every
    gaps, amounts = _gaps(p, votes)
    largest = np.argsort(-amounts)[:_GAPS]
    damping = np.zeros(every.size)
    for gap, amount in zip(gaps[largest], amounts[largest], strict=True):
        damping += 2 * amount * np.sin(_half_angle(every * gap, length)) ** 2
    return every[damping < _NEGLIGIBLE + faulty / 2]


def _gaps(p: Floats, votes: Votes) -> tuple[Ints, Floats]:
    """Return differences between two outcomes of a site, and their least frequency in
    any row, summed.
    """
    mass = masses(p)
    cast = np.concatenate(
        [np.zeros((votes.counts.size, 1), dtype=np.int64), votes.cast], axis=1
    )
    i, j = np.triu_indices(cast.shape[1], 1)
    least = (mass[..., i] * mass[..., j]).min(axis=0) * votes.counts[:, None]
    gaps, which = np.unique((cast[:, j] - cast[:, i]).ravel(), return_inverse=True)
    return gaps, np.bincount(
        which.ravel(), weights=least.ravel(), minlength=gaps.size
    ).astype(float)


def _values(p: Floats, votes: Votes, frame: Frame) -> Complex:
    """Return E[exp(2 pi i frequency votes / length)] for each row and frequency."""
    values = np.ones((len(p), frame.frequencies.size), dtype=complex)
    wide = max(1, _HELD // len(p))  # frequencies at once
    deep = max(
        1, _HELD // (len(p) * min(wide, max(frame.frequencies.size, 1)))
    )  # blocks at once
    for count, cast, blocks in votes.kinds:
        some = p[:, blocks]
        if cast.size == 1 and blocks.size > 1 and count <= _MULTIPLY:
            some = _combine_sites(some[..., 0])
        steps = frame.steps(
            cast if cast.size > 1 else cast * np.arange(1, some.shape[2] + 1)
        )
        for i in range(0, some.shape[1], deep):
            part = some[:, i : i + deep]
            for j in range(0, frame.frequencies.size, wide):
                values[:, j : j + wide] *= power(
                    departures(part, steps[:, j : j + wide]), count
                )
    return values


def _combine_sites(p: Floats) -> Floats:
    """Return, for groups of sites of one number and weight, P(at least 1, 2, ... of
    them lie below).

    A group is then like one site with several numbers, and there are fewer to multiply.
    """
    rows, blocks = p.shape
    size = min(_TOGETHER, blocks)
    groups = -(-blocks // size)
    single = np.zeros((size * groups, rows))
    single[:blocks] = p.T
    at_least = np.zeros((size + 1, groups, rows))
    at_least[0] = 1.0
    for i, one in enumerate(single.reshape(size, groups, rows)):
        at_least[1 : i + 2] += one * (at_least[: i + 1] - at_least[1 : i + 2])
    return at_least[1:].transpose(2, 1, 0)


def departures(p: Floats, steps: Complex) -> Complex:
    """Return E[exp(2 pi i frequency votes / length)] - 1 by block: (blocks, rows,
    frequencies).
    """
    # Real numbers times the real and imaginary parts, side by side: several times as
    # fast as complex ones.
    parts = np.ascontiguousarray(steps).view(float)
    return np.asarray(p.transpose(1, 0, 2) @ parts).view(complex)


def power(departure: Complex, count: int) -> Complex:
    """Return the product over the first axis of (1 + departure), to the power of
    ``count``.
    """
    if count <= _MULTIPLY:
        once: Complex = np.multiply.reduce(departure + 1, axis=0)
        return reduce(np.multiply, [once] * count) if count else np.ones_like(once)
    # Close to 1 the logarithm of the absolute value needs the digits of the departure;
    # 0 has none.
    square = 2 * departure.real + departure.real**2 + departure.imag**2
    size = np.log1p(np.maximum(square, np.finfo(float).eps - 1)) / 2
    angle = np.arctan2(departure.imag, 1 + departure.real)
    return np.asarray(np.exp(count * (size + 1j * angle).sum(axis=0)))


# -- P(votes >= k): in closed form, added up or by the characteristic function,
# whichever suits the sites --

# Added up site by site, all terms are positive, so even the smallest tail probabilities
# keep their digits. The characteristic function has an absolute error; tails far below
# it are found by exponential tilting: every site's distribution is multiplied by
# exp(rate * votes) and normalised, with the rate that brings the expected votes to k.
# Around k the tilted one has ordinary probabilities, of which the true tail is made:
# P(votes >= k) = M(rate) exp(-rate k) E_tilted[exp(-rate (votes - k)); votes >= k].


_FREQUENCIES = 150  # of a characteristic function that usually matter
_PATIENCE = 20  # how much longer the digits of small tails may take
_SMALL = 1e-5  # tails below it are computed again where their digits matter
_STEEPEST = (
    800.0  # beyond it an outcome as rare as the smallest number would be certain
)
_FLATTEST = 1e-9
_MOST_STEPS = 60


def vote_tails(ks: Ints, p: Floats, votes: Votes, *, digits: bool = True) -> Floats:
    """Return P(votes >= k) for every k.

    Parameters
    ----------
    ks : array
        The votes needed, any whole numbers (below 1 gives 1, more than there are gives
        0).
    p : array of shape (rows, blocks, numbers)
        Probability that at least 1, 2, ... numbers of a site of each block lie below.
    votes : Votes
        The sites and their votes.
    digits : bool
        Whether small tails must have a small relative error too; else the absolute
        error is about 1e-15.

    Returns
    -------
    array of shape (rows, len(ks))
    """
    inside = (ks >= 1) & (ks <= votes.total)
    tails = np.repeat((ks < 1)[None, :].astype(float), len(p), axis=0)
    if inside.any() and len(p):
        tails[:, inside] = _tails(ks[inside], p, votes, digits=digits)
    return tails


def _tails(ks: Ints, p: Floats, votes: Votes, *, digits: bool) -> Floats:
    alone = np.flatnonzero(votes.counts * votes.by_site > 0)
    if alone.size == 1 and p.shape[2] == 1:
        needed = -(-ks // votes.by_site[alone])
        return np.asarray(
            special.betainc(needed, votes.counts[alone] - needed + 1, p[:, alone, 0])
        )
    if p.shape[2] == 1 and ks.min() == votes.total:
        everybody = np.prod(
            p[:, :, 0] ** np.where(votes.by_site > 0, votes.counts, 0), axis=1
        )
        return np.repeat(everybody[:, None], ks.size, axis=1)
    if worth_adding(votes, len(p), digits=digits):
        return added_tails(ks, p, votes)
    tails = spectral_tails(ks, p, votes)
    if digits:
        rows, columns = np.nonzero(tails < _SMALL)
        tails[rows, columns] = tilted_tails(ks[columns], p[rows], votes)
    return tails


def worth_adding(votes: Votes, rows: int, *, digits: bool) -> bool:
    """Return whether adding up the votes of this many rows is faster than the
    characteristic function.

    The costs are rough, in microseconds: of the calls, and of the numbers that they
    work on.
    """
    if votes.n_sites > MOST_ADDED or votes.total > _MOST_SUMS:
        return False
    sums = float(np.cumsum(votes.by_site[votes.one_by_one]).sum())
    outcomes = votes.cast.shape[1] + 1
    added = outcomes * (8 * votes.n_sites + 0.002 * rows * sums)
    frequencies = min(votes.total / 2, _FREQUENCIES)
    otherwise = (
        200 + 60 * len(votes.kinds) + 0.01 * votes.counts.size * rows * frequencies
    )
    return bool(added < (_PATIENCE if digits else 1) * otherwise)


def added_tails(ks: Ints, p: Floats, votes: Votes) -> Floats:
    """Return P(votes >= k) for every row and k, each with a small relative error.

    Parameters
    ----------
    ks : array
        The votes needed.
    p : array of shape (rows, blocks, numbers)
        Probability that at least 1, 2, ... numbers of a site lie below.
    votes : Votes
        The sites and their votes.

    Returns
    -------
    array of shape (rows, len(ks))
    """
    exactly = np.ascontiguousarray(masses(p).T)  # numbers + 1, blocks, rows
    distribution = np.ones((1, len(p)))
    for b in votes.one_by_one:
        longer = np.zeros((len(distribution) + votes.by_site[b], len(p)))
        for mass, cast in zip(exactly[:, b], (0, *votes.cast[b].tolist()), strict=True):
            longer[cast : cast + len(distribution)] += distribution * mass
        distribution = longer
    tails = np.concatenate(
        [np.cumsum(distribution[::-1], axis=0)[::-1], np.zeros((1, len(p)))]
    )
    return np.asarray(np.minimum(tails[ks].T, 1.0))


def tilted_tails(ks: Ints, p: Floats, votes: Votes) -> Floats:
    """Return P(votes >= k) with a small relative error, a k for each row; for k above
    the expected votes.

    Parameters
    ----------
    ks : array of shape (rows,)
        The votes needed.
    p : array of shape (rows, blocks, numbers)
        Probability that at least 1, 2, ... numbers of a site lie below.
    votes : Votes
        The sites and their votes.

    Returns
    -------
    array of shape (rows,)
    """
    parts = range(0, ks.size, _ROWS)
    tails = [_tilted_tails(ks[i : i + _ROWS], p[i : i + _ROWS], votes) for i in parts]
    return np.concatenate(tails) if tails else np.empty(0)


def _tilted_tails(ks: Ints, p: Floats, votes: Votes) -> Floats:
    mean = np.einsum("rbi,bi->rb", p, votes.weights)
    cast = np.insert(votes.cast, 0, 0, axis=1) - mean[..., None]
    with np.errstate(divide="ignore"):
        logs = np.log(masses(p))
    needed = ks - mean @ votes.counts
    rate = _rate(needed, logs, cast, votes.counts)
    tilted = logs + rate[:, None, None] * cast
    normaliser = special.logsumexp(tilted, axis=2, keepdims=True)
    at_least = np.minimum(
        np.cumsum(np.exp(tilted - normaliser)[..., ::-1], axis=2)[..., -2::-1], 1.0
    )
    bound = np.exp(normaliser[..., 0] @ votes.counts - rate * needed)
    tails = bound * spectrum(at_least, votes).discount(ks, rate)
    most = np.where(np.isfinite(logs), cast, -np.inf).max(axis=2) @ votes.counts
    return np.where(needed > most + 0.5, 0.0, tails)


def _rate(needed: Floats, logs: Floats, cast: Floats, counts: Ints) -> Floats:
    """Return the rate at which the expected votes are about those needed: Newton's
    method in a bracket.
    """
    low, high = np.full(needed.shape, _FLATTEST), np.full(needed.shape, _STEEPEST)
    rate = low
    for _ in range(_MOST_STEPS):
        law = special.softmax(logs + rate[:, None, None] * cast, axis=2)
        mean = (law * cast).sum(axis=2)
        variance = np.maximum(
            (law * (cast - mean[..., None]) ** 2).sum(axis=2) @ counts, 1e-300
        )
        missing = (
            needed - 0.25 - mean @ counts
        )  # a little less than needed, for there may not be more
        if (np.abs(missing) <= np.maximum(0.2, np.sqrt(variance) / 10)).all():
            break
        low, high = np.where(missing > 0, rate, low), np.where(missing > 0, high, rate)
        step = rate + missing / variance
        rate = np.where((step > low) & (step < high), step, (low + high) / 2)
    return rate


def honest_counts(p: Floats, counts: Ints, max_faulty: int) -> Ints:
    """Return the sites of each block that stay without the ``max_faulty`` least likely
    to lie below.

    Parameters
    ----------
    p : array of shape (rows, blocks, ...)
        Probability that a site of each block lies below, or anything of the same order.
    counts : array of shape (blocks,)
        Number of sites of each block.
    max_faulty : int
        Number of sites that are left out.

    Returns
    -------
    array of the shape of ``p``

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal.laws._votes import honest_counts
    >>> honest_counts(np.array([[0.9, 0.1]]), np.array([3, 2]), 1)
    array([[3, 1]])
    """
    order = np.argsort(p, axis=1, kind="stable")
    sorted_counts = counts[order]
    before = np.cumsum(sorted_counts, axis=1) - sorted_counts
    kept = np.empty_like(sorted_counts)
    np.put_along_axis(
        kept,
        order,
        sorted_counts - np.clip(max_faulty - before, 0, sorted_counts),
        axis=1,
    )
    return kept
