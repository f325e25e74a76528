"""What a ledger is asked: a plan, put to a site's data; and what the answer would cost."""

from fractions import Fraction
from typing import NamedTuple, Self

from fedconformal._validation import fraction


class Question(NamedTuple):
    """A plan, put to a site's data; once `Log.stored` has seen it, the fingerprint as it is stored."""

    dataset: str
    plan: str
    site: str
    fingerprint: str
    by_plan: int = 0

    @classmethod
    def of(
        cls,
        dataset: str,
        plan_digest: str,
        site: str,
        data_fingerprint: str,
        by_plan: bool = False,
        accept: str | None = None,
    ) -> Self:
        """Check what a site says of its question, and of the reason to accept other data; not stored yet."""
        check_lines(dataset=dataset, plan_digest=plan_digest, site=site, data_fingerprint=data_fingerprint)
        if accept is not None:
            check_lines(accept=accept)
        return cls(dataset, plan_digest, site, data_fingerprint, int(by_plan))

    @property
    def name(self) -> tuple[str, ...]:
        """What its answer is stored under."""
        asked = (self.dataset, self.plan, self.site)
        return ("by plan", *asked) if self.by_plan else ("by data", *asked, self.fingerprint)


class Quote(NamedTuple):
    """What an answer would cost.

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
    ...     quote = ledger.quote("2024", plan_digest="p", site="A", epsilon=1, data_fingerprint=data)
    >>> float(quote.cost), float(quote.remaining)
    (1.0, 3.0)
    """

    cost: Fraction
    remaining: Fraction


def check_lines(**values: object) -> None:
    """Check names and reasons: one line of text each."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a string, got {value!r}")
        if not value or not value.isprintable() or value != value.strip():
            raise ValueError(f"{name} must be one line of text without spaces around it, got {value!r}")


def exact_epsilon(value: float | Fraction) -> Fraction:
    """Read an epsilon as the decimal that was written."""
    return fraction("epsilon", value, high=1e6, closed=True)
