"""Private selection of a bin near a quantile (paper, section 4 and Algorithm 2, and beyond).

An `Aim` gives every bin an error, a whole number; a mechanism draws a bin, preferring small errors; an
analysis says how much noise there is. Replacing one record moves all errors by amounts in one interval, and a
mechanism loses at most the width of that interval over the scale.

Exactly drawn releases come from OpenDP alone; nothing here can be seeded.
"""

import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._typing import Floats, Ints
from fedconformal._validation import integer
from fedconformal.privacy._aims import Aim
from fedconformal.privacy._loss import scale_of
from fedconformal.privacy.analyses import Analysis
from fedconformal.privacy.mechanisms import Mechanism

_LARGEST = int(np.iinfo(np.int64).max)


def scale(aim: Aim, *, epsilon: float | Fraction, analysis: Analysis) -> float:
    """The scale of the noise, for which every mechanism is epsilon-private per replaced record."""
    return scale_of(analysis.width(aim), epsilon)


def rank_errors(counts: ArrayLike, aim: Aim) -> Ints:
    """The error of every bin, for counts per bin along the last axis."""
    table = _counts(counts)
    at_most = np.cumsum(table, axis=-1)
    n = at_most[..., -1:]
    aim.check_size(int(n.max()))
    return aim.errors(at_most - table, at_most, n)


def pmf(
    counts: ArrayLike,
    aim: Aim,
    *,
    epsilon: float | Fraction,
    analysis: Analysis,
    mechanism: Mechanism,
) -> Floats:
    """The probability with which each bin is released, for counts per bin along the last axis.

    Relative accuracy is about 1e-15 plus 1e-16 for each unit of (error - least error) / scale.
    """
    errors = rank_errors(counts, aim)
    least = errors.min(axis=-1, keepdims=True)
    return mechanism.pmf(np.exp((least - errors) / scale(aim, epsilon=epsilon, analysis=analysis)))


def release(
    counts: ArrayLike,
    aim: Aim,
    *,
    epsilon: float | Fraction,
    analysis: Analysis,
    mechanism: Mechanism,
) -> int:
    """Draw a bin (0 is the first) with exactly the probabilities of ``pmf``, by OpenDP's secure generator.

    Promise: epsilon-differentially private in the counts when one record is replaced. The number of records
    and the bins are public. How long the call takes is not protected.
    """
    return prepare(counts, aim, epsilon=epsilon, analysis=analysis, mechanism=mechanism)()


def prepare(
    counts: ArrayLike,
    aim: Aim,
    *,
    epsilon: float | Fraction,
    analysis: Analysis,
    mechanism: Mechanism,
) -> Callable[[], int]:
    """Everything of ``release`` but the draw: what can be refused is refused here, before any charge."""
    errors = rank_errors(counts, aim)
    if errors.ndim != 1:
        raise ValueError(f"counts must be one site's, a flat array, got shape {errors.shape}")
    # The width is that of the errors' changes, so that an analysis with too little noise is refused.
    draw = mechanism.measurement(scale(aim, epsilon=epsilon, analysis=analysis), aim.change, float(epsilon))
    values = errors.tolist()
    return lambda: int(draw(values))


def tail(
    n: int,
    aim: Aim,
    n_bins: int,
    *,
    epsilon: float | Fraction,
    analysis: Analysis,
    mechanism: Mechanism,
) -> Floats:
    """Bounds T[r] >= P(R < r), r = 0..n+1, that hold for every data set of n scores in ``n_bins`` bins.

    R is the number of rounded scores that are <= the released edge. T is non-decreasing from 0 to 1.
    """
    n = integer("n", n, low=1)
    aim.check_size(n)
    bound = bounds(
        n, aim, n_bins, np.arange(1, n + 1), epsilon=epsilon, analysis=analysis, mechanism=mechanism
    )
    return np.concatenate([[0.0], bound, [1.0]])


def bounds(
    n: int,
    aim: Aim,
    n_bins: int,
    ranks: Ints,
    *,
    epsilon: float | Fraction,
    analysis: Analysis,
    mechanism: Mechanism,
) -> Floats:
    """Bounds on P(R < r) for increasing ranks r from 1 to n.

    Proof: for each r the bins with R < r are bad. There are at most ``n_bins - 1`` of them, and some good bin
    has an error that is smaller by the gap of r. The mechanism's own tail does the rest.
    """
    n_bins = integer("n_bins", n_bins, low=2)
    t = aim.gaps(n, ranks) / scale(aim, epsilon=epsilon, analysis=analysis)
    # The bound must also hold for the rounded number: 1e-12 covers exp's argument up to its underflow.
    bound = np.clip(mechanism.tail(t, n_bins) * (1 + 1e-12), sys.float_info.min, 1.0)
    return np.maximum.accumulate(bound)


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
