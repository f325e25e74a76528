"""The expansion that orders the search for equal sites; its error bound decides what
may be skipped.
"""

from fractions import Fraction

import pytest

from fedconformal.laws._sites import equal_moments
from fedconformal.planning import Goal
from fedconformal.planning._ballot import equal_sites
from fedconformal.planning._search import _RANK_ERROR, _Expansion
from planning.plans import kinds


def exact_rank(m, n, l, level, near):
    """The real-valued server rank at which the mean coverage is the level, by bisection
    round a guess.
    """
    low, high = max(near - 0.5, 1e-3), min(near + 0.5, m)
    if not equal_moments(m, n, l, low)[0] < level < equal_moments(m, n, l, high)[0]:
        return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if equal_moments(m, n, l, middle)[0] < level
            else (low, middle)
        )
    return (low + high) / 2


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.99])
@pytest.mark.parametrize(("m", "n"), [(5, 40), (60, 7), (300, 300), (1000, 20_000)])
def test_the_remainder_stays_far_inside_the_bound_that_the_search_allows(m, n, level):
    goal = Goal(Fraction(str(level)))
    tried = equal_sites(kinds([n], [m]), goal)
    look, compared = _Expansion(tried, goal), 0
    for i in range(0, len(tried), max(1, len(tried) // 12)):
        variance = look.variance[i]
        exact = exact_rank(m, n, int(tried.ranks[i, 0, 0]), level, look.rank[i])
        if variance >= 0.3 and exact is not None:
            compared += 1
            assert abs(exact - look.rank[i]) < 0.2 * _RANK_ERROR / variance
    assert compared >= 1
