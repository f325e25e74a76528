"""A plan is never worse than its largest site alone, nor than the same plan with fewer
numbers per site.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from fedconformal.planning import CRITERIA, PROMISES, Goal
from planning.plans import alike

POPULATION = PROMISES["population"]()
THIRTEEN = [49, 63, 75, 151, 160, 248, 254, 279, 365, 375, 463, 476, 483]
SIXTEEN = [9, 72, 54, 116, 116, 1142, 23, 57, 1044, 195, 199, 48, 12, 110, 102, 20]


def drawn(rng, m):
    """Sizes from 3 to 1,500: half of the federations evenly spread, half by orders of
    size.
    """
    if rng.random() < 0.5:
        return rng.integers(3, 1501, size=m)
    return np.exp(rng.uniform(math.log(3), math.log(1500), size=m)).astype(int)


def planned_cost(sizes, goal, numbers):
    """What the best solution costs, and the solution; infinite if there is none."""
    found = POPULATION.choose(alike(sizes), goal, numbers, None)
    if not found.is_finite:
        return math.inf, found
    law = POPULATION.law(found, goal)
    return goal.criterion.cost(law.mean(), law.var(), goal), found


def cost_alone(n, goal):
    """What a site's own best rank costs: the coverage is Beta(l, n - l + 1)."""
    means = [l / (n + 1) for l in range(goal.criterion.own_rank(n, goal), n + 1)]
    return min(
        (goal.criterion.cost(p, p * (1 - p) / (n + 2), goal) for p in means),
        default=math.inf,
    )


def at_most(cost, limit, criterion):
    """Up to the rounding of an integral: relative for squared errors, absolute for a
    mean.
    """
    return (
        cost <= limit * (1 + 1e-7) if criterion == "stable" else cost <= limit + 1e-10
    )


def check_never_worse(sizes, level, criterion, max_missing, numbers):
    """Where the spread does not count, sites are not left out for the cost alone."""
    goal = Goal(level, CRITERIA[criterion](), max_missing=max_missing)
    limit = (
        cost_alone(int(max(sizes)), goal) if goal.criterion.heeds_spread else math.inf
    )
    for r in numbers:
        cost, found = planned_cost(sizes, goal, r)
        assert found.is_finite or limit == math.inf, (sizes, level, r)
        assert at_most(cost, limit, criterion), (sizes, level, r, cost, limit, found)
        limit = cost


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["stable", "conditional", "marginal"])
def test_than_the_largest_site_alone_nor_than_with_fewer_numbers(criterion):
    rng = np.random.default_rng(20)
    for m in (2, 4, 8, 14, 40):
        level, missing = (
            Fraction(str(rng.choice([0.5, 0.8, 0.9, 0.95]))),
            [None, 0][int(rng.integers(2))],
        )
        check_never_worse(
            drawn(rng, m), level, criterion, missing, (1, 2, 3) if m < 10 else (1, 2)
        )


@pytest.mark.nightly
@pytest.mark.parametrize("max_missing", [None, 0, 1])
@pytest.mark.parametrize("criterion", ["stable", "conditional", "marginal"])
def test_the_same_for_many_federations(criterion, max_missing):
    """With max_missing=1 the largest site alone is no plan, so only the numbers are
    compared.
    """
    rng = np.random.default_rng(21)
    for _ in range(40):
        sizes, level = (
            drawn(rng, int(rng.integers(2, 41))),
            Fraction(str(rng.choice([0.5, 0.8, 0.9, 0.95]))),
        )
        if max_missing:
            goal = Goal(level, CRITERIA[criterion](), max_missing=1)
            costs = [planned_cost(sizes, goal, r)[0] for r in (1, 2, 3)]
            assert all(at_most(b, a, criterion) for a, b in pairwise(costs)), sizes
        else:
            check_never_worse(sizes, level, criterion, max_missing, (1, 2, 3, 5))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "level", "delta", "limits"),
    [
        (THIRTEEN, "0.9", "0.1", (0.9080, 0.9072, 0.9069)),
        (THIRTEEN, "0.9", "0.05", (0.9103, 0.9092, 0.9088)),
        (SIXTEEN, "0.95", "0.1", (0.9560, 0.9552, 0.9550)),
    ],
)
def test_several_numbers_come_close_to_pooling_for_many_sizes(
    sizes, level, delta, limits
):
    """The mean coverage under `conditional`; pooled scores give .90645, .90842 and
    .954819.
    """
    goal = Goal(Fraction(level), CRITERIA["conditional"](), Fraction(delta))
    costs, solutions = zip(
        *(planned_cost(sizes, goal, r) for r in (1, 2, 3)), strict=True
    )
    assert all(cost <= limit for cost, limit in zip(costs, limits, strict=True)), costs
    assert all(found.ballot.merge().n_sites == len(sizes) for found in solutions)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["stable", "conditional"])
def test_tolerating_a_missing_site_costs_two_per_cent_at_most(criterion):
    rng, given_up = np.random.default_rng(21), 0
    for sizes in (
        [10] * 3,
        [40] * 5,
        *(drawn(rng, int(rng.integers(2, 9))) for _ in range(5)),
    ):
        kind, level = CRITERIA[criterion](), Fraction(9, 10)
        lowest, _ = planned_cost(sizes, Goal(level, kind, max_missing=0), 1)
        goal = Goal(level, kind)
        cost, found = planned_cost(sizes, goal, 1)
        if at_most(cost, lowest, criterion):
            continue
        given_up += 1
        assert cost <= kind.missing_slack(lowest, goal) + 1e-12, (sizes, level)
        assert POPULATION.tolerates(found, goal, 1), (sizes, level, found)
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
    """The root of the mean squared error in units of the pooled standard deviation
    (stable, level 0.9).
    """
    goal, total = Goal(Fraction(9, 10)), sum(sizes)
    rank = math.ceil(0.9 * (total + 1))
    pooled = math.sqrt(rank * (total + 1 - rank) / (total + 1) ** 2 / (total + 2))
    for numbers, limit in zip((1, 2, 3), limits, strict=True):
        cost, _ = planned_cost(sizes, goal, numbers)
        assert math.sqrt(cost) / pooled <= limit, (numbers, math.sqrt(cost) / pooled)


def test_two_numbers_of_ten_equal_sites():
    cost, found = planned_cost([100] * 10, Goal(Fraction(9, 10), max_missing=0), 2)
    assert (found.ballot.ranks[0], found.needed) == ((88, 92), 12)
    assert math.sqrt(cost) == pytest.approx(0.01035, abs=1e-4)
