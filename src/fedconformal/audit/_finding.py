"""What an auditor says of one claim."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One claim, what was found, and whether it holds.

    Attributes
    ----------
    claim : str
        What is claimed.
    found : str
        What was found instead, or in support of it.
    holds : bool or None
        Whether the claim holds; None if this auditor does not know how to count it, or it takes too long.

    Examples
    --------
    >>> import fedconformal as fc
    >>> findings = fc.audit.verify(fc.conformalize({"A": range(40), "B": range(60)}))
    >>> all(finding.holds for finding in findings)
    True
    """

    claim: str
    found: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """A word for a table."""
        return "not counted" if self.holds is None else "yes" if self.holds else "NO"

    def as_dict(self) -> dict[str, object]:
        """For machines.

        Returns
        -------
        dict
            ``claim``, ``found`` and ``holds``.
        """
        return {"claim": self.claim, "found": self.found, "holds": self.holds}
