"""The log of a ledger: every budget, charge and answer, sealed, and what they add up to.

The file holds one append-only log. Each entry is sealed by a hash over itself and the seal before it, and all
are checked each time, so a flipped bit, an edit or a missing line is an error and not a larger budget. The
hash has no secret: it is no defence against an owner who wants to deceive themselves.
"""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from fedconformal.privacy._ledger_file import LedgerError, LedgerFile


class Entry(NamedTuple):
    """One line of the log.

    Parameters
    ----------
    number : int
        Which line; 1 is the first.
    time : str
        When it was written, in UTC.
    kind : str
        ``"budget"`` (set or raised), ``"data"`` (accepted), ``"charge"`` or ``"answer"``.
    dataset : str
        The data set that it is about.
    plan, site : str or None
        What was answered and by whom, of charges and answers.
    epsilon : str or None
        The number, of budgets and charges.
    fingerprint : str or None
        A hash of the data with this ledger's key.
    answer : str or None
        What was given out, of answers.
    reason : str or None
        Why, of budgets and accepted data.
    """

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


class Question(NamedTuple):
    """What an answer is stored under: a plan, put to a site's data."""

    dataset: str
    plan: str
    site: str
    fingerprint: str


class Log:
    """All entries, checked, and what they add up to; lives in one transaction."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self.entries: list[Entry] = []
        self.budgets: dict[str, Fraction] = {}
        self.answers: dict[Question, str] = {}
        self._charges: dict[Question, Fraction] = {}
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
        asked = Question(entry.dataset, str(entry.plan), str(entry.site), str(entry.fingerprint))
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

    def is_charged(self, asked: Question, cost: Fraction) -> bool:
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
            raise self.refusal(
                f"plan {asked.plan!r} was charged another epsilon before, got {exact_text(cost)}"
            )
        return paid is not None

    def budget(self, dataset: str) -> Fraction:
        """What all answers on a data set together may cost; refuses one without a budget."""
        if dataset not in self.budgets:
            raise self.refusal(f"no budget was set for data set {dataset!r}")
        return self.budgets[dataset]

    def spent(self, dataset: str) -> Fraction:
        """The sum of a data set's charges."""
        self.budget(dataset)
        return sum((paid for asked, paid in self._charges.items() if asked.dataset == dataset), Fraction(0))

    def keyed_question(self, question: Question) -> Question:
        """The same question as it is stored: without the fingerprint itself."""
        return question._replace(fingerprint=self.keyed(question.fingerprint))

    def keyed(self, data_fingerprint: str) -> str:
        """A hash of a fingerprint that nobody can make without this file."""
        return hmac.new(self._key.encode(), data_fingerprint.encode(), hashlib.sha256).hexdigest()

    def refusal(self, reason: str) -> LedgerError:
        """An error that names the file."""
        return LedgerError(f"{self._file.path}: {reason}")


def exact_text(value: Fraction) -> str:
    """Write a decimal as it was written, or a ratio."""
    decimal = Decimal(value.numerator) / Decimal(value.denominator)
    return format(decimal, "f") if Fraction(decimal) == value else str(value)
