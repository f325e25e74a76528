"""What answers cost, on which data, which answers are the same, and any sequence of
commands.
"""

import secrets
import tempfile
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from fedconformal.privacy import (
    BudgetExceededError,
    Ledger,
    LedgerError,
    Quote,
    fingerprint,
)
from privacy.ledgers import DATA, ask, interrupted, kinds, never, quote, record


@pytest.fixture
def ledger(path):
    return Ledger(path)


# -- what it costs ---------------------------------------------------------------------


@pytest.mark.parametrize("by_plan", [False, True])
def test_another_plan_or_site_costs_and_another_data_set_has_its_own_account(
    ledger, by_plan
):
    ledger.set_budget("E", 0.5)
    asked = [{}, {"plan": "Q"}, {"site": "B"}, {"dataset": "E", "data": "other"}]
    texts = [ask(ledger, **question, by_plan=by_plan) for question in asked]
    assert len(set(texts)) == 4
    assert (ledger.spent("D"), ledger.remaining("D")) == (
        Fraction(3, 10),
        Fraction(7, 10),
    )
    assert (ledger.spent("E"), ledger.remaining("E")) == (
        Fraction(1, 10),
        Fraction(4, 10),
    )
    assert ledger.datasets() == ("D", "E")
    assert [entry.kind for entry in ledger.entries("E")] == [
        "budget",
        "charge",
        "answer",
    ]
    assert len(ledger.entries()) == ledger.check() == 2 + 2 * 4


def test_decimals_are_added_exactly(tmp_path):
    assert 0.1 + 0.1 + 0.1 > 0.3
    ledger = Ledger.create(tmp_path / "l")
    ledger.set_budget("D", 0.3)
    for plan in "PQR":
        ask(ledger, plan)
    assert ledger.remaining("D") == 0
    with pytest.raises(
        BudgetExceededError,
        match=r"spent 0.3 of its budget 0.3, so epsilon = 0.0000001",
    ):
        ask(ledger, "S", epsilon=1e-7, sample=never)


def test_refusal_above_the_budget_draws_and_charges_nothing(ledger):
    ask(ledger, epsilon=0.7)
    with pytest.raises(BudgetExceededError) as refused:
        ask(ledger, "Q", epsilon=Fraction(1, 3), sample=never)
    error = refused.value
    assert (error.dataset, error.spent, error.asked, error.budget) == (
        "D",
        Fraction("0.7"),
        Fraction(1, 3),
        1,
    )
    assert str(error).startswith(f"{ledger.path}: ")
    assert "epsilon = 1/3 is refused" in str(error)
    assert ledger.spent("D") == Fraction(7, 10)
    ask(ledger, "Q", epsilon=0.3)
    assert ledger.budget("D") == ledger.spent("D") == 1


def test_a_budget_is_set_once_and_raised_with_a_reason(ledger):
    ledger.set_budget("D", 1.0)
    for change in (0.5, 2):
        with pytest.raises(
            LedgerError, match="the budget of data set 'D' is 1: see raise_budget"
        ):
            ledger.set_budget("D", change)
    for change in (0.5, 1):
        with pytest.raises(LedgerError, match="must be above 1, got"):
            ledger.raise_budget("D", change, reason="less")
    ledger.raise_budget("D", 1.5, reason="board, 3 May")
    assert ledger.budget("D") == Fraction(3, 2)
    assert [(entry.epsilon, entry.reason) for entry in ledger.entries("D")] == [
        ("1", "first budget"),
        ("1.5", "board, 3 May"),
    ]
    for call in (
        ledger.budget,
        ledger.spent,
        ledger.remaining,
        lambda name: ask(ledger, dataset=name, sample=never),
        lambda name: ledger.raise_budget(name, 1, reason="never set"),
        lambda name: ledger.accept_data(name, "other", reason="never set"),
    ):
        with pytest.raises(LedgerError, match="no budget was set for data set 'F'"):
            call("F")


@pytest.mark.parametrize("by_plan", [False, True])
def test_a_paid_charge_cannot_be_drawn_on_with_another_epsilon(ledger, by_plan):
    with pytest.raises(ZeroDivisionError):
        ask(ledger, sample=lambda: str(1 / 0), by_plan=by_plan)
    for epsilon in (10, 0.05):
        with pytest.raises(LedgerError, match="'P' was charged another epsilon before"):
            ask(ledger, epsilon=epsilon, sample=never, by_plan=by_plan)


# -- the data --------------------------------------------------------------------------


def test_changed_data_are_refused_under_the_old_name_unless_accepted(ledger):
    """A new model gives new scores: the old answer would be a threshold for the wrong
    ones.
    """
    with pytest.raises(KeyboardInterrupt):
        ask(ledger, "unfinished", sample=interrupted)
    first = ask(ledger)
    for plan in ("P", "Q", "unfinished"):
        with pytest.raises(
            LedgerError, match="the data under the name 'D' have changed"
        ):
            ask(ledger, plan, data="other", sample=never)
    ledger.accept_data("D", "other", reason="scored by model 2")
    assert (
        ask(ledger, data="other", sample=lambda: "another answer") == "another answer"
    )
    assert ask(ledger, data=DATA, sample=never) == first
    ask(
        ledger, "R", data=DATA
    )  # a name stands for all its versions, not for the last one alone
    ledger.accept_data("D", DATA, reason="nothing new")
    with pytest.raises(LedgerError, match="have changed"):
        ask(ledger, "S", data="a third version", sample=never)
    assert ledger.spent("D") == Fraction(4, 10)
    reasons = [entry.reason for entry in ledger.entries() if entry.kind == "data"]
    assert reasons == ["scored by model 2"]


@pytest.mark.parametrize("by_plan", [False, True])
def test_changed_data_are_accepted_together_with_the_charge(ledger, by_plan):
    ask(ledger, accept="the first data of a name need no reason")
    ask(ledger, "Q", data="model 2", accept="scored by model 2", by_plan=by_plan)
    assert kinds(ledger.path) == [
        "budget",
        "charge",
        "answer",
        "data",
        "charge",
        "answer",
    ]
    assert ledger.entries()[3].reason == "scored by model 2"
    ask(ledger, "R", data="model 2", accept="scored by model 2", by_plan=by_plan)
    ask(ledger, "S", data=DATA, accept="the first model again", by_plan=by_plan)
    assert kinds(ledger.path).count("data") == 1


def test_a_refused_question_leaves_nothing_behind(ledger):
    ask(ledger)
    ledger.set_budget("E", 1)
    before = ledger.path.read_bytes()
    for question in (
        {"epsilon": 5, "data": "model 2"},
        {"epsilon": 5, "data": "model 2", "by_plan": True},
        {"dataset": "E"},
        {"plan": "P", "epsilon": 0.2},
        {"dataset": "F", "data": "model 2"},
    ):
        with pytest.raises(LedgerError):
            ask(
                ledger,
                **{"plan": "Q"} | question,
                accept="scored by model 2",
                sample=never,
            )
    assert ledger.path.read_bytes() == before


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
            LedgerError,
            match=r"^[^\n]*'E' are in this ledger under the name 'D'[^\n]*$",
        ):
            call()
    assert ledger.entries() == entries
    ask(ledger)


def test_the_fingerprint_itself_is_not_in_the_file(ledger):
    ask(ledger)
    record(ledger)
    assert DATA.encode() not in ledger.path.read_bytes()


@given(st.lists(st.floats(), max_size=20), st.randoms())
def test_a_fingerprint_does_not_see_order_but_every_change(scores, shuffler):
    mixed = list(scores)
    shuffler.shuffle(mixed)
    assert fingerprint(mixed) == fingerprint(np.array(scores))
    assert fingerprint([*scores, 1.0]) != fingerprint(scores)
    assert fingerprint([*scores, 1.0]) != fingerprint([*scores, np.nextafter(1.0, 2.0)])


def test_a_fingerprint_knows_one_nan_and_one_zero():
    odd = np.array([0x7FF8000000000001, 0xFFF0000000000123], dtype=np.uint64).view(
        np.float64
    )
    assert fingerprint([*odd, -0.0, 0.0]) == fingerprint([0.0, np.nan, -0.0, -np.nan])
    assert fingerprint([1, 2]) == fingerprint(np.float32([2, 1])) == DATA
    assert len(fingerprint([])) == 64


# -- a plan that says which data are meant ---------------------------------------------


def test_a_score_that_differs_in_its_last_bit_does_not_cost_again(ledger):
    first = ask(ledger, by_plan=True)
    for data in ("on another GPU", "and on a third"):
        assert quote(ledger, data=data, by_plan=True) == Quote(
            Fraction(0), Fraction(9, 10)
        )
        assert ask(ledger, data=data, by_plan=True, sample=never) == first
    assert kinds(ledger.path) == ["budget", "charge", "answer"]


def test_new_data_need_not_be_accepted_and_are_then_a_version_of_the_name(ledger):
    ask(ledger)
    ask(ledger, "Q", data="model 2", by_plan=True)
    ask(ledger, "R", data="model 2")
    with pytest.raises(LedgerError, match="have changed"):
        ask(ledger, "S", data="model 3", sample=never)
    assert kinds(ledger.path) == ["budget", *["charge", "answer"] * 3]


def test_a_charge_by_plan_is_drawn_on_once_whatever_the_last_bits(ledger):
    """By plan and by data are two questions: whoever asks both pays for both."""
    with pytest.raises(KeyboardInterrupt):
        ask(ledger, by_plan=True, sample=interrupted)
    assert quote(ledger, data="elsewhere", by_plan=True).cost == 0
    text = ask(ledger, data="elsewhere", by_plan=True)
    assert ask(ledger, by_plan=True, sample=never) == text
    assert ledger.spent("D") == Fraction(1, 10)
    with pytest.raises(
        LedgerError, match="under the name 'D'"
    ):  # they count as this data set's now
        record(ledger, dataset="E", data="elsewhere")
    ask(ledger)
    assert ledger.spent("D") == Fraction(2, 10)
    assert kinds(ledger.path).count("answer") == 2


# -- exact answers ---------------------------------------------------------------------


def test_exact_answers_are_recorded_counted_once_and_bounded(ledger):
    assert ledger.exact_answers("new") == 0
    record(ledger, "P", dataset="new", numbers=2, most=3)
    record(ledger, "P", dataset="new", numbers=2, most=3)
    record(ledger, "Q", dataset="new", numbers=1, most=3)
    record(ledger, "Q", dataset="new", numbers=1, most=3, data="model 2")
    assert ledger.exact_answers("new") == 3
    assert [
        (entry.kind, entry.plan, entry.numbers) for entry in ledger.entries("new")
    ] == [
        ("exact", "P", 2),
        ("exact", "Q", 1),
        ("exact", "Q", 1),
    ]
    before = ledger.path.read_bytes()
    for question in (
        {"plan": "R"},
        {"plan": "P", "site": "B"},
        {"plan": "P", "data": "model 3"},
    ):
        with pytest.raises(LedgerError, match=r"3 exact answers of at most 3"):
            record(ledger, dataset="new", most=3, **question)
    assert ledger.path.read_bytes() == before
    record(ledger, "P", dataset="new", most=1)  # given before
    record(ledger, "R", dataset="new", most=4)
    assert ledger.exact_answers("new") == 4
    assert ledger.datasets() == ("D",)
    with pytest.raises(LedgerError, match="no budget was set for data set 'new'"):
        ask(ledger, dataset="new", sample=never)


def test_threads_that_record_at_once_do_not_pass_the_bound(path):
    ledger, refused = Ledger(path, timeout=600), []

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


def test_data_that_left_exactly_are_not_a_version_that_may_be_charged(ledger):
    ask(ledger)
    record(ledger, data="other")
    with pytest.raises(LedgerError, match="have changed"):
        ask(ledger, "Q", data="other", sample=never)


def test_which_plans_a_data_set_has_answered(ledger):
    with pytest.raises(KeyboardInterrupt):
        ask(ledger, "P", sample=interrupted)
    ask(ledger, "Q", by_plan=True)
    record(ledger, "R")
    assert [ledger.has_answered("D", plan) for plan in "PQRS"] == [
        True,
        True,
        True,
        False,
    ]
    assert not ledger.has_answered("E", "P")


# -- a quote ---------------------------------------------------------------------------


def test_a_quote_says_what_would_be_charged_and_writes_nothing(ledger):
    before = ledger.path.read_bytes()
    assert quote(ledger, epsilon=0.3) == Quote(
        cost=Fraction(3, 10), remaining=Fraction(1)
    )
    assert ledger.path.read_bytes() == before
    ask(ledger, epsilon=0.3)
    assert quote(ledger, epsilon=0.3) == Quote(
        cost=Fraction(0), remaining=Fraction(7, 10)
    )
    assert quote(ledger, "Q", epsilon=0.7) == Quote(
        cost=Fraction(7, 10), remaining=Fraction(7, 10)
    )
    ask(Ledger(ledger.path), "R", epsilon=0.7)
    with pytest.raises(BudgetExceededError):  # a quote is checked again when it is paid
        ask(ledger, "Q", epsilon=0.7, sample=never)


def test_a_quote_refuses_what_an_answer_refuses_in_the_same_words(ledger):
    ask(ledger)
    ledger.set_budget("E", 1)
    for question in (
        {"plan": "Q", "epsilon": 0.95},
        {"plan": "Q", "data": "other"},
        {"plan": "P", "epsilon": 0.2},
        {"dataset": "E"},
        {"dataset": "F"},
        {"plan": "two\nlines"},
        {"epsilon": 0},
    ):
        with pytest.raises(ValueError) as answered:  # noqa: PT011
            ask(ledger, **question, sample=never)
        with pytest.raises(type(answered.value)) as quoted:
            quote(ledger, **question)
        assert str(quoted.value) == str(answered.value)


# -- arguments -------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0, float("nan"), 1e7, Fraction(-1, 3)])
def test_an_epsilon_that_is_none(ledger, epsilon):
    for call in (
        lambda: ask(ledger, epsilon=epsilon, sample=never),
        lambda: ledger.set_budget("E", epsilon),
        lambda: ledger.raise_budget("D", epsilon, reason="more"),
    ):
        with pytest.raises(
            ValueError, match=r"epsilon must be a number in \(0, 1e\+06\]"
        ):
            call()


def test_arguments_that_are_no_number_or_not_one_line_of_text(ledger):
    for epsilon in (None, "1", True, 1j):
        with pytest.raises(TypeError, match="epsilon must be a number"):
            ask(ledger, epsilon=epsilon, sample=never)
    for argument in ("dataset", "plan", "site", "data", "accept"):
        for wrong in ("", " D", "D\n", "a\nb", "\ud800"):
            with pytest.raises(
                ValueError, match=f"{argument}.* must be one line of text"
            ):
                ask(ledger, **{argument: wrong}, sample=never)
        with pytest.raises(TypeError, match=f"{argument}.* must be a string, got 1"):
            ask(ledger, **{argument: 1}, sample=never)
    for wrong in ({"numbers": 0}, {"numbers": 1.5}, {"dataset": "two\nlines"}):
        with pytest.raises(
            (ValueError, TypeError), match=f"{next(iter(wrong))} must be"
        ):
            record(ledger, **wrong)
    with pytest.raises(ValueError, match="reason must be"):
        ledger.raise_budget("D", 2, reason="")
    with pytest.raises(ValueError, match="reason must be"):
        ledger.accept_data("D", "other", reason="")
    assert kinds(ledger.path) == ["budget"]


# -- any sequence of commands ----------------------------------------------------------


class Site(RuleBasedStateMachine):
    """A site that sets and raises budgets, answers, fails, restarts; the model is a few
    dicts.
    """

    names = st.sampled_from("DE")
    plans = st.sampled_from([(plan, site) for plan in "PQ" for site in "AB"])
    costs = st.sampled_from([0.1, 0.2, 0.7, Fraction(1, 3), 1, 1e-9])
    versions = st.sampled_from("xxxyz")

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fcledger_")
        self.path = Path(self.folder.name, "l")
        self.ledger = Ledger.create(self.path)
        self.budgets, self.paid, self.texts = {}, {}, {}
        self.owner, self.accepted, self.exact = {}, {"D": set(), "E": set()}, set()

    def teardown(self):
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule()
    def restart(self):
        self.ledger = Ledger(self.path)

    @rule(name=names, epsilon=costs)
    def set_budget(self, name, epsilon):
        exact = Fraction(str(epsilon))
        if self.budgets.setdefault(name, exact) == exact:
            self.ledger.set_budget(name, epsilon)
        else:
            with pytest.raises(LedgerError, match="see raise_budget"):
                self.ledger.set_budget(name, epsilon)

    @precondition(lambda self: self.budgets)
    @rule(name=names, epsilon=costs)
    def raise_budget(self, name, epsilon):
        exact = Fraction(str(epsilon))
        if name in self.budgets and exact > self.budgets[name]:
            self.ledger.raise_budget(name, epsilon, reason="more")
            self.budgets[name] = exact
        else:
            with pytest.raises(LedgerError, match=r"must be above|no budget"):
                self.ledger.raise_budget(name, epsilon, reason="more")

    def take(self, name, data, *, accept=True):
        self.owner[data] = name
        if accept:
            self.accepted[name].add(data)

    @precondition(lambda self: self.budgets)
    @rule(name=names, data=versions)
    def accept_data(self, name, data):
        if name in self.budgets and self.owner.get(data, name) == name:
            self.ledger.accept_data(name, data, reason="corrected")
            self.take(name, data)
        else:
            with pytest.raises(LedgerError, match=r"no budget|under the name"):
                self.ledger.accept_data(name, data, reason="corrected")

    @rule(name=names, plan=plans, data=versions)
    def record_exact(self, name, plan, data):
        key = (name, *plan, data)
        given = sum(other[0] == name for other in self.exact)
        mine = self.owner.get(data, name) == name
        if mine and (key in self.exact or given < 3):
            record(self.ledger, plan[0], site=plan[1], data=data, dataset=name)
            self.exact.add(key)
            self.take(name, data, accept=False)
        else:
            with pytest.raises(
                LedgerError, match=r"exact answers" if mine else "under the name"
            ):
                record(self.ledger, plan[0], site=plan[1], data=data, dataset=name)

    @precondition(lambda self: self.budgets)
    @rule(
        name=names,
        plan=plans,
        epsilon=costs,
        data=versions,
        fails=st.booleans(),
        by_plan=st.booleans(),
        accept=st.sampled_from([None, None, "model 2"]),
    )
    def answer(self, name, plan, epsilon, data, fails, by_plan, accept):
        key, cost = (
            (name, *plan) if by_plan else (name, *plan, data),
            Fraction(str(epsilon)),
        )
        drawn = []

        def sample():
            drawn.append(secrets.token_hex(8))
            return drawn[0] if not fails else 1 / 0

        expected = self.expected(key, cost, data, by_plan or accept is not None)
        asked = {"site": plan[1], "dataset": name, "epsilon": epsilon, "data": data}
        asked |= {"by_plan": by_plan, "accept": accept}
        if expected == "refuse":
            for call in (
                lambda: quote(self.ledger, plan[0], **asked),
                lambda: ask(self.ledger, plan[0], **asked),
            ):
                with pytest.raises(LedgerError):
                    call()
            return
        left = self.budgets[name] - self.spent(name)
        assert quote(self.ledger, plan[0], **asked) == (
            0 if key in self.paid else cost,
            left,
        )
        try:
            text = ask(self.ledger, plan[0], **asked, sample=sample)
        except ZeroDivisionError:
            text = None
        if expected == "replay":
            assert not drawn
            assert text == self.texts[key]
            return
        assert len(drawn) == 1
        if key not in self.paid or not fails:
            self.take(name, data)
        self.paid[key] = cost
        if not fails:
            assert text == drawn[0]
            self.texts[key] = text

    def expected(self, key, cost, data, lenient):
        name = key[0]
        if name not in self.budgets or self.paid.get(key, cost) != cost:
            return "refuse"
        if key in self.texts:
            return "replay"
        if self.owner.get(data, name) != name:
            return "refuse"
        if not lenient and self.accepted[name] and data not in self.accepted[name]:
            return "refuse"
        return (
            "draw"
            if key in self.paid or self.spent(name) + cost <= self.budgets[name]
            else "refuse"
        )

    def spent(self, name):
        return sum(
            (cost for key, cost in self.paid.items() if key[0] == name), Fraction(0)
        )

    @invariant()
    def never_overspent(self):
        if hasattr(self, "ledger"):
            assert self.ledger.datasets() == tuple(sorted(self.budgets))
            for name, budget in self.budgets.items():
                assert (
                    self.ledger.spent(name)
                    == self.spent(name)
                    <= budget
                    == self.ledger.budget(name)
                )
            for name in "DE":
                assert self.ledger.exact_answers(name) == sum(
                    key[0] == name for key in self.exact
                )


@pytest.mark.nightly
class TestSite(Site.TestCase):
    settings = settings(max_examples=100, stateful_step_count=30)
