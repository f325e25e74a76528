"""The distribution in exact integers, for means too close to a level for floating point."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import comb, lcm

Ranks = Sequence[int | Sequence[int]]
Weights = Sequence[int | Sequence[int]]


def exact_mean(
    n_points: Sequence[int], local_ranks: Ranks, server_rank: int, *, weights: Weights | None = None
) -> Fraction:
    """Return the marginal coverage (Theorem 3.2, appendix A.1, weighted votes) of exact sites as a fraction.

    A site contributes the sum of C(n, i) z^i y^v(i), v(i) its votes when i of its points lie below; the
    power of z counts all points below, the power of y all votes. Polynomials are multiplied as integers in
    base 2^w (Kronecker), so the work is done by big-integer multiplication. The cost grows like (votes *
    points)^2 bits: meant for a few hundred points.

    Parameters
    ----------
    n_points : sequence of int
        Scores at each site.
    local_ranks : sequence of int or of sequences of int
        Rank that each site sends, or its increasing ranks; those above the site's size are +inf.
    server_rank : int
        Votes needed.
    weights : sequence of int or of sequences of int, optional
        Votes of all numbers of a site, or of each of them; 1 by default.

    Returns
    -------
    Fraction

    Examples
    --------
    >>> from fedconformal.laws import exact_mean
    >>> exact_mean([3, 3], [3, 2], 1)
    Fraction(13, 28)
    """
    total, votes = sum(n_points), [*_votes(n_points, local_ranks, weights)]
    last = sum(site[-1] for site in votes)
    if server_rank > last:
        return Fraction(1)
    width = total + 1  # all coefficients together are 2^total
    row = width * (total + 1)
    product = 1
    for n, cast in zip(n_points, votes, strict=True):
        product *= sum(comb(n, i) << (width * i + row * cast[i]) for i in range(n + 1))
    scale = lcm(*(comb(total, r) for r in range(total + 1)))
    mask, missed = (1 << width) - 1, 0
    enough = product >> (row * max(server_rank, 0))
    for _ in range(max(server_rank, 0), last + 1):
        line, enough = enough & ((1 << row) - 1), enough >> row
        missed += sum(((line >> (width * r)) & mask) * (scale // comb(total, r)) for r in range(total + 1))
    return 1 - Fraction(missed, scale * (total + 1))


def exact_cdf(
    n_points: Sequence[int],
    local_ranks: Ranks,
    server_rank: int,
    c: Fraction,
    *,
    weights: Weights | None = None,
) -> Fraction:
    """Return P(C <= c) for exact sites and a rational c.

    Parameters
    ----------
    n_points, local_ranks, server_rank : sequences and int
        As for ``exact_mean``.
    c : Fraction
        A coverage in [0, 1].
    weights : sequence, optional
        As for ``exact_mean``.

    Returns
    -------
    Fraction

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.laws import exact_cdf
    >>> exact_cdf([3, 3], [3, 2], 1, Fraction(1, 2))
    Fraction(9, 16)
    """
    masses = {0: Fraction(1)}
    for n, cast in zip(n_points, _votes(n_points, local_ranks, weights), strict=True):
        site: dict[int, Fraction] = {}
        for i in range(n + 1):
            site[cast[i]] = site.get(cast[i], Fraction(0)) + comb(n, i) * c**i * (1 - c) ** (n - i)
        longer: dict[int, Fraction] = {}
        for before, p in masses.items():
            for votes, q in site.items():
                longer[before + votes] = longer.get(before + votes, Fraction(0)) + p * q
        masses = longer
    return sum((p for votes, p in masses.items() if votes >= server_rank), Fraction(0))


def _votes(n_points: Sequence[int], local_ranks: Ranks, weights: Weights | None) -> list[list[int]]:
    """Return the votes that each site casts when 0, 1, ..., n of its points lie below."""
    return [
        _cast(n, ranks, weight)
        for n, ranks, weight in zip(n_points, local_ranks, weights or [1] * len(n_points), strict=True)
    ]


def _cast(n: int, ranks: int | Sequence[int], weight: int | Sequence[int]) -> list[int]:
    several = _tuple(ranks)
    gains, votes = [0] * (n + 1), _tuple(weight)
    for rank, gain in zip(several, votes * len(several) if len(votes) == 1 else votes, strict=True):
        if rank <= n:
            gains[rank] += gain
    return list(accumulate(gains))


def _tuple(value: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, value)) if isinstance(value, Sequence) else (int(value),)
