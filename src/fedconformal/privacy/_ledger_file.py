"""The SQLite file of a ledger: opened, checked, and written so that a commit survives a power cut.

On disk means ``synchronous = EXTRA`` with a rollback journal: a transaction is committed by deleting the
journal, and FULL alone does not wait for that deletion, so that a power cut could undo a charge after its
answer had left. A write-ahead log would be durable too, but then the last charges live in a second file that
a copy or a tidy-up leaves behind; with a rollback journal one file is the whole ledger between transactions.
"""

import os
import secrets
import shlex
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

from fedconformal._warnings import warn

_APPLICATION = 0x66634C67  # "fcLg"
_VERSION = 1
_SCHEMA = (
    """CREATE TABLE entries (
    number INTEGER PRIMARY KEY CHECK (number > 0),
    time TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('budget', 'data', 'charge', 'answer', 'exact')),
    dataset TEXT NOT NULL CHECK (dataset <> ''),
    plan TEXT CHECK ((plan IS NULL) = (kind IN ('budget', 'data'))),
    site TEXT CHECK ((site IS NULL) = (kind IN ('budget', 'data'))),
    by_plan INTEGER CHECK ((by_plan IS NULL) = (kind NOT IN ('charge', 'answer'))),
    epsilon TEXT CHECK ((epsilon IS NULL) = (kind NOT IN ('budget', 'charge'))),
    fingerprint TEXT CHECK ((fingerprint IS NULL) = (kind = 'budget')),
    answer TEXT CHECK ((answer IS NULL) = (kind <> 'answer')),
    numbers INTEGER CHECK ((numbers IS NULL) = (kind <> 'exact')),
    reason TEXT CHECK ((reason IS NULL) = (kind NOT IN ('budget', 'data'))),
    root TEXT NOT NULL CHECK (length(root) = 64),
    seal TEXT NOT NULL CHECK (length(seal) = 64)
)""",
    """CREATE UNIQUE INDEX once_by_data ON entries (dataset, plan, site, fingerprint, kind)
    WHERE plan IS NOT NULL AND by_plan IS NOT 1""",
    "CREATE UNIQUE INDEX once_by_plan ON entries (dataset, plan, site, kind) WHERE by_plan = 1",
    "CREATE TABLE nodes (path TEXT PRIMARY KEY, node TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    key TEXT NOT NULL CHECK (length(key) = 64),
    seal TEXT NOT NULL CHECK (length(seal) = 64),
    writes INTEGER NOT NULL
)""",
    "CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'never changed'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'never removed'); END",
)
_REASONS = {
    sqlite3.SQLITE_BUSY: "locked by another process for more than {timeout:g} s",
    sqlite3.SQLITE_NOTADB: "not a ledger",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_READONLY: "read-only, or moved away while in use",
    sqlite3.SQLITE_CANTOPEN: "it or its folder cannot be opened for writing",
    sqlite3.SQLITE_FULL: "no room on the disk",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
}


class LedgerError(ValueError):
    """The ledger refuses or cannot be used, and gives nothing out."""


class LedgerAccessWarning(UserWarning):
    """Others than the owner can read or change a ledger."""


def warn_of_access(path: Path) -> None:
    """Warn if others can read the answers and names in a file, or change it."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077 and os.name == "posix":
        how = "change" if mode & 0o022 else "read"
        text = f"{path}: others can {how} this ledger: run chmod 600 {shlex.quote(str(path))}"
        warn(text, LedgerAccessWarning)


def create_file(path: str | os.PathLike[str], timeout: float) -> None:
    """Make a file that is an empty ledger, its owner's alone; one that is there is never replaced."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise LedgerError(f"{path}: a ledger cannot be created here ({error.strerror})") from None
    try:
        with closing(LedgerFile(Path(path).absolute(), timeout)) as file:
            file.initialize(secrets.token_hex(32))
    except BaseException:
        os.unlink(path)  # this call has made it, and half a ledger would be in the way of the next one
        raise


class LedgerFile:
    """One connection to the file, whose errors say in one line what is wrong with it."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self._timeout = path, timeout
        try:
            status = path.stat()
        except OSError as error:
            made = "`fedconformal ledger new` or Ledger.create makes one"
            raise LedgerError(f"{path}: cannot be opened ({error.strerror}); {made}") from None
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            # A journal belongs to a name: after a crash a second hard link would open a half-written file.
            raise LedgerError(f"{path}: must be a plain file with one name (a symbolic link to it is fine)")
        uri = f"{path.as_uri()}?mode=rw"
        try:
            self._connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def initialize(self, key: str) -> None:
        """Make an empty file a ledger with this key."""
        self.run("PRAGMA synchronous = EXTRA")
        self.run("BEGIN EXCLUSIVE")
        for statement in _SCHEMA:
            self.run(statement)
        self.run("INSERT INTO head VALUES (1, ?, ?, 0)", key, key)
        self.run(f"PRAGMA application_id = {_APPLICATION}")
        self.run(f"PRAGMA user_version = {_VERSION}")
        self.run("COMMIT")

    def check(self) -> None:
        """Refuse what is not a ledger of this version; a database of others stays untouched."""
        if self.run("PRAGMA application_id") != [(_APPLICATION,)]:
            raise LedgerError(f"{self.path}: not a ledger")
        ((version,),) = self.run("PRAGMA user_version")
        if version != _VERSION:
            raise LedgerError(f"{self.path}: a ledger of version {version}; this program knows {_VERSION}")
        for pragma in ("synchronous = EXTRA", "fullfsync = ON", "cell_size_check = ON"):
            self.run(f"PRAGMA {pragma}")
        if self.run("PRAGMA journal_mode = DELETE") != [("delete",)]:
            raise LedgerError(f"{self.path}: its journal mode was changed and cannot be set back")
        schema = {sql for (sql,) in self.run("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if schema != set(_SCHEMA):
            raise LedgerError(f"{self.path}: corrupt, or changed by hand")

    def check_pages(self) -> None:
        """Refuse a file of which any page is damaged, which takes longer the larger it is."""
        if self.run("PRAGMA integrity_check") != [("ok",)]:
            raise LedgerError(f"{self.path}: corrupt, or changed by hand")

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute one statement and fetch all it gives."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except UnicodeDecodeError as error:  # of bytes in the file, or in an error message that quotes them
            raise LedgerError(f"{self.path}: corrupt ({error.reason})") from error
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def close(self) -> None:
        """Close, undoing what was not committed."""
        self._connection.close()

    def _explained(self, error: sqlite3.Error) -> LedgerError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        reason = _REASONS.get(code, "failed").format(timeout=self._timeout)
        return LedgerError(f"{self.path}: {reason} ({' '.join(str(error).split())})")
