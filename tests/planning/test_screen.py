"""The second-order screen orders the search for ranks; its error bound decides what equal sites may skip."""

from fractions import Fraction

import numpy as np
import pytest

from fedconformal.laws import equal_moments
from fedconformal.planning._family import common_shares
from fedconformal.planning._screen import screen


def exact_rank(m, n, l, level, near):
    """The real-valued server rank at which the mean coverage is the level, by bisection round a guess."""
    low, high = max(near - 0.5, 1e-3), min(near + 0.5, m)
    if not equal_moments(m, n, l, low)[0] < level < equal_moments(m, n, l, high)[0]:
        return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if equal_moments(m, n, l, middle)[0] < level else (low, middle)
    return (low + high) / 2


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.05, 0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize(("m", "n"), [(5, 40), (60, 7), (300, 300), (25_000, 59), (1000, 20_000)])
def test_the_remainder_stays_far_inside_the_bound_that_the_search_allows(m, n, level):
    family = common_shares(np.array([n]), np.array([m]), Fraction(str(level)))
    look = screen(family, level, 0)
    compared = 0
    for i in range(0, len(family), max(1, len(family) // 12)):
        variance = look.count_std[i] ** 2
        if variance < 0.3:
            continue
        exact = exact_rank(m, n, int(family.ranks[i, 0, 0]), level, look.rank[i])
        if exact is not None:
            compared += 1
            assert abs(exact - look.rank[i]) < 0.05 / variance < look.rank_error[i]
    assert compared >= 1
