"""Laws of votes in fractions, for the ways in which they are computed."""

from fractions import Fraction

import numpy as np

from fedconformal.laws._votes import Votes

GRID = 64


def random_votes(rng, *, blocks, numbers, most, counts=3):
    """Votes, and probabilities that are multiples of 1/64: at least 1, 2, ... numbers below."""
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
    """Ready to compute: thresholds, probabilities with one row, votes, and the exact tails."""
    votes, p = random_votes(np.random.default_rng(seed), **options)
    return np.arange(votes.total + 1), p[None] / GRID, votes, exact_tails(p, votes)
