"""A site's privacy account on disk: what each data set may cost, what it has cost, and every answer given.

Pure differential privacy, basic composition: answers to different plans on one data set add their epsilons,
and the same answer given again costs nothing. `Ledger.answer` is the only way to spend. It makes two
transactions in one SQLite file, and the argument rests on their order:

1. *Charge.* Under the write lock: give back a stored answer; or refuse; or write the charge and commit. The
   commit returns once the charge is on disk (below), so a sample is never drawn on a charge that can be lost.
2. *Draw.* Under the write lock again: if another process has stored the answer meanwhile, return that one;
   else draw the sample, store it, commit, and only then return it. The lock is held while drawing, so one
   sample is drawn at a time, one is stored, and everybody returns the stored one.

A process killed in 1 leaves all of the charge or nothing of it, and no sample. Killed in 2 it leaves a charge
without an answer, which is never refunded, and the next call for the same plan draws on it without a second
one. This is safe because a sample leaves `answer` only after it is stored: a lost sample was seen by nobody,
and exactly one answer is released per charge. The operating system drops the lock of a dead process. Not
covered: somebody who learns the sample inside the process (or from the time it took) and kills the process
until they like it; an old copy of the file put back between two runs; disks without working locks.

On disk means ``synchronous = EXTRA`` with a rollback journal: a transaction is committed by deleting the
journal, and FULL alone does not wait for that deletion, so that a power cut could undo a charge after its
answer had left. A write-ahead log would be durable too, but then the last charges live in a second file that
a copy or a tidy-up leaves behind; with a rollback journal one file is the whole ledger between transactions.

The file holds one append-only log. Each entry is sealed by a hash over itself and the seal before it, and all
are checked each time, so a flipped bit, an edit or a missing line is an error and not a larger budget. The
hash has no secret: it is no defence against an owner who wants to deceive himself.
"""

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import _checks

_APPLICATION = 0x66634C67  # "fcLg"
_VERSION = 1
_SCHEMA = (
    """CREATE TABLE entries (
    number INTEGER PRIMARY KEY CHECK (number > 0),
    time TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('budget', 'data', 'charge', 'answer')),
    dataset TEXT NOT NULL CHECK (dataset <> ''),
    plan TEXT CHECK ((plan IS NULL) = (kind IN ('budget', 'data'))),
    site TEXT CHECK ((site IS NULL) = (kind IN ('budget', 'data'))),
    epsilon TEXT CHECK ((epsilon IS NULL) = (kind IN ('data', 'answer'))),
    fingerprint TEXT CHECK ((fingerprint IS NULL) = (kind = 'budget')),
    answer TEXT CHECK ((answer IS NULL) = (kind <> 'answer')),
    reason TEXT CHECK ((reason IS NULL) = (kind IN ('charge', 'answer'))),
    seal TEXT NOT NULL CHECK (length(seal) = 64),
    UNIQUE (dataset, plan, site, fingerprint, kind)
)""",
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


class BudgetExceededError(LedgerError):
    """An answer would cost more than is left: ``dataset``, ``spent``, ``asked`` and ``budget`` say it."""

    def __init__(self, path: Path, dataset: str, spent: Fraction, asked: Fraction, budget: Fraction) -> None:
        self.dataset, self.spent, self.asked, self.budget = dataset, spent, asked, budget
        super().__init__(
            f"{path}: data set {dataset!r} has spent {_text(spent)} of its budget {_text(budget)}, "
            f"so epsilon = {_text(asked)} is refused"
        )


class Entry(NamedTuple):
    """One line of the log: ``kind`` is a ``budget`` set or raised, ``data`` accepted, a charge, an answer."""

    number: int
    time: str
    kind: str
    dataset: str
    plan: str | None = None
    site: str | None = None
    epsilon: str | None = None
    fingerprint: str | None = None
    answer: str | None = None
    reason: str | None = None


class _Question(NamedTuple):
    """What an answer is stored under: a plan, put to a site's data."""

    dataset: str
    plan: str
    site: str
    fingerprint: str


class Ledger:
    """The ledger in an existing file; ``Ledger.create`` makes a new one.

    Safe for any number of processes and threads, each with its own or with a shared Ledger: every call opens
    the file anew, checks all of it, and refuses if it is no longer the ledger that this object has seen.

    Parameters
    ----------
    path : a file on a local disk. If it is not there that is an error: a mistyped name is no fresh budget.
    timeout : seconds to wait for another process's lock.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        self.path = Path(path).absolute()
        self.timeout = timeout
        self._seen: str | None = None
        with self._log():
            pass

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, timeout: float = 10.0) -> Self:
        """Make a new, empty ledger, readable by its owner only. A file that is there is never replaced."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise LedgerError(f"{path}: a ledger cannot be created here ({error.strerror})") from None
        key = secrets.token_hex(32)
        with closing(_File(Path(path).absolute(), timeout)) as file:
            file.run("PRAGMA synchronous = EXTRA")
            file.run("BEGIN EXCLUSIVE")
            for statement in _SCHEMA:
                file.run(statement)
            file.run("INSERT INTO head VALUES (1, ?, ?, 0)", key, key)
            file.run(f"PRAGMA application_id = {_APPLICATION}")
            file.run(f"PRAGMA user_version = {_VERSION}")
            file.run("COMMIT")
        return cls(path, timeout=timeout)

    def set_budget(self, dataset: str, epsilon: float | Fraction) -> None:
        """Set a data set's total epsilon, once. The same again changes nothing; another one is refused."""
        _words(dataset=dataset)
        budget = _epsilon(epsilon)
        with self._log(write=True) as log:
            old = log.budgets.get(dataset)
            if old is None:
                log.append("budget", dataset, epsilon=_text(budget), reason="first budget")
            elif old != budget:
                raise log.refusal(f"the budget of data set {dataset!r} is {_text(old)}: see raise_budget")

    def raise_budget(self, dataset: str, epsilon: float | Fraction, *, reason: str) -> None:
        """Raise a data set's total epsilon; the reason stays in the log. There is no way to lower it."""
        _words(dataset=dataset, reason=reason)
        budget = _epsilon(epsilon)
        with self._log(write=True) as log:
            old = log.budget(dataset)
            if budget <= old:
                raise log.refusal(f"the budget must be above {_text(old)}, got {_text(budget)}")
            log.append("budget", dataset, epsilon=_text(budget), reason=reason)

    def accept_data(self, dataset: str, data_fingerprint: str, *, reason: str) -> None:
        """Go on with changed data under the old name, its budget and all that was spent of it.

        For records that were corrected, added or scored by another model: who is in both versions pays for
        both, so both draw on one budget. The reason stays in the log.
        """
        _words(dataset=dataset, data_fingerprint=data_fingerprint, reason=reason)
        with self._log(write=True) as log:
            log.budget(dataset)
            if not log.holds(dataset, log.keyed(data_fingerprint)):
                log.append("data", dataset, fingerprint=log.keyed(data_fingerprint), reason=reason)

    def answer(
        self,
        dataset: str,
        *,
        plan_digest: str,
        site: str,
        epsilon: float | Fraction,
        data_fingerprint: str,
        sample: Callable[[], str],
    ) -> str:
        """The answer of this data set and site to this plan: stored, or drawn on a charge that is on disk.

        The data must be those of the data set's earlier charges: other scores, of another model or of other
        records, are refused until they are accepted. For the same plan and data the stored answer comes back
        at no cost; otherwise epsilon must be at most what is left of the budget. A LedgerError means that
        nothing was given out.

        Parameters
        ----------
        dataset : a data set whose budget was set.
        plan_digest, site : what is answered and by whom; with ``dataset`` and the data they name the answer.
        epsilon : its cost, read as the decimal the user wrote: three times 0.1 is 0.3.
        data_fingerprint : what `fingerprint` says of the data; stored only as a hash with this ledger's key.
        sample : draws the answer with privacy loss at most epsilon. It runs under the ledger's lock and must
            not fail for reasons that lie in the data, because its errors pass through; the charge then stays,
            and the next call draws on it.
        """
        _words(dataset=dataset, plan_digest=plan_digest, site=site, data_fingerprint=data_fingerprint)
        question, cost = _Question(dataset, plan_digest, site, data_fingerprint), _epsilon(epsilon)
        stored = self._charge(question, cost)
        return self._draw(question, cost, sample) if stored is None else stored

    def _charge(self, question: "_Question", cost: Fraction) -> str | None:
        """Give back the stored answer, or else make sure that a charge is on disk."""
        dataset = question.dataset
        with self._log(write=True) as log:
            asked = log.keyed_question(question)
            if not log.is_charged(asked, cost):
                spent, budget = log.spent(dataset), log.budget(dataset)
                if spent + cost > budget:
                    raise BudgetExceededError(self.path, dataset, spent, cost, budget)
                log.append("charge", **asked._asdict(), epsilon=_text(cost))
            return log.answers.get(asked)

    def _draw(self, question: "_Question", cost: Fraction, sample: Callable[[], str]) -> str:
        """Draw on the charge unless somebody else has, store, and return what is stored."""
        with self._log(write=True) as log:
            asked = log.keyed_question(question)
            if not log.is_charged(asked, cost):
                raise log.refusal(f"no charge for plan {asked.plan!r} on data set {asked.dataset!r}")
            if asked not in log.answers:
                answer = sample()
                if not isinstance(answer, str):
                    raise TypeError(f"sample must return a string, got {type(answer).__name__}")
                log.append("answer", **asked._asdict(), answer=answer)
        return log.answers[asked]

    def datasets(self) -> tuple[str, ...]:
        """The data sets that have a budget, by name."""
        with self._log() as log:
            return tuple(sorted(log.budgets))

    def budget(self, dataset: str) -> Fraction:
        """The total epsilon of a data set."""
        with self._log() as log:
            return log.budget(dataset)

    def spent(self, dataset: str) -> Fraction:
        """The sum of a data set's charges, exactly, answered or not."""
        with self._log() as log:
            return log.spent(dataset)

    def remaining(self, dataset: str) -> Fraction:
        """What is left of a data set's budget, exactly."""
        with self._log() as log:
            return log.budget(dataset) - log.spent(dataset)

    def entries(self, dataset: str | None = None) -> tuple[Entry, ...]:
        """The log, oldest first, of one data set or all: budgets with their reasons, charges, answers."""
        with self._log() as log:
            return tuple(entry for entry in log.entries if dataset in (None, entry.dataset))

    @contextmanager
    def _log(self, *, write: bool = False) -> Iterator["_Log"]:
        """The checked log in a transaction that is committed at the end, and undone by any exception."""
        with closing(_File(self.path, self.timeout)) as file:
            file.check()
            file.run("BEGIN IMMEDIATE" if write else "BEGIN")
            log = _Log(file)
            if self._seen is not None and self._seen not in log.seals:
                raise log.refusal("not the ledger that was opened, or an older copy of it")
            if write:
                # A write lock is granted even if the file is read-only or was moved; only writing tells.
                file.run("UPDATE head SET writes = writes + 1")
            yield log
            file.run("COMMIT")
            self._seen = log.seals[-1]


class _Log:
    """All entries, checked, and what they add up to; lives in one transaction."""

    def __init__(self, file: "_File") -> None:
        self._file = file
        self.entries: list[Entry] = []
        self.budgets: dict[str, Fraction] = {}
        self.answers: dict[_Question, str] = {}
        self._charges: dict[_Question, Fraction] = {}
        self._data: dict[str, str] = {}
        ((self._key, head),) = file.run("SELECT key, seal FROM head") or [("", None)]
        self.seals = [self._key]
        for *values, seal in file.run("SELECT * FROM entries ORDER BY number"):
            entry = Entry(*values)
            if entry.number != len(self.seals) or seal != self._seal(entry):
                raise self.refusal(f"corrupt: entry {entry.number} or one before it was changed")
            self._add(entry, seal)
        if head != self.seals[-1]:
            raise self.refusal("corrupt: the log does not end where it should")

    def append(self, kind: str, dataset: str, **fields: str) -> None:
        """Write an entry at the end of the log; it lasts if the transaction does."""
        time = datetime.now(UTC).isoformat(timespec="seconds")
        entry = Entry(len(self.seals), time, kind, dataset, **fields)
        seal = self._seal(entry)
        self._file.run(f"INSERT INTO entries VALUES (?{', ?' * len(entry)})", *entry, seal)
        self._file.run("UPDATE head SET seal = ?", seal)
        self._add(entry, seal)

    def _seal(self, entry: Entry) -> str:
        return hashlib.sha256(json.dumps([self.seals[-1], *entry], default=repr).encode()).hexdigest()

    def _add(self, entry: Entry, seal: str) -> None:
        self.entries.append(entry)
        self.seals.append(seal)
        asked = _Question(entry.dataset, str(entry.plan), str(entry.site), str(entry.fingerprint))
        if entry.kind == "budget":
            self.budgets[entry.dataset] = Fraction(str(entry.epsilon))
        if entry.kind == "charge":
            self._charges[asked] = Fraction(str(entry.epsilon))
        if entry.fingerprint is not None:
            self._data[entry.dataset] = entry.fingerprint
        if entry.answer is not None:
            self.answers[asked] = entry.answer

    def holds(self, dataset: str, fingerprint: str) -> bool:
        """Whether these are the data that the data set's name stands for."""
        return self._data.get(dataset) == fingerprint

    def is_charged(self, asked: _Question, cost: Fraction) -> bool:
        """Whether this answer is paid for; refuses where it may neither be replayed nor drawn."""
        self.budget(asked.dataset)
        other = asked.dataset in self._data and not self.holds(asked.dataset, asked.fingerprint)
        if other and asked not in self.answers:
            raise self.refusal(
                f"the data under the name {asked.dataset!r} have changed: new data need their own name and "
                "budget, a new version of the old ones keeps both (ledger accept)"
            )
        paid = self._charges.get(asked)
        if paid not in (None, cost):
            raise self.refusal(f"plan {asked.plan!r} was charged another epsilon before, got {_text(cost)}")
        return paid is not None

    def budget(self, dataset: str) -> Fraction:
        if dataset not in self.budgets:
            raise self.refusal(f"no budget was set for data set {dataset!r}")
        return self.budgets[dataset]

    def spent(self, dataset: str) -> Fraction:
        self.budget(dataset)
        return sum((paid for asked, paid in self._charges.items() if asked.dataset == dataset), Fraction(0))

    def keyed_question(self, question: _Question) -> _Question:
        return question._replace(fingerprint=self.keyed(question.fingerprint))

    def keyed(self, data_fingerprint: str) -> str:
        return hmac.new(self._key.encode(), data_fingerprint.encode(), hashlib.sha256).hexdigest()

    def refusal(self, reason: str) -> LedgerError:
        return LedgerError(f"{self._file.path}: {reason}")


class _File:
    """One connection to the file, whose errors say in one line what is wrong with it."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self._timeout = path, timeout
        try:
            status = path.stat()
        except OSError as error:
            raise LedgerError(f"{path}: cannot be opened ({error.strerror}); see Ledger.create") from None
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            # A journal belongs to a name: after a crash a second hard link would open a half-written file.
            raise LedgerError(f"{path}: must be a plain file with one name (a symbolic link to it is fine)")
        uri = f"{path.as_uri()}?mode=rw"
        try:
            self._connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def check(self) -> None:
        """Refuse what is not a ledger of this version and intact; a database of others stays untouched."""
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
        if schema != set(_SCHEMA) or self.run("PRAGMA integrity_check") != [("ok",)]:
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


def fingerprint(scores: ArrayLike) -> str:
    """SHA-256 of the scores in any order; it tells any changed, added or lost score.

    Taken over the sorted little-endian float64 bytes; every NaN is the same, and so are 0.0 and -0.0. It is
    no secret keeper (few or guessable scores can be found by trying): keep it at the site.
    """
    values = np.sort(np.asarray(scores, dtype="<f8"), axis=None)
    values += 0.0
    values[np.isnan(values)] = np.nan
    return hashlib.sha256(values.data).hexdigest()


def _words(**values: object) -> None:
    """Check names and reasons: one line of text each."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a string, got {value!r}")
        if not value or not value.isprintable() or value != value.strip():
            raise ValueError(f"{name} must be one line of text without spaces around it, got {value!r}")


def _epsilon(value: float | Fraction) -> Fraction:
    return _checks.fraction("epsilon", value, high=1e6, closed=True)


def _text(value: Fraction) -> str:
    """Write a decimal as it was written, or a ratio."""
    decimal = Decimal(value.numerator) / Decimal(value.denominator)
    return format(decimal, "f") if Fraction(decimal) == value else str(value)
