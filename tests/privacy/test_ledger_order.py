"""The order of events: a charge is on disk before a sample is drawn, whoever asks and
whoever is killed.
"""

import ctypes
import itertools
import os
import random
import secrets
import shutil
import signal
import sqlite3
import threading
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from fedconformal.privacy import BudgetExceededError, Ledger, LedgerError
from fedconformal.privacy._ledger_file import LedgerFile
from privacy.ledgers import (
    ask,
    charges,
    exit_code,
    in_child,
    kinds,
    linux,
    never,
    on_disk,
    seal_of,
)


def append(file, text):
    with open(file, "a") as opened:
        print(text, file=opened, flush=True)


def answers(ledger):
    return {
        entry.plan: entry.answer for entry in ledger.entries() if entry.kind == "answer"
    }


# -- the order of events ---------------------------------------------------------------


def test_the_charge_is_on_disk_before_the_sample_is_drawn(path, tmp_path):
    def sample():
        assert kinds(path) == ["budget", "charge"]
        for file in (path, seal_of(path)):
            shutil.copy(
                file, tmp_path / file.name.replace("ledger.db", "after-power-cut")
            )
        return "text"

    assert ask(Ledger(path), sample=sample) == "text"
    assert kinds(path) == ["budget", "charge", "answer"]
    assert Ledger(tmp_path / "after-power-cut").spent("D") == Fraction(1, 10)


def test_commits_wait_for_the_disk_and_leave_one_file_and_its_seal(path):
    with closing(LedgerFile(path, 1)) as file:
        file.begin(write=False, seen=None)
        assert file.run("PRAGMA synchronous") == [(3,)]
        assert file.run("PRAGMA journal_mode") == [("delete",)]
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
    ask(Ledger(path))
    assert sorted(os.listdir(path.parent)) == [path.name, seal_of(path).name]


def test_a_sample_that_fails_leaves_its_charge_for_the_next_call(path):
    ledger = Ledger(path)
    with pytest.raises(TypeError, match="sample must return a string"):
        ask(ledger, sample=lambda: b"bytes")
    with pytest.raises(UnicodeEncodeError):
        ask(ledger, sample=lambda: "\ud800")
    assert kinds(path) == ["budget", "charge"]
    assert (
        ask(ledger, sample=lambda: "line\nä\x00")
        == "line\nä\x00"
        == ask(ledger, sample=never)
    )
    assert ledger.spent("D") == Fraction(1, 10)


def test_nothing_is_drawn_without_a_charge(path, monkeypatch):
    monkeypatch.setattr(Ledger, "_charge", lambda *_: None)
    with pytest.raises(LedgerError, match="no charge for plan 'P'"):
        ask(Ledger(path), sample=never)


# -- several processes -----------------------------------------------------------------


def ask_together(path, plans):
    """Fork a process per plan, let them all ask at once, and return what each got and
    what was drawn.
    """
    drawn, got, (wait, go) = path.with_name("drawn"), path.with_name("got"), os.pipe()

    def attempt(plan):
        def sample():
            append(drawn, plan)
            time.sleep(0.02)
            return secrets.token_hex(8)

        ledger = Ledger(path, timeout=600)
        os.close(go)
        os.read(wait, 1)  # until nobody is left who could write
        try:
            append(got, ask(ledger, plan, sample=sample))
        except BudgetExceededError:
            append(got, "refused")

    pids = [in_child(lambda plan=plan: attempt(plan)) for plan in plans]
    os.close(go)
    assert {exit_code(pid) for pid in pids} == {0}
    os.close(wait)
    return got.read_text().split(), drawn.read_text().split()


@linux
def test_eight_processes_with_one_plan_make_one_charge_and_one_sample(path):
    texts, drawn = ask_together(path, ["P"] * 8)
    assert (len(texts), len(set(texts)), len(drawn)) == (8, 1, 1)
    assert kinds(path) == ["budget", "charge", "answer"]
    assert ask(Ledger(path), sample=never) == texts[0]


@linux
def test_eight_processes_with_a_budget_for_three_get_three_answers(tmp_path):
    ledger = Ledger.create(tmp_path / "l")
    ledger.set_budget("D", 0.3)
    texts, drawn = ask_together(tmp_path / "l", "PQRSTUVW")
    assert texts.count("refused") == 5
    assert len(drawn) == 3
    assert sorted(answers(ledger).values()) == sorted(set(texts) - {"refused"})
    assert ledger.remaining("D") == 0


def test_who_is_overtaken_between_charge_and_draw_returns_the_answer_that_is_stored(
    path,
):
    ledger, texts = Ledger(path), []
    charge = ledger._charge
    ledger._charge = lambda *args: (charge(*args), texts.append(ask(Ledger(path))))[0]
    assert ask(ledger, sample=never) == texts[0]
    assert kinds(path) == ["budget", "charge", "answer"]


def test_threads_may_share_a_ledger(path):
    ledger, texts = Ledger(path, timeout=600), []
    threads = [
        threading.Thread(target=lambda plan=plan: texts.append(ask(ledger, plan)))
        for plan in "PQ" * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(texts)) == sorted(answers(ledger).values())
    assert len(texts) == 8
    assert len(charges(ledger)) == 2


# -- kill -9 ---------------------------------------------------------------------------


class Witness:
    """Asks in a child process and keeps, outside the ledger, what was drawn and what
    came out.
    """

    def __init__(self, path, plan="P", **how):
        self.path, self.plan, self.how = path, plan, how
        self.drawn, self.released = (
            path.with_name(f"{what}-{plan}") for what in ("drawn", "released")
        )

    def sample(self):
        if self.plan not in on_disk(self.path, "plan"):
            os._exit(99)
        text = secrets.token_hex(8)
        append(self.drawn, text)
        return text

    def ask(self):
        append(
            self.released,
            ask(Ledger(self.path), self.plan, sample=self.sample, **self.how),
        )

    def check(self):
        """Whatever happened, no answer came out or was drawn unpaid, and only one ever
        comes out.
        """
        read = [
            file.read_text().split() if file.exists() else []
            for file in (self.drawn, self.released)
        ]
        drawn, released = read
        ledger = Ledger(self.path)
        before = [entry.plan for entry in charges(ledger)].count(self.plan)
        assert before == 1 or (before, drawn, released) == (0, [], [])
        assert len(set(released)) <= 1
        final = ask(ledger, self.plan, sample=self.sample, **self.how)
        assert set(released) <= {final}
        assert [entry.plan for entry in charges(ledger)].count(self.plan) == 1
        assert ledger.spent("D") <= ledger.budget("D")


def fresh(base, number):
    """A copy of a ledger in a folder of its own."""
    folder = base.with_name(f"run-{number}")
    folder.mkdir()
    shutil.copy(seal_of(base), folder)
    return Path(shutil.copy(base, folder))


def kill_at_statement(monkeypatch, last):
    """Kill the process instead of executing this statement of SQL."""
    count, connect = itertools.count(), sqlite3.connect

    class Dying(sqlite3.Connection):
        def execute(self, *args):
            if next(count) == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().execute(*args)

    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **how: connect(*args, **how, factory=Dying)
    )


@pytest.mark.nightly
@linux
@pytest.mark.parametrize(
    ("how", "charge"),
    [({"by_plan": True}, ["charge"]), ({"accept": "model 2"}, ["data", "charge"])],
)
def test_killed_before_every_statement(path, monkeypatch, how, charge):
    """Changed data are accepted with the charge, or not at all."""
    if "accept" in how:
        ask(Ledger(path), "earlier", data="model 1")
    stages, before = [], kinds(path)
    for last in range(1000):
        witness = Witness(fresh(path, last), **how)
        with monkeypatch.context() as patch:
            kill_at_statement(patch, last)
            code = exit_code(in_child(witness.ask))
        stages.append(tuple(entry.kind for entry in Ledger(witness.path).entries()))
        witness.check()
        if code == 0:
            break
        assert code == -signal.SIGKILL
    expected = [before, before + charge, [*before, *charge, "answer"]]
    assert list(dict.fromkeys(stages)) == [tuple(stage) for stage in expected]
    assert len(stages) > 40


def ptrace(request, pid, data=0):
    call = ctypes.CDLL(None).ptrace
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long] * 4
    return call(request, pid, 0, data)


def run_until(action, seen, *, stop=None):
    """Run a child, call ``seen`` at each of its system calls, and kill it at one of
    them; returns how many there were.
    """
    trace_me, to_next_call, set_options, call_stops, kill_at_exit = (
        0,
        24,
        0x4200,
        1,
        1 << 20,
    )

    def traced():
        if ptrace(trace_me, 0) != 0:
            os._exit(55)
        os.kill(os.getpid(), signal.SIGSTOP)
        action()

    pid = in_child(traced)
    for number in itertools.count():
        status = os.waitpid(pid, 0)[1]
        if not os.WIFSTOPPED(status):
            if os.WEXITSTATUS(status) == 55:
                pytest.skip("this machine does not allow tracing")
            assert status == 0
            return number
        if number == 0:
            ptrace(set_options, pid, call_stops | kill_at_exit)
        seen(number)
        if number == stop:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return number
        ptrace(to_next_call, pid)


def states_between_system_calls(action, folder):
    """Run a child and list the distinct contents of a folder, one after the other, at
    its system calls.
    """
    states = []

    def look(_):
        state = {file.name: file.read_bytes() for file in folder.iterdir()}
        if not states or state != states[-1]:
            states.append(state)

    run_until(action, look)
    return states


@pytest.mark.slow
@linux
@pytest.mark.parametrize(
    ("how", "charge"),
    [({}, ["charge"]), ({"accept": "model 2"}, ["data", "charge"])],
    ids=["", "accept"],
)
def test_killed_at_any_system_call(path, how, charge):
    """A killed process leaves its files as they are; between two system calls they do
    not change.

    Changed data are accepted with the charge, or not at all.
    """
    if "accept" in how:
        ask(Ledger(path), "earlier", data="model 1")
    before = kinds(path)
    witness = Witness(fresh(path, "traced"), **how)
    states = states_between_system_calls(witness.ask, witness.path.parent)
    stages = []
    for number, state in enumerate(states):
        killed = Witness(fresh(path, number), **how)
        for name, content in state.items():
            killed.path.with_name(name).write_bytes(content)
        stages.append(tuple(entry.kind for entry in Ledger(killed.path).entries()))
        killed.check()
    expected = [before, before + charge, [*before, *charge, "answer"]]
    assert list(dict.fromkeys(stages)) == [tuple(stage) for stage in expected]
    assert sum("ledger.db-journal" in state for state in states) >= 8


@pytest.mark.slow
@linux
def test_killed_while_a_ledger_is_made(tmp_path):
    """Nothing is in the way of the next one, or there is a ledger, empty and with a
    seal.
    """
    changes, states = [0], [frozenset()]

    def look(number):
        files = (tmp_path / "traced").iterdir()
        state = frozenset(
            (file.name, *file.stat()[:3], file.stat().st_size) for file in files
        )
        if state != states[-1]:
            states.append(state)
            changes.append(number)

    (tmp_path / "traced").mkdir()
    last = run_until(lambda: Ledger.create(tmp_path / "traced" / "l"), look)
    outcomes = set()
    for number in {*changes, *(change - 1 for change in changes[1:]), last - 1}:
        folder = tmp_path / f"{number}"
        folder.mkdir()
        path = folder / "l"
        run_until(lambda path=path: Ledger.create(path), lambda _: None, stop=number)
        outcomes.add((path.exists(), seal_of(path).exists()))
        if path.exists():
            with pytest.raises(LedgerError, match="File exists"):
                Ledger.create(path)
            ledger = Ledger(path)
        else:
            assert not seal_of(path).exists()
            ledger = Ledger.create(path)
        assert path.stat().st_nlink == 1
        assert seal_of(path).exists()
        ledger.set_budget("D", 1)
        assert kinds(path) == ["budget"]
    assert outcomes == {(False, False), (True, False), (True, True)}
    assert len(changes) > 10


@pytest.mark.slow
@linux
@pytest.mark.parametrize("rounds", [6, pytest.param(60, marks=pytest.mark.nightly)])
def test_killed_at_random_statements_among_others(path, rounds):
    """In each round three processes want the same answer, and most are killed before
    they have it.
    """
    rng, codes = random.Random(4), []
    Ledger(path).raise_budget("D", 60, reason="many plans")
    for number in range(rounds):
        witness = Witness(path, f"P{number}")

        def killed(last, witness=witness):
            kill_at_statement(pytest.MonkeyPatch(), last)
            witness.ask()

        lasts = [rng.randrange(10), rng.randrange(60), rng.randrange(60)]
        codes += [
            exit_code(pid)
            for pid in [in_child(lambda last=last: killed(last)) for last in lasts]
        ]
        witness.check()
    assert set(codes) <= {0, -signal.SIGKILL}
    assert set(codes[::3]) == {-signal.SIGKILL}
    assert Ledger(path).spent("D") == Fraction(rounds, 10)
