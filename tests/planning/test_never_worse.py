"""A plan is never worse than its largest site alone, nor than the same plan with fewer numbers per site."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedconformal.planning import CRITERIA, PROMISES, Exact, Goal, Sites

POPULATION = PROMISES["population"]()
FEDERATIONS = 8


def drawn(rng):
    """From 2 to 8 sites of 3 to 400 points: half of the federations evenly spread, half by orders of size."""
    m = int(rng.integers(2, 9))
    if rng.random() < 0.5:
        return rng.integers(3, 401, size=m)
    return np.exp(rng.uniform(math.log(3), math.log(400), size=m)).astype(int)


def planned_cost(sizes, goal, numbers):
    """What the best design costs, and the design; infinite if there is none."""
    sites = Sites(*np.unique(sizes, return_counts=True))
    design = POPULATION.choose(sites, goal, Exact(numbers), None)
    if not design.is_finite:
        return math.inf, design
    law = design.law()
    return goal.criterion.cost(law.mean(), law.var(), goal), design


def cost_alone(n, goal):
    """What a site's own best rank costs: the coverage is Beta(l, n - l + 1)."""
    means = [l / (n + 1) for l in range(goal.criterion.own_rank(n, goal), n + 1)]
    return min((goal.criterion.cost(p, p * (1 - p) / (n + 2), goal) for p in means), default=math.inf)


def at_most(cost, limit, criterion):
    """Up to the rounding of an integral: relative for squared errors, absolute for a mean."""
    return cost <= limit * (1 + 1e-7) if criterion == "stable" else cost <= limit + 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("max_missing", [None, 0])
@pytest.mark.parametrize("criterion", ["stable", "conditional"])
def test_than_the_largest_site_alone_nor_than_with_fewer_numbers(criterion, max_missing):
    rng = np.random.default_rng(20)
    compared = 0
    for _ in range(FEDERATIONS):
        sizes, level = drawn(rng), Fraction(str(rng.choice([0.5, 0.8, 0.9, 0.95])))
        goal = Goal(level, CRITERIA[criterion](), max_missing=max_missing)
        limit = cost_alone(int(sizes.max()), goal)
        for numbers in (1, 2, 3):
            cost, design = planned_cost(sizes, goal, numbers)
            assert design.is_finite or limit == math.inf, (sizes, level, numbers)
            assert at_most(cost, limit, criterion), (sizes, level, numbers, cost, limit, design.blocks)
            compared += limit < math.inf
            limit = cost
    assert compared > 2 * FEDERATIONS


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["stable", "conditional"])
def test_what_is_given_up_to_bear_a_silent_site_is_two_per_cent_at_most_and_buys_it(criterion):
    rng, given_up = np.random.default_rng(21), 0
    for sizes in ([10] * 3, [40] * 5, *(drawn(rng) for _ in range(FEDERATIONS))):
        kind, level = CRITERIA[criterion](), Fraction(9, 10)
        lowest, _ = planned_cost(sizes, Goal(level, kind, max_missing=0), 1)
        cost, design = planned_cost(sizes, Goal(level, kind), 1)
        if at_most(cost, lowest, criterion):
            continue
        given_up += 1
        assert cost <= kind.near(lowest, design.goal) + 1e-12, (sizes, level)
        assert design.survives(1), (sizes, level, design.blocks)
    assert given_up


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "limits"),
    [
        ([100] * 10, (1.29, 1.10, 1.07)),
        ([20] * 50, (1.23, 1.09, 1.05)),
        ([120, 40, 377, 88], (1.20, 1.09, 1.06)),
        ([20, 200], (1.05, 1.04, 1.02)),
        ([30] * 4 + [300], (1.16, 1.07, 1.05)),
        ([50] * 10 + [1000], (1.19, 1.08, 1.05)),
    ],
)
def test_how_close_one_two_and_three_numbers_come_to_pooling(sizes, limits):
    """The root of the mean squared error in units of the pooled standard deviation (stable, level 0.9)."""
    goal, total = Goal(Fraction(9, 10)), sum(sizes)
    rank = math.ceil(0.9 * (total + 1))
    pooled = math.sqrt(rank * (total + 1 - rank) / (total + 1) ** 2 / (total + 2))
    for numbers, limit in zip((1, 2, 3), limits, strict=True):
        cost, _ = planned_cost(sizes, goal, numbers)
        assert math.sqrt(cost) / pooled <= limit, (numbers, math.sqrt(cost) / pooled)


def test_two_numbers_of_ten_equal_sites():
    cost, design = planned_cost([100] * 10, Goal(Fraction(9, 10), max_missing=0), 2)
    assert (design.blocks[0].ranks, design.server_rank) == ((88, 92), 12)
    assert math.sqrt(cost) == pytest.approx(0.01035, abs=1e-4)
