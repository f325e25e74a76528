"""The law of the votes in whole numbers: ways to choose points, never probabilities."""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from fedconformal.audit._sites import Honest, Kind

AFFORDABLE = 4e8
"""Work that counting in whole numbers may cost, in the units of `Effort`: a fraction of a second."""

_MOST_SITES = 20_000  # that are added one after the other
_STEP = 600  # work of adding one site to one sum, whatever its size
_SHORT = 70  # digits up to which long numbers are multiplied in the plain way


def cost(honest: Honest, *, bits: int, all_points: bool = False) -> float:
    """The work of a count in whole numbers, when a point takes so many bits.

    Parameters
    ----------
    honest : Honest
        The sites that are counted, and the votes they must reach.
    bits : int
        Bits that a point adds to a number.
    all_points : bool
        Whether the ways are told apart by how many points are chosen, as for moments.

    Returns
    -------
    float
        To be compared with ``AFFORDABLE``.
    """
    m, total = honest.n_sites, honest.n_points
    if m > _MOST_SITES:
        return math.inf
    numbers, largest = max(len(kind.ranks) for kind in honest.kinds), max(kind.n for kind in honest.kinds)
    most, single = max(1, min(honest.votes, honest.needed)), total / m * bits / 30
    product = single * min(1.0, (_SHORT / max(single, 1.0)) ** 0.42) + 2
    reducing = 2 * (total * bits / 30) ** 2  # the fraction to its lowest terms
    work = total * (_STEP + 0.02 * total**2) if all_points else reducing
    work += numbers * largest * (_STEP + largest * bits / 30)
    for i in range(m):
        sums = min(most, (numbers + 1) ** min(i, 64))
        work += sums * (numbers + 1) * (_STEP + product * single * i)
    return work


def counted_moments(honest: Honest) -> tuple[Fraction, Fraction]:
    """Mean and variance of the coverage when ``needed`` votes below put the threshold below.

    The new point has any number r of the N calibration points below it with the same probability 1/(N + 1),
    and these r are any r of the N. So the new point is missed with probability
    sum_r W_r / (binom(N, r) (N + 1)), where W_r counts the ways to choose r points such that the numbers
    among them have enough votes. A second new point gives the second moment. Polynomials in r are kept as
    whole numbers, one coefficient after the other.

    Parameters
    ----------
    honest : Honest
        The sites that are counted, and the votes they must reach.

    Returns
    -------
    mean, variance : Fraction
    """
    total = honest.n_points
    width = total + 1
    packed = _enough(honest, lambda kind: _ways(kind, width))
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


def counted_cdf(honest: Honest, level: Fraction) -> Fraction:
    """P(coverage <= level).

    Parameters
    ----------
    honest : Honest
        The sites that are counted, and the votes they must reach.
    level : Fraction
        Between 0 and 1.

    Returns
    -------
    Fraction
    """
    enough = _enough(honest, lambda kind: _ways_at(kind, level))
    return Fraction(enough, level.denominator**honest.n_points)


def likelihood(kind: Kind, level: Fraction) -> Fraction:
    """P(the first number of a site lies below a level).

    Parameters
    ----------
    kind : Kind
        Of the site.
    level : Fraction
        Between 0 and 1.

    Returns
    -------
    Fraction
    """
    return Fraction(_ways_above(kind.n, kind.ranks[0], level), level.denominator**kind.n)


def _ways_at(kind: Kind, level: Fraction) -> list[int]:
    """P(none, one, two, ... of a site's numbers lie below the level), times a power of its denominator."""
    above = [_ways_above(kind.n, rank, level) for rank in kind.ranks]
    return [
        more - fewer for more, fewer in zip([level.denominator**kind.n, *above], [*above, 0], strict=True)
    ]


def _ways_above(n: int, rank: int, level: Fraction) -> int:
    """P(at least ``rank`` of n points lie below the level), times the n-th power of its denominator."""
    yes, no = level.numerator, level.denominator - level.numerator
    ways, term = 0, yes**n
    for i in range(n, rank - 1, -1):
        ways += term
        term = term * (i * no) // ((n - i + 1) * yes)
    return ways


def _ways(kind: Kind, width: int) -> list[int]:
    """Ways to choose points such that none, one, two, ... of the numbers are among them; packed."""
    packed = [math.comb(kind.n, i) << (width * i) for i in range(kind.n + 1)]
    ends = zip([0, *kind.ranks], [*kind.ranks, kind.n + 1], strict=True)
    return [sum(packed[first:last]) for first, last in ends]


def _enough(honest: Honest, ways_of: Callable[[Kind], Sequence[int]]) -> int:
    """Ways in which the votes are reached; sums of votes that no longer can be are dropped."""
    ways_by_kind = {kind: ways_of(kind) for kind in honest.kinds}
    rest, needed = honest.votes, honest.needed
    law, enough = {0: 1}, 0
    for kind in honest.kinds.elements():
        cast, ways = kind.cast, ways_by_kind[kind]
        rest -= cast[-1]
        enough *= sum(ways)
        longer: dict[int, int] = {}
        for before, so_far in law.items():
            for votes, more in zip(cast, ways, strict=True):
                after = before + votes
                if after >= needed:
                    enough += so_far * more
                elif after + rest >= needed:
                    longer[after] = longer.get(after, 0) + so_far * more
        law = longer
    return enough


def _factorials(last: int) -> Iterator[int]:
    value = 1
    yield value
    for i in range(1, last + 1):
        value *= i
        yield value
