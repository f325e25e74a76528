"""Private selection of a quantile bin (paper, section 4 and Algorithm 2).

The rank error of bin b is the whole number ``s_b = max(L_b (d - a), G_b a)`` for the quantile a/d, where L_b
and G_b count the rounded scores strictly below and above its right edge. Neighbours replace one record: that
moves every s_b by an amount in [-(d-a), a] if the record goes up, and in [-a, d-a] if it goes down. Either
interval has width d. A mechanism depends on differences of errors only, so that the width is all that counts,
and loses at most d / scale.

Exactly drawn releases come from OpenDP alone; nothing here can be seeded.
"""

import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats, Ints
from fedconformal._validation import integer
from fedconformal.privacy._loss import scale_of
from fedconformal.privacy.analyses import Analysis
from fedconformal.privacy.mechanisms import Mechanism

_LARGEST = int(np.iinfo(np.int64).max)
_LARGEST_DENOMINATOR = 2**53


def check_quantile(quantile: Fraction) -> Fraction:
    """A fraction in [1/2, 1) whose denominator is exact in float64."""
    if not isinstance(quantile, Fraction):
        raise TypeError(f"quantile must be a Fraction in [1/2, 1), got {quantile!r}")
    if not Fraction(1, 2) <= quantile < 1:
        raise ValueError(f"quantile must be in [1/2, 1), got {quantile}")
    if quantile.denominator > _LARGEST_DENOMINATOR:
        raise ValueError(f"the denominator of quantile must be at most 2^53, got {quantile}")
    return quantile


def scale(quantile: Fraction, *, epsilon: float | Fraction, analysis: Analysis) -> float:
    """The scale of the noise, for which every mechanism is epsilon-private per replaced record."""
    return scale_of(analysis.width(check_quantile(quantile)), epsilon)


def rank_errors(counts: ArrayLike, quantile: Fraction) -> Ints:
    """``max(L_b (d - a), G_b a)`` of every bin, for counts per bin along the last axis."""
    a, d = check_quantile(quantile).as_integer_ratio()
    table = _counts(counts)
    at_most = np.cumsum(table, axis=-1)
    n = at_most[..., -1:]
    _check_size(int(n.max()), d)
    errors: Ints = np.maximum((at_most - table) * (d - a), (n - at_most) * a)
    return errors


def pmf(
    counts: ArrayLike,
    quantile: Fraction,
    *,
    epsilon: float | Fraction,
    analysis: Analysis,
    mechanism: Mechanism,
) -> Floats:
    """The probability with which each bin is released, for counts per bin along the last axis.

    Relative accuracy is about 1e-15 plus 1e-16 for each unit of (error - least error) / scale.
    """
    errors = rank_errors(counts, quantile)
    least = errors.min(axis=-1, keepdims=True)
    return mechanism.pmf(np.exp((least - errors) / scale(quantile, epsilon=epsilon, analysis=analysis)))


def release(
    counts: ArrayLike,
    quantile: Fraction,
    *,
    epsilon: float | Fraction,
    analysis: Analysis,
    mechanism: Mechanism,
) -> int:
    """Draw a bin (0 is the first) with exactly the probabilities of ``pmf``, by OpenDP's secure generator.

    Promise: epsilon-differentially private in the counts when one record is replaced. The number of records
    and the bins are public. How long the call takes is not protected.
    """
    return prepare(counts, quantile, epsilon=epsilon, analysis=analysis, mechanism=mechanism)()


def prepare(
    counts: ArrayLike,
    quantile: Fraction,
    *,
    epsilon: float | Fraction,
    analysis: Analysis,
    mechanism: Mechanism,
) -> Callable[[], int]:
    """Everything of ``release`` but the draw: what can be refused is refused here, before any charge."""
    errors = rank_errors(counts, quantile)
    if errors.ndim != 1:
        raise ValueError(f"counts must be one site's, a flat array, got shape {errors.shape}")
    # The width is that of the errors' changes, so that an analysis with too little noise is refused.
    draw = mechanism.measurement(
        scale(quantile, epsilon=epsilon, analysis=analysis), quantile.denominator, float(epsilon)
    )
    values = errors.tolist()
    return lambda: int(draw(values))


def tail(
    n: int,
    quantile: Fraction,
    n_bins: int,
    *,
    epsilon: float | Fraction,
    analysis: Analysis,
    mechanism: Mechanism,
) -> Floats:
    """Bounds T[r] >= P(R < r), r = 0..n+1, that hold for every data set of n scores in ``n_bins`` bins.

    R is the number of rounded scores that are <= the released edge. T is non-decreasing from 0 to 1.

    Proof: for each r the bins with R < r are bad. There are at most ``n_bins - 1`` of them, and some good bin
    has an error that is smaller by the r-th of the `gaps`. The mechanism's own tail does the rest.
    """
    n, n_bins = integer("n", n, low=1), integer("n_bins", n_bins, low=2)
    t = gaps(n, quantile) / scale(quantile, epsilon=epsilon, analysis=analysis)
    # The bound must also hold for the rounded number: 1e-12 covers exp's argument up to its underflow.
    bound = np.clip(mechanism.tail(t, n_bins) * (1 + 1e-12), sys.float_info.min, 1.0)
    return np.concatenate([[0.0], np.maximum.accumulate(bound), [1.0]])


def gaps(n: int, quantile: Fraction) -> Ints:
    """By how much every bin with R < r is worse than some other bin, r = 1..n, for every data set.

    Proof: a bin with R < r has at least n - r + 1 scores above it, hence an error of at least a (n-r+1). The
    bin of the r'-th smallest score, r' >= r, is none of these and has an error of at most
    max((r'-1)(d-a), (n-r') a). The gap is the first minus the smallest of the second.
    """
    a, d = check_quantile(quantile).as_integer_ratio()
    _check_size(n, d)
    rank = np.arange(1, n + 1, dtype=np.int64)
    best = np.maximum((rank - 1) * (d - a), (n - rank) * a)
    gap: Ints = a * (n - rank + 1) - np.minimum.accumulate(best[::-1])[::-1]
    return gap


def _counts(counts: ArrayLike) -> Ints:
    table = np.asarray(counts)
    if table.dtype.kind not in "iu":
        raise TypeError(f"counts must be whole numbers >= 0, got an array of {table.dtype}")
    if table.ndim == 0 or table.shape[-1] < 2 or table.size == 0:
        raise ValueError(f"counts must hold at least two bins, got shape {table.shape}")
    least, most = int(table.min()), int(table.max())
    if least < 0:
        raise ValueError(f"counts must be >= 0, got {least}")
    if most * table.shape[-1] > _LARGEST:
        raise ValueError(f"counts must add up in 64 bits, got {most} in one of {table.shape[-1]} bins")
    table = table.astype(np.int64)
    if not table.any(axis=-1).all():
        raise ValueError("counts must hold at least one score, got 0")
    return table


def _check_size(n: int, d: int) -> None:
    if n * d > _LARGEST:
        raise ValueError(f"n * d must be at most {_LARGEST} for a quantile a/d, got n={n} and d={d}")
