"""Laws of votes by other means: strategies, brute force in fractions, and simulated
calibrations.
"""

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
from hypothesis import strategies as st

from fedconformal.laws import exact_cdf
from fedconformal.laws._votes import Votes

GRID = 64


def random_votes(rng, *, blocks, numbers, most, counts=3):
    """Votes, and probabilities that are multiples of 1/64: at least 1, 2, ... numbers
    below.
    """
    weights = rng.integers(1, most + 1, (blocks, numbers))
    p = -np.sort(-rng.integers(0, GRID + 1, (blocks, numbers)), axis=1)
    return Votes(rng.integers(1, counts + 1, blocks), weights), p


def exact_tails(p, votes):
    """P(votes >= k) for k = 0, 1, ..., all votes, in fractions."""
    law = [Fraction(1)]
    for b, count in enumerate(votes.counts.tolist()):
        at_least = [Fraction(1), *(Fraction(int(x), GRID) for x in p[b]), Fraction(0)]
        for _ in range(count):
            longer = [Fraction(0)] * (len(law) + int(votes.by_site[b]))
            for i, cast in enumerate((0, *votes.cast[b].tolist())):
                for s, mass in enumerate(law):
                    longer[s + cast] += mass * (at_least[i] - at_least[i + 1])
            law = longer
    tails = [Fraction(0)]
    for mass in reversed(law):
        tails.append(tails[-1] + mass)
    return [float(tail) for tail in tails[:0:-1]]


def cases(seed, **options):
    """Ready to compute: thresholds, probabilities with one row, votes, and the exact
    tails.
    """
    votes, p = random_votes(np.random.default_rng(seed), **options)
    return np.arange(votes.total + 1), p[None] / GRID, votes, exact_tails(p, votes)


def tuples(value, numbers):
    """One weight for all numbers of a site, or one for each, as a tuple."""
    return (value,) * numbers if isinstance(value, int) else tuple(value)


def totals(ranks, weights):
    """All votes of each site."""
    return [sum(tuples(w, len(r))) for r, w in zip(ranks, weights, strict=True)]


@st.composite
def federations(draw, *, sites=5, points=12, most=6):
    """Sizes, ranks (up to three per site, +inf among them), weights, and votes
    needed.
    """
    sizes = draw(st.lists(st.integers(1, points), min_size=1, max_size=sites))
    ranks, weights = [], []
    for n in sizes:
        ranks.append(
            tuple(sorted(draw(st.sets(st.integers(1, n + 1), min_size=1, max_size=3))))
        )
        several = st.tuples(*[st.integers(1, most)] * len(ranks[-1]))
        weights.append(draw(st.integers(1, most) | several))
    return sizes, ranks, weights, draw(st.integers(1, sum(totals(ranks, weights)) + 1))


def plain_cdf(sizes, ranks, weights, k, c):
    """P(C <= c) by going through the numbers of points below at all sites."""
    total = Fraction(0)
    for below in product(*(range(n + 1) for n in sizes)):
        votes = sum(
            sum(
                w
                for rank, w in zip(r, tuples(weight, len(r)), strict=True)
                if rank <= i <= n
            )
            for i, n, r, weight in zip(below, sizes, ranks, weights, strict=True)
        )
        if votes >= k:
            mass = Fraction(1)
            for i, n in zip(below, sizes, strict=True):
                mass *= comb(n, i) * c**i * (1 - c) ** (n - i)
            total += mass
    return total


def worst_cdf(sizes, ranks, weights, k, c, faulty):
    """The largest P(C <= c) of any set of faulty sites that send -inf."""
    votes = totals(ranks, weights)
    tails = []
    for chosen in combinations(range(len(sizes)), faulty):
        honest = [j for j in range(len(sizes)) if j not in chosen]
        kept = ([column[j] for j in honest] for column in (sizes, ranks, weights))
        n, l, w = kept
        tails.append(exact_cdf(n, l, k - sum(votes[j] for j in chosen), c, weights=w))
    return max(tails)
