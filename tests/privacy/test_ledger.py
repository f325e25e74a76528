import ctypes
import math
import os
import random
import secrets
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fedconformal.privacy import BudgetExceededError, Ledger, LedgerAccessWarning, LedgerError, fingerprint
from fedconformal.privacy._ledger_file import LedgerFile
from privacy.ledgers import DATA, ask, charges, kinds, never, on_disk, put, quote, record

SOURCE = Path(sys.modules[Ledger.__module__].__file__).parents[1]
linux = pytest.mark.skipif(sys.platform != "linux", reason="kills and traces processes the Linux way")


@pytest.fixture
def path(tmp_path):
    Ledger.create(tmp_path / "ledger.db").set_budget("D", 1)
    return tmp_path / "ledger.db"


def interrupted():
    raise KeyboardInterrupt


def answers(ledger):
    return {entry.plan: entry.answer for entry in ledger.entries() if entry.kind == "answer"}


def in_child(action):
    """Run in a forked process; its exit code is 1 if the action failed."""
    pid = os.fork()
    if pid == 0:  # pragma: no cover
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return pid


def exit_code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


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
ledger = Ledger(path, timeout=30)
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
    texts = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert {process.returncode for process in processes} == {0}
    return texts, drawn.read_text().split()


def test_eight_processes_with_one_plan_make_one_charge_and_one_sample(path):
    texts, drawn = ask_together(path, ["P"] * 8)
    assert len(set(texts)) == len(drawn) == 1
    assert kinds(path) == ["budget", "charge", "answer"]
    assert ask(Ledger(path), data="x", sample=never) == texts[0]


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


# -- a file that cannot be trusted or written --------------------------------------------------------------


def test_only_create_makes_a_file_and_never_over_another(tmp_path):
    missing = tmp_path / "typo.db"
    with pytest.raises(LedgerError, match=r"typo.db: cannot be opened \(No such file or directory\); see"):
        Ledger(missing)
    assert os.listdir(tmp_path) == []
    Ledger.create(missing)
    assert stat.S_IMODE(missing.stat().st_mode) == 0o600
    before = missing.read_bytes()
    for place, words in (
        (missing, "File exists"),
        (tmp_path / "no" / "l", "No such file"),
        (tmp_path, "exists"),
    ):
        with pytest.raises(LedgerError, match=words):
            Ledger.create(place)
    assert missing.read_bytes() == before


def test_links_and_strange_names(path, tmp_path, monkeypatch):
    link = tmp_path / "100% a?b#c.db"
    link.symlink_to(path)
    text = ask(Ledger(link))
    assert ask(Ledger(path), sample=never) == text
    link.unlink()
    path.rename(link)
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(link.name)
    monkeypatch.chdir("/")
    assert ask(ledger, sample=never) == text
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(LedgerError, match="File exists"):
        Ledger.create(dangling)
    os.link(link, tmp_path / "second name")
    for wrong in (link, tmp_path):
        with pytest.raises(LedgerError, match="a plain file with one name"):
            Ledger(wrong)


@pytest.mark.parametrize("change", ["deleted", "replaced", "older copy"])
@pytest.mark.parametrize("moment", ["before the charge", "after the charge"])
def test_a_file_changed_behind_an_open_ledger(path, tmp_path, monkeypatch, change, moment):
    shutil.copy(path, tmp_path / "older")
    ledger = Ledger(path)
    ask(ledger, "first")

    def meddle():
        path.unlink()
        if change == "replaced":
            Ledger.create(path).set_budget("D", 100)
        if change == "older copy":
            shutil.copy(tmp_path / "older", path)

    charge = ledger._charge

    def charge_then_meddle(*args):
        charge(*args)
        meddle()

    if moment == "before the charge":
        meddle()
    else:
        monkeypatch.setattr(ledger, "_charge", charge_then_meddle)
    words = "No such file" if change == "deleted" else "not the ledger that was opened, or an older copy"
    with pytest.raises(LedgerError, match=words):
        ask(ledger, sample=never)


@pytest.mark.parametrize("transaction", [1, 2])
def test_moved_away_inside_a_transaction(path, monkeypatch, transaction):
    ledger, elsewhere = Ledger(path), path.with_name("elsewhere")
    check, checked = LedgerFile.check, []

    def check_then_move(file):
        check(file)
        checked.append(file)
        if len(checked) == transaction:
            path.rename(elsewhere)

    monkeypatch.setattr(LedgerFile, "check", check_then_move)
    with pytest.raises(LedgerError, match="read-only, or moved away"):
        ask(ledger, sample=never)
    assert kinds(elsewhere) == ["budget", "charge"][:transaction]


def test_locked_longer_than_the_timeout(path):
    ledger = Ledger(path, timeout=0.1)
    charge = ledger._charge
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for call in (lambda: ask(ledger, sample=never), lambda: Ledger(path, timeout=0.1)):
            with pytest.raises(
                LedgerError, match=r"ledger.db: locked by another process for more than 0.1 s"
            ):
                call()
        other.execute("ROLLBACK")
        ledger._charge = lambda *args: (charge(*args), other.execute("BEGIN IMMEDIATE"))[0]
        with pytest.raises(LedgerError, match="locked"):
            ask(ledger, sample=never)
    del ledger._charge
    ask(ledger)
    assert ledger.spent("D") == Fraction(1, 10)


def test_a_reader_that_stays_holds_up_the_commit_and_nothing_is_given_out(path):
    ledger = Ledger(path, timeout=0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:

        def sample():
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM head").fetchall()
            return "lost"

        with pytest.raises(LedgerError, match="locked"):
            ask(ledger, sample=sample)
    assert ask(ledger, sample=lambda: "second") == "second"
    assert len(charges(ledger)) == 1


NOT_LEDGERS = {
    "empty": b"",
    "random": random.Random(0).randbytes(20_000),
    "text": b"epsilon,1\n" * 1000,
    "header": b"SQLite format 3\0" + bytes(4080),
}


@pytest.mark.parametrize("content", NOT_LEDGERS.values(), ids=NOT_LEDGERS)
def test_what_is_not_a_ledger(tmp_path, content):
    file = tmp_path / "file.db"
    file.write_bytes(content)
    with pytest.raises(LedgerError, match=r"file.db: (not a ledger|corrupt)") as refused:
        Ledger(file)
    assert "\n" not in str(refused.value)
    assert file.read_bytes() == content


def test_a_database_of_others_is_left_alone(tmp_path):
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE t (x)")
    before = file.read_bytes()
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger(file)
    assert file.read_bytes() == before


@pytest.fixture
def used(path):
    ledger = Ledger(path)
    ledger.raise_budget("D", 1.5, reason="more")
    for plan in "PQR":
        ask(ledger, plan)
    return path


def is_refused(file, entries):
    """Whether a damaged file is refused; if not, then nothing that counts may have changed."""
    try:
        found = Ledger(file).entries()
    except LedgerError:
        return True
    assert found == entries
    return False


def test_a_truncated_file_is_refused(used, tmp_path):
    content, entries = used.read_bytes(), Ledger(used).entries()
    for length in {*range(0, len(content), 509), *range(0, len(content), 4096), len(content) - 2}:
        file = tmp_path / f"cut-{length}"
        put(file, content[:length])
        assert is_refused(file, entries)


def test_a_page_of_zeros_is_refused(used, tmp_path):
    content, entries = used.read_bytes(), Ledger(used).entries()
    assert len(content) >= 6 * 4096
    for start in range(0, len(content), 4096):
        file = tmp_path / f"zeros-{start}"
        put(file, content[:start] + bytes(4096) + content[start + 4096 :])
        assert is_refused(file, entries)


def test_a_flipped_bit_is_refused_or_changes_nothing(used, tmp_path):
    content, entries = used.read_bytes(), Ledger(used).entries()
    rng, caught = random.Random(1), 0
    places = [place for place, byte in enumerate(content) if byte or rng.random() < 0.02]
    for place in places[:100] + rng.sample(places[100:], 1500):
        file = tmp_path / f"flipped-{place}"
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        put(file, changed)
        caught += is_refused(file, entries)
    assert caught > 800


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE entries SET epsilon = '100' WHERE kind = 'budget'",
        "UPDATE entries SET epsilon = '0.01' WHERE kind = 'charge'",
        "UPDATE entries SET epsilon = x'30' WHERE kind = 'charge'",
        "UPDATE entries SET answer = 'better' WHERE kind = 'answer'",
        "DELETE FROM entries WHERE plan = 'Q'",
        "DELETE FROM entries WHERE number > 3",
        "DELETE FROM entries",
        "UPDATE head SET seal = key",
        "UPDATE head SET key = seal",
        "UPDATE entries SET root = seal WHERE number = 4",
        "DELETE FROM nodes WHERE path = ''",
        "UPDATE nodes SET node = replace(node, '0.3', '0.1')",
        "INSERT INTO nodes VALUES ('0123', '[]')",
        "DELETE FROM head",
        "DROP TABLE head",
    ],
)
def test_edits_by_hand_are_stopped_or_found(used, edit):
    with closing(sqlite3.connect(used, isolation_level=None)) as other:
        if "entries" in edit:
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                other.execute(edit)
        triggers = other.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            other.execute(f"DROP TRIGGER {name}")
        with pytest.raises(LedgerError, match="corrupt, or changed by hand"):
            Ledger(used)
        other.execute(edit)
        for _, sql in triggers:
            other.execute(sql)
    with pytest.raises(LedgerError, match="corrupt"):
        Ledger(used).check()


@pytest.mark.parametrize(
    "row",
    [
        "9, '', 'refund', 'D', NULL, NULL, NULL, '1', NULL, NULL, NULL, 'r'",
        "9, '', 'budget', 'D', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'r'",
        "9, '', 'budget', 'D', NULL, NULL, NULL, '9', NULL, NULL, NULL, NULL",
        "9, '', 'charge', 'D', NULL, 'A', 0, '1', 'f', NULL, NULL, NULL",
        "9, '', 'charge', 'D', 'P', 'A', NULL, '1', 'f', NULL, NULL, NULL",
        "9, '', 'charge', 'D', 'P', 'A', 0, '1', (SELECT max(fingerprint) FROM entries), NULL, NULL, NULL",
        "9, '', 'answer', 'D', 'P', 'A', 0, NULL, NULL, NULL, NULL, NULL",
        "9, '', 'exact', 'D', 'P', 'A', NULL, NULL, 'f', NULL, NULL, NULL",
    ],
)
def test_rows_that_make_no_sense_are_no_rows(used, row):
    with closing(sqlite3.connect(used)) as other, pytest.raises(sqlite3.IntegrityError):
        other.execute(f"INSERT INTO entries VALUES ({row}, '{'0' * 64}', '{'0' * 64}')")


def test_a_ledger_of_a_newer_version(path):
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 2")
    with pytest.raises(LedgerError, match="a ledger of version 2; this program knows 1"):
        Ledger(path)


def test_a_journal_mode_that_cannot_be_set_back(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN")
        other.execute("SELECT * FROM head").fetchall()
        with pytest.raises(LedgerError, match=r"locked|journal mode"):
            Ledger(path, timeout=0.1)


@linux
@pytest.mark.parametrize("modes", [(0o755, 0o444), (0o555, 0o666), (0o755, 0o000), (0o000, 0o666)])
def test_read_only_or_unreadable_for_this_user(modes):
    with tempfile.TemporaryDirectory(prefix="fcledger_") as name:
        folder, file = Path(name), Path(name, "l")
        Ledger.create(file).set_budget("D", 1)
        before = file.read_bytes()
        file.chmod(modes[1])
        folder.chmod(modes[0])

        def attempt():
            warnings.simplefilter("ignore", LedgerAccessWarning)
            if os.geteuid() == 0:
                os.setuid(65534)
            with pytest.raises(LedgerError, match=f"^{file}: [^\n]*$"):
                ask(Ledger(file), sample=never)
            if modes[0] != 0o755:
                with pytest.raises(LedgerError, match="cannot be created here"):
                    Ledger.create(folder / "new")

        code = exit_code(in_child(attempt))
        folder.chmod(0o755)
        assert code == 0
        assert file.read_bytes() == before


@pytest.mark.parametrize("answered", [False, True])
def test_a_read_only_disk(path, monkeypatch, answered):
    with suppress(TypeError):
        ask(Ledger(path), sample=lambda: "text" if answered else None)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name, **how: connect(name.replace("=rw", "=ro"), **how))
    ledger = Ledger(path)
    assert ledger.spent("D") == Fraction(1, 10)
    with pytest.raises(LedgerError, match="read-only"):
        ask(ledger, sample=never)
    with pytest.raises(LedgerError, match="read-only"):
        ledger.raise_budget("D", 2, reason="more")


def full_disk(monkeypatch, pages):
    """Let no database have more pages than this."""
    connect = sqlite3.connect

    def limited(name, **how):
        connection = connect(name, **how)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)


def test_a_full_disk_is_one_line_and_nothing_is_charged(path, monkeypatch):
    pages = path.stat().st_size // 4096
    with monkeypatch.context() as patch:
        full_disk(patch, pages)
        ledger = Ledger(path)
        for call in (
            lambda: ask(ledger, "P" * 10_000, sample=never),
            lambda: record(ledger, "P" * 10_000),
            lambda: ledger.raise_budget("D", 2, reason="more" * 3000),
        ):
            with pytest.raises(LedgerError, match=f"^{path}: no room on the disk [^\n]*$"):
                call()
    assert kinds(path) == ["budget"]
    ask(Ledger(path), "P" * 10_000)


def test_no_half_a_ledger_is_left_where_there_was_no_room_for_one(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        full_disk(patch, 2)
        with pytest.raises(LedgerError, match=r"^[^\n]*: no room on the disk [^\n]*$"):
            Ledger.create(tmp_path / "l")
    assert list(tmp_path.iterdir()) == []
    Ledger.create(tmp_path / "l").check()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX files")
@pytest.mark.parametrize(
    ("mode", "how"), [(0o640, "read"), (0o604, "read"), (0o620, "change"), (0o666, "change")]
)
def test_a_ledger_that_others_can_use_is_warned_of(path, mode, how):
    path.chmod(mode)
    with pytest.warns(LedgerAccessWarning) as caught:
        Ledger(path)
    (warning,) = caught
    assert str(warning.message) == f"{path}: others can {how} this ledger: run chmod 600 {path}"
    assert warning.filename == __file__
    path.chmod(0o600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(Ledger(path))


@linux
def test_a_disk_that_fills_up_while_the_answer_is_stored(path):
    def attempt():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with pytest.raises(LedgerError, match=f"^{path}: [^\n]*$"):
            ask(Ledger(path), sample=lambda: "x" * 10**6)

    assert exit_code(in_child(attempt)) == 0
    ledger = Ledger(path)
    assert [entry.kind for entry in ledger.entries()] == ["budget", "charge"]
    assert ask(ledger, sample=lambda: "y" * 10**6) == "y" * 10**6
    assert len(charges(ledger)) == 1


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
