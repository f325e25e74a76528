"""A file that cannot be trusted or written: refused in one line, and nothing is given out."""

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

from fedconformal.privacy import Ledger, LedgerAccessWarning, LedgerError
from fedconformal.privacy._ledger_file import LedgerFile
from privacy.ledgers import ask, charges, exit_code, in_child, kinds, linux, never, put, record


def test_only_create_makes_a_file_and_never_over_another(tmp_path):
    missing = tmp_path / "typo.db"
    with pytest.raises(
        LedgerError,
        match=r"typo.db: cannot be opened \(No such file or directory\); `fedconformal ledger new`",
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


@pytest.mark.slow
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
