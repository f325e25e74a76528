from math import comb

import numpy as np
import pytest

from fedconformal.laws import CoverageLaw, OrderStatistics
from fedconformal.privacy import Released
from support import kolmogorov_distance, kolmogorov_limit

TAIL = np.array([0.0, 0.05, 0.2, 0.2, 0.7, 1.0])  # of four scores


def sure(n, rank):
    """The tail of a site that always sends its score of this rank."""
    return (np.arange(n + 2) > rank).astype(float)


def test_below_is_the_expected_tail():
    c = np.array([[0.0, 0.2], [0.6, 0.97]])
    below = Released(np.array([4]), (TAIL,)).below(c)
    exact = sum(comb(4, x) * c**x * (1 - c) ** (4 - x) * TAIL[x + 1] for x in range(5))
    assert below.shape == (2, 2, 1)
    assert below[..., 0] == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (10, 9), (300, 271)])
def test_a_sure_rank_is_an_order_statistic(n, rank):
    c = np.linspace(0.01, 0.99, 37)
    private = Released(np.array([n]), (sure(n, rank),))
    exact = OrderStatistics(np.array([n]), np.array([rank]))
    assert private.below(c) == pytest.approx(exact.below(c), rel=1e-9, abs=1e-14)


def test_draws_follow_the_law():
    """10^5 draws; a right program fails with probability 1e-7."""
    sites, rng = Released(np.array([9, 4]), (sure(9, 8), TAIL)), np.random.default_rng(3)
    drawn = sites.rvs(1, (1000, 100), rng)
    assert drawn.shape == (1000, 100)
    distance = kolmogorov_distance(drawn.ravel(), lambda x: sites.below(x)[:, 1])
    # Rank 0 is a score below all others, which is drawn as 0.
    assert np.mean(drawn == 0) == pytest.approx(0.05, abs=kolmogorov_limit(10**5))
    assert distance <= 0.05 + kolmogorov_limit(10**5)


def test_rounding_does_not_carry_it_past_one():
    sites = Released(np.array([50]), (np.r_[0.0, np.ones(51)],))
    assert CoverageLaw.of_sites(sites, np.array([3]), server_rank=2).mean() == pytest.approx(0.0, abs=1e-12)
    assert np.all(sites.below(np.linspace(0, 1, 1001)) <= 1.0)
