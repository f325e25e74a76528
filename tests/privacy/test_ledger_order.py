"""The order of events: a charge is on disk before a sample is drawn, whoever asks and whoever is killed."""

import ctypes
import math
import os
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from fedconformal.privacy import Ledger, LedgerError
from fedconformal.privacy._ledger_file import LedgerFile
from privacy.ledgers import ask, charges, exit_code, in_child, kinds, linux, never, on_disk

SOURCE = Path(sys.modules[Ledger.__module__].__file__).parents[1]


def answers(ledger):
    return {entry.plan: entry.answer for entry in ledger.entries() if entry.kind == "answer"}


# -- the order of events -----------------------------------------------------------------------------------


def test_the_charge_is_on_disk_before_the_sample_is_drawn(path, tmp_path):
    def sample():
        assert kinds(path) == ["budget", "charge"]
        shutil.copy(path, tmp_path / "after-power-cut")
        return "text"

    assert ask(Ledger(path), sample=sample) == "text"
    assert kinds(path) == ["budget", "charge", "answer"]
    assert Ledger(tmp_path / "after-power-cut").spent("D") == Fraction(1, 10)


def test_commits_wait_for_the_disk_and_leave_one_file(path):
    with closing(LedgerFile(path, 1)) as file:
        file.check()
        assert file.run("PRAGMA synchronous") == [(3,)]
        assert file.run("PRAGMA journal_mode") == [("delete",)]
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
    ask(Ledger(path))
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("wrong", [None, b"bytes", 1])
def test_a_sample_that_fails_leaves_its_charge_for_the_next_call(path, wrong):
    ledger = Ledger(path)
    with pytest.raises(TypeError, match="sample must return a string"):
        ask(ledger, sample=lambda: wrong)
    with pytest.raises(UnicodeEncodeError):
        ask(ledger, sample=lambda: "\ud800")
    assert kinds(path) == ["budget", "charge"]
    assert ask(ledger, sample=lambda: "line\nä\x00") == "line\nä\x00" == ask(ledger, sample=never)
    assert ledger.spent("D") == Fraction(1, 10)


def test_nothing_is_drawn_without_a_charge(path, monkeypatch):
    monkeypatch.setattr(Ledger, "_charge", lambda *_: None)
    with pytest.raises(LedgerError, match="no charge for plan 'P'"):
        ask(Ledger(path), sample=never)


# -- several processes -------------------------------------------------------------------------------------

ASKING = """
import os, secrets, sys, time, types
for name, folder in (("fedconformal", "."), ("fedconformal.privacy", "privacy")):
    sys.modules[name] = types.ModuleType(name)  # without the package's own imports, which take a second
    sys.modules[name].__path__ = [os.path.join(sys.argv[1], folder)]
from fedconformal.privacy._ledger import Ledger
from fedconformal.privacy._ledger_accounts import BudgetExceededError
path, plan, drawn = sys.argv[2:]
def sample():
    with open(drawn, "a") as file:
        print(os.getpid(), file=file)
    time.sleep(0.02)
    return secrets.token_hex(8)
ledger = Ledger(path, timeout=600)
print("ready", flush=True)
sys.stdin.readline()
try:
    print(ledger.answer("D", plan_digest=plan, site="A", epsilon=0.1, data_fingerprint="x", sample=sample))
except BudgetExceededError:
    print("refused")
"""


def ask_together(path, plans):
    """Start a process per plan, let them all ask at once, and return what each printed."""
    drawn = path.with_name("drawn")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ASKING, SOURCE, path, plan, drawn], stdin=-1, stdout=-1, text=True
        )
        for plan in plans
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    texts = [process.communicate(timeout=600)[0].strip() for process in processes]
    assert {process.returncode for process in processes} == {0}
    return texts, drawn.read_text().split()


@pytest.mark.slow
def test_eight_processes_with_one_plan_make_one_charge_and_one_sample(path):
    texts, drawn = ask_together(path, ["P"] * 8)
    assert len(set(texts)) == len(drawn) == 1
    assert kinds(path) == ["budget", "charge", "answer"]
    assert ask(Ledger(path), data="x", sample=never) == texts[0]


@pytest.mark.slow
def test_eight_processes_with_a_budget_for_three_get_three_answers(tmp_path):
    ledger = Ledger.create(tmp_path / "l")
    ledger.set_budget("D", 0.3)
    texts, drawn = ask_together(tmp_path / "l", "PQRSTUVW")
    assert texts.count("refused") == 5
    assert len(drawn) == 3
    assert sorted(answers(ledger).values()) == sorted(set(texts) - {"refused"})
    assert ledger.remaining("D") == 0


def test_who_is_overtaken_between_charge_and_draw_returns_the_answer_that_is_stored(path):
    ledger, texts = Ledger(path), []
    charge = ledger._charge
    ledger._charge = lambda *args: (charge(*args), texts.append(ask(Ledger(path))))[0]
    assert ask(ledger, sample=never) == texts[0]
    assert kinds(path) == ["budget", "charge", "answer"]


def test_threads_may_share_a_ledger(path):
    ledger, texts = Ledger(path), []
    threads = [
        threading.Thread(target=lambda plan=plan: texts.append(ask(ledger, plan))) for plan in "PQ" * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(texts)) == sorted(answers(ledger).values())
    assert len(texts) == 8
    assert len(charges(ledger)) == 2


# -- kill -9 -----------------------------------------------------------------------------------------------


class Witness:
    """Asks in a child process and keeps, outside the ledger, what was drawn and what came out."""

    def __init__(self, path, plan="P", **how):
        self.path, self.plan, self.how = path, plan, how
        self.drawn, self.released = (path.with_name(f"{what}-{plan}") for what in ("drawn", "released"))

    def sample(self):
        if self.plan not in on_disk(self.path, "plan"):
            os._exit(99)
        text = secrets.token_hex(8)
        with open(self.drawn, "a") as file:
            print(text, file=file, flush=True)
        return text

    def ask(self):
        text = ask(Ledger(self.path), self.plan, sample=self.sample, **self.how)
        with open(self.released, "a") as file:
            print(text, file=file, flush=True)

    def check(self):
        """Whatever happened, no answer came out or was drawn unpaid, and only one ever comes out."""
        read = [file.read_text().split() if file.exists() else [] for file in (self.drawn, self.released)]
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
    return Path(shutil.copy(base, folder))


@linux
def test_killed_in_the_sample(path):
    witness = Witness(path)
    pid = in_child(lambda: ask(Ledger(path), sample=lambda: os.kill(os.getpid(), signal.SIGKILL)))
    assert exit_code(pid) == -signal.SIGKILL
    assert kinds(path) == ["budget", "charge"]
    witness.check()


@pytest.mark.slow
@linux
@pytest.mark.parametrize(
    ("how", "charge"),
    [({}, ["charge"]), ({"by_plan": True}, ["charge"]), ({"accept": "model 2"}, ["data", "charge"])],
)
def test_killed_before_every_statement(path, monkeypatch, how, charge):
    """Changed data are accepted with the charge, or not at all."""
    if "accept" in how:
        ask(Ledger(path), "earlier", data="model 1")
    run, stages, before = LedgerFile.run, [], kinds(path)
    for last in range(1000):
        count = iter(range(10**6))
        monkeypatch.setattr(
            LedgerFile,
            "run",
            lambda *args, last=last, count=count: os._exit(77) if next(count) == last else run(*args),
        )
        witness = Witness(fresh(path, last), **how)
        code = exit_code(in_child(witness.ask))
        monkeypatch.undo()
        stages.append(tuple(entry.kind for entry in Ledger(witness.path).entries()))
        witness.check()
        if code == 0:
            break
        assert code == 77
    expected = [before, before + charge, [*before, *charge, "answer"]]
    assert list(dict.fromkeys(stages)) == [tuple(stage) for stage in expected]
    assert len(stages) > 20


def ptrace(request, pid, data=0):
    call = ctypes.CDLL(None).ptrace
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long] * 4
    return call(request, pid, 0, data)


def states_between_system_calls(action, folder):
    """Run a child and list the distinct contents of a folder, one after the other, at its system calls."""
    trace_me, to_next_call, set_options, call_stops, kill_at_exit = 0, 24, 0x4200, 1, 1 << 20

    def traced():
        if ptrace(trace_me, 0) != 0:
            os._exit(55)
        os.kill(os.getpid(), signal.SIGSTOP)
        action()

    states, pid = [], in_child(traced)
    while os.WIFSTOPPED(status := os.waitpid(pid, 0)[1]):
        state = {file.name: file.read_bytes() for file in folder.iterdir()}
        if not states:
            ptrace(set_options, pid, call_stops | kill_at_exit)
        if not states or state != states[-1]:
            states.append(state)
        ptrace(to_next_call, pid)
    if os.WEXITSTATUS(status) == 55:
        pytest.skip("this machine does not allow tracing")
    assert status == 0
    return states


@linux
def test_killed_at_any_system_call(path):
    """A killed process leaves its files as they are; between two system calls they do not change."""
    witness = Witness(fresh(path, "traced"))
    states = states_between_system_calls(witness.ask, witness.path.parent)
    stages = []
    for number, state in enumerate(states):
        killed = Witness(fresh(path, number))
        for name, content in state.items():
            killed.path.with_name(name).write_bytes(content)
        stages.append(tuple(entry.kind for entry in Ledger(killed.path).entries()))
        killed.check()
    assert list(dict.fromkeys(stages)) == [("budget",), ("budget", "charge"), ("budget", "charge", "answer")]
    assert sum("ledger.db-journal" in state for state in states) >= 8


@pytest.mark.slow
@linux
def test_killed_at_random_times_among_others(path):
    """Forty times, three processes want the same answer and are killed within the time that one takes.

    In one round of four at once, and else within a quarter, a half or three quarters of that time: however
    busy the machine is, many are killed before they have their answer.
    """
    rng, codes = random.Random(4), []
    Ledger(path).raise_budget("D", 4.5, reason="forty-five plans")
    typical = math.inf
    for number in range(5):  # the shortest: on a busy machine one alone may take much longer than the rest
        start = time.perf_counter()
        assert exit_code(in_child(Witness(path, f"first {number}").ask)) == 0
        typical = min(typical, time.perf_counter() - start)
    for number in range(40):
        witness = Witness(path, f"P{number}")
        pids = [in_child(witness.ask) for _ in range(3)]
        for pid in pids:
            time.sleep(rng.uniform(0, typical * (number % 4) / 4))
            os.kill(pid, signal.SIGKILL)
        codes += [exit_code(pid) for pid in pids]
        witness.check()
    assert set(codes) <= {0, -signal.SIGKILL}
    assert codes.count(-signal.SIGKILL) > 5
    assert Ledger(path).remaining("D") == 0
