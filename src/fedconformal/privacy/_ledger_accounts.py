"""What a ledger's entries add up to, and what follows from it: whether an answer is paid for, due or refused.

Everything here is a record of the sealed index: of a data set its budget and running totals, of a fingerprint
the data set that it belongs to, of a question its charge and its answer. `Accounts.add` is the one place
where an entry changes them, when it is written and when the whole log is checked.
"""

import hashlib
import hmac
import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from fedconformal.privacy._ledger_entry import Entry
from fedconformal.privacy._ledger_file import LedgerError
from fedconformal.privacy._ledger_index import BrokenIndexError, Texts
from fedconformal.privacy._ledger_question import Question


class BudgetExceededError(LedgerError):
    """An answer would cost more than is left.

    Parameters
    ----------
    path : Path
        The ledger's file.
    dataset : str
        The data set that was asked about.
    spent, asked, budget : Fraction
        What it has spent, what the answer would cost, and what it may cost in all.
    """

    def __init__(self, path: Path, dataset: str, spent: Fraction, asked: Fraction, budget: Fraction) -> None:
        self.dataset, self.spent, self.asked, self.budget = dataset, spent, asked, budget
        super().__init__(
            f"{path}: data set {dataset!r} has spent {exact_text(spent)} of its budget {exact_text(budget)}, "
            f"so epsilon = {exact_text(asked)} is refused"
        )


class Accounts:
    """The records of one ledger, and the rules.

    Parameters
    ----------
    records : Texts
        Where the records are.
    key : str
        The ledger's key.
    path : Path
        The ledger's file, for errors.
    """

    def __init__(self, records: Texts, key: str, path: Path) -> None:
        self._records, self._key, self._path = records, key, path

    # -- the rules ------------------------------------------------------------------------------------------

    def due(self, asked: Question, cost: Fraction, *, accept: bool) -> Fraction:
        """What an answer costs now, 0 if it is paid for; refuses one that may not be given."""
        self.budget(asked.dataset)
        question = self._get(*asked.name)
        if question and Fraction(question["epsilon"]) != cost:
            raise self.refusal(
                f"plan {asked.plan!r} was charged another epsilon before, got {exact_text(cost)}"
            )
        if "answer" in question:
            return Fraction(0)
        self.check_name(asked.dataset, asked.fingerprint)
        if not (asked.by_plan or accept) and self.is_changed(asked.dataset, asked.fingerprint):
            raise self.refusal(
                f"the data under the name {asked.dataset!r} have changed: new data need their own name and "
                "budget, a new version of the old ones keeps both (ledger accept)"
            )
        return Fraction(0) if question else self._affordable(asked.dataset, cost)

    def _affordable(self, dataset: str, cost: Fraction) -> Fraction:
        spent, budget = self.spent(dataset), self.budget(dataset)
        if spent + cost > budget:
            raise BudgetExceededError(self._path, dataset, spent, cost, budget)
        return cost

    def check_name(self, dataset: str, fingerprint: str) -> None:
        """Refuse data that have another name."""
        first = self._get("data", fingerprint).get("dataset", dataset)
        if first != dataset:
            raise self.refusal(
                f"the data given as {dataset!r} are in this ledger under the name {first!r}: use that name, "
                "as the same data have one account"
            )

    def is_changed(self, dataset: str, fingerprint: str) -> bool:
        """Whether a name stands for data, and none of its versions are these."""
        has_data = self._get("account", dataset).get("has_data", False)
        return has_data and not self.is_accepted(fingerprint)

    def is_accepted(self, fingerprint: str) -> bool:
        """Whether these data were charged or accepted, under whatever name."""
        return bool(self._get("data", fingerprint).get("accepted", False))

    def budget(self, dataset: str) -> Fraction:
        """What all answers on a data set together may cost; refuses one without a budget."""
        budget = self.known_budget(dataset)
        if budget is None:
            raise self.refusal(f"no budget was set for data set {dataset!r}")
        return budget

    def known_budget(self, dataset: str) -> Fraction | None:
        """The budget, or None if none was set."""
        budget = self._get("account", dataset).get("budget")
        return None if budget is None else Fraction(budget)

    def spent(self, dataset: str) -> Fraction:
        """The sum of a data set's charges."""
        self.budget(dataset)
        return Fraction(self._get("account", dataset).get("spent", 0))

    def exact_answers(self, dataset: str) -> int:
        """How many different exact answers a data set has given."""
        return int(self._get("account", dataset).get("exact", 0))

    def is_recorded(self, asked: Question) -> bool:
        """Whether this exact answer was given before."""
        return bool(self._get("exact", *asked.name))

    def has_answered(self, dataset: str, plan: str) -> bool:
        """Whether a plan was charged or answered exactly."""
        return bool(self._get("plan", dataset, plan))

    def answer(self, asked: Question) -> tuple[int, str] | None:
        """The number of the entry that holds the answer, and the hash of its text."""
        question = self._get(*asked.name)
        return (question["answer"], question["hash"]) if "answer" in question else None

    def left_after(self, asked: Question) -> tuple[Fraction, Fraction]:
        """The budget when an answer was charged, and what was left of it then; refuses if it was not."""
        question = self._get(*asked.name)
        if not question:
            raise self.refusal(f"plan {asked.plan!r} was not charged to data set {asked.dataset!r}")
        return Fraction(question["granted"]), Fraction(question["left"])

    # -- the records ----------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        """Take an entry into account."""
        _KINDS[entry.kind](self, entry)

    def _add_budget(self, entry: Entry) -> None:
        self._put("account", entry.dataset, budget=entry.epsilon)

    def _add_data(self, entry: Entry) -> None:
        self._put("data", str(entry.fingerprint), dataset=entry.dataset, accepted=True)
        self._put("account", entry.dataset, has_data=True)

    def _add_charge(self, entry: Entry) -> None:
        self._add_data(entry)
        spent = Fraction(self._get("account", entry.dataset).get("spent", 0)) + Fraction(str(entry.epsilon))
        self._put("account", entry.dataset, spent=exact_text(spent))
        self._put("plan", entry.dataset, str(entry.plan), known=True)
        granted = self.budget(entry.dataset)
        then = {"granted": exact_text(granted), "left": exact_text(granted - spent)}
        self._put(*_question(entry).name, epsilon=entry.epsilon, **then)

    def _add_answer(self, entry: Entry) -> None:
        self._add_data(entry)
        self._put(*_question(entry).name, answer=entry.number, hash=text_hash(str(entry.answer)))

    def _add_exact(self, entry: Entry) -> None:
        self._put("data", str(entry.fingerprint), dataset=entry.dataset)
        self._put("account", entry.dataset, exact=self.exact_answers(entry.dataset) + 1)
        self._put("plan", entry.dataset, str(entry.plan), known=True)
        self._put("exact", *_question(entry).name, known=True)

    def _get(self, *name: str) -> dict[str, Any]:
        try:
            text = self._records.get(self._place(name))
        except BrokenIndexError:
            raise self._broken() from None
        return {} if text is None else dict(json.loads(text))

    def _put(self, *name: str, **values: object) -> None:
        old = self._get(*name)
        new = old | values
        if new != old:
            try:
                self._records[self._place(name)] = json.dumps(new, sort_keys=True)
            except BrokenIndexError:
                raise self._broken() from None

    def _place(self, name: tuple[str, ...]) -> str:
        """With the ledger's key, so that nobody who writes plans can crowd one place of the index."""
        return hmac.new(self._key.encode(), json.dumps(name).encode(), hashlib.sha256).hexdigest()

    def _broken(self) -> LedgerError:
        return self.refusal("corrupt: its index was changed")

    def refusal(self, reason: str) -> LedgerError:
        """An error that names the file."""
        return LedgerError(f"{self._path}: {reason}")


_KINDS: dict[str, Callable[[Accounts, Entry], None]] = {
    "budget": Accounts._add_budget,
    "data": Accounts._add_data,
    "charge": Accounts._add_charge,
    "answer": Accounts._add_answer,
    "exact": Accounts._add_exact,
}


def _question(entry: Entry) -> Question:
    return Question(
        entry.dataset, str(entry.plan), str(entry.site), str(entry.fingerprint), int(entry.by_plan or 0)
    )


def text_hash(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def exact_text(value: Fraction) -> str:
    """Write a decimal as it was written, or a ratio.

    Parameters
    ----------
    value : Fraction
        An exact number.

    Returns
    -------
    str
        All its digits, or numerator and denominator.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedconformal.privacy import exact_text
    >>> exact_text(Fraction("0.3")), exact_text(Fraction(1, 3))
    ('0.3', '1/3')
    """
    decimal = Decimal(value.numerator) / Decimal(value.denominator)
    return format(decimal, "f") if Fraction(decimal) == value else str(value)
