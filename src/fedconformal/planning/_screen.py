"""A look at all rank vectors at once, at the level alone: how many votes each needs, and what it gives.

Let S(c) be the votes below the coverage c, with mean mu(c) and variance V(c). Expanding
P(C <= c) = P(S(c) >= k) to second order round the level a gives the real-valued number of votes at which
E[C] = a,

    k* = mu + 1/2 + mu'' V / (2 mu'^2) - V' / (2 mu'),

a step of 1 / mu' in coverage from one vote to the next, and a standard deviation of sqrt(V) / mu'.
With one vote per site the error of k* is a small multiple of 1 / V. Nothing is decided here; it only orders
the work.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints
from fedconformal.planning._family import Family, over_numbers

_RANK_ERROR = 0.25  # |error of k*| * V; the tests find it below 0.05 for equal sites
_HELD = 2**21  # entries looked at together


@dataclass(frozen=True)
class Screen:
    """For each rank vector of a family."""

    rank: Floats  # k*
    rank_error: Floats  # k* is off by no more than this
    step: Floats  # coverage gained from one vote to the next
    std: Floats  # of the coverage at k*
    count_std: Floats  # of the votes below the level


def screen(family: Family, level: float, max_faulty: int) -> Screen:
    """Expand the law of every rank vector round the level."""
    size = max(1, _HELD // (family.n_points.size * family.numbers))
    parts = [
        _expanded(family, slice(start, start + size), level, max_faulty)
        for start in range(0, len(family), size)
    ]
    mean, variance, rise, bending, spreading = (np.concatenate(column) for column in zip(*parts, strict=True))
    variance, rise = np.maximum(variance, 1e-12), np.maximum(rise, 1e-12)
    rank = mean + 0.5 + bending * (variance / rise) / (2 * rise) - spreading / (2 * rise)
    std = np.sqrt(variance)
    return Screen(rank, _RANK_ERROR / variance, 1 / rise, std / rise, std)


def _expanded(family: Family, rows: slice, level: float, max_faulty: int) -> tuple[Floats, ...]:
    """Mean and variance of the votes at the level, and their derivatives."""
    p, slope, bend = _at_level(family.n_points, family.ranks[rows], level)
    votes = family.weights[rows].astype(float)
    # A site's indicator of a larger rank implies those of smaller ones, so its votes are W_i with probability
    # p_i - p_(i+1), W_i the votes of the first i: their square has the mean sum (W_i^2 - W_(i-1)^2) p_i.
    first = np.cumsum(votes, axis=2)
    squares = first**2
    squares[..., 1:] -= first[..., :-1] ** 2
    mean, change = over_numbers(votes * p), over_numbers(votes * slope)
    variance = over_numbers(squares * p) - mean**2
    spreading = over_numbers(squares * slope) - 2 * mean * change
    counts: Ints = np.broadcast_to(family.counts, mean.shape)
    lies: Floats | float = 0.0
    if max_faulty:
        whole = over_numbers(votes)
        counts = _honest(whole - mean, family.counts, max_faulty)
        lies = ((family.counts - counts) * whole).sum(axis=1)
    return (
        lies + (mean * counts).sum(axis=1),
        (variance * counts).sum(axis=1),
        (change * counts).sum(axis=1),
        (over_numbers(votes * bend) * counts).sum(axis=1),
        (spreading * counts).sum(axis=1),
    )


def _at_level(n_points: Ints, ranks: Ints, level: float) -> tuple[Floats, Floats, Floats]:
    """P(a number lies below the level's quantile) and its two derivatives, in the shape of the ranks.

    Most ranks of a block occur in many vectors: each is looked at once.
    """
    first = ranks.min(axis=(0, 2))
    widths = ranks.max(axis=(0, 2)) - first + 1
    if widths.sum() >= ranks.size:
        return _derivatives(np.broadcast_to(n_points[:, None], ranks.shape), ranks, level)
    before = np.cumsum(widths) - widths
    listed = np.arange(int(widths.sum())) + np.repeat(first - before, widths)
    places = ranks + (before - first)[:, None]
    p, slope, bend = (each[places] for each in _derivatives(np.repeat(n_points, widths), listed, level))
    return p, slope, bend


def _derivatives(n: Ints, l: Ints, level: float) -> tuple[Floats, Floats, Floats]:
    """The same of a Beta law, or of +inf."""
    finite = l <= n
    a, b = np.where(finite, l, 1).astype(float), np.where(finite, n - l + 1, 1).astype(float)
    p = np.where(finite, special.betainc(a, b, level), 0.0)
    log_slope = special.xlogy(a - 1, level) + special.xlog1py(b - 1, -level) - special.betaln(a, b)
    slope = np.where(finite, np.exp(log_slope), 0.0)
    return p, slope, slope * ((a - 1) / level - (b - 1) / (1 - level))


def _honest(gain: Floats, counts: Ints, f: int) -> Ints:
    """How many sites of each block stay when the f whose lies gain most votes are left out."""
    order = np.argsort(-gain, axis=1, kind="stable")
    there = counts[order]
    before = np.cumsum(there, axis=1) - there
    kept = np.empty_like(there)
    np.put_along_axis(kept, order, there - np.clip(f - before, 0, there), axis=1)
    return kept
