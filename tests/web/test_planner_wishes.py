"""What would be enough: one less is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.web import PrivacyWish, WishRequest, answer_wish
from fedconformal.web.planner import AbandonedError, turning_point
from fedconformal.web.planner._wish import step_of, two_digits


@given(turn=st.integers(1, 1000), start=st.integers(1, 1000))
def test_the_turning_point_is_found_wherever_the_search_begins(turn, start):
    assert turning_point(lambda n: n >= turn, start=start, stop=1000) == turn


def test_no_turning_point_is_said():
    assert turning_point(lambda n: False, start=3, stop=1000) is None


@pytest.mark.parametrize("epsilon", [0.01, 0.011, 0.5, 0.99, 1.0, 3.8, 99.0, 100.0])
def test_epsilons_have_two_digits(epsilon):
    assert two_digits(step_of(epsilon)) == pytest.approx(max(epsilon, 0.011))


def test_a_private_wish_names_an_epsilon():
    asked = {"sites": 3, "points": 100, "privacy": PrivacyWish(epsilon=5.0, bins=50)}
    answer = answer_wish(WishRequest(**asked, wish="mean", value=0.93))
    assert answer.epsilon is not None
    for epsilon, enough in ((answer.epsilon, True), (two_digits(step_of(answer.epsilon) - 1), False)):
        plan = fc.plan(3, 100, privacy=fc.Privacy(epsilon=epsilon, bins=fc.Bins.uniform(0, 1, 50)))
        assert (fc.privacy.expected_cost(plan)[0].expected <= 0.93) == enough


def test_the_search_ends_when_nobody_waits():
    with pytest.raises(AbandonedError):
        answer_wish(WishRequest(sites=3, points=10, wish="mean", value=0.95), lambda: True)


def test_what_a_bound_leaves_open_cannot_be_wished_for():
    asked = {"sites": 3, "points": 60, "promise": "each-site", "value": 0.85}
    with pytest.raises(ValueError, match="a lower bound on the coverage, and nothing to expect"):
        answer_wish(WishRequest(**asked, wish="mean"))
    assert answer_wish(WishRequest(**asked, wish="low")).n_points is not None
