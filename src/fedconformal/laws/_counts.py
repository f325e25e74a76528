"""How many sites lie below: tails of a sum of independent binomial counts (the Poisson-binomial law)."""

import math

import numpy as np
from scipy import special

from fedconformal._typing import Floats, Ints

_SMALL = 16  # blocks up to this size are expanded into single sites
_DIRECT = 48  # shorter arrays are convolved directly, longer ones by FFT
_TAIL = 45.0  # counts whose Bernstein bound is below exp(-45) are left out
_HELD = 2**22  # numbers held at once while convolving


def count_tails(ks: Ints, p: Floats, counts: Ints) -> Floats:
    """P(count >= k) for every k.

    Parameters
    ----------
    ks : the thresholds, any integers (below 1 gives 1, above the number of sites gives 0).
    p : success probability of each block, shape (nodes, blocks).
    counts : how many sites each block has.

    Returns
    -------
    Array (nodes, len(ks)).
    """
    keep = counts > 0
    p, counts = p[:, keep], counts[keep]
    rows = max(1, _HELD // (int(counts.sum()) + 1) if counts.size > 1 else _HELD)
    parts = [_count_tails(ks, p[i : i + rows], counts) for i in range(0, len(p), rows)]
    return np.concatenate(parts) if parts else np.empty((0, ks.size))


def _count_tails(ks: Ints, p: Floats, counts: Ints) -> Floats:
    total = int(counts.sum())
    if counts.size == 1:
        return binomial_tail(ks, total, p)
    start, mass = _count_masses(p, counts)
    tail = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1]
    tail = np.concatenate([tail, np.zeros((len(p), 1))], axis=1)
    return np.clip(tail[:, np.clip(ks - start, 0, mass.shape[1])], 0.0, 1.0)


def binomial_tail(k: Ints, m: int, p: Floats) -> Floats:
    """P(Binomial(m, p) >= k), by the incomplete beta function; broadcasts."""
    proper = np.clip(k, 1, max(m, 1)).astype(float)
    tail = (
        special.betainc(proper, m - proper + 1, p) if m else np.zeros(np.broadcast_shapes(k.shape, p.shape))
    )
    return np.where(k < 1, 1.0, np.where(k > m, 0.0, tail))


def _count_masses(p: Floats, counts: Ints) -> tuple[int, Floats]:
    """The law of the count: its smallest value kept, and the probabilities from there on."""
    small = counts <= _SMALL
    parts = []
    if small.any():
        parts.append((0, _sum_of_bernoullis(np.repeat(p[:, small], counts[small], axis=1))))
    parts += [binomial_masses(p[:, b], int(counts[b])) for b in np.flatnonzero(~small)]
    while len(parts) > 1:
        parts.sort(key=lambda part: part[1].shape[1])
        (start1, mass1), (start2, mass2) = parts[:2]
        parts[:2] = [(start1 + start2, _convolve(mass1, mass2))]
    return parts[0]


def _sum_of_bernoullis(p: Floats) -> Floats:
    """Law of the number of successes, pairs of sites at a time."""
    masses = np.stack([1.0 - p, p], axis=-1)
    while masses.shape[1] > 1:
        if masses.shape[1] % 2:
            nothing = np.zeros((len(p), 1, masses.shape[2]))
            nothing[..., 0] = 1.0
            masses = np.concatenate([masses, nothing], axis=1)
        masses = _convolve(masses[:, 0::2], masses[:, 1::2])
    return masses[:, 0, : p.shape[1] + 1]


def binomial_masses(p: Floats, m: int) -> tuple[int, Floats]:
    """Binomial(m, p) probabilities over the counts that matter for any of the nodes.

    Ratios of neighbours are added in logarithms and the sum is normalised: for large m this keeps three
    more digits than factorials do.
    """
    mean, variance = m * p, m * p * (1 - p)
    reach = _TAIL / 3 + np.sqrt((_TAIL / 3) ** 2 + 2 * _TAIL * variance)
    first = max(0, math.floor(float(np.min(mean - reach))))
    last = min(m, math.ceil(float(np.max(mean + reach))))
    inside = np.clip(p, 1e-300, 1 - 2**-53)[:, None]
    count = np.arange(first, last)
    steps = np.log((m - count) / (count + 1)) + (np.log(inside) - np.log1p(-inside))
    logs = np.concatenate([np.zeros((len(p), 1)), np.cumsum(steps, axis=1)], axis=1)
    masses = np.exp(logs - logs.max(axis=1, keepdims=True))
    return first, masses / masses.sum(axis=1, keepdims=True)


def _convolve(first: Floats, second: Floats) -> Floats:
    """Convolution along the last axis."""
    long, short = (first, second) if first.shape[-1] >= second.shape[-1] else (second, first)
    size = long.shape[-1] + short.shape[-1] - 1
    if short.shape[-1] <= _DIRECT:
        out = np.zeros((*long.shape[:-1], size))
        for i in range(short.shape[-1]):
            out[..., i : i + long.shape[-1]] += long * short[..., i : i + 1]
        return out
    from scipy import fft  # only long convolutions need it

    length = fft.next_fast_len(size, real=True)
    product: Floats = fft.irfft(fft.rfft(long, length) * fft.rfft(short, length), length)[..., :size]
    return product


def honest_counts(p: Floats, counts: Ints, max_faulty: int) -> Ints:
    """How many sites of each block stay when the max_faulty least likely to lie below are left out."""
    order = np.argsort(p, axis=1, kind="stable")
    sorted_counts = counts[order]
    before = np.cumsum(sorted_counts, axis=1) - sorted_counts
    kept = np.empty_like(sorted_counts)
    np.put_along_axis(kept, order, sorted_counts - np.clip(max_faulty - before, 0, sorted_counts), axis=1)
    return kept
