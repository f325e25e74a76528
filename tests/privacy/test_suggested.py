"""Which bins to take, and that the answer is borne out by simulation."""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy import simulate_releases
from fedconformal.privacy._shapes import spread_of

RANGE = fc.Bins.uniform(0, 10, 100)


@pytest.fixture(scope="module")
def plan():
    return fc.plan(10, 500, criterion="marginal", privacy=fc.Privacy(epsilon=1.0, bins=RANGE))


def simulated(plan, bins, scores, *, runs=1000):
    """True mean coverage; 1,000 runs of a spread below .01 are off by .002 with probability below 1e-9."""
    masses, rng = spread_of(scores, 10.0).masses(bins.edges, bins.n_bins), np.random.default_rng(4)
    counts = rng.multinomial(500, masses, size=(runs, 10))
    again = fc.plan(10, 500, criterion="marginal", privacy=fc.Privacy(epsilon=1.0, bins=bins))
    kept = np.sort(simulate_releases(counts, again.releases[0], rng=rng), axis=1)[:, again.server_rank - 1]
    return float(np.minimum(np.cumsum(masses), 1.0)[kept].mean())


@pytest.mark.parametrize(
    "scores", ["half-normal", np.random.default_rng(1).gamma(2.0, size=3000)], ids=["shape", "reference"]
)
def test_the_best_are_better_than_the_worst_also_in_simulation(plan, scores):
    found = fc.Bins.suggest(plan, scores)
    best, worst = found[0], found[-1]
    assert best.kind.startswith("fine around the threshold")
    assert simulated(plan, best.bins, scores) < simulated(plan, worst.bins, scores) - 0.002
    assert simulated(plan, best.bins, scores) == pytest.approx(best.worst, abs=0.003)


def test_shares_of_a_reference_are_coarse_where_it_matters(plan):
    sample = np.random.default_rng(2).exponential(size=2000)
    found = {each.kind: each.worst for each in fc.Bins.suggest(plan, sample)}
    assert found["fine above the median of reference scores"] < found["equal shares of reference scores"]


def test_they_come_in_order_with_the_number_and_the_end_of_the_plans_own(plan):
    found = fc.Bins.suggest(plan)
    assert [each.worst for each in found] == sorted(each.worst for each in found)
    assert {"as planned", "uniform", "log"} <= {each.kind for each in found}
    for each in found:
        assert each.expected.keys() == {"half-normal", "gamma"}
        assert each.bins.edges[-1] == 10.0
        assert len(each.bins.edges) <= 100
        assert not each.bins.bounded
        assert 0 <= each.error < 0.001
    planned = next(each for each in found if each.kind == "as planned")
    assert planned.bins == RANGE
    assert planned.expected["gamma"] == fc.privacy.expected_cost(plan, "gamma")[0].expected


def test_bounded_bins_stay_bounded_and_equal_widths_begin_where_one_says():
    bins = fc.Bins.uniform(0, 1, 20, bounded=True)
    plan = fc.plan(5, 300, confidence_level=[0.8, 0.9], privacy=fc.Privacy(epsilon=4.0, bins=bins))
    found = {each.kind: each.bins for each in fc.Bins.suggest(plan, "uniform", low=-1.0)}
    assert all(each.bounded and each.edges[-1] == 1.0 for each in found.values())
    assert found["uniform"] == fc.Bins.uniform(-1, 1, 20, bounded=True)


def test_what_cannot_be_compared_is_refused(plan):
    with pytest.raises(ValueError, match="this plan is not private"):
        fc.Bins.suggest(fc.plan(5, 100))
    with pytest.raises(ValueError, match="got 'weibull'"):
        fc.Bins.suggest(plan, "weibull")
