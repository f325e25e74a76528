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

On disk means in a file (`_ledger_file`) that holds a sealed log (`_ledger_log`).
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._validation import fraction
from fedconformal.privacy._ledger_file import LedgerError, LedgerFile
from fedconformal.privacy._ledger_log import Entry, Log, Question, exact_text


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


class Ledger:
    """A site's privacy account in an existing file; ``Ledger.create`` makes a new one.

    Safe for any number of processes and threads, each with its own or with a shared Ledger: every call opens
    the file anew, checks all of it, and refuses if it is no longer the ledger that this object has seen.

    Parameters
    ----------
    path : str or path-like
        A file on a local disk. If it is not there that is an error: a mistyped name is no fresh budget.
    timeout : float
        Seconds to wait for another process's lock.

    Raises
    ------
    LedgerError
        If the file cannot be opened, is not a ledger, or was damaged.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        self.path = Path(path).absolute()
        self.timeout = timeout
        self._seen: str | None = None
        with self._log():
            pass

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, timeout: float = 10.0) -> Self:
        """Make a new, empty ledger, readable by its owner only. A file that is there is never replaced.

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
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise LedgerError(f"{path}: a ledger cannot be created here ({error.strerror})") from None
        with closing(LedgerFile(Path(path).absolute(), timeout)) as file:
            file.initialize(secrets.token_hex(32))
        return cls(path, timeout=timeout)

    def set_budget(self, dataset: str, epsilon: float | Fraction) -> None:
        """Set a data set's total epsilon, once. The same again changes nothing; another one is refused.

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
        budget = _epsilon(epsilon)
        with self._log(write=True) as log:
            old = log.budgets.get(dataset)
            if old is None:
                log.append("budget", dataset, epsilon=exact_text(budget), reason="first budget")
            elif old != budget:
                raise log.refusal(
                    f"the budget of data set {dataset!r} is {exact_text(old)}: see raise_budget"
                )

    def raise_budget(self, dataset: str, epsilon: float | Fraction, *, reason: str) -> None:
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
        budget = _epsilon(epsilon)
        with self._log(write=True) as log:
            old = log.budget(dataset)
            if budget <= old:
                raise log.refusal(f"the budget must be above {exact_text(old)}, got {exact_text(budget)}")
            log.append("budget", dataset, epsilon=exact_text(budget), reason=reason)

    def accept_data(self, dataset: str, data_fingerprint: str, *, reason: str) -> None:
        """Go on with changed data under the old name, its budget and all that was spent of it.

        For records that were corrected, added or scored by another model: who is in both versions pays for
        both, so both draw on one budget.

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
            If no budget was set.
        """
        _check_lines(dataset=dataset, data_fingerprint=data_fingerprint, reason=reason)
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
        dataset : str
            A data set whose budget was set.
        plan_digest, site : str
            What is answered and by whom; with ``dataset`` and the data they name the answer.
        epsilon : float or Fraction
            Its cost, read as the decimal that was written: three times 0.1 is 0.3.
        data_fingerprint : str
            What `fingerprint` says of the data; stored only as a hash with this ledger's key.
        sample : callable
            Draws the answer, a string, with privacy loss at most epsilon. It runs under the ledger's lock and
            must not fail for reasons that lie in the data, because its errors pass through; the charge then
            stays, and the next call draws on it.

        Returns
        -------
        str
            The answer, which is on disk.

        Raises
        ------
        BudgetExceededError
            If too little is left of the budget.
        LedgerError
            If the data have changed, the plan was charged another epsilon, or the file cannot be used.
        """
        _check_lines(dataset=dataset, plan_digest=plan_digest, site=site, data_fingerprint=data_fingerprint)
        question, cost = Question(dataset, plan_digest, site, data_fingerprint), _epsilon(epsilon)
        stored = self._charge(question, cost)
        return self._draw(question, cost, sample) if stored is None else stored

    def _charge(self, question: Question, cost: Fraction) -> str | None:
        """Give back the stored answer, or else make sure that a charge is on disk."""
        dataset = question.dataset
        with self._log(write=True) as log:
            asked = log.keyed_question(question)
            if not log.is_charged(asked, cost):
                spent, budget = log.spent(dataset), log.budget(dataset)
                if spent + cost > budget:
                    raise BudgetExceededError(self.path, dataset, spent, cost, budget)
                log.append("charge", **asked._asdict(), epsilon=exact_text(cost))
            return log.answers.get(asked)

    def _draw(self, question: Question, cost: Fraction, sample: Callable[[], str]) -> str:
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
        """The data sets that have a budget.

        Returns
        -------
        tuple of str
            Their names, sorted.
        """
        with self._log() as log:
            return tuple(sorted(log.budgets))

    def budget(self, dataset: str) -> Fraction:
        """The total epsilon of a data set.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.

        Returns
        -------
        Fraction
            What all its answers together may cost.
        """
        with self._log() as log:
            return log.budget(dataset)

    def spent(self, dataset: str) -> Fraction:
        """The sum of a data set's charges, answered or not.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.

        Returns
        -------
        Fraction
            The exact sum.
        """
        with self._log() as log:
            return log.spent(dataset)

    def remaining(self, dataset: str) -> Fraction:
        """What is left of a data set's budget.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.

        Returns
        -------
        Fraction
            The budget minus what was spent, exactly.
        """
        with self._log() as log:
            return log.budget(dataset) - log.spent(dataset)

    def entries(self, dataset: str | None = None) -> tuple[Entry, ...]:
        """The log: budgets with their reasons, charges, answers.

        Parameters
        ----------
        dataset : str or None
            One data set; None for all.

        Returns
        -------
        tuple of Entry
            Oldest first.
        """
        with self._log() as log:
            return tuple(entry for entry in log.entries if dataset in (None, entry.dataset))

    @contextmanager
    def _log(self, *, write: bool = False) -> Iterator[Log]:
        """The checked log in a transaction that is committed at the end, and undone by any exception."""
        with closing(LedgerFile(self.path, self.timeout)) as file:
            file.check()
            file.run("BEGIN IMMEDIATE" if write else "BEGIN")
            log = Log(file)
            if self._seen is not None and self._seen not in log.seals:
                raise log.refusal("not the ledger that was opened, or an older copy of it")
            if write:
                # A write lock is granted even if the file is read-only or was moved; only writing tells.
                file.run("UPDATE head SET writes = writes + 1")
            yield log
            file.run("COMMIT")
            self._seen = log.seals[-1]


def fingerprint(scores: ArrayLike) -> str:
    """SHA-256 of the scores in any order, which any changed, added or lost score changes.

    Taken over the sorted little-endian float64 bytes; every NaN is the same, and so are 0.0 and -0.0. It
    keeps no secret, as few or guessable scores can be found by trying: keep it at the site.

    Parameters
    ----------
    scores : array of float
        A site's scores.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    values = np.sort(np.asarray(scores, dtype="<f8"), axis=None)
    values += 0.0
    values[np.isnan(values)] = np.nan
    return hashlib.sha256(values.data).hexdigest()


def _check_lines(**values: object) -> None:
    """Check names and reasons: one line of text each."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a string, got {value!r}")
        if not value or not value.isprintable() or value != value.strip():
            raise ValueError(f"{name} must be one line of text without spaces around it, got {value!r}")


def _epsilon(value: float | Fraction) -> Fraction:
    return fraction("epsilon", value, high=1e6, closed=True)
