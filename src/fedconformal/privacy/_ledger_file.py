"""The file of a ledger: a chain of sealed entries in one SQLite table, read and checked
whole.

The seal of an entry is the SHA-256 of the seal before it and of all its fields; the
first one goes on from a hash of the file's key. The head of the file repeats the last
seal. Every transaction reads all entries and checks every page and every seal before it
uses any of them, so that an entry that was edited, removed, inserted or moved is an
error and not a larger budget; so is a lost end of the log. An open `Ledger` also
remembers the last seal that it has seen, and refuses a file without it: another ledger,
or an older copy that was put back meanwhile. The hashes have no secret. They do not
stop somebody who computes all of them again.

Between two runs a second file, ``NAME.seal``, remembers the number and the seal of the
last entry, and a log without them is refused: it is an older copy, whose answers would
be forgotten and its budget renewed. The order of the writes is the argument, in which a
crash may come between any two:

1. The entries are committed, and on disk.
2. The seal is written to a new file, which is synchronised and moved over the old one;
   then the folder is. This is done under the lock of the ledger, with the last entry
   that is committed by then, so that the seal never goes back. A call that writes
   returns only afterwards.
3. A call reads the seal while it holds the lock for reading, under which nothing is
   committed. So the seal that it compares with the log is never ahead of it, and behind
   by one transaction at most.

A new ledger is made under a temporary name and linked to its own when it is whole; its
seal comes with the first transaction, which makes it before anything is returned. So a
ledger of no entries and no transaction needs no seal. A process that is killed leaves
no ledger, or a whole one, perhaps with its temporary name, which the next call removes.

A crash before 2 leaves a seal that is behind by one transaction, whose answer has not
left the site: the ledger is accepted, and the next call, also one that only reads,
brings the seal up to date before it writes or returns anything: an answer that was
shown can not be rolled back and drawn again. A seal that is further behind is of
another time than its ledger, as after half a restore, and refused; so is a ledger whose
seal is missing or damaged. Whoever puts back both files of one time is found only by
the seal in an earlier report, or by one noted elsewhere.

A committed transaction survives a power cut: with ``synchronous = EXTRA`` and a
rollback journal a transaction is committed by deleting the journal, and FULL alone does
not wait for that deletion, so that a power cut could undo a charge after its answer had
left. A write-ahead log would be durable too, but then the last charges live in a second
file that a copy or a tidy-up leaves behind; with a rollback journal one file is the
whole ledger between transactions.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import shlex
import sqlite3
import stat
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from fedconformal._files import open_new
from fedconformal._text import warn

_APPLICATION = 0x66634C67  # "fcLg"
_VERSION = 3
_MOST_AT_ONCE = (
    2  # entries of one transaction, by which a crash may leave the seal behind
)
_ENCODE = json.JSONEncoder(default=repr).encode


class LedgerError(ValueError):
    """The ledger refuses or cannot be used, and gives nothing out."""


class LedgerAccessWarning(UserWarning):
    """Others than the owner can read or change a ledger."""


class Entry(NamedTuple):
    """One line of the log.

    Parameters
    ----------
    number : int
        Position in the log; 1 is the first.
    time : str
        Time of writing, in UTC.
    kind : str
        ``"budget"`` (set or raised), ``"data"`` (accepted), ``"charge"``, ``"answer"``,
        ``"exact"`` (an answer without noise), or ``"lost"`` (the rest of a budget,
        after entries were lost).
    dataset : str
        The data set that it is about.
    plan, site : str or None
        What was answered and by whom, of charges and answers.
    by_plan : int or None
        Of charges and their answers, 1 if these three name the answer, 0 if it takes
        the fingerprint too.
    epsilon : str or None
        The number, of budgets and charges.
    fingerprint : str or None
        A hash of the data with this ledger's key.
    answer : str or None
        What was given out, of answers.
    numbers : int or None
        How many scores have left, of exact answers.
    reason : str or None
        Why, of budgets and accepted data.
    seal : str
        SHA-256 over this entry and all before it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import fedconformal as fc
    >>> with TemporaryDirectory() as folder:
    ...     ledger = fc.Ledger.create(Path(folder) / "ledger.db")
    ...     ledger.set_budget("2024", 3)
    ...     print([entry.dataset for entry in ledger.entries()])
    ['2024']
    """

    number: int
    time: str
    kind: str
    dataset: str
    plan: str | None = None
    site: str | None = None
    by_plan: int | None = None
    epsilon: str | None = None
    fingerprint: str | None = None
    answer: str | None = None
    numbers: int | None = None
    reason: str | None = None
    seal: str = ""


_SCHEMA = (
    (
        f"CREATE TABLE entries ({Entry._fields[0]} INTEGER PRIMARY KEY,"
        f" {', '.join(Entry._fields[1:])})"
    ),
    "CREATE TABLE head (key, seal, writes)",
    (
        "CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT,"
        " 'never changed'); END"
    ),
    (
        "CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT,"
        " 'never removed'); END"
    ),
)


class LedgerFile:
    """One connection to the file; within a transaction its key, entries and seals,
    checked.

    Parameters
    ----------
    path : Path
        The file, which must be there.
    timeout : float
        Seconds to wait for another process's lock.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        try:
            status = path.stat()
        except OSError as error:
            made = "`fedconformal ledger new` or Ledger.create makes one"
            raise self.refusal(f"cannot be opened ({error.strerror}); {made}") from None
        if status.st_nlink > 1:
            status = self._without_temporary_name(status)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            # A journal belongs to a name: after a crash a second hard link would open a
            # half-written file.
            raise self.refusal(
                "must be a plain file with one name (a symbolic link to it is fine)"
            )
        self.seal_path = seal_path(path)
        uri = f"{path.as_uri()}?mode=rw"
        try:
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=timeout, isolation_level=None
            )
        except sqlite3.Error as error:
            raise self.refusal(f"cannot be used ({error})") from error

    def _without_temporary_name(self, status: os.stat_result) -> os.stat_result:
        """Remove the name under which the ledger was made, if it has kept it."""
        real = self.path.resolve()
        with suppress(OSError):
            for other in real.parent.iterdir():
                is_temporary = _TEMPORARY.fullmatch(other.name)
                if is_temporary and os.path.samestat(other.lstat(), status):
                    other.unlink()
            return real.stat()
        return status

    def initialize(self, key: str) -> None:
        """Make an empty file a ledger with this key, without a seal."""
        self.run("PRAGMA synchronous = EXTRA")
        self.run("BEGIN EXCLUSIVE")
        for statement in _SCHEMA:
            self.run(statement)
        self.run("INSERT INTO head VALUES (?, ?, 0)", key, _digest(key))
        self.run(f"PRAGMA application_id = {_APPLICATION}")
        self.run(f"PRAGMA user_version = {_VERSION}")
        self.run("COMMIT")

    def begin(self, *, write: bool, seen: str | None, is_lost: bool = False) -> None:
        """Begin a transaction and read all entries; refuse what is not a ledger as it
        was written.

        A log without the seal that was ``seen`` or that is in the file beside it is
        refused, unless ``is_lost`` says that this is known. A database of others stays
        untouched.
        """
        if self.run("PRAGMA application_id") != [(_APPLICATION,)]:
            raise self.refusal("not a ledger")
        ((version,),) = self.run("PRAGMA user_version")
        if version != _VERSION:
            raise self.refusal(
                f"a ledger of version {version}; this program knows {_VERSION}"
            )
        for pragma in ("synchronous = EXTRA", "fullfsync = ON", "cell_size_check = ON"):
            self.run(f"PRAGMA {pragma}")
        if self.run("PRAGMA journal_mode = DELETE") != [("delete",)]:
            raise self.refusal("its journal mode was changed and cannot be set back")
        self.run("BEGIN IMMEDIATE" if write else "BEGIN")
        schema = {
            sql
            for (sql,) in self.run(
                "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
            )
        }
        if schema != set(_SCHEMA) or self.run("PRAGMA integrity_check") != [("ok",)]:
            raise self.refusal("corrupt, or changed by hand")
        self._read()
        if seen is not None and seen not in self.seals:
            raise self.refusal("not the ledger that was opened, or an older copy of it")
        is_behind = self._check_seal(is_lost=is_lost)
        if is_behind and not write:
            self.run("ROLLBACK")
            self.begin(write=True, seen=seen)
            return
        if write:
            # A write lock is granted even if the file is read-only or was moved; only
            # writing tells.
            self.run("UPDATE head SET writes = writes + 1")
        if write and not is_lost:
            self._note(len(self.entries), self.seals[-1])

    def commit(self) -> None:
        """Commit, and note the last seal in the file beside the ledger if anything was
        written.
        """
        self.run("COMMIT")
        if len(self.seals) > len(self.entries) + 1:
            self.run(
                "BEGIN IMMEDIATE"
            )  # others may have written since: no seal is replaced by an older one
            self._note(
                *self.run("SELECT (SELECT count(*) FROM entries), seal FROM head")[0]
            )
            self.run("ROLLBACK")

    def _noted(self) -> str | None:
        """Return the content of the file beside the ledger; None if there is none."""
        try:
            if not stat.S_ISREG(self.seal_path.stat().st_mode):
                raise self.refusal(
                    f"its seal {self.seal_path.name} is not a regular file"
                )
            with self.seal_path.open("rb") as file:
                return file.read(1000).decode("ascii", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.refusal(f"its seal cannot be read ({error.strerror})") from None

    def _check_seal(self, *, is_lost: bool) -> bool:
        """Refuse a ledger that does not belong to the seal beside it; or, if that is
        known, one that does.

        Returns True if the seal is behind by a transaction.
        """
        noted, last, problem = self._noted() or "", len(self.entries), None
        is_new = self._writes == 0 and not last
        if is_new and not noted and not is_lost:
            return True  # it was made just now
        number = (
            int(noted[:18]) if re.fullmatch(r"[0-9]{18} [0-9a-f]{64}\n", noted) else -1
        )
        if not noted:
            problem = f"its seal {self.seal_path.name} is missing"
        elif number > last:
            problem = (
                f"an older copy: it ends at entry {last}, and its seal is of entry"
                f" {number}"
            )
        elif number < last - _MOST_AT_ONCE or noted != _seal_line(
            number, self.seals[number]
        ):
            problem = (
                f"its seal {self.seal_path.name} is of another time or ledger, or"
                " damaged"
            )
        if problem and not is_lost:
            raise self.refusal(
                f"{problem}; put the latest ledger and seal back, or accept that"
                " entries are lost: `fedconformal ledger reseal` or Ledger.reseal,"
                " which count every budget as spent"
            )
        if is_lost and not problem:
            raise self.refusal("its seal is right: no entries are lost")
        return number < last

    def _note(self, number: int, seal: str) -> None:
        """Write a seal to the file beside the ledger, whole or not at all, and wait
        until it is on disk.
        """
        line, temporary = (
            _seal_line(number, seal),
            self.seal_path.with_name(f"{self.seal_path.name}.new"),
        )
        if self._noted() == line:
            return
        try:
            temporary.unlink(missing_ok=True)  # that of a process that was killed
            handle = open_new(temporary, 0o600)
            with open(handle, "w", encoding="ascii", newline="") as file:
                file.write(line)
                file.flush()
                if os.name == "posix":  # whoever shares the ledger shares its seal
                    os.fchmod(handle, stat.S_IMODE(self.path.stat().st_mode))
                os.fsync(handle)
            temporary.replace(self.seal_path)
            sync_folder(self.seal_path.parent)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise self.refusal(
                f"its seal cannot be written ({error.strerror})"
            ) from None

    def _read(self) -> None:
        """Read the head and every entry, and check every seal."""
        heads = self.run("SELECT key, seal, writes FROM head")
        self.key, head, self._writes = "", "", -1
        if len(heads) == 1:
            self.key, head = map(str, heads[0][:2])
            self._writes = heads[0][2]
        self.seals, self.entries = [_digest(self.key)], list[Entry]()
        for row in self.run("SELECT * FROM entries ORDER BY number"):
            entry, seal = Entry(*row), _digest(self.seals[-1], *row[:-1])
            if entry.seal != seal or entry.number != len(self.seals):
                raise self.refusal(
                    f"corrupt: entry {entry.number} or one before it was changed"
                )
            self.seals.append(seal)
            self.entries.append(entry)
        if self.seals[-1] != head:
            raise self.refusal("corrupt: the log does not end where it should")

    def append(self, kind: str, dataset: str, **fields: Any) -> None:
        """Write an entry at the end of the log; it lasts if the transaction does."""
        time = datetime.now(UTC).isoformat(timespec="seconds")
        entry = Entry(len(self.seals), time, kind, dataset, **fields)
        entry = entry._replace(seal=_digest(self.seals[-1], *entry[:-1]))
        self.run(f"INSERT INTO entries VALUES (?{', ?' * (len(entry) - 1)})", *entry)
        self.run("UPDATE head SET seal = ?", entry.seal)
        self.seals.append(entry.seal)

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute one statement and fetch all it gives; errors say in one line what is
        wrong.
        """
        try:
            return self._connection.execute(statement, values).fetchall()
        except (
            sqlite3.Error,
            UnicodeDecodeError,
        ) as error:  # of bytes in the file, or quoted in an error
            raise self.refusal(
                f"cannot be used ({' '.join(str(error).split())})"
            ) from error

    def close(self) -> None:
        """Close, undoing what was not committed."""
        self._connection.close()

    def refusal(self, reason: str) -> LedgerError:
        """Return an error that names the file."""
        return LedgerError(f"{self.path}: {reason}")


_TEMPORARY = re.compile(r"\.fedconformal-[0-9a-f]{16}\.new")


def make_file(path: Path, fill: Callable[[Path], None]) -> None:
    """Make a file that appears whole or not at all; one that is there is an error.

    Parameters
    ----------
    path : Path
        Where to make it.
    fill : callable
        Takes the path of an empty file in the same folder, its owner's alone, and
        writes to it.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    _refuse_existing(path)
    temporary = path.with_name(f".fedconformal-{secrets.token_hex(8)}.new")
    os.close(open_new(temporary, 0o600))
    try:
        fill(temporary)
        try:
            os.link(temporary, path)
        except OSError:  # there is a file, or no hard links on this file system
            _refuse_existing(path)
            temporary.rename(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk."""
    if os.name != "posix":
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def seal_path(path: Path) -> Path:
    """Return the file beside a ledger that remembers its last entry; links to the
    ledger share one.
    """
    real = path.resolve()
    return real.with_name(f"{real.name}.seal")


def _seal_line(number: int, seal: str) -> str:
    """Return the content of that file, whose length never changes."""
    return f"{number:018d} {seal}\n"


def warn_of_access(path: Path) -> None:
    """Warn if others can read the answers and names in a file, or change it."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077 and os.name == "posix":
        how = "change" if mode & 0o022 else "read"
        text = (
            f"{path}: others can {how} this ledger: run chmod 600"
            f" {shlex.quote(str(path))}"
        )
        warn(text, LedgerAccessWarning)


def _digest(*fields: object) -> str:
    return hashlib.sha256(_ENCODE(fields).encode()).hexdigest()
