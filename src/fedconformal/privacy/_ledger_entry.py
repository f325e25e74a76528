"""One line of a ledger's log."""

from typing import NamedTuple


class Entry(NamedTuple):
    """One line of the log.

    Parameters
    ----------
    number : int
        Which line; 1 is the first.
    time : str
        When it was written, in UTC.
    kind : str
        ``"budget"`` (set or raised), ``"data"`` (accepted), ``"charge"``, ``"answer"``, or ``"exact"`` (an
        answer without noise).
    dataset : str
        The data set that it is about.
    plan, site : str or None
        What was answered and by whom, of charges and answers.
    by_plan : int or None
        Of charges and their answers, 1 if these three name the answer, 0 if it takes the fingerprint too.
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
