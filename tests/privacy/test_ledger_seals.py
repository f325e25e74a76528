"""A ledger that was meddled with: every single answer is as before or refused, and a check finds it all.

And what this costs: counted in steps of SQLite and in rows, at 100 and at 10,000 entries.
"""

import random
import secrets
import shutil
import sqlite3
from contextlib import closing, suppress
from fractions import Fraction

import pytest

from fedconformal.privacy import Entry, Ledger, LedgerError
from fedconformal.privacy._ledger_file import LedgerFile
from privacy.ledgers import ask, never, put, quote, record

SEALED = {
    "entries": [*Entry._fields, "root", "seal"],
    "nodes": ["path", "node"],
    "head": ["key", "seal"],
}


def fixed_key(monkeypatch):
    """The shape of the index depends on the ledger's key."""
    monkeypatch.setattr(secrets, "token_hex", lambda size: "5a" * size)


@pytest.fixture
def used(tmp_path, monkeypatch):
    """A data set with 0.9 spent of 1, and two exact answers."""
    fixed_key(monkeypatch)
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.set_budget("D", 0.5)
    ledger.raise_budget("D", 1, reason="more")
    ledger.set_budget("E", 1)
    for plan in "PQR":
        ask(ledger, plan, epsilon=0.3, by_plan=plan == "R", sample=lambda plan=plan: f"answer to {plan}")
    for plan in "XY":
        record(ledger, plan, most=2)
    return ledger.path


def edits(path):
    """Every single row deleted, copied, or changed in one column."""
    rng = random.Random(3)
    with closing(sqlite3.connect(path)) as reader:
        for table, columns in SEALED.items():
            name = {"entries": "number", "nodes": "path", "head": "one"}[table]
            for (row,) in reader.execute(f"SELECT {name} FROM {table}").fetchall():
                where = f"WHERE {name} = {row!r}"
                yield f"DELETE FROM {table} {where}"
                for column in columns:
                    values = reader.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
                    others = ["NULL" if value is None else repr(value) for (value,) in values]
                    other = rng.choice([f"{column} || '0'", *others])
                    yield f"UPDATE OR REPLACE {table} SET {column} = {other} {where}"
    for charge in (4, 6, 8):  # once more, for a plan that was never paid for
        copied = [{"number": "11", "plan": "'S'"}.get(column, column) for column in SEALED["entries"]]
        yield f"INSERT INTO entries SELECT {', '.join(copied)} FROM entries WHERE number = {charge}"


def meddle(path, edit):
    """Edit like somebody who knows SQLite, and who tidies up; whether anything has changed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA synchronous = OFF")
        before = list(other.iterdump())
        triggers = other.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            other.execute(f"DROP TRIGGER {name}")
        other.execute("PRAGMA ignore_check_constraints = ON")
        try:
            other.execute(edit)
        except sqlite3.IntegrityError:
            return False
        for _, sql in triggers:
            other.execute(sql)
        return list(other.iterdump()) != before


def assert_no_gain(path):
    """No call may give out more than the untouched ledger would."""
    try:
        ledger = Ledger(path)
    except LedgerError:
        return
    for call in (
        lambda: ask(ledger, "S", epsilon=0.2, sample=never),
        lambda: ask(ledger, "S", epsilon=0.3, by_plan=True, sample=never),
        lambda: quote(ledger, "S", epsilon=0.2),
        lambda: record(ledger, "Z", most=2),
        lambda: ask(ledger, "S", dataset="E", epsilon=0.2, sample=never),
        lambda: record(ledger, "S", dataset="E"),
    ):
        with pytest.raises(LedgerError):
            call()
    for call, expected in (
        (lambda: ask(ledger, "P", epsilon=0.3, sample=never), "answer to P"),
        (lambda: ask(ledger, "R", epsilon=0.3, by_plan=True, sample=never), "answer to R"),
        (lambda: ledger.spent("D"), Fraction(9, 10)),
        (lambda: ledger.budget("D"), 1),
        (lambda: ledger.exact_answers("D"), 2),
        (lambda: ledger.has_answered("D", "Q"), True),
    ):
        with suppress(LedgerError):
            assert call() == expected


@pytest.mark.slow
def test_no_edit_of_one_row_is_a_larger_budget_and_the_check_finds_each(used, tmp_path):
    Ledger(used).check()
    assert_no_gain(used)
    found = 0
    for edit in edits(used):
        copy = tmp_path / "edited"
        shutil.copy(used, copy)
        if not meddle(copy, edit):
            continue
        with pytest.raises(LedgerError, match="corrupt"):
            Ledger(copy).check()
        assert_no_gain(copy)
        found += 1
    assert found > 100


def test_what_an_answer_rests_on_is_checked_at_every_answer(used):
    """Not by the check of the whole: the running total itself, and the text that is given back."""
    for edit, call in (
        (
            "UPDATE nodes SET node = replace(node, '0.9', '0.1')",
            lambda: quote(Ledger(used), "S", epsilon=0.2),
        ),
        ("UPDATE nodes SET node = replace(node, '0.9', '0.1')", lambda: Ledger(used).spent("D")),
        ("UPDATE entries SET answer = 'better'", lambda: ask(Ledger(used), epsilon=0.3, sample=never)),
        ("DELETE FROM entries WHERE number = (SELECT max(number) FROM entries)", lambda: Ledger(used)),
    ):
        before = used.read_bytes()
        assert meddle(used, edit)
        with pytest.raises(LedgerError, match="corrupt"):
            call()
        used.write_bytes(before)


def test_an_earlier_entry_matters_to_no_answer_and_is_found_by_the_check(used):
    assert meddle(used, "UPDATE entries SET epsilon = '0.01' WHERE number = 4")
    assert Ledger(used).spent("D") == Fraction(9, 10)
    assert_no_gain(used)
    for whole in (Ledger(used).check, Ledger(used).entries, Ledger(used).datasets):
        with pytest.raises(LedgerError, match="corrupt: entry 4 or one before it was changed"):
            whole()


@pytest.mark.slow
def test_a_flipped_bit_is_never_a_larger_budget(used, tmp_path):
    content, rng = used.read_bytes(), random.Random(2)
    places = [place for place, byte in enumerate(content) if byte]
    file = tmp_path / "flipped"
    for place in places[:50] + rng.sample(places, 150):
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        put(file, changed)
        assert_no_gain(file)
        file.unlink()


# -- what it costs -----------------------------------------------------------------------------------------


class Meter:
    """Counts the steps of SQLite's machine, and the rows that it hands over, while it is asked to."""

    def __init__(self, monkeypatch):
        self.steps = self.rows = 0
        self.on = False
        connect, run = sqlite3.connect, LedgerFile.run

        def counted(*args, **how):
            connection = connect(*args, **how)
            if self.on:
                connection.set_progress_handler(self._step, 1)
            return connection

        def listed(file, *args):
            rows = run(file, *args)
            self.rows += len(rows)
            return rows

        monkeypatch.setattr(sqlite3, "connect", counted)
        monkeypatch.setattr(LedgerFile, "run", listed)

    def _step(self):
        self.steps += 1
        return 0

    def of(self, action):
        self.steps, self.rows, self.on = 0, 0, True
        action()
        self.on = False
        return self.steps, self.rows


def lengthen(ledger, length):
    """Write charges and answers up to a number of entries, in one commit, as each waits for the disk."""
    with ledger._log(write=True) as log:
        while log.end.number < length:
            number = log.end.number
            asked = {
                "plan": f"old {number}",
                "site": "A",
                "by_plan": 0,
                "fingerprint": log.keyed(str(number)),
            }
            log.append("charge", "D", **asked, epsilon="0.001")
            log.append("answer", "D", **asked, answer="old")


def costs(ledger, meter, name):
    path = ledger.path
    return {
        "open": meter.of(lambda: Ledger(path)),
        "answer": meter.of(lambda: ask(ledger, name, data=name, accept="new")),
        "by plan": meter.of(lambda: ask(ledger, name, data=name, by_plan=True)),
        "replay": meter.of(lambda: ask(ledger, name, data=name, sample=never)),
        "quote": meter.of(lambda: quote(ledger, name, data=name)),
        "exact": meter.of(lambda: record(ledger, name, data=name)),
        "spent": meter.of(lambda: ledger.spent("D")),
        "has answered": meter.of(lambda: ledger.has_answered("D", name)),
    }


@pytest.mark.slow
def test_an_answer_at_2_000_entries_costs_what_it_costs_at_100(tmp_path, monkeypatch):
    fixed_key(monkeypatch)
    ledger, meter = Ledger.create(tmp_path / "ledger.db"), Meter(monkeypatch)
    ledger.set_budget("D", 100)
    lengthen(ledger, 100)
    few = costs(ledger, meter, "at 100")
    lengthen(ledger, 2000)
    many = costs(ledger, meter, "at 2,000")
    for what in few:
        assert few[what][0] > 50
        assert many[what][0] <= 2 * few[what][0], what
        assert many[what][1] <= 2 * few[what][1], what
    assert many["answer"][1] < 100
