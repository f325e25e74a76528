"""A site's privacy account on disk: what each data set may cost, what it has cost, and every answer given.

What it means to spend, and why no answer is ever given unpaid, stands in `_ledger_spending`. On disk means in
a file (`_ledger_file`) that holds a sealed log and an index of what it adds up to (`_ledger_log`, where it
stands what is checked at every call and what by `Ledger.check` alone).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np

from fedconformal._validation import integer
from fedconformal.privacy._ledger_accounts import exact_text
from fedconformal.privacy._ledger_entry import Entry
from fedconformal.privacy._ledger_file import create_file, warn_of_access
from fedconformal.privacy._ledger_log import End, Log, transaction
from fedconformal.privacy._ledger_question import Question, Quote, check_lines, exact_epsilon
from fedconformal.privacy._ledger_spending import charge, draw, record


class Ledger:
    """A site's privacy account in an existing file; ``Ledger.create`` makes a new one.

    Safe for any number of processes and threads, each with its own or with a shared Ledger: every call opens
    the file anew, checks what it reads there, and refuses if it is no longer the ledger that this object has
    seen. What a call costs does not grow with the number of answers given, but for `check`, `datasets` and
    `entries`, which read and check the whole.

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
        self._seen: End | None = None
        with self._log():
            pass
        warn_of_access(self.path)

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
        create_file(path, timeout)
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
        check_lines(dataset=dataset)
        budget = exact_epsilon(epsilon)
        with self._log(write=True) as log:
            old = log.accounts.known_budget(dataset)
            if old is None:
                log.append("budget", dataset, epsilon=exact_text(budget), reason="first budget")
            elif old != budget:
                raise log.accounts.refusal(
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
        check_lines(dataset=dataset, reason=reason)
        budget = exact_epsilon(epsilon)
        with self._log(write=True) as log:
            old = log.accounts.budget(dataset)
            if budget <= old:
                raise log.accounts.refusal(
                    f"the budget must be above {exact_text(old)}, got {exact_text(budget)}"
                )
            log.append("budget", dataset, epsilon=exact_text(budget), reason=reason)

    def accept_data(self, dataset: str, data_fingerprint: str, *, reason: str) -> None:
        """Go on with changed data under the old name, its budget and all that was spent of it.

        For records that were corrected, added or scored by another model: who is in both versions pays for
        both, so both draw on one budget. The earlier versions stay accepted.

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
        check_lines(dataset=dataset, data_fingerprint=data_fingerprint, reason=reason)
        with self._log(write=True) as log:
            keyed = log.keyed(data_fingerprint)
            log.accounts.budget(dataset)
            log.accounts.check_name(dataset, keyed)
            if not log.accounts.is_accepted(keyed):
                log.append("data", dataset, fingerprint=keyed, reason=reason)

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
        """The answer of this data set and site to this plan: stored, or drawn on a charge that is on disk.

        The data must be a version that the data set was charged for or that was accepted: other scores, of
        another model or of other records, are refused. For the same plan and data the stored answer comes
        back at no cost; otherwise epsilon must be at most what is left of the budget. A LedgerError means
        that nothing was given out; and nothing was charged or written, unless the charge was on disk and the
        disk failed afterwards.

        Parameters
        ----------
        dataset : str
            A data set whose budget was set.
        plan_digest, site : str
            What is answered and by whom; with ``dataset`` and the data they name the answer.
        epsilon : float or Fraction
            Its cost, read as the decimal that was written: three times 0.1 is 0.3.
        data_fingerprint : str
            What `fingerprint` says of the data; stored only as a hash with this ledger's key. Data that are
            in this ledger under another name are refused.
        sample : callable
            Draws the answer, a string, with privacy loss at most epsilon. It runs under the ledger's lock and
            must not fail for reasons that lie in the data, because its errors pass through; the charge then
            stays, and the next call draws on it.
        by_plan : bool
            Whether the plan alone says which data are meant, as one that names a model does: the stored
            answer then comes back whatever the fingerprint, and new data need not be accepted. A score that
            differs in its last bit on another machine must not cost epsilon again.
        accept : str, optional
            If the data have changed and the answer is charged, accept them for this reason, as `accept_data`
            does.

        Returns
        -------
        str
            The answer, which is on disk.

        Raises
        ------
        BudgetExceededError
            If too little is left of the budget.
        LedgerError
            If the data have changed, have another name in this ledger, the plan was charged another epsilon,
            or the file cannot be used.
        """
        asked = Question.of(dataset, plan_digest, site, data_fingerprint, by_plan, accept)
        cost = exact_epsilon(epsilon)
        stored = self._charge(asked, cost, accept)
        return self._draw(asked, cost, sample) if stored is None else stored

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
        """What `answer` would charge now, with the same refusals; nothing is charged, drawn or written.

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
        asked = Question.of(dataset, plan_digest, site, data_fingerprint, by_plan, accept)
        cost = exact_epsilon(epsilon)
        with self._log() as log:
            due = log.accounts.due(log.stored(asked), cost, accept=accept is not None)
            return Quote(due, log.accounts.budget(dataset) - log.accounts.spent(dataset))

    def _charge(self, question: Question, cost: Fraction, accept: str | None) -> str | None:
        """Give back the stored answer, or else make sure that a charge is on disk."""
        with self._log(write=True) as log:
            return charge(log, question, cost, accept)

    def _draw(self, question: Question, cost: Fraction, sample: Callable[[], str]) -> str:
        """Draw on the charge unless somebody else has, store, and return what is stored."""
        with self._log(write=True) as log:
            return draw(log, question, cost, sample)

    def record_exact(
        self,
        dataset: str,
        *,
        plan_digest: str,
        site: str,
        numbers: int,
        data_fingerprint: str,
        most: int,
    ) -> None:
        """Record that exact scores leave, before they do; the data set needs no budget for it.

        The same plan with the same data again is the same answer, and not counted again.

        Parameters
        ----------
        dataset : str
            What the data are called.
        plan_digest, site : str
            What is answered and by whom.
        numbers : int
            How many scores leave.
        data_fingerprint : str
            What `fingerprint` says of the data. Data that are in this ledger under another name are refused.
        most : int
            How many different exact answers the data set may give over its life.

        Raises
        ------
        LedgerError
            If it has given that many before; nothing is written then.
        """
        question = Question.of(dataset, plan_digest, site, data_fingerprint)
        numbers, most = integer("numbers", numbers, low=1), integer("most", most, low=0)
        with self._log(write=True) as log:
            record(log, question, numbers, most)

    def exact_answers(self, dataset: str) -> int:
        """How many different exact answers a data set has given over its life.

        Parameters
        ----------
        dataset : str
            What the data are called.

        Returns
        -------
        int
            Their number; 0 for a name that is not in the ledger.
        """
        with self._log() as log:
            return log.accounts.exact_answers(dataset)

    def has_answered(self, dataset: str, plan_digest: str) -> bool:
        """Whether a data set was charged for a plan, or has answered it exactly.

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
        with self._log() as log:
            return log.accounts.has_answered(dataset, plan_digest)

    def check(self) -> int:
        """Check the whole file: every page, every seal, and that all entries add up to what is used.

        Returns
        -------
        int
            The number of entries.

        Raises
        ------
        LedgerError
            If anything was changed, added or lost.
        """
        return len(self.entries())

    def generator(self, plan_digest: str, site: str) -> np.random.Generator:
        """Random numbers for randomized scores that are the same whenever this question is asked again.

        So an answer to it can be given again although its scores are random. They depend on this ledger's
        secret key, the plan and the site, and not on the data: one record changes no other's score.

        Parameters
        ----------
        plan_digest, site : str
            The question.

        Returns
        -------
        numpy Generator
            In its first state.
        """
        check_lines(plan_digest=plan_digest, site=site)
        with self._log() as log:
            return np.random.default_rng(int(log.keyed(f"draws {plan_digest} {site}"), 16))

    def datasets(self) -> tuple[str, ...]:
        """The data sets that have a budget, after a check of the whole ledger.

        Returns
        -------
        tuple of str
            Their names, sorted.
        """
        with self._log() as log:
            names = {entry.dataset for entry in log.entries()}
            return tuple(sorted(name for name in names if log.accounts.known_budget(name) is not None))

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
            return log.accounts.budget(dataset)

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
            return log.accounts.spent(dataset)

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
            return log.accounts.budget(dataset) - log.accounts.spent(dataset)

    def left_after(
        self, dataset: str, *, plan_digest: str, site: str, data_fingerprint: str, by_plan: bool = False
    ) -> tuple[Fraction, Fraction]:
        """What a data set's budget was, and what was left of it, right after an answer was charged.

        What has happened since does not count, so that an answer that is given again says the same.

        Parameters
        ----------
        dataset : str
            As for `answer`, like all that follow.
        plan_digest, site : str
            What was answered and by whom.
        data_fingerprint : str
            What `fingerprint` says of the data.
        by_plan : bool
            Whether the plan alone says which data are meant.

        Returns
        -------
        granted, left : Fraction
            The budget then, and the same minus all charges up to that one.

        Raises
        ------
        LedgerError
            If there is no such charge.
        """
        asked = Question.of(dataset, plan_digest, site, data_fingerprint, by_plan, None)
        with self._log() as log:
            return log.accounts.left_after(log.stored(asked))

    def entries(self, dataset: str | None = None) -> tuple[Entry, ...]:
        """The log: budgets with their reasons, charges, answers; after a check of the whole ledger.

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
            return tuple(entry for entry in log.entries() if dataset in (None, entry.dataset))

    @contextmanager
    def _log(self, *, write: bool = False) -> Iterator[Log]:
        """The log in a transaction that is committed at the end, and undone by any exception."""
        with transaction(self.path, self.timeout, seen=self._seen, write=write) as log:
            yield log
        self._seen = log.end
