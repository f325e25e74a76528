"""Where no ranks reach the level: what would."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.planning import PROMISES, Goal
from fedconformal.planning._choosing import smallest
from planning.plans import kinds, quiet

levels = st.sampled_from([0.1, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99])
criteria = st.sampled_from(["marginal", "stable", "conditional"])


def test_it_is_said_and_what_would_do():
    with pytest.warns(
        fc.InfeasibleWarning, match="You need 3 cases per site, or 5 sites of 2 cases"
    ):
        plan = fc.plan(n_sites=3, n_points=2, confidence_level=0.9)
    assert not plan.feasible
    assert (plan.server_rank, plan.law.mean()) == (4, 1.0)
    assert quiet(n_sites=3, n_points=3, confidence_level=0.9).feasible
    assert quiet(n_sites=5, n_points=2, confidence_level=0.9).feasible
    assert not quiet(n_sites=4, n_points=2, confidence_level=0.9).feasible


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 12), levels, criteria, st.integers(0, 2))
def test_the_advice_is_the_smallest_that_works(m, n, level, criterion, f):
    f = f if 2 * f < m else 0
    options = {"confidence_level": level, "criterion": criterion, "max_faulty": f}
    plan = quiet(n_sites=m, n_points=n, **options)
    if plan.feasible:
        return
    advice = plan.designs[0].levels[0].advice
    assert quiet(n_sites=m, n_points=advice.n_points, **options).feasible
    assert quiet(n_sites=advice.n_sites, n_points=n, **options).feasible
    assert not quiet(n_sites=m, n_points=advice.n_points - 1, **options).feasible
    assert not quiet(n_sites=advice.n_sites - 1, n_points=n, **options).feasible


def test_uneven_sites():
    plan = fc.plan(n_points=[5, 20], confidence_level=0.96, criterion="marginal")
    assert plan.law.mean() == pytest.approx(25 / 26)


def test_it_keeps_to_a_given_share():
    population, goal, share = (
        PROMISES["population"](),
        Goal(Fraction(9, 10)),
        Fraction(3, 4),
    )
    advice = population.choose(kinds([100], [2]), goal, 1, share).advice
    assert advice.n_points is None  # more points make it worse
    assert population.choose(kinds([100], [advice.n_sites]), goal, 1, share).is_finite


def test_a_level_out_of_reach_of_any_federation_gets_none():
    plan = quiet(n_sites=2, n_points=5, confidence_level=1 - 1e-14)
    assert "No number that was tried would suffice." in plan.problems[0]


def test_messages_show_the_level_that_was_typed():
    plan = quiet(n_points=[2, 3, 2], confidence_level=0.9999999)
    assert "99.99999 % coverage" in plan.problems[0]
    assert "3 sites of 2 to 3 cases" in plan.problems[0]


@pytest.mark.parametrize("least", [1, 2, 3, 7, 8, 9, 100])
def test_the_smallest_number_is_found_by_doubling(least):
    asked = []

    def enough(number):
        asked.append(number)
        return number >= least

    assert smallest(enough, start=1, stop=100) == least
    assert smallest(enough, start=1, stop=least - 1 or 1) == (None if least > 1 else 1)
    assert max(asked) <= 100
