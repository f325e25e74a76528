"""Histograms of a few scores, and whether draws agree with their probabilities."""

from itertools import combinations_with_replacement, product

import numpy as np
from scipy import stats

from support import FALSE_ALARM


def all_counts(n, B):
    """Every way to put n scores into B bins."""
    places = combinations_with_replacement(range(B), n)
    return np.array([np.bincount(place, minlength=B) for place in places])


def neighbours(table):
    """Every pair of rows that differ by one replaced record."""
    row = {tuple(counts): i for i, counts in enumerate(table.tolist())}
    B = table.shape[1]
    for counts, i in row.items():
        for x, y in product(range(B), repeat=2):
            if x != y and counts[x]:
                moved = list(counts)
                moved[x], moved[y] = moved[x] - 1, moved[y] + 1
                yield i, row[tuple(moved)]


def counts_alarm(observed, probability):
    """Whether a count is outside its binomial limits, by chance with probability
    FALSE_ALARM at most.
    """
    runs, p = observed.sum(), np.clip(probability, 0, 1)
    tail = np.minimum(
        stats.binom.cdf(observed, runs, p), stats.binom.sf(observed - 1, runs, p)
    )
    return bool(np.any(tail < FALSE_ALARM / (2 * p.size)))
