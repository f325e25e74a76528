"""The law of many sites' votes, by inverting its characteristic function.

Votes are whole numbers. Modulo an odd length L their law is made of (L + 1) / 2 frequencies, and where all
but a negligible part of it lies in a window of that length it is the law itself. Of a wide law only few
frequencies matter: the others are bounded first and left out.
"""

import math
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from fedconformal._typing import Floats, Ints
from fedconformal.laws._votes import Votes, masses

Complex = NDArray[np.complex128]

_NEGLIGIBLE = 40.0  # what is below exp(-40) is left out
_FEW = 100  # frequencies that are not worth bounding
_ROWS = 32  # laws whose frequencies are bounded together
_GAPS = 64  # differences between outcomes that are looked at to bound them
_MULTIPLY = 16  # powers up to this are multiplied out, larger ones are taken by logarithms
_TOGETHER = 16  # sites of one number and as many votes that are one factor
_HELD = 2**14  # numbers multiplied at once, so that they stay in the cache
_LONGEST = 2**22  # of a window


@dataclass(frozen=True, eq=False)
class Frame:
    """What laws are written in: an odd length, where the window of each row begins, and the frequencies."""

    length: int
    start: Ints
    frequencies: Ints

    def turns(self, steps: Ints) -> Complex:
        """exp(2 pi i steps / length)."""
        return self._turn(steps) + 1

    def _turn(self, steps: Ints) -> Complex:
        """The same less 1; many are looked up."""
        return self._circle[steps % self.length] if steps.size > self.length else turn(steps, self.length)

    @cached_property
    def _circle(self) -> Complex:
        return turn(np.arange(self.length), self.length)

    @cached_property
    def levels(self) -> Complex:
        """What a tail sum makes of each frequency."""
        return np.asarray(2 / self.length / (1 - self.turns(-self.frequencies)))

    @cached_property
    def ends(self) -> Complex:
        """The frequencies at the beginnings of the windows: shape (rows, frequencies)."""
        return self.turns(-self.start[:, None] * self.frequencies)

    def steps(self, cast: Ints) -> Complex:
        """What each further number below changes at the frequencies: shape (numbers, frequencies)."""
        turns = self._turn(cast[:, None] * self.frequencies)
        turns[1:] = np.diff(turns, axis=0)
        return turns

    def completed(self, waves: Floats, ks: Ints) -> Floats:
        """Tails of shape (..., rows, len(ks)), from what the frequencies say about them."""
        start = self.start[:, None]
        tails = np.clip((start + self.length - ks) / self.length + waves, 0.0, 1.0)
        return np.where(ks <= start, 1.0, np.where(ks >= start + self.length, 0.0, tails))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Laws of votes, one in each row, by their values at the frequencies of a frame."""

    frame: Frame
    values: Complex

    def tails(self, ks: Ints) -> Floats:
        """P(votes >= k) for every row and k, to an absolute error of about 1e-15."""
        level = self.values * self.frame.levels
        turns = self.frame.turns(-self.frame.frequencies[:, None] * ks)
        # One real product in place of a complex one is several times as fast.
        waves = np.hstack([level.real, level.imag]) @ np.vstack([turns.real, -turns.imag])
        ends = (level * self.frame.ends).real.sum(axis=1, keepdims=True)
        return self.frame.completed(waves - ends, ks)

    def discounted(self, ks: Ints, rate: Floats) -> Floats:
        """E[exp(-rate (votes - k)); votes >= k], with a k and a positive rate for each row."""
        frame = self.frame
        left = np.clip(frame.start + frame.length - ks, 0, frame.length)
        ratio = np.exp(-rate)[:, None] * frame.turns(-frame.frequencies)
        last = np.exp(-rate * left)[:, None] * frame.turns(-left[:, None] * frame.frequencies)
        waves = self.values * frame.turns(-ks[:, None] * frame.frequencies) * (1 - last) / (1 - ratio)
        constant = np.expm1(-rate * left) / np.expm1(-rate)
        return np.asarray(np.maximum(constant + 2 * waves.real.sum(axis=1), 0.0) / frame.length)


def turn(steps: Ints, length: int) -> Complex:
    """exp(2 pi i steps / length) - 1, with all digits however small or large the angle is."""
    half = _half_angle(steps, length)
    sine = np.sin(half)
    return np.asarray(2 * sine * (1j * np.cos(half) - sine))


def _half_angle(steps: Ints, length: int) -> Floats:
    """Pi times steps / length, from -pi / 2 to pi / 2."""
    return np.asarray(np.pi / length * ((steps + length // 2) % length - length // 2))


def spectral_tails(ks: Ints, p: Floats, votes: Votes) -> Floats:
    """P(votes >= k) for every k, to an absolute error of about 1e-15: shape (rows, len(ks))."""
    rows = _ROWS if votes.total > 2 * _FEW else _HELD // (votes.total + 1)
    parts = np.array_split(p, -(-len(p) // rows))
    return np.concatenate([spectrum(part, votes).tails(ks) for part in parts])


def spectrum(p: Floats, votes: Votes) -> Spectrum:
    """The spectrum of each row of probabilities."""
    frame = framed(p, votes)
    return Spectrum(frame, _values(p, votes, frame))


def framed(p: Floats, votes: Votes, *, given: int = 0, faulty: int = 0) -> Frame:
    """A frame for each row of probabilities: the window, and the frequencies that may matter.

    Parameters
    ----------
    p : array of shape (rows, blocks, numbers)
        Probability that at least 1, 2, ... numbers of a site of each block lie below.
    votes : Votes
        The sites and their votes.
    given, faulty : int
        The frame also holds the law in which so many sites cast up to so many votes for certain.

    Returns
    -------
    Frame

    Raises
    ------
    ValueError
        If there are too many votes to count.
    """
    start, length = _window(p, votes, given)
    return Frame(length, start, _essential(p, votes, length, faulty))


def _window(p: Floats, votes: Votes, given: int) -> tuple[Ints, int]:
    """Where the votes lie but for exp(-40), by Bernstein's inequality: first of each row, odd length."""
    step = _NEGLIGIBLE / 3 * float(votes.by_site.max())
    reach = math.ceil(step + math.sqrt(step**2 + 2 * _NEGLIGIBLE * float(votes.variance(p).max())))
    length = (min(votes.total, 2 * reach) + given + 1) | 1
    if length > _LONGEST:
        raise ValueError(f"weights must be smaller: {votes.total} votes are too many to count")
    first = np.floor(votes.mean(p)).astype(np.int64) - reach
    return np.clip(first, 0, max(votes.total + given + 1 - length, 0)), length


def _essential(p: Floats, votes: Votes, length: int, faulty: int) -> Ints:
    """The frequencies that may matter to any row.

    At frequency w the square of a site's characteristic function is 1 - 4 sum d_i d_j sin^2(w (s_i - s_j) /
    2) over its pairs of outcomes, so its logarithm is at most minus that sum, which is at most 1. Pairs
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
    """By how much two outcomes of a site differ, and how often at least, in any row, over all sites."""
    mass = masses(p)
    cast = np.concatenate([np.zeros((votes.counts.size, 1), dtype=np.int64), votes.cast], axis=1)
    i, j = np.triu_indices(cast.shape[1], 1)
    least = (mass[..., i] * mass[..., j]).min(axis=0) * votes.counts[:, None]
    gaps, which = np.unique((cast[:, j] - cast[:, i]).ravel(), return_inverse=True)
    return gaps, np.bincount(which.ravel(), weights=least.ravel(), minlength=gaps.size).astype(float)


def _values(p: Floats, votes: Votes, frame: Frame) -> Complex:
    """E[exp(2 pi i frequency votes / length)] for each row and frequency."""
    values = np.ones((len(p), frame.frequencies.size), dtype=complex)
    wide = max(1, _HELD // len(p))  # frequencies at once
    deep = max(1, _HELD // (len(p) * min(wide, max(frame.frequencies.size, 1))))  # blocks at once
    for count, cast, blocks in votes.kinds:
        some = p[:, blocks]
        if cast.size == 1 and blocks.size > 1 and count <= _MULTIPLY:
            some = _together(some[..., 0])
        steps = frame.steps(cast if cast.size > 1 else cast * np.arange(1, some.shape[2] + 1))
        for i in range(0, some.shape[1], deep):
            part = some[:, i : i + deep]
            for j in range(0, frame.frequencies.size, wide):
                values[:, j : j + wide] *= power(departures(part, steps[:, j : j + wide]), count)
    return values


def _together(p: Floats) -> Floats:
    """Sites of one number and one weight, a few at a time: how likely at least 1, 2, ... of them lie below.

    A few sites are then like one with several numbers, and there are fewer to multiply.
    """
    rows, blocks = p.shape
    size = min(_TOGETHER, blocks)
    groups = -(-blocks // size)
    each = np.zeros((size * groups, rows))
    each[:blocks] = p.T
    at_least = np.zeros((size + 1, groups, rows))
    at_least[0] = 1.0
    for i, one in enumerate(each.reshape(size, groups, rows)):
        at_least[1 : i + 2] += one * (at_least[: i + 1] - at_least[1 : i + 2])
    return at_least[1:].transpose(2, 1, 0)


def departures(p: Floats, steps: Complex) -> Complex:
    """E[exp(2 pi i frequency votes / length)] - 1 of one site of each block: (blocks, rows, frequencies)."""
    # Real numbers times the real and imaginary parts, side by side: several times as fast as complex ones.
    each, parts = p.transpose(1, 0, 2), np.ascontiguousarray(steps).view(float)
    return np.asarray(each @ parts).view(complex)


def power(departure: Complex, count: int) -> Complex:
    """The product over the first axis of (1 + departure), to the power of ``count``."""
    if count <= _MULTIPLY:
        once: Complex = np.multiply.reduce(departure + 1, axis=0)
        return reduce(np.multiply, [once] * count) if count else np.ones_like(once)
    # Close to 1 the logarithm of the absolute value needs the digits of the departure.
    size = np.log1p(2 * departure.real + departure.real**2 + departure.imag**2) / 2
    angle = np.arctan2(departure.imag, 1 + departure.real)
    return np.asarray(np.exp(count * (size + 1j * angle).sum(axis=0)))
