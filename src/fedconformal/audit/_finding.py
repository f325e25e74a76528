"""Findings of an audit, and the limit on its work."""

from dataclasses import dataclass

MOST_OPERATIONS = 10**10
"""Arithmetic operations, estimated from the sizes of a calibration, up to which its claims are recomputed."""


class NotVerifiableError(ValueError):
    """A claim that this auditor cannot recompute, and the reason."""


@dataclass(frozen=True)
class Finding:
    """One claim, and whether it holds.

    Attributes
    ----------
    claim : str
        The claim.
    detail : str
        Evidence for it or against it, or the reason why it was not verified.
    holds : bool or None
        True if the claim holds, False if it does not, None if it was not verified.

    Examples
    --------
    >>> from fedconformal.audit import Finding
    >>> Finding("mean coverage is at least the level", "0.90017", True).verdict
    'yes'
    """

    claim: str
    detail: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """The word that tables show."""
        return "not verified" if self.holds is None else "yes" if self.holds else "NO"

    def as_dict(self) -> dict[str, str | bool | None]:
        """Return the finding as JSON has it.

        Returns
        -------
        dict
            ``claim``, ``detail`` and ``holds``.
        """
        return {"claim": self.claim, "detail": self.detail, "holds": self.holds}


class Work:
    """Counter of the operations of one audit, so that a hostile file cannot keep an auditor busy.

    Parameters
    ----------
    limit : float
        Number of operations that may be spent.
    """

    def __init__(self, limit: float = MOST_OPERATIONS) -> None:
        self._remaining = limit

    def spend(self, operations: float) -> None:
        """Count operations before they are done.

        Parameters
        ----------
        operations : float
            Estimated number.

        Raises
        ------
        NotVerifiableError
            If that is more than remains.
        """
        if operations > self._remaining:
            raise NotVerifiableError("too large")
        self._remaining -= operations
