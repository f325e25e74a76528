"""A site's privacy account on disk: what each data set may cost, what it has cost, and
every answer given.

Pure differential privacy, basic composition: answers to different plans on one data set
add their epsilons, and the same answer given again costs nothing. Exact answers have no
epsilon: they and the numbers in them are counted over the life of a data set, and a
site's policy bounds both. `Ledger.answer` makes two transactions in one SQLite file
(`_ledger_file`), and the argument rests on their order:

1. *Charge.* Under the write lock: give back a stored answer; or refuse; or write the
   charge and commit. The commit returns once the charge is on disk, so a sample is
   never drawn on a charge that can be lost.
2. *Draw.* Under the write lock again: if another process has stored the answer
   meanwhile, return that one; else draw the sample, store it, commit, and only then
   return it. The lock is held while drawing, so one sample is drawn at a time, one is
   stored, and everybody returns the stored one.

A process killed in 1 leaves all of the charge or nothing of it, and no sample. Killed
in 2 it leaves a charge without an answer, which is never refunded, and the next call
for the same plan draws on it without a second one. This is safe because a sample leaves
`Ledger.answer` only after it is stored: a lost sample was seen by nobody, and exactly
one answer is released per charge. The operating system drops the lock of a dead
process. Not covered: somebody who learns the sample inside the process (or from the
time it took) and kills the process until they like it; disks without working locks. An
old copy that is put back between two runs is refused by the seal beside the file.
`Ledger.reseal` accepts the loss: what the lost entries spent is unknown, so every
budget counts as spent, a charge without an answer may have been drawn on and is not
drawn on again, and new data sets and exact answers, which may have been in the lost
entries, are refused.
"""

import hashlib
import hmac
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._util import fraction, integer, plain_array
from fedconformal.documents import ratio_text as exact_text
from fedconformal.privacy._ledger_file import (
    Entry,
    LedgerError,
    LedgerFile,
    make_file,
    seal_path,
    warn_of_access,
)


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

    def __init__(
        self,
        path: Path,
        dataset: str,
        spent: Fraction,
        asked: Fraction,
        budget: Fraction,
    ) -> None:
        self.dataset, self.spent, self.asked, self.budget = (
            dataset,
            spent,
            asked,
            budget,
        )
        super().__init__(
            f"{path}: data set {dataset!r} has spent {exact_text(spent)} of its budget"
            f" {exact_text(budget)}, so epsilon = {exact_text(asked)} is refused"
        )


class Quote(NamedTuple):
    """Cost of an answer.

    Parameters
    ----------
    cost : Fraction
        What would be charged now: 0 if it is paid for already.
    remaining : Fraction
        What is left of the budget before that.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import fedconformal as fc
    >>> from fedconformal.privacy import fingerprint
    >>> with TemporaryDirectory() as folder:
    ...     ledger = fc.Ledger.create(Path(folder) / "ledger.db")
    ...     ledger.set_budget("2024", 3)
    ...     data = fingerprint([1.0])
    ...     quote = ledger.quote(
    ...         "2024", plan_digest="p", site="A", epsilon=1, data_fingerprint=data
    ...     )
    >>> float(quote.cost), float(quote.remaining)
    (1.0, 3.0)
    """

    cost: Fraction
    remaining: Fraction


class _Question(NamedTuple):
    """A plan, put to a site's data; ``fingerprint`` is hashed with the ledger's key."""

    plan: str
    site: str
    fingerprint: str
    by_plan: int | None = None

    def names(self, entry: Entry) -> bool:
        """Return whether an entry is about this question."""
        is_same = (entry.plan, entry.site, entry.by_plan) == (
            self.plan,
            self.site,
            self.by_plan,
        )
        return is_same and (self.by_plan == 1 or entry.fingerprint == self.fingerprint)


class _Account:
    """One data set, or all of them, as a transaction has found them; and the rules."""

    def __init__(self, file: LedgerFile, dataset: str | None) -> None:
        self.file, self.dataset, self.refusal = file, dataset, file.refusal
        self.entries = [
            entry for entry in file.entries if dataset in (None, entry.dataset)
        ]
        self.budgets = [
            Fraction(str(entry.epsilon))
            for entry in self.entries
            if entry.kind == "budget"
        ]
        costs = Counter(
            entry.epsilon for entry in self.entries if entry.kind in ("charge", "lost")
        )
        self.spent = sum(
            (Fraction(str(cost)) * times for cost, times in costs.items()), Fraction(0)
        )
        self.lost_until = max(
            (entry.number for entry in file.entries if entry.kind == "lost"), default=0
        )

    @property
    def budget(self) -> Fraction:
        """The budget, which must have been set."""
        if not self.budgets:
            raise self.refusal(f"no budget was set for data set {self.dataset!r}")
        return self.budgets[-1]

    @property
    def versions(self) -> set[str | None]:
        """Fingerprints of the data that were charged or accepted."""
        return {
            entry.fingerprint
            for entry in self.entries
            if entry.kind in ("data", "charge", "answer")
        }

    def find(self, kind: str, asked: _Question) -> Entry | None:
        """Return the entry of this kind about a question, if there is one.

        The answer to a charge from before entries were lost may be among these, so it
        is none to draw on.
        """
        first = self.lost_until if kind == "charge" else 0
        same = (
            entry for entry in self.entries if entry.kind == kind and asked.names(entry)
        )
        return next((entry for entry in same if entry.number > first), None)

    def is_changed(self, fingerprint: str) -> bool:
        """Return whether the name stands for data, and none of its versions are
        these.
        """
        return bool(self.versions) and fingerprint not in self.versions

    def check_name(self, fingerprint: str) -> None:
        """Refuse data that are in the ledger under another name."""
        names = {
            entry.dataset
            for entry in self.file.entries
            if entry.fingerprint == fingerprint
        }
        if others := names - {self.dataset}:
            raise self.refusal(
                f"the data given as {self.dataset!r} are in this ledger under the name"
                f" {min(others)!r}: use that name, as the same data have one account"
            )

    def check_nothing_lost(self) -> None:
        """Refuse what the entries that are lost may have held already."""
        if self.lost_until:
            raise self.refusal(
                "entries of this ledger were lost, so it takes no new data sets and no"
                " exact answers: start another ledger for new data"
            )

    def due(self, asked: _Question, cost: Fraction, *, accept: bool) -> Fraction:
        """Return what an answer costs now, 0 if it is paid for; refuse one that may not
        be given.
        """
        budget, charge = self.budget, self.find("charge", asked)
        if charge and Fraction(str(charge.epsilon)) != cost:
            raise self.refusal(
                f"plan {asked.plan!r} was charged another epsilon before, got"
                f" {exact_text(cost)}"
            )
        if self.find("answer", asked):
            return Fraction(0)
        self.check_name(asked.fingerprint)
        if not (asked.by_plan or accept) and self.is_changed(asked.fingerprint):
            raise self.refusal(
                f"the data under the name {self.dataset!r} have changed: new data need"
                " their own name and budget, a new version of the old ones keeps both"
                " (ledger accept)"
            )
        if charge:
            return Fraction(0)
        if self.spent + cost > budget:
            raise BudgetExceededError(
                self.file.path, str(self.dataset), self.spent, cost, budget
            )
        return cost

    def append(self, kind: str, **fields: object) -> None:
        """Write an entry about this data set, which the next transaction finds."""
        self.file.append(kind, str(self.dataset), **fields)


class Ledger:
    """A site's privacy account in an existing file; ``Ledger.create`` makes a new one.

    Safe for any number of processes and threads, each with its own or with a shared
    Ledger: every call opens the file again, reads and checks all of it, and refuses if
    it is no longer the ledger that this object has seen.

    Parameters
    ----------
    path : str or path-like
        A file on a local disk. If it is not there that is an error: a mistyped name is
        no fresh budget.
    timeout : float
        Seconds to wait for another process's lock.

    Raises
    ------
    LedgerError
        If the file cannot be opened, is not a ledger, or was damaged.

    Warns
    -----
    LedgerAccessWarning
        If others than its owner can read or change the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import fedconformal as fc
    >>> with TemporaryDirectory() as folder:
    ...     ledger = fc.Ledger.create(Path(folder) / "ledger.db")
    ...     ledger.set_budget("2024", 3)
    ...     print(ledger.remaining("2024"))
    3
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        self.path = Path(path).absolute()
        self.timeout = timeout
        self._seen: str | None = None
        with self._account() as account:
            self._key = account.file.key.encode()
        warn_of_access(self.path)

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, timeout: float = 10.0) -> Self:
        """Make a new, empty ledger, readable by its owner only. A file that is there is
        never replaced.

        Parameters
        ----------
        path : str or path-like
            Where to make it, on a local disk.
        timeout : float
            Seconds to wait for another process's lock.

        Returns
        -------
        Ledger
            The ledger.

        Raises
        ------
        LedgerError
            If there is a file already, or none can be made.
        """
        place = Path(path).absolute()

        def fill(temporary: Path) -> None:
            try:
                with closing(LedgerFile(temporary, timeout)) as file:
                    file.initialize(secrets.token_hex(32))
            except LedgerError as error:  # which names the file that is asked for
                raise LedgerError(
                    str(error).replace(str(temporary), str(path), 1)
                ) from None

        seal = seal_path(place)
        if os.path.lexists(seal) and not os.path.lexists(place):
            raise LedgerError(
                f"{seal}: the seal of a ledger that is gone: put that back, or remove"
                " its seal"
            )
        try:
            make_file(place, fill)
        except OSError as error:
            raise LedgerError(
                f"{path}: a ledger cannot be created here ({error.strerror})"
            ) from None
        return cls(path, timeout=timeout)

    @classmethod
    def reseal(
        cls, path: str | os.PathLike[str], *, reason: str, timeout: float = 10.0
    ) -> Self:
        """Accept that entries of a ledger are lost, as where an older copy was put
        back.

        What they spent is unknown: every budget counts as spent until it is raised, a
        charge without an answer is not drawn on, and new data sets and exact answers
        are refused. Answers that the ledger holds are given again.

        Parameters
        ----------
        path : str or path-like
            A ledger that does not fit its seal, or whose seal is missing.
        reason : str
            One line of text, which stays in the log.
        timeout : float
            Seconds to wait for another process's lock.

        Returns
        -------
        Ledger
            The ledger, with a new seal.

        Raises
        ------
        LedgerError
            If its seal is right, or the file cannot be used.
        """
        _check_lines(reason=reason)
        with closing(LedgerFile(Path(path).absolute(), timeout)) as file:
            file.begin(write=True, seen=None, is_lost=True)
            for name in sorted({entry.dataset for entry in file.entries}) or ["all"]:
                account = _Account(file, name)
                rest = (
                    account.budget - account.spent if account.budgets else Fraction(0)
                )
                account.append("lost", epsilon=exact_text(rest), reason=reason)
            file.commit()
        return cls(path, timeout=timeout)

    def set_budget(self, dataset: str, epsilon: float | Fraction) -> None:
        """Set a data set's total epsilon, once. The same again changes nothing; another
        one is refused.

        Parameters
        ----------
        dataset : str
            A name, one line of text.
        epsilon : float or Fraction
            What all answers together may cost, read as the decimal that was written.

        Raises
        ------
        LedgerError
            If another budget was set before.
        """
        _check_lines(dataset=dataset)
        budget = _exact_epsilon(epsilon)
        with self._account(dataset, write=True) as account:
            if not account.budgets:
                account.check_nothing_lost()
                account.append(
                    "budget", epsilon=exact_text(budget), reason="first budget"
                )
            elif budget != account.budget:
                old = exact_text(account.budget)
                raise account.refusal(
                    f"the budget of data set {dataset!r} is {old}: see raise_budget"
                )

    def raise_budget(
        self, dataset: str, epsilon: float | Fraction, *, reason: str
    ) -> None:
        """Raise a data set's total epsilon. There is no way to lower it.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.
        epsilon : float or Fraction
            What all answers together may cost from now on.
        reason : str
            One line of text, which stays in the log.

        Raises
        ------
        LedgerError
            If that is no more than before, or no budget was set.
        """
        _check_lines(dataset=dataset, reason=reason)
        budget = _exact_epsilon(epsilon)
        with self._account(dataset, write=True) as account:
            if budget <= account.budget:
                old = exact_text(account.budget)
                raise account.refusal(
                    f"the budget must be above {old}, got {exact_text(budget)}"
                )
            account.append("budget", epsilon=exact_text(budget), reason=reason)

    def accept_data(self, dataset: str, data_fingerprint: str, *, reason: str) -> None:
        """Go on with changed data under the old name, its budget and all that was spent
        of it.

        For records that were corrected, added or scored by another model: who is in
        both versions pays for both, so both draw on one budget. The earlier versions
        stay accepted.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.
        data_fingerprint : str
            What `fingerprint` says of the changed data.
        reason : str
            One line of text, which stays in the log.

        Raises
        ------
        LedgerError
            If no budget was set, or the data are in this ledger under another name.
        """
        _check_lines(dataset=dataset, data_fingerprint=data_fingerprint, reason=reason)
        keyed = self.keyed_hash(data_fingerprint)
        with self._account(dataset, write=True) as account:
            _ = account.budget  # must have been set
            account.check_name(keyed)
            if keyed not in account.versions:
                account.append("data", fingerprint=keyed, reason=reason)

    def answer(
        self,
        dataset: str,
        *,
        plan_digest: str,
        site: str,
        epsilon: float | Fraction,
        data_fingerprint: str,
        sample: Callable[[], str],
        by_plan: bool = False,
        accept: str | None = None,
    ) -> str:
        """Return the answer of this data set and site to this plan: stored, or drawn on
        a charge on disk.

        The data must be a version that the data set was charged for or that was
        accepted: other scores, of another model or of other records, are refused. For
        the same plan and data the stored answer comes back at no cost; otherwise
        epsilon must be at most what is left of the budget. A LedgerError means that
        nothing was given out; and nothing was charged or written, unless the charge was
        on disk and the disk failed afterwards.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.
        plan_digest, site : str
            What is answered and by whom; with ``dataset`` and the data they name the
            answer.
        epsilon : float or Fraction
            Its cost, read as the decimal that was written: three times 0.1 is 0.3.
        data_fingerprint : str
            What `fingerprint` says of the data; stored only as a hash with this
            ledger's key. Data that are in this ledger under another name are refused.
        sample : callable
            Draws the answer, a string, with privacy loss at most epsilon. It runs under
            the ledger's lock and must not fail for reasons that lie in the data,
            because its errors pass through; the charge then stays, and the next call
            draws on it.
        by_plan : bool
            Whether the plan alone says which data are meant, as one that names a model
            does: the stored answer then comes back whatever the fingerprint, and new
            data need not be accepted. A score that differs in its last bit on another
            machine must not cost epsilon again.
        accept : str, optional
            If the data have changed and the answer is charged, accept them for this
            reason, as `accept_data` does.

        Returns
        -------
        str
            The answer, which is on disk.

        Raises
        ------
        BudgetExceededError
            If too little is left of the budget.
        LedgerError
            If the data have changed, have another name in this ledger, the plan was
            charged another epsilon, or the file cannot be used.
        """
        asked = self._question(dataset, plan_digest, site, data_fingerprint, accept)
        asked, cost = asked._replace(by_plan=int(by_plan)), _exact_epsilon(epsilon)
        stored = self._charge(dataset, asked, cost, accept)
        return self._draw(dataset, asked, cost, sample) if stored is None else stored

    def quote(
        self,
        dataset: str,
        *,
        plan_digest: str,
        site: str,
        epsilon: float | Fraction,
        data_fingerprint: str,
        by_plan: bool = False,
        accept: str | None = None,
    ) -> Quote:
        """Return what `answer` would charge now, with the same refusals, without
        charging anything.

        Parameters
        ----------
        dataset : str
            As for `answer`, like all that follow.
        plan_digest, site : str
            What would be answered and by whom.
        epsilon : float or Fraction
            The cost of the answer.
        data_fingerprint : str
            What `fingerprint` says of the data.
        by_plan : bool
            Whether the plan alone says which data are meant.
        accept : str, optional
            For what reason changed data would be accepted.

        Returns
        -------
        Quote
            What it would cost, and what is left before that.

        Raises
        ------
        BudgetExceededError
            If too little is left of the budget.
        LedgerError
            If it would be refused for another reason.
        """
        asked = self._question(dataset, plan_digest, site, data_fingerprint, accept)
        asked, cost = asked._replace(by_plan=int(by_plan)), _exact_epsilon(epsilon)
        with self._account(dataset) as account:
            return Quote(
                account.due(asked, cost, accept=accept is not None),
                account.budget - account.spent,
            )

    def _charge(
        self, dataset: str, asked: _Question, cost: Fraction, accept: str | None
    ) -> str | None:
        """Return the stored answer, or else make sure that a charge is on disk."""
        with self._account(dataset, write=True) as account:
            if account.due(asked, cost, accept=accept is not None):
                if accept is not None and account.is_changed(asked.fingerprint):
                    account.append("data", fingerprint=asked.fingerprint, reason=accept)
                account.append("charge", **asked._asdict(), epsilon=exact_text(cost))
            stored = account.find("answer", asked)
            return None if stored is None else stored.answer

    def _draw(
        self, dataset: str, asked: _Question, cost: Fraction, sample: Callable[[], str]
    ) -> str:
        """Draw on the charge unless somebody else has, store, and return what is
        stored.
        """
        with self._account(dataset, write=True) as account:
            if account.due(asked, cost, accept=True):
                raise account.refusal(
                    f"no charge for plan {asked.plan!r} on data set {dataset!r}"
                )
            stored = account.find("answer", asked)
            if stored is not None:
                return str(stored.answer)
            drawn = sample()
            if not isinstance(drawn, str):
                raise TypeError(
                    f"sample must return a string, got {type(drawn).__name__}"
                )
            account.append("answer", **asked._asdict(), answer=drawn)
        return drawn  # which is on disk by now

    def record_exact(
        self,
        dataset: str,
        *,
        plan_digest: str,
        site: str,
        numbers: int,
        data_fingerprint: str,
        allow: Callable[[int, int], None],
    ) -> None:
        """Record that exact numbers leave, before they do; the data set needs no budget
        for it.

        The same plan with the same data again is the same answer, and not counted
        again. Any other counts all its numbers, also those that left before.

        Parameters
        ----------
        dataset : str
            What the data are called.
        plan_digest, site : str
            What is answered and by whom.
        numbers : int
            How many numbers leave.
        data_fingerprint : str
            What `fingerprint` says of the data. Data that are in this ledger under
            another name are refused.
        allow : callable
            Called under the lock with how many exact answers the data set has given
            before, and how many numbers in them. Raises what refuses one more; nothing
            is written then.

        Raises
        ------
        LedgerError
            If the data have another name in this ledger, or entries of it were lost.
        """
        asked = self._question(dataset, plan_digest, site, data_fingerprint)
        numbers = integer("numbers", numbers, low=1)
        with self._account(dataset, write=True) as account:
            account.check_name(asked.fingerprint)
            if account.find("exact", asked):
                return
            account.check_nothing_lost()
            given = [
                entry.numbers or 0 for entry in account.entries if entry.kind == "exact"
            ]
            allow(len(given), sum(given))
            account.append("exact", **asked._asdict(), numbers=numbers)

    def exact_answers(self, dataset: str) -> int:
        """Count the different exact answers that a data set has given over its life.

        Parameters
        ----------
        dataset : str
            What the data are called.

        Returns
        -------
        int
            Their number; 0 for a name that is not in the ledger.
        """
        with self._account(dataset) as account:
            return sum(entry.kind == "exact" for entry in account.entries)

    def has_answered(self, dataset: str, plan_digest: str) -> bool:
        """Return whether a data set was charged for a plan, or has answered it exactly.

        Parameters
        ----------
        dataset : str
            What the data are called.
        plan_digest : str
            The plan.

        Returns
        -------
        bool
            True for whatever site, and also if the answer was never drawn.
        """
        with self._account(dataset) as account:
            return any(entry.plan == plan_digest for entry in account.entries)

    def seal(
        self, dataset: str, *, plan_digest: str, site: str, data_fingerprint: str
    ) -> str:
        """Return the number and the seal of the entry that holds an answer, for the
        report.

        Parameters
        ----------
        dataset : str
            What the data are called.
        plan_digest, site, data_fingerprint : str
            What was answered, by whom and with which data; a plan that names its model
            has one answer.

        Returns
        -------
        str
            As `check` takes it: ``"7:"`` and 64 hexadecimal digits.
        """
        asked = [
            entry
            for entry in self.entries(dataset)
            if (entry.plan, entry.site) == (plan_digest, site)
        ]
        given = [entry for entry in asked if entry.kind in ("answer", "exact")]
        own = [
            entry
            for entry in given
            if entry.fingerprint == self.keyed_hash(data_fingerprint)
        ]
        last = (own or given)[-1]
        return f"{last.number}:{last.seal}"

    def check(self, seal: str | None = None) -> int:
        """Check the whole file, every page and every seal, as every other call does
        too.

        Parameters
        ----------
        seal : str, optional
            What `seal` returned before, as an earlier report has it: this ledger must
            still hold that entry.

        Returns
        -------
        int
            The number of entries.

        Raises
        ------
        LedgerError
            If anything was changed, added or lost.
        """
        entries = self.entries()
        if seal is not None and seal not in {
            f"{entry.number}:{entry.seal}" for entry in entries
        }:
            raise LedgerError(
                f"{self.path}: does not hold the entry {seal[:30]}...: an older copy"
                " was put back"
            )
        return len(entries)

    def generator(self, dataset: str, *names: str) -> np.random.Generator:
        """Return random numbers for randomized scores of a data set, the same whenever
        it is scored.

        They depend on this ledger's secret key, the names and the place of a record
        alone: no plan chooses them, repeating a round draws nothing new, and one record
        changes no other's score.

        Parameters
        ----------
        dataset, *names : str
            Name of the data, and what else tells these numbers from others, such as the
            score's name.

        Returns
        -------
        numpy Generator
            In its first state.
        """
        return keyed_generator(self._key, dataset, *names)

    def datasets(self) -> tuple[str, ...]:
        """List the data sets that have a budget.

        Returns
        -------
        tuple of str
            Their names, sorted.
        """
        return tuple(
            sorted(
                {entry.dataset for entry in self.entries() if entry.kind == "budget"}
            )
        )

    def budget(self, dataset: str) -> Fraction:
        """Return the total epsilon of a data set.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.

        Returns
        -------
        Fraction
            What all its answers together may cost.
        """
        with self._account(dataset) as account:
            return account.budget

    def spent(self, dataset: str) -> Fraction:
        """Return the sum of a data set's charges, answered or not.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.

        Returns
        -------
        Fraction
            The exact sum.
        """
        with self._account(dataset) as account:
            _ = account.budget  # must have been set
            return account.spent

    def remaining(self, dataset: str) -> Fraction:
        """Return the rest of a data set's budget.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.

        Returns
        -------
        Fraction
            The budget minus what was spent, exactly.
        """
        with self._account(dataset) as account:
            return account.budget - account.spent

    def entries(self, dataset: str | None = None) -> tuple[Entry, ...]:
        """Return the log: budgets with their reasons, charges, answers.

        Parameters
        ----------
        dataset : str or None
            One data set; None for all.

        Returns
        -------
        tuple of Entry
            Oldest first.
        """
        with self._account(dataset) as account:
            return tuple(account.entries)

    @contextmanager
    def _account(
        self, dataset: str | None = None, *, write: bool = False
    ) -> Iterator[_Account]:
        """Open an account in a transaction that is committed at the end, and undone by
        any exception.
        """
        with closing(LedgerFile(self.path, self.timeout)) as file:
            file.begin(write=write, seen=self._seen)
            yield _Account(file, dataset)
            file.commit()
        self._seen = file.seals[-1]

    def _question(
        self,
        dataset: str,
        plan_digest: str,
        site: str,
        data_fingerprint: str,
        accept: str | None = None,
    ) -> _Question:
        """Check what a site says of its question, and of the reason to accept other
        data.
        """
        _check_lines(
            dataset=dataset,
            plan_digest=plan_digest,
            site=site,
            data_fingerprint=data_fingerprint,
        )
        if accept is not None:
            _check_lines(accept=accept)
        return _Question(plan_digest, site, self.keyed_hash(data_fingerprint))

    def keyed_hash(self, text: str) -> str:
        """Return a hash that nobody can make without this file.

        Parameters
        ----------
        text : str
            What is to be known again.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def keyed_generator(key: bytes, *names: str) -> np.random.Generator:
    """Return random numbers that nobody can tell, or choose, without a secret key.

    Parameters
    ----------
    key : bytes
        The key.
    *names : str
        One line each; other names give independent numbers.

    Returns
    -------
    numpy Generator
        In its first state.
    """
    _check_lines(**{f"name {i}": name for i, name in enumerate(names)})
    text = "\n".join(("draws", *names))
    return np.random.default_rng(
        int(hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), 16)
    )


def fingerprint(scores: ArrayLike) -> str:
    """SHA-256 of the scores in any order, which any changed, added or lost score
    changes.

    Taken over the sorted little-endian float64 bytes; every NaN is the same, and so are
    0.0 and -0.0. It keeps no secret, as few or guessable scores can be found by trying:
    keep it at the site.

    Parameters
    ----------
    scores : array of float
        A site's scores.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> from fedconformal.privacy import fingerprint
    >>> fingerprint([1.0, 2.0]) == fingerprint([2.0, 1.0]), fingerprint(
    ...     [1.0]
    ... ) == fingerprint([1.5])
    (True, False)
    """
    values = np.sort(plain_array(scores, dtype="<f8"), axis=None)
    values[np.isnan(values)] = np.nan  # first: adding to a signalling NaN warns
    values += 0.0
    return hashlib.sha256(values.data).hexdigest()


def _exact_epsilon(value: float | Fraction) -> Fraction:
    """Read an epsilon as the decimal that was written."""
    return fraction("epsilon", value, high=1e6, closed=True)


def _check_lines(**values: object) -> None:
    """Check names and reasons: one line of text each."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a string, got {value!r}")
        if not value or not value.isprintable() or value != value.strip():
            raise ValueError(
                f"{name} must be one line of text without spaces around it, got"
                f" {value!r}"
            )
