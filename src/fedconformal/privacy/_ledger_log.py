"""The log of a ledger: every budget, charge and answer, sealed, with an index of what they add up to.

The file holds one append-only log and an index of its sums (`_ledger_accounts`, `_ledger_index`). Each entry
states the hash of the index as it is after this entry, and is sealed by a hash over the file's key, the seal
before it and itself. The last seal also stands in the file's head. The hashes have no secret: they are no
defence against an owner who wants to deceive themselves.

*Every transaction* checks the head, the last entry, and each node of the index that it reads; and the text of
an answer that it gives back. Whatever happened to the file, these are as they were written, or it is refused:

* what a data set may cost and has cost, how many exact answers it gave, whether a plan was charged or
  answered, which data a name stands for. A bit, a node, a row that was changed, removed or added there is an
  error and not a larger budget, because no sum is ever taken over rows that could be missing;
* the end of the log: lost entries at the end are an error;
* for an open `Ledger`, that the last entry which it has seen is still there: an older copy of the file that
  was put back meanwhile, or another ledger, is an error. Between two runs an older copy is not noticed.

*Only a check of the whole* (`Log.entries`: when the ledger is checked, listed or shown) finds what no present
answer depends on: an earlier entry that was changed or removed. It reads every page, follows the seals from
the first entry to the last, adds everything up anew and compares with the index node by node.

So a transaction costs as many reads as the index is deep, which grows with the logarithm of the number of
entries, and a check of the whole is the only thing that grows with the log itself.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from fedconformal.privacy._ledger_accounts import Accounts, text_hash
from fedconformal.privacy._ledger_entry import Entry
from fedconformal.privacy._ledger_file import LedgerFile
from fedconformal.privacy._ledger_index import Index
from fedconformal.privacy._ledger_question import Question


class End(NamedTuple):
    """Where a log ends: which ledger, how many entries, the last seal."""

    key: str
    number: int
    seal: str


class Log:
    """The end of the log, checked, and what all of it adds up to; lives in one transaction.

    Parameters
    ----------
    file : LedgerFile
        The file, in a transaction.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        heads = file.run("SELECT key, seal FROM head")
        self._key, head = map(str, heads[0]) if len(heads) == 1 else ("", "none")
        last = file.run("SELECT * FROM entries ORDER BY number DESC LIMIT 2")
        before = last[1][-1] if len(last) > 1 else self._key
        number, root, seal = (last[0][0], *last[0][-2:]) if last else (0, "", self._key)
        self._index = Index(_FileNodes(file), root)
        self.accounts = Accounts(self._index, self._key, file.path)
        if seal != head or (last and seal != self._seal(before, last[0][:-1])):
            raise self.accounts.refusal("corrupt: the log does not end where it should")
        self.end = End(self._key, number, seal)

    def append(self, kind: str, dataset: str, **fields: Any) -> None:
        """Write an entry at the end of the log; it lasts if the transaction does."""
        time = datetime.now(UTC).isoformat(timespec="seconds")
        entry = Entry(self.end.number + 1, time, kind, dataset, **fields)
        self.accounts.add(entry)
        row = (*entry, self._index.root)
        seal = self._seal(self.end.seal, row)
        self._file.run(f"INSERT INTO entries VALUES (?{', ?' * len(row)})", *row, seal)
        self._file.run("UPDATE head SET seal = ?", seal)
        self.end = End(self._key, entry.number, seal)

    def entries(self) -> list[Entry]:
        """All entries, after a check of the whole file."""
        self._file.check_pages()
        found, records, seal = list[Entry](), dict[str, str](), self._key
        accounts = Accounts(records, self._key, self._file.path)
        for *row, sealed in self._file.run("SELECT * FROM entries ORDER BY number"):
            entry, seal = Entry(*row[:-1]), self._seal(seal, row)
            if seal != sealed or entry.number != len(found) + 1:
                raise accounts.refusal(f"corrupt: entry {entry.number} or one before it was changed")
            accounts.add(entry)
            found.append(entry)
        if self.end != (self._key, len(found), seal):
            raise accounts.refusal("corrupt: the log does not end where it should")
        self._check_index(records)
        return found

    def _check_index(self, records: dict[str, str]) -> None:
        """Compare with an index that is made anew."""
        nodes = dict[str, str]()
        index = Index(nodes)
        for name, text in records.items():
            index[name] = text
        if index.root != self._index.root or nodes != dict(self._file.run("SELECT path, node FROM nodes")):
            raise self.accounts.refusal("corrupt: its index is not what the log adds up to")

    def goes_on_from(self, end: End) -> bool:
        """Whether this log has the entry with which another one ended."""
        found = self._file.run("SELECT seal FROM entries WHERE number = ?", end.number) or [(self._key,)]
        return (end.key, end.seal) == (self._key, found[0][0])

    def answer(self, asked: Question) -> str | None:
        """The stored answer to a question."""
        place = self.accounts.answer(asked)
        if place is None:
            return None
        rows = self._file.run("SELECT answer FROM entries WHERE number = ?", place[0])
        if not rows or not isinstance(rows[0][0], str) or text_hash(rows[0][0]) != place[1]:
            raise self.accounts.refusal(f"corrupt: entry {place[0]} was changed")
        return rows[0][0]

    def keyed(self, data_fingerprint: str) -> str:
        """A hash of a fingerprint that nobody can make without this file."""
        return hmac.new(self._key.encode(), data_fingerprint.encode(), hashlib.sha256).hexdigest()

    def stored(self, question: Question) -> Question:
        """The same question as it is stored: without the fingerprint itself."""
        return question._replace(fingerprint=self.keyed(question.fingerprint))

    def _seal(self, before: str, row: Any) -> str:
        text = json.dumps([self._key, before, *row], default=repr)
        return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def transaction(path: Path, timeout: float, *, seen: End | None, write: bool) -> Iterator[Log]:
    """The log in a transaction that is committed at the end, and undone by any exception.

    A log that does not go on from the end that was seen before is refused.
    """
    with closing(LedgerFile(path, timeout)) as file:
        file.check()
        file.run("BEGIN IMMEDIATE" if write else "BEGIN")
        log = Log(file)
        if seen is not None and not log.goes_on_from(seen):
            raise log.accounts.refusal("not the ledger that was opened, or an older copy of it")
        if write:
            # A write lock is granted even if the file is read-only or was moved; only writing tells.
            file.run("UPDATE head SET writes = writes + 1")
        yield log
        file.run("COMMIT")


class _FileNodes:
    """The nodes of the index that is in the file, each read once in a transaction."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._read: dict[str, str | None] = {}

    def get(self, path: str) -> str | None:
        """The text of a node, which need not be trusted."""
        if path not in self._read:
            rows = self._file.run("SELECT node FROM nodes WHERE path = ?", path)
            self._read[path] = rows[0][0] if rows else None
        return self._read[path]

    def __setitem__(self, path: str, text: str) -> None:
        self._file.run("INSERT OR REPLACE INTO nodes VALUES (?, ?)", path, text)
        self._read[path] = text
