"""A file that cannot be trusted or written: refused in one line, and nothing is given
out.
"""

import os
import random
import shutil
import sqlite3
import stat
import tempfile
import warnings
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

import pytest

from fedconformal.privacy import Entry, Ledger, LedgerAccessWarning, LedgerError
from fedconformal.privacy._ledger_file import LedgerFile
from privacy.ledgers import (
    ask,
    charges,
    exit_code,
    in_child,
    kinds,
    linux,
    never,
    put,
    quote,
    record,
    seal_of,
)


def test_only_create_makes_a_file_and_never_over_another(tmp_path):
    missing = tmp_path / "typo.db"
    with pytest.raises(
        LedgerError,
        match=(
            r"typo.db: cannot be opened \(No such file or directory\); `fedconformal"
            r" ledger new`"
        ),
    ):
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
    seal_of(path).rename(seal_of(link))
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
def test_a_file_changed_behind_an_open_ledger(
    path, tmp_path, monkeypatch, change, moment
):
    shutil.copy(path, tmp_path / "older")
    ledger = Ledger(path)
    ask(ledger, "first")

    def meddle():
        path.unlink()
        if change == "replaced":
            seal_of(path).unlink()
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
    words = (
        "No such file"
        if change == "deleted"
        else "not the ledger that was opened, or an older copy"
    )
    with pytest.raises(LedgerError, match=words):
        ask(ledger, sample=never)


@pytest.mark.parametrize("transaction", [1, 2])
def test_moved_away_inside_a_transaction(path, monkeypatch, transaction):
    ledger, elsewhere = Ledger(path), path.with_name("elsewhere")
    read, readings = LedgerFile._read, []

    def read_then_move(file):
        read(file)
        readings.append(file)
        if len(readings) == transaction:
            path.rename(elsewhere)

    monkeypatch.setattr(LedgerFile, "_read", read_then_move)
    with pytest.raises(LedgerError, match="readonly database"):
        ask(ledger, sample=never)
    assert kinds(elsewhere) == ["budget", "charge"][:transaction]


def test_locked_longer_than_the_timeout(path):
    ledger = Ledger(path, timeout=0.1)
    charge = ledger._charge
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for call in (
            lambda: ask(ledger, sample=never),
            lambda: Ledger(path, timeout=0.1),
        ):
            with pytest.raises(
                LedgerError, match=r"ledger.db: cannot be used \(database is locked\)"
            ):
                call()
        other.execute("ROLLBACK")
        ledger._charge = lambda *args: (
            charge(*args),
            other.execute("BEGIN IMMEDIATE"),
        )[0]
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
    "header": b"SQLite format 3\0" + bytes(4080),
}


@pytest.mark.parametrize("content", NOT_LEDGERS.values(), ids=NOT_LEDGERS)
def test_what_is_not_a_ledger(tmp_path, content):
    file = tmp_path / "file.db"
    file.write_bytes(content)
    with pytest.raises(
        LedgerError, match=r"file.db: (not a ledger|cannot be used .file is not)"
    ) as refused:
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
    """A data set with 0.9 spent of 1.5, and two exact answers."""
    ledger = Ledger(path)
    ledger.raise_budget("D", 1.5, reason="more")
    ledger.set_budget("E", 1)
    for plan in "PQR":
        ask(
            ledger,
            plan,
            epsilon=0.3,
            by_plan=plan == "R",
            sample=lambda plan=plan: f"answer to {plan}",
        )
    for plan in "XY":
        record(ledger, plan)
    return path


def is_refused(file, entries):
    """Return whether a damaged file is refused; if not, then no entry may have
    changed.
    """
    try:
        ledger = Ledger(file)
    except LedgerError:
        return True
    assert ledger.entries() == entries
    return False


def test_a_truncated_file_or_a_page_of_zeros_is_refused(used, tmp_path):
    content, entries, file = (
        used.read_bytes(),
        Ledger(used).entries(),
        tmp_path / "damaged",
    )
    for length in {
        *range(0, len(content), 509),
        *range(0, len(content), 4096),
        len(content) - 2,
    }:
        put(file, content[:length], like=used)
        assert is_refused(file, entries)
    for start in range(0, len(content), 4096):
        put(file, content[:start] + bytes(4096) + content[start + 4096 :], like=used)
        assert is_refused(file, entries)


@pytest.mark.slow
@pytest.mark.parametrize("count", [80, pytest.param(1500, marks=pytest.mark.nightly)])
def test_a_flipped_bit_is_refused_or_changes_nothing(used, tmp_path, count):
    content, entries, file = (
        used.read_bytes(),
        Ledger(used).entries(),
        tmp_path / "flipped",
    )
    rng, caught = random.Random(1), 0
    places = [
        place for place, byte in enumerate(content) if byte or rng.random() < 0.02
    ]
    for place in places[:100] + rng.sample(places[100:], count):
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        put(file, changed, like=used)
        caught += is_refused(file, entries)
    assert caught > count / 2


def meddle(path, *edits):
    """Edit like somebody who knows SQLite, and who tidies up; whether anything has
    changed.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA synchronous = OFF")
        before = list(other.iterdump())
        triggers = other.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            other.execute(f"DROP TRIGGER {name}")
        for edit in edits:
            other.execute(edit)
        for _, sql in triggers:
            other.execute(sql)
        return list(other.iterdump()) != before


def edits_of_one_row(path):
    """Every single row deleted, or changed in one column; and charges copied to a plan
    never paid for.
    """
    rng, columns = random.Random(3), Entry._fields
    with closing(sqlite3.connect(path)) as reader:
        rows = reader.execute("SELECT * FROM entries").fetchall()
    for number in range(1, len(rows) + 1):
        yield f"DELETE FROM entries WHERE number = {number}"
        for place, column in enumerate(columns):
            others = [
                "NULL" if row[place] is None else repr(row[place]) for row in rows
            ]
            other = rng.choice([f"{column} || '0'", "x'30'", *sorted(set(others))])
            yield (
                f"UPDATE OR REPLACE entries SET {column} = {other} WHERE number ="
                f" {number}"
            )
    for charge in (4, 6, 8):
        copied = [
            {"number": "99", "plan": "'S'"}.get(column, column) for column in columns
        ]
        yield (
            f"INSERT INTO entries SELECT {', '.join(copied)} FROM entries WHERE number"
            f" = {charge}"
        )
    yield "DELETE FROM head"
    yield "INSERT INTO head SELECT * FROM head"
    for value in ("key", "seal", "'0'", "NULL"):
        yield f"UPDATE head SET key = {value}"
        yield f"UPDATE head SET seal = {value}"


@pytest.mark.slow
def test_every_edit_of_one_row_is_refused_by_every_call(used, tmp_path):
    file, refused = tmp_path / "edited", 0
    for edit in edits_of_one_row(used):
        put(file, used.read_bytes(), like=used)
        opened = Ledger(file)
        with suppress(sqlite3.IntegrityError):
            if not meddle(file, edit):
                continue
            with pytest.raises(LedgerError, match="corrupt"):
                Ledger(file)
            with pytest.raises(LedgerError, match="corrupt"):
                (ask, quote, record)[refused % 3](opened)
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "edits",
    [
        [
            "UPDATE entries SET number = -number WHERE number > 4",
            "UPDATE entries SET number = 1 - number",
        ],
        [
            "UPDATE entries SET number = -1 WHERE number = 4",
            "UPDATE entries SET number = 4 WHERE number = 6",
            "UPDATE entries SET number = 6 WHERE number = -1",
        ],
        [
            "DELETE FROM entries WHERE number IN (4, 5)",
            "UPDATE entries SET number = number - 2 WHERE number > 5",
        ],
        [
            "UPDATE entries SET number = number + 90 WHERE number > 9",
            "INSERT INTO entries(number) VALUES (10)",
        ],
        ["DELETE FROM entries WHERE number > 4"],
        ["DELETE FROM entries"],
        ["DROP TABLE head"],
        ["CREATE TABLE more (x)"],
    ],
)
def test_entries_reordered_removed_inserted_or_cut_off_are_refused(used, edits):
    assert meddle(used, *edits)
    with pytest.raises(LedgerError, match="corrupt"):
        Ledger(used)


def test_an_end_cut_off_with_its_head_is_refused(used):
    opened = Ledger(used)
    last = "(SELECT seal FROM entries ORDER BY number DESC LIMIT 1)"
    assert meddle(
        used, "DELETE FROM entries WHERE number > 4", f"UPDATE head SET seal = {last}"
    )
    with pytest.raises(
        LedgerError, match="not the ledger that was opened, or an older copy"
    ):
        ask(opened, "S", sample=never)
    with pytest.raises(
        LedgerError,
        match="an older copy: it ends at entry 4, and its seal is of entry 11",
    ):
        Ledger(used)


def test_edits_by_hand_are_stopped(used):
    with closing(sqlite3.connect(used, isolation_level=None)) as other:
        for edit in (
            "UPDATE entries SET epsilon = '100'",
            "DELETE FROM entries WHERE plan = 'Q'",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                other.execute(edit)
        other.execute("DROP TRIGGER no_update")
    with pytest.raises(LedgerError, match="corrupt, or changed by hand"):
        Ledger(used)


def test_a_ledger_of_a_newer_version(path):
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 4")
    with pytest.raises(
        LedgerError, match="a ledger of version 4; this program knows 3"
    ):
        Ledger(path)


def test_a_journal_mode_that_cannot_be_set_back(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN")
        other.execute("SELECT * FROM head").fetchall()
        with pytest.raises(LedgerError, match=r"locked|journal mode"):
            Ledger(path, timeout=0.1)


@linux
@pytest.mark.parametrize("modes", [(0o755, 0o444), (0o555, 0o666)])
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


def test_a_read_only_disk(path, monkeypatch):
    with suppress(TypeError):
        ask(Ledger(path), sample=lambda: None)
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda name, **how: connect(name.replace("=rw", "=ro"), **how),
    )
    ledger = Ledger(path)
    assert ledger.spent("D") == Fraction(1, 10)
    with pytest.raises(LedgerError, match="readonly"):
        ask(ledger, sample=never)
    with pytest.raises(LedgerError, match="readonly"):
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
            with pytest.raises(
                LedgerError, match=f"^{path}: [^\n]*disk is full[^\n]*$"
            ):
                call()
    assert kinds(path) == ["budget"]
    ask(Ledger(path), "P" * 10_000)


def test_no_half_a_ledger_is_left_where_there_was_no_room_for_one(
    tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        full_disk(patch, 2)
        with pytest.raises(LedgerError, match=r"^[^\n]*: [^\n]*disk is full[^\n]*$"):
            Ledger.create(tmp_path / "l")
    assert list(tmp_path.iterdir()) == []
    Ledger.create(tmp_path / "l").check()


@pytest.mark.skipif(os.name != "posix", reason="symbolic links of POSIX")
def test_a_link_in_the_place_of_a_new_seal_is_not_followed(path, tmp_path):
    """Whoever may write to the folder could have the ledger's owner overwrite a
    file.
    """
    target = tmp_path / "target"
    target.write_text("precious")
    for place in (".seal.new", ".seal"):
        link = path.with_name(f"{path.name}{place}")
        if place == ".seal.new":
            link.symlink_to(target)
            ask(Ledger(path), "P")
        else:
            copy = link.rename(tmp_path / "copy")
            link.symlink_to(copy)
            ask(Ledger(path), "Q")
            assert not link.is_symlink()
        assert target.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == [
        "copy",
        path.name,
        f"{path.name}.seal",
        "target",
    ]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX files")
@pytest.mark.parametrize(("mode", "how"), [(0o604, "read"), (0o620, "change")])
def test_a_ledger_that_others_can_use_is_warned_of(path, mode, how):
    path.chmod(mode)
    with pytest.warns(LedgerAccessWarning) as caught:
        Ledger(path)
    (warning,) = caught
    assert (
        str(warning.message)
        == f"{path}: others can {how} this ledger: run chmod 600 {path}"
    )
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
