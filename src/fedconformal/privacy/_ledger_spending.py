"""The only way to spend: an answer is charged, then drawn; an exact one is recorded before it leaves.

Pure differential privacy, basic composition: answers to different plans on one data set add their epsilons,
and the same answer given again costs nothing. Exact answers have no epsilon: they are counted, and their
number is bounded. `Ledger.answer` makes two transactions in one SQLite file, and the argument rests on their
order:

1. *Charge.* Under the write lock: give back a stored answer; or refuse; or write the charge and commit. The
   commit returns once the charge is on disk (`_ledger_file`), so a sample is never drawn on a charge that can
   be lost.
2. *Draw.* Under the write lock again: if another process has stored the answer meanwhile, return that one;
   else draw the sample, store it, commit, and only then return it. The lock is held while drawing, so one
   sample is drawn at a time, one is stored, and everybody returns the stored one.

A process killed in 1 leaves all of the charge or nothing of it, and no sample. Killed in 2 it leaves a charge
without an answer, which is never refunded, and the next call for the same plan draws on it without a second
one. This is safe because a sample leaves `Ledger.answer` only after it is stored: a lost sample was seen by
nobody, and exactly one answer is released per charge. The operating system drops the lock of a dead process.
Not covered: somebody who learns the sample inside the process (or from the time it took) and kills the
process until they like it; an old copy of the file put back between two runs; disks without working locks.
"""

from collections.abc import Callable
from fractions import Fraction

from fedconformal._text import count
from fedconformal.privacy._ledger_accounts import exact_text
from fedconformal.privacy._ledger_log import Log
from fedconformal.privacy._ledger_question import Question


def charge(log: Log, question: Question, cost: Fraction, accept: str | None) -> str | None:
    """Give back the stored answer, or else write a charge, if there is none yet."""
    asked, changed = log.stored(question), log.accounts.is_changed
    if log.accounts.due(asked, cost, accept=accept is not None):
        if accept is not None and changed(asked.dataset, asked.fingerprint):
            log.append("data", asked.dataset, fingerprint=asked.fingerprint, reason=accept)
        log.append("charge", **asked._asdict(), epsilon=exact_text(cost))
    return log.answer(asked)


def draw(log: Log, question: Question, cost: Fraction, sample: Callable[[], str]) -> str:
    """Draw on the charge unless somebody else has, store, and return what is stored."""
    asked = log.stored(question)
    if log.accounts.due(asked, cost, accept=True):
        raise log.accounts.refusal(f"no charge for plan {asked.plan!r} on data set {asked.dataset!r}")
    answer = log.answer(asked)
    if answer is None:
        answer = sample()
        if not isinstance(answer, str):
            raise TypeError(f"sample must return a string, got {type(answer).__name__}")
        log.append("answer", **asked._asdict(), answer=answer)
    return answer


def record(log: Log, question: Question, numbers: int, most: int) -> None:
    """Write that exact scores leave, unless they did before; refuse one answer too many."""
    asked = log.stored(question)
    log.accounts.check_name(asked.dataset, asked.fingerprint)
    if log.accounts.is_recorded(asked):
        return
    given = log.accounts.exact_answers(asked.dataset)
    if given >= most:
        raise log.accounts.refusal(
            f"data set {asked.dataset!r} has given {count(given, 'exact answer')} of at most {most}: more "
            "need a larger max_answers in the site's policy"
        )
    log.append("exact", **asked._asdict() | {"by_plan": None}, numbers=numbers)
