"""Private selection of a quantile bin (paper, section 4 and Algorithm 2).

The badness of bin b is the integer ``s_b = max(L_b (d - a), G_b a)`` for the quantile a/d, where L_b and G_b
count the rounded scores strictly below and above its right edge. Neighbours replace one record: that moves
every s_b by an amount in an interval of length d, [-(d-a), a] or [-a, d-a].

Both mechanisms depend on differences of badness only, so such a change is as good as one in [0, d], and both
lose at most d / scale. Exactly drawn releases come from OpenDP alone; nothing here can be seeded.
"""

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fedconformal._checks import choice, fraction, integer
from fedconformal._extras import need

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MECHANISMS = ("permute-and-flip", "exponential")
CALIBRATIONS = ("range", "paper")

LARGEST_EPSILON = 100.0
"""Above this a release is not private in any useful sense: a probability may change by a factor of e^100."""

_LARGEST = int(np.iinfo(np.int64).max)
_LARGEST_DENOMINATOR = 2**53

_NODES, _WEIGHTS = (0.5 * x for x in special.roots_legendre(64))
_NODES = _NODES + 0.5
_WINDOW = 48.0


def check_epsilon(epsilon: float | Fraction) -> Fraction:
    """The privacy loss that is promised, exactly: in (0, 100].

    It is read both as the decimal that was written and as the float64 that was meant; the smaller counts.
    """
    written = fraction("epsilon", epsilon, high=LARGEST_EPSILON, closed=True)
    return min(written, Fraction(float(epsilon)))


def check_quantile(a: int, d: int) -> tuple[int, int]:
    """Two whole numbers whose ratio is a quantile in [1/2, 1)."""
    d = integer("d", d, low=2, high=_LARGEST_DENOMINATOR)
    a = integer("a", a, low=1)
    if not d <= 2 * a < 2 * d:
        raise ValueError(f"the quantile a/d must be in [1/2, 1), got {a}/{d}")
    return a, d


def scale(a: int, d: int, epsilon: float | Fraction, calibration: str) -> float:
    """The scale of the noise, for which either mechanism is epsilon-private per replaced record.

    ``"range"`` is d / epsilon. ``"paper"`` is 2 max(a, d-a) / epsilon, which is safe and wasteful: it loses
    at most epsilon d / (2 max(a, d-a)). Rounded up, so that rounding never costs privacy.
    """
    a, d = check_quantile(a, d)
    width = d if choice("calibration", calibration, CALIBRATIONS) == "range" else 2 * max(a, d - a)
    return scale_of(width, epsilon)


def scale_of(width: int, epsilon: float | Fraction) -> float:
    """``width / epsilon``, rounded up."""
    exact = width / check_epsilon(epsilon)
    if exact > sys.float_info.max:
        raise ValueError(f"epsilon must be at least {width / sys.float_info.max:.3g} here, got {epsilon}")
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def badness(counts: ArrayLike, a: int, d: int) -> Ints:
    """``max(L_b (d - a), G_b a)`` of every bin, for counts per bin along the last axis."""
    a, d = check_quantile(a, d)
    table = _counts(counts)
    at_most = np.cumsum(table, axis=-1)
    n = at_most[..., -1:]
    _check_size(int(n.max()), d)
    worse: Ints = np.maximum((at_most - table) * (d - a), (n - at_most) * a)
    return worse


def pmf(
    counts: ArrayLike, a: int, d: int, *, epsilon: float | Fraction, calibration: str, mechanism: str
) -> Floats:
    """The probability with which each bin is released, for counts per bin along the last axis.

    Relative accuracy is about 1e-15 plus 1e-16 for each unit of (badness - least badness) / scale.
    """
    choice("mechanism", mechanism, MECHANISMS)
    s = badness(counts, a, d)
    weights = np.exp((s.min(axis=-1, keepdims=True) - s) / scale(a, d, epsilon, calibration))
    if mechanism == "permute-and-flip":
        return _permute_and_flip(weights)
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def release(
    counts: ArrayLike, a: int, d: int, *, epsilon: float | Fraction, calibration: str, mechanism: str
) -> int:
    """Draw a bin (0 is the first) with exactly the probabilities of ``pmf``, by OpenDP's secure generator.

    Promise: epsilon-differentially private in the counts when one record is replaced. The number of records
    and the bins are public. How long the call takes is not protected.
    """
    return prepare(counts, a, d, epsilon=epsilon, calibration=calibration, mechanism=mechanism)()


def prepare(
    counts: ArrayLike, a: int, d: int, *, epsilon: float | Fraction, calibration: str, mechanism: str
) -> Callable[[], int]:
    """Everything of ``release`` but the draw: what can be refused is refused here, before any charge."""
    s = badness(counts, a, d)
    if s.ndim != 1:
        raise ValueError(f"counts must be one site's, a flat array, got shape {s.shape}")
    noise = scale(a, d, epsilon, calibration)
    draw = _measurement(choice("mechanism", mechanism, MECHANISMS), noise, int(d), float(epsilon))
    values = s.tolist()
    return lambda: int(draw(values))


def tail(
    n: int, a: int, d: int, B: int, *, epsilon: float | Fraction, calibration: str, mechanism: str
) -> Floats:
    """Bounds T[r] >= P(R < r), r = 0..n+1, that hold for every data set of n scores in B bins.

    R is the number of rounded scores that are <= the released edge. T is non-decreasing from 0 to 1.

    A bin with R < r has badness at least a (n-r+1). The bin of the r'-th smallest score, r' >= r, has at most
    max((r'-1)(d-a), (n-r') a); ``gap`` is the first minus the smallest of these. There are at most B - 1 bad
    bins, so with x = exp(-gap / scale) the exponential mechanism errs with probability at most
    (B-1) x / (1 + (B-1) x). Permute-and-flip asks the bins in random order; a bad bin says yes with
    probability at most x and some good bin always does, so it errs with probability at most
    ``1 - E[(1 - x U)^(B-1)]``, U uniform: about half as often. Where gap < 0 all bad bins may say yes, and
    the good one comes first and says yes with probability at least exp(gap / scale) / B: there, and only
    there, permute-and-flip may be worse than the exponential mechanism.
    """
    (a, d), n, B = check_quantile(a, d), integer("n", n, low=1), integer("B", B, low=2)
    _check_size(n, d)
    rank = np.arange(1, n + 1, dtype=np.int64)
    best = np.maximum((rank - 1) * (d - a), (n - rank) * a)
    gap = a * (n - rank + 1) - np.minimum.accumulate(best[::-1])[::-1]
    t = gap / scale(a, d, epsilon, calibration)
    if choice("mechanism", mechanism, MECHANISMS) == "exponential":
        bound = special.expit(math.log(B - 1) - t)
    else:
        bound = _permute_and_flip_tail(t, B)
    # The bound must also hold for the rounded number: 1e-12 covers exp's argument up to its underflow.
    bound = np.clip(bound * (1 + 1e-12), sys.float_info.min, 1.0)
    return np.concatenate([[0.0], np.maximum.accumulate(bound), [1.0]])


def _permute_and_flip(w: Floats) -> Floats:
    """``P(i) = w_i integral_0^1 prod_{j != i} (1 - w_j u) du``, where the largest w is 1.

    Permute-and-flip asks every bin at a uniform random time u; bin j says yes with probability w_j, and the
    first yes is released. (The same law as the largest of -s_j/scale + Exp(1), with u = exp(-winning value).)

    The product is at most exp(1 - u sum w), so beyond u = 48 / sum w nothing is left in float64, and within
    that window |product| <= exp(48 |u| / window) for complex u, from which 64 Gauss-Legendre nodes are off by
    less than 1e-60.
    """
    window = np.minimum(1.0, _WINDOW / w.sum(axis=-1, keepdims=True))
    no = np.log1p(-w[..., None, :] * (window * _NODES)[..., :, None])
    others_say_no = np.exp(no.sum(axis=-1, keepdims=True) - no)
    probability: Floats = w * window * (_WEIGHTS @ others_say_no)
    return probability


def _permute_and_flip_tail(t: Floats, B: int) -> Floats:
    """At most B - 1 bad bins say yes with probability exp(-t); rounded up, see ``tail``."""
    x = np.exp(-np.maximum(t, 0.0))
    with np.errstate(divide="ignore"):
        someone_says_yes = -np.expm1(B * np.log1p(-x))
    exact = 1.0 - someone_says_yes / (B * np.maximum(x, sys.float_info.min)) + 1e-15
    # Bernoulli's inequality, where the exact form would be all cancellation.
    bound = np.where(B * x < 1e-6, (B - 1) * x / 2, exact)
    return np.where(t < 0, 1.0 - np.exp(np.minimum(t, 0.0)) / B, bound)


@lru_cache(maxsize=16)
def _measurement(mechanism: str, noise: float, d: int, epsilon: float | Fraction) -> Any:
    """OpenDP's mechanism at this scale, refused unless OpenDP itself confirms the loss."""
    dp = need("opendp.prelude", extra="private")
    dp.enable_features("contrib")
    # Monotone: the interval of changes has length d, and shifting all badness alike changes nothing.
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.linf_distance(T=dp.i64, monotonic=True)
    flip = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=noise, negate=True)
    confirm_loss(flip.map(d), epsilon)
    if mechanism == "permute-and-flip":
        return flip
    # OpenDP states Gumbel noise in another measure; its pure loss has the same bound at the same scale.
    return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=noise, negate=True)


def confirm_loss(loss: float, epsilon: float | Fraction) -> None:
    """Refuse a mechanism whose loss OpenDP puts above what was promised."""
    if not loss <= epsilon:
        raise RuntimeError(
            f"OpenDP puts the privacy loss at {loss}, above epsilon={epsilon}: nothing was released"
        )


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
        raise ValueError(f"n * d must be at most {_LARGEST}, got n={n} and d={d}")
