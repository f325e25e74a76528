"""What answers cost, on which data, and any sequence of commands."""

import secrets
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fedconformal.privacy import BudgetExceededError, Ledger, LedgerError, fingerprint
from privacy.ledgers import DATA, ask, interrupted, never, quote, record

# -- what it costs -----------------------------------------------------------------------------------------


def test_the_same_plan_replays_the_same_answer_free(path):
    first = ask(Ledger(path))
    assert ask(Ledger(path), sample=never) == first
    assert Ledger(path).spent("D") == Fraction(1, 10)


def test_an_answer_on_other_data_is_never_replayed(path):
    """A new model gives new scores: the old answer would be a threshold for the wrong ones."""
    ledger = Ledger(path)
    first = ask(ledger)
    with pytest.raises(LedgerError, match="have changed"):
        ask(ledger, data="scores of model 2", sample=never)
    ledger.accept_data("D", "scores of model 2", reason="model 2")
    second = ask(ledger, data="scores of model 2", sample=lambda: "another answer")
    assert second == "another answer" != first
    assert ask(ledger, data="scores of model 2", sample=never) == second
    assert ask(ledger, sample=never) == first
    assert ledger.spent("D") == Fraction(2, 10)


def test_another_plan_or_site_costs_and_another_data_set_has_its_own_account(path):
    ledger = Ledger(path)
    ledger.set_budget("E", 0.5)
    texts = [ask(ledger), ask(ledger, "Q"), ask(ledger, site="B"), ask(ledger, dataset="E", data="other")]
    assert len(set(texts)) == 4
    assert (ledger.spent("D"), ledger.remaining("D")) == (Fraction(3, 10), Fraction(7, 10))
    assert (ledger.spent("E"), ledger.remaining("E")) == (Fraction(1, 10), Fraction(4, 10))
    assert ledger.datasets() == ("D", "E")
    assert [entry.kind for entry in ledger.entries("E")] == ["budget", "charge", "answer"]
    assert len(ledger.entries()) == 2 + 2 * 4


def test_decimals_are_added_exactly(tmp_path):
    assert 0.1 + 0.1 + 0.1 > 0.3
    ledger = Ledger.create(tmp_path / "l")
    ledger.set_budget("D", 0.3)
    for plan in "PQR":
        ask(ledger, plan)
    assert ledger.remaining("D") == 0
    with pytest.raises(
        BudgetExceededError, match=r"'D' has spent 0.3 of its budget 0.3, so epsilon = 0.0000001"
    ):
        ask(ledger, "S", epsilon=1e-7, sample=never)


def test_refusal_above_the_budget_draws_and_charges_nothing(path):
    ledger = Ledger(path)
    ask(ledger, epsilon=0.7)
    with pytest.raises(BudgetExceededError) as refused:
        ask(ledger, "Q", epsilon=Fraction(1, 3), sample=never)
    error = refused.value
    assert (error.dataset, error.spent, error.asked, error.budget) == (
        "D",
        Fraction(7, 10),
        Fraction(1, 3),
        Fraction(1),
    )
    assert str(path) in str(error)
    assert "epsilon = 1/3 is refused" in str(error)
    assert ledger.spent("D") == Fraction(7, 10)
    ask(ledger, "Q", epsilon=0.3)
    assert ledger.budget("D") == ledger.spent("D") == 1


def test_a_budget_is_set_once_and_raised_with_a_reason(path):
    ledger = Ledger(path)
    ledger.set_budget("D", 1.0)
    for change in (0.5, 2):
        with pytest.raises(LedgerError, match="the budget of data set 'D' is 1: see raise_budget"):
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
    ):
        with pytest.raises(LedgerError, match="no budget was set for data set 'F'"):
            call("F")
    with pytest.raises(LedgerError, match="no budget"):
        ledger.raise_budget("F", 1, reason="never set")


def test_a_paid_charge_cannot_be_drawn_on_with_a_larger_epsilon(path):
    ledger = Ledger(path)
    with pytest.raises(ZeroDivisionError):
        ask(ledger, sample=lambda: str(1 / 0))
    for epsilon in (10, 0.05):
        with pytest.raises(LedgerError, match="'P' was charged another epsilon before"):
            ask(ledger, epsilon=epsilon, sample=never)


# -- the data ----------------------------------------------------------------------------------------------


def test_changed_data_are_refused_under_the_old_name_unless_accepted(path):
    ledger = Ledger(path)
    with pytest.raises(KeyboardInterrupt):
        ask(ledger, "unfinished", sample=interrupted)
    first = ask(ledger)
    for plan in ("Q", "unfinished"):
        with pytest.raises(LedgerError, match="the data under the name 'D' have changed"):
            ask(ledger, plan, data="other", sample=never)
    ledger.accept_data("D", "other", reason="scored by model 2")
    assert ask(ledger, data=DATA, sample=never) == first
    ask(ledger, "Q", data="other")
    ask(ledger, "R", data=DATA)  # a name stands for all its versions, not for the last one alone
    ledger.accept_data("D", DATA, reason="nothing new")
    with pytest.raises(LedgerError, match="have changed"):
        ask(ledger, "S", data="a third version", sample=never)
    assert ledger.spent("D") == Fraction(4, 10)
    assert "nothing new" not in [entry.reason for entry in ledger.entries()]
    assert "scored by model 2" in [entry.reason for entry in ledger.entries()]
    with pytest.raises(LedgerError, match="no budget"):
        ledger.accept_data("F", "other", reason="never set")


def test_the_fingerprint_itself_is_not_in_the_file(path):
    ask(Ledger(path))
    assert DATA.encode() not in path.read_bytes()


@given(st.lists(st.floats(), max_size=20), st.randoms())
def test_a_fingerprint_does_not_see_order_but_every_change(scores, shuffler):
    mixed = list(scores)
    shuffler.shuffle(mixed)
    assert fingerprint(mixed) == fingerprint(np.array(scores))
    assert fingerprint([*scores, 1.0]) != fingerprint(scores)
    assert fingerprint([*scores, 1.0]) != fingerprint([*scores, np.nextafter(1.0, 2.0)])


def test_a_fingerprint_knows_one_nan_and_one_zero():
    odd = np.array([0x7FF8000000000001, 0xFFF0000000000123], dtype=np.uint64).view(np.float64)
    assert fingerprint([*odd, -0.0, 0.0]) == fingerprint([0.0, np.nan, -0.0, -np.nan])
    assert fingerprint([1, 2]) == fingerprint(np.float32([2, 1])) == DATA
    assert len(fingerprint([])) == 64


# -- arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0, -1, 0.0, float("nan"), float("inf"), 1e7, -0.0, Fraction(-1, 3)])
def test_an_epsilon_that_is_none(path, epsilon):
    ledger = Ledger(path)
    for call in (
        lambda: ask(ledger, epsilon=epsilon, sample=never),
        lambda: ledger.set_budget("E", epsilon),
        lambda: ledger.raise_budget("D", epsilon, reason="more"),
    ):
        with pytest.raises(ValueError, match=r"epsilon must be a number in \(0, 1e\+06\]"):
            call()


@pytest.mark.parametrize("epsilon", [None, "1", True, 1j])
def test_an_epsilon_that_is_no_number(path, epsilon):
    with pytest.raises(TypeError, match="epsilon must be a number"):
        ask(Ledger(path), epsilon=epsilon, sample=never)


@pytest.mark.parametrize("argument", ["dataset", "plan", "site", "data"])
def test_names_are_one_line_of_text(path, argument):
    for wrong in ("", " D", "D\n", "a\nb", "\ud800"):
        with pytest.raises(ValueError, match=f"{argument}.* must be one line of text"):
            ask(Ledger(path), **{argument: wrong}, sample=never)
    with pytest.raises(TypeError, match=f"{argument}.* must be a string, got 1"):
        ask(Ledger(path), **{argument: 1}, sample=never)


def test_a_reason_is_needed(path):
    with pytest.raises(ValueError, match="reason must be"):
        Ledger(path).raise_budget("D", 2, reason="")
    with pytest.raises(ValueError, match="reason must be"):
        Ledger(path).accept_data("D", "other", reason="")


# -- any sequence of commands ------------------------------------------------------------------------------


class Site(RuleBasedStateMachine):
    """A site that sets and raises budgets, answers, fails, restarts; the model is a few dicts."""

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
            with pytest.raises(LedgerError, match=r"max_answers" if mine else "under the name"):
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
        key, cost = (name, *plan) if by_plan else (name, *plan, data), Fraction(str(epsilon))
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
        assert quote(self.ledger, plan[0], **asked) == (0 if key in self.paid else cost, left)
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
        return "draw" if key in self.paid or self.spent(name) + cost <= self.budgets[name] else "refuse"

    def spent(self, name):
        return sum((cost for key, cost in self.paid.items() if key[0] == name), Fraction(0))

    @invariant()
    def never_overspent(self):
        if hasattr(self, "ledger"):
            assert self.ledger.datasets() == tuple(sorted(self.budgets))
            for name, budget in self.budgets.items():
                assert self.ledger.spent(name) == self.spent(name) <= budget == self.ledger.budget(name)
            for name in "DE":
                assert self.ledger.exact_answers(name) == sum(key[0] == name for key in self.exact)


TestSite = Site.TestCase
TestSite.settings = settings(max_examples=25, stateful_step_count=30)
