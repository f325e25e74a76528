"""Which answers are the same, which data are, and what is counted without an epsilon."""

import threading
from fractions import Fraction

import pytest

from fedconformal.privacy import BudgetExceededError, Ledger, LedgerError, Quote
from privacy.ledgers import DATA, ask, interrupted, kinds, never, quote, record


@pytest.fixture
def ledger(path):
    return Ledger(path)


# -- a plan that says which data are meant -----------------------------------------------------------------


def test_a_score_that_differs_in_its_last_bit_does_not_cost_again(ledger):
    first = ask(ledger, by_plan=True)
    for data in ("on another GPU", "and on a third"):
        assert quote(ledger, data=data, by_plan=True) == Quote(Fraction(0), Fraction(9, 10))
        assert ask(ledger, data=data, by_plan=True, sample=never) == first
    assert ledger.spent("D") == Fraction(1, 10)
    assert kinds(ledger.path) == ["budget", "charge", "answer"]


def test_another_plan_site_or_data_set_is_another_answer(ledger):
    ledger.set_budget("E", 1)
    asked = [{}, {"plan": "Q"}, {"site": "B"}, {"dataset": "E", "data": "other"}]
    texts = [ask(ledger, **question, by_plan=True) for question in asked]
    assert len(set(texts)) == 4
    assert (ledger.spent("D"), ledger.spent("E")) == (Fraction(3, 10), Fraction(1, 10))


def test_new_data_need_not_be_accepted_and_are_then_a_version_of_the_name(ledger):
    ask(ledger)
    ask(ledger, "Q", data="model 2", by_plan=True)
    ask(ledger, "R", data="model 2")
    with pytest.raises(LedgerError, match="have changed"):
        ask(ledger, "S", data="model 3", sample=never)
    ask(ledger, "S", data="model 3", by_plan=True)
    assert kinds(ledger.path) == ["budget", *["charge", "answer"] * 4]


def test_a_charge_that_was_never_drawn_on_is_used_by_scores_that_differ_in_their_last_bit(ledger):
    with pytest.raises(KeyboardInterrupt):
        ask(ledger, by_plan=True, sample=interrupted)
    assert quote(ledger, data="elsewhere", by_plan=True).cost == 0
    text = ask(ledger, data="elsewhere", by_plan=True)
    assert ask(ledger, by_plan=True, sample=never) == text
    assert ledger.spent("D") == Fraction(1, 10)
    with pytest.raises(LedgerError, match="under the name 'D'"):  # they count as this data set's now
        record(ledger, dataset="E", data="elsewhere")


def test_one_charge_never_gives_two_answers_by_asking_in_two_ways(ledger):
    """By plan and by data are two questions: whoever asks both pays for both."""
    with pytest.raises(KeyboardInterrupt):
        ask(ledger, by_plan=True, sample=interrupted)
    ask(ledger, data="elsewhere", by_plan=True)
    ask(ledger)
    assert ledger.spent("D") == Fraction(2, 10)
    assert kinds(ledger.path).count("answer") == 2


def test_another_epsilon_is_refused_by_plan_too(ledger):
    ask(ledger, by_plan=True)
    with pytest.raises(LedgerError, match="another epsilon"):
        ask(ledger, by_plan=True, epsilon=0.2, sample=never)


# -- data that have changed --------------------------------------------------------------------------------


@pytest.mark.parametrize("by_plan", [False, True])
def test_changed_data_are_accepted_together_with_the_charge(ledger, by_plan):
    ask(ledger)
    ask(ledger, "Q", data="model 2", accept="scored by model 2", by_plan=by_plan)
    assert kinds(ledger.path) == ["budget", "charge", "answer", "data", "charge", "answer"]
    assert ledger.entries()[3].reason == "scored by model 2"
    ask(ledger, "R", data="model 2", accept="scored by model 2", by_plan=by_plan)
    ask(ledger, "S", data=DATA, accept="the first model again", by_plan=by_plan)
    assert kinds(ledger.path).count("data") == 1


def test_the_first_data_of_a_name_need_no_reason(ledger):
    ask(ledger, accept="scored by model 1")
    assert kinds(ledger.path) == ["budget", "charge", "answer"]


def test_a_refused_question_leaves_nothing_behind(ledger):
    ask(ledger)
    ledger.set_budget("E", 1)
    before, entries = ledger.path.read_bytes(), ledger.entries()
    for question in (
        {"epsilon": 5, "data": "model 2"},
        {"epsilon": 5, "data": "model 2", "by_plan": True},
        {"dataset": "E"},
        {"plan": "P", "epsilon": 0.2},
        {"dataset": "F", "data": "model 2"},
    ):
        with pytest.raises(LedgerError):
            ask(ledger, **{"plan": "Q"} | question, accept="scored by model 2", sample=never)
    assert ledger.path.read_bytes() == before
    assert ledger.entries() == entries


def test_a_reason_is_one_line_of_text(ledger):
    for wrong in ("", "two\nlines"):
        with pytest.raises(ValueError, match="accept must be one line of text"):
            ask(ledger, accept=wrong, sample=never)


# -- one name for the same data ----------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["charged", "accepted", "exact"])
def test_the_same_data_under_a_second_name_are_refused(ledger, first):
    ledger.set_budget("E", 100)
    if first == "charged":
        ask(ledger)
    elif first == "accepted":
        ledger.accept_data("D", DATA, reason="a correction")
    else:
        record(ledger)
    entries = ledger.entries()
    for call in (
        lambda: ask(ledger, dataset="E", sample=never),
        lambda: ask(ledger, dataset="E", by_plan=True, sample=never),
        lambda: ask(ledger, dataset="E", accept="new", sample=never),
        lambda: quote(ledger, dataset="E"),
        lambda: ledger.accept_data("E", DATA, reason="new"),
        lambda: record(ledger, dataset="E"),
    ):
        with pytest.raises(
            LedgerError, match=r"given as 'E' are in this ledger under the name 'D'"
        ) as refused:
            call()
        assert "\n" not in str(refused.value)
    assert ledger.entries() == entries
    ask(ledger)


# -- exact answers -----------------------------------------------------------------------------------------


def test_exact_answers_are_recorded_counted_once_and_bounded(ledger):
    assert ledger.exact_answers("new") == 0
    record(ledger, "P", dataset="new", numbers=2, most=3)
    record(ledger, "P", dataset="new", numbers=2, most=3)
    record(ledger, "Q", dataset="new", numbers=1, most=3)
    record(ledger, "Q", dataset="new", numbers=1, most=3, data="model 2")
    assert ledger.exact_answers("new") == 3
    assert [(entry.kind, entry.plan, entry.numbers) for entry in ledger.entries("new")] == [
        ("exact", "P", 2),
        ("exact", "Q", 1),
        ("exact", "Q", 1),
    ]
    before = ledger.path.read_bytes()
    for question in ({"plan": "R"}, {"plan": "P", "site": "B"}, {"plan": "P", "data": "model 3"}):
        with pytest.raises(
            LedgerError,
            match=r"'new' has given 3 exact answers of at most 3: .* max_answers in the site's policy",
        ):
            record(ledger, dataset="new", most=3, **question)
    assert ledger.path.read_bytes() == before
    record(ledger, "P", dataset="new", most=1)  # given before
    record(ledger, "R", dataset="new", most=4)
    assert ledger.exact_answers("new") == 4


def test_threads_that_record_at_once_do_not_pass_the_bound(ledger):
    refused = []

    def attempt(plan):
        try:
            record(ledger, plan, most=3)
        except LedgerError as error:
            refused.append(error)

    threads = [threading.Thread(target=attempt, args=(plan,)) for plan in "PQRSTUVW"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(refused), ledger.exact_answers("D")) == (5, 3)
    assert kinds(ledger.path) == ["budget", "exact", "exact", "exact"]


def test_exact_answers_need_no_budget_and_give_none(ledger):
    record(ledger, dataset="new")
    assert ledger.datasets() == ("D",)
    with pytest.raises(LedgerError, match="no budget was set for data set 'new'"):
        ask(ledger, dataset="new", sample=never)


def test_the_fingerprint_of_an_exact_answer_is_not_in_the_file(ledger):
    record(ledger)
    assert DATA.encode() not in ledger.path.read_bytes()


def test_data_that_left_exactly_are_not_a_version_that_may_be_charged(ledger):
    ask(ledger)
    record(ledger, data="other")
    with pytest.raises(LedgerError, match="have changed"):
        ask(ledger, "Q", data="other", sample=never)


@pytest.mark.parametrize("wrong", [{"numbers": 0}, {"numbers": 1.5}, {"most": -1}, {"dataset": "two\nlines"}])
def test_what_cannot_be_recorded(ledger, wrong):
    with pytest.raises((ValueError, TypeError), match=f"{next(iter(wrong))} must be"):
        record(ledger, **wrong)
    assert kinds(ledger.path) == ["budget"]


def test_which_plans_a_data_set_has_answered(ledger):
    with pytest.raises(KeyboardInterrupt):
        ask(ledger, "P", sample=interrupted)
    ask(ledger, "Q", by_plan=True)
    record(ledger, "R")
    assert [ledger.has_answered("D", plan) for plan in "PQRS"] == [True, True, True, False]
    assert not ledger.has_answered("E", "P")


# -- a quote -----------------------------------------------------------------------------------------------


def test_a_quote_says_what_would_be_charged_and_writes_nothing(ledger):
    before = ledger.path.read_bytes()
    assert quote(ledger, epsilon=0.3) == Quote(cost=Fraction(3, 10), remaining=Fraction(1))
    assert ledger.path.read_bytes() == before
    ask(ledger, epsilon=0.3)
    assert quote(ledger, epsilon=0.3) == Quote(cost=Fraction(0), remaining=Fraction(7, 10))
    assert quote(ledger, "Q", epsilon=0.7) == Quote(cost=Fraction(7, 10), remaining=Fraction(7, 10))


@pytest.mark.parametrize(
    "question",
    [
        {"plan": "Q", "epsilon": 0.95},
        {"plan": "Q", "data": "other"},
        {"plan": "P", "epsilon": 0.2},
        {"dataset": "E"},
        {"dataset": "F"},
        {"plan": "two\nlines"},
        {"epsilon": 0},
    ],
)
def test_a_quote_refuses_what_an_answer_refuses_in_the_same_words(ledger, question):
    ask(ledger)
    ledger.set_budget("E", 1)
    with pytest.raises(ValueError) as answered:  # noqa: PT011
        ask(ledger, **question, sample=never)
    with pytest.raises(type(answered.value)) as quoted:
        quote(ledger, **question)
    assert str(quoted.value) == str(answered.value)


def test_a_quote_is_checked_again_when_it_is_paid(ledger):
    assert quote(ledger, epsilon=0.7).cost == Fraction(7, 10)
    ask(Ledger(ledger.path), "Q", epsilon=0.7)
    with pytest.raises(BudgetExceededError):
        ask(ledger, epsilon=0.7, sample=never)
