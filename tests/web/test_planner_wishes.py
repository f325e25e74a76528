"""What would be enough: one less is not, more is, and the free change comes first."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.web import PrivacyWish, WishRequest, answer_wish
from fedconformal.web.planner import AbandonedError
from fedconformal.web.planner._enough import Effort, always_from
from fedconformal.web.planner._wish import _WISHES, step_of, two_digits


def effort(n):
    return Effort(streak=40, ratio=1.5, tries=2000)


@given(turn=st.integers(1, 1000))
def test_a_turning_point_is_found(turn):
    assert always_from(lambda n: n >= turn, stop=1000, effort=effort).n == turn


@given(turn=st.integers(20, 500), lucky=st.sets(st.integers(1, 499)))
def test_lucky_numbers_before_the_last_failure_are_not_the_answer(turn, lucky):
    # Failures at most half a streak apart are all seen, whatever lies between.
    fails = {n for n in range(turn) if n not in lucky or n % 20 == 0} | {turn - 1}
    found = always_from(lambda n: n not in fails, stop=1000, effort=effort)
    assert found.n == turn
    assert found.each_to >= min(1000, turn + 39)


def test_what_is_never_enough_is_said():
    assert always_from(lambda n: False, stop=1000, effort=effort) is None
    assert always_from(lambda n: n % 2 == 1, stop=1000, effort=effort) is None


@pytest.mark.parametrize("epsilon", [0.01, 0.011, 0.5, 0.99, 1.0, 3.8, 99.0, 100.0])
def test_epsilons_have_two_digits(epsilon):
    assert two_digits(step_of(epsilon)) == pytest.approx(max(epsilon, 0.011))


@pytest.mark.slow
def test_one_answer_wherever_the_slider_stands():
    """The paper's rule, where more cases can be worse; each number that was tried is the library's."""
    asked = {"sites": 10, "criterion": "marginal", "wish": "low", "value": 0.88}
    answers = {n: answer_wish(WishRequest(points=n, **asked)) for n in (100, 101, 120, 132, 5000)}
    assert len({(answer.n_points, answer.each_to) for answer in answers.values()}) == 1
    enough, each_to = answers[100].n_points, answers[100].each_to
    assert {n: answer.met for n, answer in answers.items()} == {
        n: fc.plan(10, n, criterion="marginal").law.ppf(0.05) >= 0.88 for n in answers
    }
    assert answers[101].met
    assert 132 < enough < each_to - 50
    low = {n: fc.plan(10, n, criterion="marginal").law.ppf(0.05) for n in range(enough - 1, each_to + 1, 3)}
    assert [n for n, value in low.items() if value < 0.88] == [enough - 1]
    says = " ".join(answers[100].sentences)
    assert f"From {enough} cases at each of 10 sites on it is always met, as far as was tried: " in says
    assert f"each up to {each_to}" in says
    assert f"; with {enough - 1} it is not." in says
    assert "more cases are not always better: some smaller numbers meet it too" in says


def test_a_small_answer_is_tried_as_far_as_a_large_one():
    answer = answer_wish(WishRequest(sites=50, points=100, wish="low", value=0.85))
    assert answer.n_points == 2
    assert answer.each_to == 101
    assert all(fc.plan(50, n).law.ppf(0.05) >= 0.85 for n in range(2, 102, 9))
    assert answer.sentences[1:] == (
        "2 cases at each of 50 sites are enough; 1 is not.",
        "So is every larger number that was tried: each up to 101.",
    )


def test_the_words_agree_with_a_plan_that_meets_it_by_luck(monkeypatch):
    """No number of cases is called too few that the page calls enough in the sentence before."""
    met = {n: n in (5, 6) or n >= 9 for n in range(1, 1_000_001)}
    wish = SimpleNamespace(is_met=lambda solution, value: met[solution.question.points])
    monkeypatch.setitem(_WISHES, "low", wish)
    asked = {"sites": 1, "confidence_level": 0.5, "wish": "low", "value": 0.3}
    by_luck = answer_wish(WishRequest(points=6, **asked))
    assert by_luck.met
    assert by_luck.sentences[1].startswith("From 9 cases at the site on it is always met")


@pytest.mark.slow
def test_the_free_change_comes_first():
    asked = {"sites": 10, "points": 100, "wish": "low", "value": 0.88}
    answer = answer_wish(WishRequest(criterion="marginal", **asked))
    assert (answer.met, answer.criteria, answer.numbers) == (False, ("stable", "conditional"), 2)
    for criterion in answer.criteria:
        assert fc.plan(10, 100, criterion=criterion).law.ppf(0.05) >= 0.88
    assert fc.plan(10, 100, criterion="marginal", numbers=2).law.ppf(0.05) >= 0.88
    assert answer.sentences[1].replace("\N{NO-BREAK SPACE}", " ") == (
        "With the same cases, this would meet it: “on average, and close to it every time”, or "
        "“with 90 % certainty”, or 2 numbers per site."
    )
    assert "cases at each of 10 sites" in answer.sentences[2]
    usual = answer_wish(WishRequest(**asked))
    assert (usual.met, usual.criteria, usual.numbers) == (True, (), None)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wish", "value", "why"),
    [
        (
            "low",
            0.9,
            "That 19 of 20 calibrations reach 90 % takes a higher level, or a promise that is surer.",
        ),
        ("mean", 0.89, "The promise is 90 % on average: sets that cover less, on average, would break it."),
    ],
)
def test_a_wish_beyond_what_cases_can_give_says_why(wish, value, why):
    answer = answer_wish(WishRequest(sites=2, points=50, privacy=None, wish=wish, value=value))
    assert answer.n_points is None
    assert why in " ".join(answer.sentences).replace("\N{NO-BREAK SPACE}", " ")


def test_only_a_promise_on_average_is_said_to_be_one():
    asked = {"sites": 2, "points": 50, "wish": "mean", "value": 0.8}
    assert "on average" in _WISHES["mean"].why_never(WishRequest(**asked))
    assert _WISHES["mean"].why_never(WishRequest(**asked, criterion="conditional")) == ""
